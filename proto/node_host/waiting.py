"""Waiting for a moment, or for a bell until a moment, at the price of an alarm.

``trio.sleep`` and ``trio.move_on_at`` make a cancel scope, register it, cancel it and raise through it. A
node sleeps several times a simulated second for as long as it runs; an alarm wakes the task directly.
Under a clock that is not ours there are no alarms, and trio's own means are taken.
"""

from functools import partial

import trio
import trio.lowlevel

from node_host.alarms import Alarm, Alarms

__all__ = ["Bell", "sleep_until"]


async def sleep_until(deadline: float, alarms: Alarms | None) -> None:
    """Sleep until trio's time reaches ``deadline``; a checkpoint if it has."""
    if deadline <= trio.current_time():
        await trio.lowlevel.checkpoint()
    elif alarms is None:
        await trio.sleep_until(deadline)
    else:
        alarm = alarms.at(deadline, partial(trio.lowlevel.reschedule, trio.lowlevel.current_task()))
        await trio.lowlevel.wait_task_rescheduled(partial(_give_up, alarm))


def _give_up(alarm: Alarm, _: object) -> trio.lowlevel.Abort:
    alarm.cancel()
    return trio.lowlevel.Abort.SUCCEEDED


class Bell:
    """A flag that one task waits for, with or without a deadline. Anyone may ring it; it rings until
    cleared.
    """

    __slots__ = ("_alarm", "_alarms", "_rung", "_task")

    def __init__(self, alarms: Alarms | None) -> None:
        self._alarms = alarms
        self._rung = False
        self._task: trio.lowlevel.Task | None = None
        self._alarm: Alarm | None = None

    @property
    def rung(self) -> bool:
        """Whether it rings."""
        return self._rung

    def ring(self) -> None:
        """Wake the task that waits, or the next one that will."""
        if not self._rung:
            self._rung = True
            self._wake()

    def clear(self) -> None:
        """Be silent until the next ``ring``."""
        self._rung = False

    async def wait(self) -> None:
        """Wait until it rings; a checkpoint if it does. Raises RuntimeError where another task waits."""
        if self._rung:
            await trio.lowlevel.checkpoint()
        else:
            await self._park(None)

    async def wait_until(self, deadline: float) -> bool:
        """Wait until it rings, or trio's time reaches the deadline; whether it rings.

        Raises RuntimeError where another task waits.
        """
        if self._rung or deadline <= trio.current_time():
            await trio.lowlevel.checkpoint()
        elif self._alarms is None:
            with trio.move_on_at(deadline):
                await self._park(None)
        else:
            await self._park(deadline)
        return self._rung

    async def _park(self, deadline: float | None) -> None:
        if self._task is not None:
            raise RuntimeError("another task waits for this bell")
        self._task = trio.lowlevel.current_task()
        if deadline is not None and self._alarms is not None:
            self._alarm = self._alarms.at(deadline, self._wake)
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    def _wake(self) -> None:
        self._forget_alarm()
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._forget_alarm()
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _forget_alarm(self) -> None:
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            alarm.cancel()
