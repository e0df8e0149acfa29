"""The CRI calls of the kubelet with its own deadlines (CRI-160, RST-105).

Mirrors ``staging/src/k8s.io/cri-client/pkg/remote_runtime.go`` and ``remote_image.go``: what the kubelet's
client adds to the bare contract is the deadline of each call and the check of what came back. Failed calls
raise ``trio_grpc.StatusError`` as it came; a reply that breaks the contract raises ``PeerError``.
"""

from collections.abc import Mapping, Sequence

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.errors import PeerError
from kubelet_emu.kuberuntime.gotext import go_quote
from kubelet_emu.kuberuntime.labels import POD_UID
from kubelet_emu.kuberuntime.seams import PullCredential
from trio_grpc import Code, StatusError
from trio_grpc.services.runtime_v1 import ImageServiceClient, RuntimeServiceClient

__all__ = ["CriCalls", "image_spec", "is_not_found", "message_of"]


def is_not_found(error: StatusError) -> bool:
    """Whether the runtime does not know the object."""
    return error.code is Code.NOT_FOUND


def message_of(error: Exception) -> str:
    """The error's text without the gRPC wrapper: what waiting messages and events show (CRI-071)."""
    return error.details if isinstance(error, StatusError) else str(error)


class CriCalls:
    """Typed clients of one runtime, with deadlines from ``request_timeout_seconds``."""

    def __init__(
        self,
        runtime: RuntimeServiceClient,
        images: ImageServiceClient,
        *,
        request_timeout_seconds: float,
    ) -> None:
        self.runtime = self._runtime = runtime
        self._images = images
        self._timeout = request_timeout_seconds

    async def run_pod_sandbox(self, config: cri.PodSandboxConfig, handler: str) -> str:
        request = cri.RunPodSandboxRequest(config=config, runtime_handler=handler)
        reply = await self._runtime.RunPodSandbox(request, timeout_seconds=2 * self._timeout)
        if not reply.pod_sandbox_id:
            raise PeerError(f"PodSandboxId is not set for sandbox {go_quote(config.metadata.name)}")
        return reply.pod_sandbox_id

    async def stop_pod_sandbox(self, sandbox_id: str) -> None:
        request = cri.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
        await self._runtime.StopPodSandbox(request, timeout_seconds=self._timeout)

    async def remove_pod_sandbox(self, sandbox_id: str) -> None:
        request = cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        await self._runtime.RemovePodSandbox(request, timeout_seconds=self._timeout)

    async def pod_sandbox_status(self, sandbox_id: str) -> cri.PodSandboxStatus | None:
        """The status, None if the reply has none."""
        request = cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id, verbose=False)
        reply = await self._runtime.PodSandboxStatus(request, timeout_seconds=self._timeout)
        if not reply.HasField("status"):
            return None
        status = reply.status
        named = status.metadata.name and status.metadata.namespace and status.metadata.uid
        if not (status.id and named and status.created_at):
            raise PeerError(f"status of sandbox {go_quote(sandbox_id)} is not complete")
        return status

    async def list_pod_sandboxes(
        self, *, pod_uid: str = "", ready_only: bool = False
    ) -> Sequence[cri.PodSandbox]:
        request = cri.ListPodSandboxRequest()
        if pod_uid:
            request.filter.label_selector[POD_UID] = pod_uid
        if ready_only:
            request.filter.state.state = cri.SANDBOX_READY
        reply = await self._runtime.ListPodSandbox(request, timeout_seconds=self._timeout)
        return reply.items

    async def create_container(
        self, sandbox_id: str, config: cri.ContainerConfig, sandbox_config: cri.PodSandboxConfig
    ) -> str:
        request = cri.CreateContainerRequest(
            pod_sandbox_id=sandbox_id, config=config, sandbox_config=sandbox_config
        )
        reply = await self._runtime.CreateContainer(request, timeout_seconds=self._timeout)
        if not reply.container_id:
            raise PeerError(f"ContainerId is not set for container {go_quote(config.metadata.name)}")
        return reply.container_id

    async def start_container(self, container_id: str) -> None:
        request = cri.StartContainerRequest(container_id=container_id)
        await self._runtime.StartContainer(request, timeout_seconds=self._timeout)

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        request = cri.StopContainerRequest(container_id=container_id, timeout=grace_seconds)
        await self._runtime.StopContainer(request, timeout_seconds=self._timeout + grace_seconds)

    async def remove_container(self, container_id: str) -> None:
        request = cri.RemoveContainerRequest(container_id=container_id)
        await self._runtime.RemoveContainer(request, timeout_seconds=self._timeout)

    async def list_containers(
        self, *, pod_uid: str = "", running_only: bool = False
    ) -> Sequence[cri.Container]:
        request = cri.ListContainersRequest()
        if pod_uid:
            request.filter.label_selector[POD_UID] = pod_uid
        if running_only:
            request.filter.state.state = cri.CONTAINER_RUNNING
        reply = await self._runtime.ListContainers(request, timeout_seconds=self._timeout)
        return reply.containers

    async def container_status(self, container_id: str) -> cri.ContainerStatus:
        request = cri.ContainerStatusRequest(container_id=container_id, verbose=False)
        reply = await self._runtime.ContainerStatus(request, timeout_seconds=self._timeout)
        status = reply.status
        named = status.metadata.name and status.image.image and status.image_ref
        if not (status.id and named and status.created_at):
            raise PeerError(f"status of container {go_quote(container_id)} is not complete")
        return status

    async def reopen_container_log(self, container_id: str) -> None:
        request = cri.ReopenContainerLogRequest(container_id=container_id)
        await self._runtime.ReopenContainerLog(request, timeout_seconds=self._timeout)

    async def update_container_resources(
        self, container_id: str, resources: cri.LinuxContainerResources
    ) -> None:
        request = cri.UpdateContainerResourcesRequest(container_id=container_id, linux=resources)
        await self._runtime.UpdateContainerResources(request, timeout_seconds=self._timeout)

    async def update_pod_sandbox_resources(
        self, sandbox_id: str, overhead: cri.LinuxContainerResources, resources: cri.LinuxContainerResources
    ) -> None:
        request = cri.UpdatePodSandboxResourcesRequest(
            pod_sandbox_id=sandbox_id, overhead=overhead, resources=resources
        )
        await self._runtime.UpdatePodSandboxResources(request, timeout_seconds=self._timeout)

    async def exec_sync(
        self, container_id: str, command: Sequence[str], timeout_seconds: int = 0
    ) -> cri.ExecSyncResponse:
        """Run a command; without a timeout the call has no deadline either (CRI-113)."""
        request = cri.ExecSyncRequest(container_id=container_id, cmd=command, timeout=timeout_seconds)
        deadline = self._timeout + timeout_seconds if timeout_seconds else None
        return await self._runtime.ExecSync(request, timeout_seconds=deadline)

    async def image_status(self, image: cri.ImageSpec) -> cri.Image | None:
        """The image, None if the runtime does not have it."""
        request = cri.ImageStatusRequest(image=image, verbose=False)
        reply = await self._images.ImageStatus(request, timeout_seconds=self._timeout)
        if not reply.HasField("image"):
            return None
        if not reply.image.id or not reply.image.size:
            raise PeerError(f"Id or size of image {go_quote(image.image)} is not set")
        return reply.image

    async def list_images(self) -> Sequence[cri.Image]:
        """All images of the runtime."""
        reply = await self._images.ListImages(cri.ListImagesRequest(), timeout_seconds=self._timeout)
        return reply.images

    async def remove_image(self, image_id: str) -> None:
        """Remove an image with all its names."""
        request = cri.RemoveImageRequest(image=cri.ImageSpec(image=image_id))
        await self._images.RemoveImage(request, timeout_seconds=self._timeout)

    async def image_fs_used(self) -> int:
        """Bytes that images take on their disk."""
        reply = await self._images.ImageFsInfo(cri.ImageFsInfoRequest(), timeout_seconds=self._timeout)
        return sum(usage.used_bytes.value for usage in reply.image_filesystems)

    async def pull_image(
        self,
        image: cri.ImageSpec,
        credential: PullCredential | None,
        sandbox_config: cri.PodSandboxConfig,
    ) -> str:
        """Pull and return the reference; has no deadline (CRI-097)."""
        request = cri.PullImageRequest(image=image, sandbox_config=sandbox_config)
        if credential is not None:
            request.auth.CopyFrom(
                cri.AuthConfig(
                    username=credential.username,
                    password=credential.password,
                    auth=credential.auth,
                    server_address=credential.server_address,
                    identity_token=credential.identity_token,
                    registry_token=credential.registry_token,
                )
            )
        reply = await self._images.PullImage(request, timeout_seconds=None)
        if not reply.image_ref:
            raise PeerError(f"imageRef of image {go_quote(image.image)} is not set")
        return reply.image_ref


def image_spec(image: str, annotations: Mapping[str, str], handler: str) -> cri.ImageSpec:
    """An image reference as the kubelet sends it: with the pod's annotations."""
    return cri.ImageSpec(image=image, annotations=annotations, runtime_handler=handler)
