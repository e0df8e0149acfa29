"""May this pod run on this node? The admission handlers in order, with the texts of their refusals (pure).

Mirrors ``pkg/kubelet/lifecycle`` and the admit handlers of the eviction, sysctl and shutdown managers
(POD-401 to POD-411, NOD-30 to NOD-40, NOD-53, RST-009).

Allocation of devices, CPUs and memory stands in the middle of the order and acts on the world, so the
decision has two halves: ``before_allocation``, then the managers (``allocation_refused`` words a failure),
then ``after_allocation``.
"""

from collections.abc import Sequence

from attrs import evolve, field, frozen

from kubelet_emu.api.qos import pod_qos
from kubelet_emu.api.types import Node, Pod, PodStatus, Taint
from kubelet_emu.gates import Gates
from kubelet_emu.node_fit import NODE_AFFINITY, Failure, fit, tolerates
from kubelet_emu.pod_update import is_critical_pod
from kubelet_emu.preemption import victims
from kubelet_emu.why import Why

__all__ = [
    "Admission",
    "AdmissionInput",
    "Refusal",
    "after_allocation",
    "allocation_refused",
    "before_allocation",
    "metric_reason",
    "needed_features",
    "rejected_status",
]

_MEMORY_PRESSURE_TAINT = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")
_OS = "linux"
_OS_LABEL = "kubernetes.io/os"

