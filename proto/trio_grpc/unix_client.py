"""Channels over a unix socket, with grpcio underneath.

A call is handed to a helper thread, which blocks in grpcio and wakes the loop with what came. A lonely
call is twice as fast that way as with grpcio's futures, which start a thread each; but while many calls
are under way one such thread serves all of them, so beyond a few the futures are taken. Deadlines are
the node's (see ``Channel``); grpcio is told none.

A connection that broke is not waited for: grpcio would hold off reconnecting by a real-time backoff that
virtual time cannot see. The next call simply dials anew.
"""

import queue
import re
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import outcome
import trio
import trio.lowlevel

from node_host.alarms import Alarms
from node_host.loop import current_virtual_clock
from trio_grpc._grpcio import grpcio
from trio_grpc.channel import Channel, RawStream, expired
from trio_grpc.codes import Code, StatusError
from trio_grpc.method import too_large
from trio_grpc.unix_inbox import Inbox, current_inbox
from trio_grpc.unix_path import check_length
from trio_grpc.unix_wire import Wire, open_wire

__all__ = ["MAX_CALLS", "STREAM_WINDOW_ITEMS", "UnixChannel"]

STREAM_WINDOW_ITEMS = 16
"""How many items of a stream are read ahead of the task that consumes them."""

MAX_CALLS = 512
"""How many calls of one channel may be under way; one more ends in RESOURCE_EXHAUSTED."""

MAX_HELPED = 4
"""How many calls have helper threads at a time before further unary calls are made as futures."""

_TOO_LARGE = re.compile(r"(?i)received message larger than max \((\d+) vs\.? (\d+)\)")


class UnixChannel(Channel):
    """A channel to whatever listens on the socket at the time of each call.

    Raises OSError (ENAMETOOLONG) for a path that no socket can have.
    """

    def __init__(self, path: str, **options: Any) -> None:
        super().__init__(**options)
        check_length(path)
        self.path = path
        self._helpers = _Helpers()
        self._line: _Line | None = None
        self._lines: dict[_Line, None] = {}
        self._closed = False

    async def aclose(self) -> None:
        self._closed = True
        for line in [*self._lines]:
            line.close()
        self._helpers.close()
        await trio.lowlevel.checkpoint()

    async def _exchange(self, path: str, request: bytes, deadline: float, alarms: Alarms | None) -> bytes:
        await trio.lowlevel.checkpoint_if_cancelled()
        line = self._connect()
        call = _UnaryCall(line, deadline)
        line.calls[call] = None
        alarm = alarms.at(deadline, call.expire) if alarms is not None else None
        try:
            return await call.run(path, request, self._helpers)
        except StatusError as problem:
            self._judge(line, problem)
            raise
        finally:
            if alarm is not None:
                alarm.cancel()
            line.done(call)

    def _open(self, path: str, request: bytes, deadline: float) -> RawStream:
        try:
            line = self._connect()
            call = _StreamCall(self, line, deadline)
            line.calls[call] = None
            call.start(path, request, self._helpers)
        except StatusError as problem:
            return _FailedStream(problem)
        return call

    def _connect(self) -> "_Line":
        if self._closed:
            raise _closing()
        if self._line is None:
            self._line = _Line(self, self.path, self._max_receive_bytes)
            self._lines[self._line] = None
        return self._line

    def _judge(self, line: "_Line", problem: StatusError) -> None:
        """A connection that is unavailable is given up; it closes when its other calls have ended."""
        if problem.code is Code.UNAVAILABLE and line is self._line:
            self._line = None
            line.retired = True

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
            ("SingleThreadedUnaryStream", 1),
        ]
        self.calls: dict[_UnaryCall | _StreamCall, None] = {}
        self.retired = False
        self.error_type: type[Exception] = grpc.RpcError
        self.cancelled_type: type[Exception] = grpc.FutureCancelledError
        self._owner = owner
        self._channel: Any = grpc.insecure_channel(f"unix:{path}", options=options)
        self._methods: dict[tuple[str, bool], Any] = {}
        self._blocking: dict[str, list[_Blocking]] = {}

    def method(self, path: str, *, streaming: bool) -> Any:
        """grpcio's callable for a method, on bytes."""
        found = self._methods.get((path, streaming))
        if found is None:
            make = self._channel.unary_stream if streaming else self._channel.unary_unary
            found = self._methods[path, streaming] = make(path)
        return found

    def blocking(self, path: str) -> "_Blocking":
        """A blocking callable that nobody uses; ``give_back`` it after the call."""
        spare = self._blocking.get(path)
        return spare.pop() if spare else _Blocking(self._channel, path)

    def give_back(self, blocking: "_Blocking") -> None:
        blocking.reset()
        self._blocking.setdefault(blocking.path, []).append(blocking)

    def done(self, call: "_UnaryCall | _StreamCall") -> None:
        self.calls.pop(call, None)
        if self.retired and not self.calls:
            self.close()

    def close(self) -> None:
        self._owner._forget(self)
        calls, self.calls = self.calls, {}
        for call in calls:
            call.fail(_closing())
        self._channel.close()


