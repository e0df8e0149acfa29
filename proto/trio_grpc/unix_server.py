"""Servers on a unix socket, with grpcio underneath.

grpcio calls a handler in a thread of its pool; that thread hands the call to the loop and waits for what
comes back. The handler itself is a task of the server in the loop. Each open stream and each waiting
call takes a thread, so the pool has as many as there may be of both together: streams, which are refused
over their limit, can never starve unary calls.
"""

import math
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Self

import trio
import trio.lowlevel

from node_host.loop import VirtualClock, current_virtual_clock
from trio_grpc._grpcio import grpcio
from trio_grpc.channel import MAX_RECEIVE_BYTES
from trio_grpc.codes import Code, StatusError
from trio_grpc.dispatch import Dispatcher
from trio_grpc.memory import MAX_STREAMS, STREAM_WINDOW_ITEMS
from trio_grpc.method import Handler, too_many_streams, unknown_path
from trio_grpc.unix_inbox import Inbox, current_inbox
from trio_grpc.unix_path import SocketPath, check_length
from trio_grpc.unix_wire import METADATA_KEY, Wire, find_wire
from trio_grpc.workers import Worker, Workers

__all__ = ["MAX_UNARY_CALLS", "UnixServer"]

MAX_UNARY_CALLS = 192
"""How many unary calls a server answers at a time; one more is refused with RESOURCE_EXHAUSTED."""

MAX_DETAILS_BYTES = 6000
"""The longest text of an error, as escaped in its header; grpcio takes no headers over 8 KiB for sure."""

_ESCAPED_BYTES_MAX = 12
_STOP_GRACE_SECONDS = 0.5
_STOP_WAIT_SECONDS = 5.0
"""Real seconds: for grpcio to deliver the last answers, and for it to end altogether."""


