"""A status as the status manager stores and compares it; mirrors normalizeStatus and others (pure)."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from kubelet_emu.api.types import (
    ApiObject,
    ContainerState,
    ContainerStatus,
    Pod,
    PodCondition,
    PodStatus,
)
from kubelet_emu.evolving import evolve
from kubelet_emu.status import constants as k
from kubelet_emu.status.pods import cached_condition

T = TypeVar("T", bound=ApiObject)

__all__ = ["equal_by_kubelet", "normalize_status", "stamp_transitions", "whole_seconds"]

_STAMPED = (
    k.CONTAINERS_READY,
    k.READY,
    k.INITIALIZED,
    k.POD_READY_TO_START_CONTAINERS,
    k.POD_SCHEDULED,
    k.DISRUPTION_TARGET,
    k.ALL_CONTAINERS_RESTARTING,
)
"""Condition types whose transition time the status manager keeps (STA-514)."""


def _with(value: T, **fields: object) -> T:
    """The value with these fields; itself where they are as they were, which is nearly always so."""
    for name, field in fields.items():
        known = getattr(value, name)
        if known is not field and known != field:
            return evolve(value, **fields)
    return value


def whole_seconds(time_ns: int | None) -> int | None:
    """The time cut to whole seconds, as the API's times are (STA-603)."""
    return None if time_ns is None else time_ns - time_ns % k.NANOSECONDS


def stamp_transitions(status: PodStatus, previous: PodStatus, now_ns: int) -> PodStatus:
    """Set lastTransitionTime: the previous one iff the same type had the same Status, else now (STA-514)."""

    def stamped(condition: PodCondition) -> PodCondition:
        if condition.type not in _STAMPED:
            return condition
        before = cached_condition(previous.conditions, condition.type)
        same = before is not None and before.status == condition.status
        return _with(
            condition, last_transition_time=before.last_transition_time if same and before else now_ns
        )

    return _with(status, conditions=tuple(stamped(condition) for condition in status.conditions))


def normalize_status(pod: Pod, status: PodStatus) -> PodStatus:
    """Times in whole seconds, messages cut to their share, lists in order (STA-603, STA-315)."""
    spec = pod.spec
    count = len(spec.containers) + len(spec.init_containers) + len(spec.ephemeral_containers)
    limit = k.MAX_STATUS_MESSAGE_BYTES // count if count else k.MAX_STATUS_MESSAGE_BYTES
    order = {container.name: place for place, container in enumerate(spec.init_containers)}
    init = [_normalized(entry, limit) for entry in status.init_container_statuses]
    return _with(
        status,
        start_time=whole_seconds(status.start_time),
        conditions=tuple(_normalized_condition(condition) for condition in status.conditions),
        container_statuses=_by_name(status.container_statuses, limit),
        init_container_statuses=tuple(sorted(init, key=lambda entry: order.get(entry.name, len(order)))),
        ephemeral_container_statuses=_by_name(status.ephemeral_container_statuses, limit),
    )


def _by_name(statuses: Iterable[ContainerStatus], limit: int) -> tuple[ContainerStatus, ...]:
    return tuple(sorted((_normalized(entry, limit) for entry in statuses), key=lambda entry: entry.name))


def _normalized_condition(condition: PodCondition) -> PodCondition:
    return _with(
        condition,
        last_probe_time=whole_seconds(condition.last_probe_time),
        last_transition_time=whole_seconds(condition.last_transition_time),
    )


def _normalized(status: ContainerStatus, limit: int) -> ContainerStatus:
    return _with(
        status,
        state=_normalized_state(status.state, limit),
        last_state=_normalized_state(status.last_state, limit),
    )


def _normalized_state(state: ContainerState, limit: int) -> ContainerState:
    if state.running is not None:
        return _with(state, running=_with(state.running, started_at=whole_seconds(state.running.started_at)))
    end = state.terminated
    if end is None:
        return state
    message = end.message
    if message is not None and len(message.encode()) > limit:
        # Cut at a byte as the kubelet does, but never inside a character.
        message = message.encode()[:limit].decode(errors="ignore")
    return _with(
        state,
        terminated=_with(
            end,
            started_at=whole_seconds(end.started_at),
            finished_at=whole_seconds(end.finished_at),
            message=message,
        ),
    )


def equal_by_kubelet(old: PodStatus, new: PodStatus) -> bool:
    """Whether two normalised statuses are the same to the kubelet (STA-604).

    Of the conditions only owned and shared ones count, by type, Status, reason and message. The three
    claim-status fields do not count.
    """
    if _compared(old.conditions) != _compared(new.conditions):
        return False
    return _without_foreign(old) == _without_foreign(new)


def _compared(conditions: Sequence[PodCondition]) -> dict[str, tuple[str, str, str]]:
    return {
        condition.type: (condition.status, condition.reason or "", condition.message or "")
        for condition in conditions
        if condition.type in k.OWNED_CONDITIONS or condition.type in k.SHARED_CONDITIONS
    }


def _without_foreign(status: PodStatus) -> PodStatus:
    blank = PodStatus()
    present = {name: getattr(blank, name) for name in k.FOREIGN_STATUS_FIELDS if hasattr(blank, name)}
    return evolve(status, conditions=(), **present)
