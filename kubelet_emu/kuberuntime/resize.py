"""Whether a running container's resources differ from what was given to the runtime, and what follows (pure).

Mirrors ``computePodResizeAction`` and ``computePodLevelResourcesResizeAction`` of
``pkg/kubelet/kuberuntime/kuberuntime_manager.go`` (RST-065 to RST-067).
"""

from collections.abc import Mapping

from attrs import frozen

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import Container, ResourceRequirements
from kubelet_emu.kuberuntime.action_types import ResourceAmounts

__all__ = ["CPU", "MEMORY", "ResizeVerdict", "amounts", "resize_verdict"]

CPU = "cpu"
MEMORY = "memory"
_RESTART_CONTAINER = "RestartContainer"


def _milli(quantities: Mapping[str, Quantity], name: str) -> int:
    quantity = quantities.get(name)
    return quantity.milli_value() if quantity is not None else 0


def _whole(quantities: Mapping[str, Quantity], name: str) -> int:
    quantity = quantities.get(name)
    return quantity.value() if quantity is not None else 0


def amounts(resources: ResourceRequirements | None) -> ResourceAmounts:
    """CPU and memory of a resources stanza, 0 where it says nothing."""
    if resources is None:
        return ResourceAmounts()
    return ResourceAmounts(
        cpu_request_milli=_milli(resources.requests, CPU),
        cpu_limit_milli=_milli(resources.limits, CPU),
        memory_request_bytes=_whole(resources.requests, MEMORY),
        memory_limit_bytes=_whole(resources.limits, MEMORY),
    )


@frozen(kw_only=True)
class ResizeVerdict:
    """What a differing resource asks for; ``direction`` holds +1 or -1 for each resource to update in
    place.
    """

    restart: bool
    direction: Mapping[str, int]


def _needs_restart(container: Container, resource: str) -> bool:
    for policy in container.resize_policy:
        if policy.resource_name == resource:
            return policy.restart_policy == _RESTART_CONTAINER
    return False


def _sign(desired: int, current: int) -> int:
    return (desired > current) - (desired < current)


def resize_verdict(container: Container, desired: ResourceAmounts, current: ResourceAmounts) -> ResizeVerdict:
    """Compare wanted and actuated resources of one container (RST-065, RST-066).

    The limit decides the direction of an update where it differs, else the request.
    """
    direction: dict[str, int] = {}
    memory = _sign(desired.memory_limit_bytes, current.memory_limit_bytes) or _sign(
        desired.memory_request_bytes, current.memory_request_bytes
    )
    cpu = _sign(desired.cpu_limit_milli, current.cpu_limit_milli) or _sign(
        desired.cpu_request_milli, current.cpu_request_milli
    )
    if memory:
        direction[MEMORY] = memory
    if cpu:
        direction[CPU] = cpu
    restart = any(_needs_restart(container, resource) for resource in direction)
    return ResizeVerdict(restart=restart, direction=direction)
