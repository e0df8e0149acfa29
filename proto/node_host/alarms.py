"""Timers for code that wakes its task itself (pure).

A trio cancel scope with a deadline costs more than a whole call in memory. Where a waiting task can be
woken by a plain function, an alarm does the same for a fraction; the clocks of ``node_host.loop`` ring
them.
"""

import itertools
import math
from collections.abc import Callable
from heapq import heapify, heappop, heappush

__all__ = ["Alarm", "Alarms"]

_MIN_DEAD = 1000


class Alarm:
    """One timer. Cancelling it more than once, or after it rang, does nothing."""

    __slots__ = ("_alarms", "_ring", "deadline", "sequence")

    def __init__(self, alarms: "Alarms", deadline: float, sequence: int, ring: Callable[[], object]) -> None:
        self.deadline = deadline
        self.sequence = sequence
        self._alarms = alarms
        self._ring: Callable[[], object] | None = ring

    @property
    def live(self) -> bool:
        return self._ring is not None

    def cancel(self) -> None:
        """Never ring."""
        if self._ring is not None:
            self._ring = None
            self._alarms.one_died()

    def take(self) -> Callable[[], object] | None:
        """What to call, once; None for a dead one."""
        ring, self._ring = self._ring, None
        return ring


class Alarms:
    """All timers of one clock, in the order of their deadlines and, where those are equal, of setting."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Alarm]] = []
        self._sequence = itertools.count()
        self._dead = 0
        self.earliest = math.inf
        """No alarm, dead or alive, is due before this."""

    def reserve(self) -> int:
        """A place in the order of setting, for an alarm that may be set later."""
        return next(self._sequence)

    def at(self, deadline: float, ring: Callable[[], object], *, sequence: int | None = None) -> Alarm:
        """Call ``ring`` when the clock reaches the deadline. It must neither block nor raise."""
        if sequence is None:
            sequence = next(self._sequence)
        alarm = Alarm(self, deadline, sequence, ring)
        heappush(self._heap, (deadline, sequence, alarm))
        if deadline < self.earliest:
            self.earliest = deadline
        return alarm

    def next_deadline(self, otherwise: float) -> float:
        """The earliest deadline of a live alarm, or ``otherwise`` where that is earlier or there is none."""
        heap = self._heap
        while heap:
            deadline, _, alarm = heap[0]
            if alarm.live:
                return min(deadline, otherwise)
            heappop(heap)
            self._dead -= 1
        return otherwise

    def ring(self, now: float) -> None:
        """Ring all that are due."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            alarm = heappop(heap)[2]
            call = alarm.take()
            if call is not None:
                call()
            else:
                self._dead -= 1
            heap = self._heap
        self.earliest = heap[0][0] if heap else math.inf

    def one_died(self) -> None:
        """Used by alarms. Dead ones are thrown out when they are many and more than the living."""
        self._dead += 1
        if self._dead > _MIN_DEAD and self._dead * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].live]
            heapify(self._heap)
            self._dead = 0

    def __len__(self) -> int:
        return len(self._heap) - self._dead
