"""The errors that cross a module border, all under one root.

Three families: a mistake of the caller (bad manifest, bad option, bad scenario), a failure of a peer
(runtime, plugin, API store) and a fault of this program (a violated invariant, an illegal transition).
"""

from collections.abc import Sequence

from attrs import frozen

__all__ = ["CallerError", "IllegalTransition", "InvariantViolated", "KubeletEmuError", "PeerError", "Problem"]


@frozen
class Problem:
    """One thing that is wrong with what a person gave.

    ``path`` is the place inside the object (``spec.containers[0].image``), ``file`` and ``line`` (1-based)
    the place in the input where known, ``hint`` what to do about it.
    """

    message: str
    path: str = ""
    file: str = ""
    line: int = 0
    hint: str = ""

    def __str__(self) -> str:
        place = self.file + (f":{self.line}" if self.file and self.line else "")
        where = f"{place}: " if place else ""
        what = f"{self.path}: {self.message}" if self.path else self.message
        return f"{where}{what}" + (f" ({self.hint})" if self.hint else "")


class KubeletEmuError(Exception):
    """Root of every error that this project raises on purpose."""


class CallerError(KubeletEmuError):
    """Raised when what was asked cannot be done as asked; carries all problems found, not only the first."""

    def __init__(self, problems: Sequence[Problem] | str) -> None:
        self.problems: tuple[Problem, ...] = (
            (Problem(problems),) if isinstance(problems, str) else tuple(problems)
        )
        super().__init__("\n".join(str(problem) for problem in self.problems))


class PeerError(KubeletEmuError):
    """Raised when a runtime, a plugin or the API store failed or broke its contract."""


class IllegalTransition(KubeletEmuError):
    """Raised by a state machine for an event that its table does not know in that state; nothing changed."""

    def __init__(self, machine: str, state: str, event: str) -> None:
        self.machine = machine
        self.state = state
        self.event = event
        super().__init__(f"{machine}: event {event} is not possible in state {state}")


class InvariantViolated(KubeletEmuError):
    """Raised when a named invariant does not hold; ``records`` are the trace records that prove it."""

    def __init__(self, invariant: str, message: str, records: Sequence[object] = ()) -> None:
        self.invariant = invariant
        self.records = tuple(records)
        super().__init__(f"{invariant}: {message}")
