"""The state machine of all pod workers: requests and ends of runs in, new state and effects out (pure).

Mirrors UpdatePod, startPodSync, complete* and SyncKnownPods of ``pkg/kubelet/pod_workers.go`` (POD-501 to
POD-521).

A record only moves forward: syncing, terminating, terminated, finished; the way back is its removal. Requests
coalesce in ``pending`` (POD-503). What was taken up last stays in ``active``, for replays.
"""

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum

from attrs import frozen

from kubelet_emu.api.types import Pod
from kubelet_emu.container.runtime import ContainerState, RuntimePodStatus, SandboxState
from kubelet_emu.evolving import evolve
from kubelet_emu.pod_update import UpdateType, full_name, is_static_pod, is_terminal_phase, phase_of, uid_of
from kubelet_emu.podworkers import names
from kubelet_emu.podworkers.effects import (
    CancelSync,
    Effect,
    Notify,
    StartWorker,
    Step,
    StopWorker,
    WakeWorker,
)
from kubelet_emu.podworkers.record import (
    KillOptions,
    KnownWorker,
    Record,
    StatusFunc,
    SyncError,
    UpdatePodOptions,
    WorkersState,
    WorkState,
)
from kubelet_emu.why import Why

__all__ = [
    "Finish",
    "Start",
    "StartStep",
    "SyncKnownStep",
    "Work",
    "acknowledge_terminating",
    "effective_grace",
    "finish_run",
    "remove_terminated_worker",
    "runtime_is_idle",
    "start_run",
    "sync_known_pods",
    "update_pod",
]


def effective_grace(stored: int, pod: Pod | None, override_seconds: int | None) -> tuple[int, bool]:
    """Grace in seconds, and whether it got shorter than what was stored (POD-507). Never 0, never longer."""
    grace, applied = stored, False
    for wanted in (pod.metadata.deletion_grace_period_seconds if pod else None, override_seconds):
        if wanted is not None and (grace == 0 or wanted < grace):
            grace, applied = wanted, True
    if not applied and grace == 0 and pod is not None:
        grace = pod.spec.termination_grace_period_seconds or 0
    grace = max(grace, 1)
    return grace, stored != 0 and stored != grace


def runtime_is_idle(status: RuntimePodStatus) -> bool:
    """Whether the runtime has neither a running container nor a READY sandbox of the pod (POD-504.2)."""
    return all(c.state is not ContainerState.RUNNING for c in status.containers) and all(
        s.state is not SandboxState.READY for s in status.sandboxes
    )


# --- UpdatePod ---------------------------------------------------------------------------------


def update_pod(
    state: WorkersState,
    options: UpdatePodOptions,
    *,
    now: float,
    cached: Callable[[str], RuntimePodStatus | None],
) -> Step:
    """Take one request (POD-504). ``cached`` reads the pod cache; None stands for a cached error."""
    pod, running = options.pod, options.running_pod
    if pod is not None:
        uid, name = uid_of(pod), full_name(pod)
        options = evolve(options, running_pod=None)
    elif running is not None and options.type is UpdateType.KILL:
        uid, name = running.uid, f"{running.name}_{running.namespace}"
    else:
        return Step(state, (), (Why("POD-504.1"),))

    known = state.records.get(uid)
    record = known or _new_record(uid, name, pod, now, cached)
    runtime_kill = pod is None
    if runtime_kill:
        # A running pod says nothing about the spec: whenever a real pod is known, that one is killed instead.
        record = evolve(record, observed_runtime=True)
        pod = _known_pod(record)
        if pod is not None:
            options = evolve(options, pod=pod, running_pod=None)

    if known is not None and record.is_terminating and options.type is UpdateType.CREATE:
        return Step(_put(state, evolve(record, restart_requested=True)), (), (Why("POD-504.4", uid),))
    if record.finished:
        return Step(_put(state, record), (), (Why("POD-504.5", uid),))

    record, became, why = _request_termination(record, options, pod, runtime_kill=runtime_kill, now=now)
    if record.terminated_at is not None and runtime_kill:
        return Step(_put(state, record), (), (*why, Why("POD-504.7", "terminated, runtime kill")))
    record, options, shortened, notified = _apply_kill_options(record, options, pod)
    step = _hand_over(state, record, options, pod, notified)
    if shortened:
        why = (*why, Why("POD-507", "shortened"))
    cancel = (CancelSync(uid),) if became or shortened else ()
    return Step(step.state, (*step.effects, *cancel), why or (Why("POD-504.8"),))


