"""The kubelet, put together (mirrors ``pkg/kubelet/kubelet.go``: NewMainKubelet, Run and the handlers).

Everything that decides lives in the modules named below; here is what connects them: which part hears of
what,
in which order the parts start (POD-109), and what a restart forgets. A kubelet object lives as long as one
kubelet process would: to restart it, cancel ``run`` and make a new one over the same files, runtime and API.
"""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import trio

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.admission import Refusal, rejected_status
from kubelet_emu.admitting import Admitter
from kubelet_emu.allocation import Allocations, ResourceRecords
from kubelet_emu.api.codec import from_json
from kubelet_emu.api.decoded import DecodedPods
from kubelet_emu.api.times import format_seconds
from kubelet_emu.api.types import Node, Pod
from kubelet_emu.api.validation import validate_pod_create
from kubelet_emu.apiserver.client import ApiClient
from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.cm.devicemanager.constants import UPDATE_QUEUE_CAPACITY
from kubelet_emu.cm.devicemanager.manager import Quirks
from kubelet_emu.cm.manager import ContainerManager, ManagerSeams, PluginWires
from kubelet_emu.cm.sockets import memory_wires
from kubelet_emu.config.api_source import ApiSource
from kubelet_emu.config.file_source import FileSource
from kubelet_emu.config.http_source import HttpSource
from kubelet_emu.config.manifest import PodReader
from kubelet_emu.config.merge import ConfigUpdate, Op
from kubelet_emu.config.pod_config import PodConfig
from kubelet_emu.container.cache import PodCache
from kubelet_emu.container.stamps import Stamps
from kubelet_emu.container_logs import ContainerLogManager
from kubelet_emu.deadline import deadline_exceeded
from kubelet_emu.errors import PeerError
from kubelet_emu.events import PodEvents
from kubelet_emu.housekeeping import Housekeeper, HousekeepingSeams
from kubelet_emu.image_collector import ImageCollector
from kubelet_emu.kubelet_views import ApiObjects, PodLookup, PodStates, RuntimeClasses, condition_text
from kubelet_emu.kuberuntime.env import EnvContext
from kubelet_emu.kuberuntime.gc import dead_beyond
from kubelet_emu.kuberuntime.manager import KubeRuntime
from kubelet_emu.kuberuntime.seams import NodeFacts
from kubelet_emu.mirrors import Mirrors
from kubelet_emu.nodeobject import NodeShape, node_object
from kubelet_emu.nodestatus import NodeReporter
from kubelet_emu.object_cache import ObjectCache
from kubelet_emu.pleg.diff import PlegEvent, PlegEventType
from kubelet_emu.pleg.evented import EVENTED_RELIST_SECONDS, EVENTED_THRESHOLD_SECONDS, EventedPleg
from kubelet_emu.pleg.generic import GenericPleg, PlegGate
from kubelet_emu.pod_manager import PodManager
from kubelet_emu.pod_update import (
    API_SOURCE,
    FILE_SOURCE,
    HTTP_SOURCE,
    UpdateType,
    is_mirror_pod,
    is_terminal_phase,
    phase_of,
    uid_of,
)
from kubelet_emu.podsync import PodSync, SyncSeams
from kubelet_emu.podworkers.record import UpdatePodOptions
from kubelet_emu.podworkers.workers import PodWorkers
from kubelet_emu.prober.manager import ProberManager
from kubelet_emu.prober.runner import ProbeRunner
from kubelet_emu.pull_secrets import PullSecrets
from kubelet_emu.reason_cache import ReasonCache
from kubelet_emu.runtime_health import RuntimeHealth
from kubelet_emu.seams import ProbeKind, ProbeOutcome, ProbeUpdate, Recorder
from kubelet_emu.settings import KubeletSettings
from kubelet_emu.status.manager import StatusManager
from kubelet_emu.status.update import needs_readiness_resync
from kubelet_emu.syncloop import Channel as LoopChannel
from kubelet_emu.syncloop import SyncLoop
from kubelet_emu.volumes.downward import downward_files
from kubelet_emu.volumes.manager import VolumeManager
from kubelet_emu.workqueue import WorkQueue
from node_host.clock import NodeClock
from node_host.files import Files
from node_host.net import Net
from node_host.randoms import Randoms
from trio_grpc import Channel, StatusError
from trio_grpc.services.runtime_v1 import ImageServiceClient, RuntimeServiceClient

