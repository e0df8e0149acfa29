"""Which init containers and sidecars to start, kill or leave alone, and whether initialization ended (pure).

Mirrors ``computeInitContainerActions`` of ``pkg/kubelet/kuberuntime/kuberuntime_container.go`` (RST-045 to
RST-053): a walk from the last init container to the first in which the last visible instance decides.
"""

from enum import Enum, auto

from kubelet_emu.api.types import Container
from kubelet_emu.bugs import LEFT_CREATED, STALE_CREATED
from kubelet_emu.container.runtime import ContainerState, RuntimeContainer
from kubelet_emu.kuberuntime.draft import Draft
from kubelet_emu.kuberuntime.grace import KillReason
from kubelet_emu.kuberuntime.labels import container_hash
from kubelet_emu.kuberuntime.restart_rules import (
    init_failed,
    is_sidecar,
    may_restart_after_kill,
    should_container_be_restarted,
)
from kubelet_emu.seams import ProbeKind, ProbeOutcome

__all__ = ["compute_init_actions"]


class _Step(Enum):
    """What one init container's instance says about initialization."""

    NOTHING = auto()
    INITIALIZED = auto()
    FAILED = auto()
    """The pod cannot initialize any more and is to be killed (RST-053)."""


def _regular_started(draft: Draft) -> bool:
    """Whether some regular container's latest instance is Created or Running (RST-045)."""
    latest = (draft.status.latest(container.name) for container in draft.pod.spec.containers)
    alive = (ContainerState.CREATED, ContainerState.RUNNING)
    found = [instance for instance in latest if instance is not None and instance.state in alive]
    if draft.deviations.fixed(STALE_CREATED):
        found = [instance for instance in found if instance.sandbox_id == draft.sandbox.sandbox_id]
    return bool(found)


def _start(draft: Draft, index: int, rule: str) -> None:
    draft.init_to_start.append(index)
    draft.fired(rule, draft.pod.spec.init_containers[index].name)


def _running_sidecar(
    draft: Draft, index: int, container: Container, latest: RuntimeContainer, previous: bool
) -> _Step:
    """RST-047: startup probe, started, definition, liveness probe, resize; several of these may fire
    together.
    """
    name = container.name
    if container.startup_probe is not None:
        startup = draft.probe(ProbeKind.STARTUP, latest.id)
        if startup is ProbeOutcome.FAILURE:
            draft.kill(latest, f"Init container {name} failed startup probe", KillReason.STARTUP_PROBE)
            _start(draft, index, "RST-047")
        if startup is not ProbeOutcome.SUCCESS:
            draft.fired("RST-048", name)
            return _Step.NOTHING
    step = _Step.NOTHING
    if index == len(draft.pod.spec.init_containers) - 1:
        step = _Step.INITIALIZED
    elif not previous:
        _start(draft, index + 1, "RST-047")
    if latest.hash != container_hash(container):
        draft.kill(latest, f"Init container {name} definition changed", KillReason.NONE)
        _start(draft, index, "RST-049")
        return step
    if container.liveness_probe is not None:
        liveness = draft.probe(ProbeKind.LIVENESS, latest.id)
        if liveness is ProbeOutcome.FAILURE:
            draft.kill(latest, f"Init container {name} failed liveness probe", KillReason.LIVENESS_PROBE)
            _start(draft, index, "RST-049")
        if liveness is None or liveness is ProbeOutcome.FAILURE:
            return step
    draft.resize(index, container, latest, init=True)
    return step


def _exited(draft: Draft, index: int, container: Container, latest: RuntimeContainer) -> _Step:
    if is_sidecar(container):
        _start(draft, index, "RST-027")
        return _Step.NOTHING
    if init_failed(latest.state, latest.exit_code, latest.reason):
        draft.fired("RST-029", container.name)
        verdict = should_container_be_restarted(
            container, draft.pod, draft.status, draft.gates, draft.deviations
        )
        draft.why += verdict.why
        if not verdict:
            return _Step.FAILED
        _start(draft, index, "RST-046")
        return _Step.NOTHING
    draft.fired("RST-028", container.name)
    if index == len(draft.pod.spec.init_containers) - 1:
        return _Step.INITIALIZED
    _start(draft, index + 1, "RST-046")
    return _Step.NOTHING


def _unknown(draft: Draft, index: int, container: Container, latest: RuntimeContainer) -> _Step:
    if not is_sidecar(container) and not may_restart_after_kill(container, draft.pod.spec, draft.gates):
        return _Step.FAILED
    message = 'Init container is in "unknown" state, try killing it before restart'
    draft.kill(latest, message, KillReason.UNKNOWN)
    _start(draft, index, "RST-046")
    return _Step.NOTHING


def _step(draft: Draft, index: int, container: Container, latest: RuntimeContainer, previous: bool) -> _Step:
    if latest.state is ContainerState.CREATED:
        if draft.deviations.has(LEFT_CREATED):
            return _Step.NOTHING
        _start(draft, index, "RST-046")
        return _Step.NOTHING
    if latest.state is ContainerState.RUNNING:
        if is_sidecar(container):
            return _running_sidecar(draft, index, container, latest, previous)
        if draft.gates.enabled("InPlacePodVerticalScalingInitContainers"):
            draft.resize(index, container, latest, init=True)
        return _Step.NOTHING
    if latest.state is ContainerState.EXITED:
        return _exited(draft, index, container, latest)
    return _unknown(draft, index, container, latest)


def compute_init_actions(draft: Draft) -> bool:
    """Fill the draft's init starts and kills; returns whether regular containers may be looked at.

    At most one plain init container is started, sidecars that need it come on top (RST-050).
    """
    containers = draft.pod.spec.init_containers
    if not containers:
        return True
    initialized = previous = _regular_started(draft)
    if initialized:
        draft.fired("RST-045")
    for index in range(len(containers) - 1, -1, -1):
        container = containers[index]
        latest = draft.status.latest(container.name)
        if latest is None:
            if previous and is_sidecar(container):
                _start(draft, index, "RST-046")
            continue
        if previous and not is_sidecar(container):
            continue
        step = _step(draft, index, container, latest, previous)
        if step is _Step.FAILED:
            draft.kill_pod = True
            draft.init_to_start = []
            draft.fired("RST-053", container.name)
            return False
        initialized = initialized or step is _Step.INITIALIZED
        previous = True
    if not previous:
        _start(draft, 0, "RST-051")
    draft.init_to_start.reverse()
    return initialized
