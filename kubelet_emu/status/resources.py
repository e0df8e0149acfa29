"""Resources and user of containers in a status (pure).

What is allocated comes from the spec; what a running container really has comes from the runtime where it
reports it (STA-1001, STA-1002). Without in-place resizes both agree but for rounding.
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from kubelet_emu.api.quantity import Quantity, QuantityFormat
from kubelet_emu.api.resources import aggregate_limits, aggregate_requests
from kubelet_emu.api.types import (
    Container,
    ContainerStatus,
    ContainerUser,
    LinuxContainerUser,
    Pod,
    PodStatus,
    ResourceRequirements,
)
from kubelet_emu.container.runtime import ContainerState, RuntimeContainer
from kubelet_emu.evolving import evolve
from kubelet_emu.gates import Gates
from kubelet_emu.status import constants as k

__all__ = ["container_user", "with_pod_resources", "with_resources"]

MIN_REQUEST_MILLI_CPU: Final = 2
"""A reported CPU request up to this says nothing: it is the smallest the kernel can hold (STA-1002)."""
MIN_LIMIT_MILLI_CPU: Final = 10
"""The same for a CPU limit (STA-1002)."""
SHARES_PER_CPU: Final = 1024
MILLI_PER_CPU: Final = 1000


def container_user(record: RuntimeContainer) -> ContainerUser | None:
    """``user.linux`` as the runtime reports it, None if it does not (STA-1006)."""
    user = record.user
    if user is None:
        return None
    groups = cast("Sequence[object]", user.get("supplementalGroups") or ())
    return ContainerUser(
        linux=LinuxContainerUser(
            uid=_number(user.get("uid")),
            gid=_number(user.get("gid")),
            supplemental_groups=tuple(_number(group) for group in groups),
        )
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _find(pod: Pod, name: str) -> Container | None:
    spec = pod.spec
    for container in (*spec.containers, *spec.init_containers, *spec.ephemeral_containers):
        if container.name == name:
            return container
    return None


def with_resources(
    pod: Pod, status: ContainerStatus, record: RuntimeContainer, old: ContainerStatus | None
) -> ContainerStatus:
    """``allocatedResources`` and ``resources`` of a container that has a runtime record (STA-1001)."""
    container = _find(pod, status.name)
    if container is None:
        return status
    allocated = container.resources
    resources = ResourceRequirements(limits=allocated.limits, requests=allocated.requests)
    if record.state is ContainerState.RUNNING:
        kept = old.resources if old is not None and old.container_id == status.container_id else None
        resources = _as_reported(allocated, record.resources or {}, kept)
    return evolve(status, allocated_resources=allocated.requests, resources=resources)


def _as_reported(
    allocated: ResourceRequirements, reported: Mapping[str, int], kept: ResourceRequirements | None
) -> ResourceRequirements:
    """The allocated values overwritten by reported ones, only inside the maps that exist."""
    limits, requests = dict(allocated.limits), dict(allocated.requests)
    if "cpu" in requests:
        milli = _shares_to_milli(reported.get("cpu_shares", 0))
        requests["cpu"] = _cpu(requests["cpu"], milli, MIN_REQUEST_MILLI_CPU, _kept(kept, "cpu", limit=False))
    if "cpu" in limits:
        milli = _quota_to_milli(reported.get("cpu_quota", 0), reported.get("cpu_period", 0))
        limits["cpu"] = _cpu(limits["cpu"], milli, MIN_LIMIT_MILLI_CPU, _kept(kept, "cpu", limit=True))
    if "memory" in limits:
        limit_bytes = reported.get("memory_limit_in_bytes", 0)
        if limit_bytes > 0 and limit_bytes != limits["memory"].value():
            limits["memory"] = Quantity.from_milli(limit_bytes * MILLI_PER_CPU, QuantityFormat.BINARY_SI)
        elif limit_bytes <= 0:
            limits["memory"] = _kept(kept, "memory", limit=True) or limits["memory"]
    return ResourceRequirements(limits=limits, requests=requests)


def _kept(kept: ResourceRequirements | None, name: str, *, limit: bool) -> Quantity | None:
    if kept is None:
        return None
    return (kept.limits if limit else kept.requests).get(name)


def _cpu(allocated: Quantity, reported_milli: int, floor: int, kept: Quantity | None) -> Quantity:
    if reported_milli <= 0:
        return kept or allocated
    if max(reported_milli, allocated.milli_value()) <= floor or reported_milli == allocated.milli_value():
        return allocated
    return Quantity.from_milli(reported_milli)


def _shares_to_milli(shares: int) -> int:
    return -(-shares * MILLI_PER_CPU // SHARES_PER_CPU)


def _quota_to_milli(quota: int, period: int) -> int:
    return quota * MILLI_PER_CPU // period if quota > 0 and period > 0 else 0


def with_pod_resources(pod: Pod, status: PodStatus, gates: Gates) -> PodStatus:
    """Pod-level ``allocatedResources`` and ``resources`` (STA-1003).

    While the API shows the pod Running, resources come from its cgroup, which knows only CPU and memory.
    """
    if not gates.enabled("InPlacePodLevelResourcesVerticalScaling"):
        return status
    requests, limits = aggregate_requests(pod.spec), aggregate_limits(pod.spec)
    if pod.spec.resources is not None:
        requests.update(pod.spec.resources.requests)
        limits.update(pod.spec.resources.limits)
    allocated = requests
    if pod.status.phase == k.RUNNING:
        requests = {name: requests[name] for name in ("cpu", "memory") if name in requests}
        limits = {name: limits[name] for name in ("cpu", "memory") if name in limits}
    resources = ResourceRequirements(limits=limits, requests=requests) if requests or limits else None
    return evolve(status, allocated_resources=allocated, resources=resources)
