"""Deadlines of many calls watched by one task, for callers that can be woken with an error.

A cancel scope around each call costs as much as the call itself in memory. Nearly every call is over long
before its deadline, so the watcher forgets those of finished calls when it wakes, which it does about once in
the length of a deadline, not once a call.
"""

import math
from heapq import heappop, heappush
from typing import Protocol

import trio

__all__ = ["Deadlines", "Expiring"]


class Expiring(Protocol):
    """A call that waits: ``over`` once it has its answer, ``expire`` ends it with DEADLINE_EXCEEDED."""

    @property
    def over(self) -> bool: ...

    def expire(self) -> None: ...


class Deadlines:
    """Calls by deadline (trio time). Entries of calls that are over are dropped when they come up."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Expiring]] = []
        self._sequence = 0
        self._wakes_at = -math.inf
        self._earlier = trio.Event()

    def add(self, deadline: float, call: Expiring) -> None:
        """Watch a call. It ends at its deadline, in the order of adding where several end at once."""
        self._sequence += 1
        heappush(self._heap, (deadline, self._sequence, call))
        if deadline < self._wakes_at:
            self._earlier.set()

    async def watch(self) -> None:
        """Expire calls until cancelled."""
        while True:
            now = trio.current_time()
            while self._heap and (self._heap[0][2].over or self._heap[0][0] <= now):
                call = heappop(self._heap)[2]
                if not call.over:
                    call.expire()
            self._wakes_at = self._heap[0][0] if self._heap else math.inf
            self._earlier = trio.Event()
            with trio.move_on_at(self._wakes_at):
                await self._earlier.wait()