class UnixServer:
    """A server on a unix socket. Add handlers, then enter it as an async context; it listens until that
    is left.

    ``on_failure(path, error)`` is told of every exception of a handler that is no StatusError; the
    caller gets UNKNOWN. Entering raises OSError where the path cannot be taken, see ``SocketPath``.
    """

    def __init__(
        self,
        path: str,
        *,
        max_receive_bytes: int = MAX_RECEIVE_BYTES,
        max_streams: int = MAX_STREAMS,
        max_unary_calls: int = MAX_UNARY_CALLS,
        on_failure: Callable[[str, BaseException], None] | None = None,
    ) -> None:
        check_length(path)
        self.path = path
        self._max_unary_calls = max_unary_calls
        self._dispatcher = Dispatcher(
            max_receive_bytes=max_receive_bytes, max_streams=max_streams, on_failure=on_failure
        )
        self._manager: Any = None
        self._workers: Workers | None = None
        self._inbox: Inbox | None = None
        self._clock: VirtualClock | None = None
        self._socket: SocketPath | None = None
        self._server: Any = None
        self._stopped: threading.Event | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._threads = _StreamThreads(max_streams)

    def add(self, handler: Handler) -> None:
        """Serve the contracts of this handler. Raises ValueError for a method that is already served."""
        self._dispatcher.add(handler)

    @property
    def listening(self) -> bool:
        return self._workers is not None

    async def __aenter__(self) -> Self:
        if self._server is not None:
            raise RuntimeError(f"the server on {self.path} is already listening")
        self._inbox = current_inbox()
        self._clock = current_virtual_clock()
        self._socket = SocketPath(self.path)
        try:
            self._listen(self._socket)
        except BaseException:
            self._socket.give_back()
            raise
        self._manager = trio.open_nursery()
        self._workers = Workers(await self._manager.__aenter__())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        manager, self._manager = self._manager, None
        self.close()
        with trio.CancelScope(shield=True):
            await self._wait_stopped()
        # Handlers' errors went to their callers; the body's own error is not this nursery's business.
        await manager.__aexit__(None, None, None)

    def close(self) -> None:
        """Stop at once, as a process that dies: callers get UNAVAILABLE, handlers are cancelled. Twice
        is once.
        """
        if self._workers is None:
            return
        workers, self._workers = self._workers, None
        if self._socket is not None:
            self._socket.give_back()
        workers.close(StatusError(Code.UNAVAILABLE, "error reading from server: EOF"))
        self._stopped = self._server.stop(_STOP_GRACE_SECONDS)

    def _listen(self, place: SocketPath) -> None:
        grpc = grpcio()
        threads = self._max_unary_calls + self._dispatcher.max_streams
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="grpc-call")
        options = [
            ("grpc.max_receive_message_length", self._dispatcher.max_receive_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),
        ]
        self._server = grpc.server(self._pool, options=options, maximum_concurrent_rpcs=threads)
        self._server.add_generic_rpc_handlers((_generic_handler(self),))
        try:
            self._server.add_insecure_port(f"unix:{place.bind_path}")
            self._server.start()
            place.publish()
        except BaseException as problem:
            self._server.stop(None)
            self._server = None
            if isinstance(problem, RuntimeError):
                raise OSError(f"cannot listen on {self.path}: {problem}") from None
            raise

    async def _wait_stopped(self) -> None:
        """Let grpcio end, in real time: no virtual time passes meanwhile."""
        stopped, self._stopped = self._stopped, None
        if stopped is None:
            return
        if self._clock is not None:
            self._clock.hold()
        try:
            await trio.to_thread.run_sync(stopped.wait, _STOP_WAIT_SECONDS)
        finally:
            if self._clock is not None:
                self._clock.release()
        self._server = None
        if self._pool is not None:
            self._pool.shutdown(wait=False)

    # In grpcio's threads.

    def serve_unary(self, path: str, request: bytes, context: Any) -> bytes:
        """Called by grpcio in a thread of its pool."""
        call = self._hand_over(path, request, context)
        item = call.answers.get()
        if isinstance(item, bytes):
            return item
        return _abort(context, item or StatusError(Code.INTERNAL, "no answer"))

    def serve_stream(self, path: str, request: bytes, context: Any) -> Iterator[bytes]:
        """Called by grpcio in a thread of its pool, which then takes items until the end."""
        if not self._threads.enter():
            _abort(context, too_many_streams(self._threads.limit))
        try:
            call = self._hand_over(path, request, context)
            while True:
                item = call.answers.get()
                if not isinstance(item, bytes):
                    break
                yield item
                call.soon(call.taken)
        finally:
            self._threads.leave()
        if item is not None:
            _abort(context, item)

    def serve_unknown(self, path: str, request: bytes, context: Any) -> bytes:
        """Called by grpcio for a path that is not served."""
        return _abort(context, unknown_path(path))

    def streams(self, path: str) -> bool | None:
        return self._dispatcher.streams(path)

    def _hand_over(self, path: str, request: bytes, context: Any) -> "_Call":
        assert self._inbox is not None
        number = ""
        if self._clock is not None:
            metadata = context.invocation_metadata()
            number = next((value for key, value in metadata if key == METADATA_KEY), "")
        call = _Call(self._dispatcher, path, request, context.time_remaining(), number, self._inbox)
        if context.add_callback(call.in_thread_terminated):
            call.soon(self._start, call)
        else:
            call.answers.put(StatusError(Code.CANCELLED, "context canceled"))
        return call

    # In the loop's thread.

    def _start(self, call: "_Call") -> None:
        call.wire = find_wire(call.number, self._clock) if call.number else None
        if call.wire is not None:
            call.wire.attached = True
            call.wire.received()
        if call.terminated:
            call.gone()
        elif self._workers is None:
            call.fail(StatusError(Code.UNAVAILABLE, "error reading from server: EOF"))
        else:
            self._workers.hand_over(call)


