"""Removing containers, sandboxes, logs: one instance, surplus init instances, and the collection once a
minute.

Mirrors ``removeContainer``, ``pruneInitContainersBeforeStart``, ``purgeInitContainers`` of
``pkg/kubelet/kuberuntime/kuberuntime_container.go`` and ``kuberuntime_gc.go`` (RST-084, RST-095, POD-1005 to
POD-1010, LOG-07).
"""

import posixpath

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.api.types import Pod
from kubelet_emu.container.runtime import ContainerState, RuntimePodStatus
from kubelet_emu.errors import PeerError
from kubelet_emu.kuberuntime import labels
from kubelet_emu.kuberuntime.calls import CriCalls
from kubelet_emu.kuberuntime.gc import (
    ContainerToCollect,
    GCPolicy,
    ListedContainer,
    ListedSandbox,
    containers_to_collect,
    sandboxes_to_collect,
)
from kubelet_emu.kuberuntime.grace import KillReason
from kubelet_emu.kuberuntime.kill import Killer, KillRequest
from kubelet_emu.kuberuntime.reading import STATES
from kubelet_emu.kuberuntime.seams import InternalLifecycle, PodStates
from kubelet_emu.seams import Recorder
from kubelet_emu.settings import KubeletSettings
from node_host.clock import NodeClock
from node_host.files import Files
from trio_grpc import StatusError

__all__ = ["Remover"]

_UNKNOWN_TEXT = "Container is in unknown state, try killing it before removal"