def _new_record(
    uid: str, name: str, pod: Pod | None, now: float, cached: Callable[[str], RuntimePodStatus | None]
) -> Record:
    record = Record(uid=uid, full_name=name, synced_at=now)
    if pod is not None and is_terminal_phase(phase_of(pod)):
        status = cached(uid)
        if status is not None and runtime_is_idle(status):
            return evolve(record, terminating_at=now, terminated_at=now, started_terminating=True)
    return record


def _known_pod(record: Record) -> Pod | None:
    for update in (record.pending, record.active):
        if update is not None and update.pod is not None:
            return update.pod
    return None


def _request_termination(
    record: Record, options: UpdatePodOptions, pod: Pod | None, *, runtime_kill: bool, now: float
) -> tuple[Record, bool, tuple[Why, ...]]:
    """Step 6: the first reason to terminate that applies."""
    if record.is_terminating:
        return record, False, ()
    if runtime_kill:
        return evolve(record, deleted=True, terminating_at=now), True, (Why("POD-504.6", "runtime pod"),)
    assert pod is not None
    if pod.metadata.deletion_timestamp is not None:
        return evolve(record, deleted=True, terminating_at=now), True, (Why("POD-504.6", "deleted"),)
    if is_terminal_phase(phase_of(pod)):
        return evolve(record, terminating_at=now), True, (Why("POD-504.6", "terminal phase"),)
    if options.type is UpdateType.KILL:
        evicted = options.kill_options is not None and options.kill_options.evict
        return evolve(record, evicted=evicted, terminating_at=now), True, (Why("POD-504.6", "kill"),)
    return record, False, ()


def _apply_kill_options(
    record: Record, options: UpdatePodOptions, pod: Pod | None
) -> tuple[Record, UpdatePodOptions, bool, tuple[Effect, ...]]:
    """Step 7: what becomes of the kill options in each state. The flag says whether the grace got shorter."""
    kill = options.kill_options
    if record.state is not WorkState.TERMINATING:
        notified = (Notify((kill.completed,)),) if kill is not None and kill.completed is not None else ()
        return record, evolve(options, kill_options=None), False, notified
    kill = kill or KillOptions()
    grace, shortened = effective_grace(record.grace_seconds, pod, kill.grace_override_seconds)
    record = evolve(
        record,
        grace_seconds=grace,
        on_terminated=record.on_terminated + ((kill.completed,) if kill.completed else ()),
        status_funcs=record.status_funcs + ((kill.status_func,) if kill.status_func else ()),
    )
    # From here on the grace is always told, so that nobody below has to work it out again (POD-508).
    options = evolve(options, kill_options=evolve(kill, grace_override_seconds=grace))
    return record, options, shortened, ()


def _hand_over(
    state: WorkersState,
    record: Record,
    options: UpdatePodOptions,
    pod: Pod | None,
    effects: tuple[Effect, ...],
) -> Step:
    """Step 8: have a worker, store the request as the pending one, wake the worker."""
    locks = state.names
    if not record.has_worker:
        effects = (*effects, StartWorker(record.uid))
        if pod is not None and is_static_pod(pod):
            locks = names.queue_up(locks, record.full_name, record.uid)
    earlier = record.pending.start_time_seconds if record.pending is not None else None
    if earlier is not None and options.start_time_seconds is not None:
        options = evolve(options, start_time_seconds=min(earlier, options.start_time_seconds))
    record = evolve(record, has_worker=True, pending=options)
    return Step(_put(evolve(state, names=locks), record), (*effects, WakeWorker(record.uid)))


# --- one run of a worker -----------------------------------------------------------------------


class Start(StrEnum):
    """What a woken worker has to do."""

    RUN = "run"
    WAIT = "wait"
    """The static pod's name is taken: try again in 10 s (POD-510)."""
    NEVER = "never"
    """The pod can never start; its record is closed and its task ends (POD-509)."""
    NOTHING = "nothing"


