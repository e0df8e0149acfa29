"""Topology hints of devices (pure).

Mirrors ``pkg/kubelet/cm/devicemanager/topology_hints.go`` (DEV-133 to DEV-136).
"""

from collections.abc import Collection, Iterable, Mapping

from kubelet_emu.api.resources import aggregate_limits
from kubelet_emu.api.types import Container, Pod
from kubelet_emu.cm.devicemanager.state import Device, DeviceState
from kubelet_emu.cm.machine import MachineTopology
from kubelet_emu.cm.topologymanager.hints import Hint, ProviderHints, mask_of, subsets

__all__ = ["container_hints", "container_request", "generate", "pod_hints", "pod_request"]


def container_request(state: DeviceState, container: Container) -> dict[str, int]:
    """Devices that a container asks for, by resource in order of name; requests are not read (DEV-061)."""
    return {
        name: quantity.value()
        for name, quantity in sorted(container.resources.limits.items())
        if state.is_plugin_resource(name)
    }


def pod_request(state: DeviceState, pod: Pod) -> dict[str, int]:
    """Devices that a pod needs at its peak, without overhead (DEV-136, DEV-199)."""
    return {
        name: quantity.value()
        for name, quantity in sorted(aggregate_limits(pod.spec).items())
        if state.is_plugin_resource(name)
    }


def container_hints(
    state: DeviceState, pod: Pod, container: Container, machine: MachineTopology
) -> ProviderHints:
    """Hints for one container (DEV-133)."""
    uid = pod.metadata.uid
    reusable: Mapping[str, Collection[str]] = state.reusable if state.reusable_for == uid else {}
    hints: dict[str, list[Hint] | None] = {}
    for resource, wanted in container_request(state, container).items():
        held = state.pods.get(uid, container.name, resource)
        have = held.ids if held is not None else frozenset[str]()
        hints[resource] = _hints(state, resource, wanted, have, reusable.get(resource, ()), machine)
    return hints


def pod_hints(state: DeviceState, pod: Pod, machine: MachineTopology) -> ProviderHints:
    """Hints for a whole pod: the same rows, with nothing reusable (DEV-136)."""
    uid = pod.metadata.uid
    return {
        resource: _hints(state, resource, wanted, state.pods.pod_ids(uid, resource), (), machine)
        for resource, wanted in pod_request(state, pod).items()
    }


def _hints(
    state: DeviceState,
    resource: str,
    wanted: int,
    have: Collection[str],
    reusable: Collection[str],
    machine: MachineTopology,
) -> list[Hint] | None:
    if not state.has_alignment(resource):
        return None
    if have:
        return [] if len(have) != wanted else generate(state, resource, have, (), wanted, machine)
    free = state.free(resource)
    if len(free | set(reusable)) < wanted:
        return []
    return generate(state, resource, free, reusable, wanted, machine)


def _nodes(device: Device | None) -> tuple[int, ...]:
    return (device.nodes or ()) if device is not None else ()


def generate(
    state: DeviceState,
    resource: str,
    available: Collection[str],
    reusable: Collection[str],
    wanted: int,
    machine: MachineTopology,
) -> list[Hint]:
    """A hint for every set of nodes that has enough devices; the smallest sets are preferred (DEV-134)."""
    known = state.devices.get(resource, {})
    hosting = {node for device in known.values() for node in _nodes(device)}
    nodes = [node for node in machine.nodes if node in hosting] or list(machine.nodes)
    every = _counts(known.values())
    free = _counts(known[one] for one in available if one in known)
    kept = [mask_of(_nodes(known[one])) for one in reusable if one in known and known[one].nodes is not None]
    smallest = len(nodes)
    found: list[int] = []
    for mask in subsets(nodes):
        size = mask.bit_count()
        if size < smallest and _inside(every, mask) >= wanted:
            smallest = size
        if any(not mask & home for home in kept):
            continue
        if len(kept) + _inside(free, mask) >= wanted:
            found.append(mask)
    return [Hint(mask, mask.bit_count() == smallest) for mask in found]


def _counts(devices: Iterable[Device]) -> dict[int, int]:
    """How many devices sit on each set of nodes; those without nodes never count."""
    counts: dict[int, int] = {}
    for device in devices:
        home = mask_of(node for node in _nodes(device) if node >= 0)
        if home:
            counts[home] = counts.get(home, 0) + 1
    return counts


def _inside(counts: Mapping[int, int], mask: int) -> int:
    return sum(number for home, number in counts.items() if home & mask)
