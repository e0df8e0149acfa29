"""What a contract says about calls: methods, services, and the handlers that serve them."""

import errno
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, ClassVar, Generic, TypeVar, cast

import trio
from attrs import field, frozen
from google.protobuf.message import DecodeError, Message

from trio_grpc.codes import Code, StatusError

__all__ = ["Bound", "Call", "Handler", "Method", "Service", "bind", "unimplemented"]

RequestT = TypeVar("RequestT", bound=Message)
ReplyT = TypeVar("ReplyT", bound=Message)
MessageT = TypeVar("MessageT", bound=Message)


@frozen(eq=False)
class Method(Generic[RequestT, ReplyT]):
    """One method of a contract: unary, or streaming from the server."""

    service: str
    """Full name: ``runtime.v1.RuntimeService``."""
    name: str
    request_type: type[RequestT]
    reply_type: type[ReplyT]
    streaming: bool = False
    path: str = field(init=False)
    """As on the wire: ``/runtime.v1.RuntimeService/Version``."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "path", f"/{self.service}/{self.name}")


@frozen(eq=False)
class Service:
    """A service of a contract with its methods in the contract's order."""

    name: str
    methods: tuple[Method[Any, Any], ...]


@frozen
class Call:
    """What a handler learns about a call besides its request."""

    method: Method[Any, Any]
    deadline: float = math.inf
    """When the caller stops waiting, in trio's time; infinite where it said nothing."""

    def remaining_seconds(self) -> float:
        """Time left until the caller stops waiting, never negative."""
        return max(0.0, self.deadline - trio.current_time())


class Handler:
    """Base of all generated handler classes. A subclass may serve several contracts by inheriting from each.

    A method takes the request and the ``Call`` and returns the reply, or is an async generator of items.
    It raises ``StatusError`` to refuse. A method that is not overridden answers UNIMPLEMENTED.
    """

    SERVICE: ClassVar[Service]


Unary = Callable[[Any, Call], Awaitable[Message]]
Streaming = Callable[[Any, Call], AsyncIterator[Message]]


@frozen(eq=False)
class Bound:
    """A method with the function that serves it."""

    method: Method[Any, Any]
    function: Callable[[Any, Call], Any]


def bind(handler: Handler) -> dict[str, Bound]:
    """All methods a handler serves, by path. Raises TypeError where it serves no contract at all."""
    services = [kind.__dict__["SERVICE"] for kind in type(handler).__mro__ if "SERVICE" in kind.__dict__]
    if not services:
        raise TypeError(f"{type(handler).__name__} inherits from no generated handler class")
    return {
        method.path: Bound(method, getattr(handler, method.name))
        for service in services
        for method in service.methods
    }


def unimplemented(method: Method[Any, Any]) -> StatusError:
    """The answer for a method of a known service that is not served, in the words of Go's server."""
    return StatusError(Code.UNIMPLEMENTED, f"method {method.name} not implemented")


def unknown_path(path: str) -> StatusError:
    """The answer for a path nobody has registered, in the words of Go's server."""
    service, _, name = path.removeprefix("/").partition("/")
    return StatusError(Code.UNIMPLEMENTED, f"unknown method {name} for service {service}")


def too_large(size: int, limit: int) -> StatusError:
    """The answer for a message over the receiver's limit, in the words of Go's library."""
    text = f"grpc: received message larger than max ({size} vs. {limit})"
    return StatusError(Code.RESOURCE_EXHAUSTED, text)


def too_many_streams(limit: int) -> StatusError:
    """The answer to a stream over the server's limit."""
    return StatusError(Code.RESOURCE_EXHAUSTED, f"the server carries {limit} streams already")


def not_listening(path: str) -> StatusError:
    """What a call gets where nobody listens, in the words of Go's library."""
    dial = f"dial unix {path}: connect: no such file or directory"
    return StatusError(Code.UNAVAILABLE, f'connection error: desc = "transport: Error while dialing: {dial}"')


def address_in_use(path: str) -> OSError:
    """What binding to the path of a live server raises."""
    return OSError(errno.EADDRINUSE, f"{os.strerror(errno.EADDRINUSE)}: another server listens on {path}")


def encode(message: Message) -> bytes:
    """The bytes of a message, the same in every process (maps are sorted)."""
    return message.SerializeToString(deterministic=True)


def decode(kind: type[MessageT], data: bytes) -> MessageT:
    """The message in these bytes. Raises StatusError (INTERNAL) when they are none."""
    try:
        return kind.FromString(data)
    except DecodeError as problem:
        text = f"grpc: error unmarshalling {kind.DESCRIPTOR.full_name}: {problem}"
        raise StatusError(Code.INTERNAL, text) from None


def as_status(problem: BaseException) -> StatusError:
    """What a caller gets to see of an exception that ended a handler.

    A StatusError, also when alone inside exception groups of the handler's own nurseries, crosses as it
    is (as a fresh object, for it leaves the handler's task); anything else becomes UNKNOWN, in the words
    of grpcio.
    """
    inner = problem
    while isinstance(inner, BaseExceptionGroup):
        inside = cast("BaseExceptionGroup[BaseException]", inner).exceptions
        if len(inside) != 1:
            break
        inner = inside[0]
    if isinstance(inner, StatusError):
        return StatusError(inner.code, inner.details)
    return StatusError(Code.UNKNOWN, f"Exception calling application: {inner}")


def check_reply(method: Method[Any, Any], reply: object) -> Message:
    """The reply, if it is of the method's type. Raises StatusError (INTERNAL) otherwise: a fault of the
    handler.
    """
    if not isinstance(reply, method.reply_type):
        wanted, got = method.reply_type.DESCRIPTOR.full_name, type(reply).__name__
        raise StatusError(Code.INTERNAL, f"handler of {method.name} returned {got}, not {wanted}")
    return cast("Message", reply)
