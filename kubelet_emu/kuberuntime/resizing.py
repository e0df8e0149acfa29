"""Carrying out an in-place resize of running containers (RST-068, RST-069, CRI-150 to CRI-152).

Mirrors ``doPodResizeAction`` of ``pkg/kubelet/kuberuntime/kuberuntime_manager.go``. There are no pod
cgroups here; what the runtime hears of a pod-level change is UpdatePodSandboxResources.
"""

from collections.abc import Mapping

from attrs import evolve, frozen

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import Pod
from kubelet_emu.errors import PeerError
from kubelet_emu.kuberuntime import cgroups
from kubelet_emu.kuberuntime.action_types import ContainerToUpdate, PodActions, ResourceAmounts
from kubelet_emu.kuberuntime.calls import CriCalls
from kubelet_emu.kuberuntime.podrefs import container_of
from kubelet_emu.kuberuntime.resize import CPU, MEMORY, amounts
from kubelet_emu.kuberuntime.seams import ActuatedResources
from trio_grpc import Code, StatusError

__all__ = ["Resizer"]


@frozen
class _Totals:
    """Request and limit of the whole pod for one resource."""

    request: int
    limit: int


def _of(resource: str, given: ResourceAmounts) -> _Totals:
    if resource == CPU:
        return _Totals(given.cpu_request_milli, given.cpu_limit_milli)
    return _Totals(given.memory_request_bytes, given.memory_limit_bytes)


def _sum(parts: list[_Totals]) -> _Totals:
    return _Totals(sum(part.request for part in parts), sum(part.limit for part in parts))


class Resizer:
    """Resizes containers of one runtime, memory before CPU."""

    def __init__(self, calls: CriCalls, actuated: ActuatedResources) -> None:
        self._calls = calls
        self._actuated = actuated

    async def resize(self, pod: Pod, sandbox_id: str, actions: PodActions) -> None:
        """Carry out the updates of one sync; raises StatusError or PeerError at the first that fails."""
        view = self._actuated.view(pod.metadata.uid)
        given = {
            container.name: amounts(view.containers.get(container.name, container.resources))
            for container in pod.spec.containers
        }
        done: dict[str, ResourceAmounts] = {}
        for resource in (MEMORY, CPU):
            wanted = _sum([_of(resource, amounts(container.resources)) for container in pod.spec.containers])
            current = _sum([_of(resource, part) for part in given.values()])
            # Each call carries both resources, so the second must know of the first (CRI-152).
            updates = tuple(
                evolve(update, current=done.get(update.name, update.current))
                for update in actions.to_update.get(resource, ())
            )
            await self._one(pod, sandbox_id, resource, wanted, current, updates)
            given |= {update.name: _merged(given, update, resource) for update in updates}
            done |= {update.name: _merged(done, update, resource) for update in updates}
        if actions.update_pod_level_resources and pod.spec.resources is not None:
            await self._sandbox(pod, sandbox_id)
            self._actuated.set_pod_level(pod.metadata.uid, pod.spec.resources)

    async def _one(
        self,
        pod: Pod,
        sandbox_id: str,
        resource: str,
        wanted: _Totals,
        current: _Totals,
        updates: tuple[ContainerToUpdate, ...],
    ) -> None:
        """Growth of the pod comes before the containers, shrinking after them."""
        if wanted.limit > current.limit:
            await self._sandbox(pod, sandbox_id)
        if wanted.request > current.request:
            await self._sandbox(pod, sandbox_id)
        for update in updates:
            request = cgroups.update_resources(resource, update.desired, update.current)
            await self._calls.update_container_resources(update.container_id, request)
            self._record(pod, update, resource)
        if wanted.request < current.request:
            await self._sandbox(pod, sandbox_id)
        if wanted.limit < current.limit:
            await self._sandbox(pod, sandbox_id)

    def _record(self, pod: Pod, update: ContainerToUpdate, resource: str) -> None:
        """Only the resource that was updated counts as actuated (RST-070)."""
        container = container_of(pod, update.name)
        known = self._actuated.view(pod.metadata.uid).containers.get(update.name)
        if container is None:
            return
        if known is None:
            self._actuated.set_container(pod.metadata.uid, update.name, container.resources)
            return
        wanted = container.resources
        self._actuated.set_container(
            pod.metadata.uid,
            update.name,
            evolve(
                known,
                requests=_replaced(known.requests, wanted.requests, resource),
                limits=_replaced(known.limits, wanted.limits, resource),
            ),
        )

    async def _sandbox(self, pod: Pod, sandbox_id: str) -> None:
        """Tell the runtime; one that cannot do it is fine (RST-069)."""
        resources, overhead = cgroups.sandbox_resources(pod), cgroups.overhead_resources(pod)
        try:
            await self._calls.update_pod_sandbox_resources(sandbox_id, overhead, resources)
        except StatusError as error:
            unable = error.code is Code.UNIMPLEMENTED
            unable = unable or (error.code is Code.UNKNOWN and "not implemented" in error.details)
            if not unable:
                raise PeerError(str(error)) from error


def _replaced(
    known: Mapping[str, Quantity], wanted: Mapping[str, Quantity], resource: str
) -> Mapping[str, Quantity]:
    left = {name: amount for name, amount in known.items() if name != resource}
    return left | ({resource: wanted[resource]} if resource in wanted else {})


def _merged(
    given: Mapping[str, ResourceAmounts], update: ContainerToUpdate, resource: str
) -> ResourceAmounts:
    known = given.get(update.name, update.current)
    if resource == CPU:
        return evolve(
            known,
            cpu_request_milli=update.desired.cpu_request_milli,
            cpu_limit_milli=update.desired.cpu_limit_milli,
        )
    return evolve(
        known,
        memory_request_bytes=update.desired.memory_request_bytes,
        memory_limit_bytes=update.desired.memory_limit_bytes,
    )
