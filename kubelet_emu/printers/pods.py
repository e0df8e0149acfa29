"""Rows of ``kubectl get pods`` (pure).

Mirrors ``printPod`` of ``pkg/printers/internalversion/printers.go`` (STA-1101 to STA-1110).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import define, field, frozen

from kubelet_emu.api.codec import pod_from_json
from kubelet_emu.api.types import ContainerStateTerminated, ContainerStatus, Pod
from kubelet_emu.kuberuntime.restart_rules import is_sidecar
from kubelet_emu.printers.durations import age

__all__ = ["POD_COLUMNS", "POD_WIDE_COLUMNS", "PodRow", "RowCondition", "pod_row"]

POD_COLUMNS: Final = ("NAME", "READY", "STATUS", "RESTARTS", "AGE")
POD_WIDE_COLUMNS: Final = (*POD_COLUMNS, "IP", "NODE", "NOMINATED NODE", "READINESS GATES")
_NONE: Final = "<none>"


@frozen
class RowCondition:
    """Row condition ``Completed`` of a pod at its end (STA-1110)."""

    reason: str
    message: str


@frozen(kw_only=True)
class PodRow:
    """One row. ``restart_count`` is the number in ``restarts``; ``completed`` is set for a terminal phase."""

    name: str
    ready: str
    status: str
    restarts: str
    restart_count: int
    age: str
    ip: str
    node: str
    nominated_node: str
    readiness_gates: str
    completed: RowCondition | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.name, self.ready, self.status, self.restarts, self.age)

    @property
    def wide_cells(self) -> tuple[str, ...]:
        return (*self.cells, self.ip, self.node, self.nominated_node, self.readiness_gates)


@define
class _Restarts:
    """A sum of restarts and the latest end that is known among them (STA-1104)."""

    count: int = 0
    last_ns: int | None = None

    def add(self, status: ContainerStatus) -> None:
        self.count += status.restart_count
        end = status.last_state.terminated
        if end is not None and end.finished_at is not None and end.finished_at > (self.last_ns or 0):
            self.last_ns = end.finished_at


@define
class _Walk:
    """What the walk over the container statuses has found so far."""

    reason: str
    ready: int = 0
    has_running: bool = False
    error: str = ""
    restarts: _Restarts = field(factory=_Restarts)


def pod_row(pod: Pod | Mapping[str, Any], now_ns: int) -> PodRow:
    """The row of a pod, given as a value or as JSON, at that time of day."""
    if not isinstance(pod, Pod):
        pod = pod_from_json(pod)
    walk = _Walk(_base_reason(pod))
    initializing, sidecars = _walk_init(pod, walk)
    if not initializing or _is_true(pod, "Initialized"):
        walk.restarts = sidecars
        _walk_regular(pod, walk)
        walk.reason = _completed_or_not(pod, walk)
    total = len(pod.spec.containers) + sum(is_sidecar(c) for c in pod.spec.init_containers)
    status = pod.status
    return PodRow(
        name=pod.metadata.name,
        ready=f"{walk.ready}/{total}",
        status=_deleting_or(pod, walk.reason),
        restarts=_restarts_text(walk.restarts, now_ns),
        restart_count=walk.restarts.count,
        age=age(pod.metadata.creation_timestamp, now_ns),
        ip=(status.pod_ips[0].ip if status.pod_ips else "") or _NONE,
        node=pod.spec.node_name or _NONE,
        nominated_node=status.nominated_node_name or _NONE,
        readiness_gates=_gates(pod),
        completed=_COMPLETED.get(status.phase or ""),
    )


_COMPLETED: Final[Mapping[str, RowCondition]] = {
    "Succeeded": RowCondition("Succeeded", "The pod has completed successfully."),
    "Failed": RowCondition("Failed", "The pod failed."),
}


def _base_reason(pod: Pod) -> str:
    """STA-1103, step 1."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.reason == "SchedulingGated":
            return "SchedulingGated"
    return pod.status.reason or pod.status.phase or ""


def _end_text(end: ContainerStateTerminated) -> str:
    if end.reason:
        return end.reason
    return f"Signal:{end.signal}" if end.signal else f"ExitCode:{end.exit_code}"


def _walk_init(pod: Pod, walk: _Walk) -> tuple[bool, _Restarts]:
    """STA-1103, step 2: whether the pod is initializing, and the restarts of the sidecars visited."""
    specs = {container.name: container for container in pod.spec.init_containers}
    sidecars = _Restarts()
    for place, status in enumerate(pod.status.init_container_statuses):
        walk.restarts.add(status)
        spec = specs.get(status.name)
        sidecar = spec is not None and is_sidecar(spec)
        if sidecar:
            sidecars.add(status)
        end, waiting = status.state.terminated, status.state.waiting
        if end is not None and end.exit_code == 0:
            continue
        if sidecar and status.started:
            walk.ready += status.ready
            continue
        if end is not None:
            walk.reason = f"Init:{_end_text(end)}"
        elif waiting is not None and waiting.reason and waiting.reason != "PodInitializing":
            walk.reason = f"Init:{waiting.reason}"
        else:
            walk.reason = f"Init:{place}/{len(pod.spec.init_containers)}"
        return True, sidecars
    return False, sidecars


def _walk_regular(pod: Pod, walk: _Walk) -> None:
    """STA-1103, step 3: from the last status to the first, so that the first one has the last word."""
    for status in reversed(pod.status.container_statuses):
        walk.restarts.add(status)
        end, waiting = status.state.terminated, status.state.waiting
        if waiting is not None and waiting.reason:
            walk.reason = waiting.reason
        elif end is not None:
            walk.reason = _end_text(end)
            if end.exit_code != 0:
                walk.error = walk.reason
        elif status.ready and status.state.running is not None:
            walk.has_running = True
            walk.ready += 1


def _completed_or_not(pod: Pod, walk: _Walk) -> str:
    """STA-1103, step 4."""
    if walk.reason != "Completed":
        return walk.reason
    if walk.has_running and _is_true(pod, "Ready"):
        return "Running"
    if walk.error:
        return walk.error
    return "NotReady" if walk.has_running else walk.reason


def _deleting_or(pod: Pod, reason: str) -> str:
    """STA-1103, step 5."""
    if pod.metadata.deletion_timestamp is None:
        return reason
    if pod.status.reason == "NodeLost":
        return "Unknown"
    return reason if pod.status.phase in ("Succeeded", "Failed") else "Terminating"


def _is_true(pod: Pod, condition_type: str) -> bool:
    return any(c.type == condition_type and c.status == "True" for c in pod.status.conditions)


def _restarts_text(restarts: _Restarts, now_ns: int) -> str:
    if restarts.count and restarts.last_ns is not None:
        return f"{restarts.count} ({age(restarts.last_ns, now_ns)} ago)"
    return str(restarts.count)


def _gates(pod: Pod) -> str:
    gates: Sequence[str] = [gate.condition_type for gate in pod.spec.readiness_gates]
    if not gates:
        return _NONE
    return f"{sum(_is_true(pod, gate) for gate in gates)}/{len(gates)}"
