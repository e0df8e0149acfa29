"""The stream behind GetContainerEvents: one bounded queue a subscriber, a short memory while there is none.

An event holds the frozen values of the pod at the moment it was made (CRI-141); messages are built from
them only when a subscriber takes it, so events cost next to nothing while nobody listens.
"""

from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from enum import IntEnum

import trio
from attrs import frozen

from cri_fake.store.containers import Container
from cri_fake.store.sandboxes import Sandbox

__all__ = ["EventHub", "EventType", "PodEvent"]

_BUFFER = 1000
"""Events a slow subscriber may be behind; more are dropped and counted. containerd has 100."""
_KEPT = 1000
_KEPT_SECONDS = 300.0
"""How long events are kept while nobody is subscribed (CRI-140)."""


class EventType(IntEnum):
    """The numbers are those of runtime.v1.ContainerEventType."""

    CREATED = 0
    STARTED = 1
    STOPPED = 2
    DELETED = 3


@frozen
class PodEvent:
    """``object_id`` is a container's or the sandbox's id; ``containers`` are all of the sandbox."""

    type: EventType
    object_id: str
    created_at_ns: int
    sandbox: Sandbox | None
    containers: tuple[Container, ...]


class EventHub:
    """Gives every event to every subscriber. ``elapsed_seconds`` dates the events that are kept."""

    def __init__(self, elapsed_seconds: Callable[[], float]) -> None:
        self._elapsed_seconds = elapsed_seconds
        self._subscribers: list[trio.MemorySendChannel[PodEvent]] = []
        self._kept: deque[tuple[float, PodEvent]] = deque(maxlen=_KEPT)
        self.dropped = 0

    def publish(self, event: PodEvent) -> None:
        """Hand an event out; never blocks."""
        if not self._subscribers:
            self._kept.append((self._elapsed_seconds(), event))
            return
        for channel in self._subscribers:
            try:
                channel.send_nowait(event)
            except trio.WouldBlock:
                self.dropped += 1

    @asynccontextmanager
    async def subscribe(self) -> AsyncGenerator[trio.MemoryReceiveChannel[PodEvent]]:
        """A channel of events from now on; the first subscriber also gets what was kept."""
        send, receive = trio.open_memory_channel[PodEvent](_BUFFER)
        earliest = self._elapsed_seconds() - _KEPT_SECONDS
        while self._kept:
            kept_at, event = self._kept.popleft()
            if kept_at >= earliest:
                send.send_nowait(event)
        self._subscribers.append(send)
        async with send, receive:
            try:
                yield receive
            finally:
                # Before the channel is closed, which takes a step of the loop: nobody may publish into it.
                self._subscribers.remove(send)
