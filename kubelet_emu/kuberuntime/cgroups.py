"""Linux resources of containers and sandboxes: CPU shares and quota, memory limit, OOM score (pure).

Mirrors ``pkg/kubelet/kuberuntime/kuberuntime_container_linux.go``, ``helpers_linux.go`` and
``pkg/kubelet/qos/policy.go``.
"""

from collections.abc import Mapping

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.api.qos import BEST_EFFORT, GUARANTEED, pod_qos
from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.resources import aggregate_limits, aggregate_requests
from kubelet_emu.api.types import Container, Pod
from kubelet_emu.kuberuntime.action_types import ResourceAmounts
from kubelet_emu.kuberuntime.restart_rules import is_sidecar
from kubelet_emu.kuberuntime.seams import NodeFacts

__all__ = [
    "GUARANTEED",
    "container_resources",
    "cpu_quota",
    "cpu_shares",
    "linux_resources",
    "oom_score_adjust",
    "overhead_resources",
    "pod_qos",
    "sandbox_resources",
    "update_resources",
]

_QUOTA_PERIOD_US = 100_000
_MIN_QUOTA_US = 1000
_MIN_SHARES = 2
_MAX_SHARES = 262_144
_GUARANTEED_OOM = -997
_BEST_EFFORT_OOM = 1000
_HUGEPAGES = "hugepages-"


def cpu_shares(milli: int) -> int:
    """CPU shares of a request in thousandths of a core."""
    return min(max(milli * 1024 // 1000, _MIN_SHARES), _MAX_SHARES)


def cpu_quota(milli: int) -> int:
    """CFS quota in microseconds per 100 ms of a limit; 0 for no limit."""
    return max(milli * _QUOTA_PERIOD_US // 1000, _MIN_QUOTA_US) if milli else 0


def linux_resources(
    requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]
) -> cri.LinuxContainerResources:
    """CPU and memory settings; a missing CPU request is taken from the limit."""
    limit = limits["cpu"].milli_value() if "cpu" in limits else 0
    request = requests["cpu"].milli_value() if "cpu" in requests else limit
    return cri.LinuxContainerResources(
        cpu_period=_QUOTA_PERIOD_US,
        cpu_quota=cpu_quota(limit),
        cpu_shares=cpu_shares(request),
        memory_limit_in_bytes=limits["memory"].value() if "memory" in limits else 0,
    )


def _memory_score(memory_bytes: int, capacity_bytes: int) -> int:
    return 1000 - 1000 * memory_bytes // max(capacity_bytes, 1)


def _memory_request(container: Container) -> int:
    quantity = container.resources.requests.get("memory")
    return quantity.value() if quantity is not None else 0


def oom_score_adjust(pod: Pod, container: Container, capacity_bytes: int) -> int:
    """How ready the kernel is to kill the container: -997 guaranteed, 1000 best effort, 3 to 999 between.

    A sidecar's score is never above that of the regular container with the least memory.
    """
    if pod.spec.priority_class_name == "system-node-critical":
        return _GUARANTEED_OOM
    quality = pod_qos(pod)
    if quality == GUARANTEED:
        return _GUARANTEED_OOM
    if quality == BEST_EFFORT:
        return _BEST_EFFORT_OOM
    score = _memory_score(_memory_request(container), capacity_bytes)
    names = {init.name for init in pod.spec.init_containers if is_sidecar(init)}
    if container.name in names and pod.spec.containers:
        least = min(_memory_request(regular) for regular in pod.spec.containers)
        score = min(score, _memory_score(least, capacity_bytes))
    if score < 1000 + _GUARANTEED_OOM:
        return 1000 + _GUARANTEED_OOM
    return _BEST_EFFORT_OOM - 1 if score == _BEST_EFFORT_OOM else score


def _page_size_name(resource: str) -> str:
    """``hugepages-2Mi`` as the kernel names the size: ``2MB``."""
    return resource.removeprefix(_HUGEPAGES).replace("i", "") + "B"


def container_resources(pod: Pod, container: Container, node: NodeFacts) -> cri.LinuxContainerResources:
    """The resources stanza of a CreateContainer request."""
    limits = container.resources.limits
    resources = linux_resources(container.resources.requests, limits)
    resources.oom_score_adj = oom_score_adjust(pod, container, node.memory_capacity_bytes)
    pages = {_page_size_name(name): q.value() for name, q in limits.items() if name.startswith(_HUGEPAGES)}
    for size in node.hugepage_sizes:
        resources.hugepage_limits.add(page_size=size, limit=pages.get(size, 0))
    return resources


def sandbox_resources(pod: Pod) -> cri.LinuxContainerResources:
    """The pod's sum as a sandbox config carries it, overhead apart."""
    return linux_resources(aggregate_requests(pod.spec), aggregate_limits(pod.spec))


def overhead_resources(pod: Pod) -> cri.LinuxContainerResources:
    """The runtime class's overhead; empty without one."""
    if not pod.spec.overhead:
        return cri.LinuxContainerResources()
    return linux_resources(pod.spec.overhead, pod.spec.overhead)


def update_resources(
    resource: str, desired: ResourceAmounts, current: ResourceAmounts
) -> cri.LinuxContainerResources:
    """The request of an in-place update of one resource: the other one keeps its present value (CRI-150)."""
    cpu = desired if resource == "cpu" else current
    memory = desired if resource == "memory" else current
    return cri.LinuxContainerResources(
        cpu_period=_QUOTA_PERIOD_US,
        cpu_quota=cpu_quota(cpu.cpu_limit_milli),
        cpu_shares=cpu_shares(cpu.cpu_request_milli or cpu.cpu_limit_milli),
        memory_limit_in_bytes=memory.memory_limit_bytes,
    )
