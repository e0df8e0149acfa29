"""The four topology policies: one hint out of many, and whether a pod may run with it (pure).

Mirrors ``policy.go``, ``policy_best_effort.go``, ``policy_restricted.go``, ``policy_single_numa_node.go`` and
``numa_info.go`` of ``pkg/kubelet/cm/topologymanager`` (DEV-137 to DEV-13B).
"""

from collections.abc import Sequence
from enum import StrEnum

from attrs import frozen

from kubelet_emu.cm.machine import MachineTopology
from kubelet_emu.cm.topologymanager.hints import Hint, ProviderHints, mask_of, nodes_of
from kubelet_emu.why import Why

__all__ = ["Merged", "Policy", "Scope", "compare", "decide", "merge"]


class Policy(StrEnum):
    """``topologyManagerPolicy`` (DEV-130)."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class Scope(StrEnum):
    """``topologyManagerScope`` (DEV-130)."""

    CONTAINER = "container"
    POD = "pod"


@frozen
class Merged:
    """The hint that a container or pod gets, and whether the policy lets it run."""

    hint: Hint
    admit: bool
    why: tuple[Why, ...] = ()


def decide(
    policy: Policy, providers: Sequence[ProviderHints], machine: MachineTopology, *, closest: bool = False
) -> Merged:
    """Merge the hints of all providers and judge the result. Not for policy none, which asks for no hints."""
    lists = _lists(providers)
    everywhere = mask_of(machine.nodes)
    if policy is Policy.SINGLE_NUMA_NODE:
        single = [[hint for hint in hints if _is_single(hint)] for hints in lists]
        hint = merge(single, machine, closest=closest)
        if hint.mask == everywhere:
            hint = Hint(None, hint.preferred)
        return Merged(hint, hint.preferred, (Why("DEV-13A", str(hint)),))
    hint = merge(lists, machine, closest=closest)
    admit = hint.preferred or policy is Policy.BEST_EFFORT
    return Merged(hint, admit, (Why("DEV-138", str(hint)), Why("DEV-13B", policy)))


def _lists(providers: Sequence[ProviderHints]) -> list[Sequence[Hint]]:
    """One list for each resource of each provider (DEV-137)."""
    lists: list[Sequence[Hint]] = []
    for hints in providers:
        if not hints:
            lists.append((Hint(None, True),))
        for _, some in sorted(hints.items()):
            if some is None:
                lists.append((Hint(None, True),))
            else:
                lists.append(some or (Hint(None, False),))
    return lists


def _is_single(hint: Hint) -> bool:
    return hint.preferred and (hint.mask is None or hint.mask.bit_count() == 1)


@frozen
class _Partial:
    """What is known of a choice of one hint from each list so far."""

    mask: int
    same: int | None
    """The mask that all hints with a mask had in common; None while no hint had one."""
    preferred: bool


def merge(lists: Sequence[Sequence[Hint]], machine: MachineTopology, *, closest: bool = False) -> Hint:
    """The best of all ways to take one hint from each list (DEV-138).

    The ways are followed list by list, equal intermediate results as one: their number then depends on the
    number of NUMA nodes and not on the length of the lists.
    """
    everywhere = mask_of(machine.nodes)
    partials = {_Partial(everywhere, None, True): None}
    for hints in lists:
        chosen = dict.fromkeys(hints)
        partials = {_with(partial, hint): None for partial in partials for hint in chosen}
    narrowest = _largest_minimum(lists)
    best: Hint | None = None
    for partial in partials:
        best = compare(best, Hint(partial.mask, partial.preferred), narrowest, machine, closest=closest)
    return best or Hint(everywhere, False)


def _with(partial: _Partial, hint: Hint) -> _Partial:
    if hint.mask is None:
        return _Partial(partial.mask, partial.same, partial.preferred and hint.preferred)
    equal = partial.same is None or partial.same == hint.mask
    preferred = partial.preferred and hint.preferred and equal
    # Once two masks have differed nothing can be preferred again, so which mask is kept does not matter.
    return _Partial(partial.mask & hint.mask, hint.mask if preferred else 0, preferred)


def _largest_minimum(lists: Sequence[Sequence[Hint]]) -> int:
    """B of DEV-139."""
    minima = [
        min((hint.mask.bit_count() for hint in hints if hint.mask is not None), default=0) for hints in lists
    ]
    return max(minima, default=0)


def compare(
    current: Hint | None, candidate: Hint, narrowest: int, machine: MachineTopology, *, closest: bool = False
) -> Hint | None:
    """Which of two merged hints to keep, row by row of DEV-139; ``narrowest`` is B."""
    if not candidate.mask:
        return current
    if current is None or current.mask is None:
        return candidate
    if current.preferred != candidate.preferred:
        return candidate if candidate.preferred else current
    better = _better(current, candidate, machine, closest=closest)
    if current.preferred:
        return better
    size, other = current.mask.bit_count(), candidate.mask.bit_count()
    if size > narrowest:
        return better
    if size == narrowest:
        return better if other == narrowest else current
    if other > narrowest:
        return current
    if other == narrowest:
        return candidate
    if size != other:
        return candidate if other > size else current
    return better


def _better(current: Hint, candidate: Hint, machine: MachineTopology, *, closest: bool) -> Hint:
    a, b = current.mask or 0, candidate.mask or 0
    if a == b:
        return current
    ours, theirs = a.bit_count(), b.bit_count()
    if ours != theirs:
        return candidate if theirs < ours else current
    if closest:
        ours, theirs = machine.mean_distance(nodes_of(a)), machine.mean_distance(nodes_of(b))
        if ours != theirs:
            return candidate if theirs < ours else current
    return candidate if b < a else current
