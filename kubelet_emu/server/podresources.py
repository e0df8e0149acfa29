"""The PodResources API v1: which devices, CPUs, memory and claims the containers of this node have.

Mirrors ``pkg/kubelet/apis/podresources/server_v1.go`` and ``pkg/kubelet/apis/grpc/ratelimit.go`` (DEV section
14). Values are assignments, not what the runtime holds: a pod shows its devices before it has a container
(DEV-147).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import trio
from attrs import frozen

from k8s_proto import podresources_v1_pb2 as pb
from kubelet_emu.api.types import Container, Pod
from kubelet_emu.pod_update import uid_of
from node_host.clock import NodeClock
from trio_grpc import Call, Code, StatusError, Transport
from trio_grpc.services.podresources_v1 import PodResourcesListerHandler

__all__ = [
    "SOCKET",
    "Assigned",
    "ClaimedDevice",
    "DynamicClaim",
    "MemoryBlock",
    "PodResources",
    "RateLimit",
    "ResourceView",
    "serve_pod_resources",
]

SOCKET = "pod-resources/kubelet.sock"
"""The socket, below the kubelet's root directory."""

RATE_PER_SECOND = 100.0
BURST = 10

Requests = Callable[[str, bool], None]


@frozen
class Assigned:
    """One device on one NUMA node; ``node`` None has no topology (DEV-143)."""

    resource: str
    id: str
    node: int | None = None


@frozen
class MemoryBlock:
    """Memory or hugepages on a set of NUMA nodes."""

    type: str
    size_bytes: int
    nodes: tuple[int, ...] = ()


@frozen(kw_only=True)
class ClaimedDevice:
    """One prepared device of a claim."""

    driver: str
    pool: str
    device: str
    cdi_ids: tuple[str, ...] = ()
    share_id: str | None = None


@frozen(kw_only=True)
class DynamicClaim:
    """A ResourceClaim that a container uses, with its devices."""

    name: str
    namespace: str
    devices: tuple[ClaimedDevice, ...] = ()


class ResourceView(Protocol):
    """What the service reads of its kubelet."""

    def collect(self) -> None:
        """Drop what pods that are gone held (DEV-063)."""
        ...

    def active_pods(self) -> Sequence[Pod]: ...

    def devices(self, uid: str, container: str) -> Iterable[Assigned]: ...

    def cpus(self, uid: str, container: str) -> Sequence[int]:
        """Exclusive CPUs only (DEV-146)."""
        ...

    def memory(self, uid: str, container: str) -> Iterable[MemoryBlock]: ...

    def claims(self, pod: Pod, container: Container) -> Iterable[DynamicClaim]: ...

    def allocatable_devices(self) -> Iterable[Assigned]:
        """Healthy devices, in use or not (DEV-144)."""
        ...

    def allocatable_cpus(self) -> Sequence[int]: ...

    def allocatable_memory(self) -> Iterable[MemoryBlock]: ...


class RateLimit:
    """A token bucket for the whole server (DEV-141)."""

    def __init__(self, clock: NodeClock, *, per_second: float = RATE_PER_SECOND, burst: int = BURST) -> None:
        self._clock = clock
        self._per_second = per_second
        self._burst = float(burst)
        self._tokens = float(burst)
        self._at_seconds = clock.elapsed_seconds()

    def take(self) -> None:
        """Take a token. Raises ``StatusError`` (RESOURCE_EXHAUSTED) where there is none."""
        now = self._clock.elapsed_seconds()
        self._tokens = min(self._burst, self._tokens + (now - self._at_seconds) * self._per_second)
        self._at_seconds = now
        if self._tokens < 1.0:
            raise StatusError(Code.RESOURCE_EXHAUSTED, "rejected by rate limit")
        self._tokens -= 1.0


def _uncounted(_: str, __: bool) -> None:
    return


