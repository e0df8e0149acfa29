"""One generation of a pod's status; mirrors generateAPIPodStatus of pkg/kubelet/kubelet_pods.go (pure).

The order of the steps is part of the contract (STA-101): the phase is decided before probe results are filled
in, a deadline overrides it afterwards, and the conditions see the phase that comes out at the end. The result
is what the status manager is then asked to store; nothing here has an effect on anything else.
"""

from collections.abc import Callable, Mapping, Sequence

from attrs import field, frozen

from kubelet_emu.api.qos import pod_qos
from kubelet_emu.api.types import HostIP, Pod, PodCondition, PodIP, PodStatus, ResourceStatus
from kubelet_emu.bugs import AS_RELEASED, Deviations
from kubelet_emu.container.runtime import RuntimePodStatus
from kubelet_emu.evolving import evolve
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime.restart_rules import should_all_containers_restart
from kubelet_emu.status import conditions as make
from kubelet_emu.status import constants as k
from kubelet_emu.status.addresses import host_network_ips, parse_address, sort_pod_ips
from kubelet_emu.status.container_statuses import (
    ConvertInput,
    ReasonCache,
    convert_container_statuses,
)
from kubelet_emu.status.phase import decide_phase
from kubelet_emu.status.pods import all_statuses, cached_condition, is_terminal
from kubelet_emu.status.resources import with_pod_resources
from kubelet_emu.why import Why

__all__ = ["FillProbes", "GeneratedStatus", "StatusInput", "generate_status", "pod_has_initialized"]

FillProbes = Callable[[Pod, PodStatus], PodStatus]
"""Fills ``started`` and ``ready`` of a status from probe results (STA-401 to STA-405)."""


def no_reasons(uid: str, name: str) -> tuple[str, str] | None:
    """The reason cache of a kubelet that has just started: empty (STA-313)."""
    del uid, name
    return None


@frozen(kw_only=True)
class StatusInput:
    """Everything one generation looks at.

    ``old`` is the status manager's cached status, None if it has none: the API status is taken then.
    ``host_ips`` are the node's addresses, empty for a kubelet without an API client (STA-903); ``node_ips``
    are those configured, for the order of families (STA-901). ``resize_conditions`` come from the status
    manager (STA-512). ``device_health`` gives ``allocatedResourcesStatus`` by container name (STA-1004).
    """

    pod: Pod
    runtime: RuntimePodStatus
    gates: Gates
    old: PodStatus | None = None
    pod_is_terminal: bool = False
    reason_cache: ReasonCache = no_reasons
    fill_probes: FillProbes
    deadline_exceeded: bool = False
    host_ips: tuple[str, ...] = ()
    node_ips: tuple[str, ...] = ()
    resize_conditions: tuple[PodCondition, ...] = ()
    device_health: Mapping[str, Sequence[ResourceStatus]] = field(
        factory=dict[str, Sequence[ResourceStatus]], eq=False
    )
    runtime_name: str = "containerd"
    deviations: Deviations = AS_RELEASED

    @property
    def old_status(self) -> PodStatus:
        """The cached status, else the API's (STA-101 step 1)."""
        return self.old if self.old is not None else self.pod.status


@frozen
class GeneratedStatus:
    """A status, the rules behind it, and whether the runtime step has to remove all containers (STA-510)."""

    status: PodStatus
    why: tuple[Why, ...]
    restart_all_containers: bool


def pod_has_initialized(pod: Pod, runtime: RuntimePodStatus) -> bool:
    """Whether some regular container has a record, in any state, in the active sandbox (STA-201)."""
    names = {container.name for container in pod.spec.containers}
    return any(record.name in names for record in runtime.active)


def generate_status(given: StatusInput) -> GeneratedStatus:
    """All steps of STA-101, in order (RST-120, RST-174, STA-606)."""
    restart = should_all_containers_restart(given.pod, given.runtime, given.old_status)
    restarting_all = given.gates.restart_all and restart.yes
    status, why = _convert(given, restarting_all=restarting_all)
    status = _with_phase(given, status, why)
    status = given.fill_probes(given.pod, status)
    status = _with_device_health(given, status)
    status = _with_conditions(given, status, why, restarting_all=restarting_all)
    status = _with_host_addresses(given, status)
    condition = cached_condition(status.conditions, k.ALL_CONTAINERS_RESTARTING)
    restart_all = condition is not None and condition.status == "True"
    return GeneratedStatus(status, tuple(why), restart_all)


