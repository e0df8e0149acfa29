"""The shape of a machine: sockets, NUMA nodes, cores, CPUs, memory and distances (pure).

What cadvisor's machine info and ``/sys/devices/system/node`` tell a kubelet. Ids are numbered as Linux
numbers them on common servers: the first threads of all cores, then the second threads.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from attrs import field, frozen

from kubelet_emu.errors import CallerError, Problem

__all__ = ["Cpu", "MachineTopology"]

LOCAL_DISTANCE = 10
REMOTE_DISTANCE = 21


@frozen
class Cpu:
    """One logical CPU and where it sits; ``cache`` is the id of its last-level (uncore) cache."""

    id: int
    core: int
    node: int
    socket: int
    cache: int


@frozen(kw_only=True, slots=False)
class MachineTopology:
    """A regular machine: every socket has the same number of NUMA nodes, every node the same cores.

    ``memory_bytes`` is the memory of one NUMA node, ``hugepages`` the bytes set aside on each node by page
    size in bytes. ``distances`` is the matrix of the firmware, 10 and 21 where it is not given;
    ``caches_per_node`` splits each node's cores into groups with a last-level cache each. Raises
    ``CallerError`` for numbers that make no machine.
    """

    sockets: int = 1
    nodes_per_socket: int = 1
    cores_per_node: int = 2
    threads_per_core: int = 1
    memory_bytes: int = 24 * 1024**3
    hugepages: Mapping[int, int] = field(factory=dict[int, int])
    distances: tuple[tuple[int, ...], ...] = ()
    caches_per_node: int = 1

    def __attrs_post_init__(self) -> None:
        problems: list[Problem] = []
        for name in ("sockets", "nodes_per_socket", "cores_per_node", "threads_per_core", "caches_per_node"):
            value: int = getattr(self, name)
            if not 1 <= value <= 1024:
                problems.append(Problem(f"must be between 1 and 1024, not {value}", name))
        if not problems and self.sockets * self.nodes_per_socket > 64:
            problems.append(Problem("a machine has at most 64 NUMA nodes", "nodes_per_socket"))
        if self.memory_bytes < 0:
            problems.append(Problem("must not be negative", "memory_bytes"))
        size = self.sockets * self.nodes_per_socket
        if self.distances and (
            len(self.distances) != size or any(len(row) != size for row in self.distances)
        ):
            problems.append(Problem(f"must be a matrix of {size} by {size} distances", "distances"))
        if not problems and self.cores_per_node % self.caches_per_node:
            problems.append(Problem("must divide the cores of a node", "caches_per_node"))
        if problems:
            raise CallerError(problems)

    @property
    def node_count(self) -> int:
        return self.sockets * self.nodes_per_socket

    @property
    def nodes(self) -> range:
        """Ids of all NUMA nodes."""
        return range(self.node_count)

    @property
    def cpu_count(self) -> int:
        return self.node_count * self.cores_per_node * self.threads_per_core

    @cached_property
    def cpus(self) -> tuple[Cpu, ...]:
        """All CPUs by id."""
        cores = self.node_count * self.cores_per_node
        cores_per_cache = self.cores_per_node // self.caches_per_node
        return tuple(
            Cpu(
                id=thread * cores + core,
                core=core,
                node=core // self.cores_per_node,
                socket=core // self.cores_per_node // self.nodes_per_socket,
                cache=core // cores_per_cache,
            )
            for thread in range(self.threads_per_core)
            for core in range(cores)
        )

    def distance(self, a: int, b: int) -> int:
        """Distance between two NUMA nodes, 10 from a node to itself."""
        if self.distances:
            return self.distances[a][b]
        return LOCAL_DISTANCE if a == b else REMOTE_DISTANCE

    def mean_distance(self, nodes: Sequence[int]) -> float:
        """Mean over all ordered pairs, a node and itself included (DEV-139)."""
        if not nodes:
            return 0.0
        return sum(self.distance(a, b) for a in nodes for b in nodes) / len(nodes) ** 2

    def cpus_on(self, nodes: Iterable[int]) -> tuple[int, ...]:
        """Ids of the CPUs of these NUMA nodes, ascending."""
        wanted = frozenset(nodes)
        return tuple(cpu.id for cpu in self.cpus if cpu.node in wanted)