class Remover:
    """Removes what is dead on one node."""

    def __init__(
        self,
        calls: CriCalls,
        *,
        clock: NodeClock,
        files: Files,
        recorder: Recorder,
        settings: KubeletSettings,
        killer: Killer,
        lifecycle: InternalLifecycle,
        pods: PodStates,
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._files = files
        self._recorder = recorder
        self._settings = settings
        self._killer = killer
        self._lifecycle = lifecycle
        self._pods = pods

    async def container(self, container_id: str, *, keep_logs: bool) -> None:
        """Remove one instance (RST-095). Without its logs gone it stays. Raises StatusError, PeerError."""
        self._lifecycle.post_stop(container_id)
        if not keep_logs:
            await self._remove_logs(container_id)
        await self._calls.remove_container(container_id)

    async def _remove_logs(self, container_id: str) -> None:
        try:
            status = await self._calls.container_status(container_id)
            if status.log_path:
                self._remove_all(status.log_path)
            status = await self._calls.container_status(container_id)
            self._unlink(self._symlink(status))
        except OSError as error:
            raise PeerError(f"failed to remove container {container_id!r} log: {error}") from error

    def _symlink(self, status: cri.ContainerStatus) -> str:
        names = status.labels
        name = labels.log_symlink_name(
            names.get(labels.POD_NAME, ""),
            names.get(labels.POD_NAMESPACE, ""),
            names.get(labels.CONTAINER_NAME, ""),
            status.id,
        )
        return f"{self._settings.container_logs_dir}/{name}"

    def _remove_all(self, path: str) -> None:
        """The log and its rotated pieces: everything that begins with its name."""
        directory, stem = posixpath.split(path)
        try:
            names = self._files.list(directory)
        except FileNotFoundError:
            return
        for name in names:
            if name.startswith(stem):
                self._unlink(f"{directory}/{name}")

    def _unlink(self, path: str) -> None:
        try:
            self._files.remove(path)
        except FileNotFoundError:
            return

    async def prune_init(self, pod: Pod, status: RuntimePodStatus) -> None:
        """Keep the newest ended instance of each init container, remove the others (RST-084)."""
        ended = (ContainerState.EXITED, ContainerState.UNKNOWN)
        for init in pod.spec.init_containers:
            found = [instance for instance in status.instances(init.name) if instance.state in ended]
            for instance in found[1:]:
                await self._try_remove(pod, init.name, instance.id)

    async def purge_init(self, pod: Pod, status: RuntimePodStatus) -> None:
        """Remove every instance of every init container, logs included (RST-081)."""
        for init in pod.spec.init_containers:
            for instance in status.instances(init.name):
                await self._try_remove(pod, init.name, instance.id)

    async def _try_remove(self, pod: Pod, name: str, container_id: str) -> None:
        try:
            await self.container(container_id, keep_logs=False)
        except (StatusError, PeerError) as error:
            self._note(pod.metadata.name, name, error)

    def _note(self, pod: str, name: str, error: Exception) -> None:
        self._recorder.fact("removal-failed", pod=pod, object=name, error=str(error))

    async def collect(self, *, sources_ready: bool) -> None:
        """One pass of container, sandbox and log collection; raises ``PeerError`` if a list could not be
        had.
        """
        try:
            await self._collect_containers(sources_ready)
            await self._collect_sandboxes()
        except StatusError as error:
            raise PeerError(str(error)) from error
        if sources_ready:
            self._collect_log_directories()
        await self._collect_symlinks()

    async def _listed(self) -> list[ListedContainer]:
        return [
            ListedContainer(
                id=item.id,
                pod_uid=item.labels.get(labels.POD_UID, ""),
                name=item.labels.get(labels.CONTAINER_NAME, item.metadata.name),
                sandbox_id=item.pod_sandbox_id,
                state=STATES.get(item.state, ContainerState.UNKNOWN),
                created_at_ns=item.created_at,
            )
            for item in await self._calls.list_containers()
        ]

    async def _collect_containers(self, sources_ready: bool) -> None:
        settings = self._settings
        policy = GCPolicy(
            min_age_ns=round(settings.minimum_container_ttl_seconds * 1_000_000_000),
            max_per_container=settings.max_dead_containers_per_container,
            max_containers=settings.max_dead_containers,
        )
        chosen = containers_to_collect(
            await self._listed(),
            policy,
            now_ns=self._clock.now_ns(),
            sources_ready=sources_ready,
            content_removable=self._pods.should_content_be_removed,
        )
        for item in chosen:
            await self._collect_one(item)

    async def _collect_one(self, item: ContainerToCollect) -> None:
        try:
            if item.kill_first:
                request = KillRequest(
                    container_id=item.id, name=item.name, message=_UNKNOWN_TEXT, reason=KillReason.UNKNOWN
                )
                await self._killer.container(None, request)
            await self.container(item.id, keep_logs=False)
        except (StatusError, PeerError) as error:
            self._note("", item.name, error)

    async def _collect_sandboxes(self) -> None:
        containers = await self._listed()
        sandboxes = [
            ListedSandbox(
                id=item.id,
                pod_uid=item.metadata.uid,
                ready=item.state == cri.SANDBOX_READY,
                created_at_ns=item.created_at,
            )
            for item in await self._calls.list_pod_sandboxes()
        ]
        chosen = sandboxes_to_collect(
            sandboxes, containers, content_removable=self._pods.should_content_be_removed
        )
        for sandbox_id in chosen:
            try:
                await self._calls.stop_pod_sandbox(sandbox_id)
                await self._calls.remove_pod_sandbox(sandbox_id)
            except StatusError as error:
                self._note("", sandbox_id, error)

    def _collect_log_directories(self) -> None:
        root = self._settings.pod_logs_dir
        try:
            names = self._files.list(root)
        except OSError:
            return
        for name in names:
            if self._pods.should_content_be_removed(labels.uid_of_log_directory(name)):
                try:
                    self._files.remove_tree(f"{root}/{name}")
                except OSError as error:
                    self._note("", name, error)

    async def _collect_symlinks(self) -> None:
        """Links whose log is gone go too, unless their container has not ended (POD-1009)."""
        directory = self._settings.container_logs_dir
        try:
            names = self._files.list(directory)
        except OSError:
            return
        for name in names:
            path = f"{directory}/{name}"
            if not name.endswith(".log") or self._files.exists(path) or await self._still_alive(name):
                continue
            try:
                self._unlink(path)
            except OSError as error:
                self._note("", name, error)

    async def _still_alive(self, symlink_name: str) -> bool:
        container_id = labels.container_id_of_symlink(symlink_name)
        if not container_id:
            return False
        try:
            status = await self._calls.container_status(container_id)
        except (StatusError, PeerError):
            return False
        return status.state != cri.CONTAINER_EXITED
