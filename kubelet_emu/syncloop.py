"""The sync loop: takes one event at a time from whichever channel is ready (POD-101 to POD-105).

Mirrors ``syncLoop`` and ``syncLoopIteration`` of ``pkg/kubelet/kubelet.go``. Channels that are ready together
have no order among them: the choice is drawn from the node's seed, as a select statement would draw it.
"""

import random
from collections import deque
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

import trio

from node_host.clock import NodeClock
from node_host.loop import current_alarms
from node_host.waiting import Bell

__all__ = ["Channel", "SyncLoop"]

SYNC_TICK_SECONDS = 1.0
UNHEALTHY_FIRST_SECONDS = 0.1
UNHEALTHY_MAX_SECONDS = 5.0
LIVENESS_STALE_SECONDS_MIN = 300.0

CHANNEL_CAPACITY = 1000
"""Events a channel holds; what comes beyond is dropped and counted (the sources re-send their state)."""


class Channel(StrEnum):
    """Where an event of the loop comes from (POD-103)."""

    CONFIG = "config"
    PLEG = "pleg"
    SYNC_TICK = "sync-tick"
    LIVENESS = "liveness"
    READINESS = "readiness"
    STARTUP = "startup"
    CONTAINER_MANAGER = "container-manager"
    HOUSEKEEPING_TICK = "housekeeping-tick"


Handler = Callable[[Any], Awaitable[None]]


class SyncLoop:
    """One loop. ``offer`` feeds a channel and never blocks; ``run`` dispatches until cancelled.

    ``healthy`` returns an empty text or what is wrong with the runtime; while it is wrong the loop only
    sleeps, 100 ms doubling to 5 s, and reads no channel at all (POD-101).
    """

    def __init__(
        self,
        *,
        clock: NodeClock,
        rng: random.Random,
        healthy: Callable[[], str],
        handlers: dict[Channel, Handler],
        housekeeping_period_seconds: float,
    ) -> None:
        self.dropped = 0
        self.last_iteration_seconds = clock.elapsed_seconds()
        self._clock = clock
        self._rng = rng
        self._healthy = healthy
        self._handlers = handlers
        self._housekeeping_period_seconds = housekeeping_period_seconds
        self._queues: dict[Channel, deque[Any]] = {channel: deque() for channel in Channel}
        self._arrived = Bell(current_alarms())

    def offer(self, channel: Channel, event: object) -> bool:
        """Put an event into a channel; False if it was full and the event is lost."""
        queue = self._queues[channel]
        if len(queue) >= CHANNEL_CAPACITY:
            self.dropped += 1
            return False
        queue.append(event)
        self._arrived.ring()
        return True

    def waiting(self, channel: Channel) -> int:
        """How many events of a channel have not been taken yet."""
        return len(self._queues[channel])

    def stale(self, resync_seconds: float) -> bool:
        """Whether the loop has not turned for too long (POD-108)."""
        limit = max(2 * resync_seconds, LIVENESS_STALE_SECONDS_MIN)
        return self._clock.elapsed_seconds() - self.last_iteration_seconds > limit

    async def run(self) -> None:
        """Dispatch events, one at a time, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tick)
            pause_seconds = UNHEALTHY_FIRST_SECONDS
            while True:
                if self._healthy():
                    await self._clock.sleep(pause_seconds)
                    pause_seconds = min(2 * pause_seconds, UNHEALTHY_MAX_SECONDS)
                    continue
                pause_seconds = UNHEALTHY_FIRST_SECONDS
                await self._iterate()

    async def _iterate(self) -> None:
        self.last_iteration_seconds = self._clock.elapsed_seconds()
        ready = [channel for channel, queue in self._queues.items() if queue]
        if not ready:
            self._arrived.clear()
            await self._arrived.wait()
            return
        channel = ready[0] if len(ready) == 1 else self._rng.choice(ready)
        await self._handlers[channel](self._queues[channel].popleft())

    async def _tick(self) -> None:
        """Both tickers, which start together. One holds at most one tick: a slow loop sees fewer, never a
        burst.
        """
        ticks = {
            Channel.SYNC_TICK: SYNC_TICK_SECONDS,
            Channel.HOUSEKEEPING_TICK: self._housekeeping_period_seconds,
        }
        start_seconds = self._clock.elapsed_seconds()
        due = {channel: start_seconds + period for channel, period in ticks.items()}
        while True:
            await self._clock.sleep_until(min(due.values()))
            now = self._clock.elapsed_seconds()
            for channel, period in ticks.items():
                if due[channel] > now:
                    continue
                due[channel] += period * (1 + (now - due[channel]) // period)
                if not self._queues[channel]:
                    self._queues[channel].append(None)
                    self._arrived.ring()
