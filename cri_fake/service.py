"""The runtime service of CRI v1 on the wire: each method decodes, calls one operation, and answers."""

from collections.abc import AsyncIterator

from cri_fake.checkpoints import checkpoint
from cri_fake.containers import ContainerOps
from cri_fake.execs import ExecOps
from cri_fake.info import runtime_info
from cri_fake.lists import Reader
from cri_fake.metrics import metric_descriptors
from cri_fake.sandboxes import SandboxOps
from cri_fake.selecting import batches
from cri_fake.store.faults import Refused
from cri_fake.streams import StreamOps
from cri_fake.world import World
from k8s_proto import runtime_v1_pb2 as cri
from trio_grpc import Call, Code, StatusError
from trio_grpc.services.runtime_v1 import RuntimeServiceHandler

__all__ = ["RuntimeService", "answering"]

KUBELET_API_VERSION = "0.1.0"
"""The one word that VersionResponse.version must be (CRI section 5)."""


class answering:
    """Turn refusals into statuses; a daemon that is not up answers Unavailable (CRI-070)."""

    __slots__ = ()

    def __init__(self, up: bool) -> None:
        if not up:
            raise StatusError(Code.UNAVAILABLE, "server is not initialized yet")

    def __enter__(self) -> None:
        """Nothing is held."""

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, Refused):
            raise StatusError(Code[problem.kind.value], problem.text) from None


