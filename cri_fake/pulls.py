"""What happens to images: pull, look up, list, remove (CRI section 8)."""

from attrs import evolve

from cri_fake.behaviours import PullBehaviour
from cri_fake.catalogue import PAUSE_IMAGE, PRELOADED, unreachable
from cri_fake.references import Reference, parse_reference
from cri_fake.store.faults import Kind, Refused
from cri_fake.store.images import Image
from cri_fake.world import World

__all__ = ["ImageOps"]

_CRI_ERRORS = ("RegistryUnavailable", "SignatureValidationFailed")
"""Errors that CRI names; a runtime that knows them says them first, which is how a kubelet tells them."""


_LONGEST_PULL_SECONDS = 24 * 3600.0
_REGISTRY_ADDRESS = "192.0.2.80:443"
"""Of a registry that is down, in the text of the failure."""


class ImageOps:
    """The image service. ``bind`` tells which container of a pod uses which image."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pulls: dict[tuple[str, str], int] = {}
        self._users: dict[tuple[str, str], tuple[str, ...]] = {}

    def preload(self, references: tuple[str, ...] = PRELOADED) -> None:
        """Put images on the node as if imported: they have tags, but no repo digest."""
        for text in references:
            reference = parse_reference(text)
            image = self._world.catalogue.find(reference).image
            pinned = str(reference) == PAUSE_IMAGE
            self._world.images.pulled(evolve(image, pinned=pinned), reference)

    def bind(self, pod: str, images: dict[str, str]) -> None:
        """Say which image each container of a pod uses, so that pulls told by container find their way."""
        users: dict[str, list[str]] = {}
        for container, image in images.items():
            users.setdefault(self._normal(image), []).append(container)
        for image, containers in users.items():
            self._users[pod, image] = tuple(containers)

    def _normal(self, text: str) -> str:
        try:
            return str(parse_reference(text))
        except Refused:
            return text

    def status(self, text: str) -> Image | None:
        """The image that the text means, None if it is absent (CRI-091, CRI-092)."""
        return self._world.images.resolve(text) if text else None

    async def pull(self, text: str, pod: str) -> Image:
        """Fetch an image; takes its time, and a cancelled pull leaves nothing (CRI-097).

        Raises:
            Refused: the reference is malformed, nothing listens there, or the pull is told to fail.
        """
        world = self._world
        reference = parse_reference(text)
        told = self._told(text, reference, pod)
        world.disk.check(f'failed to pull and unpack image "{reference}": failed to extract layer')
        if told is not None and told.duration_seconds is not None:
            await world.spend(min(told.duration_seconds, _LONGEST_PULL_SECONDS))
        if told is not None and told.failure is not None:
            if told.duration_seconds is None:
                await world.pause("PullImage", "refused")
            text = told.failure
            if not text.startswith(_CRI_ERRORS):
                text = f'failed to pull and unpack image "{reference}": {text}'
            raise Refused(Kind(told.code), text)
        if not world.registry_up:
            await world.pause("PullImage", "refused")
            raise unreachable(reference, _REGISTRY_ADDRESS)
        try:
            found = world.catalogue.find(reference)
        except Refused:
            await world.pause("PullImage", "refused")
            raise
        if told is None or told.duration_seconds is None:
            present = world.images.resolve(str(reference))
            if present is not None and present.id == found.image.id:
                await world.pause("PullImage", "present")
            else:
                await world.pause("PullImage")
                await world.spend(world.latency.transfer(found.image.size_bytes))
        return world.images.pulled(found.image, reference, manifest_digest=found.manifest_digest)

    def _told(self, text: str, reference: Reference, pod: str) -> PullBehaviour | None:
        """The behaviour of this pull; its ``times`` counts the pulls of that image for that pod."""
        normal = str(reference)
        names = (text, normal)
        told = self._world.behaviours.for_pull(pod, names, self._users.get((pod, normal), ()))
        if told is None:
            return None
        count = self._pulls[pod, normal] = self._pulls.get((pod, normal), 0) + 1
        if told.failure is not None and told.times is not None and count > told.times:
            return evolve(told, failure=None)
        return told

    async def remove(self, text: str) -> None:
        """Forget an image with all its references. Absent: fine (CRI-094)."""
        await self._world.pause("RemoveImage")
        self._world.images.removed(text)
