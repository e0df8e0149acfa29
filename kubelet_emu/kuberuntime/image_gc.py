"""Which images garbage collection removes (pure).

Mirrors ``pkg/kubelet/images/image_gc_manager.go`` (IMG-35, IMG-36). ``kubelet_emu.image_collector`` asks the
runtime and carries out what is decided here.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import evolve, frozen

__all__ = [
    "ImageGCPolicy",
    "ImageRecord",
    "ListedImage",
    "bytes_to_free",
    "detect",
    "images_to_free",
    "too_old",
]


@frozen(kw_only=True)
class ImageGCPolicy:
    """When images go, in percent of the disk's capacity; ``max_age_ns`` 0: never for their age alone."""

    high_percent: int = 85
    low_percent: int = 80
    min_age_ns: int = 120 * 10**9
    max_age_ns: int = 0

    @property
    def off(self) -> bool:
        """Whether nothing is ever collected."""
        return self.high_percent >= 100 and self.max_age_ns == 0


@frozen(kw_only=True)
class ListedImage:
    """An image as ListImages shows it; ``names`` are its tags and digests."""

    id: str
    names: tuple[str, ...]
    size_bytes: int
    pinned: bool


@frozen(kw_only=True)
class ImageRecord:
    """What is remembered of an image between passes. ``last_used_ns`` is None for one never seen in use."""

    id: str
    size_bytes: int
    pinned: bool
    in_use: bool
    first_detected_ns: int
    last_used_ns: int | None


def detect(
    known: Mapping[str, ImageRecord],
    listed: Iterable[ListedImage],
    used: Collection[str],
    *,
    now_ns: int,
    new_since_ns: int,
) -> dict[str, ImageRecord]:
    """The records after a look. ``used`` are ids and names of images in use; what is not known yet counts as
    there since ``new_since_ns``.
    """
    found: dict[str, ImageRecord] = {}
    for image in listed:
        in_use = image.id in used or any(name in used for name in image.names)
        record = known.get(image.id) or ImageRecord(
            id=image.id,
            size_bytes=image.size_bytes,
            pinned=image.pinned,
            in_use=in_use,
            first_detected_ns=new_since_ns,
            last_used_ns=None,
        )
        found[image.id] = evolve(
            record,
            size_bytes=image.size_bytes,
            pinned=image.pinned,
            in_use=in_use,
            last_used_ns=now_ns if in_use else record.last_used_ns,
        )
    return found


def bytes_to_free(policy: ImageGCPolicy, *, capacity_bytes: int, available_bytes: int) -> int:
    """How much has to go so that usage is back at the low threshold; 0 below the high one (IMG-35)."""
    available = min(available_bytes, capacity_bytes)
    usage_percent = 100 - available * 100 // capacity_bytes
    if usage_percent < policy.high_percent:
        return 0
    return capacity_bytes * (100 - policy.low_percent) // 100 - available


def too_old(policy: ImageGCPolicy, records: Mapping[str, ImageRecord], *, now_ns: int) -> tuple[str, ...]:
    """Images unused for longer than the policy's maximum age, which go whatever the usage."""
    if policy.max_age_ns <= 0:
        return ()
    return tuple(
        record.id
        for record in _candidates(records)
        if now_ns - (record.last_used_ns or record.first_detected_ns) > policy.max_age_ns
    )


def images_to_free(
    policy: ImageGCPolicy, records: Mapping[str, ImageRecord], *, now_ns: int
) -> tuple[ImageRecord, ...]:
    """Images that may go, the one unused for longest first. The caller stops when enough is free."""
    return tuple(
        record for record in _candidates(records) if now_ns - record.first_detected_ns >= policy.min_age_ns
    )


def _candidates(records: Mapping[str, ImageRecord]) -> Sequence[ImageRecord]:
    def unused_for_longest(record: ImageRecord) -> tuple[int, int, str]:
        return (record.last_used_ns or 0, record.first_detected_ns, record.id)

    free = (record for record in records.values() if not record.in_use and not record.pinned)
    return sorted(free, key=unused_for_longest)