class RuntimeService(RuntimeServiceHandler):
    """``runtime.v1.RuntimeService``. ``up`` is False while the daemon is down."""

    def __init__(
        self,
        world: World,
        sandboxes: SandboxOps,
        containers: ContainerOps,
        execs: ExecOps,
        streams: StreamOps,
        reader: Reader,
    ) -> None:
        self._world = world
        self._sandboxes = sandboxes
        self._containers = containers
        self._execs = execs
        self._streams = streams
        self._reader = reader
        self.up = True

    # Runtime -----------------------------------------------------------------------------------------------

    async def Version(self, request: cri.VersionRequest, call: Call) -> cri.VersionResponse:
        with answering(self.up):
            await self._world.pause("Version")
            profile = self._world.profile
            return cri.VersionResponse(
                version=KUBELET_API_VERSION,
                runtime_name=profile.runtime_name,
                runtime_version=profile.runtime_version,
                runtime_api_version="v1",
            )

    async def Status(self, request: cri.StatusRequest, call: Call) -> cri.StatusResponse:
        with answering(self.up):
            await self._world.pause("Status")
            profile = self._world.profile
            network = cri.RuntimeCondition(type="NetworkReady", status=self._world.network_ready)
            if not self._world.network_ready:
                network.reason = "NetworkPluginNotReady"
                network.message = "Network plugin returns error: cni plugin not initialized"
            ready = cri.RuntimeCondition(type="RuntimeReady", status=True)
            handler_features = cri.RuntimeHandlerFeatures(
                recursive_read_only_mounts=profile.recursive_read_only_mounts,
                user_namespaces=profile.user_namespaces,
            )
            return cri.StatusResponse(
                status=cri.RuntimeStatus(conditions=[ready, network]),
                info=runtime_info(self._world) if request.verbose else {},
                runtime_handlers=[
                    cri.RuntimeHandler(name=name, features=handler_features)
                    for name in (profile.handlers if profile.reports_handlers else ())
                ],
                features=(
                    cri.RuntimeFeatures(supplemental_groups_policy=profile.supplemental_groups_policy)
                    if profile.reports_handlers
                    else None
                ),
            )

    async def RuntimeConfig(self, request: cri.RuntimeConfigRequest, call: Call) -> cri.RuntimeConfigResponse:
        with answering(self.up):
            await self._world.pause("RuntimeConfig")
            driver = cri.LinuxRuntimeConfiguration(cgroup_driver=cri.CGROUPFS)
            return cri.RuntimeConfigResponse(linux=driver)

    async def UpdateRuntimeConfig(
        self, request: cri.UpdateRuntimeConfigRequest, call: Call
    ) -> cri.UpdateRuntimeConfigResponse:
        with answering(self.up):
            await self._world.pause("UpdateRuntimeConfig")
            cidrs = request.runtime_config.network_config.pod_cidr
            if cidrs:
                self._world.ipam.adopt(cidrs)
            return cri.UpdateRuntimeConfigResponse()

    # Sandboxes ---------------------------------------------------------------------------------------------

    async def RunPodSandbox(self, request: cri.RunPodSandboxRequest, call: Call) -> cri.RunPodSandboxResponse:
        with answering(self.up):
            sandbox_id = await self._sandboxes.run(request.config, request.runtime_handler)
            return cri.RunPodSandboxResponse(pod_sandbox_id=sandbox_id)

    async def StopPodSandbox(
        self, request: cri.StopPodSandboxRequest, call: Call
    ) -> cri.StopPodSandboxResponse:
        with answering(self.up):
            await self._sandboxes.stop(request.pod_sandbox_id, call.remaining_seconds())
            return cri.StopPodSandboxResponse()

    async def RemovePodSandbox(
        self, request: cri.RemovePodSandboxRequest, call: Call
    ) -> cri.RemovePodSandboxResponse:
        with answering(self.up):
            await self._sandboxes.remove(request.pod_sandbox_id)
            return cri.RemovePodSandboxResponse()

    async def PodSandboxStatus(
        self, request: cri.PodSandboxStatusRequest, call: Call
    ) -> cri.PodSandboxStatusResponse:
        with answering(self.up):
            await self._world.pause("PodSandboxStatus")
            return self._reader.sandbox_status(request.pod_sandbox_id, verbose=request.verbose)

    async def ListPodSandbox(
        self, request: cri.ListPodSandboxRequest, call: Call
    ) -> cri.ListPodSandboxResponse:
        with answering(self.up):
            await self._world.pause("ListPodSandbox")
            return self._reader.sandbox_list(request.filter)

    async def StreamPodSandboxes(
        self, request: cri.StreamPodSandboxesRequest, call: Call
    ) -> AsyncIterator[cri.StreamPodSandboxesResponse]:
        with answering(self.up):
            await self._world.pause("ListPodSandbox")
            for batch in batches(self._reader.sandboxes(request.filter)):
                yield cri.StreamPodSandboxesResponse(pod_sandboxes=batch)

    async def UpdatePodSandboxResources(
        self, request: cri.UpdatePodSandboxResourcesRequest, call: Call
    ) -> cri.UpdatePodSandboxResourcesResponse:
        with answering(self.up):
            await self._sandboxes.update_resources(request)
            return cri.UpdatePodSandboxResourcesResponse()

    # Containers --------------------------------------------------------------------------------------------

    async def CreateContainer(
        self, request: cri.CreateContainerRequest, call: Call
    ) -> cri.CreateContainerResponse:
        with answering(self.up):
            container_id = await self._containers.create(
                request.pod_sandbox_id, request.config, request.sandbox_config
            )
            return cri.CreateContainerResponse(container_id=container_id)

    async def StartContainer(
        self, request: cri.StartContainerRequest, call: Call
    ) -> cri.StartContainerResponse:
        with answering(self.up):
            await self._containers.start(request.container_id)
            return cri.StartContainerResponse()

    async def StopContainer(self, request: cri.StopContainerRequest, call: Call) -> cri.StopContainerResponse:
        with answering(self.up):
            await self._containers.stop(request.container_id, request.timeout)
            return cri.StopContainerResponse()

    async def RemoveContainer(
        self, request: cri.RemoveContainerRequest, call: Call
    ) -> cri.RemoveContainerResponse:
        with answering(self.up):
            await self._containers.remove(request.container_id)
            return cri.RemoveContainerResponse()

    async def ListContainers(
        self, request: cri.ListContainersRequest, call: Call
    ) -> cri.ListContainersResponse:
        with answering(self.up):
            await self._world.pause("ListContainers")
            return self._reader.container_list(request.filter)

    async def StreamContainers(
        self, request: cri.StreamContainersRequest, call: Call
    ) -> AsyncIterator[cri.StreamContainersResponse]:
        with answering(self.up):
            await self._world.pause("ListContainers")
            for batch in batches(self._reader.containers(request.filter)):
                yield cri.StreamContainersResponse(containers=batch)

    async def ContainerStatus(
        self, request: cri.ContainerStatusRequest, call: Call
    ) -> cri.ContainerStatusResponse:
        with answering(self.up):
            await self._world.pause("ContainerStatus")
            return self._reader.container_status(request.container_id, verbose=request.verbose)

    async def UpdateContainerResources(
        self, request: cri.UpdateContainerResourcesRequest, call: Call
    ) -> cri.UpdateContainerResourcesResponse:
        with answering(self.up):
            await self._containers.update_resources(request.container_id, request.linux)
            return cri.UpdateContainerResourcesResponse()

    async def ReopenContainerLog(
        self, request: cri.ReopenContainerLogRequest, call: Call
    ) -> cri.ReopenContainerLogResponse:
        with answering(self.up):
            await self._containers.reopen_log(request.container_id)
            return cri.ReopenContainerLogResponse()

    async def CheckpointContainer(
        self, request: cri.CheckpointContainerRequest, call: Call
    ) -> cri.CheckpointContainerResponse:
        with answering(self.up):
            await checkpoint(self._world, self._containers, request.container_id, request.location)
            return cri.CheckpointContainerResponse()

    # Exec, attach, port-forward ----------------------------------------------------------------------------

    async def ExecSync(self, request: cri.ExecSyncRequest, call: Call) -> cri.ExecSyncResponse:
        with answering(self.up):
            return await self._execs.exec_sync(request.container_id, tuple(request.cmd), request.timeout)

    async def Exec(self, request: cri.ExecRequest, call: Call) -> cri.ExecResponse:
        with answering(self.up):
            return await self._streams.exec(request)

    async def Attach(self, request: cri.AttachRequest, call: Call) -> cri.AttachResponse:
        with answering(self.up):
            return await self._streams.attach(request)

    async def PortForward(self, request: cri.PortForwardRequest, call: Call) -> cri.PortForwardResponse:
        with answering(self.up):
            return await self._streams.port_forward(request)

    # Stats, metrics, events --------------------------------------------------------------------------------

    async def ContainerStats(
        self, request: cri.ContainerStatsRequest, call: Call
    ) -> cri.ContainerStatsResponse:
        with answering(self.up):
            await self._world.pause("ContainerStats")
            return cri.ContainerStatsResponse(stats=self._reader.one_container_stats(request.container_id))

    async def ListContainerStats(
        self, request: cri.ListContainerStatsRequest, call: Call
    ) -> cri.ListContainerStatsResponse:
        with answering(self.up):
            await self._world.pause("ListContainerStats")
            return cri.ListContainerStatsResponse(stats=self._reader.container_stats(request.filter))

    async def StreamContainerStats(
        self, request: cri.StreamContainerStatsRequest, call: Call
    ) -> AsyncIterator[cri.StreamContainerStatsResponse]:
        with answering(self.up):
            await self._world.pause("ListContainerStats")
            for batch in batches(self._reader.container_stats(request.filter)):
                yield cri.StreamContainerStatsResponse(container_stats=batch)

    async def PodSandboxStats(
        self, request: cri.PodSandboxStatsRequest, call: Call
    ) -> cri.PodSandboxStatsResponse:
        with answering(self.up):
            await self._world.pause("PodSandboxStats")
            return cri.PodSandboxStatsResponse(stats=self._reader.one_pod_stats(request.pod_sandbox_id))

    async def ListPodSandboxStats(
        self, request: cri.ListPodSandboxStatsRequest, call: Call
    ) -> cri.ListPodSandboxStatsResponse:
        with answering(self.up):
            await self._world.pause("ListPodSandboxStats")
            return cri.ListPodSandboxStatsResponse(stats=self._reader.pod_stats(request.filter))

    async def StreamPodSandboxStats(
        self, request: cri.StreamPodSandboxStatsRequest, call: Call
    ) -> AsyncIterator[cri.StreamPodSandboxStatsResponse]:
        with answering(self.up):
            await self._world.pause("ListPodSandboxStats")
            for batch in batches(self._reader.pod_stats(request.filter)):
                yield cri.StreamPodSandboxStatsResponse(pod_sandbox_stats=batch)

    async def ListMetricDescriptors(
        self, request: cri.ListMetricDescriptorsRequest, call: Call
    ) -> cri.ListMetricDescriptorsResponse:
        with answering(self.up):
            await self._world.pause("ListMetricDescriptors")
            return cri.ListMetricDescriptorsResponse(descriptors=metric_descriptors())

    async def ListPodSandboxMetrics(
        self, request: cri.ListPodSandboxMetricsRequest, call: Call
    ) -> cri.ListPodSandboxMetricsResponse:
        with answering(self.up):
            await self._world.pause("ListPodSandboxMetrics")
            return cri.ListPodSandboxMetricsResponse(pod_metrics=self._reader.pod_metrics())

    async def StreamPodSandboxMetrics(
        self, request: cri.StreamPodSandboxMetricsRequest, call: Call
    ) -> AsyncIterator[cri.StreamPodSandboxMetricsResponse]:
        with answering(self.up):
            await self._world.pause("ListPodSandboxMetrics")
            for batch in batches(self._reader.pod_metrics()):
                yield cri.StreamPodSandboxMetricsResponse(pod_sandbox_metrics=batch)

    async def GetContainerEvents(
        self, request: cri.GetEventsRequest, call: Call
    ) -> AsyncIterator[cri.ContainerEventResponse]:
        with answering(self.up):
            if not self._world.profile.sends_events:
                return
            async with self._world.hub.subscribe() as events:
                async for event in events:
                    yield self._reader.event(event)
