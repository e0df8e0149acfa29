"""Which CPUs to take: packed onto as few parts of the machine as possible, or spread over NUMA nodes (pure).

Mirrors ``pkg/kubelet/cm/cpumanager/cpu_assignment.go`` (DEV-170, DEV-171).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import combinations, pairwise
from statistics import pstdev

from attrs import define, field, frozen

from kubelet_emu.cm.cpumanager.cpuset import CpuSet
from kubelet_emu.cm.machine import Cpu, MachineTopology
from kubelet_emu.errors import PeerError

__all__ = ["TakeOptions", "take", "take_distributed", "take_packed"]


@frozen(kw_only=True)
class TakeOptions:
    """How CPUs are chosen: the policy options that matter here (DEV-171)."""

    distribute_over_nodes: bool = False
    align_by_cache: bool = False
    spread_over_cores: bool = False
    group_size: int = 1
    """CPUs are handed out in groups of this size when they are distributed: whole cores or single threads."""


def take(
    machine: MachineTopology, available: CpuSet, number: int, options: TakeOptions | None = None
) -> CpuSet:
    """Choose ``number`` of the available CPUs; raises ``PeerError`` if there are too few."""
    chosen = options or TakeOptions()
    if chosen.distribute_over_nodes:
        return take_distributed(machine, available, number, chosen)
    return take_packed(machine, available, number, chosen)


@define
class _Taking:
    """CPUs taken so far, and those still to be had."""

    machine: MachineTopology
    available: dict[int, Cpu]
    need: int
    taken: set[int] = field(factory=set[int])

    def take(self, cpus: Iterable[int]) -> None:
        for cpu in cpus:
            self.taken.add(cpu)
            del self.available[cpu]
            self.need -= 1

    def within(self, part: Callable[[Cpu], int], number: int) -> list[int]:
        """Available CPUs of one part of the machine, ascending."""
        return sorted(cpu.id for cpu in self.available.values() if part(cpu) == number)

    def parts(self, part: Callable[[Cpu], int], inside: Collection[Cpu] | None = None) -> list[int]:
        """Parts that have available CPUs: those with the fewest first, then by id."""
        counts: dict[int, int] = {}
        for cpu in self.available.values():
            counts[part(cpu)] = counts.get(part(cpu), 0) + 1
        wanted = counts.keys() if inside is None else {part(cpu) for cpu in inside}
        return sorted(wanted, key=lambda number: (counts[number], number))

    def in_order(self, *path: Callable[[Cpu], int]) -> list[int]:
        """Parts of the last kind, ordered within those of the kind before it, and so on."""
        order = self.parts(path[0])
        for outer, inner in pairwise(path):
            order = [
                number
                for each in order
                for number in self.parts(inner, [c for c in self.available.values() if outer(c) == each])
            ]
        return list(dict.fromkeys(order))


def _node(cpu: Cpu) -> int:
    return cpu.node


def _socket(cpu: Cpu) -> int:
    return cpu.socket


def _core(cpu: Cpu) -> int:
    return cpu.core


def _cache(cpu: Cpu) -> int:
    return cpu.cache


def take_packed(
    machine: MachineTopology, available: CpuSet, number: int, options: TakeOptions | None = None
) -> CpuSet:
    """Whole NUMA nodes and sockets first, then whole caches if asked for, whole cores, single threads."""
    chosen = options or TakeOptions()
    cpus = machine.cpus
    taking = _Taking(machine, {cpu: cpus[cpu] for cpu in sorted(available)}, number)
    if number > len(available):
        raise PeerError(
            f"not enough cpus available to satisfy request: requested={number}, available={len(available)}"
        )
    # Where a socket has several nodes the socket is the higher level, else the node is.
    upper = (_node, _socket) if machine.sockets >= machine.node_count else (_socket, _node)
    _take_whole(taking, upper[0], taking.in_order(upper[0]))
    _take_whole(taking, upper[1], taking.in_order(*upper))
    if chosen.align_by_cache:
        _take_caches(taking, (*upper, _cache))
    if not chosen.spread_over_cores:
        _take_whole(taking, _core, taking.in_order(*upper, _core))
    path, part = (*upper, _core), _core
    if chosen.spread_over_cores:
        path, part = upper[: upper.index(_socket) + 1], _socket
    for one in [cpu for each in taking.in_order(*path) for cpu in taking.within(part, each)]:
        if taking.need > 0:
            taking.take([one])
    return frozenset(taking.taken)


def _take_whole(taking: _Taking, part: Callable[[Cpu], int], order: Sequence[int]) -> None:
    """Take parts of which every CPU is available while at least a whole one is needed."""
    sizes: dict[int, int] = {}
    for cpu in taking.machine.cpus:
        sizes[part(cpu)] = sizes.get(part(cpu), 0) + 1
    for number in order:
        free = taking.within(part, number)
        if len(free) == sizes[number] and taking.need >= len(free) > 0:
            taking.take(free)


def _take_caches(taking: _Taking, path: tuple[Callable[[Cpu], int], ...]) -> None:
    """Whole caches, then free cores of one cache that is enough for the rest."""
    _take_whole(taking, _cache, taking.in_order(*path))
    threads = taking.machine.threads_per_core
    if taking.need <= 0:
        return
    for cache in taking.in_order(*path):
        cores: dict[int, list[int]] = {}
        for cpu in taking.within(_cache, cache):
            cores.setdefault(taking.available[cpu].core, []).append(cpu)
        whole = [cpu for core in sorted(cores) if len(cores[core]) == threads for cpu in cores[core]]
        if len(whole) >= taking.need:
            taking.take(whole[: taking.need])
            return


def take_distributed(
    machine: MachineTopology, available: CpuSet, number: int, options: TakeOptions
) -> CpuSet:
    """As evenly as possible over as few NUMA nodes as possible, in groups; else packed."""
    group = options.group_size
    packed = TakeOptions(spread_over_cores=options.spread_over_cores)
    if number > len(available) or number % group or not number:
        return take_packed(machine, available, number, packed)
    free = {
        node: frozenset(cpu for cpu in machine.cpus_on([node]) if cpu in available) for node in machine.nodes
    }
    nodes = sorted((node for node in free if free[node]), key=lambda node: (len(free[node]), node))
    for size in range(1, len(nodes) + 1):
        found = _best_combination(nodes, {node: len(free[node]) for node in nodes}, size, number, group)
        if found is not None:
            return _hand_out(machine, free, *found, number, group, packed)
    return take_packed(machine, available, number, packed)


def _best_combination(
    nodes: Sequence[int], free: dict[int, int], size: int, number: int, group: int
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Nodes to take from and nodes that give one more group, so that what is left is most even."""
    best: tuple[float, tuple[int, ...], tuple[int, ...]] | None = None
    for chosen in combinations(nodes, size):
        if sum(free[node] // group for node in chosen) * group < number:
            continue
        each = number // size // group * group
        if any(free[node] < each for node in chosen):
            continue
        left = {node: free[node] - (each if node in chosen else 0) for node in nodes}
        extra = (number - each * size) // group
        givers = [node for node in chosen if left[node] >= group]
        for more in combinations(givers, min(extra, len(givers))):
            after = _give(left, more, extra, group)
            if after is None:
                continue
            balance = pstdev(after.values()) if len(after) > 1 else 0.0
            if best is None or balance < best[0]:
                best = balance, chosen, more
    return None if best is None else (best[1], best[2])


def _give(left: dict[int, int], givers: Sequence[int], groups: int, group: int) -> dict[int, int] | None:
    after = dict(left)
    while groups > 0:
        able = [node for node in givers if after[node] >= group]
        if not able:
            return None
        for node in able[:groups]:
            after[node] -= group
        groups -= min(groups, len(able))
    return after


def _hand_out(
    machine: MachineTopology,
    free: dict[int, CpuSet],
    chosen: Sequence[int],
    more: Sequence[int],
    number: int,
    group: int,
    options: TakeOptions,
) -> CpuSet:
    each = number // len(chosen) // group * group
    taken: set[int] = set()
    for node in chosen:
        taken |= take_packed(machine, free[node], each, options)
    while len(taken) < number:
        for node in more:
            rest = free[node] - taken
            if len(taken) < number and len(rest) >= group:
                taken |= take_packed(machine, rest, group, options)
    return frozenset(taken)
