"""Invariants about devices, in the form of DEV-202 (pure).

(a) and (f) are ``devices-exclusive`` and ``devices-kept`` beside the other things that a pod keeps; the rest
is here. What the device manager has noted is read from its decisions, what plugins saw from their calls.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.lab.invariants.base import Invariant
from kubelet_emu.lab.invariants.world import PodFacts, Step, StepKind
from kubelet_emu.trace.schema import Record

__all__ = ["AllocateOnce", "DeviceBooks", "DevicesCounted", "DevicesDisjoint", "PreStartAtCreate"]

_LASTING = ("sidecar", "regular")


def allocated(record: Record) -> tuple[str, str, frozenset[str]]:
    """Container, resource and ids of a device manager's decision."""
    inputs: Mapping[str, Any] = record["inputs"]
    return inputs["container"], inputs["resource"], frozenset(record["outcome"]["devices"])


def shown(record: Record) -> Iterable[tuple[str, str, frozenset[str]]]:
    """The same of a snapshot, for each resource of each container."""
    for name, status in record["containers"].items():
        if "allocatedResourcesStatus" not in status:  # nearly always
            continue
        for resource in status["allocatedResourcesStatus"]:
            if str(resource.get("name", "")).startswith("claim:"):
                continue  # a claim may be shared
            ids = frozenset(device.get("resourceID", "") for device in resource.get("resources", ()))
            yield name, resource.get("name", ""), ids


class DevicesDisjoint(Invariant):
    name = "devices-disjoint"
    rules = ("DEV-202", "DEV-071")
    text = "Sidecars and regular containers of one pod never share a device."
    steps = (StepKind.ALLOCATED, StepKind.SNAPSHOT)

    def __init__(self) -> None:
        self._held: WeakKeyDictionary[PodFacts, dict[tuple[str, str], frozenset[str]]] = WeakKeyDictionary()

    def check(self, step: Step) -> Iterable[str]:
        pod, record = step.pod, step.record
        if step.kind is StepKind.ALLOCATED:
            found = [allocated(record)]
        else:
            found = list(shown(record))
            if not found or record.get("deleted"):
                self._held.pop(pod, None)
                return
        held = self._held.setdefault(pod, {})
        for container, resource, ids in found:
            if pod.kind(container) not in _LASTING:
                continue
            held[container, resource] = ids
            for (other, kind), others in held.items():
                if other != container and kind == resource and ids & others:
                    both = ", ".join(sorted(ids & others))
                    yield f"{container} and {other} both have {both} of {resource}"


class DevicesCounted(Invariant):
    name = "devices-counted"
    rules = ("DEV-202", "DEV-064")
    text = "A container has exactly as many devices as its limits say."
    steps = (StepKind.ALLOCATED, StepKind.SNAPSHOT)

    def check(self, step: Step) -> Iterable[str]:
        found = [allocated(step.record)] if step.kind is StepKind.ALLOCATED else shown(step.record)
        for container, resource, ids in found:
            spec = step.pod.containers.get(container)
            if spec is None:
                continue
            limit = _limit(spec, resource)
            if limit and len(ids) != Quantity.parse(limit).value():
                yield f"{container} has {len(ids)} of {resource}, its limit is {limit}"


def _limit(container: Mapping[str, Any], resource: str) -> str:
    resources: Mapping[str, Any] = container.get("resources") or {}
    limits: Mapping[str, Any] = resources.get("limits") or {}
    return str(limits.get(resource, ""))


class AllocateOnce(Invariant):
    name = "allocate-once"
    rules = ("DEV-202", "DEV-110")
    text = (
        "A plugin is asked to allocate at most once for a container of a pod, unless the checkpoint was lost."
    )
    steps = (StepKind.DEVICE_CALL, StepKind.BOOKS_LOST)

    def __init__(self) -> None:
        self._asked: WeakKeyDictionary[PodFacts, set[tuple[str, str]]] = WeakKeyDictionary()

    def check(self, step: Step) -> Iterable[str]:
        record = step.record
        if step.kind is StepKind.BOOKS_LOST:
            self._asked.clear()
        elif record["method"] == "Allocate" and "container" in record:
            place = record["container"], record["resource"]
            asked = self._asked.setdefault(step.pod, set())
            if place in asked:
                container, resource = place
                yield f"Allocate was called again for {resource} of container {container}"
            asked.add(place)


