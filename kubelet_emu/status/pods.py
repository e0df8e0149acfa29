"""Small questions about a pod and its statuses that several status rules share (pure)."""

from collections.abc import Iterable, Mapping

from kubelet_emu.api.types import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    PodStatus,
)
from kubelet_emu.status import constants as k

__all__ = [
    "all_statuses",
    "by_name",
    "cached_condition",
    "is_mirror_pod",
    "is_static_pod",
    "is_terminal",
    "unknown_state",
]


def is_static_pod(pod: Pod) -> bool:
    """Whether the pod came from a file or an URL rather than from the API (POD-201)."""
    source = pod.metadata.annotations.get(k.CONFIG_SOURCE_ANNOTATION)
    return source is not None and source != k.API_SOURCE


def is_mirror_pod(pod: Pod) -> bool:
    """Whether this API object only mirrors a static pod."""
    return k.CONFIG_MIRROR_ANNOTATION in pod.metadata.annotations


def is_terminal(phase: str | None) -> bool:
    """Whether the phase is Succeeded or Failed."""
    return phase in k.TERMINAL_PHASES


def by_name(statuses: Iterable[ContainerStatus]) -> Mapping[str, ContainerStatus]:
    """The statuses by container name."""
    return {status.name: status for status in statuses}


def all_statuses(status: PodStatus) -> tuple[ContainerStatus, ...]:
    """Init statuses, then regular ones: the input of the conditions (STA-503)."""
    return (*status.init_container_statuses, *status.container_statuses)


def cached_condition(conditions: Iterable[PodCondition], condition_type: str) -> PodCondition | None:
    """The first condition of that type, or None."""
    return next((condition for condition in conditions if condition.type == condition_type), None)


def unknown_state(message: str, *, reason: str = k.STATUS_UNKNOWN) -> ContainerState:
    """The terminated state of a container whose end nobody saw: exit 137, no times, no id (STA-612)."""
    return ContainerState(
        terminated=ContainerStateTerminated(reason=reason, message=message, exit_code=k.UNKNOWN_EXIT_CODE)
    )
