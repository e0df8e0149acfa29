"""The node's disk as the runtime sees it: the files that were handed in, and a knob that fills them up."""

import errno
import os
from typing import NoReturn, cast

from cri_fake.store.faults import Kind, Refused
from node_host.files import Files
from node_host.filestat import os_error

__all__ = ["Disk"]

_UNTOUCHED = ("read", "list", "remove", "remove_tree", "exists", "stat", "read_link", "rename", "chmod")
_GROWING = ("write", "append", "make_dirs", "symlink")


class _View:
    """An object with the methods of Files, set one by one: a disk with room costs nothing."""


class Disk:
    """The files that were handed in. ``files`` are the same, but refuse to grow while ``full``."""

    def __init__(self, files: Files) -> None:
        self._inner = files
        self._view = _View()
        self.full = False
        for name in _UNTOUCHED:
            setattr(self._view, name, getattr(files, name))
        self.set_full(False)

    @property
    def files(self) -> Files:
        return cast("Files", self._view)

    def set_full(self, full: bool) -> None:
        """Let every write fail with ENOSPC, or no longer."""
        self.full = full
        for name in _GROWING:
            setattr(self._view, name, _refuse if full else getattr(self._inner, name))

    def check(self, what: str) -> None:
        """Refuse to make something while there is no room.

        Raises:
            Refused: the disk is full; the text begins with ``what``.
        """
        if self.full:
            raise Refused(Kind.UNKNOWN, f"{what}: {os.strerror(errno.ENOSPC).lower()}")


def _refuse(*arguments: object, **_: object) -> NoReturn:
    """Where a new file or more bytes would go. ``symlink`` names its path last, the others first."""
    paths = [each for each in arguments if isinstance(each, str)]
    raise os_error(errno.ENOSPC, paths[-1] if paths else "/")
