"""The runtime manager: everything the kubelet asks of its container runtime, over CRI.

Mirrors ``pkg/kubelet/kuberuntime/kuberuntime_manager.go`` (kubeGenericRuntimeManager). The parts do the
work: ``reading`` observes, ``actions`` decides, ``syncing`` acts step by step with ``kill``, ``start``,
``removal`` and ``images_manager``. This class puts them together behind ``kubelet_emu.seams.Runtime``.
"""

import random
from collections.abc import Collection, Sequence
from typing import TypedDict, Unpack

import trio
from attrs import frozen

from kubelet_emu.api.types import Pod
from kubelet_emu.container.runtime import RunningPod, RuntimePodStatus, SyncPodResult
from kubelet_emu.container.stamps import Stamps
from kubelet_emu.errors import PeerError
from kubelet_emu.kuberuntime import nulls
from kubelet_emu.kuberuntime.backoff import BackOffTable, crash_loop_limits
from kubelet_emu.kuberuntime.calls import CriCalls
from kubelet_emu.kuberuntime.event_stream import CriEvents
from kubelet_emu.kuberuntime.gc import dead_beyond
from kubelet_emu.kuberuntime.images_manager import ImageManager
from kubelet_emu.kuberuntime.kill import Killer
from kubelet_emu.kuberuntime.mounts import Mounter
from kubelet_emu.kuberuntime.reading import Reader
from kubelet_emu.kuberuntime.removal import Remover
from kubelet_emu.kuberuntime.resizing import Resizer
from kubelet_emu.kuberuntime.seams import (
    ActuatedResources,
    ContainerOptions,
    DynamicResources,
    InternalLifecycle,
    NodeFacts,
    ObjectLookup,
    OnSandboxReady,
    PodStates,
    PullCredentials,
    RuntimeClasses,
    Services,
    VolumePaths,
)
from kubelet_emu.kuberuntime.security import USERNS_LENGTH
from kubelet_emu.kuberuntime.start import Starter, StarterSeams
from kubelet_emu.kuberuntime.syncing import PodSyncer, SyncParts
from kubelet_emu.lifecycle.handlers import CommandFailed, HookRunner
from kubelet_emu.seams import EventRecorder, ProbeView, Recorder
from kubelet_emu.settings import KubeletSettings
from node_host.clock import NodeClock
from node_host.files import Files
from node_host.net import Net
from trio_grpc import StatusError
from trio_grpc.services.runtime_v1 import ImageServiceClient, RuntimeServiceClient

__all__ = ["KubeRuntime", "OptionalSeams"]


class OptionalSeams(TypedDict, total=False):
    """Seams that may be left out; ``kubelet_emu.kuberuntime.nulls`` then serves."""

    node: NodeFacts
    volumes: VolumePaths
    objects: ObjectLookup
    services: Services
    pods: PodStates
    options: ContainerOptions
    lifecycle: InternalLifecycle
    actuated: ActuatedResources
    dynamic: DynamicResources
    classes: RuntimeClasses | None
    credentials: PullCredentials
    on_sandbox_ready: OnSandboxReady


class _AllSeams(TypedDict):
    node: NodeFacts
    volumes: VolumePaths
    objects: ObjectLookup
    services: Services
    pods: PodStates
    options: ContainerOptions
    lifecycle: InternalLifecycle
    actuated: ActuatedResources
    dynamic: DynamicResources
    classes: RuntimeClasses
    credentials: PullCredentials
    on_sandbox_ready: OnSandboxReady


def _with_defaults(given: OptionalSeams) -> _AllSeams:
    return {
        "node": given.get("node") or NodeFacts(),
        "volumes": given.get("volumes") or nulls.NoVolumes(),
        "objects": given.get("objects") or nulls.NoObjects(),
        "services": given.get("services") or nulls.MasterService(),
        "pods": given.get("pods") or nulls.NoPodStates(),
        "options": given.get("options") or nulls.NoOptions(),
        "lifecycle": given.get("lifecycle") or nulls.NoInternalLifecycle(),
        "actuated": given.get("actuated") or nulls.MemoryActuated(),
        "dynamic": given.get("dynamic") or nulls.NoDynamicResources(),
        "classes": given.get("classes") or nulls.DefaultRuntimeClasses(),
        "credentials": given.get("credentials") or nulls.NoCredentials(),
        "on_sandbox_ready": given.get("on_sandbox_ready") or nulls.NoSandboxReady(),
    }


