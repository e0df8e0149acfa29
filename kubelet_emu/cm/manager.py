"""The container manager: devices, CPUs, memory and topology as the kubelet sees them.

Mirrors ``pkg/kubelet/cm/container_manager_linux.go`` and ``internal_container_lifecycle_linux.go``. It
implements ``ContainerOptions`` and ``InternalLifecycle`` of ``kubelet_emu.kuberuntime.seams`` and is asked at
admission, for node status and for the device part of pod status.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

import trio
from attrs import evolve, frozen

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.admission import Refusal, allocation_refused
from kubelet_emu.api.types import Container, Pod, ResourceStatus
from kubelet_emu.bugs import DEVICES_FREED, FINISHED_INIT_USED_DEVICE, RUNNING_WITH_DEVICES, Deviations
from kubelet_emu.cm.configured import cpu_policy, memory_policy
from kubelet_emu.cm.cpumanager.manager import CpuManager, PodsView
from kubelet_emu.cm.devicemanager.manager import DeviceManager, DeviceSeams, Quirks
from kubelet_emu.cm.devicemanager.plugin_handler import PLUGIN_TYPE, DevicePluginHandler
from kubelet_emu.cm.devicemanager.state import Capacity
from kubelet_emu.cm.dra.manager import DraManager, DraSeams
from kubelet_emu.cm.dra.plugins import PLUGIN_TYPE as DRA_PLUGIN_TYPE
from kubelet_emu.cm.machine import MachineTopology
from kubelet_emu.cm.memorymanager.manager import MemoryManager
from kubelet_emu.cm.pluginmanager.manager import PluginManager
from kubelet_emu.cm.running import RunningAtStart, running_at_start
from kubelet_emu.cm.sockets import SocketFolders
from kubelet_emu.cm.topologymanager.manager import HintProvider, TopologyManager
from kubelet_emu.cm.topologymanager.options import topology_config
from kubelet_emu.errors import PeerError
from kubelet_emu.kuberuntime.seams import RunOptions
from kubelet_emu.pod_update import uid_of
from kubelet_emu.seams import Recorder
from kubelet_emu.settings import KubeletSettings
from kubelet_emu.timing import Timing, doubling
from node_host.clock import NodeClock
from node_host.files import Files
from trio_grpc import StatusError, Transport
from trio_grpc.services.runtime_v1 import RuntimeServiceClient

__all__ = ["ContainerManager", "ManagerSeams", "PluginWires"]


@frozen
class PluginWires:
    """How a kubelet and its plugins reach each other: ends of wires, and sockets seen as files."""

    transport: Transport
    folders: SocketFolders


@frozen(kw_only=True)
class ManagerSeams:
    """What the managers ask of the kubelet; see ``DeviceSeams``."""

    sources_ready: Callable[[], bool]
    active_pods: Callable[[], Collection[Pod]]
    pods_changed: Callable[[Sequence[str]], bool]
    get_claim: Callable[[str, str], Awaitable[Mapping[str, Any] | None]] | None = None
    """Reads a ResourceClaim by namespace and name; None where there is no API."""


def _with_fixes(quirks: Quirks, deviations: Deviations) -> Quirks:
    if deviations.fixed(FINISHED_INIT_USED_DEVICE):
        return evolve(quirks, dev_112_other_containers_are_checked=False)
    return quirks


async def _no_claim(namespace: str, name: str) -> Mapping[str, Any] | None:
    return None


class ContainerManager:
    """All resource managers of one kubelet process.

    Raises ``CallerError`` for a configuration that a kubelet would not start with.
    """

    def __init__(
        self,
        *,
        settings: KubeletSettings,
        machine: MachineTopology,
        clock: NodeClock,
        files: Files,
        wires: PluginWires,
        nursery: trio.Nursery,
        recorder: Recorder,
        seams: ManagerSeams,
        quirks: Quirks | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._seams = seams
        self.admission_milliseconds = Timing(doubling(0.05, 15))
        """How long the topology manager took to admit pods, calls of plugins included."""
        self._at_start = RunningAtStart()
        self.devices = DeviceManager(
            clock=clock,
            files=files,
            root_dir=settings.root_dir,
            transport=wires.transport,
            folders=wires.folders,
            nursery=nursery,
            recorder=recorder,
            machine=machine,
            seams=DeviceSeams(
                sources_ready=seams.sources_ready,
                active_uids=lambda: [uid_of(pod) for pod in seams.active_pods()],
                was_running=self._was_running,
                hint=lambda uid, name: self.topology.hint(uid, name),
                pods_changed=seams.pods_changed,
            ),
            health_in_status=settings.gates.enabled("ResourceHealthStatus"),
            quirks=_with_fixes(quirks or Quirks(), settings.deviations),
        )
        self.claims = DraManager(
            root_dir=settings.root_dir,
            files=files,
            transport=wires.transport,
            clock=clock,
            nursery=nursery,
            recorder=recorder,
            seams=DraSeams(
                get_claim=seams.get_claim or _no_claim,
                sources_ready=seams.sources_ready,
                active_uids=lambda: [uid_of(pod) for pod in seams.active_pods()],
                pods_changed=seams.pods_changed,
            ),
        )
        pods = PodsView(
            sources_ready=seams.sources_ready,
            active_pods=seams.active_pods,
            hint=lambda uid, name: self.topology.hint(uid, name),
        )
        self.cpus = CpuManager(
            policy=cpu_policy(settings, machine),
            root_dir=settings.root_dir,
            files=files,
            clock=clock,
            recorder=recorder,
            pods=pods,
            period_seconds=settings.cpu_manager_reconcile_period_seconds,
        )
        self.memory = MemoryManager(
            policy=memory_policy(settings, machine), root_dir=settings.root_dir, files=files, pods=pods
        )
        self._files = files
        providers: list[HintProvider] = [self.devices, self.cpus, self.memory]
        self.topology = TopologyManager(
            config=topology_config(
                settings.topology_manager_policy,
                settings.topology_manager_scope,
                settings.topology_manager_policy_options,
                machine,
            ),
            machine=machine,
            providers=providers,
            recorder=recorder,
        )

        self.plugins = PluginManager(
            root_dir=settings.root_dir,
            transport=wires.transport,
            folders=wires.folders,
            clock=clock,
            recorder=recorder,
            handlers={
                PLUGIN_TYPE: DevicePluginHandler(self.devices.clients),
                DRA_PLUGIN_TYPE: self.claims.plugins,
            },
        )

    async def run(
        self, runtime: RuntimeServiceClient, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """See what runs, then serve until cancelled; started once plugins can register (DEV-010).

        Raises ``PeerError`` if the device manager cannot start, which ends the kubelet.
        """
        self._at_start = await self._look(runtime)
        self._files.make_dirs(self._settings.root_dir, mode=0o750)
        self.cpus.start()
        self.memory.start()
        failure: BaseException | None = None
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self.devices.run)
                nursery.start_soon(self.plugins.run)
                nursery.start_soon(self.claims.run)
                nursery.start_soon(self.cpus.run, runtime, self._at_start.by_id())
                task_status.started()
        except* OSError as problem:
            failure = problem.exceptions[0]
        if failure is not None:
            raise PeerError(f"failed to start container manager: {failure}") from failure

    async def _look(self, runtime: RuntimeServiceClient) -> RunningAtStart:
        """A runtime that does not answer leaves the sets empty (DEV-113)."""
        timeout = self._settings.runtime_request_timeout_seconds
        try:
            sandboxes = await runtime.ListPodSandbox(cri.ListPodSandboxRequest(), timeout_seconds=timeout)
            containers = await runtime.ListContainers(cri.ListContainersRequest(), timeout_seconds=timeout)
        except StatusError:
            return RunningAtStart()
        return running_at_start(sandboxes.items, containers.containers)

    def _was_running(self, uid: str, name: str) -> bool:
        """Whether a container ran when the kubelet started (DEV-113)."""
        if self._settings.deviations.has(RUNNING_WITH_DEVICES):
            return False
        return self._at_start.was_running(uid, name)

    # -- admission --

    async def admit(self, pod: Pod) -> Refusal | None:
        """Allocate what the pod needs; a refusal if that cannot be (DEV-090, DEV-091)."""
        begun = self._clock.elapsed_seconds()
        verdict = await self.topology.admit(pod)
        self.admission_milliseconds.observe((self._clock.elapsed_seconds() - begun) * 1000)
        if verdict.topology:
            return allocation_refused("", topology=True)
        if verdict.error:
            return allocation_refused(verdict.error, reason=verdict.reason or "UnexpectedAdmissionError")
        return None

    def judge_again(self, pod: Pod) -> Refusal | None:
        """Whether a pod that wants to be resized may keep what it holds (DEV-095)."""
        error = self.devices.judge_again(pod)
        return allocation_refused(error) if error else None

    def allocatable_for(self, uid: str, allocatable: Mapping[str, int]) -> Mapping[str, int]:
        """See ``DeviceManager.allocatable_for``."""
        return self.devices.allocatable_for(uid, allocatable)

    # -- starts and ends of containers --

    async def options(self, pod: Pod, container: Container) -> RunOptions:
        """GetResources: what claims give comes before what device plugins give (DEV-100, DEV-106)."""
        claimed = self.claims.cdi_devices(pod, container)
        options = await self.devices.options(pod, container)
        return evolve(options, cdi_devices=(*claimed, *options.cdi_devices)) if claimed else options

    async def prepare(self, pod: Pod) -> None:
        """Prepare a pod's claims before its sandbox is made (DEV-152)."""
        await self.claims.prepare(pod)

    async def unprepare(self, pod: Pod) -> None:
        """Give a pod's claims back after its containers have stopped (DEV-156)."""
        await self.claims.unprepare(pod)

    def pre_create(self, pod: Pod, container: Container) -> Mapping[str, str]:
        """CPUs and memory nodes that are pinned (DEV-172, DEV-174)."""
        uid, name = uid_of(pod), container.name
        return {"cpuset_cpus": self.cpus.affinity(uid, name), "cpuset_mems": self.memory.nodes(uid, name)}

    def pre_start(self, pod: Pod, container: Container, container_id: str) -> None:
        """A container was created and is about to start."""
        self.cpus.add_container(uid_of(pod), container.name, container_id)
        self.topology.add_container(uid_of(pod), container.name, container_id)

    def post_stop(self, container_id: str) -> None:
        """A container was removed (DEV-114)."""
        self.cpus.remove_container(container_id)
        self.topology.remove_container(container_id)

    def reset(self, pod: Pod) -> None:
        """A restart of all containers has removed those of a pod; its devices stay its own (DEV-114)."""
        if self._settings.deviations.has(DEVICES_FREED):
            self.devices.state.pods.drop([uid_of(pod)])
            self.devices.state.rebuild_allocated()

    # -- status --

    def capacity(self) -> Capacity:
        """Devices for the node's status."""
        return self.devices.capacity()

    def device_health(self, pod: Pod) -> Mapping[str, Sequence[ResourceStatus]]:
        """``allocatedResourcesStatus`` by container: device plugins, then claims (DEV-120, DEV-124)."""
        found = self.devices.health(pod)
        claimed = self.claims.device_health(pod)
        if not claimed or not self._settings.gates.enabled("ResourceHealthStatus"):
            return found
        return {name: (*found.get(name, ()), *claimed.get(name, ())) for name in {**found, **claimed}}
