"""The static CPU policy: exclusive CPUs for guaranteed containers with whole-CPU requests (pure).

Mirrors ``pkg/kubelet/cm/cpumanager/policy_static.go`` and ``policy_options.go`` (DEV-170 to DEV-172).
"""

from collections.abc import Collection, Mapping

from attrs import frozen

from kubelet_emu.api.qos import pod_qos
from kubelet_emu.api.types import Container, Pod
from kubelet_emu.cm.cpumanager.assignment import TakeOptions, take
from kubelet_emu.cm.cpumanager.cpuset import CpuSet, format_cpus
from kubelet_emu.cm.cpumanager.state import CpuState
from kubelet_emu.cm.machine import MachineTopology
from kubelet_emu.cm.topologymanager.hints import Hint, ProviderHints, mask_of, nodes_of, subsets
from kubelet_emu.cm.topologymanager.manager import AllocationRefused
from kubelet_emu.errors import CallerError, PeerError

__all__ = ["CpuOptions", "StaticCpuPolicy", "cpu_options", "guaranteed_cpus"]

_STABLE = ("full-pcpus-only", "strict-cpu-reservation", "prefer-align-cpus-by-uncorecache")
_BETA = ("distribute-cpus-across-numa",)
_ALPHA = ("align-by-socket", "distribute-cpus-across-cores")


@frozen(kw_only=True)
class CpuOptions:
    """``cpuManagerPolicyOptions`` (DEV-171)."""

    full_cores_only: bool = False
    strict_reservation: bool = False
    align_by_cache: bool = False
    distribute_over_nodes: bool = False
    align_by_socket: bool = False
    distribute_over_cores: bool = False


def cpu_options(options: Mapping[str, str], machine: MachineTopology, *, alpha: bool = False) -> CpuOptions:
    """Judge the options; raises ``CallerError``. ``alpha`` is the gate of the alpha options."""
    chosen: dict[str, bool] = {}
    for name, text in sorted(options.items()):
        if name not in (*_STABLE, *_BETA, *_ALPHA):
            raise CallerError(f'unsupported cpumanager option: "{name}" ({text})')
        if name in _ALPHA and not alpha:
            raise CallerError(
                f'CPU Manager Policy Alpha-level Options not enabled, but option "{name}" provided'
            )
        if text not in ("true", "false"):
            raise CallerError(f'bad value for option "{name}": "{text}" is neither true nor false')
        chosen[name] = text == "true"
    made = CpuOptions(
        full_cores_only=chosen.get("full-pcpus-only", False),
        strict_reservation=chosen.get("strict-cpu-reservation", False),
        align_by_cache=chosen.get("prefer-align-cpus-by-uncorecache", False),
        distribute_over_nodes=chosen.get("distribute-cpus-across-numa", False),
        align_by_socket=chosen.get("align-by-socket", False),
        distribute_over_cores=chosen.get("distribute-cpus-across-cores", False),
    )
    if made.full_cores_only and made.distribute_over_cores:
        raise CallerError(
            "static policy options full-pcpus-only and distribute-cpus-across-cores can not be used together"
        )
    if made.align_by_cache and (made.distribute_over_cores or made.distribute_over_nodes):
        raise CallerError(
            "static policy options prefer-align-cpus-by-uncorecache and distribute-cpus-across-cores or "
            "distribute-cpus-across-numa can not be used together"
        )
    if made.align_by_socket and machine.sockets > machine.node_count:
        raise CallerError("align by socket is not compatible with hardware where number of sockets are more")
    return made


def guaranteed_cpus(pod: Pod, container: Container) -> int:
    """Exclusive CPUs of a container, 0 if it shares: only whole requests of guaranteed pods count."""
    quantity = container.resources.requests.get("cpu")
    if quantity is None or pod_qos(pod) != "Guaranteed" or quantity.milli_value() % 1000:
        return 0
    return quantity.value()


