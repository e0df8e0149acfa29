"""The API as the kubelet reaches it: the store behind a network, with latency and outages.

A call takes a latency drawn from the seed, half before and half after the store is touched, as on a wire.
While the server is away every call fails with 503 and watches end, as after a broken connection.
"""

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from kubelet_emu.apiserver.errors import ApiError, conflict
from kubelet_emu.apiserver.store import RESOURCES, ApiStore, PatchType, Watch, WatchEvent
from node_host.clock import NodeClock

__all__ = ["LATENCY_SECONDS", "ApiClient"]

Json = dict[str, Any]

LATENCY_SECONDS = (0.002, 0.006)
"""Round trip of one small call on the recorded node."""

WATCH_SECONDS = (0.001, 0.003)
"""How long a change takes from the store to the reader of a watch."""


class ApiClient:
    """Async face of an ``ApiStore``. Raises ``ApiError`` as the store does, 503 while the server is away."""

    def __init__(
        self,
        store: ApiStore,
        *,
        clock: NodeClock,
        rng: random.Random,
        latency_seconds: tuple[float, float] = LATENCY_SECONDS,
    ) -> None:
        self.store = store
        self._available = True
        self._conflicts = 0
        self._stale_until = 0.0
        self._stale: dict[tuple[str, str, str], Json] = {}
        self._watches: list[Watch] = []
        self._clock = clock
        self._rng = rng
        self._latency_seconds = latency_seconds

    @property
    def available(self) -> bool:
        """Whether the server can be reached. Setting it to False also ends all watches."""
        return self._available

    @available.setter
    def available(self, value: bool) -> None:
        self._available = value
        if not value:
            self.cut_watches()

    def cut_watches(self) -> None:
        """End all watches, as a lost connection does; what happened until they are made anew is not told."""
        for watch in self._watches:
            watch.drop()

    def refuse_writes(self, count: int) -> None:
        """Answer the next ``count`` writes with 409 Conflict."""
        self._conflicts = count

    def go_stale(self, seconds: float) -> None:
        """For so long reads show what is there now, and watches tell nothing; 0 ends it."""
        self._stale_until = self._clock.elapsed_seconds() + seconds
        self._stale = {}
        for kind in RESOURCES if seconds > 0 else ():
            for obj in self.store.list(kind):
                metadata = obj["metadata"]
                self._stale[kind, metadata.get("namespace", ""), metadata["name"]] = obj

    async def get(self, kind: str, namespace: str, name: str) -> Json | None:
        """The object, or None if there is none."""
        async with self._call():
            if self._clock.elapsed_seconds() < self._stale_until:
                return self._stale.get((kind, namespace, name))
            return self.store.get(kind, namespace, name)

    async def create(self, kind: str, obj: Mapping[str, Any]) -> Json:
        """Create an object; see ``ApiStore.create``."""
        async with self._call():
            self._refuse(kind, str(obj.get("metadata", {}).get("name", "")))
            return self.store.create(kind, obj)

    async def patch(
        self,
        kind: str,
        namespace: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        subresource: str = "",
        patch_type: PatchType = "strategic",
        uid: str | None = None,
    ) -> Json:
        """Patch an object; see ``ApiStore.patch``."""
        async with self._call():
            self._refuse(kind, name)
            return self.store.patch(
                kind, namespace, name, patch, subresource=subresource, patch_type=patch_type, uid=uid
            )

    async def delete(
        self,
        kind: str,
        namespace: str,
        name: str,
        *,
        grace_seconds: int | None = None,
        uid: str | None = None,
    ) -> Json:
        """Delete an object; see ``ApiStore.delete``."""
        async with self._call():
            self._refuse(kind, name)
            return self.store.delete(kind, namespace, name, grace_seconds=grace_seconds, uid=uid)

    # the same, in the words of the status manager

    async def get_pod(self, namespace: str, name: str) -> Json | None:
        return await self.get("Pod", namespace, name)

    async def patch_pod_status(self, namespace: str, name: str, uid: str, patch: Mapping[str, Any]) -> Json:
        return await self.patch("Pod", namespace, name, patch, subresource="status", uid=uid)

    async def delete_pod(self, namespace: str, name: str, uid: str, grace_seconds: int) -> None:
        await self.delete("Pod", namespace, name, grace_seconds=grace_seconds, uid=uid)

    @asynccontextmanager
    async def watch(
        self, kind: str, *, wanted: Callable[[Json], bool] = lambda _: True
    ) -> "AsyncGenerator[_Delivered]":
        """A watch with the present objects first; ended when the block is left or the server goes away."""
        self._require()
        watch = self.store.watch(kind, wanted=wanted)
        self._watches.append(watch)
        try:
            yield _Delivered(watch, self._delivery)
        finally:
            self._watches.remove(watch)
            self.store.unwatch(kind, watch)

    async def _delivery(self) -> None:
        """The way of one watch event to its reader; the first objects of a watch come with its answer."""
        low, high = WATCH_SECONDS
        while self._clock.elapsed_seconds() < self._stale_until:
            await self._clock.sleep_until(self._stale_until)
        if self._latency_seconds[1] > 0:
            await self._clock.sleep(self._rng.uniform(low, high))

    @asynccontextmanager
    async def _call(self) -> AsyncGenerator[None]:
        low, high = self._latency_seconds
        trip = self._rng.uniform(low, high) if high > 0 else 0.0
        if trip:
            await self._clock.sleep(trip / 2)
        self._require()
        yield
        if trip:
            await self._clock.sleep(trip / 2)

    def _refuse(self, kind: str, name: str) -> None:
        if self._conflicts > 0:
            self._conflicts -= 1
            raise conflict(RESOURCES[kind], name)

    def _require(self) -> None:
        if not self._available:
            raise ApiError(503, "ServiceUnavailable", "the server is currently unable to handle the request")


class _Delivered:
    """A watch whose events take their time to arrive."""

    def __init__(self, watch: Watch, delivery: Callable[[], Awaitable[None]]) -> None:
        self._watch = watch
        self._delivery = delivery

    def __aiter__(self) -> "_Delivered":
        return self

    async def __anext__(self) -> WatchEvent:
        if self._watch.pending_initial:
            return await self._watch.__anext__()
        event = await self._watch.__anext__()
        await self._delivery()
        return event
