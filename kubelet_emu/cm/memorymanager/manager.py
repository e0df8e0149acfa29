"""The memory manager: promises at admission and state on disk.

Mirrors ``pkg/kubelet/cm/memorymanager/memory_manager.go`` (DEV-174).
"""

from typing import TYPE_CHECKING

from kubelet_emu.api.types import Container, Pod
from kubelet_emu.cm.cpumanager.manager import PodsView
from kubelet_emu.cm.memorymanager.state import STATE_NAME, MemoryState, StoredMemory
from kubelet_emu.cm.state_files import read_state, write_state
from kubelet_emu.cm.topologymanager.hints import ProviderHints
from kubelet_emu.errors import PeerError
from kubelet_emu.pod_update import uid_of
from node_host.files import Files

if TYPE_CHECKING:  # most nodes have no static policy: they do not pay for its import
    from kubelet_emu.cm.memorymanager.policy import StaticMemoryPolicy

__all__ = ["MemoryManager"]


class MemoryManager:
    """Memory of one kubelet process. ``policy`` is None for the policy None."""

    name = "memorymanager"

    def __init__(
        self, *, policy: "StaticMemoryPolicy | None", root_dir: str, files: Files, pods: PodsView
    ) -> None:
        self.state = MemoryState()
        self._policy = policy
        self._policy_name = "None" if policy is None else "Static"
        self._path = f"{root_dir}/{STATE_NAME}"
        self._files = files
        self._pods = pods
        self._pending: Pod | None = None
        self.pinned = 0
        """How often something was to be pinned to a container."""
        self.pinning_errors = 0

    def start(self) -> None:
        """Read the state file and judge it, write it; raises ``PeerError``, which ends the kubelet."""
        try:
            content = read_state(self._files, self._path)
            if content is not None:
                stored = StoredMemory.decode(content)
                if stored.policy != self._policy_name:
                    raise PeerError(
                        f'[memorymanager] configured policy "{self._policy_name}" differs from state '
                        f'checkpoint policy "{stored.policy}"'
                    )
                self.state = stored.state
            if self._policy is not None:
                self._policy.check(self.state)
            self._save()
        except (OSError, PeerError) as error:
            raise PeerError(
                "start memory manager error: could not restore state from checkpoint: "
                f"{error}, please drain this node and delete the memory manager checkpoint file "
                f'"{self._path}" before restarting Kubelet'
            ) from error

    def _save(self) -> None:
        try:
            write_state(self._files, self._path, StoredMemory(self._policy_name, self.state).encode())
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
        """Promise the container its memory, if its pod is guaranteed."""
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

    def collect(self) -> None:
        """Give back the memory of containers that no active pod has."""
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

    def nodes(self, uid: str, container: str) -> str:
        """``cpuset_mems`` of a container that is about to be created; empty if it is not pinned."""
        blocks = self.state.blocks(uid, container) or ()
        return ",".join(map(str, sorted({node for block in blocks for node in block.nodes})))
