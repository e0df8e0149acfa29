"""The client side that all transports share: deadlines, recording, faults, encoding.

A transport adds two things to ``Channel``: how one request becomes one reply, and how a stream is
opened. All else lives here, so both transports treat it alike.

Deadlines are explicit. ``timeout_seconds`` runs on the node's clock and ends in StatusError
(DEADLINE_EXCEEDED), because a trio scope that expires around a call swallows the very error that its
caller has to see. An outer scope that is cancelled still works as anywhere in trio: the call is given
up, the handler is cancelled, trio.Cancelled goes on.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

import trio
from attrs import define
from google.protobuf.message import Message

from node_host.alarms import Alarms
from node_host.clock import NodeClock
from node_host.faults import Fault, FaultPlan
from node_host.loop import current_alarms
from trio_grpc.codes import Code, StatusError
from trio_grpc.method import Method, decode, encode, too_large

__all__ = ["MAX_RECEIVE_BYTES", "CallHook", "CallRecord", "Channel", "ItemStream", "RawStream", "expired"]

MAX_RECEIVE_BYTES = 16 * 1024 * 1024
"""The largest message either side accepts, as kubelet and runtimes set it."""

RequestT = TypeVar("RequestT", bound=Message)
ReplyT = TypeVar("ReplyT", bound=Message)


@define(kw_only=True, eq=False)
class CallRecord:
    """One call as a hook sees it. Fields are filled in as the call goes on; times are the node's elapsed
    seconds.
    """

    number: int
    """Counts the calls of one channel from 1, in the order of starting."""
    method: Method[Any, Any]
    request: Message
    timeout_seconds: float | None
    start_seconds: float
    request_data: bytes = b""
    """The request of a unary call as it goes over the wire."""
    end_seconds: float = math.nan
    reply: Message | None = None
    reply_data: bytes | None = None
    """The reply of a unary call as it came over the wire."""
    error: StatusError | None = None
    items: int = 0
    """How many items of a stream have been received."""
    fault: Fault | None = None
    """The fault that was injected into this call."""


class CallHook(Protocol):
    """Sees every call of a channel. Called in the loop, in order; must neither block nor raise."""

    def started(self, record: CallRecord) -> None:
        """The request is about to be sent."""
        ...

    def item(self, record: CallRecord, message: Message) -> None:
        """One item of a stream has been received."""
        ...

    def finished(self, record: CallRecord) -> None:
        """The call is over: ``reply`` or ``error`` is set, or neither for a stream that ended well.

        A call given up by its caller has error CANCELLED.
        """
        ...


class RawStream(Protocol):
    """A stream of encoded items as a transport gives it."""

    async def receive(self) -> bytes | None:
        """The next item, or None at the end. Raises StatusError when the stream failed."""
        ...

    def close(self) -> None:
        """Give the stream up; the handler is cancelled. Twice is once."""
        ...


class Channel(ABC):
    """A connection to one server, which need not be there yet: each call tries anew.

    ``hooks`` see every call. ``faults`` are injected into calls, and ``on_crash`` is called where the
    plan has the peer crash. ``clock`` gives the times of records (by default trio's own time).
    """

    def __init__(
        self,
        *,
        hooks: Sequence[CallHook] = (),
        faults: FaultPlan | None = None,
        on_crash: Callable[[], None] | None = None,
        clock: NodeClock | None = None,
        max_receive_bytes: int = MAX_RECEIVE_BYTES,
    ) -> None:
        self._hooks = tuple(hooks)
        self._faults = faults
        self._on_crash = on_crash
        self._elapsed_seconds = clock.elapsed_seconds if clock is not None else trio.current_time
        self._max_receive_bytes = max_receive_bytes
        self._calls = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @abstractmethod
    async def aclose(self) -> None:
        """Give up all calls and let go of the connection."""

    @abstractmethod
    async def _exchange(self, path: str, request: bytes, deadline: float, alarms: Alarms | None) -> bytes:
        """One unary call. Raises StatusError. Cancelled from outside it gives the call up at once.

        With ``alarms``, the call has to end itself at the deadline, in ``expired()``; without, the
        caller sees to it.
        """

    @abstractmethod
    def _open(self, path: str, request: bytes, deadline: float) -> RawStream:
        """Start a streaming call. Never raises for the peer's sake; errors come on receiving."""

    async def unary(
        self,
        method: Method[RequestT, ReplyT],
        request: RequestT,
        *,
        timeout_seconds: float | None = None,
    ) -> ReplyT:
        """Call a unary method. Raises StatusError; a timeout of zero or less has passed before anything
        is sent.
        """
        sent = encode(request)
        record = self._begin(method, request, timeout_seconds, sent) if self._hooks else None
        try:
            if timeout_seconds is None:
                data = await self._attempt(method, sent, math.inf, record)
            elif timeout_seconds > 0:
                deadline = trio.current_time() + timeout_seconds
                data = await self._until(method, sent, deadline, record)
            else:
                raise expired()
            if len(data) > self._max_receive_bytes:
                raise too_large(len(data), self._max_receive_bytes)
            reply = decode(method.reply_type, data)
        except BaseException as problem:
            if record is not None:
                self._end(record, problem)
            raise
        if record is not None:
            record.reply = reply
            record.reply_data = data
            self._end(record, None)
        return reply

    async def _until(
        self, method: Method[Any, Any], request: bytes, deadline: float, record: CallRecord | None
    ) -> bytes:
        """An attempt that ends in DEADLINE_EXCEEDED when the deadline has passed.

        An alarm of our own clocks does it at a fraction of a cancel scope's cost; faults and foreign
        clocks need the scope.
        """
        alarms = current_alarms() if self._faults is None or not self._faults.active else None
        if alarms is not None:
            return await self._exchange(method.path, request, deadline, alarms)
        data = b""
        with trio.CancelScope(deadline=deadline) as scope:
            data = await self._attempt(method, request, deadline, record)
        if scope.cancelled_caught:
            raise expired()
        return data

    def stream(
        self,
        method: Method[RequestT, ReplyT],
        request: RequestT,
        *,
        timeout_seconds: float | None = None,
    ) -> "ItemStream[ReplyT]":
        """Call a method that streams. The call starts on entering the result as an async context."""
        return ItemStream(self, method, request, timeout_seconds)

    async def _attempt(
        self, method: Method[Any, Any], request: bytes, deadline: float, record: CallRecord | None
    ) -> bytes:
        faults = self._faults
        fault = faults.next(method.name) if faults is not None and faults.active else None
        if fault is None:
            return await self._exchange(method.path, request, deadline, None)
        if record is not None:
            record.fault = fault
        await self._suffer(fault)
        if fault.kind == "duplicate":
            with suppress(StatusError):  # the answer that got lost; the peer has acted all the same
                await self._exchange(method.path, request, deadline, None)
        data = await self._exchange(method.path, request, deadline, None)
        if fault.kind == "lost":
            if fault.code is None:
                await _silence(fault)
            raise _injected(fault)
        if fault.kind == "crash-after":
            self._crash(fault)
        return data

    async def _suffer(self, fault: Fault) -> None:
        """The part of a fault that comes before the request is handed over. Raises StatusError for some."""
        await trio.lowlevel.checkpoint()
        if fault.kind == "error":
            raise _injected(fault)
        if fault.kind == "delay":
            await trio.sleep(fault.seconds)
        elif fault.kind == "hang":
            await _silence(fault)
        elif fault.kind == "crash":
            self._crash(fault)

    def _crash(self, fault: Fault) -> None:
        if self._on_crash is not None:
            self._on_crash()
        raise StatusError(Code.UNAVAILABLE, fault.details or "error reading from server: EOF")

    def _begin(
        self, method: Method[Any, Any], request: Message, timeout_seconds: float | None, sent: bytes = b""
    ) -> CallRecord:
        self._calls += 1
        record = CallRecord(
            number=self._calls,
            method=method,
            request=request,
            timeout_seconds=timeout_seconds,
            start_seconds=self._elapsed_seconds(),
            request_data=sent,
        )
        for hook in self._hooks:
            hook.started(record)
        return record

    def _end(self, record: CallRecord, problem: BaseException | None) -> None:
        record.end_seconds = self._elapsed_seconds()
        if isinstance(problem, StatusError):
            record.error = problem
        elif problem is not None:
            record.error = StatusError(Code.CANCELLED, "context canceled")
        for hook in self._hooks:
            hook.finished(record)


class ItemStream(Generic[ReplyT]):
    """A stream from the server: an async context, and inside it an async iterator of messages.

    Errors are raised on receiving. Leaving the context gives the stream up; the handler is cancelled.
    """

    def __init__(
        self, channel: Channel, method: Method[Any, ReplyT], request: Message, timeout_seconds: float | None
    ) -> None:
        self._channel = channel
        self._method = method
        self._request = request
        self._timeout_seconds = timeout_seconds
        self._deadline = math.inf
        self._raw: RawStream | None = None
        self._fault: Fault | None = None
        self._record: CallRecord | None = None
        self._entered = False
        self._over = False

    async def __aenter__(self) -> Self:
        if self._entered:
            raise RuntimeError("a stream can be entered once")
        await trio.lowlevel.checkpoint_if_cancelled()
        self._entered = True
        channel = self._channel
        if self._timeout_seconds is not None:
            self._deadline = trio.current_time() + self._timeout_seconds
        if channel._hooks:
            self._record = channel._begin(self._method, self._request, self._timeout_seconds)
        if channel._faults is not None and channel._faults.active:
            self._fault = channel._faults.next(self._method.name)
        if self._fault is None:
            self._open()
        elif self._record is not None:
            self._record.fault = self._fault
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish(StatusError(Code.CANCELLED, "context canceled"))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReplyT:
        if self._over or not self._entered:
            raise StopAsyncIteration
        try:
            data = await self._next_data()
            if data is not None:
                if len(data) > self._channel._max_receive_bytes:
                    raise too_large(len(data), self._channel._max_receive_bytes)
                message = decode(self._method.reply_type, data)
            else:
                message = None
        except StatusError as problem:
            self._finish(problem)
            raise
        if message is None:
            self._finish(None)
            raise StopAsyncIteration
        if self._record is not None:
            self._record.items += 1
            for hook in self._channel._hooks:
                hook.item(self._record, message)
        return message

    async def _next_data(self) -> bytes | None:
        data: bytes | None = None
        with trio.CancelScope(deadline=self._deadline) as scope:
            if self._raw is None:
                await self._open_with_fault()
            assert self._raw is not None
            data = await self._raw.receive()
        if scope.cancelled_caught:
            raise expired()
        return data

    def _open(self) -> None:
        self._raw = self._channel._open(self._method.path, encode(self._request), self._deadline)

    async def _open_with_fault(self) -> None:
        """Faults of a stream come before its first item; ``lost`` and ``crash-after`` come after the
        opening.
        """
        fault = self._fault
        if fault is not None:
            await self._channel._suffer(fault)
        self._open()
        if fault is not None and fault.kind == "crash-after":
            self._channel._crash(fault)
        if fault is not None and fault.kind == "lost":
            if fault.code is not None:
                raise _injected(fault)
            await _silence(fault)

    def _finish(self, problem: StatusError | None) -> None:
        if self._over:
            return
        self._over = True
        if self._raw is not None:
            self._raw.close()
        if self._record is not None:
            self._channel._end(self._record, problem)


async def _silence(fault: Fault) -> None:
    """Wait for an answer that never comes; raises UNAVAILABLE once the connection is given up."""
    if not fault.seconds:
        await trio.sleep_forever()
    await trio.sleep(fault.seconds)
    raise StatusError(Code.UNAVAILABLE, "error reading from server: EOF")


def expired() -> StatusError:
    """The answer to a call whose deadline has passed."""
    return StatusError(Code.DEADLINE_EXCEEDED, "context deadline exceeded")


def _injected(fault: Fault) -> StatusError:
    return StatusError(Code[fault.code or "UNKNOWN"], fault.details)
