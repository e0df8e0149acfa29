"""Channels over a unix socket, with grpcio underneath.

A call is a grpcio future whose callback, in grpcio's own thread, wakes the waiting task. A stream has a
thread that reads it item by item, never more than the window ahead. Deadlines are the node's (see
``Channel``); grpcio is told none.

A connection that broke is not waited for: grpcio would hold off reconnecting by a real-time backoff that
virtual time cannot see. The next call simply dials anew.
"""

import re
import threading
from collections import deque
from typing import Any

import outcome
import trio
import trio.lowlevel

from node_host.loop import current_virtual_clock
from trio_grpc._grpcio import grpcio
from trio_grpc.channel import Channel, RawStream
from trio_grpc.codes import Code, StatusError
from trio_grpc.method import too_large
from trio_grpc.unix_path import check_length
from trio_grpc.unix_wire import Wire, open_wire

__all__ = ["UnixChannel"]

STREAM_WINDOW_ITEMS = 16
"""How many items of a stream are read ahead of the task that consumes them."""

_TOO_LARGE = re.compile(r"(?i)received message larger than max \((\d+) vs\.? (\d+)\)")


class UnixChannel(Channel):
    """A channel to whatever listens on the socket at the time of each call.

    Raises OSError (ENAMETOOLONG) for a path that no socket can have.
    """

    def __init__(self, path: str, **options: Any) -> None:
        super().__init__(**options)
        check_length(path)
        self.path = path
        self._line: _Line | None = None
        self._lines: dict[_Line, None] = {}
        self._closed = False

    async def aclose(self) -> None:
        self._closed = True
        for line in [*self._lines]:
            line.close()
        await trio.lowlevel.checkpoint()

    async def _exchange(self, path: str, request: bytes, deadline: float) -> bytes:
        await trio.lowlevel.checkpoint_if_cancelled()
        line = self._connect()
        call = _UnaryCall(line, deadline)
        line.opened(call)
        try:
            return await call.run(path, request)
        except StatusError as problem:
            self._judge(line, problem)
            raise
        finally:
            line.done(call)

    def _open(self, path: str, request: bytes, deadline: float) -> RawStream:
        try:
            line = self._connect()
        except StatusError as problem:
            return _FailedStream(problem)
        call = _StreamCall(self, line, deadline)
        line.opened(call)
        call.start(path, request)
        return call

    def _connect(self) -> "_Line":
        if self._closed:
            raise StatusError(Code.CANCELLED, "grpc: the client connection is closing")
        if self._line is None:
            self._line = _Line(self, self.path, self._max_receive_bytes)
            self._lines[self._line] = None
        return self._line

    def _judge(self, line: "_Line", problem: StatusError) -> None:
        """A connection that is unavailable is given up; it closes when its other calls have ended."""
        if problem.code is Code.UNAVAILABLE and line is self._line:
            self._line = None
            line.retire()

    def _forget(self, line: "_Line") -> None:
        self._lines.pop(line, None)
        if self._line is line:
            self._line = None


class _Line:
    """One grpcio channel with the calls on it."""

    def __init__(self, owner: UnixChannel, path: str, max_receive_bytes: int) -> None:
        grpc = grpcio()
        options = [
            ("grpc.max_receive_message_length", max_receive_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.default_authority", "localhost"),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_retries", 0),
        ]
        self._owner = owner
        self._channel: Any = grpc.insecure_channel(f"unix:{path}", options=options)
        self._methods: dict[tuple[str, bool], Any] = {}
        self._calls: dict[_UnaryCall | _StreamCall, None] = {}
        self._retired = False
        self.error_type: type[Exception] = grpc.RpcError

    def method(self, path: str, *, streaming: bool) -> Any:
        """grpcio's callable for a method, on bytes."""
        found = self._methods.get((path, streaming))
        if found is None:
            make = self._channel.unary_stream if streaming else self._channel.unary_unary
            found = self._methods[path, streaming] = make(path)
        return found

    def opened(self, call: "_UnaryCall | _StreamCall") -> None:
        self._calls[call] = None

    def done(self, call: "_UnaryCall | _StreamCall") -> None:
        self._calls.pop(call, None)
        if self._retired and not self._calls:
            self.close()

    def retire(self) -> None:
        """Close as soon as no call is left."""
        self._retired = True

    def close(self) -> None:
        self._owner._forget(self)
        for call in [*self._calls]:
            call.fail(StatusError(Code.CANCELLED, "grpc: the client connection is closing"))
        self._calls.clear()
        self._channel.close()


