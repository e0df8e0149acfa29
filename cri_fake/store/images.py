"""Images on the node and the references that lead to them (pure).

An image is either absent or present; pulling adds a reference to it, removing takes it away with all of them
(CRI-093, CRI-094). Image ids are functions of content (CRI-208).
"""

from collections.abc import Callable, Mapping
from enum import StrEnum

from attrs import evolve, frozen

from cri_fake.references import Reference, is_image_id, parse_reference
from cri_fake.store.faults import Refused
from cri_fake.store.table import resolve_prefix

__all__ = ["TRANSITIONS", "Event", "Image", "ImageConfig", "ImageStore", "Phase"]

_ALGORITHM = "sha256:"


class Phase(StrEnum):
    ABSENT = "absent"
    PRESENT = "present"


class Event(StrEnum):
    PULLED = "pulled"
    """A pull by tag or digest has ended well."""
    REMOVED = "removed"
    """RemoveImage: fine for an absent image too (CRI-094)."""


TRANSITIONS: Mapping[Phase, Mapping[Event, Phase]] = {
    Phase.ABSENT: {Event.PULLED: Phase.PRESENT, Event.REMOVED: Phase.ABSENT},
    Phase.PRESENT: {Event.PULLED: Phase.PRESENT, Event.REMOVED: Phase.ABSENT},
}
"""What each event does in each phase; total over both."""


@frozen(kw_only=True)
class ImageConfig:
    """What an image brings besides its files. ``stop_signal`` is a name such as ``SIGQUIT``, empty for none.

    ``emulated`` says that the programs of the image are known: a command that is not among them fails to
    start. In other images an unknown command is an opaque process. ``contents`` names the files it has
    (``process.images.image_tree``); most have busybox' applets.
    """

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    working_directory: str = "/"
    user: str = ""
    stop_signal: str = ""
    emulated: bool = False
    contents: str = "busybox"


@frozen(kw_only=True)
class Image:
    """One image. ``id`` is ``sha256:`` and 64 hex digits; tags and digests are in order of addition."""

    id: str
    repo_tags: tuple[str, ...] = ()
    repo_digests: tuple[str, ...] = ()
    size_bytes: int
    pinned: bool = False
    config: ImageConfig = ImageConfig()

    @property
    def phase(self) -> Phase:
        return Phase.PRESENT

    @property
    def display_name(self) -> str:
        """What ContainerStatus shows as the image: a tag, else a digest, else the id (CRI-060)."""
        return (self.repo_tags or self.repo_digests or (self.id,))[0]

    @property
    def display_ref(self) -> str:
        """What ContainerStatus shows as image_ref: a repo digest, else the id (CRI-060)."""
        return (self.repo_digests or (self.id,))[0]


class ImageStore:
    """Images by id and reference. ``values`` is in the order in which the images came."""

    def __init__(self) -> None:
        self._images: dict[str, Image] = {}
        self._by_reference: dict[str, str] = {}
        self.watch: Callable[[str, Image | None], None] | None = None
        """Told of every change: the id, and the new image or None."""

    def _changed(self, image_id: str) -> None:
        if self.watch is not None:
            self.watch(image_id, self._images.get(image_id))

    def restored(self, image: Image) -> None:
        """Have an image again as it was, with its references."""
        self._images[image.id] = image
        for name in (*image.repo_tags, *image.repo_digests):
            self._by_reference[name] = image.id

    @property
    def values(self) -> tuple[Image, ...]:
        return tuple(self._images.values())

    def phase(self, image_id: str) -> Phase:
        return Phase.PRESENT if image_id in self._images else Phase.ABSENT

    def pulled(self, image: Image, reference: Reference, *, manifest_digest: str = "") -> Image:
        """Record a pull: the image gains the tag (and ``repo@manifest``), or exactly the digest (CRI-093).

        A tag that led to another image leads to this one from now on.
        """
        known = self._images.get(image.id, image)
        tags, digests = list(known.repo_tags), list(known.repo_digests)
        if reference.digest:
            _append(digests, str(reference))
        else:
            self._move_tag(str(reference), image.id)
            _append(tags, str(reference))
            if manifest_digest:
                _append(digests, f"{reference.repository}@{manifest_digest}")
        new = evolve(known, repo_tags=tuple(tags), repo_digests=tuple(digests))
        self._images[image.id] = new
        for name in (*tags, *digests):
            self._by_reference[name] = image.id
        self._changed(image.id)
        return new

    def _move_tag(self, tag: str, new_id: str) -> None:
        old_id = self._by_reference.get(tag)
        if old_id is None or old_id == new_id:
            return
        old = self._images[old_id]
        self._images[old_id] = evolve(old, repo_tags=tuple(t for t in old.repo_tags if t != tag))
        self._changed(old_id)

    def resolve(self, text: str) -> Image | None:
        """The image that an id, unique id prefix, tag, digest or short name means; None if absent (CRI-091).

        Raises:
            Refused: a prefix that two images share.
        """
        bare = text.removeprefix(_ALGORITHM)
        if is_image_id(text):
            return self._images.get(_ALGORITHM + bare)
        try:
            image_id = self._by_reference.get(str(parse_reference(text)))
        except Refused:
            image_id = None
        if image_id is not None:
            return self._images[image_id]
        if not bare or any(digit not in "0123456789abcdef" for digit in bare):
            return None
        found = resolve_prefix(_ALGORITHM + bare, iter(self._images))
        return None if found is None else self._images[found]

    def removed(self, text: str) -> Image | None:
        """Forget an image with all its references; returns it, or None if it was absent (CRI-094)."""
        image = self.resolve(text)
        if image is None:
            return None
        del self._images[image.id]
        for name in (*image.repo_tags, *image.repo_digests):
            self._by_reference.pop(name, None)
        self._changed(image.id)
        return image


def _append(names: list[str], name: str) -> None:
    if name not in names:
        names.append(name)
