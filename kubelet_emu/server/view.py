"""One kubelet as its servers see it: pods, health, logs, assignments, and numbers for the metrics.

Reads the parts of ``kubelet_emu.kubelet.Kubelet`` and changes nothing. What goes into JSON is in the words of
the Kubernetes API.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from kubelet_emu.api.codec import pod_to_json
from kubelet_emu.api.types import Container, Pod
from kubelet_emu.container.runtime import ContainerState, RunningPod, RuntimeContainer, SandboxState
from kubelet_emu.errors import PeerError
from kubelet_emu.kubelet import Kubelet
from kubelet_emu.pod_update import is_static_pod, uid_of
from kubelet_emu.server.log_request import LogRefused, instance_to_read
from kubelet_emu.server.metrics import NodeState, ProbeCount
from kubelet_emu.server.podresources import Assigned, ClaimedDevice, DynamicClaim, MemoryBlock
from node_host.clock import NodeClock

__all__ = ["InstanceLog", "KubeletView"]


@frozen(kw_only=True)
class InstanceLog:
    """The log file of one instance, and whether it is still written to."""

    path: str
    running: Callable[[], bool]


class KubeletView:
    """Read access to a kubelet that runs. Implements ``ResourceView`` and what endpoints ask."""

    def __init__(self, kubelet: Kubelet, clock: NodeClock) -> None:
        self._kubelet = kubelet
        self._clock = clock

    # -- pods --

    def pods(self) -> bytes:
        """``/pods``: what the sources want; static pods with the status that the kubelet has (NOD-82)."""
        pods = [self._with_status(pod) for pod in self._kubelet.pods.pods()]
        return _pod_list(_item(pod_to_json(pod)) for pod in pods) + b"\n"

    def _with_status(self, pod: Pod) -> Pod:
        if not is_static_pod(pod):
            return pod
        status = self._kubelet.status.get_pod_status(uid_of(pod))
        return pod if status is None else evolve(pod, status=status)

    async def running_pods(self) -> bytes:
        """``/runningpods``: what the runtime has running. Raises ``PeerError``."""
        pods = await self._kubelet.runtime.get_pods(include_exited=False)
        return _pod_list(_running(pod) for pod in pods) + b"\n"

    def find_pod(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name, not a mirror."""
        for pod in self._kubelet.pods.pods():
            if (pod.metadata.namespace or "default", pod.metadata.name) == (namespace, name):
                return pod
        return None

    # -- health (NOD-24, DEV-016) --

    def problems(self) -> Mapping[str, str]:
        """Every check of ``/healthz`` by name; an empty text is well."""
        stale = self._kubelet.loop.stale(self._kubelet.settings.sync_frequency_seconds)
        return {
            "ping": "",
            "log": "",
            "syncloop": "sync Loop took longer than expected" if stale else "",
            "device-plugin": self._kubelet.containers.devices.problem,
        }

    # -- logs (LOG-08) --

    def log_of(self, namespace: str, name: str, container: str, *, previous: bool) -> "InstanceLog":
        """The log of the instance that is meant. Raises ``LogRefused``."""
        pod = self.find_pod(namespace, name)
        if pod is None:
            raise LogRefused(f'pod "{name}" does not exist', 404)
        status = self._kubelet.status.get_pod_status(uid_of(pod)) or pod.status
        found = instance_to_read(pod, status, container, previous=previous)
        instance = self._instance(uid_of(pod), found.rpartition("//")[2])
        if instance is None:
            raise LogRefused(f"unable to retrieve container logs for {found}", 200)
        return InstanceLog(path=instance.log_path, running=lambda: self._is_running(uid_of(pod), instance.id))

    def _is_running(self, uid: str, container_id: str) -> bool:
        instance = self._instance(uid, container_id)
        return instance is not None and instance.state is ContainerState.RUNNING

    def _instance(self, uid: str, container_id: str) -> RuntimeContainer | None:
        try:
            status = self._kubelet.cache.get(uid)
        except PeerError:
            return None
        for each in status.containers:
            if each.id == container_id and each.log_path:
                return each
        return None

    # -- PodResources --

    def collect(self) -> None:
        """See ``ResourceView``."""
        self._kubelet.containers.devices.collect()

    def active_pods(self) -> Sequence[Pod]:
        """See ``ResourceView``."""
        return self._kubelet.housekeeper.active_pods()

    def devices(self, uid: str, container: str) -> Iterator[Assigned]:
        """See ``ResourceView``; a device on two nodes comes twice (DEV-143)."""
        held = self._kubelet.containers.devices.state.pods.container(uid, container)
        for resource, each in sorted(held.items()):
            for node, ids in sorted(each.by_node.items()):
                for name in sorted(ids):
                    yield Assigned(resource, name, node if node >= 0 else None)

    def cpus(self, uid: str, container: str) -> Sequence[int]:
        """See ``ResourceView``."""
        return sorted(self._kubelet.containers.cpus.state.get(uid, container) or ())

    def memory(self, uid: str, container: str) -> Iterator[MemoryBlock]:
        """See ``ResourceView``."""
        for block in self._kubelet.containers.memory.state.blocks(uid, container) or ():
            yield MemoryBlock(block.kind, block.size, block.nodes)

    def claims(self, pod: Pod, container: Container) -> Iterator[DynamicClaim]:
        """See ``ResourceView``."""
        for claim in self._kubelet.containers.claims.claims_of(pod, container):
            devices = tuple(
                ClaimedDevice(
                    driver=driver,
                    pool=device.pool,
                    device=device.device,
                    cdi_ids=device.cdi_ids,
                    share_id=device.share_id,
                )
                for driver in sorted(claim.drivers)
                for device in claim.drivers[driver]
            )
            yield DynamicClaim(name=claim.name, namespace=claim.namespace, devices=devices)

    def allocatable_devices(self) -> Iterator[Assigned]:
        """See ``ResourceView``; one with a topology without nodes is left out (DEV-144)."""
        state = self._kubelet.containers.devices.state
        for resource, healthy in sorted(state.healthy.items()):
            for name in sorted(healthy):
                device = state.devices.get(resource, {}).get(name)
                nodes = device.nodes if device is not None else None
                for node in (None,) if nodes is None else nodes:
                    yield Assigned(resource, name, node)

    def allocatable_cpus(self) -> Sequence[int]:
        """See ``ResourceView``."""
        return sorted(self._kubelet.containers.cpus.allocatable())

    def allocatable_memory(self) -> Iterator[MemoryBlock]:
        """See ``ResourceView``."""
        for node, memory in sorted(self._kubelet.containers.memory.state.nodes.items()):
            for kind, table in sorted(memory.memory.items()):
                if table.allocatable:
                    yield MemoryBlock(kind, table.allocatable, (node,))

    # -- metrics --

    def container_type(self, pod_uid: str, name: str) -> str:
        """Which kind of container it is, as a label."""
        pod = self._kubelet.pods.by_uid(pod_uid)
        if pod is not None and any(each.name == name for each in pod.spec.init_containers):
            return "init_container"
        if pod is not None and any(each.name == name for each in pod.spec.ephemeral_containers):
            return "ephemeral_container"
        return "container"

    def state(self) -> NodeState:
        """The numbers of this moment."""
        kubelet = self._kubelet
        pods = kubelet.pods.pods()
        desired, active = {"": 0, "true": 0}, {"": 0, "true": 0}
        for pod in pods:
            desired[_static(pod)] += 1
        for pod in kubelet.housekeeper.active_pods():
            active[_static(pod)] += 1
        containers = {"running": 0, "exited": 0, "created": 0, "unknown": 0}
        running_pods = self._count_containers(pods, containers)
        devices, cpus = kubelet.containers.devices, kubelet.containers.cpus
        memory = kubelet.containers.memory
        return NodeState(
            node_name=kubelet.settings.node_name,
            gates=kubelet.settings.gates.overrides,
            running_pods=running_pods,
            running_containers=containers,
            desired_pods=desired,
            active_pods=active,
            mirror_pods=len(kubelet.pods.pods_and_mirrors().mirrors),
            working_pods=self._working(),
            ephemeral_containers=sum(len(pod.spec.ephemeral_containers) for pod in pods),
            pleg_last_seen_seconds=self._last_relist(),
            plugin_registrations=devices.registration.counts,
            plugin_allocation_seconds=devices.allocation_seconds,
            admission_milliseconds=kubelet.containers.admission_milliseconds,
            claims_in_use=kubelet.containers.claims.in_use(),
            claim_operation_seconds=kubelet.containers.claims.operation_seconds,
            exclusive_cpus=sum(len(held) for pod in cpus.state.entries.values() for held in pod.values()),
            shared_cpus=len(cpus.state.default),
            cpu_pinnings=(cpus.pinned, cpus.pinning_errors),
            memory_pinnings=(memory.pinned, memory.pinning_errors),
            resizes_in_progress=self._resizes(pods),
            probes=tuple(
                ProbeCount(
                    labels=(
                        series.probe_type,
                        series.result,
                        series.container,
                        series.pod,
                        series.namespace,
                        series.pod_uid,
                    ),
                    count=count,
                )
                for series, count in kubelet.prober.totals.items()
            ),
        )

    def _resizes(self, pods: Sequence[Pod]) -> int:
        statuses = (self._kubelet.status.get_pod_status(uid_of(pod)) for pod in pods)
        return sum(
            any(condition.type == "PodResizeInProgress" for condition in status.conditions)
            for status in statuses
            if status is not None
        )

    def _last_relist(self) -> float:
        """Time of day of the last relist in seconds, 0 before the first."""
        ago_seconds = self._clock.elapsed_seconds() - self._kubelet.pleg.last_relist_seconds
        return 0.0 if math.isinf(ago_seconds) else self._clock.now_ns() / 1e9 - ago_seconds

    def _count_containers(self, pods: Sequence[Pod], counts: dict[str, int]) -> int:
        running = 0
        for pod in pods:
            try:
                status = self._kubelet.cache.get(uid_of(pod))
            except PeerError:
                continue
            for container in status.containers:
                counts[str(container.state)] = counts.get(str(container.state), 0) + 1
            running += any(sandbox.state is SandboxState.READY for sandbox in status.sandboxes)
        return running

    def _working(self) -> dict[tuple[str, str, str], int]:
        counts: dict[tuple[str, str, str], int] = {}
        for uid, record in self._kubelet.workers.state.records.items():
            pod = self._kubelet.pods.by_uid(uid)
            config = "desired" if pod is not None else "runtime_only" if record.observed_runtime else "orphan"
            lifecycle = {"syncing": "sync", "terminating": "terminating", "terminated": "terminated"}.get(
                str(record.state), str(record.state)
            )
            key = (config, lifecycle, _static(pod) if pod is not None else "unknown")
            counts[key] = counts.get(key, 0) + 1
        return counts


def _static(pod: Pod) -> str:
    return "true" if is_static_pod(pod) else ""


def _item(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}


def _pod_list(items: Iterable[Mapping[str, Any]]) -> bytes:
    value: dict[str, Any] = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(items)}
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _running(pod: RunningPod) -> dict[str, Any]:
    return {
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "spec": {
            "containers": [
                {"name": each.name, "image": each.image, "resources": {}} for each in pod.containers
            ]
        },
        "status": {},
    }
