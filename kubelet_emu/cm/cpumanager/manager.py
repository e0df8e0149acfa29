"""The CPU manager: allocation at admission, state on disk, and correction of shared containers.

Mirrors ``pkg/kubelet/cm/cpumanager/cpu_manager.go`` (DEV-170, DEV-172, DEV-173).
"""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from attrs import frozen

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.api.types import Container, Pod
from kubelet_emu.cm.cpumanager.cpuset import CpuSet, format_cpus
from kubelet_emu.cm.cpumanager.state import CpuState
from kubelet_emu.cm.cpumanager.state_file import STATE_NAME, decode_cpus, encode_cpus
from kubelet_emu.cm.state_files import read_state, write_state
from kubelet_emu.cm.topologymanager.hints import Hint, ProviderHints
from kubelet_emu.errors import PeerError
from kubelet_emu.pod_update import uid_of
from kubelet_emu.seams import Recorder
from node_host.clock import NodeClock
from node_host.files import Files
from trio_grpc import Code, StatusError
from trio_grpc.services.runtime_v1 import RuntimeServiceClient

if TYPE_CHECKING:  # most nodes have no static policy: they do not pay for its import
    from kubelet_emu.cm.cpumanager.policy import StaticCpuPolicy

__all__ = ["CpuManager", "PodsView"]

RECONCILE_SECONDS = 10.0


@frozen(kw_only=True)
class PodsView:
    """Pods as the managers of CPUs and memory see them."""

    sources_ready: Callable[[], bool]
    active_pods: Callable[[], Collection[Pod]]
    hint: Callable[[str, str], Hint | None]


class CpuManager:
    """CPUs of one kubelet process. ``policy`` is None for the policy none."""

    name = "cpumanager"

    def __init__(
        self,
        *,
        policy: "StaticCpuPolicy | None",
        root_dir: str,
        files: Files,
        clock: NodeClock,
        recorder: Recorder,
        pods: PodsView,
        period_seconds: float = RECONCILE_SECONDS,
    ) -> None:
        self.state = CpuState()
        self._policy = policy
        self._policy_name = "none" if policy is None else "static"
        self._path = f"{root_dir}/{STATE_NAME}"
        self._files = files
        self._clock = clock
        self._recorder = recorder
        self._pods = pods
        self._period_seconds = period_seconds
        self._pending: Pod | None = None
        self.pinned = 0
        """How often something was to be pinned to a container."""
        self.pinning_errors = 0
        self._told: dict[str, CpuSet] = {}
        self._containers: dict[str, tuple[str, str]] = {}

    def start(self) -> None:
        """Read the state file and judge it, write it; raises ``PeerError``, which ends the kubelet."""
        try:
            content = read_state(self._files, self._path)
            if content is not None:
                stored = decode_cpus(content)
                if stored.policy != self._policy_name:
                    raise PeerError(
                        f'configured policy "{self._policy_name}" differs from state checkpoint '
                        f'policy "{stored.policy}"'
                    )
                self.state = stored.state
            if self._policy is not None:
                self._policy.check(self.state)
            self._save()
        except (OSError, PeerError) as error:
            raise PeerError(
                f"start cpu manager error: could not restore state from checkpoint: {error}, please drain "
                f'this node and delete the CPU manager checkpoint file "{self._path}" '
                "before restarting Kubelet"
            ) from error

    def _save(self) -> None:
        try:
            write_state(self._files, self._path, encode_cpus(self._policy_name, self.state))
        except OSError as error:
            raise PeerError(f"could not save checkpoint: {error}") from error

    # -- HintProvider --

    def topology_hints(self, pod: Pod, container: Container) -> ProviderHints:
        """See ``HintProvider``; stale assignments are dropped first."""
        if self._policy is None:
            return {}
        self._pending = pod
        self.collect()
        return self._policy.container_hints(self.state, pod, container)

    def pod_topology_hints(self, pod: Pod) -> ProviderHints:
        """See ``HintProvider``."""
        if self._policy is None:
            return {}
        self._pending = pod
        self.collect()
        return self._policy.pod_hints(self.state, pod)

    async def allocate(self, pod: Pod, container: Container) -> None:
        """Give the container its CPUs, if it is to have any of its own."""
        if self._policy is None:
            return
        self._pending = pod
        self.collect()
        hint = self._pods.hint(uid_of(pod), container.name)
        try:
            given = self._policy.allocate(self.state, pod, container, hint)
        except PeerError:
            self.pinned += 1
            self.pinning_errors += 1
            raise
        if given:
            self.pinned += 1
            self._save()
            chosen = self.state.get(uid_of(pod), container.name) or frozenset()
            self._recorder.fact(
                "cpus", pod=pod.metadata.name, container=container.name, cpus=format_cpus(chosen)
            )

    def collect(self) -> None:
        """Give back the CPUs of containers that no active pod has."""
        if self._policy is None or not self._pods.sources_ready():
            return
        pods = list(self._pods.active_pods()) + ([self._pending] if self._pending is not None else [])
        wanted = {
            (uid_of(pod), one.name)
            for pod in pods
            for one in (*pod.spec.init_containers, *pod.spec.containers)
        }
        stale = [place for place in self.state.places() if place not in wanted]
        for uid, name in stale:
            self._policy.release(self.state, uid, name)
        if stale:
            self._save()

    # -- containers --

    def affinity(self, uid: str, container: str) -> str:
        """``cpuset_cpus`` of a container that is about to be created; empty under policy none."""
        return format_cpus(self.state.get(uid, container) or self.state.default)

    def allocatable(self) -> CpuSet:
        """CPUs that containers can have for themselves, given away or not; none under policy none."""
        if self._policy is None:
            return frozenset()
        given = (cpus for containers in self.state.entries.values() for cpus in containers.values())
        return self.state.default.union(*given) - self._policy.reserved

    def add_container(self, uid: str, container: str, container_id: str) -> None:
        """A container was created with what ``affinity`` said."""
        if self._policy is not None:
            self._containers[container_id] = uid, container
            self._told[container_id] = self.state.get(uid, container) or self.state.default

    def remove_container(self, container_id: str) -> None:
        """A container was removed; its pod keeps its CPUs (DEV-172)."""
        self._containers.pop(container_id, None)
        self._told.pop(container_id, None)

    async def run(self, runtime: RuntimeServiceClient, running: Mapping[str, tuple[str, str]]) -> None:
        """Every ten seconds tell running containers of the shared pool how it has changed, until cancelled.

        ``running`` are the containers that ran when the kubelet started, by id.
        """
        if self._policy is None:
            return
        self._containers.update(running)
        while True:
            await self._clock.sleep(self._period_seconds)
            self.collect()
            for container_id, (uid, name) in list(self._containers.items()):
                await self._correct(runtime, container_id, self.state.get(uid, name) or self.state.default)

    async def _correct(self, runtime: RuntimeServiceClient, container_id: str, wanted: CpuSet) -> None:
        if not wanted or self._told.get(container_id) == wanted:
            return
        request = cri.UpdateContainerResourcesRequest(container_id=container_id)
        request.linux.cpuset_cpus = format_cpus(wanted)
        try:
            await runtime.UpdateContainerResources(request)
        except StatusError as error:
            self._recorder.fact("note", about="cpus", text=f"failed to update container: {error}")
            if error.code is not Code.UNAVAILABLE:
                self.remove_container(container_id)  # it does not run any more
            return
        if container_id in self._containers:
            self._told[container_id] = wanted
