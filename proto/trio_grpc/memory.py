"""The transport in memory: the same bytes and the same answers as over a socket, without threads and sockets.

Each message is serialised, and parsed on the other side, so no part ever sees another part's objects.
Handlers run in tasks of the server: workers, each in a cancel scope of its own, which take one call
after the other. Where no other task could run in between, the worker's step runs inside that of its caller
(``node_host.steps``), which changes nothing but the time it takes. A caller that gives up cancels the
worker's scope, and with it that worker; a server that closes answers all callers with UNAVAILABLE and
cancels all workers. Everything here happens in one thread and in an order that the seed of the run fixes.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import trio
import trio.lowlevel

from node_host.alarms import Alarm, Alarms
from node_host.loop import current_virtual_clock
from trio_grpc.channel import MAX_RECEIVE_BYTES, Channel, RawStream, expired
from trio_grpc.codes import Code, StatusError
from trio_grpc.dispatch import Dispatcher
from trio_grpc.method import Handler, address_in_use, not_listening
from trio_grpc.workers import Worker, Workers

__all__ = ["MemoryChannel", "MemoryServer", "MemorySockets"]

STREAM_WINDOW_ITEMS = 16
"""How many items of a stream may be under way before its handler has to wait."""

MAX_STREAMS = 64
"""How many streams one server carries at a time; one more is refused with RESOURCE_EXHAUSTED."""


class MemorySockets:
    """Which server listens on which path: what a folder of sockets is to the socket transport."""

    def __init__(self) -> None:
        self._servers: dict[str, MemoryServer] = {}
        self._changed = trio.Event()

    async def changed(self) -> None:
        """Wait until the next server begins or stops to listen."""
        await self._changed.wait()

    def find(self, path: str) -> "MemoryServer | None":
        """The server that listens on the path."""
        return self._servers.get(path)

    def paths(self) -> list[str]:
        """All paths with a listening server, sorted."""
        return sorted(self._servers)

    def bind(self, path: str, server: "MemoryServer") -> None:
        """Used by servers. Raises OSError (EADDRINUSE) where another one listens."""
        if path in self._servers:
            raise address_in_use(path)
        self._servers[path] = server
        self._tell()

    def unbind(self, path: str, server: "MemoryServer") -> None:
        """Used by servers; nothing happens where another one listens by now."""
        if self._servers.get(path) is server:
            del self._servers[path]
            self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()


class MemoryServer:
    """A server in memory. Add handlers, then enter it as an async context; it listens until that is left.

    ``on_failure(path, error)`` is told of every exception of a handler that is no StatusError; the
    caller gets UNKNOWN.
    """

    def __init__(
        self,
        path: str = "/run/memory.sock",
        *,
        sockets: MemorySockets | None = None,
        max_receive_bytes: int = MAX_RECEIVE_BYTES,
        max_streams: int = MAX_STREAMS,
        on_failure: Callable[[str, BaseException], None] | None = None,
    ) -> None:
        self.path = path
        self.sockets = sockets if sockets is not None else MemorySockets()
        self.dispatcher = Dispatcher(
            max_receive_bytes=max_receive_bytes, max_streams=max_streams, on_failure=on_failure
        )
        self._manager: Any = None
        self._workers: Workers | None = None

    def add(self, handler: Handler) -> None:
        """Serve the contracts of this handler. Raises ValueError for a method that is already served."""
        self.dispatcher.add(handler)

    @property
    def listening(self) -> bool:
        return self._workers is not None

    async def __aenter__(self) -> Self:
        if self._workers is not None:
            raise RuntimeError(f"the server on {self.path} is already listening")
        self.sockets.bind(self.path, self)
        self._manager = trio.open_nursery()
        self._workers = Workers(await self._manager.__aenter__())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        manager, self._manager = self._manager, None
        self.close()
        # Handlers' errors went to their callers; the body's own error is not this nursery's business.
        await manager.__aexit__(None, None, None)

    def close(self) -> None:
        """Stop at once, as a process that dies: callers get UNAVAILABLE, handlers are cancelled. Twice
        is once.
        """
        if self._workers is None:
            return
        workers, self._workers = self._workers, None
        self.sockets.unbind(self.path, self)
        workers.close(StatusError(Code.UNAVAILABLE, "error reading from server: EOF"))

    def hand_over(self, call: "_UnaryCall | _StreamCall") -> None:
        """Used by channels, of a server that listens."""
        assert self._workers is not None
        call.dispatcher = self.dispatcher
        self._workers.hand_over(call)


class _UnaryCall:
    """One unary call between the task that waits for it and the worker that serves it."""

    __slots__ = ("answered", "deadline", "dispatcher", "error", "path", "reply", "request", "task", "worker")

    def __init__(self, path: str, request: bytes, deadline: float) -> None:
        self.path = path
        self.request = request
        self.deadline = deadline
        self.task: trio.lowlevel.Task | None = None
        """The caller, while it is parked."""
        self.worker: Worker | None = None
        self.dispatcher: Dispatcher | None = None
        self.answered = False
        """Whether there is an answer, or nobody who wants one."""
        self.reply = b""
        self.error: StatusError | None = None

    def finish(self, reply: bytes, error: StatusError | None) -> None:
        """Take the answer and wake the caller, unless it has one or has given up."""
        if self.answered:
            return
        self.answered = True
        self.reply = reply
        self.error = error
        task, self.task = self.task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def fail(self, error: StatusError) -> None:
        self.finish(b"", error)

    def expire(self) -> None:
        """The deadline has passed: the caller hears of it, and the handler is cancelled."""
        self.fail(expired())
        if self.worker is not None:
            self.worker.scope.cancel()

    def abort(self, _: object) -> trio.lowlevel.Abort:
        """The caller gives up: it goes on at once, and the handler is cancelled."""
        self.task = None
        self.answered = True
        if self.worker is not None:
            self.worker.scope.cancel()
        return trio.lowlevel.Abort.SUCCEEDED

    async def park(self) -> None:
        """Wait for the answer."""
        self.task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self.abort)

    async def serve(self) -> None:
        assert self.dispatcher is not None
        try:
            reply = await self.dispatcher.answer(self.path, self.request, self.deadline)
        except StatusError as problem:
            self.finish(b"", problem)
        else:
            self.finish(reply, None)


class _StreamCall:
    """One stream between its reader and the worker that fills it; the reader's ``RawStream``."""

    def __init__(self, path: str, request: bytes, deadline: float) -> None:
        self.path = path
        self.request = request
        self.deadline = deadline
        self.worker: Worker | None = None
        self.dispatcher: Dispatcher | None = None
        self._error: StatusError | None = None
        self._send, self._receive = trio.open_memory_channel[bytes](STREAM_WINDOW_ITEMS)

    async def put(self, item: bytes) -> None:
        """Send one item; waits while the window is full."""
        try:
            await self._send.send(item)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise StatusError(Code.CANCELLED, "context canceled") from None

    async def receive(self) -> bytes | None:
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            if self._error is not None:
                raise self._error from None
            return None

    def close(self) -> None:
        self._receive.close()
        if self.worker is not None:
            self.worker.scope.cancel()

    def fail(self, error: StatusError) -> None:
        """End the stream with an error, after the items that are under way; only the first end counts."""
        if self._error is None:
            self._error = error
        self._send.close()

    async def serve(self) -> None:
        assert self.dispatcher is not None
        try:
            await self.dispatcher.feed(self.path, self.request, self.deadline, self.put)
        except StatusError as problem:
            self.fail(problem)
        self._send.close()


