"""Events about pods: queued, correlated, written to the API (EVT-01 to EVT-05).

The recorder never blocks. The sink writes one event after the other; while the API is away it tries each
twelve times, ten seconds apart, and what does not fit into the queue meanwhile is dropped and counted.
"""

import random
from collections import deque
from typing import Any

import trio
from attrs import frozen

from kubelet_emu.api.times import format_seconds
from kubelet_emu.api.types import Pod
from kubelet_emu.apiserver.client import ApiClient
from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.events_correlator import Correlator, EventKey
from kubelet_emu.seams import EventType
from node_host.clock import NodeClock

__all__ = ["QUEUE_MAX", "PodEvents"]

QUEUE_MAX = 1000
TRIES_MAX = 12
RETRY_SECONDS = 10.0


@frozen
class _Queued:
    involved: dict[str, Any]
    namespace: str
    event_type: EventType
    reason: str
    message: str
    at_ns: int


class PodEvents:
    """Implements ``seams.EventRecorder``; ``run`` is the sink. Without an API client events go nowhere
    (NOD-104).
    """

    def __init__(
        self,
        *,
        api: ApiClient | None,
        clock: NodeClock,
        rng: random.Random,
        node_name: str,
        qps: int = 50,
        burst: int = 100,
    ) -> None:
        self.dropped = 0
        self._api = api
        self._clock = clock
        self._rng = rng
        self._node_name = node_name
        self._qps = qps
        self._tokens = float(burst)
        self._burst = float(burst)
        self._tokens_at_seconds = clock.elapsed_seconds()
        self._correlator = Correlator()
        self._queue: deque[_Queued] = deque()
        self._arrived = trio.Event()

    def event(
        self, pod: Pod, event_type: EventType, reason: str, message: str, *, field_path: str = ""
    ) -> None:
        """Queue one event; see ``seams.EventRecorder``."""
        meta = pod.metadata
        involved: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
        }
        if field_path:
            involved["fieldPath"] = field_path
        self._put(involved, meta.namespace or "default", event_type, reason, message)

    def node_event(self, event_type: EventType, reason: str, message: str) -> None:
        """Queue an event about the node itself; the kubelet gives the node's name for its UID."""
        involved = {"kind": "Node", "name": self._node_name, "uid": self._node_name}
        self._put(involved, "default", event_type, reason, message)

    def _put(
        self, involved: dict[str, Any], namespace: str, event_type: EventType, reason: str, message: str
    ) -> None:
        if self._api is None:
            return
        if len(self._queue) >= QUEUE_MAX:
            self.dropped += 1
            return
        self._queue.append(_Queued(involved, namespace, event_type, reason, message, self._clock.now_ns()))
        self._arrived.set()

    async def run(self) -> None:
        """Write queued events until cancelled."""
        while True:
            while not self._queue:
                self._arrived = trio.Event()
                await self._arrived.wait()
            await self._deliver(self._queue.popleft())

    async def _deliver(self, queued: _Queued) -> None:
        key = EventKey(
            str(queued.involved["uid"]),
            str(queued.involved.get("fieldPath", "")),
            queued.event_type,
            queued.reason,
            queued.message,
        )
        verdict = self._correlator.observe(key, now_seconds=self._clock.elapsed_seconds())
        if verdict.action == "drop" or self._api is None:
            self.dropped += 1
            return
        await self._take_turn()
        stamp = format_seconds(queued.at_ns)
        for attempt in range(TRIES_MAX):
            try:
                if verdict.action == "count":
                    patch = {"count": verdict.count, "lastTimestamp": stamp, "message": verdict.message}
                    await self._api.patch("Event", queued.namespace, verdict.name, patch)
                else:
                    name = f"{queued.involved['name']}.{queued.at_ns:016x}"
                    stored = await self._create(queued, verdict.message, verdict.count, name, stamp)
                    if verdict.key is not None:
                        self._correlator.created(verdict.key, stored)
                return
            except ApiError as error:
                if error.code < 500:
                    self.dropped += 1
                    return
                pause = RETRY_SECONDS * (self._rng.random() if attempt == 0 else 1.0)
                await self._clock.sleep(pause)
        self.dropped += 1

    async def _take_turn(self) -> None:
        """Wait until the client may send: ``qps`` a second after a burst, 0 for no limit (EVT-01)."""
        if self._qps <= 0:
            return
        now = self._clock.elapsed_seconds()
        self._tokens = min(self._burst, self._tokens + (now - self._tokens_at_seconds) * self._qps)
        self._tokens_at_seconds = now
        self._tokens -= 1.0
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / self._qps)

    async def _create(self, queued: _Queued, message: str, count: int, name: str, stamp: str) -> str:
        assert self._api is not None
        obj: dict[str, Any] = {
            "metadata": {"name": name, "namespace": queued.namespace},
            "involvedObject": queued.involved,
            "reason": queued.reason,
            "message": message,
            "source": {"component": "kubelet", "host": self._node_name},
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": count,
            "type": queued.event_type,
            "eventTime": None,
            "reportingComponent": "kubelet",
            "reportingInstance": self._node_name,
        }
        for extra in range(100):
            try:
                unique = name if extra == 0 else f"{name[:-2]}{extra:02x}"
                created = await self._api.create(
                    "Event", {**obj, "metadata": {**obj["metadata"], "name": unique}}
                )
                return str(created["metadata"]["name"])
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
        raise ApiError(409, "AlreadyExists", f"no free name for an event at {name}")
