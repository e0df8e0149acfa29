"""Conditions of a pod; mirrors pkg/kubelet/status/generate.go (pure).

Each function gives one condition without times: the status manager stamps them when it stores a status
(STA-514), as only it knows the previous one. All but AllContainersRestarting carry the pod's generation
(STA-515).
"""

from collections.abc import Sequence

from kubelet_emu.api.types import Container, ContainerStatus, Pod, PodCondition, PodStatus
from kubelet_emu.bugs import AS_RELEASED, Deviations
from kubelet_emu.container.runtime import RuntimePodStatus
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime.actions import decide_sandbox
from kubelet_emu.kuberuntime.restart_rules import (
    all_containers_cleaned_up,
    all_containers_could_restart,
    is_sidecar,
)
from kubelet_emu.status import constants as k
from kubelet_emu.status.pods import by_name, cached_condition
from kubelet_emu.why import Why

__all__ = [
    "all_containers_restarting",
    "containers_ready",
    "initialized",
    "pod_ready",
    "pod_scheduled",
    "ready_to_start_containers",
]

UNKNOWN_STATUSES = "UnknownContainerStatuses"
POD_COMPLETED = "PodCompleted"
POD_FAILED = "PodFailed"
NOT_READY = "ContainersNotReady"
NOT_INITIALIZED = "ContainersNotInitialized"
GATES_NOT_READY = "ReadinessGatesNotReady"
RESTART_STARTED = "RestartAllContainersStarted"
RESTART_MESSAGE = "container exited with restart policy rule"

Condition = tuple[PodCondition, tuple[Why, ...]]
"""A condition and the rules behind it."""


def _condition(
    pod: Pod, condition_type: str, status: bool, *, reason: str = "", message: str = ""
) -> PodCondition:
    return PodCondition(
        type=condition_type,
        status="True" if status else "False",
        reason=reason or None,
        message=message or None,
        observed_generation=pod.metadata.generation,
    )


def _names(prefix: str, names: Sequence[str]) -> str:
    return f"containers with {prefix} status: [{' '.join(names)}]"


def _counted(pod: Pod) -> tuple[Container, ...]:
    """Containers that readiness counts: sidecars, then regular ones (STA-503, RST-158)."""
    return (*(c for c in pod.spec.init_containers if is_sidecar(c)), *pod.spec.containers)


def containers_ready(pod: Pod, statuses: Sequence[ContainerStatus] | None, phase: str) -> Condition:
    """ContainersReady (STA-503). ``statuses`` is None where the pod has no list of statuses at all."""
    if statuses is None:
        return _condition(pod, k.CONTAINERS_READY, False, reason=UNKNOWN_STATUSES), (
            Why("STA-503", "no statuses"),
        )
    known = by_name(statuses)
    unknown = [c.name for c in _counted(pod) if c.name not in known]
    unready = [c.name for c in _counted(pod) if c.name in known and not known[c.name].ready]
    why = (Why("STA-503"),)
    if phase == k.SUCCEEDED and not unknown:
        return _condition(pod, k.CONTAINERS_READY, False, reason=POD_COMPLETED), why
    if phase == k.FAILED:
        return _condition(pod, k.CONTAINERS_READY, False, reason=POD_FAILED), why
    parts: list[str] = []
    if unknown:
        parts.append(_names("unknown", unknown))
    if unready:
        parts.append(_names("unready", unready))
    if parts:
        return _condition(pod, k.CONTAINERS_READY, False, reason=NOT_READY, message=", ".join(parts)), why
    return _condition(pod, k.CONTAINERS_READY, True), why


def pod_ready(
    pod: Pod, conditions: Sequence[PodCondition], statuses: Sequence[ContainerStatus] | None, phase: str
) -> Condition:
    """Ready: ContainersReady, and every readiness gate True among the conditions built so far (STA-504)."""
    base, base_why = containers_ready(pod, statuses, phase)
    if base.status != "True":
        ready = _condition(pod, k.READY, False, reason=base.reason or "", message=base.message or "")
        return ready, base_why
    messages: list[str] = []
    for gate in pod.spec.readiness_gates:
        found = cached_condition(conditions, gate.condition_type)
        if found is None:
            messages.append(
                f'corresponding condition of pod readiness gate "{gate.condition_type}" does not exist.'
            )
        elif found.status != "True":
            messages.append(
                f'the status of pod readiness gate "{gate.condition_type}" is not "True", but {found.status}'
            )
    why = (Why("STA-504"),)
    if messages:
        return _condition(pod, k.READY, False, reason=GATES_NOT_READY, message=", ".join(messages)), why
    return _condition(pod, k.READY, True), why