class StaticCpuPolicy:
    """Decides over a ``CpuState``, which is changed in place. ``reserved`` CPUs are never given away.

    Raises ``CallerError`` without a reservation (DEV-170).
    """

    def __init__(
        self,
        machine: MachineTopology,
        *,
        reserved_cpus: int | CpuSet,
        options: CpuOptions | None = None,
    ) -> None:
        self.options = options or CpuOptions()
        self._machine = machine
        self._all: CpuSet = frozenset(cpu.id for cpu in machine.cpus)
        self._group = machine.threads_per_core if self.options.full_cores_only else 1
        self._take = TakeOptions(
            distribute_over_nodes=self.options.distribute_over_nodes,
            align_by_cache=self.options.align_by_cache,
            spread_over_cores=self.options.distribute_over_cores,
            group_size=self._group,
        )
        if not reserved_cpus:
            raise CallerError(
                "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu "
                "to be greater than zero"
            )
        if isinstance(reserved_cpus, int):
            number = min(reserved_cpus, machine.cpu_count)
            self.reserved: CpuSet = take(machine, self._all, number)
        else:
            self.reserved = reserved_cpus
        siblings = {machine.cpus[cpu].core for cpu in self.reserved if cpu < machine.cpu_count}
        self._reserved_cores: CpuSet = frozenset(cpu.id for cpu in machine.cpus if cpu.core in siblings)
        self._reusable_for = ""
        self._reusable: CpuSet = frozenset()

    # -- start --

    def check(self, state: CpuState) -> None:
        """Fill a fresh state, or see that a restored one fits the machine; raises ``PeerError``."""
        whole = self._all - self.reserved if self.options.strict_reservation else self._all
        if not state.default:
            if state.entries:
                raise PeerError("default cpuset cannot be empty")
            state.default = whole
            return
        if self.options.strict_reservation:
            if self.reserved & state.default:
                raise PeerError(
                    f'some of strictly reserved cpus: "{format_cpus(self.reserved & state.default)}" '
                    f'are present in defaultCpuSet: "{format_cpus(state.default)}"'
                )
        elif not self.reserved <= state.default:
            raise PeerError(
                f'not all reserved cpus: "{format_cpus(self.reserved)}" '
                f'are present in defaultCpuSet: "{format_cpus(state.default)}"'
            )
        known = set(state.default)
        for uid, containers in state.entries.items():
            for name, cpus in containers.items():
                if cpus & state.default:
                    raise PeerError(
                        f'pod: {uid}, container: {name} cpuset: "{format_cpus(cpus)}" '
                        f'overlaps with default cpuset "{format_cpus(state.default)}"'
                    )
                known |= cpus
        if known != whole:
            raise PeerError(
                f'current set of available CPUs "{format_cpus(whole)}" '
                f'doesn\'t match with CPUs in state "{format_cpus(known)}"'
            )

    # -- allocation --

    def available(self, state: CpuState) -> CpuSet:
        """CPUs that may become exclusive."""
        return state.default - self.reserved

    def reusable(self, uid: str) -> CpuSet:
        """CPUs of init containers that later containers of the same pod may take."""
        return self._reusable if self._reusable_for == uid else frozenset()

    def allocate(self, state: CpuState, pod: Pod, container: Container, hint: Hint | None) -> bool:
        """Give a container its CPUs; whether the state has changed.

        Raises ``AllocationRefused`` (SMTAlignmentError) or ``PeerError``.
        """
        number, uid = guaranteed_cpus(pod, container), pod.metadata.uid
        if number == 0:
            return False
        self._check_cores(state, uid, number)
        held = state.get(uid, container.name)
        if held is not None:
            self._settle(pod, container, held)
            return False
        pool = self.available(state) | self.reusable(uid)
        chosen: CpuSet = frozenset()
        if hint is not None and hint.mask is not None:
            aligned = self._aligned(hint.mask) & pool
            chosen = take(self._machine, aligned, min(number, len(aligned)), self._take)
        chosen |= take(self._machine, pool - chosen, number - len(chosen), self._take)
        state.default -= chosen
        state.put(uid, container.name, chosen)
        self._settle(pod, container, chosen)
        return True

    def _check_cores(self, state: CpuState, uid: str, number: int) -> None:
        if not self.options.full_cores_only:
            return
        threads = self._machine.threads_per_core
        if number % threads:
            raise AllocationRefused(
                "SMTAlignmentError",
                f"SMT Alignment Error: requested {number} cpus not multiple cpus per core = {threads}",
            )
        free = len((self.available(state) - self._reserved_cores) | self.reusable(uid))
        if number > free:
            raise AllocationRefused(
                "SMTAlignmentError",
                "SMT Alignment Error: not enough free physical CPUs: "
                f"available physical CPUs = {free}, requested CPUs = {number}, CPUs per core = {threads}",
            )

    def _aligned(self, mask: int) -> CpuSet:
        nodes: Collection[int] = nodes_of(mask)
        if self.options.align_by_socket:
            sockets = {node // self._machine.nodes_per_socket for node in nodes}
            nodes = [n for n in self._machine.nodes if n // self._machine.nodes_per_socket in sockets]
        return frozenset(self._machine.cpus_on(nodes))

    def _settle(self, pod: Pod, container: Container, cpus: CpuSet) -> None:
        uid = pod.metadata.uid
        before = self.reusable(uid)
        plain = any(
            one.name == container.name and one.restart_policy != "Always" for one in pod.spec.init_containers
        )
        self._reusable_for = uid
        self._reusable = before | cpus if plain else before - cpus

    def release(self, state: CpuState, uid: str, container: str) -> None:
        """Give back what a container has and its siblings do not share."""
        held = state.get(uid, container)
        if held is None:
            return
        state.delete(uid, container)
        for cpus in state.entries.get(uid, {}).values():
            held -= cpus
        state.default |= held

    # -- hints --

    def container_hints(self, state: CpuState, pod: Pod, container: Container) -> ProviderHints:
        """Hints of one container; none for one that shares (DEV-137)."""
        number, uid = guaranteed_cpus(pod, container), pod.metadata.uid
        if number == 0:
            return {}
        held = state.get(uid, container.name)
        if held is not None:
            return {"cpu": self._generate(held, frozenset(), number) if len(held) == number else []}
        return {"cpu": self._generate(self.available(state), self.reusable(uid), number)}

    def pod_hints(self, state: CpuState, pod: Pod) -> ProviderHints:
        """Hints of a pod as a whole."""
        number, uid = _pod_cpus(pod), pod.metadata.uid
        if number == 0:
            return {}
        assigned: CpuSet = frozenset()
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            held = state.get(uid, container.name)
            if held is not None:
                if len(held) != guaranteed_cpus(pod, container):
                    return {"cpu": []}
                assigned |= held
        if len(assigned) == number:
            return {"cpu": self._generate(assigned, frozenset(), number)}
        reusable = self.reusable(uid) | assigned
        return {"cpu": self._generate(self.available(state), reusable, number)}

    def _generate(self, available: CpuSet, reusable: CpuSet, number: int) -> list[Hint]:
        machine = self._machine
        smallest = machine.node_count
        per_node = machine.cores_per_node * machine.threads_per_core
        free = _by_node(machine, available - reusable)
        kept = mask_of({machine.cpus[cpu].node for cpu in reusable})
        found: list[int] = []
        for mask in subsets(machine.nodes):
            size = mask.bit_count()
            if per_node * size >= number:
                smallest = min(smallest, size)
            if kept & ~mask:
                continue
            if len(reusable) + sum(free[node] for node in nodes_of(mask)) >= number:
                found.append(mask)
        return [Hint(mask, self._is_preferred(mask, smallest)) for mask in found]

    def _is_preferred(self, mask: int, smallest: int) -> bool:
        if mask.bit_count() == smallest:
            return True
        if not self.options.align_by_socket:
            return False
        per_socket = self._machine.nodes_per_socket
        used = {node // per_socket for node in nodes_of(mask)}
        return len(used) <= -(-smallest // per_socket)


def _by_node(machine: MachineTopology, cpus: CpuSet) -> list[int]:
    counts = [0] * machine.node_count
    for cpu in cpus:
        counts[machine.cpus[cpu].node] += 1
    return counts


def _pod_cpus(pod: Pod) -> int:
    """Exclusive CPUs that a pod needs at its peak."""
    peak = sidecars = 0
    for container in pod.spec.init_containers:
        number = guaranteed_cpus(pod, container)
        if container.restart_policy == "Always":
            sidecars += number
        else:
            peak = max(peak, sidecars + number)
    return max(peak, sidecars + sum(guaranteed_cpus(pod, container) for container in pod.spec.containers))