@frozen(kw_only=True)
class _Kit:
    """What the parts share, with the defaults filled in; makes the parts that need many of these."""

    calls: CriCalls
    clock: NodeClock
    rng: random.Random
    files: Files
    events: EventRecorder
    recorder: Recorder
    probes: ProbeView
    settings: KubeletSettings
    node: NodeFacts
    volumes: VolumePaths
    objects: ObjectLookup
    services: Services
    pods: PodStates
    options: ContainerOptions
    lifecycle: InternalLifecycle
    actuated: ActuatedResources
    dynamic: DynamicResources
    classes: RuntimeClasses
    credentials: PullCredentials
    on_sandbox_ready: OnSandboxReady

    def remover(self, killer: Killer) -> Remover:
        return Remover(
            self.calls,
            clock=self.clock,
            files=self.files,
            recorder=self.recorder,
            settings=self.settings,
            killer=killer,
            lifecycle=self.lifecycle,
            pods=self.pods,
        )

    def image_manager(self) -> ImageManager:
        return ImageManager(
            self.calls,
            clock=self.clock,
            files=self.files,
            events=self.events,
            recorder=self.recorder,
            settings=self.settings,
            credentials=self.credentials,
        )

    def starter(self, images: ImageManager, killer: Killer, hooks: HookRunner) -> Starter:
        mounter = Mounter(
            files=self.files, volumes=self.volumes, settings=self.settings, node=self.node, rng=self.rng
        )
        return Starter(
            self.calls,
            images=images,
            mounter=mounter,
            killer=killer,
            hooks=hooks,
            files=self.files,
            events=self.events,
            recorder=self.recorder,
            settings=self.settings,
            node=self.node,
            seams=StarterSeams(
                objects=self.objects,
                services=self.services,
                volumes=self.volumes,
                options=self.options,
                lifecycle=self.lifecycle,
                actuated=self.actuated,
            ),
        )

    def sync_parts(
        self,
        killer: Killer,
        remover: Remover,
        starter: Starter,
        images: ImageManager,
        backoff: BackOffTable,
        killed_by_probe: set[str],
    ) -> SyncParts:
        return SyncParts(
            calls=self.calls,
            clock=self.clock,
            files=self.files,
            events=self.events,
            recorder=self.recorder,
            probes=self.probes,
            settings=self.settings,
            node=self.node,
            killer=killer,
            remover=remover,
            starter=starter,
            resizer=Resizer(self.calls, self.actuated),
            images=images,
            backoff=backoff,
            lifecycle=self.lifecycle,
            actuated=self.actuated,
            pods=self.pods,
            dynamic=self.dynamic,
            classes=self.classes,
            on_sandbox_ready=self.on_sandbox_ready,
            killed_by_probe=killed_by_probe,
        )


