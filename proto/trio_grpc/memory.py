"""The transport in memory: the same bytes and the same answers as over a socket, without threads and sockets.

Each message is serialised, and parsed on the other side, so no part ever sees another part's objects.
Handlers run in tasks of the server: workers, each in a cancel scope of its own, which take one call
after the other. A caller that gives up cancels the worker's scope, and with it that worker; a server
that closes answers all callers with UNAVAILABLE and cancels all workers. Everything here happens in one
thread and in an order that the seed of the run fixes.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import outcome
import trio
import trio.lowlevel

from trio_grpc.channel import MAX_RECEIVE_BYTES, CallRecord, Channel, RawStream, expired
from trio_grpc.codes import Code, StatusError
from trio_grpc.deadlines import Deadlines
from trio_grpc.dispatch import Dispatcher
from trio_grpc.method import Handler, Method, address_in_use, as_status, not_listening

__all__ = ["MemoryChannel", "MemoryServer", "MemorySockets"]

STREAM_WINDOW_ITEMS = 16
"""How many items of a stream may be under way before its handler has to wait."""

MAX_STREAMS = 64
"""How many streams one server carries at a time; one more is refused with RESOURCE_EXHAUSTED."""

MAX_IDLE_WORKERS = 64
"""How many worker tasks a server keeps for the next call."""


class MemorySockets:
    """Which server listens on which path: what a folder of sockets is to the socket transport."""

    def __init__(self) -> None:
        self._servers: dict[str, MemoryServer] = {}

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

    def unbind(self, path: str, server: "MemoryServer") -> None:
        """Used by servers; nothing happens where another one listens by now."""
        if self._servers.get(path) is server:
            del self._servers[path]


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
        self._idle: list[_Worker] = []
        self._busy: dict[_Worker, None] = {}
        self._manager: Any = None
        self._nursery: trio.Nursery | None = None
        self.deadlines = Deadlines()
        self._watching = trio.CancelScope()

    def add(self, handler: Handler) -> None:
        """Serve the contracts of this handler. Raises ValueError for a method that is already served."""
        self.dispatcher.add(handler)

    @property
    def listening(self) -> bool:
        return self._nursery is not None

    async def __aenter__(self) -> Self:
        if self._nursery is not None:
            raise RuntimeError(f"the server on {self.path} is already listening")
        self.sockets.bind(self.path, self)
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        self.deadlines, self._watching = Deadlines(), trio.CancelScope()
        self._nursery.start_soon(self._watch_deadlines)
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
        if self._nursery is None:
            return
        self._nursery = None
        self.sockets.unbind(self.path, self)
        self._watching.cancel()
        for worker in [*self._busy, *self._idle]:
            if worker.call is not None:
                worker.call.fail(StatusError(Code.UNAVAILABLE, "error reading from server: EOF"))
            worker.scope.cancel()

    async def _watch_deadlines(self) -> None:
        with self._watching:
            await self.deadlines.watch()

    def hand_over(self, call: "_UnaryCall | _StreamCall") -> None:
        """Used by channels: give a call to a worker."""
        assert self._nursery is not None
        if self._idle:
            worker = self._idle.pop()
            worker.take(call)
        else:
            worker = _Worker(self, call)
            self._nursery.start_soon(worker.run)
        self._busy[worker] = None
        call.worker = worker

    def parked(self, worker: "_Worker") -> bool:
        """Used by workers: done with a call. False where the worker is not needed any more."""
        self._busy.pop(worker, None)
        if self._nursery is None or worker.scope.cancel_called or len(self._idle) >= MAX_IDLE_WORKERS:
            return False
        self._idle.append(worker)
        return True

    def gone(self, worker: "_Worker") -> None:
        """Used by workers: on their way out."""
        self._busy.pop(worker, None)
        if worker in self._idle:
            self._idle.remove(worker)


class _UnaryCall:
    """One unary call between the task that waits for it and the worker that serves it."""

    __slots__ = ("deadline", "path", "request", "task", "worker")

    def __init__(self, path: str, request: bytes, deadline: float) -> None:
        self.path = path
        self.request = request
        self.deadline = deadline
        self.task: trio.lowlevel.Task | None = None
        self.worker: _Worker | None = None

    def finish(self, answer: "outcome.Outcome[bytes]") -> None:
        """Wake the caller with the answer, unless it has one or has given up."""
        task, self.task = self.task, None
        if task is not None:
            trio.lowlevel.reschedule(task, answer)

    def fail(self, error: StatusError) -> None:
        self.finish(outcome.Error(error))

    @property
    def over(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self.task is None

    def expire(self) -> None:
        """The deadline has passed: the caller hears of it, and the handler is cancelled."""
        self.fail(expired())
        if self.worker is not None:
            self.worker.scope.cancel()

    def abort(self, _: object) -> trio.lowlevel.Abort:
        """The caller gives up: it goes on at once, and the handler is cancelled."""
        self.task = None
        if self.worker is not None:
            self.worker.scope.cancel()
        return trio.lowlevel.Abort.SUCCEEDED

    async def serve(self, server: MemoryServer) -> None:
        try:
            reply = await server.dispatcher.answer(self.path, self.request, self.deadline)
            answer: outcome.Outcome[bytes] = outcome.Value(reply)
        except StatusError as problem:
            answer = outcome.Error(problem)
        self.finish(answer)


class _StreamCall:
    """One stream between its reader and the worker that fills it; the reader's ``RawStream``."""

    def __init__(self, path: str, request: bytes, deadline: float) -> None:
        self.path = path
        self.request = request
        self.deadline = deadline
        self.worker: _Worker | None = None
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

    async def serve(self, server: MemoryServer) -> None:
        try:
            await server.dispatcher.feed(self.path, self.request, self.deadline, self.put)
        except StatusError as problem:
            self.fail(problem)
        self._send.close()


