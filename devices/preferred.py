"""Which devices a plugin would rather give away: the answers to GetPreferredAllocation (pure).

All orders here are total, so the same request gives the same answer in every process. A kubelet drops ids
that it did not offer and fills up a short answer by itself (DEV-065), so none of these functions ever fails.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

from attrs import frozen

__all__ = ["MAX_SEARCHED_NODES", "Candidate", "lowest", "packed", "spread", "topology_aware"]

MAX_SEARCHED_NODES = 8
"""NUMA nodes among which the best set is searched for; of more, the fullest are taken one by one."""


@frozen
class Candidate:
    """A device on offer: its place in the plugin's list, its NUMA nodes, the physical device behind it."""

    id: str
    index: int
    nodes: tuple[int, ...]
    physical: str


def lowest(candidates: Sequence[Candidate], must: Sequence[str], size: int) -> tuple[str, ...]:
    """Those that must be in, then the lowest ids in the plugin's order."""
    rest = sorted((c for c in candidates if c.id not in set(must)), key=_rank)
    return _cut(must, [candidate.id for candidate in rest], size)


def topology_aware(candidates: Sequence[Candidate], must: Sequence[str], size: int) -> tuple[str, ...]:
    """Devices that share as few NUMA nodes as can be, with what must be in counted (DEV-187).

    Among sets of nodes of one size the one with the fewest devices to spare wins, then the lowest one: a
    small request does not break up an empty node while a half-used one still has room.
    """
    by_id = {candidate.id: candidate for candidate in candidates}
    held = [by_id[name] for name in must if name in by_id]
    free = [candidate for candidate in candidates if candidate.id not in set(must)]
    need = size - len(must)
    all_nodes = sorted({node for candidate in candidates for node in candidate.nodes})
    if need <= 0 or not all_nodes:
        return lowest(candidates, must, size)
    chosen = _node_set(all_nodes, free, held, need)
    rest = sorted(free, key=lambda c: (not chosen.intersection(c.nodes), not c.nodes, _rank(c)))
    return _cut(must, [candidate.id for candidate in rest], size)


def packed(
    candidates: Sequence[Candidate], must: Sequence[str], size: int, replicas: Mapping[str, int]
) -> tuple[str, ...]:
    """Replicas of the devices with most replicas in use first (DEV-186)."""
    return _by_use(candidates, must, size, replicas, most_used_first=True)


def spread(
    candidates: Sequence[Candidate], must: Sequence[str], size: int, replicas: Mapping[str, int]
) -> tuple[str, ...]:
    """Replicas of the devices with fewest replicas in use first (DEV-186)."""
    return _by_use(candidates, must, size, replicas, most_used_first=False)


def _by_use(
    candidates: Sequence[Candidate],
    must: Sequence[str],
    size: int,
    replicas: Mapping[str, int],
    *,
    most_used_first: bool,
) -> tuple[str, ...]:
    free: dict[str, list[Candidate]] = {}
    for candidate in sorted((c for c in candidates if c.id not in set(must)), key=_rank):
        free.setdefault(candidate.physical, []).append(candidate)
    used = {name: replicas.get(name, len(left)) - len(left) for name, left in free.items()}
    picked: list[str] = []
    while len(must) + len(picked) < size and free:
        sign = -1 if most_used_first else 1
        name = min(free, key=lambda each: (sign * used[each], _rank(free[each][0])))
        picked.append(free[name].pop(0).id)
        used[name] += 1
        if not free[name]:
            del free[name]
    return _cut(must, picked, size)


def _node_set(
    nodes: Sequence[int], free: Sequence[Candidate], held: Sequence[Candidate], need: int
) -> frozenset[int]:
    """The NUMA nodes to take from: nodes of held devices count as used already."""
    base = frozenset(node for candidate in held for node in candidate.nodes)
    if len(nodes) > MAX_SEARCHED_NODES:
        return _fullest_nodes(nodes, free, base, need)
    for count in range(max(len(base), 1), len(nodes) + 1):
        found: list[tuple[int, tuple[int, ...]]] = []
        for extra in combinations([node for node in nodes if node not in base], count - len(base)):
            chosen = base | set(extra)
            room = sum(1 for candidate in free if chosen.intersection(candidate.nodes))
            if room >= need:
                found.append((room, tuple(sorted(chosen))))
        if found:
            return frozenset(min(found)[1])
    return frozenset(nodes)


def _fullest_nodes(
    nodes: Sequence[int], free: Sequence[Candidate], base: frozenset[int], need: int
) -> frozenset[int]:
    chosen = set(base)
    for node in sorted(nodes, key=lambda each: (-sum(each in c.nodes for c in free), each)):
        if sum(1 for candidate in free if chosen.intersection(candidate.nodes)) >= need:
            break
        chosen.add(node)
    return frozenset(chosen)


def _cut(must: Sequence[str], rest: Sequence[str], size: int) -> tuple[str, ...]:
    return tuple([*must, *rest][: max(size, len(must))])


def _rank(candidate: Candidate) -> tuple[int, str]:
    return (candidate.index, candidate.id)