class _UnaryCall:
    """One unary call and the task that waits for it."""

    def __init__(self, line: _Line, deadline: float) -> None:
        self._line = line
        self._inbox = current_inbox()
        self._task: trio.lowlevel.Task | None = None
        self._cancel: Callable[[], object] = _nothing
        self._wire = open_wire(current_virtual_clock())
        if self._wire is not None:
            self._wire.deadline = deadline

    async def run(self, path: str, request: bytes, helpers: "_Helpers") -> bytes:
        self._task = trio.lowlevel.current_task()
        metadata = None
        if self._wire is not None:
            self._wire.sent()
            metadata = self._wire.metadata
        if helpers.busy < MAX_HELPED:
            helper = helpers.take(self._inbox)
            blocking = self._line.blocking(path)
            self._cancel = blocking.cancel
            helper.put(partial(self._read, blocking, request, metadata))
        else:
            future = self._line.method(path, streaming=False).future(request, metadata=metadata)
            self._cancel = future.cancel
            future.add_done_callback(self._done)
        return await trio.lowlevel.wait_task_rescheduled(self._abort)

    def expire(self) -> None:
        """The deadline has passed."""
        self.fail(expired())

    def fail(self, error: StatusError) -> None:
        """Wake the caller with an error; what grpcio still says is ignored."""
        self._give_up()
        self._wake(outcome.Error(error))

    def _read(self, blocking: "_Blocking", request: bytes, metadata: Any) -> Callable[[], None]:
        """In a helper thread: make the call and wait for its answer."""
        try:
            answer: outcome.Outcome[bytes] = outcome.Value(blocking.call(request, metadata))
        except self._line.error_type as problem:
            answer = outcome.Error(_status_of(problem))
        except ValueError:
            answer = outcome.Error(_closing())  # what grpcio raises on a channel that has been closed
        return partial(self._returned, blocking, answer)

    def _returned(self, blocking: "_Blocking", answer: outcome.Outcome[bytes]) -> None:
        self._line.give_back(blocking)
        self._arrived(answer)

    def _done(self, future: Any) -> None:
        """In grpcio's thread: the future has its answer."""
        try:
            answer: outcome.Outcome[bytes] = outcome.Value(future.result())
        except self._line.error_type as problem:
            answer = outcome.Error(_status_of(problem))
        except self._line.cancelled_type:
            return
        self._inbox.post(self._arrived, answer)

    def _arrived(self, answer: outcome.Outcome[bytes]) -> None:
        if self._task is not None:
            if self._wire is not None:
                self._wire.close()
            self._wake(answer)

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
        self._cancel()


class _Blocking:
    """One blocking callable of grpcio, for one call at a time, that can be cancelled from another thread.

    grpcio's blocking calls are twice as fast as its futures, but keep the handle of the call to
    themselves. It passes through the channel object that the callable holds; a stand-in for that object
    keeps it. Where grpcio has been built otherwise, the call is made as a stream of one item, which
    costs a little more.
    """

    def __init__(self, channel: Any, path: str) -> None:
        self.path = path
        self._call: Any = None
        self._cancelled = False
        self._unary: Any = channel.unary_unary(path)
        self._stream: Any = None
        self._channel: Any = getattr(self._unary, "_channel", None)
        if hasattr(self._channel, "segregated_call"):
            self._unary._channel = self
        else:
            self._stream = channel.unary_stream(path)

    def segregated_call(self, *arguments: Any) -> Any:
        """Called by grpcio in the helper's thread, to start the call."""
        # First the call, then the look at the flag; ``cancel`` does it the other way round, so one of
        # both sees it.
        self._call = self._channel.segregated_call(*arguments)
        if self._cancelled:
            self._cancel_call()
        return self._call

    def call(self, request: bytes, metadata: Any) -> bytes:
        """In the helper's thread: the reply. Raises grpcio's errors, and ValueError on a closed channel."""
        if self._stream is None:
            return self._unary(request, metadata=metadata)
        self._call = self._stream(request, metadata=metadata)
        if self._cancelled:
            self._cancel_call()
        replies: list[bytes] = list(self._call)
        return replies[0]

    def cancel(self) -> None:
        """In the loop: cancel the call, be it started or not."""
        self._cancelled = True
        if self._call is not None:
            self._cancel_call()

    def reset(self) -> None:
        """In the loop: ready for the next call."""
        self._call = None
        self._cancelled = False

    def _cancel_call(self) -> None:
        if self._stream is not None:
            self._call.cancel()
        else:
            self._call.cancel(int(Code.CANCELLED), "context canceled")


