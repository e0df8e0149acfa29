"""What the status manager stores; mirrors updateStatusInternal of status_manager.go (pure)."""

from attrs import frozen

from kubelet_emu.api.types import ContainerStatus, Pod, PodCondition, PodStatus
from kubelet_emu.evolving import evolve
from kubelet_emu.gates import Gates
from kubelet_emu.status import conditions as make
from kubelet_emu.status import constants as k
from kubelet_emu.status.normalize import equal_by_kubelet, normalize_status, stamp_transitions, whole_seconds
from kubelet_emu.status.pods import all_statuses, is_mirror_pod, is_static_pod, is_terminal
from kubelet_emu.status.transitions import check_transition
from kubelet_emu.why import Why

__all__ = [
    "Stored",
    "Update",
    "accept_update",
    "can_be_deleted",
    "needs_readiness_resync",
    "with_container_readiness",
    "with_container_startup",
    "with_sandbox_ready",
]


@frozen(kw_only=True)
class Stored:
    """An entry of the cache; ``version`` rises with each accepted update, ``finished`` stays (STA-607)."""

    status: PodStatus
    version: int
    name: str
    namespace: str
    finished: bool = False


@frozen
class Update:
    """The entry to store, or None where nothing is to be stored; ``problem`` tells of a refused update."""

    stored: Stored | None
    why: tuple[Why, ...]
    problem: str = ""


def accept_update(
    pod: Pod,
    status: PodStatus,
    *,
    cached: Stored | None,
    mirror: Pod | None,
    forced: bool,
    finished: bool,
    now_ns: int,
    gates: Gates,
) -> Update:
    """STA-103, STA-601 to STA-605: refuse an illegal transition, stamp, normalise, compare, count."""
    if cached is not None:
        previous = cached.status
        if cached.finished and not is_static_pod(pod):
            finished = True
    else:
        previous = mirror.status if mirror is not None else pod.status
    verdict = check_transition(pod, previous, status, gates)
    if not verdict.legal:
        return Update(None, verdict.why, verdict.problem)
    status = stamp_transitions(status, previous, now_ns)
    start_time = previous.start_time or status.start_time or whole_seconds(now_ns)
    observed = max(status.observed_generation or 0, previous.observed_generation or 0) or None
    status = normalize_status(pod, evolve(status, start_time=start_time, observed_generation=observed))
    if cached is not None and not forced and equal_by_kubelet(cached.status, status):
        return Update(None, (Why("STA-604"),))
    stored = Stored(
        status=status,
        version=(cached.version if cached is not None else 0) + 1,
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        finished=finished,
    )
    return Update(stored, (Why("STA-605" if forced else "STA-603"),))


def can_be_deleted(pod: Pod, *, finished: bool) -> bool:
    """Whether the API object may go: deleting, no mirror, terminal in the API, finished here (STA-806)."""
    return (
        pod.metadata.deletion_timestamp is not None
        and not is_mirror_pod(pod)
        and is_terminal(pod.status.phase)
        and finished
    )


def _replace_container(status: PodStatus, container_id: str, **changes: object) -> PodStatus:
    """The status with changes made to the container of that id, in whichever list it is."""

    def changed(entries: tuple[ContainerStatus, ...]) -> tuple[ContainerStatus, ...]:
        return tuple(evolve(e, **changes) if e.container_id == container_id else e for e in entries)

    if any(entry.container_id == container_id for entry in status.container_statuses):
        return evolve(status, container_statuses=changed(status.container_statuses))
    return evolve(status, init_container_statuses=changed(status.init_container_statuses))


def _find(status: PodStatus, container_id: str) -> ContainerStatus | None:
    entries = (*status.container_statuses, *status.init_container_statuses)
    return next((entry for entry in entries if entry.container_id == container_id), None)


def with_container_readiness(pod: Pod, status: PodStatus, container_id: str, ready: bool) -> PodStatus | None:
    """The status with one container's ``ready`` and what follows, or None if nothing changes (STA-406)."""
    found = _find(status, container_id)
    if found is None or found.ready == ready:
        return None
    status = _replace_container(status, container_id, ready=ready)
    phase = status.phase or k.PENDING
    statuses = all_statuses(status)
    ready_condition, _ = make.pod_ready(pod, status.conditions, statuses, phase)
    containers_condition, _ = make.containers_ready(pod, statuses, phase)
    conditions = _replace_or_append(status.conditions, ready_condition)
    return evolve(status, conditions=_replace_or_append(conditions, containers_condition))


def with_container_startup(status: PodStatus, container_id: str, started: bool) -> PodStatus | None:
    """The status with one container's ``started``, or None if nothing changes (STA-406)."""
    found = _find(status, container_id)
    if found is None or found.started == started:
        return None
    return _replace_container(status, container_id, started=started)


def with_sandbox_ready(pod: Pod, status: PodStatus) -> PodStatus:
    """The status with PodReadyToStartContainers True, before any image is pulled (STA-105)."""
    condition = PodCondition(
        type=k.POD_READY_TO_START_CONTAINERS, status="True", observed_generation=pod.metadata.generation
    )
    return evolve(status, conditions=_replace_or_append(status.conditions, condition))


def _replace_or_append(conditions: tuple[PodCondition, ...], new: PodCondition) -> tuple[PodCondition, ...]:
    if any(condition.type == new.type for condition in conditions):
        return tuple(new if condition.type == new.type else condition for condition in conditions)
    return (*conditions, new)


def needs_readiness_resync(pod: Pod) -> bool:
    """Whether a foreign condition change calls for a sync of a pod with readiness gates (STA-706).

    Only the API's regular container statuses are looked at, so sidecars count as unknown here.
    """
    if not pod.spec.readiness_gates:
        return False
    status = pod.status
    before = next((c for c in status.conditions if c.type == k.READY), None)
    if before is None:
        return False
    statuses = status.container_statuses or None
    now, _ = make.pod_ready(pod, status.conditions, statuses, status.phase or k.PENDING)
    return before.status != now.status or (before.message or "") != (now.message or "")
