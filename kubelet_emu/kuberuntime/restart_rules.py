"""Whether an exited container comes back, and whether the whole pod restarts in place (pure).

Mirrors ``pkg/api/v1/pod/util.go`` (rule matching, ContainerShouldRestart, IsContainerRestartable,
AllContainersCouldRestart) and ``pkg/kubelet/container/helpers.go`` (ShouldContainerBeRestarted,
ShouldAllContainersRestart, AllContainersRestartCleanedUp).
"""

from collections.abc import Iterator, Sequence

from attrs import frozen

from kubelet_emu.api.types import Container, ContainerRestartRule, ContainerStatus, Pod, PodSpec, PodStatus
from kubelet_emu.bugs import AS_RELEASED, INIT_NOT_RUN, REMOVED_RUNS_AGAIN, Deviations
from kubelet_emu.container.runtime import ContainerState, RuntimePodStatus
from kubelet_emu.gates import Gates
from kubelet_emu.why import Why

__all__ = [
    "ALL_CONTAINERS_RESTARTING",
    "ALWAYS",
    "NEVER",
    "ON_FAILURE",
    "RESTART",
    "RESTART_ALL_CONTAINERS",
    "Decision",
    "all_containers_cleaned_up",
    "all_containers_could_restart",
    "could_restart",
    "effective_policy",
    "find_matching_rule",
    "init_failed",
    "is_restart_all_source",
    "is_sidecar",
    "may_restart_after_kill",
    "should_all_containers_restart",
    "should_container_be_restarted",
    "should_restart",
]

ALWAYS = "Always"
ON_FAILURE = "OnFailure"
NEVER = "Never"
RESTART = "Restart"
RESTART_ALL_CONTAINERS = "RestartAllContainers"
ALL_CONTAINERS_RESTARTING = "AllContainersRestarting"
"""The pod condition of a restart in place (RST-125)."""


@frozen
class Decision:
    """Yes or no, with the rules that said so; true in a boolean context iff yes."""

    yes: bool
    why: tuple[Why, ...]

    def __bool__(self) -> bool:
        return self.yes


def is_sidecar(container: Container) -> bool:
    """Whether an init container is a sidecar: its own restartPolicy is Always."""
    return container.restart_policy == ALWAYS


def find_matching_rule(rules: Sequence[ContainerRestartRule], exit_code: int) -> ContainerRestartRule | None:
    """The first rule that matches the code, whatever its action (RST-020, RST-021)."""
    for rule in rules:
        codes = rule.exit_codes
        if codes is None:
            continue
        listed = exit_code in codes.values
        if (codes.operator == "In" and listed) or (codes.operator == "NotIn" and not listed):
            return rule
    return None


def _policy_allows(policy: str | None, exit_code: int) -> bool:
    if policy == NEVER:
        return False
    return exit_code != 0 if policy == ON_FAILURE else True


def effective_policy(container: Container, spec: PodSpec, gates: Gates) -> str:
    """The policy that counts for a container: its own where it has one and the gate is on, else the pod's."""
    if gates.restart_rules and container.restart_policy:
        return container.restart_policy
    return spec.restart_policy or ALWAYS


def should_restart(container: Container, spec: PodSpec, exit_code: int, gates: Gates) -> Decision:
    """Whether a container that exited with this code is to be started again (RST-022).

    A first matching rule whose action is not usable (its gate is off) ends the search: the container's own
    policy decides then, later rules are not consulted.
    """
    name = container.name
    if not gates.restart_rules or not container.restart_policy:
        return Decision(_policy_allows(spec.restart_policy, exit_code), (Why("RST-022", name),))
    rule = find_matching_rule(container.restart_policy_rules, exit_code)
    if rule is not None:
        usable = rule.action == RESTART or (rule.action == RESTART_ALL_CONTAINERS and gates.restart_all)
        if usable:
            return Decision(True, (Why("RST-020", name), Why("RST-022", name)))
    return Decision(_policy_allows(container.restart_policy, exit_code), (Why("RST-022", name),))


def _ended_for_good(container: Container, pod: Pod, gates: Gates) -> Decision | None:
    """The no to a container without an instance whose end the pod's status still tells of, else None."""
    known = _old_statuses(pod.status).get(container.name)
    end = known.state.terminated if known is not None else None
    verdict = should_restart(container, pod.spec, end.exit_code, gates) if end is not None else None
    return verdict if verdict is not None and not verdict else None


