"""Feature gates that matter to this node, with their defaults in Kubernetes 1.36 (RST section 1, POD-004)."""

from collections.abc import Mapping

from attrs import field, frozen

from kubelet_emu.errors import CallerError, Problem

__all__ = ["DEFAULT_GATES", "LOCKED_GATES", "Gates"]

DEFAULT_GATES: Mapping[str, bool] = {
    "ChangeContainerStatusOnKubeletRestart": False,
    "ContainerRestartRules": True,
    "ContainerStopSignals": False,
    "CRIListStreaming": False,
    "DynamicResourceAllocation": True,
    "EventedPLEG": False,
    "GracefulNodeShutdown": True,
    "ImageVolume": True,
    "InPlacePodLevelResourcesVerticalScaling": True,
    "InPlacePodVerticalScaling": True,
    "InPlacePodVerticalScalingInitContainers": True,
    "KubeletCrashLoopBackOffMax": True,
    "KubeletEnsureSecretPulledImages": True,
    "NodeDeclaredFeatures": True,
    "PLEGOnDemandRelist": True,
    "PodReadyToStartContainersCondition": True,
    "PreventStaticPodAPIReferences": True,
    "ReduceDefaultCrashLoopBackOffDecay": False,
    "ResourceHealthStatus": True,
    "RestartAllContainersOnContainerExits": True,
    "SidecarContainers": True,
}
"""Name of each known gate and its default."""

LOCKED_GATES: frozenset[str] = frozenset(
    {"DynamicResourceAllocation", "ImageVolume", "InPlacePodVerticalScaling", "SidecarContainers"}
)
"""Gates that 1.36 has locked to their default."""


@frozen
class Gates:
    """The gates of one node: the defaults with the given ones laid over them.

    Raises ``CallerError`` for an unknown gate, a locked one that is to be changed, and for
    RestartAllContainersOnContainerExits without the gates it depends on (RST-001).
    """

    overrides: Mapping[str, bool] = field(factory=dict[str, bool])

    def __attrs_post_init__(self) -> None:
        problems: list[Problem] = []
        for name, value in self.overrides.items():
            if name not in DEFAULT_GATES:
                known = ", ".join(sorted(DEFAULT_GATES))
                problems.append(Problem(f"unknown feature gate {name}", hint=f"known gates: {known}"))
            elif name in LOCKED_GATES and value != DEFAULT_GATES[name]:
                problems.append(
                    Problem(f"feature gate {name} is locked to {str(DEFAULT_GATES[name]).lower()}")
                )
        if not problems and self.enabled("RestartAllContainersOnContainerExits"):
            problems += [
                Problem(
                    f"feature gate RestartAllContainersOnContainerExits needs {needed}",
                    hint="switch it off too: --gate RestartAllContainersOnContainerExits=false",
                )
                for needed in ("ContainerRestartRules", "NodeDeclaredFeatures")
                if not self.enabled(needed)
            ]
        if problems:
            raise CallerError(problems)

    def enabled(self, name: str) -> bool:
        """Whether the gate is on; raises ``KeyError`` for a name that is not in ``DEFAULT_GATES``."""
        return self.overrides.get(name, DEFAULT_GATES[name])

    @property
    def restart_rules(self) -> bool:
        """ContainerRestartRules: policies and rules on each container (RST section 1)."""
        return self.enabled("ContainerRestartRules")

    @property
    def restart_all(self) -> bool:
        """RestartAllContainersOnContainerExits: restart of the whole pod in place (RST section 8)."""
        return self.enabled("RestartAllContainersOnContainerExits")