class PreStartAtCreate(Invariant):
    name = "pre-start-at-create"
    rules = ("DEV-202", "DEV-102")
    text = (
        "Once for each attempt to create a container with devices its plugin is told (PreStartContainer), if "
        "it is there and has asked for that."
    )
    steps = (
        StepKind.ALLOCATED,
        StepKind.DEVICE_CALL,
        StepKind.CREATE,
        StepKind.PLUGIN,
        StepKind.KUBELET,
        StepKind.SYNC_FAILED,
    )

    def __init__(self) -> None:
        self._wants: set[str] = set()
        """Resources whose plugin is there and wants to be told."""
        self._held: WeakKeyDictionary[PodFacts, set[tuple[str, str]]] = WeakKeyDictionary()
        self._told: WeakKeyDictionary[PodFacts, set[tuple[str, str]]] = WeakKeyDictionary()

    def check(self, step: Step) -> Iterable[str]:
        record, pod = step.record, step.pod
        if step.kind is StepKind.KUBELET:
            self._wants.clear()
            self._told.clear()
        elif step.kind is StepKind.SYNC_FAILED:
            self._told.pop(pod, None)  # the attempt came to nothing before the runtime was asked
        elif step.kind is StepKind.PLUGIN:
            if record["do"] == "registered" and record.get("preStart"):
                self._wants.add(record["resource"])
            elif record["do"] in ("registered", "lost", "expired"):
                self._wants.discard(record["resource"])
        elif step.kind is StepKind.ALLOCATED:
            container, resource, _ = allocated(record)
            self._held.setdefault(pod, set()).add((container, resource))
        elif step.kind is StepKind.DEVICE_CALL:
            if record["method"] == "PreStartContainer" and "container" in record:
                place = record["container"], record["resource"]
                told = self._told.setdefault(pod, set())
                if place in told:
                    yield f"PreStartContainer was called twice for one creation of {place[0]} ({place[1]})"
                told.add(place)
        else:
            name: str = record["name"]
            told = self._told.get(pod, set[tuple[str, str]]())
            for container, resource in self._held.get(pod, ()):
                if container == name:
                    if resource in self._wants and (name, resource) not in told:
                        label = record["container"]
                        yield f"{label} was created without PreStartContainer for {resource}"
                    told.discard((name, resource))


class DeviceBooks(Invariant):
    name = "device-books"
    rules = ("DEV-202", "DEV-043", "DEV-068")
    text = (
        "The devices marked in use are those that containers hold, but for an Allocate under way or an empty "
        "answer; a node's allocatable devices are no more than its capacity, which is what the plugin lists."
    )
    steps = (StepKind.ALLOCATING, StepKind.PLUGIN, StepKind.NODE, StepKind.KUBELET)

    def __init__(self) -> None:
        self._listed: dict[str, list[int]] = {}
        """What the capacity of a resource may be at the next report: the numbers since the last, the latest
        at the end.
        """
        self._left: dict[str, int] = {}
        """The capacity that the kubelet before this one has left in the Node object."""

    def check(self, step: Step) -> Iterable[str]:
        record = step.record
        if step.kind is StepKind.ALLOCATING:
            yield from self._marks(record["inputs"])
        elif step.kind is StepKind.KUBELET:
            for resource, numbers in self._listed.items():
                # What the Node object says stays until a plugin has listed: nobody reports it anew before.
                self._left[resource] = numbers[-1] or self._left.get(resource, 0)
                numbers.append(0)  # read from the checkpoint, with no plugin yet
        elif step.kind is StepKind.NODE:
            yield from self._node(record)
        elif record["do"] == "listed":
            self._listed.setdefault(record["resource"], []).append(record["healthy"] + record["unhealthy"])
            self._left.pop(record["resource"], None)
        elif record["do"] == "expired":
            self._listed.setdefault(record["resource"], []).append(0)
        elif record["do"] == "lost":
            self._listed.setdefault(record["resource"], [0])  # before its first list: there are none

    def _marks(self, inputs: Mapping[str, Any]) -> Iterable[str]:
        if "inUse" not in inputs or inputs["inUse"] == inputs["held"] + inputs["stray"]:
            return
        yield (
            f"{inputs['inUse']} devices of {inputs['resource']} are in use, {inputs['held']} are held "
            f"and {inputs['stray']} accounted for otherwise"
        )

    def _node(self, record: Record) -> Iterable[str]:
        capacity, allocatable = record["capacity"], record["allocatable"]
        for resource, numbers in self._listed.items():
            if resource not in capacity:
                continue
            total, offered = int(capacity[resource]), int(allocatable.get(resource, 0))
            if offered > total:
                yield f"allocatable {offered} of {resource} is more than the capacity {total}"
            if total not in numbers and total != self._left.get(resource):
                expected = " or ".join(map(str, sorted(set(numbers))))
                yield f"the capacity of {resource} is {total}, the plugin listed {expected}"
            del numbers[:-1]
