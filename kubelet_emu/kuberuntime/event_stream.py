"""The runtime's stream of container events, as the evented PLEG reads it (CRI-140 to CRI-144, POD-915)."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.container.runtime import RuntimePodStatus
from kubelet_emu.container.stamps import Stamps
from kubelet_emu.errors import PeerError
from kubelet_emu.pleg.evented import ContainerEvent, ContainerEventType
from node_host.clock import NodeClock
from trio_grpc import StatusError
from trio_grpc.services.runtime_v1 import RuntimeServiceClient

__all__ = ["CriEvents"]


class CriEvents:
    """Implements ``pleg.evented.EventStream`` over CRI. ``read`` makes a status of an event's snapshot."""

    def __init__(
        self,
        client: RuntimeServiceClient,
        *,
        clock: NodeClock,
        stamps: Stamps,
        read: Callable[[cri.ContainerEventResponse], RuntimePodStatus | None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._stamps = stamps
        self._read = read

    @asynccontextmanager
    async def container_events(self) -> AsyncGenerator[AsyncIterator[ContainerEvent]]:
        """One stream without a deadline. A failure of the call is a ``PeerError``."""
        try:
            async with self._client.GetContainerEvents(cri.GetEventsRequest()) as items:
                yield self._converted(items)
        except StatusError as error:
            raise PeerError(str(error)) from error

    async def _converted(
        self, items: AsyncIterator[cri.ContainerEventResponse]
    ) -> AsyncIterator[ContainerEvent]:
        async for item in items:
            name = cri.ContainerEventType.Name(item.container_event_type)
            yield ContainerEvent(
                type=ContainerEventType(name),
                container_id=item.container_id,
                created_at_seconds=self._stamp(item.created_at),
                status=self._read(item),
            )

    def _stamp(self, created_at_ns: int) -> float:
        """When the event was made. In virtual time much happens at one instant: an event made in this very
        one is newer than what was looked at in it before.
        """
        ago_ns = self._clock.now_ns() - created_at_ns
        if ago_ns <= 0:
            return self._stamps.now()
        return self._clock.elapsed_seconds() - ago_ns / 1e9
