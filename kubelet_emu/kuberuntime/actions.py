"""What one sync has to do to a pod's sandbox and containers, judged by what the runtime shows (pure).

Mirrors ``computePodActions`` and its helpers in ``pkg/kubelet/kuberuntime/kuberuntime_manager.go`` and
``kuberuntime_container.go``: sandbox decision, restart of all containers, sandbox change, ephemeral, init,
regular, pod-level resize, in that order (RST section 3 and 4). Each rule that fired is in the ``why`` of
the result.

The init walk has its own module, ``init_actions``; both work on one ``Draft``.
"""

from collections.abc import Mapping

from attrs import field, frozen

from kubelet_emu.api.types import Container, Pod, ResourceRequirements
from kubelet_emu.bugs import (
    AS_RELEASED,
    CREATED_NOT_STARTED,
    INIT_NOT_RUN,
    TRIGGER_KEPT,
    Deviations,
)
from kubelet_emu.container.runtime import (
    ContainerState,
    RuntimeContainer,
    RuntimePodStatus,
    RuntimeSandbox,
    SandboxState,
)
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime.action_types import ContainerToReset, PodActions, SandboxDecision
from kubelet_emu.kuberuntime.draft import Draft
from kubelet_emu.kuberuntime.grace import KillReason
from kubelet_emu.kuberuntime.init_actions import compute_init_actions
from kubelet_emu.kuberuntime.labels import container_hash
from kubelet_emu.kuberuntime.resize import amounts
from kubelet_emu.kuberuntime.restart_rules import (
    NEVER,
    ON_FAILURE,
    effective_policy,
    is_restart_all_source,
    is_sidecar,
    may_restart_after_kill,
    should_container_be_restarted,
)
from kubelet_emu.seams import ProbeKind, ProbeOutcome, ProbeView
from kubelet_emu.why import Why

__all__ = ["ActuatedView", "compute_pod_actions", "containers_to_reset", "decide_sandbox"]


def _no_records() -> Mapping[str, ResourceRequirements]:
    return {}


@frozen(kw_only=True)
class ActuatedView:
    """The resources last handed to the runtime: by container name, and for the pod as a whole (RST-065)."""

    containers: Mapping[str, ResourceRequirements] = field(factory=_no_records)
    pod_level: ResourceRequirements | None = None


def decide_sandbox(pod: Pod, sandboxes: tuple[RuntimeSandbox, ...]) -> SandboxDecision:
    """Whether the pod needs a new sandbox, first row that fits (RST-030, RST-031).

    ``sandboxes`` come newest first: by attempt, then creation time, then id.
    """

    def result(rule: str, changed: bool, attempt: int, sandbox_id: str) -> SandboxDecision:
        return SandboxDecision(
            changed=changed, attempt=attempt, sandbox_id=sandbox_id, why=(Why("RST-030", rule),)
        )

    if not sandboxes:
        return result("none", True, 0, "")
    latest = sandboxes[0]
    following = latest.attempt + 1
    if sum(sandbox.state is SandboxState.READY for sandbox in sandboxes) > 1:
        return result("several ready", True, following, latest.id)
    if latest.state is not SandboxState.READY:
        return result("not ready", True, following, latest.id)
    wanted = bool(pod.spec.host_network)
    if latest.host_network != wanted:
        return result("network", True, following, "")
    if not wanted and latest.ip == "":
        return result("no ip", True, following, latest.id)
    return result("kept", False, latest.attempt, latest.id)


def containers_to_reset(
    pod: Pod, status: RuntimePodStatus, deviations: Deviations = AS_RELEASED
) -> tuple[ContainerToReset, ...]:
    """All instances of regular and init containers in removal order: sources of the restart last
    (RST-130, RST-132, RST-163, RST-165).
    """

    def entries(containers: tuple[Container, ...], sources: bool) -> list[ContainerToReset]:
        found: list[ContainerToReset] = []
        for container in containers:
            for instance in status.instances(container.name):
                exited = instance.state is ContainerState.EXITED
                source = exited and is_restart_all_source(container, instance.exit_code)
                if source == sources:
                    found.append(
                        ContainerToReset(container_id=instance.id, name=container.name, kill=not exited)
                    )
        return found

    regular, init = tuple(pod.spec.containers), tuple(pod.spec.init_containers)
    if deviations.has(INIT_NOT_RUN):
        init = tuple(filter(is_sidecar, init))
    others = (*entries(regular, False), *entries(init, False))
    if deviations.has(TRIGGER_KEPT):
        return others
    return (
        *others,
        *entries(regular, True),
        *entries(init, True),
    )


def _succeeded(latest: RuntimeContainer | None) -> bool:
    return latest is not None and latest.state is ContainerState.EXITED and latest.exit_code == 0


def _left_created(pod: Pod, status: RuntimePodStatus) -> bool:
    """Whether some container was made and not started: the pod has not done yet what it is there for."""
    latest = (status.latest(one.name) for one in (*pod.spec.init_containers, *pod.spec.containers))
    return any(instance is not None and instance.state is ContainerState.CREATED for instance in latest)


