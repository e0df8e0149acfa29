"""The sources put together: full lists in, groups of changes out, in order.

Mirrors ``pkg/kubelet/config/config.go`` and ``sources.go`` (POD-215, POD-218, POD-219).
"""

from collections.abc import Awaitable, Callable, Collection, Sequence

import trio

from kubelet_emu.api.types import Pod
from kubelet_emu.config.merge import ConfigUpdate, SourceState, duplicate_message, merge
from kubelet_emu.seams import EventRecorder

__all__ = ["CHANNEL_CAPACITY", "PodConfig"]

CHANNEL_CAPACITY = 50
"""Groups that are to wait between the sources and the sync loop at most (POD-001)."""


class PodConfig:
    """Merges the lists of all sources. ``deliver`` takes one group and may wait; so may the sources then."""

    def __init__(
        self,
        *,
        sources: Sequence[str],
        deliver: Callable[[ConfigUpdate], Awaitable[None]],
        events: EventRecorder,
        now_ns: Callable[[], int],
    ) -> None:
        self.sources = tuple(sources)
        self._deliver = deliver
        self._events = events
        self._now_ns = now_ns
        self._states = {source: SourceState() for source in sources}
        self._lock = trio.Lock()

    async def set_pods(self, source: str, pods: Sequence[Pod]) -> None:
        """Replace the list of a configured source. Raises ``KeyError`` for any other."""
        async with self._lock:
            merged = merge(self._states[source], source, pods, now_ns=self._now_ns())
            self._states[source] = merged.state
            for pod in merged.duplicates:
                self._events.event(pod, "Warning", "FailedValidation", duplicate_message(pod, source))
            for update in merged.updates:
                await self._deliver(update)

    def all_ready(self, consumed: Collection[str]) -> bool:
        """Whether every source has sent a list and the sync loop has ``consumed`` one of each (POD-219)."""
        return all(self._states[source].seen and source in consumed for source in self.sources)
