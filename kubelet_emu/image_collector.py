"""Image garbage collection, carried out every five minutes (IMG-35, IMG-36).

Mirrors ``pkg/kubelet/images/image_gc_manager.go`` and StartGarbageCollection of ``pkg/kubelet/kubelet.go``;
``kuberuntime.image_gc`` decides. With the first pass images count as there since the kubelet began.
"""

from collections.abc import Callable, Collection, Iterable

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.errors import PeerError
from kubelet_emu.events import PodEvents
from kubelet_emu.kuberuntime.calls import CriCalls
from kubelet_emu.kuberuntime.image_gc import (
    ImageGCPolicy,
    ImageRecord,
    ListedImage,
    bytes_to_free,
    detect,
    images_to_free,
    too_old,
)
from kubelet_emu.kuberuntime.pull_records import PullRecords
from kubelet_emu.seams import Recorder
from kubelet_emu.settings import KubeletSettings
from kubelet_emu.why import Why
from node_host.clock import NodeClock
from trio_grpc import StatusError

__all__ = ["IMAGE_GC_SECONDS", "ImageCollector"]

IMAGE_GC_SECONDS = 300.0


class ImageCollector:
    """Collects the images of one node.

    ``volume_images`` gives the references that image volumes of the node's pods name; ``disk`` is the size of
    the node's ephemeral storage, a quantity, for where the settings do not say how large the image disk is.
    """

    def __init__(
        self,
        calls: CriCalls,
        *,
        clock: NodeClock,
        events: PodEvents,
        recorder: Recorder,
        settings: KubeletSettings,
        pulls: PullRecords,
        volume_images: Callable[[], Iterable[str]],
        disk: str,
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._events = events
        self._recorder = recorder
        self._pulls = pulls
        self._volume_images = volume_images
        self._capacity_bytes = settings.image_fs_bytes or int(Quantity.parse(disk).value())
        self._policy = ImageGCPolicy(
            high_percent=settings.image_gc_high_percent,
            low_percent=settings.image_gc_low_percent,
            min_age_ns=round(settings.image_gc_min_age_seconds * 1e9),
            max_age_ns=round(settings.image_gc_max_age_seconds * 1e9),
        )
        self._began_ns = clock.now_ns()
        self._seen = False
        self._records: dict[str, ImageRecord] = {}

    async def run(self) -> None:
        """Collect every five minutes. A failure is told from the second in a row on (IMG-36)."""
        if self._policy.off:
            return
        failed = False
        while True:
            await self._clock.sleep(IMAGE_GC_SECONDS)
            try:
                await self.collect()
            except PeerError as error:
                self._recorder.fact("note", about="gc", text=f"image garbage collection failed: {error}")
                if failed:
                    self._events.node_event("Warning", "ImageGCFailed", str(error))
                failed = True
            else:
                failed = False

    async def collect(self) -> None:
        """One pass. Raises ``PeerError`` if the runtime fails or not enough can be freed."""
        try:
            await self._collect()
        except StatusError as error:
            raise PeerError(str(error)) from error

    async def _collect(self) -> None:
        now_ns = self._clock.now_ns()
        await self._look(now_ns)
        for image_id in too_old(self._policy, self._records, now_ns=now_ns):
            await self._remove(image_id, "maximum age")
        used_bytes = await self._calls.image_fs_used()
        wanted = bytes_to_free(
            self._policy,
            capacity_bytes=self._capacity_bytes,
            available_bytes=max(self._capacity_bytes - used_bytes, 0),
        )
        freed = await self._free(wanted, now_ns) if wanted > 0 else 0
        self._pulls.prune(self._records)
        if freed < wanted:
            text = (
                f"Failed to garbage collect required amount of images. Attempted to free {wanted} bytes, "
                f"but only found {freed} bytes eligible to free."
            )
            self._events.node_event("Warning", "FreeDiskSpaceFailed", text)
            raise PeerError(text)

    async def _look(self, now_ns: int) -> None:
        listed = [
            ListedImage(
                id=image.id,
                names=(*image.repo_tags, *image.repo_digests),
                size_bytes=image.size,
                pinned=image.pinned,
            )
            for image in await self._calls.list_images()
        ]
        since_ns = now_ns if self._seen else self._began_ns
        self._records = detect(
            self._records, listed, await self._used(), now_ns=now_ns, new_since_ns=since_ns
        )
        self._seen = True

    async def _used(self) -> Collection[str]:
        used = set(self._volume_images())
        for container in await self._calls.list_containers(running_only=True):
            used |= {container.image.image, container.image_ref, container.image_id}
        return used - {""}

    async def _free(self, wanted_bytes: int, now_ns: int) -> int:
        freed = 0
        for record in images_to_free(self._policy, self._records, now_ns=now_ns):
            if freed >= wanted_bytes:
                break
            await self._remove(record.id, "disk usage")
            freed += record.size_bytes
        return freed

    async def _remove(self, image_id: str, reason: str) -> None:
        self._recorder.decision(
            "images.gc",
            "",
            (Why("IMG-35", reason),),
            inputs={"image": image_id},
            outcome={"removed": image_id},
        )
        await self._calls.remove_image(image_id)
        self._records.pop(image_id, None)
