"""What the device manager knows, and how lists, losses and time change it (pure).

Mirrors the bookkeeping of ``pkg/kubelet/cm/devicemanager/manager.go`` (DEV sections 4, 5 and 6). Nothing here
waits, calls or reads a clock; the shell in ``manager`` does and tells.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import define, evolve, field, frozen

from kubelet_emu.cm.devicemanager.constants import HEALTHY, NO_NODE, STOP_GRACE_SECONDS
from kubelet_emu.cm.devicemanager.pod_devices import Held, PodDevices
from kubelet_emu.why import Why

__all__ = ["Capacity", "Device", "DeviceState", "Endpoint", "ListEffect"]


@frozen
class Device:
    """One device as listed. ``nodes`` is None without a topology message, empty for one without nodes."""

    id: str
    health: str = HEALTHY
    nodes: tuple[int, ...] | None = None


@frozen(kw_only=True)
class Endpoint:
    """The plugin of a resource: its options, and since when (node-clock seconds) it is gone.

    ``connection`` names the live connection, 0 for one that was read from a checkpoint and never was live.
    """

    path: str
    connection: int = 0
    pre_start_required: bool = False
    preferred_available: bool = False
    stopped_at_seconds: float | None = None

    @property
    def stopped(self) -> bool:
        return self.stopped_at_seconds is not None


@frozen
class Capacity:
    """What the node has to offer; ``removed`` are resources that have just expired (DEV-044, DEV-050)."""

    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    removed: tuple[str, ...] = ()
    why: tuple[Why, ...] = ()


@frozen
class ListEffect:
    """What a list message leads to besides a checkpoint: pods to be synced."""

    pods: tuple[str, ...]
    why: tuple[Why, ...] = ()


def _sets() -> dict[str, set[str]]:
    return {}


@define(kw_only=True)
class DeviceState:
    """All of it. ``health_in_status`` is the gate ResourceHealthStatus."""

    health_in_status: bool = True
    devices: dict[str, dict[str, Device]] = field(factory=dict[str, dict[str, Device]])
    healthy: dict[str, set[str]] = field(factory=_sets)
    unhealthy: dict[str, set[str]] = field(factory=_sets)
    allocated: dict[str, set[str]] = field(factory=_sets)
    pods: PodDevices = field(factory=PodDevices)
    endpoints: dict[str, Endpoint] = field(factory=dict[str, Endpoint])
    stray: dict[str, set[str]] = field(factory=_sets)
    """Ids marked in use that no assignment stands for yet, or any more (DEV-068, DEV-202 c)."""
    reusable_for: str = ""
    reusable: dict[str, set[str]] = field(factory=_sets)

    # -- plugins come, list and go --

    def connected(self, resource: str, endpoint: Endpoint) -> None:
        """A plugin has registered; what was known of its devices stays until it lists (DEV-027)."""
        self.endpoints[resource] = endpoint

    def listed(self, resource: str, devices: Sequence[Device]) -> ListEffect:
        """Take a list in: it replaces all that was known (DEV-040, DEV-041, DEV-122)."""
        old = self.devices.get(resource, {})
        healthy, unhealthy, new = set[str](), set[str](), dict[str, Device]()
        changed: list[str] = []
        for device in devices:
            before = old.get(device.id)
            if before is None or before.health != device.health:
                changed.append(device.id)
            new[device.id] = device
            (healthy if device.health == HEALTHY else unhealthy).add(device.id)
        self.devices[resource] = new
        self.healthy[resource], self.unhealthy[resource] = healthy, unhealthy
        if not self.health_in_status:
            return ListEffect((), (Why("DEV-040", resource),))
        pods = self._holders(changed)
        return ListEffect(pods, (Why("DEV-040", resource), *(Why("DEV-122", uid) for uid in pods)))

    def _holders(self, changed: Sequence[str]) -> tuple[str, ...]:
        """The first pod that holds each changed device, whatever the resource (DEV-122)."""
        wanted = set(changed)
        found: dict[str, str] = {}
        if wanted:
            for uid, _, _, held in self.pods.entries():
                for device in held.ids & wanted:
                    found.setdefault(device, uid)
        return tuple(dict.fromkeys(found[device] for device in changed if device in found))

    def disconnected(self, resource: str, now_seconds: float) -> None:
        """The stream of the resource's plugin has ended (DEV-042)."""
        endpoint = self.endpoints.get(resource)
        if endpoint is None:
            return
        lost = self.healthy.get(resource)
        self.unhealthy.setdefault(resource, set()).update(lost or ())
        if lost is not None:
            self.healthy[resource] = set()
        self.endpoints[resource] = evolve(endpoint, stopped_at_seconds=now_seconds)

    def capacity(self, now_seconds: float) -> Capacity:
        """Compute what the node offers, and forget resources whose plugin is gone for good (DEV-043)."""
        removed = [
            resource
            for resource in sorted(self.healthy.keys() | self.unhealthy.keys())
            if self._expired(resource, now_seconds)
        ]
        for resource in removed:
            for kept in (self.endpoints, self.healthy, self.unhealthy):
                kept.pop(resource, None)
        allocatable = {resource: len(ids) for resource, ids in sorted(self.healthy.items())}
        capacity = dict(allocatable)
        for resource, ids in sorted(self.unhealthy.items()):
            capacity[resource] = capacity.get(resource, 0) + len(ids)
        why = tuple(Why("DEV-044", resource) for resource in removed)
        return Capacity(capacity, allocatable, tuple(removed), why)

    def _expired(self, resource: str, now_seconds: float) -> bool:
        endpoint = self.endpoints.get(resource)
        if endpoint is None:
            return True
        stopped = endpoint.stopped_at_seconds
        return stopped is not None and now_seconds - stopped > STOP_GRACE_SECONDS

    # -- what containers hold --

    def is_plugin_resource(self, resource: str) -> bool:
        """Whether devices of this name are the device manager's business (DEV-045)."""
        return resource in self.healthy or resource in self.allocated

    def free(self, resource: str) -> set[str]:
        """Healthy devices that nobody holds."""
        return self.healthy.get(resource, set()) - self.allocated.get(resource, set())

    def begin_pod(self, uid: str) -> dict[str, set[str]]:
        """The reusable devices of a pod; those of any other pod are given up (DEV-070)."""
        if self.reusable_for != uid:
            self.reusable_for, self.reusable = uid, {}
        return self.reusable

    def settle(self, uid: str, container: str, *, reusable: bool) -> None:
        """After a container's allocation: later containers may, or may not, take its devices (DEV-070)."""
        for resource, held in self.pods.container(uid, container).items():
            kept = self.reusable.setdefault(resource, set())
            if reusable:
                kept.update(held.ids)
            else:
                kept.difference_update(held.ids)

    def assign(self, uid: str, container: str, resource: str, ids: Collection[str], response: bytes) -> None:
        """Write an assignment down; a device with several nodes goes under each (DEV-062)."""
        by_node: dict[int, list[str]] = {}
        for device in sorted(ids):
            known = self.devices.get(resource, {}).get(device)
            for node in (known.nodes if known is not None else None) or (NO_NODE,):
                by_node.setdefault(node, []).append(device)
        held = Held({node: tuple(some) for node, some in sorted(by_node.items())}, response)
        self.pods.insert(uid, container, resource, held)
        self.stray.get(resource, set[str]()).difference_update(ids)

    def mark(self, resource: str, ids: Iterable[str]) -> None:
        """Take devices out of what is free."""
        new = set(ids) - self.allocated.setdefault(resource, set())
        self.allocated[resource] |= new
        self.stray.setdefault(resource, set()).update(new)

    def rebuild_allocated(self) -> None:
        """Forget every mark that no assignment stands for (DEV-063, DEV-068)."""
        self.allocated = self.pods.allocated()
        self.stray = {}

    def collect(self, active: Collection[str]) -> tuple[str, ...]:
        """Drop the assignments of pods that are not active; the UIDs dropped (DEV-063)."""
        gone = tuple(uid for uid in self.pods.uids() if uid not in active)
        if gone:
            self.pods.drop(gone)
            self.rebuild_allocated()
        return gone

    def at_least_held(self, allocatable: Mapping[str, int]) -> dict[str, int]:
        """Node allocatable, raised where more is in use than the node shows (DEV-092)."""
        raised = dict(allocatable)
        for resource, ids in sorted(self.allocated.items()):
            raised[resource] = max(raised.get(resource, 0), len(ids))
        return raised

    def health_of(self, resource: str, device: str) -> str:
        """Health for a pod's status: what is not known counts as healthy (DEV-121)."""
        known = self.devices.get(resource, {}).get(device)
        return HEALTHY if known is None or known.health == HEALTHY else "Unhealthy"

    def has_alignment(self, resource: str) -> bool:
        """Whether any device of the resource has a NUMA node (DEV-066, DEV-133)."""
        return any(device.nodes for device in self.devices.get(resource, {}).values())
