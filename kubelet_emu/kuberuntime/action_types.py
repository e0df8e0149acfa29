"""What one runtime sync of a pod is to do: values that the decision makes and the shell carries out (pure).

Mirrors ``podActions``, ``containerToKillInfo``, ``containerToRemoveInfo`` and ``containerToUpdateInfo`` of
``pkg/kubelet/kuberuntime/kuberuntime_manager.go``.
"""

from collections.abc import Mapping

from attrs import frozen

from kubelet_emu.kuberuntime.grace import KillReason
from kubelet_emu.why import Why

__all__ = [
    "ContainerToKill",
    "ContainerToReset",
    "ContainerToUpdate",
    "PodActions",
    "ResourceAmounts",
    "SandboxDecision",
]


@frozen(kw_only=True)
class ContainerToKill:
    """A running or unknown instance to stop, with the event text (empty for the default one) and the
    reason.
    """

    container_id: str
    name: str
    message: str
    reason: KillReason


@frozen(kw_only=True)
class ContainerToReset:
    """An instance to remove in a restart of all containers; ``kill`` where it has not exited (RST-130)."""

    container_id: str
    name: str
    kill: bool


@frozen(kw_only=True)
class ResourceAmounts:
    """CPU in thousandths of a core and memory in bytes, 0 where not set (RST-065)."""

    cpu_request_milli: int = 0
    cpu_limit_milli: int = 0
    memory_request_bytes: int = 0
    memory_limit_bytes: int = 0


@frozen(kw_only=True)
class ContainerToUpdate:
    """A running container whose resources change without a restart (RST-065)."""

    container_id: str
    name: str
    desired: ResourceAmounts
    current: ResourceAmounts


@frozen(kw_only=True)
class SandboxDecision:
    """Outcome of the sandbox table: whether a new one is needed, its attempt, the id the result names
    (RST-030).
    """

    changed: bool
    attempt: int
    sandbox_id: str
    why: tuple[Why, ...]


@frozen(kw_only=True)
class PodActions:
    """Everything one sync does, in the terms of the kubelet (RST-032). Lists of starts hold spec indices.

    ``post_stop`` names the regular containers whose latest instance has ended: the internal post-stop hook
    runs for them (RST-055).
    """

    kill_pod: bool = False
    create_sandbox: bool = False
    sandbox_id: str = ""
    attempt: int = 0
    init_to_start: tuple[int, ...] = ()
    regular_to_start: tuple[int, ...] = ()
    ephemeral_to_start: tuple[int, ...] = ()
    to_kill: tuple[ContainerToKill, ...] = ()
    to_reset: tuple[ContainerToReset, ...] = ()
    to_update: Mapping[str, tuple[ContainerToUpdate, ...]] = {}
    update_pod_resources: bool = False
    update_pod_level_resources: bool = False
    post_stop: tuple[str, ...] = ()
    why: tuple[Why, ...] = ()

    def summary(self) -> dict[str, object]:
        """The actions as plain JSON values, empty parts left out: what the trace records."""
        parts: dict[str, object] = {
            "killPod": self.kill_pod,
            "createSandbox": self.create_sandbox,
            "attempt": self.attempt if self.create_sandbox else 0,
            "init": list(self.init_to_start),
            "regular": list(self.regular_to_start),
            "ephemeral": list(self.ephemeral_to_start),
            "kill": [kill.name for kill in self.to_kill],
            "reset": [f"{entry.name}!" if entry.kill else entry.name for entry in self.to_reset],
            "update": {resource: [u.name for u in updates] for resource, updates in self.to_update.items()},
            "podResources": self.update_pod_resources or self.update_pod_level_resources,
        }
        return {name: value for name, value in parts.items() if value}