class _Worker:
    """A task of the server that serves one call after the other, until something cancels its scope."""

    __slots__ = ("_server", "_task", "call", "scope")

    def __init__(self, server: MemoryServer, call: _UnaryCall | _StreamCall) -> None:
        self._server = server
        self._task: trio.lowlevel.Task | None = None
        self.call: _UnaryCall | _StreamCall | None = call
        self.scope = trio.CancelScope()

    def take(self, call: _UnaryCall | _StreamCall) -> None:
        """Wake the idle worker with its next call."""
        task, self._task = self._task, None
        self.call = call
        assert task is not None
        trio.lowlevel.reschedule(task)

    async def run(self) -> None:
        try:
            with self.scope:
                while self.call is not None:
                    await self.call.serve(self._server)
                    self.call.worker = None
                    self.call = None
                    if not self._server.parked(self):
                        return
                    self._task = trio.lowlevel.current_task()
                    await trio.lowlevel.wait_task_rescheduled(self._abort)
        except Exception as problem:
            # What is left of an exception group from which the scope took the cancellation.
            if self.call is not None:
                self.call.fail(as_status(problem))
        finally:
            self._server.gone(self)
            if self.call is not None:
                self.call.worker = None
                self.call.fail(StatusError(Code.CANCELLED, "context canceled"))

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


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

    async def _attempt_until(
        self, method: Method[Any, Any], request: bytes, deadline: float, record: CallRecord | None
    ) -> bytes:
        if self._faults is not None:
            return await super()._attempt_until(method, request, deadline, record)
        return await self._exchange(method.path, request, deadline, watched=True)

    async def _exchange(self, path: str, request: bytes, deadline: float, *, watched: bool = False) -> bytes:
        call = _UnaryCall(path, request, deadline)
        server = self._connect()
        server.hand_over(call)
        call.task = trio.lowlevel.current_task()
        if watched:
            server.deadlines.add(deadline, call)
        self._open_calls[call] = None
        try:
            return await trio.lowlevel.wait_task_rescheduled(call.abort)
        finally:
            del self._open_calls[call]

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
