"""The generic PLEG: list everything once a second, tell what has changed.

Mirrors ``pkg/kubelet/pleg/generic.go`` (POD-904 to POD-914). A relist that finds what the last one found
costs one comparison of two tuples; statuses are read only for pods that have changed.
"""

from collections import deque
from collections.abc import Callable, Mapping

import trio
from attrs import frozen

from kubelet_emu.api.durations import format_duration
from kubelet_emu.container.cache import PodCache
from kubelet_emu.container.runtime import RunningPod, RuntimePodStatus
from kubelet_emu.container.stamps import BEFORE_ALL, Stamps
from kubelet_emu.errors import PeerError
from kubelet_emu.pleg.diff import (
    PlegEvent,
    PlegEventType,
    PlegState,
    diff_states,
    keep_ips,
    states_of_pod,
    states_of_status,
)
from kubelet_emu.seams import Recorder, Runtime
from kubelet_emu.why import Why
from node_host.loop import current_alarms
from node_host.waiting import Bell

__all__ = ["EVENT_CAPACITY", "RELIST_REQUESTS_MAX", "Deliver", "GenericPleg", "PlegGate"]

Deliver = Callable[[PlegEvent], bool]
"""Takes an event and says False if it is full."""
PlegGate = Callable[[PlegEvent, Deliver], bool]
"""Stands between PLEG and the sync loop and may hold events back; what a simulator puts there."""

EVENT_CAPACITY = 1000
"""Events that the receiver is to hold; what does not fit is dropped (POD-001)."""
RELIST_REQUESTS_MAX = 200
"""Requests for one pod that may wait; further ones are dropped (POD-001)."""


@frozen
class _Request:
    uid: str
    name: str
    namespace: str
    stamp: float


