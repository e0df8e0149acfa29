"""The Node object kept up: registration, and devices in capacity and allocatable.

Mirrors ``pkg/kubelet/kubelet_node_status.go`` (NOD-14, DEV-050 to DEV-053).
"""

import random
from collections.abc import Callable
from typing import Any, Protocol

from kubelet_emu.api.times import format_seconds
from kubelet_emu.apiserver.client import ApiClient
from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.cm.devicemanager.state import Capacity
from kubelet_emu.nodeobject import NodeShape, device_status, node_object, zero_extended
from kubelet_emu.seams import EventType, Recorder
from kubelet_emu.settings import KubeletSettings
from node_host.clock import NodeClock

__all__ = ["NodeEvents", "NodeReporter"]

NODE_RETRY_SECONDS = 1.0

JITTER = 0.04
"""Each period is longer by a random part of at most this."""


class NodeEvents(Protocol):
    """Where events about the node itself go."""

    def node_event(self, event_type: EventType, reason: str, message: str) -> None: ...


class NodeReporter:
    """Reports one node. ``capacity`` computes what the devices add, ``must_reset`` is DEV-052."""

    def __init__(
        self,
        *,
        api: ApiClient,
        settings: KubeletSettings,
        shape: NodeShape,
        clock: NodeClock,
        rng: random.Random,
        recorder: Recorder,
        capacity: Callable[[], Capacity],
        must_reset: Callable[[], bool],
        boot_id: str,
        events: NodeEvents,
    ) -> None:
        self._api = api
        self._settings = settings
        self._shape = shape
        self._clock = clock
        self._rng = rng
        self._recorder = recorder
        self._capacity = capacity
        self._must_reset = must_reset
        self._boot_id = boot_id
        self._events = events

    async def register(self) -> None:
        """Create the Node object, or take over the one that a former kubelet made."""
        since = format_seconds(self._clock.now_ns())
        obj = node_object(self._settings, self._shape, ready_since=since, boot_id=self._boot_id)
        while True:
            try:
                await self._api.create("Node", obj)
                return
            except ApiError as error:
                if error.reason == "AlreadyExists":
                    await self._take_over()
                    return
                self._recorder.fact("note", about="node", text=f"registration failed: {error}")
                await self._clock.sleep(NODE_RETRY_SECONDS)

    async def _take_over(self) -> None:
        """Zero the extended resources of a node that has lost its checkpoint (DEV-052)."""
        node = await self._get()
        if node is None or not self._must_reset():
            return
        old = node.get("status", {})
        new = {key: zero_extended(old.get(key, {})) for key in ("capacity", "allocatable")}
        if any(new[key] != old.get(key, {}) for key in new):
            await self._patch(new)

    async def run(self) -> None:
        """Report every ten seconds until cancelled; only what has changed is sent (DEV-053)."""
        period = self._settings.node_status_update_frequency_seconds
        while True:
            await self.report()
            await self._clock.sleep(period * (1.0 + JITTER * self._rng.random()))

    async def report(self) -> None:
        """Compute the status once, and send it if it has changed."""
        devices = self._capacity()
        node = await self._get()
        if node is None:
            return
        status = node.get("status", {})
        await self._note_boot(status.get("nodeInfo", {}))
        capacity, allocatable = status.get("capacity", {}), status.get("allocatable", {})
        total, offered = device_status(capacity, allocatable, devices)
        if (total, offered) != (capacity, allocatable):
            await self._patch({"capacity": total, "allocatable": _patch_of(allocatable, offered)})

    async def _note_boot(self, info: dict[str, Any]) -> None:
        """Tell of a reboot: another kubelet had reported another boot (NOD-17)."""
        if info.get("bootID", self._boot_id) == self._boot_id:
            return
        name = self._settings.node_name
        text = f"Node {name} has been rebooted, boot id: {self._boot_id}"
        self._events.node_event("Warning", "Rebooted", text)
        await self._patch({"nodeInfo": {"bootID": self._boot_id}})

    async def _get(self) -> dict[str, Any] | None:
        try:
            return await self._api.get("Node", "", self._settings.node_name)
        except ApiError as error:
            self._recorder.fact("note", about="node", text=f"the node cannot be read: {error}")
            return None

    async def _patch(self, status: dict[str, Any]) -> None:
        try:
            await self._api.patch(
                "Node", "", self._settings.node_name, {"status": status}, subresource="status"
            )
        except ApiError as error:
            self._recorder.fact("note", about="node", text=f"status update failed: {error}")


def _patch_of(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A merge patch from one mapping to another: null takes a key away."""
    return {**{key: None for key in old if key not in new}, **new}