class _Call:
    """One call between a thread of grpcio's pool and the task that serves it."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        path: str,
        request: bytes,
        remaining_seconds: float | None,
        number: str,
        inbox: Inbox,
    ) -> None:
        self._dispatcher = dispatcher
        self._path = path
        self._request = request
        self.number = number
        self.wire: Wire | None = None
        self.worker: Worker | None = None
        self.terminated = False
        self.answers: queue.SimpleQueue[bytes | StatusError | None] = queue.SimpleQueue()
        self._remaining_seconds = remaining_seconds
        self._inbox = inbox
        self._finished = False
        self._queued = 0
        self._space = trio.Event()

    def soon(self, function: Any, *arguments: Any) -> None:
        """From any thread: call the function in the loop. When the run is over, so is the call."""
        if not self._inbox.post(function, *arguments):
            self.answers.put(StatusError(Code.UNAVAILABLE, "error reading from server: EOF"))

    def in_thread_terminated(self) -> None:
        """Called by grpcio when the call is over for it: answered, cancelled, or the peer has gone."""
        wire = self.wire
        if wire is not None:
            wire.terminated = True
        if not self._finished or (wire is not None and wire.abandoned):
            self.soon(self._terminated)

    def deadline(self) -> float:
        """When the caller stops waiting, in trio's time: as its wire says, or as grpcio knows it."""
        if self.wire is not None:
            return self.wire.deadline
        remaining = self._remaining_seconds
        return math.inf if remaining is None else trio.current_time() + remaining

    async def serve(self) -> None:
        try:
            if self._dispatcher.streams(self._path):
                await self._dispatcher.feed(self._path, self._request, self.deadline(), self.put)
                self.finish(None)
            else:
                self.finish(await self._dispatcher.answer(self._path, self._request, self.deadline()))
        except StatusError as problem:
            self.finish(problem)

    async def put(self, item: bytes) -> None:
        """Hand one item of a stream to the thread; waits while the window is full."""
        await trio.lowlevel.checkpoint()
        while self._queued >= STREAM_WINDOW_ITEMS:
            self._space = trio.Event()
            await self._space.wait()
        if not self._finished:
            self._queued += 1
            self._hand(item)

    def taken(self) -> None:
        """The thread has passed one item on."""
        self._queued -= 1
        self._space.set()

    def finish(self, answer: bytes | StatusError | None) -> None:
        """Hand over the last answer: the reply, an error, or None for the end of a stream. Only the
        first counts.
        """
        if not self._finished:
            self._finished = True
            self._hand(answer)

    def fail(self, error: StatusError) -> None:
        self.finish(error)

    def gone(self) -> None:
        """The call is over before it began."""
        if self.wire is not None:
            self.wire.close()
        self.finish(StatusError(Code.CANCELLED, "context canceled"))

    def _hand(self, answer: bytes | StatusError | None) -> None:
        if self.wire is not None:
            self.wire.sent()
        self.answers.put(answer)

    def _terminated(self) -> None:
        self.terminated = True
        if self.wire is not None and (self.wire.abandoned or not self._finished):
            self.wire.close()
        if not self._finished and self.worker is not None:
            self.worker.scope.cancel()


class _StreamThreads:
    """How many threads of the pool carry a stream; counted in those threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._count = 0

    def enter(self) -> bool:
        with self._lock:
            if self._count >= self.limit:
                return False
            self._count += 1
            return True

    def leave(self) -> None:
        with self._lock:
            self._count -= 1


def _abort(context: Any, error: StatusError) -> Any:
    """End the call with an error. Does not return: grpcio ends a handler by an exception of its own."""
    codes = {code.value[0]: code for code in grpcio().StatusCode}
    context.abort(codes[int(error.code)], _fitting(error.details))


def _fitting(details: str) -> str:
    """The text, or as much of it as a header carries: over its limit the peer would get another error."""
    if len(details) * _ESCAPED_BYTES_MAX <= MAX_DETAILS_BYTES:
        return details
    room = MAX_DETAILS_BYTES
    for at, character in enumerate(details):
        data = character.encode("utf-8", "replace")
        room -= 1 if b" " <= data <= b"~" and data != b"%" else 3 * len(data)
        if room < 0:
            return details[:at] + "..."
    return details


def _generic_handler(server: UnixServer) -> Any:
    """grpcio's view of the server: any path, bytes in and out."""
    grpc = grpcio()

    known: dict[str, Any] = {}

    class Generic(grpc.GenericRpcHandler):
        def service(self, handler_call_details: Any) -> Any:
            path: str = handler_call_details.method
            if path in known:
                return known[path]
            streams = server.streams(path)
            if streams is None:
                return grpc.unary_unary_rpc_method_handler(partial(server.serve_unknown, path))
            if streams:
                known[path] = grpc.unary_stream_rpc_method_handler(partial(server.serve_stream, path))
            else:
                known[path] = grpc.unary_unary_rpc_method_handler(partial(server.serve_unary, path))
            return known[path]

    return Generic()