class GenericPleg:
    """One PLEG. ``deliver`` takes an event and says False if it is full: the event is then lost (POD-910)."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        cache: PodCache,
        stamps: Stamps,
        recorder: Recorder,
        deliver: Deliver,
        period_seconds: float = 1.0,
        threshold_seconds: float = 180.0,
        on_demand: bool = True,
    ) -> None:
        self.relists = 0
        """Global relists that could list."""
        self.discarded = 0
        """Events lost because the receiver was full, and requests for one pod that found the queue full."""
        self.period_seconds = period_seconds
        self.threshold_seconds = threshold_seconds
        self._runtime = runtime
        self._cache = cache
        self._stamps = stamps
        self._recorder = recorder
        self._deliver = deliver
        self._on_demand = on_demand
        self._records: dict[str, Mapping[str, PlegState]] = {}
        self._names: dict[str, str] = {}
        self._settled: tuple[RunningPod, ...] | None = None
        self._to_reinspect: set[str] = set()
        self._relist_stamp = BEFORE_ALL
        self._requests: deque[_Request] = deque()
        self._requested = Bell(current_alarms())
        self._restarted = False
        self._lock = trio.Lock()
        self.observer: Callable[[float], None] | None = None
        """Told of each relist of all pods when it is done, with the stamp of its beginning."""

    @property
    def last_relist_seconds(self) -> float:
        """When the last global relist began, in node-clock seconds; minus infinity before the first."""
        return self._relist_stamp

    async def run(self) -> None:
        """Relist at once, then a period after each relist has finished; single pods in between (POD-913)."""
        while True:
            await self.relist()
            deadline = trio.current_time() + self.period_seconds
            while not self._restarted and await self._requested_before(deadline):
                await self._serve_requests(deadline)
            self._restarted = False

    async def relist(self) -> bool:
        """One global relist; False if the runtime could not list (POD-904)."""
        async with self._lock:
            stamp = self._stamps.now()
            try:
                pods = await self._runtime.get_pods(include_exited=True)
            except PeerError as error:
                self._recorder.fact("pleg", problem=f"unable to retrieve pods: {error}")
                return False
            self._relist_stamp = stamp
            self.relists += 1
            if self._to_reinspect or pods != self._settled:
                await self._reconcile_all(pods)
            self._cache.update_time(stamp)
            if self.observer is not None:
                self.observer(stamp)
            return True

    def request_relist(self, uid: str, name: str, namespace: str) -> None:
        """Have one pod looked at soon, without waiting for the next global relist (POD-913). Never blocks."""
        if not self._on_demand:
            return
        if len(self._requests) >= RELIST_REQUESTS_MAX:
            self.discarded += 1
            return
        self._requests.append(_Request(uid, name, namespace, self._stamps.now()))
        self._requested.ring()

    def restart(self, *, period_seconds: float, threshold_seconds: float) -> None:
        """Go on with another period and threshold, beginning with a relist at once (POD-916)."""
        self.period_seconds = period_seconds
        self.threshold_seconds = threshold_seconds
        self._restarted = True
        self._requested.ring()

    def request_reinspect(self, uid: str) -> None:
        """Have the next relist read the pod's status even if no container has changed (POD-907)."""
        self._to_reinspect.add(uid)

    def problem(self, now_seconds: float) -> str:
        """What is wrong, empty if a relist has succeeded within the threshold (POD-912)."""
        if self._relist_stamp == BEFORE_ALL:
            return "pleg has yet to be successful"
        elapsed_ns = round((now_seconds - self._relist_stamp) * 1e9)
        threshold_ns = round(self.threshold_seconds * 1e9)
        if elapsed_ns <= threshold_ns:
            return ""
        elapsed, threshold = format_duration(elapsed_ns), format_duration(threshold_ns)
        return f"pleg was last seen active {elapsed} ago; threshold is {threshold}"

    async def _requested_before(self, deadline: float) -> bool:
        await self._requested.wait_until(deadline)
        return trio.current_time() < deadline

    async def _serve_requests(self, deadline: float) -> None:
        """Serve single requests in order until none is left or the global relist is due."""
        while self._requests and trio.current_time() < deadline:
            request = self._requests.popleft()
            if request.stamp > self._relist_stamp:
                await self._relist_pod(request)
        if not self._requests:
            self._requested.clear()

    async def _relist_pod(self, request: _Request) -> None:
        """Look at one pod. One that the runtime does not know is left to the global relist."""
        uid = request.uid
        async with self._lock:
            stamp = self._stamps.now()
            try:
                status = await self._runtime.get_pod_status(uid, request.name, request.namespace)
            except PeerError as error:
                self._recorder.fact("pleg", podUID=uid, problem=f"unable to retrieve pod: {error}")
                return
            states = states_of_status(status)
            if not states:
                return
            events = diff_states(uid, self._records.get(uid, {}), states)
            self._names[uid] = request.name
            if not self._store(uid, status, stamp):
                return
            self._settle(uid, states, events)
            self._cache.set_observed_time(uid, stamp)

    async def _reconcile_all(self, pods: tuple[RunningPod, ...]) -> None:
        current = {pod.uid: pod for pod in pods}
        gone = [uid for uid in (*self._records, *sorted(self._to_reinspect)) if uid not in current]
        settled = True
        for uid in dict.fromkeys((*current, *gone)):
            settled = await self._reconcile(uid, current.get(uid)) and settled
        self._settled = pods if settled else None

    async def _reconcile(self, uid: str, pod: RunningPod | None) -> bool:
        """Bring one pod's record up to date (POD-907 to POD-909); False if its status could not be read."""
        states = states_of_pod(pod)
        events = diff_states(uid, self._records.get(uid, {}), states)
        if not events and uid not in self._to_reinspect:
            return True
        if pod is None:
            self._cache.delete(uid)
        else:
            self._names[uid] = pod.name
            stamp = self._stamps.now()
            try:
                status = await self._runtime.get_pod_status(uid, pod.name, pod.namespace)
            except PeerError as error:
                # The record stays as it was: the next relist finds the same change again.
                self._cache.set(uid, RuntimePodStatus(uid=uid), error, stamp)
                self._to_reinspect.add(uid)
                return False
            if not self._store(uid, status, stamp):
                return False
        self._settle(uid, states, events)
        return True

    def _store(self, uid: str, status: RuntimePodStatus, stamp: float) -> bool:
        """Cache the status; False if the cache has refused it as stale: then nothing has been seen."""
        try:
            cached_ips = self._cache.get(uid).ips
        except PeerError:
            cached_ips = ()
        return self._cache.set(uid, keep_ips(cached_ips, status), None, stamp)

    def _settle(self, uid: str, states: Mapping[str, PlegState], events: tuple[PlegEvent, ...]) -> None:
        """Advance the record and send the events; a flagged pod without any yields one of its own."""
        if uid in self._to_reinspect:
            self._to_reinspect.discard(uid)
            events = events or (PlegEvent(uid, PlegEventType.POD_SYNC),)
        if states:
            self._records[uid] = states
        else:
            self._records.pop(uid, None)
        self._settled = None
        if events:
            self._send(self._names.get(uid, uid), events)
        if not states:
            self._names.pop(uid, None)

    def _send(self, name: str, events: tuple[PlegEvent, ...]) -> None:
        self._recorder.decision(
            "pleg",
            name,
            (Why("POD-906"),),
            inputs={},
            outcome={"events": [f"{event.type}:{event.container_id}" for event in events]},
        )
        for event in events:
            if event.type is not PlegEventType.CONTAINER_CHANGED and not self._deliver(event):
                self.discarded += 1
