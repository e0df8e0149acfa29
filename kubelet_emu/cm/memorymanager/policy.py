"""The static memory policy: NUMA nodes for the memory of guaranteed containers (pure).

Mirrors ``pkg/kubelet/cm/memorymanager/policy_static.go`` (DEV-174). It decides over a ``MemoryState``, which
is changed in place.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy

from kubelet_emu.api.qos import pod_qos
from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.resources import aggregate_requests, is_hugepage
from kubelet_emu.api.types import Container, Pod
from kubelet_emu.cm.machine import MachineTopology
from kubelet_emu.cm.memorymanager.state import Block, MemoryState, MemoryTable, NodeMemory
from kubelet_emu.cm.topologymanager.hints import Hint, ProviderHints, mask_of, nodes_of, subsets
from kubelet_emu.errors import CallerError, PeerError

__all__ = ["StaticMemoryPolicy", "machine_memory", "requested_memory"]

Reserved = Mapping[int, Mapping[str, int]]
"""``reservedMemory``: bytes by NUMA node and kind."""


def _page_name(size_bytes: int) -> str:
    for unit, name in ((1024**3, "Gi"), (1024**2, "Mi"), (1024, "Ki")):
        if size_bytes % unit == 0:
            return f"hugepages-{size_bytes // unit}{name}"
    return f"hugepages-{size_bytes}"


def machine_memory(machine: MachineTopology, reserved: Reserved) -> dict[int, NodeMemory]:
    """The tables of an empty machine."""
    nodes: dict[int, NodeMemory] = {}
    for node in machine.nodes:
        held = reserved.get(node, {})
        tables: dict[str, MemoryTable] = {}
        pages = 0
        for size, total in sorted(machine.hugepages.items()):
            name = _page_name(size)
            kept = held.get(name, 0)
            rest = max(total - kept, 0)
            tables[name] = MemoryTable(total, kept, rest, 0, rest)
            pages += total
        kept = held.get("memory", 0)
        rest = max(machine.memory_bytes - kept - pages, 0)
        tables["memory"] = MemoryTable(machine.memory_bytes, kept, rest, 0, rest)
        nodes[node] = NodeMemory(tables, (node,))
    return nodes


def requested_memory(container: Container) -> dict[str, int]:
    """Bytes that a container requests, by kind in order of name."""
    return _memory_of(container.resources.requests)


def _memory_of(requests: Mapping[str, Quantity]) -> dict[str, int]:
    return {
        name: quantity.value()
        for name, quantity in sorted(requests.items())
        if name == "memory" or is_hugepage(name)
    }


class StaticMemoryPolicy:
    """The policy of one machine. Raises ``CallerError`` without reserved memory."""

    def __init__(self, machine: MachineTopology, reserved: Reserved) -> None:
        if not any(amount for held in reserved.values() for amount in held.values()):
            raise CallerError("[memorymanager] you should specify the system reserved memory")
        unknown = [node for node in reserved if node not in machine.nodes]
        if unknown:
            raise CallerError(f"[memorymanager] the machine has no NUMA node {unknown[0]}")
        self._machine = machine
        self._empty = machine_memory(machine, reserved)
        self._reusable_for = ""
        self._reusable: dict[int, dict[str, int]] = {}

    def check(self, state: MemoryState) -> None:
        """Fill a fresh state, or see that a restored one fits; raises ``PeerError``."""
        if not state.nodes:
            if state.entries:
                raise PeerError(
                    "[memorymanager] machine state can not be empty when it has memory assignments"
                )
            state.nodes = deepcopy(self._empty)
            return
        expected = MemoryState(deepcopy(self._empty))
        for containers in state.entries.values():
            for blocks in containers.values():
                for block in blocks:
                    _reserve(expected, block.nodes, block.kind, block.size)
        if state.nodes.keys() != expected.nodes.keys() or any(
            state.nodes[node].memory != expected.nodes[node].memory for node in expected.nodes
        ):
            raise PeerError("[memorymanager] the expected machine state is different from the real one")

    # -- allocation --

    def allocate(self, state: MemoryState, pod: Pod, container: Container, hint: Hint | None) -> bool:
        """Promise a container its memory; whether the state has changed. Raises ``PeerError``."""
        if pod_qos(pod) != "Guaranteed":
            return False
        uid = pod.metadata.uid
        held = state.blocks(uid, container.name)
        if held is not None:
            self._settle(pod, container, held)
            return False
        wanted = requested_memory(container)
        nodes = nodes_of(self._mask(state, uid, wanted, hint))
        if any(_grouped_otherwise(state, node, nodes) for node in nodes):
            raise PeerError("[memorymanager] preferred hint violates NUMA node allocation")
        blocks: list[Block] = []
        for kind, size in wanted.items():
            blocks.append(Block(nodes, kind, size))
            _reserve(state, nodes, kind, max(size - self._reusable_on(uid, nodes, kind), 0))
        self._settle(pod, container, blocks)
        state.put(uid, container.name, tuple(blocks))
        self._shrink_inits(state, pod, container, blocks)
        return True

    def _mask(self, state: MemoryState, uid: str, wanted: Mapping[str, int], hint: Hint | None) -> int:
        given = hint or Hint(None, True)
        best = given
        if best.mask is None:
            found = _best(self._generate(state, uid, wanted), wanted)
            if found is None:
                raise PeerError(
                    "[memorymanager] failed to get the default NUMA affinity, "
                    "no NUMA nodes with enough memory is available"
                )
            if not found.preferred and given.preferred:
                raise PeerError("[memorymanager] failed to find the default preferred hint")
            best = found
        if not self._enough(state, uid, nodes_of(best.mask or 0), wanted):
            inside = {
                kind: [one for one in hints if (one.mask or 0) & (best.mask or 0) == best.mask]
                for kind, hints in self._generate(state, uid, wanted).items()
            }
            found = _best(inside, wanted)
            if found is None:
                raise PeerError(
                    "[memorymanager] failed to find NUMA nodes to extend the current topology hint"
                )
            if not found.preferred and best.preferred:
                raise PeerError("[memorymanager] failed to find the extended preferred hint")
            best = found
        return best.mask or 0

    def _enough(self, state: MemoryState, uid: str, nodes: Sequence[int], wanted: Mapping[str, int]) -> bool:
        return all(
            sum(_free(state, node, kind) for node in nodes) + self._reusable_on(uid, nodes, kind) >= size
            for kind, size in wanted.items()
        )

    def _settle(self, pod: Pod, container: Container, blocks: Sequence[Block]) -> None:
        """Memory of an init container can be used by those after it; what an app takes is used up."""
        uid = pod.metadata.uid
        if self._reusable_for != uid:
            self._reusable_for, self._reusable = uid, {}
        plain = any(
            one.name == container.name and one.restart_policy != "Always" for one in pod.spec.init_containers
        )
        for block in blocks:
            kept = self._reusable.setdefault(mask_of(block.nodes), {})
            before = kept.get(block.kind, 0)
            kept[block.kind] = max(before, block.size) if plain else max(before - block.size, 0)

    def _reusable_on(self, uid: str, nodes: Sequence[int], kind: str) -> int:
        return self._reusable.get(mask_of(nodes), {}).get(kind, 0) if self._reusable_for == uid else 0

    def _shrink_inits(
        self, state: MemoryState, pod: Pod, container: Container, blocks: Sequence[Block]
    ) -> None:
        """Blocks of init containers get smaller by what a later container has reused of them."""
        uid = pod.metadata.uid
        for block in blocks:
            left = block.size
            for init in pod.spec.init_containers:
                if init.name == container.name:
                    break
                old = state.blocks(uid, init.name)
                if init.restart_policy == "Always" or old is None or left == 0:
                    continue
                new: list[Block] = []
                for one in old:
                    taken = 0
                    if (one.kind, one.nodes) == (block.kind, block.nodes):
                        taken = min(one.size, left)
                        left -= taken
                    new.append(Block(one.nodes, one.kind, one.size - taken))
                state.put(uid, init.name, tuple(new))

    def release(self, state: MemoryState, uid: str, container: str) -> None:
        """Give back what a container was promised."""
        blocks = state.blocks(uid, container) or ()
        state.delete(uid, container)
        for block in blocks:
            left = block.size
            for node in block.nodes:
                memory = state.nodes[node]
                memory.assignments -= 1
                if memory.assignments <= 0:
                    memory.assignments, memory.cells = 0, (node,)
                table = memory.memory[block.kind]
                given = min(left, table.reserved)
                table.reserved -= given
                table.free += given
                left -= given

    # -- hints --

    def container_hints(self, state: MemoryState, pod: Pod, container: Container) -> ProviderHints:
        """Hints of one container; none unless its pod is guaranteed."""
        if pod_qos(pod) != "Guaranteed":
            return {}
        uid, wanted = pod.metadata.uid, requested_memory(container)
        held = state.blocks(uid, container.name)
        return _again(held, wanted) if held is not None else self._generate(state, uid, wanted)

    def pod_hints(self, state: MemoryState, pod: Pod) -> ProviderHints:
        """Hints of a pod as a whole."""
        if pod_qos(pod) != "Guaranteed":
            return {}
        uid, wanted = pod.metadata.uid, _memory_of(aggregate_requests(pod.spec))
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            held = state.blocks(uid, container.name)
            if held is not None:
                return _again(held, wanted)
        return self._generate(state, uid, wanted)

    def _generate(self, state: MemoryState, uid: str, wanted: Mapping[str, int]) -> dict[str, list[Hint]]:
        smallest, found = self._machine.node_count, list[int]()
        for mask in subsets(list(state.nodes)):
            nodes = nodes_of(mask)
            if any(_grouped_otherwise(state, node, nodes) for node in nodes):
                continue
            if any(
                sum(_allocatable(state, node, kind) for node in nodes) < size for kind, size in wanted.items()
            ):
                continue
            smallest = min(smallest, len(nodes))
            if self._enough(state, uid, nodes, wanted):
                found.append(mask)
        hints = [Hint(mask, mask.bit_count() == smallest) for mask in found]
        return {kind: list(hints) for kind in wanted}


def _grouped_otherwise(state: MemoryState, node: int, nodes: Sequence[int]) -> bool:
    """A node serves single-node assignments or one group of nodes, never both."""
    memory = state.nodes[node]
    return memory.assignments > 0 and tuple(sorted(memory.cells)) != tuple(nodes)


def _free(state: MemoryState, node: int, kind: str) -> int:
    table = state.nodes[node].memory.get(kind)
    return table.free if table is not None else 0


def _allocatable(state: MemoryState, node: int, kind: str) -> int:
    table = state.nodes[node].memory.get(kind)
    return table.allocatable if table is not None else 0


def _reserve(state: MemoryState, nodes: Sequence[int], kind: str, size: int) -> None:
    for node in nodes:
        memory = state.nodes[node]
        memory.assignments += 1
        memory.cells = tuple(nodes)
        table = memory.memory.get(kind)
        if table is not None:
            taken = min(size, table.free)
            table.reserved += taken
            table.free -= taken
            size -= taken


def _again(held: Sequence[Block], wanted: Mapping[str, int]) -> dict[str, list[Hint]]:
    """The hint of what is held already, impossible if that is not what is asked for."""
    nothing: dict[str, list[Hint]] = {kind: [] for kind in wanted}
    if {block.kind: block.size for block in held} != dict(wanted) or len(held) != len(wanted):
        return nothing
    return {block.kind: [Hint(mask_of(block.nodes), True)] for block in held}


def _best(hints: Mapping[str, Sequence[Hint]], wanted: Mapping[str, int]) -> Hint | None:
    """The narrowest of the preferred hints, else of all; the hints of all kinds are the same."""
    first = next(iter(wanted), "")
    some = [hint for hint in hints.get(first, ()) if hint.mask]
    order = sorted(some, key=lambda hint: (not hint.preferred, (hint.mask or 0).bit_count(), hint.mask))
    return order[0] if order else None