def _convert(given: StatusInput, *, restarting_all: bool) -> tuple[PodStatus, list[Why]]:
    """Step 2: addresses, QoS class, container statuses, pod-level resources."""
    pod, old = given.pod, given.old_status
    ips = sort_pod_ips(given.runtime.ips, given.node_ips)
    source = ConvertInput(
        pod=pod,
        runtime=given.runtime,
        reason_cache=given.reason_cache,
        gates=given.gates,
        runtime_name=given.runtime_name,
        restarting_all=restarting_all,
        deviations=given.deviations,
    )
    spec = pod.spec
    regular = convert_container_statuses(source, spec.containers, old.container_statuses, kind="regular")
    init = convert_container_statuses(source, spec.init_containers, old.init_container_statuses, kind="init")
    ephemeral = convert_container_statuses(
        source, spec.ephemeral_containers, old.ephemeral_container_statuses, kind="ephemeral"
    )
    status = PodStatus(
        pod_ip=ips[0] if ips else None,
        pod_ips=tuple(PodIP(ip=ip) for ip in ips),
        qos_class=pod_qos(pod),
        container_statuses=regular.statuses,
        init_container_statuses=init.statuses,
        ephemeral_container_statuses=ephemeral.statuses,
    )
    status = with_pod_resources(pod, status, given.gates)
    why = [Why("RST-121")] if restarting_all else []
    return status, [*why, *init.why, *regular.why, *ephemeral.why]


def _with_phase(given: StatusInput, status: PodStatus, why: list[Why]) -> PodStatus:
    """Steps 3 to 7: phase with its reason and message."""
    pod, old, api = given.pod, given.old_status, given.pod.status
    decision = decide_phase(
        pod,
        all_statuses(status),
        pod_is_terminal=given.pod_is_terminal,
        pod_has_initialized=pod_has_initialized(pod, given.runtime),
        gates=given.gates,
    )
    why.extend(decision.why)
    phase = decision.phase
    if not is_terminal(phase):
        for earlier in (old.phase, api.phase):
            if earlier and is_terminal(earlier):
                phase = earlier
                why.append(Why("STA-101", "step 4"))
                break
    reason: str | None = None
    message: str | None = None
    if phase == old.phase:
        reason, message = old.reason or api.reason, old.message or api.message
    if given.deadline_exceeded:
        phase, reason, message = k.FAILED, k.DEADLINE_REASON, k.DEADLINE_MESSAGE
        why.append(Why("POD-1101"))
    if api.phase and is_terminal(api.phase) and phase != api.phase:
        phase = api.phase
        why.append(Why("STA-101", "step 7"))
    return evolve(status, phase=phase, reason=reason, message=message)


def _with_device_health(given: StatusInput, status: PodStatus) -> PodStatus:
    """Step 8, second half: health of allocated devices, regular containers only (STA-1004)."""
    if not given.device_health or not given.gates.enabled("ResourceHealthStatus"):
        return status
    return evolve(
        status,
        container_statuses=tuple(
            evolve(container, allocated_resources_status=tuple(given.device_health.get(container.name, ())))
            for container in status.container_statuses
        ),
    )


def _with_conditions(
    given: StatusInput, status: PodStatus, why: list[Why], *, restarting_all: bool
) -> PodStatus:
    """Step 9: conditions in the order of STA-501."""
    pod, old, gates = given.pod, given.old_status, given.gates
    phase = status.phase or k.PENDING
    statuses = all_statuses(status)
    built = [c for c in pod.status.conditions if c.type not in k.OWNED_CONDITIONS]
    if not given.pod_is_terminal:
        built += given.resize_conditions
    disruption = cached_condition(old.conditions, k.DISRUPTION_TARGET)
    if disruption is not None:
        built = _replace_or_append(built, disruption)

    def add(condition: tuple[PodCondition, tuple[Why, ...]]) -> None:
        built.append(condition[0])
        why.extend(Why(fired.rule, fired.about or condition[0].type) for fired in condition[1])

    if gates.enabled("PodReadyToStartContainersCondition"):
        add(make.ready_to_start_containers(pod, given.runtime))
    add(make.initialized(pod, old, statuses, phase, gates))
    add(make.pod_ready(pod, tuple(built), statuses, phase))
    add(make.containers_ready(pod, statuses, phase))
    add(make.pod_scheduled(pod))
    if gates.restart_all:
        restarting = make.all_containers_restarting(
            pod, given.runtime, phase, restarting_all=restarting_all, deviations=given.deviations
        )
        if restarting is not None:
            add(restarting)
    return evolve(status, conditions=tuple(built))


def _replace_or_append(conditions: list[PodCondition], new: PodCondition) -> list[PodCondition]:
    if any(condition.type == new.type for condition in conditions):
        return [new if condition.type == new.type else condition for condition in conditions]
    return [*conditions, new]


def _with_host_addresses(given: StatusInput, status: PodStatus) -> PodStatus:
    """Step 10: only with an API client (STA-903)."""
    hosts = [ip for ip in (parse_address(host) for host in given.host_ips[:2]) if ip is not None]
    if not hosts:
        return status
    status = evolve(status, host_ip=hosts[0], host_ips=tuple(HostIP(ip=ip) for ip in hosts))
    if not given.pod.spec.host_network:
        return status
    ips = host_network_ips([entry.ip for entry in status.pod_ips], hosts)
    return evolve(status, pod_ip=ips[0] if ips else None, pod_ips=tuple(PodIP(ip=ip) for ip in ips))
