"""What a request to the runtime can be refused with, apart from any wire (pure).

The texts are those of containerd, because clients and people match on them; the kinds are the gRPC codes that
containerd maps its errors to (CRI-070): a few typed errors, and Unknown for everything else.
"""

from enum import StrEnum

from attrs import frozen

__all__ = ["IllegalTransition", "Kind", "Refusal", "Refused", "not_found"]


class Kind(StrEnum):
    """Names of the gRPC codes that the runtime answers with."""

    ABORTED = "ABORTED"
    CANCELLED = "CANCELLED"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    UNAVAILABLE = "UNAVAILABLE"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    UNKNOWN = "UNKNOWN"


@frozen
class Refusal:
    """An entry of a transition table: the event is refused with this text, by this rule."""

    text: str
    rule: str
    kind: Kind = Kind.UNKNOWN


class Refused(Exception):
    """Raised when a request cannot be granted; state is as it was. The service turns it into a status."""

    def __init__(self, kind: Kind, text: str, *, rule: str = "") -> None:
        self.kind = kind
        self.text = text
        self.rule = rule
        super().__init__(text)

    def wrapped(self, prefix: str) -> "Refused":
        """The same refusal with ``prefix: `` before its text, as Go code wraps errors."""
        return Refused(self.kind, f"{prefix}: {self.text}", rule=self.rule)


class IllegalTransition(Exception):
    """Raised for an event that nobody can cause in that state: a fault of this program."""

    def __init__(self, machine: str, state: str, event: str) -> None:
        self.machine = machine
        self.state = state
        self.event = event
        super().__init__(f"{machine}: event {event} is not possible in state {state}")


def not_found(text: str, *, rule: str = "CRI-070") -> Refused:
    """A NotFound whose text ends in containerd's ``not found``."""
    return Refused(Kind.NOT_FOUND, f"{text}: not found", rule=rule)
