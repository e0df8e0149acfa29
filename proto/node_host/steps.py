"""What the loop need not do: passes that could run one task only, looks at descriptors that are not there.

A task that hands work to another task and waits for its answer costs two passes of trio's loop. Where no
other task can run, those passes have one task each, and nothing else happens in them: no timer is due, time
does not move. ``Shortcut`` then runs the other task's step inside the step of the first, and the answer is
there when that step ends. The order of all steps is the one that the loop would have made, so a trace is the
same byte for byte, with and without; as soon as a second task could run, the way through the loop is taken.

This module and ``node_host.loop`` are the two that touch private parts of trio.
"""

from collections.abc import Callable, MutableSequence
from typing import Any

import outcome
import trio
import trio.lowlevel
from trio._core import _run  # pyright: ignore[reportMissingTypeStubs]
from trio._core._instrumentation import Instruments  # pyright: ignore[reportMissingTypeStubs]
from trio._core._traps import (  # pyright: ignore[reportMissingTypeStubs]
    CancelShieldedCheckpoint,
    WaitTaskRescheduled,
)

from node_host.order import TaskOrder

__all__ = ["Shortcut", "Turn", "lighten"]

_CONTEXT: Any = _run.GLOBAL_RUN_CONTEXT

PASSES_LEFT_OUT_MAX = 200
"""How many steps run inside one pass of the loop at most, and how many passes in a row look at no
descriptor: so long may a signal or a message of another thread have to wait."""


class Turn:
    """The pass that the loop of one run is in: which tasks are still to be run in it."""

    __slots__ = ("batch", "left_out", "rng")

    def __init__(self, rng: TaskOrder) -> None:
        self.rng = rng
        self.batch: MutableSequence[Any] = []
        self.left_out = 0
        """Steps that were run inside others in this pass."""

    def begin(self, batch: MutableSequence[Any]) -> None:
        """A pass begins: its tasks are put into their order."""
        self.batch = batch
        self.left_out = 0
        if len(batch) > 1:
            self.rng.shuffle(batch)


class Shortcut:
    """Runs the step of a task inside that of another, where the loop would run it next anyway."""

    __slots__ = ("_now", "_runner", "_turn")

    def __init__(self, runner: Any, turn: Turn, now: Callable[[], float]) -> None:
        self._runner = runner
        self._turn = turn
        self._now = now

    def open(self) -> bool:
        """Whether the running task is the only one that can run, and nothing is about to cancel it."""
        runner, turn = self._runner, self._turn
        return (
            not turn.batch
            and not runner.runq
            and turn.left_out < PASSES_LEFT_OUT_MAX
            and not _CONTEXT.task._cancel_status.effectively_cancelled
            and "before_task_step" not in runner.instruments
            and "after_task_step" not in runner.instruments
            and runner.deadlines.next_deadline() > self._now()
        )

    def take(self) -> None:
        """Run the step of the one task that has been made ready since ``open`` was true.

        Nothing happens where more than one has, or none.
        """
        runner = self._runner
        if len(runner.runq) != 1:
            return
        self._turn.left_out += 1
        running = _CONTEXT.task
        _CONTEXT.task = runner.runq.popleft()
        try:
            _step(runner, _CONTEXT.task)
        finally:
            _CONTEXT.task = running

    async def settle(self) -> None:
        """Go on after ``take``: at once where still no other task can run, else by way of the loop.

        Raises trio.Cancelled where the step that was taken has cancelled this task.
        """
        if _CONTEXT.task._cancel_status.effectively_cancelled:
            await trio.lowlevel.checkpoint()
        elif self._runner.runq:
            await trio.lowlevel.cancel_shielded_checkpoint()


def _step(runner: Any, task: Any) -> None:
    """One step of a task, as trio's loop does it."""
    send, value = task._next_send_fn, task._next_send
    task._next_send_fn = task._next_send = None
    end: outcome.Outcome[Any] | None = None
    message: Any = None
    try:
        message = task.context.run(send, value)
    except StopIteration as stop:
        end = outcome.Value(stop.value)
    except BaseException as problem:
        end = outcome.Error(problem)
    if end is not None:
        runner.task_exited(task, end)
        return
    task._schedule_points += 1
    if message is CancelShieldedCheckpoint:
        runner.reschedule(task)
    elif type(message) is WaitTaskRescheduled:
        task._cancel_points += 1
        task._abort_func = message.abort_func
        if runner.ki_pending and task is runner.main_task:
            task._attempt_delivery_of_pending_ki()
        task._attempt_delivery_of_any_pending_cancel()
    else:
        raise trio.TrioInternalError(f"a task inside the step of another asked the loop for {message!r}")


def lighten(runner: Any) -> None:
    """Take from a run's loop what costs at each pass and does nothing in virtual time."""
    runner.io_manager = _QuietIo(runner.io_manager)
    runner.instruments = _Instruments(runner.instruments)


class _QuietIo:
    """trio's look at the descriptors, left out while there are none but trio's own and tasks are ready."""

    __slots__ = ("_io", "_left_out")

    def __init__(self, io: Any) -> None:
        self._io = io
        self._left_out = 0

    def get_events(self, timeout: float) -> Any:
        if timeout <= 0 and self._left_out < PASSES_LEFT_OUT_MAX and len(self._io._registered) <= 1:
            self._left_out += 1
            return ()
        self._left_out = 0
        return self._io.get_events(timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._io, name)


class _Instruments(dict[str, Any]):
    """trio's instruments as a plain dict: trio asks it five times a step whether a name is in it."""

    def __init__(self, instruments: Any) -> None:
        super().__init__(instruments.data)

    @property
    def data(self) -> "_Instruments":
        return self

    add_instrument = Instruments.add_instrument
    remove_instrument = Instruments.remove_instrument
    call = Instruments.call
