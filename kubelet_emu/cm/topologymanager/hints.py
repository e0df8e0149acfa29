"""Topology hints and sets of NUMA nodes as bit masks (pure).

Mirrors ``pkg/kubelet/cm/topologymanager/bitmask`` and the hint type of ``topology_manager.go`` (DEV-132).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from attrs import frozen

__all__ = ["Hint", "ProviderHints", "mask_of", "nodes_of", "subsets"]


@frozen
class Hint:
    """Where a resource could come from: a mask of NUMA nodes, None for "no matter where" (DEV-132)."""

    mask: int | None
    preferred: bool

    def __str__(self) -> str:
        where = "-" if self.mask is None else "{" + ",".join(map(str, nodes_of(self.mask))) + "}"
        return where + (" preferred" if self.preferred else "")


ProviderHints = Mapping[str, "Sequence[Hint] | None"]
"""Hints of one provider by resource: None is "don't care", an empty list is "impossible" (DEV-137)."""


def mask_of(nodes: Iterable[int]) -> int:
    """The mask with a bit for each node."""
    mask = 0
    for node in nodes:
        mask |= 1 << node
    return mask


def nodes_of(mask: int) -> tuple[int, ...]:
    """The nodes of a mask, ascending."""
    return tuple(node for node in range(mask.bit_length()) if mask >> node & 1)


def subsets(nodes: Sequence[int]) -> Iterator[int]:
    """Masks of all non-empty subsets, smaller ones first."""
    for size in range(1, len(nodes) + 1):
        for chosen in combinations(nodes, size):
            yield mask_of(chosen)
