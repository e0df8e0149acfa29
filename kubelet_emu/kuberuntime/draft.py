"""The working copy of a sync's actions while they are being decided (pure).

One draft lives for one call of ``compute_pod_actions``; the parts of the decision append to it, and
``done`` turns it into the frozen result.
"""

from collections.abc import Mapping

from attrs import define, field

from kubelet_emu.api.types import Container, Pod, ResourceRequirements
from kubelet_emu.bugs import AS_RELEASED, Deviations
from kubelet_emu.container.runtime import RuntimeContainer, RuntimePodStatus
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime.action_types import (
    ContainerToKill,
    ContainerToReset,
    ContainerToUpdate,
    PodActions,
    SandboxDecision,
)
from kubelet_emu.kuberuntime.grace import KillReason
from kubelet_emu.kuberuntime.resize import amounts, resize_verdict
from kubelet_emu.kuberuntime.restart_rules import is_sidecar
from kubelet_emu.seams import ProbeKind, ProbeOutcome, ProbeView
from kubelet_emu.why import Why

__all__ = ["Draft"]


def _indices() -> list[int]:
    return []


def _kills() -> list[ContainerToKill]:
    return []


def _resets() -> list[ContainerToReset]:
    return []


def _updates() -> dict[str, list[ContainerToUpdate]]:
    return {}


def _names() -> list[str]:
    return []


@define
class Draft:
    """Inputs of the decision, and the actions listed so far (RST-032)."""

    pod: Pod
    status: RuntimePodStatus
    probes: ProbeView
    gates: Gates
    actuated: Mapping[str, ResourceRequirements]
    sandbox: SandboxDecision
    deviations: Deviations = AS_RELEASED
    kill_pod: bool = field(init=False)
    create_sandbox: bool = field(init=False)
    why: tuple[Why, ...] = field(init=False)
    init_to_start: list[int] = field(factory=_indices, init=False)
    regular_to_start: list[int] = field(factory=_indices, init=False)
    ephemeral_to_start: list[int] = field(factory=_indices, init=False)
    kills: list[ContainerToKill] = field(factory=_kills, init=False)
    to_reset: list[ContainerToReset] = field(factory=_resets, init=False)
    updates: dict[str, list[ContainerToUpdate]] = field(factory=_updates, init=False)
    update_pod_resources: bool = field(default=False, init=False)
    update_pod_level_resources: bool = field(default=False, init=False)
    post_stop: list[str] = field(factory=_names, init=False)

    def __attrs_post_init__(self) -> None:
        self.kill_pod = self.create_sandbox = self.sandbox.changed
        self.why = (*self.sandbox.why, Why("RST-032"))

    @property
    def attempt(self) -> int:
        return self.sandbox.attempt

    def fired(self, rule: str, about: str = "") -> None:
        """Note that a rule decided something."""
        self.why = (*self.why, Why(rule, about))

    def probe(self, kind: ProbeKind, container_id: str) -> ProbeOutcome | None:
        return self.probes.result(kind, container_id)

    def kill(self, instance: RuntimeContainer, message: str, reason: KillReason) -> None:
        """List an instance to be killed, at most once: the first cause stays."""
        if all(listed.container_id != instance.id for listed in self.kills):
            self.kills.append(
                ContainerToKill(container_id=instance.id, name=instance.name, message=message, reason=reason)
            )

    def resize(self, index: int, container: Container, instance: RuntimeContainer, *, init: bool) -> bool:
        """List what a changed resources stanza of a running container asks for; False if it restarts
        (RST-065).
        """
        current = self.actuated.get(container.name)
        if current is None:
            return True
        wanted, given = amounts(container.resources), amounts(current)
        if wanted == given:
            return True
        verdict = resize_verdict(container, wanted, given)
        self.fired("RST-065", container.name)
        if verdict.restart and not (init and not is_sidecar(container)):
            self.kill(instance, f"Container {container.name} resize requires restart", KillReason.NONE)
            (self.init_to_start if init else self.regular_to_start).append(index)
            self.update_pod_resources = True
            return False
        update = ContainerToUpdate(
            container_id=instance.id, name=container.name, desired=wanted, current=given
        )
        for resource, sign in verdict.direction.items():
            listed = self.updates.setdefault(resource, [])
            listed.insert(0 if sign < 0 else len(listed), update)
        return True

    def done(self) -> PodActions:
        """The finished actions."""
        return PodActions(
            kill_pod=self.kill_pod,
            create_sandbox=self.create_sandbox,
            sandbox_id=self.sandbox.sandbox_id,
            attempt=self.attempt,
            init_to_start=tuple(self.init_to_start),
            regular_to_start=tuple(self.regular_to_start),
            ephemeral_to_start=tuple(self.ephemeral_to_start),
            to_kill=tuple(self.kills),
            to_reset=tuple(self.to_reset),
            to_update={resource: tuple(updates) for resource, updates in self.updates.items()},
            update_pod_resources=self.update_pod_resources,
            update_pod_level_resources=self.update_pod_level_resources,
            post_stop=tuple(self.post_stop),
            why=self.why,
        )
