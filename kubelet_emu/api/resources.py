"""Sums of resource requests and limits over the containers of a pod. (pure)

Mirrors ``staging/src/k8s.io/component-helpers/resource/helpers.go``: regular containers and sidecars add up;
a plain init container counts together with the sidecars started before it, and the largest moment wins.
"""

from collections.abc import Callable, Iterable, Mapping

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import Container, Pod, PodSpec

__all__ = [
    "ResourceList",
    "aggregate_limits",
    "aggregate_requests",
    "is_hugepage",
    "is_pod_level_resource",
    "pod_limits",
    "pod_requests",
]

ResourceList = Mapping[str, Quantity]
_ZERO = Quantity(0)


def is_hugepage(name: str) -> bool:
    """Whether the resource is ``hugepages-<size>``."""
    return name.startswith("hugepages-")


def is_pod_level_resource(name: str) -> bool:
    """Whether ``spec.resources`` of a pod may name it (API-144)."""
    return name in ("cpu", "memory") or is_hugepage(name)


def _add(total: dict[str, Quantity], more: ResourceList) -> None:
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def _raise_to(total: dict[str, Quantity], other: ResourceList) -> None:
    for name, quantity in other.items():
        if name not in total or quantity > total[name]:
            total[name] = quantity


def _aggregate(spec: PodSpec, pick: Callable[[Container], ResourceList]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for container in spec.containers:
        _add(total, pick(container))
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in spec.init_containers:
        if container.restart_policy == "Always":
            _add(total, pick(container))
            _add(sidecars, pick(container))
            moment: ResourceList = sidecars
        else:
            together = dict(sidecars)
            _add(together, pick(container))
            moment = together
        _raise_to(peak, moment)
    _raise_to(total, peak)
    return total


def aggregate_requests(spec: PodSpec) -> dict[str, Quantity]:
    """Requests of all containers together, without pod-level resources and overhead."""
    return _aggregate(spec, lambda container: container.resources.requests)


def aggregate_limits(spec: PodSpec) -> dict[str, Quantity]:
    """Limits of all containers together, without pod-level resources and overhead."""
    return _aggregate(spec, lambda container: container.resources.limits)


def _over(total: dict[str, Quantity], pod_level: Iterable[tuple[str, Quantity]]) -> None:
    for name, quantity in pod_level:
        if is_pod_level_resource(name):
            total[name] = quantity


def pod_requests(pod: Pod) -> dict[str, Quantity]:
    """What the pod asks of a node: aggregated, pod-level values in their place, overhead added."""
    total = aggregate_requests(pod.spec)
    if pod.spec.resources is not None:
        _over(total, pod.spec.resources.requests.items())
    _add(total, pod.spec.overhead)
    return total


def pod_limits(pod: Pod) -> dict[str, Quantity]:
    """Limits of the pod; overhead is added only to resources that have a limit."""
    total = aggregate_limits(pod.spec)
    if pod.spec.resources is not None:
        _over(total, pod.spec.resources.limits.items())
    for name, quantity in pod.spec.overhead.items():
        if total.get(name, _ZERO):
            total[name] = total[name] + quantity
    return total
