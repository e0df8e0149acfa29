"""The kubelet's status merged into the API's; mirrors mergePodStatus of status_manager.go (pure)."""

from attrs import frozen

from kubelet_emu.api.types import PodCondition, PodStatus
from kubelet_emu.evolving import evolve
from kubelet_emu.status import constants as k
from kubelet_emu.status.normalize import stamp_transitions
from kubelet_emu.status.pods import cached_condition, is_terminal
from kubelet_emu.why import Why

__all__ = ["Merged", "merge_status"]


@frozen
class Merged:
    """The status to be written and the rules that changed the kubelet's wish."""

    status: PodStatus
    why: tuple[Why, ...] = ()


def merge_status(
    api: PodStatus, wanted: PodStatus, *, could_have_running_containers: bool, now_ns: int
) -> Merged:
    """The status to write (STA-801 to STA-804, STA-808).

    ``api`` is what the API holds now, ``wanted`` the kubelet's. Fields the kubelet never writes come from the
    API (STA-104).
    """
    why: list[Why] = []
    becomes_terminal = is_terminal(wanted.phase) and not is_terminal(api.phase)
    conditions = [c for c in api.conditions if c.type not in k.OWNED_CONDITIONS]
    for condition in wanted.conditions:
        if condition.type in k.OWNED_CONDITIONS:
            conditions.append(condition)
        elif condition.type in k.SHARED_CONDITIONS and becomes_terminal and not could_have_running_containers:
            why.append(Why("STA-801", condition.type))
            conditions = _replaced(conditions, _stamped(api, condition, now_ns))
    merged = evolve(
        wanted,
        conditions=tuple(conditions),
        **{name: getattr(api, name) for name in k.FOREIGN_STATUS_FIELDS},
    )
    if becomes_terminal and could_have_running_containers:
        why.append(Why("STA-802"))
        merged = evolve(merged, phase=api.phase, reason=api.reason, message=api.message)
    if is_terminal(merged.phase):
        merged = _not_ready_when_terminal(merged, now_ns, why)
    return Merged(merged, tuple(why))


def _stamped(api: PodStatus, condition: PodCondition, now_ns: int) -> PodCondition:
    stamped = stamp_transitions(PodStatus(conditions=(condition,)), api, now_ns)
    return stamped.conditions[0]


def _replaced(conditions: list[PodCondition], new: PodCondition) -> list[PodCondition]:
    if any(condition.type == new.type for condition in conditions):
        return [new if condition.type == new.type else condition for condition in conditions]
    return [*conditions, new]


def _not_ready_when_terminal(status: PodStatus, now_ns: int, why: list[Why]) -> PodStatus:
    """STA-804: a pod at its end is not ready, whatever was generated before the phase changed."""
    ready = [cached_condition(status.conditions, name) for name in (k.READY, k.CONTAINERS_READY)]
    if not any(condition is not None and condition.status == "True" for condition in ready):
        return status
    why.append(Why("STA-804"))
    reason = "PodFailed" if status.phase == k.FAILED else "PodCompleted"
    conditions = list(status.conditions)
    for name, found in zip((k.READY, k.CONTAINERS_READY), ready, strict=True):
        generation = found.observed_generation if found is not None else status.observed_generation
        condition = PodCondition(type=name, status="False", reason=reason, observed_generation=generation)
        conditions = _replaced(conditions, _stamped(status, condition, now_ns))
    return evolve(status, conditions=tuple(conditions))
