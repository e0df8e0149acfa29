"""How a run ends: watches the pods of a node and says when what was asked for has come about.

``settled`` is judged by silence: the node runs on until nothing that a person sees at the API has changed
for ten simulated minutes, or for twenty seconds once every pod has ended for good. A phase or a condition
that can no longer come about, because every pod has ended without it, ends the run early.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trio

from kubelet_emu.lab.until import (
    ENDED_QUIET_SECONDS,
    SETTLED_QUIET_SECONDS,
    Ending,
    EndingKind,
    Until,
    UntilDuration,
    UntilSettled,
    has_ended,
    is_visible_change,
    pods_satisfy,
)
from kubelet_emu.trace.schema import Record

__all__ = ["EndWatch"]


class EndWatch:
    """Follows one run. Feed it every record (``look``); ``wait`` returns when the run is over.

    ``pods`` gives the pod objects as they are now, ``now`` node-clock seconds, ``zero_seconds`` the
    node-clock time that the trace calls 0. Nothing counts as quiet before ``busy_until_seconds`` of the
    trace: something is still to be done to the node. A pod that has been removed is not among ``pods`` and
    counts as ended.
    """

    def __init__(
        self,
        until: Until,
        *,
        max_seconds: float,
        now: Callable[[], float],
        zero_seconds: float,
        pods: Callable[[], Sequence[Mapping[str, Any]]],
        busy_until_seconds: float = 0.0,
    ) -> None:
        self._until = until
        self._max_seconds = max_seconds
        self._now = now
        self._zero_seconds = zero_seconds
        self._pods = pods
        self._changed_at = now()
        self._busy_until = zero_seconds + busy_until_seconds
        self._changed = trio.Event()
        self._reached = False

    @property
    def quiet_since_seconds(self) -> float:
        """When the last visible change was, in seconds of the trace."""
        return max(self._changed_at - self._zero_seconds, 0.0)

    def look(self, record: Record) -> None:
        """Take one record in."""
        if not is_visible_change(record):
            return
        self._changed_at = self._now()
        self._changed.set()
        if record["k"] == "pod" and not self._reached:
            self._reached = pods_satisfy(self._until, self._pods())

    async def wait(self) -> Ending:
        """Return once the run is over."""
        limit = self._zero_seconds + self._max_seconds
        if isinstance(self._until, UntilDuration):
            wanted = self._zero_seconds + self._until.seconds
            await self._sleep_until(min(wanted, limit))
            return self.ending("time" if wanted <= limit else "max-time")
        while not self._reached:
            quiet_at = max(self._changed_at, self._busy_until) + self._quiet_seconds()
            if self._now() >= quiet_at:
                settled = isinstance(self._until, UntilSettled)
                return self.ending("settled" if settled else "unreachable")
            if self._now() >= limit:
                return self.ending("max-time")
            self._changed = trio.Event()
            with trio.move_on_after(min(quiet_at, limit) - self._now()):
                await self._changed.wait()
        return self.ending("reached")

    def ending(self, kind: EndingKind) -> Ending:
        """That ending, at this moment."""
        return Ending(kind, max(self._now() - self._zero_seconds, 0.0), self.quiet_since_seconds)

    async def _sleep_until(self, at_seconds: float) -> None:
        while self._now() < at_seconds:
            await trio.sleep(at_seconds - self._now())

    def _quiet_seconds(self) -> float:
        if all(map(has_ended, self._pods())):
            return ENDED_QUIET_SECONDS
        # A phase that every pod could still reach is waited for until --max-time.
        return SETTLED_QUIET_SECONDS if isinstance(self._until, UntilSettled) else float("inf")