@frozen(kw_only=True)
class Work:
    """One run: the state decides the function, the update says with what."""

    state: WorkState
    update: UpdatePodOptions


@frozen(kw_only=True)
class StartStep:
    """The outcome of waking up. ``work`` is set for RUN only."""

    state: WorkersState
    start: Start
    work: Work | None = None
    effects: tuple[Effect, ...] = ()
    why: tuple[Why, ...] = ()


def start_run(state: WorkersState, uid: str, *, now: float) -> StartStep:
    """Take the pending update of a woken worker, and decide whether the pod may start (POD-509, POD-512)."""
    record = state.records.get(uid)
    if record is None or record.pending is None:
        return StartStep(state=state, start=Start.NOTHING)
    update = record.pending
    taken = evolve(record, pending=None, active=_merged(record.active, update))
    work = Work(state=record.state, update=update)
    if record.started_at is not None or (
        update.running_pod is not None and record.state is WorkState.TERMINATING
    ):
        return StartStep(state=_put(state, taken), start=Start.RUN, work=work)
    locks = state.names
    if update.pod is not None and is_static_pod(update.pod):
        if record.is_terminating:
            return _never_start(state, record, now)
        free, locks = names.try_start(
            locks,
            record.full_name,
            uid,
            lambda other: other in state.records and not state.records[other].is_terminating,
        )
        if not free:
            return StartStep(
                state=evolve(state, names=locks), start=Start.WAIT, why=(Why("POD-510", record.full_name),)
            )
    started = _put(evolve(state, names=locks), evolve(taken, started_at=now))
    return StartStep(state=started, start=Start.RUN, work=work, why=(Why("POD-509", "started"),))


def _never_start(state: WorkersState, record: Record, now: float) -> StartStep:
    closed = evolve(record, pending=None, finished=True, terminated_at=now, has_worker=False)
    locks = names.release(state.names, record.full_name, record.uid)
    return StartStep(
        state=_put(evolve(state, names=locks), closed),
        start=Start.NEVER,
        effects=(StopWorker(record.uid),),
        why=(Why("POD-509", "never"),),
    )


def _merged(active: UpdatePodOptions | None, update: UpdatePodOptions) -> UpdatePodOptions:
    """What is remembered for replays: the latest pod, mirror and kill options; never callbacks (POD-508)."""
    kill = active.kill_options if active is not None else None
    if update.kill_options is not None:
        kill = KillOptions(
            evict=update.kill_options.evict,
            grace_override_seconds=update.kill_options.grace_override_seconds,
        )
    pod = active.pod if active is not None else None
    if pod is None or update.running_pod is None:
        pod = update.pod
    return UpdatePodOptions(
        type=UpdateType.SYNC,
        pod=pod,
        running_pod=update.running_pod,
        mirror_pod=update.mirror_pod or (active.mirror_pod if active is not None else None),
        kill_options=kill,
    )


def acknowledge_terminating(state: WorkersState, uid: str) -> tuple[WorkersState, StatusFunc | None]:
    """Note that no container will be started any more; give the newest status function (POD-502, POD-517,
    RST-167, RST-168).
    """
    record = state.records.get(uid)
    if record is None:
        return state, None
    if record.is_terminating and not record.started_terminating:
        state = _put(state, evolve(record, started_terminating=True))
    return state, record.status_funcs[-1] if record.status_funcs else None


@frozen(kw_only=True)
class Finish:
    """The state after a run; whether it moved the pod on, and whether the worker's task is to end."""

    state: WorkersState
    phase_transition: bool = False
    ended: bool = False
    effects: tuple[Effect, ...] = ()
    why: tuple[Why, ...] = ()


