"""Filters of list calls: id prefixes, states, label selectors, batches for streams (CRI section 7)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from cri_fake.store.faults import Refused
from cri_fake.store.table import resolve_prefix

__all__ = ["BATCH", "batches", "full_id", "labels_match"]

BATCH = 5000
"""Items in one message of a streaming list (CRI-086)."""

Item = TypeVar("Item")


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


def full_id(prefix: str, values: Sequence[_HasId]) -> str | None:
    """The id that a filter means: none given -> ``""``; nothing or several match -> None (CRI-081)."""
    if not prefix:
        return ""
    ids = [value.id for value in values]
    if prefix in ids:
        return prefix
    try:
        return resolve_prefix(prefix, iter(ids))
    except Refused:
        return None


def labels_match(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """True if every pair of the selector is among the labels (CRI-080)."""
    return all(labels.get(key) == value for key, value in selector.items())


def batches(items: Iterable[Item], size: int = BATCH) -> Iterator[list[Item]]:
    """The items in lists of at most ``size``; no items give no list."""
    batch: list[Item] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