def should_container_be_restarted(
    container: Container,
    pod: Pod,
    status: RuntimePodStatus,
    gates: Gates,
    deviations: Deviations = AS_RELEASED,
) -> Decision:
    """Whether a container is to be started now, judged by its latest instance (RST-023, RST-024)."""
    reason = (Why("RST-023", container.name),)
    if pod.metadata.deletion_timestamp is not None:
        return Decision(False, reason)
    latest = status.latest(container.name)
    if latest is None:
        ended = _ended_for_good(container, pod, gates) if deviations.fixed(REMOVED_RUNS_AGAIN) else None
        return ended if ended is not None else Decision(True, (*reason, Why("RST-024", container.name)))
    if latest.state is ContainerState.RUNNING:
        return Decision(False, reason)
    if latest.state is not ContainerState.EXITED:
        return Decision(True, reason)
    verdict = should_restart(container, pod.spec, latest.exit_code, gates)
    return Decision(verdict.yes, reason + verdict.why)


def may_restart_after_kill(container: Container, spec: PodSpec, gates: Gates) -> bool:
    """Whether a container that is about to be killed may come back: policies only, no rules (RST-058)."""
    return effective_policy(container, spec, gates) != NEVER


def could_restart(container: Container, spec: PodSpec, gates: Gates) -> Decision:
    """Whether a container could ever be started again; full-restart rules do not count (RST-025)."""
    reason = (Why("RST-025", container.name),)
    if gates.restart_rules and container.restart_policy:
        if any(rule.action == RESTART for rule in container.restart_policy_rules):
            return Decision(True, reason)
        return Decision(container.restart_policy != NEVER, reason)
    return Decision(spec.restart_policy != NEVER, reason)


def _init_and_regular(spec: PodSpec) -> Iterator[Container]:
    yield from spec.init_containers
    yield from spec.containers


def all_containers_could_restart(spec: PodSpec) -> bool:
    """Whether any rule of any init or regular container has the full-restart action (RST-026)."""
    return any(
        rule.action == RESTART_ALL_CONTAINERS
        for container in _init_and_regular(spec)
        for rule in container.restart_policy_rules
    )


def is_restart_all_source(container: Container, exit_code: int) -> bool:
    """Whether this code's first matching rule has the full-restart action (RST-121, RST-130)."""
    rule = find_matching_rule(container.restart_policy_rules, exit_code)
    return rule is not None and rule.action == RESTART_ALL_CONTAINERS


def _old_statuses(old: PodStatus | None) -> dict[str, ContainerStatus]:
    if old is None:
        return {}
    return {status.name: status for status in (*old.init_container_statuses, *old.container_statuses)}


def should_all_containers_restart(
    pod: Pod, status: RuntimePodStatus | None, old: PodStatus | None
) -> Decision:
    """Whether the pod is to be restarted in place (RST-121 to RST-123).

    ``status`` is what the runtime knows, or None where only the API's evidence counts (the prober). With a
    runtime status a container without an Exited latest instance is passed over altogether (RST-122).
    """
    if old is not None:
        for condition in old.conditions:
            if condition.type == ALL_CONTAINERS_RESTARTING and condition.status == "True":
                return Decision(True, (Why("RST-121"),))
    old_by_name = _old_statuses(old)
    for container in _init_and_regular(pod.spec):
        if status is not None:
            latest = status.latest(container.name)
            if latest is None or latest.state is not ContainerState.EXITED:
                continue
            if is_restart_all_source(container, latest.exit_code):
                return Decision(True, (Why("RST-121", container.name),))
        known = old_by_name.get(container.name)
        ended = known.state.terminated if known is not None else None
        if ended is not None and is_restart_all_source(container, ended.exit_code):
            return Decision(True, (Why("RST-121", container.name), Why("RST-122", container.name)))
    return Decision(False, (Why("RST-121"),))


def all_containers_cleaned_up(
    pod: Pod, status: RuntimePodStatus, deviations: Deviations = AS_RELEASED
) -> bool:
    """Whether no init or regular container of the spec has any instance left, ephemerals aside (RST-124)."""
    kept = deviations.has(INIT_NOT_RUN)
    containers = (*filter(is_sidecar, pod.spec.init_containers), *pod.spec.containers) if kept else None
    return all(status.latest(one.name) is None for one in containers or _init_and_regular(pod.spec))


def init_failed(state: ContainerState, exit_code: int, reason: str) -> bool:
    """Whether an init container's instance counts as failed (RST-029)."""
    if reason == "OOMKilled" or state is ContainerState.UNKNOWN:
        return True
    return state is ContainerState.EXITED and exit_code != 0