class PodResources(PodResourcesListerHandler):
    """The service. ``counted(call, failed)`` is told of each call: ``list``, ``get``, ``get_allocatable``."""

    def __init__(self, view: ResourceView, limit: RateLimit, *, counted: Requests = _uncounted) -> None:
        self._view = view
        self._limit = limit
        self._counted = counted

    async def List(self, request: pb.ListPodResourcesRequest, call: Call) -> pb.ListPodResourcesResponse:
        """All active pods, those without any device too (DEV-142)."""
        self._limit.take()
        self._view.collect()
        self._counted("list", False)
        return pb.ListPodResourcesResponse(pod_resources=[self._pod(pod) for pod in self._view.active_pods()])

    async def Get(self, request: pb.GetPodResourcesRequest, call: Call) -> pb.GetPodResourcesResponse:
        """One active pod by name and namespace; nothing is collected (DEV-145)."""
        self._limit.take()
        for pod in self._view.active_pods():
            where = (pod.metadata.name, pod.metadata.namespace or "default")
            if where == (request.pod_name, request.pod_namespace):
                self._counted("get", False)
                return pb.GetPodResourcesResponse(pod_resources=self._pod(pod))
        self._counted("get", True)
        raise StatusError(
            Code.UNKNOWN, f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        )

    async def GetAllocatableResources(
        self, request: pb.AllocatableResourcesRequest, call: Call
    ) -> pb.AllocatableResourcesResponse:
        """What could be given to pods, in use or not."""
        self._limit.take()
        self._counted("get_allocatable", False)
        return pb.AllocatableResourcesResponse(
            devices=[_device(each) for each in self._view.allocatable_devices()],
            cpu_ids=self._view.allocatable_cpus(),
            memory=[_memory(each) for each in self._view.allocatable_memory()],
        )

    def _pod(self, pod: Pod) -> pb.PodResources:
        sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
        return pb.PodResources(
            name=pod.metadata.name,
            namespace=pod.metadata.namespace or "default",
            containers=[self._container(pod, each) for each in (*sidecars, *pod.spec.containers)],
        )

    def _container(self, pod: Pod, container: Container) -> pb.ContainerResources:
        uid, view = uid_of(pod), self._view
        return pb.ContainerResources(
            name=container.name,
            devices=[_device(each) for each in view.devices(uid, container.name)],
            cpu_ids=view.cpus(uid, container.name),
            memory=[_memory(each) for each in view.memory(uid, container.name)],
            dynamic_resources=[_claim(each) for each in view.claims(pod, container)],
        )


def _device(assigned: Assigned) -> pb.ContainerDevices:
    found = pb.ContainerDevices(resource_name=assigned.resource, device_ids=[assigned.id])
    if assigned.node is not None:
        found.topology.nodes.add(ID=assigned.node)
    return found


def _memory(block: MemoryBlock) -> pb.ContainerMemory:
    found = pb.ContainerMemory(memory_type=block.type, size=block.size_bytes)
    found.topology.SetInParent()
    for node in block.nodes:
        found.topology.nodes.add(ID=node)
    return found


def _claim(claim: DynamicClaim) -> pb.DynamicResource:
    """CDI names of earlier devices of a driver come again with its later ones, as in a kubelet (DEV-146)."""
    found = pb.DynamicResource(claim_name=claim.name, claim_namespace=claim.namespace)
    carried: dict[str, list[str]] = {}
    for device in claim.devices:
        names = carried.setdefault(device.driver, [])
        names.extend(device.cdi_ids)
        entry = found.claim_resources.add(
            driver_name=device.driver, pool_name=device.pool, device_name=device.device
        )
        for name in names:
            entry.cdi_devices.add(name=name)
        if device.share_id is not None:
            entry.share_id = device.share_id
    return found


async def serve_pod_resources(
    view: ResourceView,
    *,
    transport: Transport,
    root_dir: str,
    clock: NodeClock,
    counted: Requests = _uncounted,
    task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the API on its socket until cancelled; the folder has to be there.

    The socket is bound aside and renamed into place by the server itself (DEV-005). Raises ``OSError``.
    """
    server = transport.server(f"{root_dir}/{SOCKET}")
    server.add(PodResources(view, RateLimit(clock), counted=counted))
    async with server:
        task_status.started()
        await trio.sleep_forever()