def initialized(
    pod: Pod, old: PodStatus, statuses: Sequence[ContainerStatus] | None, phase: str, gates: Gates
) -> Condition:
    """Initialized; once True it stays so over a restart of all containers (STA-505, STA-506, RST-157)."""
    inits = pod.spec.init_containers
    if statuses is None and inits:
        return _condition(pod, k.INITIALIZED, False, reason=UNKNOWN_STATUSES), (
            Why("STA-505", "no statuses"),
        )
    known = by_name(statuses or ())
    unknown = [c.name for c in inits if c.name not in known]
    incomplete = [c.name for c in inits if c.name in known and not _init_done(c, known[c.name])]
    if phase == k.SUCCEEDED and not unknown:
        return _condition(pod, k.INITIALIZED, True, reason=POD_COMPLETED), (Why("STA-505"),)
    if any(_has_started(known.get(c.name)) for c in pod.spec.containers) or not (unknown or incomplete):
        return _condition(pod, k.INITIALIZED, True), (Why("STA-505"),)
    before = cached_condition(old.conditions, k.INITIALIZED)
    if gates.restart_all and before is not None and before.status == "True":
        return _condition(pod, k.INITIALIZED, True), (Why("STA-506"),)
    parts = [_names("unknown", unknown)] if unknown else []
    parts += [_names("incomplete", incomplete)] if incomplete else []
    condition = _condition(pod, k.INITIALIZED, False, reason=NOT_INITIALIZED, message=", ".join(parts))
    return condition, (Why("STA-505"),)


def _init_done(container: Container, status: ContainerStatus) -> bool:
    return bool(status.started) if is_sidecar(container) else status.ready


def _has_started(status: ContainerStatus | None) -> bool:
    return status is not None and (status.state.running is not None or status.state.terminated is not None)


def ready_to_start_containers(pod: Pod, runtime: RuntimePodStatus) -> Condition:
    """PodReadyToStartContainers: a usable sandbox exists (STA-507, POD-606)."""
    usable = not decide_sandbox(pod, runtime.sandboxes).changed
    return _condition(pod, k.POD_READY_TO_START_CONTAINERS, usable), (Why("STA-507"),)


def pod_scheduled(pod: Pod) -> Condition:
    """PodScheduled: always True, the pod is here (STA-508)."""
    return _condition(pod, k.POD_SCHEDULED, True), (Why("STA-508"),)


def all_containers_restarting(
    pod: Pod,
    runtime: RuntimePodStatus,
    phase: str,
    *,
    restarting_all: bool,
    deviations: Deviations = AS_RELEASED,
) -> Condition | None:
    """AllContainersRestarting, or None for a pod without a rule to set it (STA-509, RST-126, RST-127).

    ``restarting_all`` is RST-121. The condition has no observed generation.
    """
    if not all_containers_could_restart(pod.spec):
        return None

    def condition(status: bool, reason: str = "", message: str = "") -> PodCondition:
        return PodCondition(
            type=k.ALL_CONTAINERS_RESTARTING,
            status="True" if status else "False",
            reason=reason or None,
            message=message or None,
        )

    if phase == k.SUCCEEDED:
        return condition(False, POD_COMPLETED), (Why("RST-126", "1"),)
    if phase == k.FAILED:
        return condition(False, POD_FAILED), (Why("RST-126", "2"),)
    if not restarting_all:
        return condition(False), (Why("RST-126", "3"),)
    if all_containers_cleaned_up(pod, runtime, deviations):
        return condition(False), (Why("RST-126", "4"),)
    return condition(True, RESTART_STARTED, RESTART_MESSAGE), (Why("RST-126", "5"),)