class _UnaryCall:
    """One unary call: a grpcio future and the task that waits for it."""

    def __init__(self, line: _Line, deadline: float) -> None:
        self._line = line
        self._token = trio.lowlevel.current_trio_token()
        self._task: trio.lowlevel.Task | None = None
        self._future: Any = None
        self._wire = open_wire(current_virtual_clock())
        if self._wire is not None:
            self._wire.deadline = deadline

    async def run(self, path: str, request: bytes) -> bytes:
        method = self._line.method(path, streaming=False)
        if self._wire is not None:
            self._wire.sent()
            self._future = method.future(request, metadata=self._wire.metadata)
        else:
            self._future = method.future(request)
        self._task = trio.lowlevel.current_task()
        self._future.add_done_callback(self._in_thread)
        return await trio.lowlevel.wait_task_rescheduled(self._abort)

    def fail(self, error: StatusError) -> None:
        """Wake the caller with an error; what grpcio still says is ignored."""
        self._give_up()
        self._wake(outcome.Error(error))

    def _in_thread(self, future: Any) -> None:
        _soon(self._token, self._arrived, future)

    def _arrived(self, future: Any) -> None:
        if self._task is None:
            return
        if self._wire is not None:
            self._wire.close()
        error = _status_of(future)
        self._wake(outcome.Value(future.result()) if error is None else outcome.Error(error))

    def _wake(self, answer: outcome.Outcome[bytes]) -> None:
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task, answer)

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        self._give_up()
        return trio.lowlevel.Abort.SUCCEEDED

    def _give_up(self) -> None:
        _abandon(self._wire)
        self._future.cancel()


class _StreamCall:
    """One stream: a thread that reads grpcio's iterator, and the task that consumes it."""

    def __init__(self, owner: UnixChannel, line: _Line, deadline: float) -> None:
        self._owner = owner
        self._line = line
        self._token = trio.lowlevel.current_trio_token()
        self._items: deque[bytes] = deque()
        self._room = threading.Semaphore(STREAM_WINDOW_ITEMS)
        self._changed = trio.Event()
        self._ended = False
        self._error: StatusError | None = None
        self._iterator: Any = None
        self._closed = False
        self._wire = open_wire(current_virtual_clock())
        if self._wire is not None:
            self._wire.deadline = deadline

    def start(self, path: str, request: bytes) -> None:
        method = self._line.method(path, streaming=True)
        if self._wire is not None:
            self._wire.sent()
            self._iterator = method(request, metadata=self._wire.metadata)
        else:
            self._iterator = method(request)
        threading.Thread(target=self._read, name="grpc-stream-reader", daemon=True).start()

    async def receive(self) -> bytes | None:
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._items:
            if self._ended:
                if self._error is not None:
                    raise self._error
                return None
            self._changed = trio.Event()
            await self._changed.wait()
        item = self._items.popleft()
        self._room.release()
        self._tell_room()
        return item

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if not self._ended:
            _abandon(self._wire)
        elif self._wire is not None:
            self._wire.close()
        self._iterator.cancel()
        self._room.release()
        self._line.done(self)

    def fail(self, error: StatusError) -> None:
        """End the stream with an error, after the items that have arrived."""
        self._over(error)
        self.close()

    def _read(self) -> None:
        """In its own thread: one item at a time, each only when there is room for it."""
        error: StatusError | None = None
        try:
            while True:
                self._room.acquire()
                _soon(self._token, self._arrived, next(self._iterator))
        except StopIteration:
            pass
        except self._line.error_type as problem:
            error = _status_of(problem)
        _soon(self._token, self._over, error)

    def _arrived(self, item: bytes) -> None:
        if self._ended:
            return
        self._items.append(item)
        if self._wire is not None:
            self._wire.received()
            self._tell_room()
        self._changed.set()

    def _tell_room(self) -> None:
        if self._wire is not None:
            self._wire.set_room(len(self._items) < STREAM_WINDOW_ITEMS)

    def _over(self, error: StatusError | None) -> None:
        if self._ended:
            return
        self._ended = True
        self._error = error
        if self._wire is not None and not self._closed:
            self._wire.close()
        if error is not None:
            self._owner._judge(self._line, error)
        self._changed.set()


class _FailedStream:
    """A stream that could not even be started."""

    def __init__(self, error: StatusError) -> None:
        self._error = error

    async def receive(self) -> bytes | None:
        await trio.lowlevel.checkpoint()
        raise self._error

    def close(self) -> None:
        """Nothing is open."""


def _soon(token: trio.lowlevel.TrioToken, function: Any, argument: Any) -> None:
    """From any thread: call the function in the loop, unless the run is over."""
    try:
        token.run_sync_soon(function, argument)
    except trio.RunFinishedError:
        return


def _abandon(wire: Wire | None) -> None:
    """The caller gives up: where the other end has the call, hold time until it has seen the cancellation."""
    if wire is None:
        return
    if wire.attached:
        wire.abandon()
    else:
        wire.close()


def _status_of(call: Any) -> StatusError | None:
    """The error that a finished grpcio call stands for, None for OK."""
    code = Code(call.code().value[0])
    if code is Code.OK:
        return None
    details = call.details() or ""
    found = _TOO_LARGE.search(details) if code is Code.RESOURCE_EXHAUSTED else None
    if found is not None:
        return too_large(int(found[1]), int(found[2]))
    return StatusError(code, details)