class MemoryChannel(Channel):
    """A channel to whichever server listens on the path among ``sockets`` at the time of each call."""

    def __init__(self, path: str, *, sockets: MemorySockets, **options: Any) -> None:
        super().__init__(**options)
        self.path = path
        self._sockets = sockets
        self._open_calls: dict[_UnaryCall | _StreamCall, None] = {}
        self._closed = False

    @classmethod
    def to(cls, server: MemoryServer, **options: Any) -> Self:
        """A channel to the path of this server."""
        return cls(server.path, sockets=server.sockets, **options)

    async def aclose(self) -> None:
        self._closed = True
        for call in [*self._open_calls]:
            call.fail(StatusError(Code.CANCELLED, "grpc: the client connection is closing"))
            if call.worker is not None:
                call.worker.scope.cancel()
        await trio.lowlevel.checkpoint()

    async def _exchange(self, path: str, request: bytes, deadline: float, alarms: Alarms | None) -> bytes:
        call = _UnaryCall(path, request, deadline)
        server = self._connect()
        clock = current_virtual_clock()
        shortcut = clock.shortcut if clock is not None else None
        direct = shortcut is not None and shortcut.open()
        server.hand_over(call)
        sequence = alarms.reserve() if alarms is not None else 0
        self._open_calls[call] = None
        alarm: Alarm | None = None
        try:
            if direct:
                assert shortcut is not None
                shortcut.take()
                if call.answered:
                    await shortcut.settle()
            if not call.answered:
                if alarms is not None:
                    alarm = alarms.at(deadline, call.expire, sequence=sequence)
                await call.park()
        finally:
            if alarm is not None:
                alarm.cancel()
            del self._open_calls[call]
        if call.error is not None:
            raise call.error
        return call.reply

    def _open(self, path: str, request: bytes, deadline: float) -> RawStream:
        call = _StreamCall(path, request, deadline)
        try:
            self._connect().hand_over(call)
        except StatusError as problem:
            call.fail(problem)
        return call

    def _connect(self) -> MemoryServer:
        if self._closed:
            raise StatusError(Code.CANCELLED, "grpc: the client connection is closing")
        server = self._sockets.find(self.path)
        if server is None:
            raise not_listening(self.path)
        return server
