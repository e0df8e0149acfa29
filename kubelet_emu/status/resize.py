"""Conditions of an in-place resize, kept beside the statuses (pure; STA-512, STA-513)."""

from attrs import frozen

from kubelet_emu.api.types import PodCondition
from kubelet_emu.evolving import evolve
from kubelet_emu.status import constants as k

__all__ = ["ResizeConditions", "from_api", "set_in_progress", "set_pending"]

INFEASIBLE = "Infeasible"
DEFERRED = "Deferred"


@frozen
class ResizeConditions:
    """Both conditions of one pod; None means absent, they are never False."""

    pending: PodCondition | None = None
    in_progress: PodCondition | None = None

    @property
    def listed(self) -> tuple[PodCondition, ...]:
        """Those that are there, Pending first (STA-501)."""
        return tuple(condition for condition in (self.pending, self.in_progress) if condition is not None)


def set_pending(
    conditions: ResizeConditions, *, reason: str, message: str, generation: int | None, now_ns: int
) -> tuple[ResizeConditions, bool]:
    """Set PodResizePending (STA-512); the flag tells whether its reason changed or it appeared.

    Every admission reason but Infeasible shows as Deferred. The new generation is always taken.
    """
    shown = INFEASIBLE if reason == INFEASIBLE else DEFERRED
    before = conditions.pending
    changed = before is None or before.reason != shown
    condition = PodCondition(
        type=k.POD_RESIZE_PENDING,
        status="True",
        reason=shown,
        message=message or None,
        observed_generation=generation,
        last_probe_time=now_ns,
        last_transition_time=now_ns if before is None or changed else before.last_transition_time,
    )
    return evolve(conditions, pending=condition), changed


def set_in_progress(
    conditions: ResizeConditions, *, reason: str, message: str, generation: int | None, now_ns: int
) -> tuple[ResizeConditions, bool]:
    """Set PodResizeInProgress (STA-513); empty texts keep earlier ones, the generation stays till cleared."""
    before = conditions.in_progress
    if before is None:
        condition = PodCondition(
            type=k.POD_RESIZE_IN_PROGRESS,
            status="True",
            reason=reason or None,
            message=message or None,
            observed_generation=generation,
            last_probe_time=now_ns,
            last_transition_time=now_ns,
        )
        return evolve(conditions, in_progress=condition), True
    keep = not reason and not message
    shown, text = (before.reason, before.message) if keep else (reason or None, message or None)
    changed = shown != before.reason
    condition = evolve(
        before,
        reason=shown,
        message=text,
        last_probe_time=now_ns,
        last_transition_time=now_ns if changed else before.last_transition_time,
    )
    return evolve(conditions, in_progress=condition), changed


def from_api(conditions: tuple[PodCondition, ...]) -> ResizeConditions:
    """What a restarted kubelet takes back from the API (POD-1202)."""
    by_type = {condition.type: condition for condition in conditions}
    return ResizeConditions(by_type.get(k.POD_RESIZE_PENDING), by_type.get(k.POD_RESIZE_IN_PROGRESS))