def finish_run(
    state: WorkersState, uid: str, work: Work, *, is_terminal: bool, error: SyncError | None, now: float
) -> Finish:
    """Move the record on after one run (POD-513), and start what is pending (POD-515)."""
    record = state.records.get(uid)
    if record is None:
        return Finish(state=state, ended=True)
    transition, why = False, ()
    effects: tuple[Effect, ...] = ()
    if error is not None:
        pass
    elif work.state is WorkState.TERMINATED:
        return _finished(state, record)
    elif work.state is WorkState.TERMINATING and work.update.running_pod is not None:
        return _runtime_pod_gone(state, record)
    elif work.state is WorkState.TERMINATING:
        transition, why = True, (Why("POD-513", "terminated"),)
        effects = (Notify(record.on_terminated),) if record.on_terminated else ()
        record = _replay(evolve(record, terminated_at=now, on_terminated=(), status_funcs=()))
    elif is_terminal:
        transition, why = True, (Why("POD-513", "terminal"),)
        at = record.terminating_at if record.terminating_at is not None else now
        record = _replay(evolve(record, terminating_at=at, started_terminating=True))
    if record.pending is not None:
        effects = (*effects, WakeWorker(uid))
    return Finish(state=_put(state, record), phase_transition=transition, effects=effects, why=why)


def _finished(state: WorkersState, record: Record) -> Finish:
    locks = names.release(state.names, record.full_name, record.uid)
    return Finish(
        state=_put(evolve(state, names=locks), evolve(record, finished=True, has_worker=False, pending=None)),
        ended=True,
        effects=(StopWorker(record.uid),),
        why=(Why("POD-513", "finished"),),
    )


def _runtime_pod_gone(state: WorkersState, record: Record) -> Finish:
    """The end of a pod that only the runtime knew: nothing of it is remembered."""
    return Finish(
        state=_drop(state, record),
        ended=True,
        effects=(StopWorker(record.uid),),
        why=(Why("POD-513", "runtime pod"),),
    )


# --- SyncKnownPods -----------------------------------------------------------------------------


@frozen(kw_only=True)
class SyncKnownStep:
    """The state after SyncKnownPods, and the workers that are left (POD-520)."""

    state: WorkersState
    known: Mapping[str, KnownWorker]
    removed: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()


def sync_known_pods(state: WorkersState, desired: Collection[str], *, now: float) -> SyncKnownStep:
    """Compare the records with the UIDs that are desired; clear and push what is not (POD-519)."""
    state = evolve(state, synced=True)
    known: dict[str, KnownWorker] = {}
    removed: list[str] = []
    effects: list[Effect] = []
    for uid, record in tuple(state.records.items()):
        orphan = uid not in desired
        if orphan or record.restart_requested:
            step = remove_terminated_worker(state, record, orphan=orphan, now=now)
            state = step.state
            effects += step.effects
            if uid not in state.records:
                removed.append(uid)
                continue
        known[uid] = _known_worker(state.records[uid], orphan=orphan)
    return SyncKnownStep(state=state, known=known, removed=tuple(removed), effects=tuple(effects))


def remove_terminated_worker(state: WorkersState, record: Record, *, orphan: bool, now: float) -> Step:
    """Drop a record that is done or was never started; otherwise push an orphan on (POD-519, POD-1307)."""
    why = Why("POD-519", record.uid)
    never_seen = record.started_at is None and not record.observed_runtime
    if record.finished or (orphan and never_seen):
        return Step(_drop(state, record), (StopWorker(record.uid),), (why,))
    if not orphan:
        return Step(state)
    record = evolve(record, deleted=True)
    if not record.is_terminating:
        pod = record.active.pod if record.active is not None else None
        grace = effective_grace(record.grace_seconds, pod, None)[0] if pod is not None else 1
        record = evolve(record, terminating_at=now, grace_seconds=grace)
    replayed = _replay(record)
    wake = (WakeWorker(record.uid),) if replayed.pending is not record.pending else ()
    return Step(_put(state, replayed), wake, (why,))


def _known_worker(record: Record, *, orphan: bool) -> KnownWorker:
    update = record.active or record.pending
    pod = update.pod if update is not None else None
    return KnownWorker(
        state=record.state,
        orphan=orphan,
        has_config=pod is not None,
        static=pod is not None and is_static_pod(pod),
    )


def _replay(record: Record) -> Record:
    """Make the last update pending again, unless another one already is or there is none."""
    return evolve(record, pending=record.pending or record.active)


def _put(state: WorkersState, record: Record) -> WorkersState:
    return evolve(state, records={**state.records, record.uid: record})


def _drop(state: WorkersState, record: Record) -> WorkersState:
    records = {uid: other for uid, other in state.records.items() if uid != record.uid}
    return evolve(state, records=records, names=names.release(state.names, record.full_name, record.uid))