class KubeRuntime:
    """The runtime manager of one node; implements ``kubelet_emu.seams.Runtime``.

    ``nursery`` carries preStop hooks that outlive their grace period; it lives as long as the kubelet. The
    seams with a default may be left out; ``kubelet_emu.kuberuntime.seams`` says what each is for. Raises
    ``CallerError`` for a back-off cap outside its range.
    """

    def __init__(
        self,
        *,
        runtime: RuntimeServiceClient,
        images: ImageServiceClient,
        nursery: trio.Nursery,
        clock: NodeClock,
        rng: random.Random,
        files: Files,
        net: Net,
        events: EventRecorder,
        recorder: Recorder,
        probes: ProbeView,
        settings: KubeletSettings,
        **seams: Unpack[OptionalSeams],
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._userns: dict[str, int] = {}
        self.calls = CriCalls(
            runtime, images, request_timeout_seconds=settings.runtime_request_timeout_seconds
        )
        self.backoff = BackOffTable(
            crash_loop_limits(settings.crash_loop_backoff_max_seconds, settings.gates)
        )
        killed_by_probe: set[str] = set()
        self._reader = Reader(self.calls, clock, files, failed=killed_by_probe)
        kit = _Kit(
            calls=self.calls,
            clock=clock,
            rng=rng,
            files=files,
            events=events,
            recorder=recorder,
            probes=probes,
            settings=settings,
            **_with_defaults(seams),
        )
        self.actuated = kit.actuated
        self.hooks = HookRunner(
            run_command=self._run_command,
            pod_address=self._pod_address,
            net=net,
            clock=clock,
            events=events,
        )
        self._killer = Killer(
            self.calls, clock=clock, events=events, recorder=recorder, hooks=self.hooks, nursery=nursery
        )
        self._remover = kit.remover(self._killer)
        self.images = kit.image_manager()
        starter = kit.starter(self.images, self._killer, self.hooks)
        self._parts = kit.sync_parts(
            self._killer, self._remover, starter, self.images, self.backoff, killed_by_probe
        )

    async def get_pods(self, *, include_exited: bool) -> tuple[RunningPod, ...]:
        """All pods that the runtime lists, sorted by uid (POD-904, POD-919)."""
        try:
            return await self._reader.pods(include_exited=include_exited)
        except StatusError as error:
            raise PeerError(str(error)) from error

    async def get_pod_status(self, uid: str, name: str, namespace: str) -> RuntimePodStatus:
        """Everything about one pod, freshly read (POD-917)."""
        return await self._reader.pod_status(uid, name, namespace)

    def events_of(self, stamps: Stamps) -> CriEvents:
        """The runtime's stream of container events, for an evented PLEG (POD-915)."""
        return CriEvents(
            self.calls.runtime, clock=self._clock, stamps=stamps, read=self._reader.status_of_event
        )

    async def sync_pod(
        self, pod: Pod, status: RuntimePodStatus, *, restart_all_containers: bool
    ) -> SyncPodResult:
        """One pass of the runtime step (RST section 5)."""
        syncer = PodSyncer(self._parts, pod, status, userns_host_id=self._userns_host_id(pod))
        return await syncer.run(restart_all_containers=restart_all_containers)

    async def kill_pod(
        self, pod: Pod | None, running: RunningPod, *, grace_override_seconds: int | None
    ) -> None:
        """Stop all running containers, then all sandboxes (POD-711); raises ``PeerError`` with all
        failures.
        """
        result = SyncPodResult(await self._killer.pod(pod, running, grace_override_seconds))
        if result.error:
            raise PeerError(result.error)

    async def delete_container(self, container_id: str) -> None:
        """Remove one exited instance with its logs (RST-095)."""
        try:
            await self._remover.container(container_id, keep_logs=False)
        except StatusError as error:
            raise PeerError(str(error)) from error

    def dead_containers(
        self, status: RuntimePodStatus, died_id: str, *, content_removable: bool
    ) -> tuple[str, ...]:
        """What a ContainerDied event leads to: ids for ``delete_container``, newest first (POD-1007,
        RST-096).
        """
        if content_removable:
            return dead_beyond(status, 0)
        keep = max(self._settings.max_dead_containers_per_container, 1)
        return dead_beyond(status, keep, died_id=died_id)

    async def garbage_collect(self, *, all_sources_ready: bool) -> None:
        """One pass of container, sandbox and log GC (POD-1005 to POD-1009)."""
        await self._remover.collect(sources_ready=all_sources_ready)

    def collect_backoff(self) -> None:
        """Drop back-off entries that have aged out; part of each housekeeping pass (RST-119)."""
        self.backoff.collect(self._clock.now_ns())

    def forget_pod(self, uid: str) -> None:
        """Release what is kept for a pod that is gone for good: its user namespace and resource records."""
        self._userns.pop(uid, None)
        self.actuated.forget(uid)

    def keep_pods(self, uids: Collection[str]) -> None:
        """Release what is kept for all pods but these."""
        for uid in [uid for uid in self._userns if uid not in uids]:
            self.forget_pod(uid)

    async def _run_command(self, container_id: str, command: Sequence[str]) -> bytes:
        try:
            reply = await self.calls.exec_sync(container_id, command)
        except StatusError as error:
            raise CommandFailed(str(error)) from error
        output = reply.stdout + reply.stderr
        if reply.exit_code:
            stderr = reply.stderr.decode(errors="replace")
            text = f"command '{' '.join(command)}' exited with {reply.exit_code}: {stderr}"
            raise CommandFailed(text, output)
        return output

    async def _pod_address(self, pod: Pod) -> str:
        meta = pod.metadata
        status = await self._reader.pod_status(meta.uid, meta.name, meta.namespace)
        return status.ips[0] if status.ips else ""

    def _userns_host_id(self, pod: Pod) -> int | None:
        """First host id of the pod's own range, None for a pod in the host's user namespace (CRI-153)."""
        if pod.spec.host_users is not False:
            return None
        uid = pod.metadata.uid
        if uid not in self._userns:
            taken = set(self._userns.values())
            slot = next(number for number in range(1, len(taken) + 2) if number * USERNS_LENGTH not in taken)
            self._userns[uid] = slot * USERNS_LENGTH
        return self._userns[uid]
