"""Admission carried out: handlers, allocation and preemption around the decisions of ``admission``.

Mirrors the admission of ``HandlePodAdditions`` in ``pkg/kubelet/kubelet.go`` and ``evictPodsToFreeRequests``
of ``pkg/kubelet/preemption`` (POD-401 to POD-405, DEV-090, DEV-092). It runs in the sync loop: while a plugin
thinks about an allocation, no other pod of the node gets in (DEV-069).
"""

from collections.abc import Callable, Collection

from attrs import evolve

from kubelet_emu.admission import (
    Admission,
    AdmissionInput,
    Refusal,
    after_allocation,
    before_allocation,
)
from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import Node, Pod, PodStatus
from kubelet_emu.cm.manager import ContainerManager
from kubelet_emu.gates import Gates
from kubelet_emu.pod_update import uid_of
from kubelet_emu.podworkers.workers import PodWorkers
from kubelet_emu.preemption import PREEMPTION_MESSAGE, PREEMPTION_REASON, preempted_status
from kubelet_emu.seams import EventRecorder, Recorder
from kubelet_emu.why import Why
from node_host.clock import NodeClock

__all__ = ["Admitter"]


class Admitter:
    """Judges pods one at a time. ``node`` is the node as the API has it, ``active`` the pods that count."""

    def __init__(
        self,
        *,
        containers: ContainerManager,
        workers: PodWorkers,
        events: EventRecorder,
        recorder: Recorder,
        clock: NodeClock,
        gates: Gates,
        node: Callable[[], Node],
        active: Callable[[], Collection[Pod]],
    ) -> None:
        self._containers = containers
        self._workers = workers
        self._events = events
        self._recorder = recorder
        self._clock = clock
        self._gates = gates
        self._node = node
        self._active = active

    async def admit(self, pod: Pod) -> Refusal | None:
        """Whether the pod may run; what was allocated for a refused one is collected later (DEV-090)."""
        given = AdmissionInput(
            pod=pod,
            others=tuple(other for other in self._active() if uid_of(other) != uid_of(pod)),
            node=self._node(),
            gates=self._gates,
        )
        verdict = before_allocation(given)
        if verdict.refusal is None:
            refusal = await self._containers.admit(pod)
            if refusal is not None:
                verdict = Admission(refusal, why=(Why("DEV-091", refusal.reason),))
            else:
                verdict = await self._fit(given)
        self._recorder.decision(
            "admission",
            pod.metadata.name,
            verdict.why,
            inputs={"others": len(given.others)},
            outcome={"refused": verdict.refusal.reason if verdict.refusal is not None else None},
        )
        return verdict.refusal

    async def _fit(self, given: AdmissionInput) -> Admission:
        seen = evolve(given, node=self._with_devices(given.pod, given.node))
        verdict = after_allocation(seen)
        if verdict.refetch_node:
            fresh = self._with_devices(given.pod, self._node())
            verdict = after_allocation(evolve(seen, node=fresh, node_is_fresh=True))
        if verdict.refusal is None:
            for victim in verdict.victims:
                await self._preempt(victim)
        return verdict

    def _with_devices(self, pod: Pod, node: Node | None) -> Node | None:
        """The node with at least as many devices as are in use, for a pod that has some (DEV-092)."""
        if node is None:
            return None
        numbers = {name: quantity.value() for name, quantity in node.status.allocatable.items()}
        raised = self._containers.allocatable_for(uid_of(pod), numbers)
        more = {name: Quantity(raised[name]) for name in raised if raised[name] != numbers.get(name)}
        if not more:
            return node
        return evolve(node, status=evolve(node.status, allocatable={**node.status.allocatable, **more}))

    async def _preempt(self, victim: Pod) -> None:
        """Kill one pod to make room; that it failed is only noted (POD-405)."""
        self._events.event(victim, "Warning", PREEMPTION_REASON, PREEMPTION_MESSAGE)

        def status(old: PodStatus) -> PodStatus:
            return preempted_status(old, self._clock.now_ns())

        error = await self._workers.kill_pod_now(victim, evict=True, status_func=status)
        if error:
            name = victim.metadata.name
            self._recorder.fact("note", about="preemption", text=f"failed to evict pod {name}: {error}")
