"""Phase of a pod from its container statuses; mirrors getPhase of pkg/kubelet/kubelet_pods.go (pure).

Every container is put into a few counters by its state alone (STA-203), then the first rule that fits the
counters names the phase (STA-204). Ephemeral containers take no part. The counting uses ``started`` as the
statuses carry it, that is *before* the probe manager has filled it in: a sidecar that has just come up is
still pending in the first generation that sees it.
"""

from collections.abc import Iterable, Mapping

import attrs
from attrs import frozen

from kubelet_emu.api.types import Container, ContainerStateTerminated, ContainerStatus, Pod
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime.restart_rules import is_sidecar, should_restart
from kubelet_emu.status import constants as k
from kubelet_emu.status.pods import by_name, is_static_pod
from kubelet_emu.why import Why

__all__ = ["PhaseCounts", "PhaseDecision", "count_containers", "decide_phase"]


@attrs.define
class PhaseCounts:
    """Counters of STA-203 over init and regular containers of the spec."""

    pending_init: int = 0
    pending_sidecars: int = 0
    failed_init: int = 0
    failed_init_final: int = 0
    unknown: int = 0
    running: int = 0
    waiting: int = 0
    stopped: int = 0
    stopped_final: int = 0
    succeeded: int = 0


@frozen
class PhaseDecision:
    """The phase and the rules that led to it."""

    phase: str
    why: tuple[Why, ...]


def decide_phase(
    pod: Pod,
    statuses: Iterable[ContainerStatus],
    *,
    pod_is_terminal: bool,
    pod_has_initialized: bool,
    gates: Gates,
) -> PhaseDecision:
    """The phase by the first rule of STA-204 (or STA-205 with ContainerRestartRules off) that fits.

    ``pod_has_initialized`` is STA-201, ``pod_is_terminal`` STA-102.
    """
    counts = count_containers(pod, by_name(statuses), gates)
    phase, rule = _first_fit(
        pod, counts, pod_is_terminal=pod_is_terminal, pod_has_initialized=pod_has_initialized, gates=gates
    )
    return PhaseDecision(phase, (Why("STA-204" if gates.restart_rules else "STA-205", rule),))


def count_containers(pod: Pod, statuses: Mapping[str, ContainerStatus], gates: Gates) -> PhaseCounts:
    """Put every init and regular container into the counters (STA-203, RST-172)."""
    counts = PhaseCounts()
    for container in pod.spec.init_containers:
        status = statuses.get(container.name)
        if is_sidecar(container):
            _count_sidecar(counts, status)
        else:
            _count_init(counts, pod, container, status, gates)
    for container in pod.spec.containers:
        _count_regular(counts, pod, container, statuses.get(container.name), gates)
    return counts


def _restartable(pod: Pod, container: Container, end: ContainerStateTerminated, gates: Gates) -> bool:
    """STA-202, with the clause for a container removed by a restart of all (RST-155)."""
    if end.reason == k.RESTARTING_ALL_CONTAINERS and gates.restart_all:
        return True
    return should_restart(container, pod.spec, end.exit_code, gates).yes


def _end(status: ContainerStatus) -> ContainerStateTerminated | None:
    """How the container ended, from its state, or while it waits from its last one."""
    if status.state.terminated is not None:
        return status.state.terminated
    if status.state.waiting is not None:
        return status.last_state.terminated
    return None


def _count_init(
    counts: PhaseCounts, pod: Pod, container: Container, status: ContainerStatus | None, gates: Gates
) -> None:
    end = _end(status) if status is not None else None
    if end is None:
        counts.pending_init += 1
    elif end.exit_code != 0:
        counts.failed_init += 1
        if not _restartable(pod, container, end, gates):
            counts.failed_init_final += 1


def _count_sidecar(counts: PhaseCounts, status: ContainerStatus | None) -> None:
    if status is None:
        counts.unknown += 1
    elif status.state.running is not None:
        counts.running += 1
        if not status.started:
            counts.pending_sidecars += 1
    elif status.state.terminated is not None:
        # How a sidecar ends never decides the phase (STA-206).
        return
    elif status.state.waiting is None:
        counts.pending_sidecars += 1
        counts.unknown += 1
    elif status.last_state.terminated is None:
        counts.pending_sidecars += 1
        counts.waiting += 1


def _count_regular(
    counts: PhaseCounts, pod: Pod, container: Container, status: ContainerStatus | None, gates: Gates
) -> None:
    if status is None:
        counts.unknown += 1
    elif status.state.running is not None:
        counts.running += 1
    elif (end := _end(status)) is not None:
        counts.stopped += 1
        if status.state.terminated is not None and end.exit_code == 0:
            counts.succeeded += 1
        if not _restartable(pod, container, end, gates):
            counts.stopped_final += 1
    elif status.state.waiting is not None:
        counts.waiting += 1
    else:
        counts.unknown += 1


def _first_fit(
    pod: Pod, counts: PhaseCounts, *, pod_is_terminal: bool, pod_has_initialized: bool, gates: Gates
) -> tuple[str, str]:
    """The phase and the row of STA-204 that gave it (RST-156, RST-166, RST-173, STA-207 to STA-209)."""
    init_failed = (
        counts.failed_init_final > 0
        if gates.restart_rules
        else counts.failed_init > 0 and pod.spec.restart_policy == "Never"
    )
    if init_failed:
        return k.FAILED, "init failed"
    if counts.pending_init > 0 or (counts.pending_sidecars > 0 and not pod_has_initialized):
        return k.PENDING, "initialising"
    if counts.waiting > 0:
        return k.PENDING, "waiting"
    if counts.running > 0 and counts.unknown == 0:
        return k.RUNNING, "running"
    if counts.running == 0 and counts.stopped > 0 and counts.unknown == 0:
        all_succeeded = counts.stopped == counts.succeeded
        if pod_is_terminal and not is_static_pod(pod):
            return (k.SUCCEEDED if all_succeeded else k.FAILED), "stopped, pod is terminal"
        if gates.restart_rules:
            return _stopped_by_rules(counts, all_succeeded=all_succeeded)
        return _stopped_by_pod_policy(pod, all_succeeded=all_succeeded)
    return k.PENDING, "nothing else fits"


def _stopped_by_rules(counts: PhaseCounts, *, all_succeeded: bool) -> tuple[str, str]:
    if counts.stopped != counts.stopped_final:
        return k.RUNNING, "stopped, will restart"
    return (k.SUCCEEDED, "all succeeded") if all_succeeded else (k.FAILED, "stopped for good")


def _stopped_by_pod_policy(pod: Pod, *, all_succeeded: bool) -> tuple[str, str]:
    if pod.spec.restart_policy == "Always":
        return k.RUNNING, "stopped, policy Always"
    if all_succeeded:
        return k.SUCCEEDED, "all succeeded"
    if pod.spec.restart_policy == "Never":
        return k.FAILED, "stopped, policy Never"
    return k.RUNNING, "stopped, policy OnFailure"
