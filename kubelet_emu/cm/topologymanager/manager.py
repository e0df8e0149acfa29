"""The topology manager: asks providers for hints, has the policy decide, then lets each container be given
its share.

Mirrors ``topology_manager.go``, ``scope.go``, ``scope_none.go``, ``scope_container.go`` and ``scope_pod.go``
of ``pkg/kubelet/cm/topologymanager`` (DEV-060, DEV-131, DEV-132).
"""

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from kubelet_emu.api.types import Container, Pod
from kubelet_emu.cm.machine import MachineTopology
from kubelet_emu.cm.topologymanager.hints import Hint, ProviderHints
from kubelet_emu.cm.topologymanager.options import TopologyConfig
from kubelet_emu.cm.topologymanager.policy import Merged, Policy, Scope, decide
from kubelet_emu.errors import PeerError
from kubelet_emu.pod_update import uid_of
from kubelet_emu.seams import Recorder

__all__ = ["AllocationRefused", "HintProvider", "TopologyManager", "Verdict"]


class AllocationRefused(PeerError):
    """Raised by a manager whose refusal has a reason of its own, such as SMTAlignmentError (DEV-091)."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class HintProvider(Protocol):
    """A manager of devices, CPUs or memory."""

    name: str

    def topology_hints(self, pod: Pod, container: Container) -> ProviderHints: ...

    def pod_topology_hints(self, pod: Pod) -> ProviderHints: ...

    async def allocate(self, pod: Pod, container: Container) -> None:
        """Raises ``PeerError``, or ``AllocationRefused``."""
        ...


@frozen
class Verdict:
    """Outcome of an admission: nothing, or a refusal by topology, or an error of a provider."""

    error: str = ""
    reason: str = ""
    topology: bool = False


class TopologyManager:
    """Admits pods over its providers, in their order: devices, CPUs, memory."""

    def __init__(
        self,
        *,
        config: TopologyConfig,
        machine: MachineTopology,
        providers: Sequence[HintProvider],
        recorder: Recorder,
    ) -> None:
        self.config = config
        self._machine = machine
        self._providers = tuple(providers)
        self._recorder = recorder
        self._hints: dict[str, dict[str, Hint]] = {}
        self._containers: dict[str, tuple[str, str]] = {}

    async def admit(self, pod: Pod) -> Verdict:
        """Find a place for the pod and allocate there; a failure undoes nothing (DEV-060)."""
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        try:
            if self.config.policy is not Policy.NONE and self.config.scope is Scope.POD:
                merged = self._decide(pod, [each.pod_topology_hints(pod) for each in self._providers], "")
                if not merged.admit:
                    return Verdict(topology=True)
                for container in containers:
                    self._store(pod, container, merged.hint)
                    await self._allocate(pod, container)
                return Verdict()
            for container in containers:
                if self.config.policy is not Policy.NONE:
                    given = [each.topology_hints(pod, container) for each in self._providers]
                    merged = self._decide(pod, given, container.name)
                    if not merged.admit:
                        return Verdict(topology=True)
                    self._store(pod, container, merged.hint)
                await self._allocate(pod, container)
        except AllocationRefused as error:
            return Verdict(str(error), error.reason)
        except PeerError as error:
            return Verdict(str(error))
        return Verdict()

    def hint(self, uid: str, container: str) -> Hint | None:
        """What was decided for a container; None if nothing is stored."""
        return self._hints.get(uid, {}).get(container)

    # -- the life of containers --

    def add_container(self, uid: str, container: str, container_id: str) -> None:
        """A container is about to start."""
        self._containers[container_id] = uid, container

    def remove_container(self, container_id: str) -> None:
        """A container was removed; its hint goes unless a newer instance is there (DEV-114)."""
        place = self._containers.pop(container_id, None)
        if place is None or place in self._containers.values():
            return
        uid, container = place
        hints = self._hints.get(uid, {})
        hints.pop(container, None)
        if not hints:
            self._hints.pop(uid, None)

    # -- inside --

    def _decide(self, pod: Pod, given: Sequence[ProviderHints], container: str) -> Merged:
        merged = decide(self.config.policy, given, self._machine, closest=self.config.closest)
        shown = {
            f"{provider.name}/{resource}": None if hints is None else [str(hint) for hint in hints]
            for provider, of_provider in zip(self._providers, given, strict=True)
            for resource, hints in of_provider.items()
        }
        self._recorder.decision(
            "topologymanager",
            pod.metadata.name,
            merged.why,
            inputs={"container": container, "hints": shown},
            outcome={"hint": str(merged.hint), "admit": merged.admit},
        )
        return merged

    def _store(self, pod: Pod, container: Container, hint: Hint) -> None:
        self._hints.setdefault(uid_of(pod), {})[container.name] = hint

    async def _allocate(self, pod: Pod, container: Container) -> None:
        for provider in self._providers:
            await provider.allocate(pod, container)
