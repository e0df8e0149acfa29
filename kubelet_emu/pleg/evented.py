"""The evented PLEG: the runtime tells what happens, the generic one only looks now and then.

Mirrors ``pkg/kubelet/pleg/evented.go`` (POD-915, POD-916; gate EventedPLEG). The cache must have been made
with ``refuse_stale``, and the generic PLEG with the long period. When the stream has failed for the fifth
time in its life, the generic PLEG takes over for good.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Protocol

import trio
from attrs import frozen

from kubelet_emu.container.cache import PodCache
from kubelet_emu.container.runtime import RuntimePodStatus
from kubelet_emu.container.stamps import Stamps
from kubelet_emu.errors import PeerError
from kubelet_emu.pleg.diff import PlegEvent, PlegEventType, keep_ips
from kubelet_emu.pleg.generic import GenericPleg
from kubelet_emu.seams import Recorder
from kubelet_emu.why import Why

__all__ = [
    "EVENTED_RELIST_SECONDS",
    "EVENTED_THRESHOLD_SECONDS",
    "ContainerEvent",
    "ContainerEventType",
    "EventStream",
    "EventedPleg",
]

EVENTED_RELIST_SECONDS = 300.0
"""Period of the generic PLEG beside an evented one (POD-001)."""
EVENTED_THRESHOLD_SECONDS = 600.0
GENERIC_RELIST_SECONDS = 1.0
GENERIC_THRESHOLD_SECONDS = 180.0
STREAM_FAILURES_MAX = 5
CACHE_PERIOD_SECONDS = 5.0


class ContainerEventType(StrEnum):
    """As CRI names them."""

    CREATED = "CONTAINER_CREATED_EVENT"
    STARTED = "CONTAINER_STARTED_EVENT"
    STOPPED = "CONTAINER_STOPPED_EVENT"
    DELETED = "CONTAINER_DELETED_EVENT"


@frozen(kw_only=True)
class ContainerEvent:
    """One event of GetContainerEvents.

    ``container_id`` may be that of the sandbox. ``status`` is the pod's status built from the event, None if
    the event carries no sandbox status with metadata. ``created_at_seconds`` is on the node's clock.
    """

    type: ContainerEventType
    container_id: str
    created_at_seconds: float
    status: RuntimePodStatus | None


class EventStream(Protocol):
    """Where the events come from."""

    def container_events(self) -> AbstractAsyncContextManager[AsyncIterator[ContainerEvent]]:
        """One stream. Its end counts as a failure, as does a ``PeerError``."""
        ...


_EVENTS = {
    ContainerEventType.CREATED: (),
    ContainerEventType.STARTED: (PlegEventType.CONTAINER_STARTED,),
    ContainerEventType.STOPPED: (PlegEventType.CONTAINER_DIED,),
    ContainerEventType.DELETED: (PlegEventType.CONTAINER_DIED, PlegEventType.CONTAINER_REMOVED),
}


class EventedPleg:
    """Feeds the cache and the sync loop from a stream. ``deliver`` says False if its receiver is full."""

    def __init__(
        self,
        *,
        stream: EventStream,
        generic: GenericPleg,
        cache: PodCache,
        stamps: Stamps,
        recorder: Recorder,
        deliver: Callable[[PlegEvent], bool],
    ) -> None:
        self.in_use = True
        """Whether the stream is still followed; False after the fallback."""
        self.discarded = 0
        self._stream = stream
        self._generic = generic
        self._cache = cache
        self._stamps = stamps
        self._recorder = recorder
        self._deliver = deliver

    async def run(self) -> None:
        """Follow the stream until it has failed too often, then leave the field to the generic PLEG."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._bump_cache)
            for _ in range(STREAM_FAILURES_MAX):
                try:
                    await self._follow()
                    problem = "the stream of container events has ended"
                except PeerError as error:
                    problem = f"the stream of container events failed: {error}"
                self._recorder.fact("pleg", problem=problem)
                await self._generic.relist()
            nursery.cancel_scope.cancel()
        self.in_use = False
        self._generic.restart(
            period_seconds=GENERIC_RELIST_SECONDS, threshold_seconds=GENERIC_THRESHOLD_SECONDS
        )

    async def _bump_cache(self) -> None:
        """The global stamp moves on its own, so that workers of quiet pods do not wait for a relist."""
        while True:
            await trio.sleep(CACHE_PERIOD_SECONDS)
            self._cache.update_time(self._stamps.now())

    async def _follow(self) -> None:
        async with self._stream.container_events() as events:
            async for event in events:
                if event.status is not None:
                    self._take(event, event.status)

    def _take(self, event: ContainerEvent, status: RuntimePodStatus) -> None:
        uid = status.uid
        if event.type is ContainerEventType.DELETED:
            if any(sandbox.id == event.container_id for sandbox in status.sandboxes):
                self._cache.delete(uid)
        elif not self._cache.set(uid, self._with_ips(status), None, event.created_at_seconds):
            return
        types = _EVENTS[event.type]
        self._recorder.decision(
            "pleg",
            status.name,
            (Why("POD-915", str(event.type)),),
            inputs={},
            outcome={"events": [f"{kind}:{event.container_id}" for kind in types]},
        )
        for kind in types:
            if not self._deliver(PlegEvent(uid, kind, event.container_id)):
                self.discarded += 1

    def _with_ips(self, status: RuntimePodStatus) -> RuntimePodStatus:
        try:
            return keep_ips(self._cache.get(status.uid).ips, status)
        except PeerError:
            return status
