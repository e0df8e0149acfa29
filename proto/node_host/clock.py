"""The node's clock: trio's clock plus an epoch, so that timestamps are simulated as well.

Every deadline of a node is a deadline of trio (``trio.move_on_after``, ``trio.fail_after``): trio's
clock is the node's clock. This class adds what trio's does not have, the time of day.
"""

import trio

from node_host.loop import current_alarms
from node_host.waiting import sleep_until

__all__ = ["DEFAULT_EPOCH_NS", "NodeClock", "shared_epoch_ns"]

DEFAULT_EPOCH_NS = 1_767_225_600_000_000_000
"""2026-01-01T00:00:00Z in unix nanoseconds: the time of day at which a simulated node starts by default."""

_NS_PER_SECOND = 1_000_000_000


def shared_epoch_ns(wall_ns: int, rate: float = 1.0) -> int:
    """The time of day of a real-time node that starts at ``wall_ns`` (unix nanoseconds) of the machine.

    Nodes and runtimes in several processes that run at one rate then agree on the time of day, whenever each
    of them started: all count from the default epoch. At rate 1 it is the machine's own.
    """
    return DEFAULT_EPOCH_NS + round(rate * (wall_ns - DEFAULT_EPOCH_NS))


class NodeClock:
    """The clock of one node. Make it inside a trio run; elapsed time counts from that moment.

    ``epoch_ns`` is the time of day (unix nanoseconds) at elapsed 0.
    """

    __slots__ = ("_alarms", "_current_time", "_epoch_ns", "_jump_ns", "_start_seconds")

    def __init__(self, *, epoch_ns: int = DEFAULT_EPOCH_NS) -> None:
        self._epoch_ns = epoch_ns
        self._jump_ns = 0
        self._alarms = current_alarms()
        self._current_time = trio.lowlevel.current_clock().current_time
        self._start_seconds = self._current_time()

    @property
    def epoch_ns(self) -> int:
        """The time of day at elapsed 0, without any jump."""
        return self._epoch_ns

    def elapsed_seconds(self) -> float:
        """Seconds since the clock was made. Never goes back; all durations are reckoned on it."""
        return self._current_time() - self._start_seconds

    def now_ns(self) -> int:
        """The time of day in unix nanoseconds, with all jumps so far. For timestamps, not for durations."""
        return self._epoch_ns + self._jump_ns + round(self.elapsed_seconds() * _NS_PER_SECOND)

    def jump_ns(self, delta_ns: int) -> None:
        """Step the time of day, forwards or (negative) backwards, as an operator or a bad NTP server would.

        Elapsed time and every timer stay as they are.
        """
        self._jump_ns += delta_ns

    async def sleep(self, seconds: float) -> None:
        """Sleep on the node's clock; a duration of zero or less is a plain checkpoint."""
        await sleep_until(self._current_time() + seconds, self._alarms)

    async def sleep_until(self, elapsed_seconds: float) -> None:
        """Sleep until ``elapsed_seconds()`` reaches this value; a checkpoint if it has."""
        await sleep_until(self._start_seconds + elapsed_seconds, self._alarms)