__all__ = ["Kubelet"]

RUNTIME_POLL_SECONDS = 5.0
CONTAINER_GC_SECONDS = 60.0
NODE_RETRY_SECONDS = 1.0
NODE_LIST_SECONDS = 0.005
CONFIG_WAIT_SECONDS = 0.1
DELETOR_CAPACITY = 50
"""Removals that may wait for the deletor; what comes beyond is left to GC (POD-001)."""


class Kubelet:
    """One kubelet process. ``api`` is None for a standalone kubelet (NOD-104).

    ``run`` works until it is cancelled; ``ready`` is set once the runtime is up and has been listed.
    ``up_for_seconds`` pretends that the process started so long ago: probes of a kubelet that has just
    started are spread over their first period (PRB-05).
    """

    def __init__(
        self,
        *,
        settings: KubeletSettings,
        shape: NodeShape,
        clock: NodeClock,
        randoms: Randoms,
        files: Files,
        net: Net,
        channel: Channel,
        api: ApiClient | None,
        recorder: Recorder,
        up_for_seconds: float = 0.0,
        plugins: PluginWires | None = None,
        quirks: Quirks | None = None,
        boot_id: str = "",
        pleg_gate: PlegGate | None = None,
    ) -> None:
        self.settings = settings
        self._up_for_seconds = up_for_seconds
        self.ready = trio.Event()
        self._shape = shape
        self._clock = clock
        self._randoms = randoms
        self._files = files
        self._net = net
        self._api = api
        self._boot_id = boot_id
        self._recorder = recorder
        self._plugins = plugins or PluginWires(*memory_wires())
        self._quirks = quirks
        self._pleg_gate = pleg_gate
        self._runtime_client = RuntimeServiceClient(channel)
        self._image_client = ImageServiceClient(channel)
        self._consumed: set[str] = set()
        self._node_synced = False
        self._decoded = DecodedPods()
        self._dead_send, self._dead = trio.open_memory_channel[str](DELETOR_CAPACITY)
        self.health = RuntimeHealth()

    def runtime_problem(self) -> str:
        """What keeps the sync loop from working, empty if nothing does (POD-102)."""
        now = self._clock.elapsed_seconds()
        pleg = self.pleg.problem(now)
        return self.health.runtime_error(now, pleg_error=f"PLEG is not healthy: {pleg}" if pleg else "")

    # -- assembly --

    async def run(self) -> None:
        """Run until cancelled."""
        async with trio.open_nursery() as nursery:
            self._assemble(nursery)
            await self._start(nursery)

    def _assemble(self, nursery: trio.Nursery) -> None:
        settings, clock, api = self.settings, self._clock, self._api
        stream = self._randoms.stream
        self.pods = PodManager()
        self._evented = settings.gates.enabled("EventedPLEG")
        self.cache = PodCache(refuse_stale=self._evented)
        self.stamps = Stamps(clock)
        self.work_queue = WorkQueue()
        self.reasons = ReasonCache()
        self.events = PodEvents(
            api=api,
            clock=clock,
            rng=stream("events"),
            node_name=settings.node_name,
            qps=settings.event_qps,
            burst=settings.event_burst,
        )
        self.objects = ObjectCache(api) if api is not None else None
        self.pull_secrets = PullSecrets(objects=self.objects, events=self.events)
        self.mirrors = Mirrors(api=api, pods=self.pods, node_name=settings.node_name, recorder=self._recorder)
        self.loop = SyncLoop(
            clock=clock,
            rng=stream("syncloop"),
            healthy=self.runtime_problem,
            handlers=self._handlers(),
            housekeeping_period_seconds=settings.housekeeping_period_seconds,
        )
        self._make_status(nursery)
        self._make_resources(nursery)
        self._make_work(nursery)
        self.config = PodConfig(
            sources=self._source_names(),
            deliver=self._deliver_config,
            events=self.events,
            now_ns=clock.now_ns,
        )

    def _make_status(self, nursery: trio.Nursery) -> None:
        """What is known of pods and reported: statuses and probes."""
        settings, clock, recorder, stream = self.settings, self._clock, self._recorder, self._randoms.stream
        self.status = StatusManager(
            clock=clock,
            api=self._api,
            pods=PodLookup(self.pods),
            could_have_running_containers=self._could_have_running_containers,
            recorder=recorder,
            gates=settings.gates,
            decoded=self._decoded,
        )
        self.prober = ProberManager(
            clock=clock,
            rng=stream("prober"),
            nursery=nursery,
            statuses=self.status,
            runner=ProbeRunner(exec_client=self._runtime_client, net=self._net, events=self.events),
            on_update=self._on_probe_update,
            recorder=recorder,
            gates=settings.gates,
            up_for_seconds=self._up_for_seconds,
            deviations=settings.deviations,
        )

    def _make_resources(self, nursery: trio.Nursery) -> None:
        """What pods get from the node: volumes, promised amounts, devices, and the runtime itself."""
        settings, clock = self.settings, self._clock
        self.volumes = VolumeManager(
            clock=clock,
            files=self._files,
            objects=self.objects,
            events=self.events,
            root_dir=settings.root_dir,
            host_root=settings.host_paths_root,
            downward_files=lambda pod, items, mode: downward_files(pod, items, mode, self._env_context),
        )
        self.actuated = ResourceRecords(self._files, f"{settings.root_dir}/actuated_pods_state")
        self.allocation = Allocations(
            promised=ResourceRecords(self._files, f"{settings.root_dir}/allocated_pods_state"),
            actuated=self.actuated,
            statuses=self.status,
            events=self.events,
            node=self._node,
            active=lambda: self.housekeeper.active_pods(),
            sync=lambda pod: self._update_worker(UpdateType.UPDATE, pod),
            refused=self._refused_anew,
        )
        self.containers = self._make_containers(nursery)
        self.runtime = self._make_runtime(self._randoms.stream, nursery)
        self.logs = ContainerLogManager(
            self.runtime.calls, clock=clock, files=self._files, recorder=self._recorder, settings=settings
        )

    def _refused_anew(self, pod: Pod) -> str:
        refusal = self.containers.judge_again(pod)
        return refusal.message if refusal is not None else ""

    def _make_work(self, nursery: trio.Nursery) -> None:
        """What works on pods: observation, workers, housekeeping, admission."""
        settings, recorder = self.settings, self._recorder
        self.pleg = GenericPleg(
            runtime=self.runtime,
            cache=self.cache,
            stamps=self.stamps,
            recorder=recorder,
            deliver=self._deliver_pleg,
            period_seconds=EVENTED_RELIST_SECONDS if self._evented else settings.relist_period_seconds,
            threshold_seconds=(
                EVENTED_THRESHOLD_SECONDS if self._evented else settings.relist_threshold_seconds
            ),
            on_demand=settings.gates.enabled("PLEGOnDemandRelist"),
        )
        self.workers = PodWorkers(
            nursery=nursery,
            stamps=self.stamps,
            rng=self._randoms.stream("podworkers"),
            cache=self.cache,
            work_queue=self.work_queue,
            syncer=self._make_sync(),
            recorder=recorder,
            events=self.events,
            resync_seconds=settings.sync_frequency_seconds,
        )
        self.housekeeper = Housekeeper(
            pods=self.pods,
            workers=self.workers,
            runtime=self.runtime,
            statuses=self.status,
            recorder=recorder,
            seams=HousekeepingSeams(
                cleanup_probes=self.prober.clean_up_pods,
                remove_orphaned_statuses=self._forget_all_but,
                cleanup_pod_dirs=self._clean_up_pod_dirs,
                delete_mirror=self.mirrors.delete,
                collect_backoff=self.runtime.collect_backoff,
            ),
        )
        self.admitter = Admitter(
            containers=self.containers,
            workers=self.workers,
            events=self.events,
            recorder=recorder,
            clock=self._clock,
            gates=settings.gates,
            node=self._node,
            active=self.allocation.active,
        )

    def _make_evented_pleg(self) -> EventedPleg:
        return EventedPleg(
            stream=self.runtime.events_of(self.stamps),
            generic=self.pleg,
            cache=self.cache,
            stamps=self.stamps,
            recorder=self._recorder,
            deliver=self._deliver_pleg,
        )

    def _make_image_collector(self) -> ImageCollector:
        return ImageCollector(
            self.runtime.calls,
            clock=self._clock,
            events=self.events,
            recorder=self._recorder,
            settings=self.settings,
            pulls=self.runtime.images.records,
            volume_images=lambda: [
                volume.image.reference or ""
                for pod in self.pods.pods()
                for volume in pod.spec.volumes
                if volume.image is not None
            ],
            disk=self._shape.ephemeral_storage,
        )

    def _make_containers(self, nursery: trio.Nursery) -> ContainerManager:
        return ContainerManager(
            settings=self.settings,
            machine=self._shape.topology(),
            clock=self._clock,
            files=self._files,
            wires=self._plugins,
            quirks=self._quirks,
            nursery=nursery,
            recorder=self._recorder,
            seams=ManagerSeams(
                sources_ready=self._sources_ready,
                active_pods=lambda: self.housekeeper.active_pods(),
                pods_changed=self._on_devices_changed,
                get_claim=self._get_claim if self._api is not None else None,
            ),
        )

    async def _get_claim(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        assert self._api is not None
        return await self._api.get("ResourceClaim", namespace, name)

    def _make_reporter(self, api: ApiClient) -> NodeReporter:
        return NodeReporter(
            api=api,
            settings=self.settings,
            shape=self._shape,
            clock=self._clock,
            rng=self._randoms.stream("nodestatus"),
            recorder=self._recorder,
            capacity=self.containers.capacity,
            must_reset=self.containers.devices.should_reset_capacity,
            boot_id=self._boot_id,
            events=self.events,
        )

    def _make_runtime(self, stream: Callable[[str], random.Random], nursery: trio.Nursery) -> KubeRuntime:
        return KubeRuntime(
            runtime=self._runtime_client,
            images=self._image_client,
            nursery=nursery,
            clock=self._clock,
            rng=stream("kuberuntime"),
            files=self._files,
            net=self._net,
            events=self.events,
            recorder=self._recorder,
            probes=self.prober,
            settings=self.settings,
            volumes=self.volumes,
            objects=ApiObjects(self.objects),
            classes=RuntimeClasses(self._api) if self._api is not None else None,
            credentials=self.pull_secrets,
            actuated=self.actuated,
            pods=PodStates(lambda: self.workers),
            on_sandbox_ready=self._on_sandbox_ready,
            options=self.containers,
            dynamic=self.containers,
            lifecycle=self.containers,
            node=NodeFacts(allocatable=self._shape.allocatable()),
        )

    def _make_sync(self) -> PodSync:
        return PodSync(
            settings=self.settings,
            files=self._files,
            status=self.status,
            volumes=self.volumes,
            prober=self.prober,
            allocation=self.allocation,
            fill_probes=self.prober.update_pod_status,
            runtime=self.runtime,
            reasons=self.reasons,
            events=self.events,
            recorder=self._recorder,
            has_api=self._api is not None,
            seams=SyncSeams(
                take_pull_secrets=self.pull_secrets.take,
                network_error=lambda: self.health.network_condition,
                deadline_exceeded=self._deadline_exceeded,
                sync_cancelled=lambda uid: self.workers.cancel_event(uid).is_set(),
                request_update=lambda options: self.workers.update_pod(options),
                request_relist=self.pleg.request_relist,
                reconcile_mirror=self.mirrors.reconcile if self._api is not None else None,
                resize_conditions=lambda pod: self.status.get_pod_resize_conditions(uid_of(pod)),
                device_health=self.containers.device_health,
                unprepare_resources=self.containers.unprepare,
            ),
        )

    # -- start and background loops (POD-109) --

    async def _start(self, nursery: trio.Nursery) -> None:
        if self._api is not None:
            self.reporter = self._make_reporter(self._api)
            await self.reporter.register()
            nursery.start_soon(self.reporter.run)
        nursery.start_soon(self.events.run)
        nursery.start_soon(self.volumes.run)
        nursery.start_soon(self._poll_runtime, nursery)
        if self._api is not None:
            nursery.start_soon(self._follow_node, self._api)
            nursery.start_soon(self.status.run)
        nursery.start_soon(self.pleg.run)
        if self._evented:
            nursery.start_soon(self._make_evented_pleg().run)
        nursery.start_soon(self._collect_garbage)
        nursery.start_soon(self._make_image_collector().run)
        nursery.start_soon(self.logs.run)
        nursery.start_soon(self._delete_dead_containers)
        for source in self._make_sources():
            nursery.start_soon(source)
        nursery.start_soon(self.loop.run)
        while self.runtime_problem():
            await self._clock.sleep(0.1)
        self.ready.set()

    async def _follow_node(self, api: ApiClient) -> None:
        """Learn of the node object. The source of API pods waits for it and finds it missing at first.

        That costs the second in which a restarted kubelet knows the runtime's pods, but none of its own
        (POD-107, POD-214).
        """
        await self._clock.sleep(NODE_LIST_SECONDS)
        while not self._node_synced:
            try:
                self._node_synced = await api.get("Node", "", self.settings.node_name) is not None
            except ApiError as error:
                self._recorder.fact("note", about="node", text=f"the node cannot be read: {error}")
            if not self._node_synced:
                await self._clock.sleep(NODE_RETRY_SECONDS)

    async def _poll_runtime(self, nursery: trio.Nursery) -> None:
        """Ask the runtime for its status every five seconds (NOD-21); its first answer starts the managers
        of devices, CPUs and memory (DEV-010).
        """
        started = False
        while True:
            try:
                reply = await self._runtime_client.Status(
                    cri.StatusRequest(), timeout_seconds=self.settings.runtime_request_timeout_seconds
                )
            except StatusError as error:
                self._recorder.fact("runtime", problem=f"Container runtime sanity check failed: {error}")
            else:
                if not started:
                    started = True
                    await nursery.start(self.containers.run, self._runtime_client)
                conditions = {condition.type: condition for condition in reply.status.conditions}
                self.health.take_status(
                    self._clock.elapsed_seconds(),
                    runtime_ready=condition_text(conditions.get("RuntimeReady"), "RuntimeReady"),
                    network_ready=condition_text(conditions.get("NetworkReady"), "NetworkReady"),
                )
            await self._clock.sleep(RUNTIME_POLL_SECONDS)

    async def _collect_garbage(self) -> None:
        failed = False
        while True:
            await self._clock.sleep(CONTAINER_GC_SECONDS)
            try:
                await self.runtime.garbage_collect(all_sources_ready=self._sources_ready())
            except PeerError as error:
                self._recorder.fact("note", about="gc", text=f"container garbage collection failed: {error}")
                if not failed:  # told once, until a pass succeeds (IMG-36)
                    self.events.node_event("Warning", "ContainerGCFailed", str(error))
                failed = True
            else:
                failed = False

    async def _delete_dead_containers(self) -> None:
        """The deletor: removes one dead container after the other (RST-096, POD-1007)."""
        while True:
            container_id = await self._dead.receive()
            try:
                await self.runtime.delete_container(container_id)
            except PeerError as error:
                self._recorder.fact("note", about="deletor", text=f"failed to remove container: {error}")

    # -- sources --

    def _source_names(self) -> list[str]:
        names = [FILE_SOURCE] if self.settings.static_pod_path else []
        names += [HTTP_SOURCE] if self.settings.static_pod_url else []
        return [*names, API_SOURCE] if self._api is not None else names

    def _make_sources(self) -> list[Callable[[], Awaitable[None]]]:
        settings, sources = self.settings, list[Callable[[], Awaitable[None]]]()
        if settings.static_pod_path:
            self.file_source = FileSource(
                path=settings.static_pod_path,
                files=self._files,
                reader=self._reader(FILE_SOURCE),
                set_pods=self.config.set_pods,
                recorder=self._recorder,
                period_seconds=settings.file_check_frequency_seconds,
            )
            sources.append(self.file_source.run)
        if settings.static_pod_url:
            http = HttpSource(
                url=settings.static_pod_url,
                net=self._net,
                reader=self._reader(HTTP_SOURCE),
                set_pods=self.config.set_pods,
                recorder=self._recorder,
                period_seconds=settings.http_check_frequency_seconds,
            )
            sources.append(http.run)
        if self._api is not None:
            api = ApiSource(
                api=self._api,
                node_name=settings.node_name,
                set_pods=self.config.set_pods,
                recorder=self._recorder,
                rng=self._randoms.stream("config"),
                node_synced=lambda: self._node_synced,
                decoded=self._decoded,
            )
            sources.append(api.run)
        return sources

    def _reader(self, source: str) -> PodReader:
        gates = self.settings.gates
        return PodReader(
            source=source,
            node_name=self.settings.node_name,
            validate=lambda pod: validate_pod_create(pod, gates=gates),
            prevent_references=gates.enabled("PreventStaticPodAPIReferences"),
        )

    async def _deliver_config(self, update: ConfigUpdate) -> None:
        while not self.loop.offer(LoopChannel.CONFIG, update):
            await self._clock.sleep(CONFIG_WAIT_SECONDS)

    def _sources_ready(self) -> bool:
        return self.config.all_ready(self._consumed)

    # -- handlers of the sync loop (POD-103, POD section 3) --

    def _handlers(self) -> dict[LoopChannel, Callable[[Any], Awaitable[None]]]:
        return {
            LoopChannel.CONFIG: self._on_config,
            LoopChannel.PLEG: self._on_pleg,
            LoopChannel.SYNC_TICK: self._on_sync_tick,
            LoopChannel.LIVENESS: self._on_probe,
            LoopChannel.READINESS: self._on_probe,
            LoopChannel.STARTUP: self._on_probe,
            LoopChannel.CONTAINER_MANAGER: self._on_device_update,
            LoopChannel.HOUSEKEEPING_TICK: self._on_housekeeping,
        }

    async def _on_config(self, update: ConfigUpdate) -> None:
        if update.op is Op.ADD:
            await self._add_pods(update.pods)
        elif update.op in (Op.UPDATE, Op.DELETE):
            for pod in update.pods:
                self.pods.put(pod)
                if not is_mirror_pod(pod):
                    self.allocation.updated(pod)
                self._update_worker(UpdateType.UPDATE, pod)
        elif update.op is Op.REMOVE:
            for pod in update.pods:
                self._remove_pod(pod)
        else:
            for pod in update.pods:
                self._reconcile_pod(pod)
        self._consumed.add(update.source)

    async def _add_pods(self, pods: Sequence[Pod]) -> None:
        """HandlePodAdditions: oldest first, admission before the worker hears of it (POD-301, POD-302)."""
        self.status.backfill_pod_resize_conditions(pods)
        for pod in sorted(pods, key=lambda each: each.metadata.creation_timestamp or 0):
            self.pods.put(pod)
            if is_mirror_pod(pod):
                self._update_worker(UpdateType.UPDATE, pod)
                continue
            terminating = self.workers.termination_requested(uid_of(pod))
            if not terminating and not is_terminal_phase(phase_of(pod)):
                refusal = await self.admitter.admit(self.allocation.allocated(pod))
                if refusal is not None:
                    self._reject(pod, refusal)
                    continue
                self.allocation.admitted(pod)
            self._update_worker(UpdateType.CREATE, pod)

    def _reconcile_pod(self, pod: Pod) -> None:
        """HandlePodReconcile: a status written by others changes nothing but for gates and evictions
        (POD-305).
        """
        self.pods.put(pod)
        if is_mirror_pod(pod):
            return
        if needs_readiness_resync(pod):
            self._update_worker(UpdateType.SYNC, pod)
        if phase_of(pod) == "Failed" and pod.status.reason == "Evicted":
            self._delete_dead(uid_of(pod), keep=0)

    def _remove_pod(self, pod: Pod) -> None:
        """HandlePodRemoves (POD-304). Housekeeping repeats the work if sources are not ready yet."""
        self.pods.remove(pod)
        if is_mirror_pod(pod):
            self._update_worker(UpdateType.UPDATE, pod)
            return
        self.allocation.removed(uid_of(pod))
        if self._sources_ready():
            self.workers.update_pod(UpdatePodOptions(type=UpdateType.KILL, pod=pod))

    def _update_worker(self, update_type: UpdateType, pod: Pod) -> None:
        pair = self.pods.pair(pod)
        if pair.pod is not None:
            self.workers.update_pod(UpdatePodOptions(type=update_type, pod=pair.pod, mirror_pod=pair.mirror))

    def _sync(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            self._update_worker(UpdateType.SYNC, pod)

    def _deliver_pleg(self, event: PlegEvent) -> bool:
        def deliver(event: PlegEvent) -> bool:
            return self.loop.offer(LoopChannel.PLEG, event)

        return deliver(event) if self._pleg_gate is None else self._pleg_gate(event, deliver)

    async def _on_pleg(self, event: PlegEvent) -> None:
        if event.type is not PlegEventType.CONTAINER_REMOVED:
            pod = self.pods.by_uid(event.pod_uid)
            if pod is not None:
                self._sync([pod])
        if event.type is PlegEventType.CONTAINER_DIED:
            self._clean_up_containers(event)

    def _clean_up_containers(self, event: PlegEvent) -> None:
        """Leave one dead instance of a name beside its successor, none of a pod that is gone (POD-1007)."""
        if self.workers.content_should_be_removed(event.pod_uid):
            self._delete_dead(event.pod_uid, keep=0)
        else:
            keep = max(self.settings.max_dead_containers_per_container, 1)
            self._delete_dead(event.pod_uid, keep=keep, died_id=event.container_id)

    def _delete_dead(self, uid: str, *, keep: int, died_id: str = "") -> None:
        try:
            status = self.cache.get(uid)
        except PeerError:
            return
        for container_id in dead_beyond(status, keep, died_id=died_id):
            try:
                self._dead_send.send_nowait(container_id)
            except trio.WouldBlock:
                self._recorder.fact("note", about="deletor", text="queue full, a removal is left to GC")

    async def _on_sync_tick(self, _: object) -> None:
        self.allocation.retry_when_due(self._clock.elapsed_seconds())
        due = [self.pods.by_uid(uid) for uid in self.work_queue.take_due(self.stamps.now())]
        pods = [pod for pod in due if pod is not None]
        known = {uid_of(pod) for pod in pods}
        for pod in self.pods.pods():
            late = pod.spec.active_deadline_seconds is not None and self._deadline_exceeded(pod)
            if late and uid_of(pod) not in known and not is_terminal_phase(phase_of(pod)):
                pods.append(pod)
        self._sync(pods)

    def _on_probe_update(self, update: ProbeUpdate) -> None:
        channel = {
            ProbeKind.LIVENESS: LoopChannel.LIVENESS,
            ProbeKind.READINESS: LoopChannel.READINESS,
            ProbeKind.STARTUP: LoopChannel.STARTUP,
        }[update.kind]
        self.loop.offer(channel, update)

    async def _on_probe(self, update: ProbeUpdate) -> None:
        success = update.outcome is ProbeOutcome.SUCCESS
        if update.kind is ProbeKind.LIVENESS:
            if update.outcome is not ProbeOutcome.FAILURE:
                return
        elif update.kind is ProbeKind.READINESS:
            self.status.set_container_readiness(update.pod_uid, update.container_id, success)
        else:
            self.status.set_container_startup(update.pod_uid, update.container_id, success)
        pod = self.pods.by_uid(update.pod_uid)
        if pod is not None:
            self._sync([pod])

    def _on_devices_changed(self, uids: Sequence[str]) -> bool:
        if self.loop.waiting(LoopChannel.CONTAINER_MANAGER) >= UPDATE_QUEUE_CAPACITY:
            return False
        return self.loop.offer(LoopChannel.CONTAINER_MANAGER, uids)

    async def _on_device_update(self, uids: Sequence[str]) -> None:
        self._sync([pod for pod in map(self.pods.by_uid, uids) if pod is not None])

    # -- admission --

    def _reject(self, pod: Pod, refusal: Refusal) -> None:
        self.events.event(pod, "Warning", refusal.reason, refusal.message)
        self.status.set_pod_status(pod, rejected_status(pod, refusal))

    def _node(self) -> Node:
        """The node as admission sees it; its own picture serves where there is no API."""
        obj: object = None
        if self._api is not None:
            obj = self._api.store.get("Node", "", self.settings.node_name)
        since = format_seconds(self._clock.now_ns())
        return from_json(Node, obj or node_object(self.settings, self._shape, ready_since=since))

    # -- housekeeping (POD-1001) --

    async def _on_housekeeping(self, _: object) -> None:
        if self._sources_ready():
            await self.housekeeper.run_pass()

    def _forget_all_but(self, uids: Sequence[str]) -> None:
        """Drop what is kept of pods that are gone: statuses, promises, user namespaces (POD-1001)."""
        self.status.remove_orphaned_statuses(uids)
        self.allocation.keep(set(uids))
        self.runtime.keep_pods(set(uids))

    def _clean_up_pod_dirs(self, keep_uids: Sequence[str]) -> None:
        """Directories of pods that are gone, once no volume is left in them (POD-1003)."""
        base = f"{self.settings.root_dir}/pods"
        if not self._files.exists(base):
            return
        keep = set(keep_uids)
        for uid in self._files.list(base):
            if uid not in keep and not self.volumes.has_volumes(uid):
                self._files.remove_tree(f"{base}/{uid}")

    # -- small seams --

    async def _on_sandbox_ready(self, pod: Pod) -> None:
        self.status.set_pod_ready_to_start_containers(pod)

    def _could_have_running_containers(self, uid: str) -> bool:
        return self.workers.could_have_running_containers(uid)

    def _deadline_exceeded(self, pod: Pod) -> bool:
        status = self.status.get_pod_status(uid_of(pod))
        return deadline_exceeded(
            pod,
            status_start_time_ns=status.start_time if status is not None else None,
            now_ns=self._clock.now_ns(),
        )

    def _env_context(self, pod: Pod) -> EnvContext:
        status = self.status.get_pod_status(uid_of(pod)) or pod.status
        return EnvContext(
            pod_ips=tuple(entry.ip for entry in status.pod_ips if entry.ip),
            host_ips=self.settings.node_ips,
            allocatable=self._shape.allocatable(),
        )
