"""gRPC status codes and the one error that carries them (pure)."""

from enum import IntEnum

__all__ = ["Code", "StatusError"]


class Code(IntEnum):
    """The status codes of gRPC, with their published numbers."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16

    @property
    def go_name(self) -> str:
        """The name as Go programs print it, and so as it stands in a kubelet's messages: ``NotFound``."""
        if self in (Code.OK, Code.CANCELLED):
            return "OK" if self is Code.OK else "Canceled"
        return "".join(word.capitalize() for word in self.name.split("_"))


class StatusError(Exception):
    """A call that ended with a code other than OK. Handlers raise it, clients receive it.

    ``str()`` gives the text that a Go client prints, because it becomes part of events and status messages.
    """

    def __init__(self, code: Code, details: str = "") -> None:
        if code is Code.OK:
            raise ValueError("OK is not an error")
        super().__init__(code, details)
        self.code = code
        self.details = details

    def __str__(self) -> str:
        return f"rpc error: code = {self.code.go_name} desc = {self.details}"
