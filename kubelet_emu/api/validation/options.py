"""What validation depends on besides the object: gates, and what a stored pod uses. (pure)

API-034.
"""

from attrs import frozen

from kubelet_emu.api.restart_rules import all_containers_could_restart, is_restartable_init_container
from kubelet_emu.api.types import PodSpec
from kubelet_emu.gates import Gates

__all__ = ["Options", "options_for", "restart_rules_in_use"]


@frozen
class Options:
    """Switches of validation; defaults are those of Kubernetes 1.36, privileged containers allowed."""

    restart_rules: bool = True
    restart_all: bool = True
    sidecar_resize: bool = True
    allow_privileged: bool = True
    toleration_comparison: bool = False
    host_users_host_network: bool = False


def restart_rules_in_use(spec: PodSpec) -> bool:
    """Whether a stored spec uses what the gate ContainerRestartRules adds (API-033)."""
    return any(
        container.restart_policy_rules or container.restart_policy not in (None, "Always")
        for container in spec.init_containers
    ) or any(container.restart_policy is not None for container in spec.containers)


def _restart_all_in_use(spec: PodSpec) -> bool:
    return all_containers_could_restart(spec) or any(
        is_restartable_init_container(container) and container.restart_policy_rules
        for container in spec.init_containers
    )


def options_for(gates: Gates | None = None, stored: PodSpec | None = None) -> Options:
    """The switches for these gates; what the stored spec uses stays allowed even where its gate is off."""
    gates = gates or Gates()
    return Options(
        restart_rules=gates.restart_rules or (stored is not None and restart_rules_in_use(stored)),
        restart_all=gates.restart_all or (stored is not None and _restart_all_in_use(stored)),
        sidecar_resize=gates.enabled("InPlacePodVerticalScalingInitContainers"),
    )