class _StreamCall:
    """One stream: a helper thread that reads it, and the task that consumes it."""

    def __init__(self, owner: UnixChannel, line: _Line, deadline: float) -> None:
        self._owner = owner
        self._line = line
        self._inbox = current_inbox()
        self._items: deque[bytes] = deque()
        self._room = threading.Semaphore(STREAM_WINDOW_ITEMS)
        self._changed = trio.Event()
        self._ended = False
        self._error: StatusError | None = None
        self._answers: Any = None
        self._closed = False
        self._wire = open_wire(current_virtual_clock())
        if self._wire is not None:
            self._wire.deadline = deadline

    def start(self, path: str, request: bytes, helpers: "_Helpers") -> None:
        helper = helpers.take(self._inbox)
        metadata = None
        if self._wire is not None:
            self._wire.sent()
            metadata = self._wire.metadata
        self._answers = self._line.method(path, streaming=True)(request, metadata=metadata)
        helper.put(self._read)

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
        self._answers.cancel()
        self._room.release()
        self._line.done(self)

    def fail(self, error: StatusError) -> None:
        """End the stream with an error, after the items that have arrived."""
        self._over(error)
        self.close()

    def _read(self) -> Callable[[], None]:
        """In a helper thread: one item at a time, each only when there is room for it."""
        error: StatusError | None = None
        try:
            while True:
                self._room.acquire()
                self._inbox.post(self._arrived, next(self._answers))
        except StopIteration:
            pass
        except self._line.error_type as problem:
            error = _status_of(problem)
        return lambda: self._over(error)

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


Job = Callable[[], Callable[[], None]]
"""What a helper does in its thread; what it returns is then called in the loop."""


class _Helpers:
    """The threads of one channel; each is taken for one call and comes back by itself."""

    def __init__(self) -> None:
        self._idle: list[queue.SimpleQueue[Job | None]] = []
        self._count = 0
        self._closed = False

    @property
    def busy(self) -> int:
        """How many helpers have a call."""
        return self._count - len(self._idle)

    def take(self, inbox: Inbox) -> "queue.SimpleQueue[Job | None]":
        """The queue of a helper that waits for a job. Raises StatusError (RESOURCE_EXHAUSTED)."""
        if self._idle:
            return self._idle.pop()
        if self._count >= MAX_CALLS:
            raise StatusError(Code.RESOURCE_EXHAUSTED, f"{MAX_CALLS} calls are under way on this channel")
        self._count += 1
        jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, args=(jobs, inbox), name="grpc-helper", daemon=True).start()
        return jobs

    def close(self) -> None:
        """Let idle helpers end, and the others when they are done."""
        self._closed = True
        for jobs in self._idle:
            jobs.put(None)
        self._idle.clear()

    def _work(self, jobs: "queue.SimpleQueue[Job | None]", inbox: Inbox) -> None:
        while (job := jobs.get()) is not None:
            if not inbox.post(self._back, jobs, job()):
                return

    def _back(self, jobs: "queue.SimpleQueue[Job | None]", then: Callable[[], None]) -> None:
        if self._closed:
            jobs.put(None)
        else:
            self._idle.append(jobs)
        then()


def _nothing() -> None:
    """There is nothing to cancel yet."""


def _closing() -> StatusError:
    return StatusError(Code.CANCELLED, "grpc: the client connection is closing")


def _abandon(wire: Wire | None) -> None:
    if wire is not None:
        wire.abandon()


def _status_of(call: Any) -> StatusError:
    """The error that a finished grpcio call stands for."""
    code = Code(call.code().value[0])
    details = call.details() or ""
    found = _TOO_LARGE.search(details) if code is Code.RESOURCE_EXHAUSTED else None
    if found is not None:
        return too_large(int(found[1]), int(found[2]))
    return StatusError(code, details)