_IPC_SYSCTLS = frozenset({"kernel.shm_rmid_forced"})
_NET_SYSCTLS = frozenset(
    {
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)

_METRIC_REASONS = frozenset(
    {
        "AppArmor",
        "Evicted",
        "InvalidNodeInfo",
        "NodeShutdown",
        "OutOfcpu",
        "OutOfephemeral-storage",
        "OutOfmemory",
        "OutOfpods",
        "PodFeatureUnsupported",
        "PodLevelResourcesNotSupported",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "SupplementalGroupsPolicyNotSupported",
        "SysctlForbidden",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
    }
)


@frozen
class Refusal:
    """Why a pod may not run; ``message`` is the text of the Warning event of the same reason (POD-407)."""

    reason: str
    message: str


@frozen(kw_only=True)
class AdmissionInput:
    """What the handlers look at.

    ``others`` are the active pods without this one, with their allocated resources. ``node`` is None while
    it cannot be read. ``pressures`` are node conditions such as ``MemoryPressure`` in the node's order.
    ``allowed_sysctls`` are names or prefixes ending in ``*`` beyond the safe ones.
    """

    pod: Pod
    others: Sequence[Pod] = ()
    node: Node | None
    gates: Gates = field(factory=Gates)
    pressures: Sequence[str] = ()
    allowed_sysctls: Sequence[str] = ()
    plugin_error: str = ""
    apparmor_error: str = ""
    shutting_down: bool = False
    node_is_fresh: bool = False


@frozen
class Admission:
    """The verdict. A pod is admitted if there is no refusal, once ``victims`` are killed (POD-405).

    ``refetch_node`` asks to read the node from the API and to decide again with ``node_is_fresh`` (POD-403).
    """

    refusal: Refusal | None = None
    victims: tuple[Pod, ...] = ()
    refetch_node: bool = False
    why: tuple[Why, ...] = ()


def before_allocation(given: AdmissionInput) -> Admission:
    """Eviction and sysctls (POD-401 rows 2 and 3)."""
    for check in (_under_pressure, _sysctls):
        refusal = check(given)
        if refusal is not None:
            return _refused(refusal)
    return Admission(why=(Why("POD-401", "before allocation"),))


def allocation_refused(
    error: str, *, topology: bool = False, reason: str = "UnexpectedAdmissionError"
) -> Refusal:
    """The failure of a resource manager in words (POD-401 row 4, NOD-33)."""
    if topology:
        text = error or "Resources cannot be allocated with Topology locality"
        return Refusal("TopologyAffinityError", text)
    if reason != "UnexpectedAdmissionError":
        return Refusal(reason, error)
    return Refusal(reason, f"Allocate failed due to {error}, which is unexpected")


def after_allocation(given: AdmissionInput) -> Admission:
    """Predicates, AppArmor, declared features, node shutdown (POD-401 rows 5 to 9)."""
    verdict = _predicates(given)
    if verdict.refusal is not None or verdict.refetch_node:
        return verdict
    for check in (_apparmor, _features, _shutdown):
        refusal = check(given)
        if refusal is not None:
            return _refused(refusal)
    return verdict


def _refused(refusal: Refusal) -> Admission:
    return Admission(refusal, why=(Why("POD-401", refusal.reason),))


# --- handlers -------------------------------------------------------------------------------------------


def _under_pressure(given: AdmissionInput) -> Refusal | None:
    """POD-406, NOD-53."""
    pod = given.pod
    if not given.pressures or is_critical_pod(pod):
        return None
    if list(given.pressures) == ["MemoryPressure"] and (
        pod_qos(pod) != "BestEffort" or tolerates(pod.spec.tolerations, _MEMORY_PRESSURE_TAINT)
    ):
        return None
    return Refusal("Evicted", f"The node had condition: [{' '.join(given.pressures)}]. ")


def _sysctls(given: AdmissionInput) -> Refusal | None:
    context = given.pod.spec.security_context
    for sysctl in context.sysctls if context is not None else ():
        name = sysctl.name.replace("/", ".")
        problem = _sysctl_problem(name, given)
        if problem:
            return Refusal("SysctlForbidden", f"forbidden sysctl: {problem}")
    return None


def _sysctl_problem(name: str, given: AdmissionInput) -> str:
    spec = given.pod.spec
    listed = name in _IPC_SYSCTLS or name in _NET_SYSCTLS
    listed = listed or any(_pattern_matches(pattern, name) for pattern in given.allowed_sysctls)
    if not listed:
        return f'"{name}" not allowlisted'
    if name.startswith("net.") and spec.host_network:
        return f'"{name}" not allowed with host Net enabled'
    if name.startswith(("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")) and spec.host_ipc:
        return f'"{name}" not allowed with host IPC enabled'
    return ""


def _pattern_matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _predicates(given: AdmissionInput) -> Admission:
    """POD-402 to POD-404."""
    pod, node = given.pod, given.node
    if node is None:
        return _refused(Refusal("InvalidNodeInfo", "Kubelet cannot get node info."))
    refusal = _os_and_groups(pod, node)
    if refusal is None and given.plugin_error:
        text = f"Update plugin resources failed due to {given.plugin_error}, which is unexpected."
        refusal = Refusal("UnexpectedAdmissionError", text)
    if refusal is not None:
        return _refused(refusal)
    failures = fit(pod, given.others, node)
    if [failure.reason for failure in failures] == [NODE_AFFINITY] and not given.node_is_fresh:
        return Admission(refetch_node=True, why=(Why("POD-403"),))
    if not failures:
        return Admission(why=(Why("POD-402"),))
    return _make_room(given, failures) if is_critical_pod(pod) else _first(failures)


def _first(failures: Sequence[Failure]) -> Admission:
    return _refused(Refusal(failures[0].reason, failures[0].message))


def _make_room(given: AdmissionInput, failures: Sequence[Failure]) -> Admission:
    """A critical pod is never refused for resources (POD-404)."""
    others = [failure for failure in failures if failure.shortage is None]
    if others:
        return _first(others)
    shortages = [failure.shortage for failure in failures if failure.shortage is not None]
    found = victims(given.pod, given.others, shortages)
    if found.error:
        text = f"Unexpected error while attempting to recover from admission failure: {found.error}"
        return _refused(Refusal("UnexpectedAdmissionError", text))
    return Admission(victims=found.pods, why=(Why("POD-404", given.pod.metadata.name),))


def _os_and_groups(pod: Pod, node: Node) -> Refusal | None:
    label = pod.metadata.labels.get(_OS_LABEL)
    if label is not None and label != node.metadata.labels.get(_OS_LABEL, _OS):
        text = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
        return Refusal("PodOSSelectorNodeLabelDoesNotMatch", text)
    if pod.spec.os is not None and pod.spec.os.name != _OS:
        return Refusal("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    context = pod.spec.security_context
    features = node.status.features
    strict = context is not None and context.supplemental_groups_policy == "Strict"
    if strict and not (features is not None and features.supplemental_groups_policy):
        text = "SupplementalGroupsPolicy=Strict is not supported in this node"
        return Refusal("SupplementalGroupsPolicyNotSupported", text)
    return None


def _apparmor(given: AdmissionInput) -> Refusal | None:
    if given.apparmor_error and (given.pod.status.phase or "Pending") == "Pending":
        return Refusal("AppArmor", f"Cannot enforce AppArmor: {given.apparmor_error}")
    return None


def needed_features(pod: Pod) -> tuple[str, ...]:
    """Node features without which the pod cannot run here, sorted (RST-008, NOD-20)."""
    spec = pod.spec
    needed: list[str] = []
    rules = (rule for c in (*spec.init_containers, *spec.containers) for rule in c.restart_policy_rules)
    if any(rule.action == "RestartAllContainers" for rule in rules):
        needed.append("RestartAllContainersOnContainerExits")
    if spec.host_network and spec.host_users is False:
        needed.append("UserNamespacesHostNetworkSupport")
    return tuple(needed)


def _features(given: AdmissionInput) -> Refusal | None:
    if given.node is None or not given.gates.enabled("NodeDeclaredFeatures"):
        return None
    declared = given.node.status.declared_features
    missing = [feature for feature in needed_features(given.pod) if feature not in declared]
    if not missing:
        return None
    text = f"Pod requires node features that are not available: {', '.join(missing)}"
    return Refusal("PodFeatureUnsupported", text)


def _shutdown(given: AdmissionInput) -> Refusal | None:
    if not given.shutting_down:
        return None
    return Refusal("NodeShutdown", "Pod was rejected as the node is shutting down.")


# --- what a refusal does --------------------------------------------------------------------------------


def rejected_status(pod: Pod, refusal: Refusal) -> PodStatus:
    """The whole status of a pod that was refused (POD-407, NOD-31)."""
    return PodStatus(
        phase="Failed",
        reason=refusal.reason,
        message=f"Pod was rejected: {refusal.message}",
        qos_class=pod_qos(evolve(pod, status=PodStatus())),
    )


def metric_reason(reason: str) -> str:
    """The label of ``kubelet_admission_rejections_total`` (POD-411)."""
    if reason in _METRIC_REASONS:
        return reason
    return "OutOfExtendedResources" if reason.startswith("OutOf") else "Other"
