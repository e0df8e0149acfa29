"""Which changes of a status are legal, and what ends a pod; mirrors parts of status_manager.go (pure)."""

from collections.abc import Sequence

from attrs import frozen

from kubelet_emu.api.types import Container, ContainerStatus, Pod, PodStatus
from kubelet_emu.evolving import evolve
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime.restart_rules import all_containers_could_restart, is_sidecar, should_restart
from kubelet_emu.status import constants as k
from kubelet_emu.status.pods import by_name, is_static_pod, is_terminal, unknown_state
from kubelet_emu.why import Why

__all__ = ["TransitionVerdict", "check_transition", "pod_has_initialized_in_api", "terminate_status"]


@frozen
class TransitionVerdict:
    """Whether an update may be stored; ``problem`` is the kubelet's log line if not."""

    legal: bool
    why: tuple[Why, ...]
    problem: str = ""


def check_transition(pod: Pod, old: PodStatus, new: PodStatus, gates: Gates) -> TransitionVerdict:
    """Refuse a container that leaves its terminated state without a right to restart
    (STA-602, STA-611, RST-011).

    A refused update is dropped as a whole. Ephemeral containers are not checked.
    """
    if (pod.spec.restart_policy or "Always") == "Always":
        return TransitionVerdict(True, (Why("RST-011", "policy Always"),))
    if gates.restart_all and all_containers_could_restart(pod.spec):
        return TransitionVerdict(True, (Why("RST-011", "full-restart rule"),))
    problem = _illegal(pod, pod.spec.containers, old.container_statuses, new.container_statuses, gates)
    kind = "terminated container"
    if not problem:
        inits = tuple(c for c in pod.spec.init_containers if not is_sidecar(c))
        problem = _illegal(pod, inits, old.init_container_statuses, new.init_container_statuses, gates)
        kind = "terminated init container"
    if problem:
        text = f"{kind} {problem} attempted illegal transition to non-terminated state"
        return TransitionVerdict(False, (Why("STA-602", problem),), text)
    return TransitionVerdict(True, (Why("STA-602"),))


def _illegal(
    pod: Pod,
    containers: Sequence[Container],
    old: Sequence[ContainerStatus],
    new: Sequence[ContainerStatus],
    gates: Gates,
) -> str:
    """Name of the first container that may not leave its terminated state, or empty."""
    spec = {container.name: container for container in containers}
    after = by_name(new)
    for before in old:
        end, container, now = before.state.terminated, spec.get(before.name), after.get(before.name)
        if end is None or container is None or now is None or now.state.terminated is not None:
            continue
        if end.exit_code != 0 and pod.spec.restart_policy == "OnFailure":
            continue
        if gates.restart_rules and should_restart(container, pod.spec, end.exit_code, gates):
            continue
        return before.name
    return ""


def pod_has_initialized_in_api(pod: Pod) -> bool:
    """Whether the API status of the pod shows that it has been initialised (STA-608)."""
    inits = pod.spec.init_containers
    if not inits:
        return True
    status = pod.status
    if any(c.last_state.terminated is not None or _left_waiting(c) for c in status.container_statuses):
        return True
    last = by_name(status.init_container_statuses).get(inits[-1].name)
    if last is None:
        return False
    if is_sidecar(inits[-1]):
        return last.state.running is not None and bool(last.started)
    ends = (last.last_state.terminated, last.state.terminated)
    return any(end is not None and end.exit_code == 0 for end in ends)


def _left_waiting(status: ContainerStatus) -> bool:
    return status.state.running is not None or status.state.terminated is not None


def terminate_status(pod: Pod, status: PodStatus) -> tuple[PodStatus, tuple[Why, ...]]:
    """The last status of a pod: no container without an end, a terminal phase (STA-607).

    ``status`` is the cached status, else the API's. ``pod`` is judged by its own API status.
    """
    why: list[Why] = [Why("STA-607")]
    regular, init = status.container_statuses, status.init_container_statuses
    if pod_has_initialized_in_api(pod):
        regular = tuple(_ended(entry, why) for entry in regular)
    if init:
        past = [place for place, entry in enumerate(init) if _has_run(entry)]
        reach = max(past, default=0) + 1
        init = (*(_ended(entry, why) for entry in init[:reach]), *init[reach:])
    phase = status.phase
    if not is_static_pod(pod) and not is_terminal(phase):
        phase = k.FAILED
        why.append(Why("STA-1218"))
    return (
        evolve(status, container_statuses=regular, init_container_statuses=init, phase=phase),
        tuple(why),
    )


def _has_run(status: ContainerStatus) -> bool:
    """Whether there is evidence that the init container was started: not waiting, or with a last state."""
    return _left_waiting(status) or status.last_state.terminated is not None


def _ended(status: ContainerStatus, why: list[Why]) -> ContainerStatus:
    if status.state.terminated is not None:
        return status
    why.append(Why("STA-612", status.name))
    return evolve(status, state=unknown_state(k.GONE_TERMINATED_MESSAGE))
