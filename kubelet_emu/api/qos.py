"""The quality-of-service class of a pod. (pure)

Mirrors ``pkg/apis/core/v1/helper/qos/qos.go``. API-030.
"""

from collections.abc import Iterable, Sequence

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import Pod, PodSpec, ResourceRequirements

__all__ = ["BEST_EFFORT", "BURSTABLE", "GUARANTEED", "pod_qos", "qos_of_spec"]

GUARANTEED = "Guaranteed"
BURSTABLE = "Burstable"
BEST_EFFORT = "BestEffort"

_COUNTED = ("cpu", "memory")


def _positive(items: Iterable[tuple[str, Quantity]]) -> dict[str, Quantity]:
    return {name: quantity for name, quantity in items if name in _COUNTED and quantity.sign > 0}


def _class_of(parts: Sequence[ResourceRequirements]) -> str:
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    for part in parts:
        for name, quantity in _positive(part.requests.items()).items():
            requests[name] = requests.get(name, Quantity(0)) + quantity
        limited = _positive(part.limits.items())
        for name, quantity in limited.items():
            limits[name] = limits.get(name, Quantity(0)) + quantity
        guaranteed = guaranteed and len(limited) == len(_COUNTED)
    if not requests and not limits:
        return BEST_EFFORT
    same = len(requests) == len(limits) and all(limits.get(name) == q for name, q in requests.items())
    return GUARANTEED if guaranteed and same else BURSTABLE


def qos_of_spec(spec: PodSpec) -> str:
    """The class computed from the spec (STA-905): pod-level resources if any, else all containers'."""
    whole = spec.resources
    if whole is not None and (whole.requests or whole.limits):
        return _class_of([whole])
    return _class_of([container.resources for container in (*spec.containers, *spec.init_containers)])


def pod_qos(pod: Pod) -> str:
    """The class that the status records, else the computed one (the recorded one never changes)."""
    return pod.status.qos_class or qos_of_spec(pod.spec)
