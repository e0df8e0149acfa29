"""Which pods give way to a critical pod (pure).

Mirrors ``pkg/kubelet/preemption/preemption.go`` (POD-404, POD-405, NOD-38 to NOD-40).
"""

from collections.abc import Sequence

from attrs import evolve, frozen

from kubelet_emu.api.qos import pod_qos
from kubelet_emu.api.types import Pod, PodCondition, PodStatus
from kubelet_emu.node_fit import Shortage, request_of
from kubelet_emu.pod_update import is_critical_pod

__all__ = ["PREEMPTION_MESSAGE", "PREEMPTION_REASON", "Victims", "preemptable", "preempted_status", "victims"]

PREEMPTION_REASON = "Preempting"
PREEMPTION_MESSAGE = "Preempted in order to admit critical pod"
_CONDITION_MESSAGE = "Pod was preempted by Kubelet to accommodate a critical pod."


@frozen
class _Need:
    resource: str
    quantity: int


_Needs = tuple[_Need, ...]


@frozen
class Victims:
    """Pods to kill, in order, or why there are none that would do."""

    pods: tuple[Pod, ...]
    error: str = ""


def preempted_status(status: PodStatus, now_ns: int) -> PodStatus:
    """What the kill of a victim lays over its status (POD-405, STA-511)."""
    condition = PodCondition(
        type="DisruptionTarget",
        status="True",
        reason="TerminationByKubelet",
        message=_CONDITION_MESSAGE,
        last_transition_time=now_ns,
    )
    others = tuple(c for c in status.conditions if c.type != condition.type)
    return evolve(
        status,
        phase="Failed",
        reason=PREEMPTION_REASON,
        message=PREEMPTION_MESSAGE,
        conditions=(*others, condition),
    )


def preemptable(critical: Pod, other: Pod) -> bool:
    """Whether ``other`` may be killed for the critical pod (NOD-39)."""
    if is_critical_pod(critical) and not is_critical_pod(other):
        return True
    mine, theirs = critical.spec.priority, other.spec.priority
    return mine is not None and theirs is not None and mine > theirs


def victims(critical: Pod, active: Sequence[Pod], shortages: Sequence[Shortage]) -> Victims:
    """As few and as small pods as needed, best effort first (NOD-39)."""
    needs = tuple(_Need(s.resource, s.missing) for s in shortages)
    candidates = [pod for pod in active if preemptable(critical, pod)]
    unmet = _left(needs, candidates)
    if unmet:
        return Victims((), _nobody(unmet))
    by_class = {name: [p for p in candidates if pod_qos(p) == name] for name in ("BestEffort", "Burstable")}
    best_effort, burstable = by_class["BestEffort"], by_class["Burstable"]
    guaranteed = [pod for pod in candidates if pod not in best_effort and pod not in burstable]
    from_guaranteed = _nearest(guaranteed, _left(needs, [*best_effort, *burstable]))
    from_burstable = _nearest(burstable, _left(needs, [*best_effort, *from_guaranteed]))
    from_best_effort = _nearest(best_effort, _left(needs, [*from_burstable, *from_guaranteed]))
    return Victims((*from_best_effort, *from_burstable, *from_guaranteed))


def _nobody(needs: _Needs) -> str:
    listed = "".join(f"(res: {need.resource}, q: {need.quantity}), " for need in needs)
    return (
        "preemption: error finding a set of pods to preempt: "
        f"no set of running pods found to reclaim resources: [{listed}]"
    )


def _left(needs: _Needs, pods: Sequence[Pod]) -> _Needs:
    """What is still missing once these pods are gone."""
    rest = (
        _Need(need.resource, need.quantity - sum(request_of(pod, need.resource) for pod in pods))
        for need in needs
    )
    return tuple(need for need in rest if need.quantity > 0)


def _nearest(pods: Sequence[Pod], needs: _Needs) -> list[Pod]:
    """Again and again the pod that comes nearest to what is missing; of equal ones the smaller."""
    pool, chosen = list(pods), list[Pod]()
    while needs and pool:
        best = 0
        for index in range(1, len(pool)):
            near, nearest = _distance(pool[index], needs), _distance(pool[best], needs)
            if near < nearest or (near == nearest and _not_larger(pool[index], pool[best])):
                best = index
        chosen.append(pool[best])
        needs = _left(needs, [pool[best]])
        pool[best] = pool[-1]
        pool.pop()
    return chosen


def _distance(pod: Pod, needs: _Needs) -> float:
    missing = ((need.quantity - request_of(pod, need.resource)) / need.quantity for need in needs)
    return sum(part**2 for part in missing if part > 0)


def _not_larger(pod: Pod, other: Pod) -> bool:
    def size(p: Pod) -> tuple[int, int]:
        return (request_of(p, "memory"), request_of(p, "cpu"))

    return size(pod) <= size(other)
