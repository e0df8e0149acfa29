"""Whether a container restarts after an exit code. (pure)

Shared by the validation of status updates and by whoever has to predict the kubelet. API-105, API-106,
API-222, RST-002.

Mirrors ``pkg/api/v1/pod/util.go``.
"""

from kubelet_emu.api.types import Container, ContainerRestartRule, PodSpec

__all__ = [
    "RESTART",
    "RESTART_ALL",
    "all_containers_could_restart",
    "container_should_restart",
    "is_container_restartable",
    "is_restartable_init_container",
    "matching_rule",
    "uses_restart_all",
]

RESTART = "Restart"
RESTART_ALL = "RestartAllContainers"


def _matches(rule: ContainerRestartRule, exit_code: int) -> bool:
    codes = rule.exit_codes
    if codes is None:
        return False
    if codes.operator == "In":
        return exit_code in codes.values
    return codes.operator == "NotIn" and exit_code not in codes.values


def matching_rule(container: Container, exit_code: int) -> ContainerRestartRule | None:
    """The first rule that matches; None without a container policy: rules are then ignored (API-105)."""
    if container.restart_policy is None:
        return None
    return next((rule for rule in container.restart_policy_rules if _matches(rule, exit_code)), None)


def _by_policy(policy: str | None, exit_code: int) -> bool:
    """An unknown policy means restart."""
    if policy == "Never":
        return False
    return exit_code != 0 if policy == "OnFailure" else True


def container_should_restart(
    container: Container, pod_policy: str | None, exit_code: int, *, restart_all: bool = True
) -> bool:
    """Whether the container restarts after ``exit_code`` (API-105, API-222)."""
    rule = matching_rule(container, exit_code)
    if rule is not None and (rule.action == RESTART or (rule.action == RESTART_ALL and restart_all)):
        return True
    if container.restart_policy is None:
        return _by_policy(pod_policy, exit_code)
    return container.restart_policy == "Always" or (
        container.restart_policy == "OnFailure" and exit_code != 0
    )


def is_container_restartable(container: Container, pod_policy: str | None) -> bool:
    """Whether the container could ever restart (API-106)."""
    if container.restart_policy is None:
        return pod_policy != "Never"
    return container.restart_policy != "Never" or any(
        rule.action == RESTART for rule in container.restart_policy_rules
    )


def uses_restart_all(container: Container) -> bool:
    """Whether a rule of the container restarts the whole pod."""
    return any(rule.action == RESTART_ALL for rule in container.restart_policy_rules)


def all_containers_could_restart(spec: PodSpec) -> bool:
    """Whether some regular or init container has a rule that restarts the whole pod (API-106)."""
    return any(uses_restart_all(container) for container in (*spec.containers, *spec.init_containers))


def is_restartable_init_container(container: Container) -> bool:
    """Whether an init container is a sidecar (API-081)."""
    return container.restart_policy == "Always"
