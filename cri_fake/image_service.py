"""The image service of CRI v1 on the wire (CRI section 8)."""

from collections.abc import AsyncIterator

from cri_fake.info import image_info
from cri_fake.messages import image_message
from cri_fake.pulls import ImageOps
from cri_fake.selecting import batches
from cri_fake.service import answering
from cri_fake.world import World
from k8s_proto import runtime_v1_pb2 as cri
from trio_grpc import Call
from trio_grpc.services.runtime_v1 import ImageServiceHandler

__all__ = ["ImageService"]

_MOUNT_POINT = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"
_INODES_PER_IMAGE = 400


class ImageService(ImageServiceHandler):
    """``runtime.v1.ImageService``. ``up`` is False while the daemon is down."""

    def __init__(self, world: World, images: ImageOps) -> None:
        self._world = world
        self._images = images
        self.up = True

    def _matching(self, wanted: cri.ImageFilter) -> list[cri.Image]:
        """All images, whatever the filter says: containerd ignores it (CRI-084)."""
        return [image_message(image) for image in self._world.images.values]

    async def ListImages(self, request: cri.ListImagesRequest, call: Call) -> cri.ListImagesResponse:
        with answering(self.up):
            await self._world.pause("ListImages")
            return cri.ListImagesResponse(images=self._matching(request.filter))

    async def StreamImages(
        self, request: cri.StreamImagesRequest, call: Call
    ) -> AsyncIterator[cri.StreamImagesResponse]:
        with answering(self.up):
            await self._world.pause("ListImages")
            for batch in batches(self._matching(request.filter)):
                yield cri.StreamImagesResponse(images=batch)

    async def ImageStatus(self, request: cri.ImageStatusRequest, call: Call) -> cri.ImageStatusResponse:
        with answering(self.up):
            await self._world.pause("ImageStatus")
            image = self._images.status(request.image.image)
            if image is None:
                return cri.ImageStatusResponse()
            info = image_info(image) if request.verbose else {}
            return cri.ImageStatusResponse(image=image_message(image), info=info)

    async def PullImage(self, request: cri.PullImageRequest, call: Call) -> cri.PullImageResponse:
        with answering(self.up):
            pod = request.sandbox_config.metadata.name
            image = await self._images.pull(request.image.image, pod)
            return cri.PullImageResponse(image_ref=image.id)

    async def RemoveImage(self, request: cri.RemoveImageRequest, call: Call) -> cri.RemoveImageResponse:
        with answering(self.up):
            await self._images.remove(request.image.image)
            return cri.RemoveImageResponse()

    async def ImageFsInfo(self, request: cri.ImageFsInfoRequest, call: Call) -> cri.ImageFsInfoResponse:
        with answering(self.up):
            await self._world.pause("ImageFsInfo")
            images = self._world.images.values
            usage = cri.FilesystemUsage(
                timestamp=self._world.unique_now_ns(),
                fs_id=cri.FilesystemIdentifier(mountpoint=_MOUNT_POINT),
                used_bytes=cri.UInt64Value(value=sum(image.size_bytes for image in images)),
                inodes_used=cri.UInt64Value(value=_INODES_PER_IMAGE * len(images)),
            )
            return cri.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])
