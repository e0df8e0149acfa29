"""Which programs there are: the emulated ones by name, a user's own, and what happens to all others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from cri_fake.process.proc import Proc

__all__ = ["Program", "Programs", "StartFailed", "opaque"]

Program: TypeAlias = "Callable[[Proc], Awaitable[int | None]]"
"""An async function that is a program: it runs as the process it is given and returns the exit code (None is
0).
"""


class StartFailed(Exception):
    """A process could not be started; nothing of it has run.

    ``exit_code`` and ``message`` are what containerd reports with runc underneath (CRI-042, CRI-110). For an
    exec the service puts ``failed to exec in container: failed to start exec "ID": `` in front.
    """

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.message = message


async def opaque(proc: Proc) -> int:
    """A program that is not emulated: runs until it is told to end or signalled, pid 1 or not."""
    return await proc.until_told()


class Programs:
    """The programs a container can run.

    ``opaque_unknown`` is for images that are not emulated: a command that exists nowhere runs as ``opaque``
    instead of failing. ``user`` maps a name (found through PATH) or an absolute path to a program, and wins
    over all others.
    """

    def __init__(self, *, opaque_unknown: bool = False, user: Mapping[str, Program] | None = None) -> None:
        self.opaque_unknown = opaque_unknown
        self._user: dict[str, Program] = dict(user or {})

    def add(self, name: str, program: Program) -> None:
        """Add a program under a name or an absolute path; it needs no file."""
        self._user[name] = program

    def user_program(self, name: str) -> Program | None:
        """A program added for exactly this name or path."""
        return self._user.get(name)

    def named(self, name: str) -> Program | None:
        """The program an executable of the image names (see ``images.executable``)."""
        return self._user.get(name) or _builtin(name)


_loaded: dict[str, Program] = {}


def _builtin(name: str) -> Program | None:
    if name not in _loaded:
        from cri_fake.process.applets.table import MODULES

        where = MODULES.get(name)
        if where is None:
            return None
        module, _, function = where.partition(":")
        _loaded[name] = getattr(import_module(f"cri_fake.process.{module}"), function)
    return _loaded[name]