def _has_regular_created(pod: Pod, status: RuntimePodStatus) -> bool:
    seen = {ContainerState.CREATED, ContainerState.RUNNING, ContainerState.EXITED}
    latest = (status.latest(container.name) for container in pod.spec.containers)
    return any(instance is not None and instance.state in seen for instance in latest)


def _sandbox_change(draft: Draft) -> None:
    """Fill the draft for a pod whose sandbox has to be made anew (RST-033 to RST-036); also on the way of a
    full restart (RST-137).
    """
    pod, status = draft.pod, draft.status
    unstarted = draft.deviations.fixed(CREATED_NOT_STARTED) and _left_created(pod, status)
    if pod.spec.restart_policy == NEVER and draft.attempt != 0 and status.containers and not unstarted:
        draft.create_sandbox = False
        draft.fired("RST-033")
        return
    to_start: list[int] = []
    for index, container in enumerate(pod.spec.containers):
        run_once = effective_policy(container, pod.spec, draft.gates) == ON_FAILURE
        if run_once and _succeeded(status.latest(container.name)):
            draft.fired("RST-034", container.name)
            continue
        to_start.append(index)
    if not to_start and _has_regular_created(pod, status):
        draft.create_sandbox = False
        draft.fired("RST-035")
        return
    draft.fired("RST-036")
    if pod.spec.init_containers:
        draft.init_to_start = [0]
    else:
        draft.regular_to_start = to_start


def _ephemeral(draft: Draft) -> None:
    for index, container in enumerate(draft.pod.spec.ephemeral_containers):
        if draft.status.latest(container.name) is None:
            draft.ephemeral_to_start.append(index)
            draft.fired("RST-041", container.name)


def _start_ended(draft: Draft, index: int, container: Container, latest: RuntimeContainer | None) -> None:
    """A regular container that does not run: start it if it should be (RST-055, RST-056)."""
    if latest is not None:
        draft.post_stop.append(container.name)
    verdict = should_container_be_restarted(container, draft.pod, draft.status, draft.gates, draft.deviations)
    draft.why += verdict.why
    if not verdict:
        return
    draft.regular_to_start.append(index)
    draft.fired("RST-056", container.name)
    if latest is not None and latest.state is ContainerState.UNKNOWN:
        draft.kill(
            latest,
            'Container is in "unknown" state, try killing it before restart',
            KillReason.UNKNOWN,
        )


def _running_regular(draft: Draft, index: int, container: Container, latest: RuntimeContainer) -> bool:
    """A regular container that runs: kill it where the first of the causes applies (RST-057). True if
    kept. Probe results are those of this very instance (RST-162).
    """
    name = container.name
    restart = may_restart_after_kill(container, draft.pod.spec, draft.gates)
    if latest.hash != container_hash(container):
        message, reason, restart = f"Container {name} definition changed", KillReason.NONE, True
    elif draft.probe(ProbeKind.LIVENESS, latest.id) is ProbeOutcome.FAILURE:
        message, reason = f"Container {name} failed liveness probe", KillReason.LIVENESS_PROBE
    elif draft.probe(ProbeKind.STARTUP, latest.id) is ProbeOutcome.FAILURE:
        message, reason = f"Container {name} failed startup probe", KillReason.STARTUP_PROBE
    else:
        return draft.resize(index, container, latest, init=False)
    draft.fired("RST-057", name)
    draft.fired("RST-058", name)
    if restart:
        message += ", will be restarted"
        draft.regular_to_start.append(index)
    draft.kill(latest, message, reason)
    return False


def _regular(draft: Draft) -> None:
    kept = 0
    for index, container in enumerate(draft.pod.spec.containers):
        latest = draft.status.latest(container.name)
        if latest is None or latest.state is not ContainerState.RUNNING:
            _start_ended(draft, index, container, latest)
        elif _running_regular(draft, index, container, latest):
            kept += 1
    if kept == 0 and not draft.regular_to_start:
        draft.kill_pod = True
        draft.init_to_start = []
        draft.fired("RST-060")


def compute_pod_actions(
    pod: Pod,
    status: RuntimePodStatus,
    probes: ProbeView,
    *,
    restart_all_containers: bool,
    gates: Gates,
    actuated: ActuatedView | None = None,
    deviations: Deviations = AS_RELEASED,
) -> PodActions:
    """All that one sync has to do to this pod (RST section 4).

    ``restart_all_containers`` is what the kubelet read from the status it has just computed
    (RST-128, RST-135, RST-140).
    """
    record = actuated or ActuatedView()
    sandbox = decide_sandbox(pod, status.sandboxes)
    draft = Draft(pod, status, probes, gates, record.containers, sandbox, deviations)
    if restart_all_containers and gates.restart_all:
        draft.to_reset = list(containers_to_reset(pod, status, deviations))
        draft.fired("RST-040")
        draft.fired("RST-130")
        return draft.done()
    if sandbox.changed:
        _sandbox_change(draft)
        return draft.done()
    _ephemeral(draft)
    initialized = compute_init_actions(draft)
    if draft.kill_pod or not initialized:
        draft.fired("RST-042")
        return draft.done()
    _regular(draft)
    known = record.pod_level
    if known is not None and amounts(known) != amounts(pod.spec.resources):
        draft.update_pod_level_resources = True
        draft.fired("RST-067")
    return draft.done()
