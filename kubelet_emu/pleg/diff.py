"""What has happened to a pod between two looks at the runtime (pure).

Mirrors generateEvents, getContainersFromPods and getPodIPs of ``pkg/kubelet/pleg/generic.go`` (POD-905,
POD-906, POD-911). Sandboxes are treated like containers.
"""

from collections.abc import Mapping
from enum import StrEnum

from attrs import evolve, frozen

from kubelet_emu.container.runtime import ContainerState, RunningPod, RuntimePodStatus, SandboxState

__all__ = [
    "PlegEvent",
    "PlegEventType",
    "PlegState",
    "diff_states",
    "keep_ips",
    "states_of_pod",
    "states_of_status",
]


class PlegState(StrEnum):
    """State of a container or sandbox as PLEG tells them apart; the absent state is no entry at all."""

    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


class PlegEventType(StrEnum):
    CONTAINER_STARTED = "ContainerStarted"
    CONTAINER_DIED = "ContainerDied"
    CONTAINER_REMOVED = "ContainerRemoved"
    CONTAINER_CHANGED = "ContainerChanged"
    """Refreshes the cache and is never delivered."""
    POD_SYNC = "PodSync"
    """A pod that was to be inspected again was, and nothing had changed."""


@frozen
class PlegEvent:
    """One event; ``container_id`` is the id of a container or a sandbox, empty for ``POD_SYNC``."""

    pod_uid: str
    type: PlegEventType
    container_id: str = ""


_STATES = {
    ContainerState.CREATED: PlegState.UNKNOWN,
    ContainerState.RUNNING: PlegState.RUNNING,
    ContainerState.EXITED: PlegState.EXITED,
    ContainerState.UNKNOWN: PlegState.UNKNOWN,
}

_EVENTS = {
    PlegState.RUNNING: (PlegEventType.CONTAINER_STARTED,),
    PlegState.EXITED: (PlegEventType.CONTAINER_DIED,),
    PlegState.UNKNOWN: (PlegEventType.CONTAINER_CHANGED,),
}


def states_of_pod(pod: RunningPod | None) -> Mapping[str, PlegState]:
    """State by id of everything in a listed pod, containers before sandboxes (POD-905)."""
    if pod is None:
        return {}
    return {item.id: _STATES[item.state] for item in (*pod.containers, *pod.sandboxes)}


def states_of_status(status: RuntimePodStatus) -> Mapping[str, PlegState]:
    """The same from a status that was read for one pod."""
    states = {container.id: _STATES[container.state] for container in status.containers}
    for sandbox in status.sandboxes:
        ready = sandbox.state is SandboxState.READY
        states[sandbox.id] = PlegState.RUNNING if ready else PlegState.EXITED
    return states


def diff_states(
    uid: str, old: Mapping[str, PlegState], new: Mapping[str, PlegState]
) -> tuple[PlegEvent, ...]:
    """Events of one pod (POD-906): what was known before comes first, in its order, then what is new."""
    if old == new:
        return ()
    events: list[PlegEvent] = []
    for item in (*old, *(item for item in new if item not in old)):
        before, after = old.get(item), new.get(item)
        if before is after:
            continue
        if after is not None:
            types = _EVENTS[after]
        elif before is PlegState.EXITED:
            types = (PlegEventType.CONTAINER_REMOVED,)
        else:
            types = (PlegEventType.CONTAINER_DIED, PlegEventType.CONTAINER_REMOVED)
        events += [PlegEvent(uid, event_type, item) for event_type in types]
    return tuple(events)


def keep_ips(cached_ips: tuple[str, ...], status: RuntimePodStatus) -> RuntimePodStatus:
    """Keep the IPs known before if the new status has none and no sandbox is READY (POD-911, STA-904)."""
    if status.ips or not cached_ips:
        return status
    if any(sandbox.state is SandboxState.READY for sandbox in status.sandboxes):
        return status
    return evolve(status, ips=cached_ips)
