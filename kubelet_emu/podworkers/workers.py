"""Pod workers on trio: one task per UID that runs what the machine decides.

Mirrors the goroutines of ``pkg/kubelet/pod_workers.go`` (POD-501, POD-512, POD-516, POD-518).

Everything between two awaits happens at once, so the machine's state needs no lock. A running sync is never
cut off from outside: its cancel event is set, and the sync looks at it where the real one would.
"""

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol, TypeVarTuple, Unpack

import trio

from kubelet_emu.api.types import Pod, PodStatus
from kubelet_emu.container.cache import PodCache
from kubelet_emu.container.runtime import RunningPod, RuntimePodStatus
from kubelet_emu.container.stamps import BEFORE_ALL, Stamps
from kubelet_emu.errors import PeerError
from kubelet_emu.pod_update import UpdateType, uid_of
from kubelet_emu.podworkers import machine
from kubelet_emu.podworkers.delays import BACKOFF_SECONDS, jittered, requeue_after
from kubelet_emu.podworkers.effects import CancelSync, Effect, Notify, StartWorker, StopWorker, WakeWorker
from kubelet_emu.podworkers.machine import Start, Work
from kubelet_emu.podworkers.record import (
    KillOptions,
    KnownWorker,
    Record,
    StatusFunc,
    SyncError,
    SyncOutcome,
    UpdatePodOptions,
    WorkersState,
    WorkState,
)
from kubelet_emu.seams import EventRecorder, Recorder
from kubelet_emu.why import Why
from kubelet_emu.workqueue import WorkQueue

__all__ = ["EXCEEDED_GRACE_MESSAGE", "KILL_TIMEOUT_ERROR", "PodSyncer", "PodWorkers"]

EXCEEDED_GRACE_MESSAGE = "Container runtime did not kill the pod within specified grace period."
KILL_TIMEOUT_ERROR = "timeout waiting to kill pod"
_KILL_TIMEOUT_MIN_SECONDS = 10
_Args = TypeVarTuple("_Args")


class PodSyncer(Protocol):
    """The functions a worker runs. They return errors; a ``PeerError`` that escapes counts as one."""

    async def sync_pod(
        self, update_type: UpdateType, pod: Pod, mirror_pod: Pod | None, status: RuntimePodStatus
    ) -> SyncOutcome:
        """Set the pod up (POD-601)."""
        ...

    async def sync_terminating_pod(
        self,
        pod: Pod,
        status: RuntimePodStatus,
        grace_override_seconds: int | None,
        status_override: Callable[[PodStatus], PodStatus] | None,
    ) -> SyncError | None:
        """Stop all containers (POD-701)."""
        ...

    async def sync_terminating_runtime_pod(self, running_pod: RunningPod) -> SyncError | None:
        """Stop a pod of which only the runtime knows (POD-703)."""
        ...

    async def sync_terminated_pod(self, pod: Pod, status: RuntimePodStatus) -> SyncError | None:
        """Clean up after all containers have stopped (POD-704)."""
        ...


class _Worker:
    """The shell's side of one task: its wake-up call, and the cancel event of the sync that it runs."""

    __slots__ = ("cancel", "last_sync_end", "stopped", "woken")

    def __init__(self) -> None:
        self.woken = trio.Event()
        self.stopped = False
        self.cancel = trio.Event()
        self.last_sync_end = BEFORE_ALL

    def wake(self) -> None:
        self.woken.set()

    def stop(self) -> None:
        self.stopped = True
        self.woken.set()


class PodWorkers:
    """All pod workers of a node.

    ``nursery`` owns the tasks; they end with it. ``cache`` and ``stamps`` are shared with PLEG, the queue
    with the sync loop. Only ``kill_pod_now`` waits; everything else is immediate.
    """

    def __init__(
        self,
        *,
        nursery: trio.Nursery,
        stamps: Stamps,
        rng: random.Random,
        cache: PodCache,
        work_queue: WorkQueue,
        syncer: PodSyncer,
        recorder: Recorder,
        events: EventRecorder,
        resync_seconds: float = 60.0,
        backoff_seconds: float = BACKOFF_SECONDS,
    ) -> None:
        self._nursery = nursery
        self._stamps = stamps
        self._rng = rng
        self._cache = cache
        self._work_queue = work_queue
        self._syncer = syncer
        self._recorder = recorder
        self._events = events
        self._resync_seconds = resync_seconds
        self._backoff_seconds = backoff_seconds
        self._state = WorkersState()
        self._workers: dict[str, _Worker] = {}

    # --- requests ---------------------------------------------------------------------------------------

    def update_pod(self, options: UpdatePodOptions) -> None:
        """Ask for a sync or a kill; requests that are not yet taken up coalesce (POD-503, POD-504)."""
        step = machine.update_pod(self._state, options, now=self._stamps.now(), cached=self._cached)
        self._state = step.state
        name = _name_of(options)
        record = self._state.records.get(_uid_of(options))
        self._recorder.decision(
            "podworkers",
            name,
            step.why,
            inputs={"update": str(options.type), "runtimePod": options.pod is None},
            outcome=_outcome(record),
        )
        self._perform(step.effects)

    def sync_known_pods(self, desired: Iterable[Pod]) -> Mapping[str, KnownWorker]:
        """Reconcile with the pods that are desired; what is left, by UID (POD-519, POD-520)."""
        uids = frozenset(uid_of(pod) for pod in desired)
        step = machine.sync_known_pods(self._state, uids, now=self._stamps.now())
        for uid in step.removed:
            name = self._state.records[uid].full_name.rpartition("_")[0]
            why = (Why("POD-519", uid),)
            self._recorder.decision(
                "podworkers", name, why, inputs={"update": "no source wants it"}, outcome=_outcome(None)
            )
        self._state = step.state
        self._perform(step.effects)
        return step.known

    async def kill_pod_now(
        self,
        pod: Pod,
        *,
        evict: bool = False,
        grace_override_seconds: int | None = None,
        status_func: StatusFunc | None = None,
    ) -> str:
        """Kill and wait for the end of the terminating step; an error text, empty on success (POD-518).

        After max(10 s, 1.5 × grace) it emits ``ExceededGracePeriod`` and gives up waiting; the kill goes on.
        """
        grace = grace_override_seconds
        if grace is None:
            grace = pod.spec.termination_grace_period_seconds or 0
        done = trio.Event()
        self.update_pod(
            UpdatePodOptions(
                type=UpdateType.KILL,
                pod=pod,
                kill_options=KillOptions(
                    completed=done.set,
                    evict=evict,
                    status_func=status_func,
                    grace_override_seconds=grace_override_seconds,
                ),
            )
        )
        with trio.move_on_after(max(grace + grace // 2, _KILL_TIMEOUT_MIN_SECONDS)):
            await done.wait()
            return ""
        self._events.event(pod, "Warning", "ExceededGracePeriod", EXCEEDED_GRACE_MESSAGE)
        return KILL_TIMEOUT_ERROR

    # --- queries (POD-506) ------------------------------------------------------------------------------

    @property
    def state(self) -> WorkersState:
        """All records, for inspection."""
        return self._state

    @property
    def synced(self) -> bool:
        """Whether ``sync_known_pods`` has run at least once."""
        return self._state.synced

    def record(self, uid: str) -> Record | None:
        """What is known of the UID, None if nothing."""
        return self._state.records.get(uid)

    def is_known_terminated(self, uid: str) -> bool:
        """All containers have stopped for good. False for an unknown UID."""
        record = self._state.records.get(uid)
        return record is not None and record.terminated_at is not None

    def could_have_running_containers(self, uid: str) -> bool:
        """Not terminated; an unknown UID could until ``sync_known_pods`` has run."""
        record = self._state.records.get(uid)
        return record.terminated_at is None if record is not None else not self.synced

    def should_be_finished(self, uid: str) -> bool:
        """The terminated step is done; an unknown UID counts as done once ``sync_known_pods`` has run."""
        record = self._state.records.get(uid)
        return record.finished if record is not None else self.synced

    def termination_requested(self, uid: str) -> bool:
        """Somebody asked for the termination. False for an unknown UID."""
        record = self._state.records.get(uid)
        return record is not None and record.is_terminating

    def containers_should_be_terminating(self, uid: str) -> bool:
        """No container will be started any more."""
        record = self._state.records.get(uid)
        return record.started_terminating if record is not None else self.synced

    def runtime_should_be_removed(self, uid: str) -> bool:
        """The sandbox is not needed any more."""
        record = self._state.records.get(uid)
        return record.terminated_at is not None if record is not None else self.synced

    def content_should_be_removed(self, uid: str) -> bool:
        """Containers and logs are not needed any more (POD-1105)."""
        record = self._state.records.get(uid)
        if record is None:
            return self.synced
        return record.evicted or (record.deleted and record.terminated_at is not None)

    def is_pod_for_mirror_terminating(self, pod_full_name: str) -> bool:
        """Whether a started static pod of that full name is terminating and not yet terminated (POD-804)."""
        record = self._state.records.get(self._state.names.started.get(pod_full_name, ""))
        return record is not None and record.state is WorkState.TERMINATING

    def cancel_event(self, uid: str) -> trio.Event:
        """Set once the sync that runs now should give up waiting (POD-516); a new one for each run."""
        worker = self._workers.get(uid)
        return worker.cancel if worker is not None else trio.Event()

    # --- the task of one worker -------------------------------------------------------------------------

    async def _serve(self, uid: str, worker: _Worker) -> None:
        while True:
            await worker.woken.wait()
            if worker.stopped:
                return
            worker.woken = trio.Event()
            step = machine.start_run(self._state, uid, now=self._stamps.now())
            self._state = step.state
            self._perform(step.effects)
            if step.start is Start.WAIT:
                delay = jittered(self._backoff_seconds, self._rng.random())
                self._work_queue.enqueue(uid, now=self._stamps.now(), delay_seconds=delay)
            if step.work is not None and await self._run_once(uid, worker, step.work):
                return

    async def _run_once(self, uid: str, worker: _Worker, work: Work) -> bool:
        """One run and its consequences; whether the task is to end (POD-512 to POD-514)."""
        if worker.cancel.is_set():
            worker.cancel = trio.Event()
        outcome = await self._sync(uid, worker, work)
        finish = machine.finish_run(
            self._state,
            uid,
            work,
            is_terminal=outcome.is_terminal,
            error=outcome.error,
            now=self._stamps.now(),
        )
        self._state = finish.state
        record = self._state.records.get(uid)
        if finish.why:
            inputs = {"ran": str(work.state), "error": outcome.error.text if outcome.error else ""}
            name = _name_of(work.update)
            self._recorder.decision("podworkers", name, finish.why, inputs=inputs, outcome=_outcome(record))
        if not finish.ended:
            self._requeue(uid, phase_transition=finish.phase_transition, error=outcome.error)
        self._perform(finish.effects)
        return finish.ended

    async def _sync(self, uid: str, worker: _Worker, work: Work) -> SyncOutcome:
        """Wait for a fresh status if one is needed, then run the function of the state."""
        update = work.update
        if update.pod is None:
            assert update.running_pod is not None
            self._acknowledge(uid)
            outcome = SyncOutcome(
                error=await _caught(self._syncer.sync_terminating_runtime_pod, update.running_pod)
            )
            worker.last_sync_end = self._stamps.now()
            return outcome
        try:
            status = await self._cache.get_newer_than(uid, worker.last_sync_end)
        except PeerError as error:
            self._events.event(update.pod, "Warning", "FailedSync", f"error determining status: {error}")
            return SyncOutcome(error=SyncError.of_exception(error))
        outcome = await self._run_state(uid, work, update.pod, status)
        worker.last_sync_end = self._stamps.now()
        return outcome

    async def _run_state(self, uid: str, work: Work, pod: Pod, status: RuntimePodStatus) -> SyncOutcome:
        update = work.update
        if work.state is WorkState.TERMINATED:
            return SyncOutcome(error=await _caught(self._syncer.sync_terminated_pod, pod, status))
        if work.state is WorkState.TERMINATING:
            grace = update.kill_options.grace_override_seconds if update.kill_options is not None else None
            status_func = self._acknowledge(uid)
            return SyncOutcome(
                error=await _caught(self._syncer.sync_terminating_pod, pod, status, grace, status_func)
            )
        try:
            return await self._syncer.sync_pod(update.type, pod, update.mirror_pod, status)
        except PeerError as error:
            return SyncOutcome(error=SyncError.of_exception(error))

    def _acknowledge(self, uid: str) -> StatusFunc | None:
        self._state, status_func = machine.acknowledge_terminating(self._state, uid)
        return status_func

    def _requeue(self, uid: str, *, phase_transition: bool, error: SyncError | None) -> None:
        now = self._stamps.now()
        requeue = requeue_after(
            phase_transition=phase_transition,
            error=error,
            now_seconds=now,
            resync_seconds=self._resync_seconds,
            backoff_seconds=self._backoff_seconds,
        )
        delay = requeue.base_seconds
        if requeue.jitter:
            delay = jittered(delay, self._rng.random())
        self._work_queue.enqueue(uid, now=now, delay_seconds=delay)
        record = self._state.records.get(uid)
        self._recorder.fact(
            "requeue",
            pod=record.full_name.partition("_")[0] if record is not None else uid,
            rule=requeue.why[0].rule,
            about=requeue.why[0].about,
            seconds=round(delay, 6),
            error=error.text if error is not None else "",
        )

    # --- effects ----------------------------------------------------------------------------------------

    def _cached(self, uid: str) -> RuntimePodStatus | None:
        try:
            return self._cache.get(uid)
        except PeerError:
            return None

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, Notify):
                for callback in effect.callbacks:
                    callback()
            elif isinstance(effect, StartWorker):
                worker = self._workers[effect.uid] = _Worker()
                self._nursery.start_soon(self._serve, effect.uid, worker, name=f"pod worker {effect.uid}")
            elif isinstance(effect, StopWorker):
                stopped = self._workers.pop(effect.uid, None)
                if stopped is not None:
                    stopped.stop()
            elif effect.uid in self._workers:
                self._signal(effect)

    def _signal(self, effect: WakeWorker | CancelSync) -> None:
        worker = self._workers[effect.uid]
        if isinstance(effect, WakeWorker):
            worker.wake()
        else:
            worker.cancel.set()


async def _caught(
    function: Callable[[Unpack[_Args]], Awaitable[SyncError | None]], *args: *_Args
) -> SyncError | None:
    try:
        return await function(*args)
    except PeerError as error:
        return SyncError.of_exception(error)


def _uid_of(options: UpdatePodOptions) -> str:
    if options.pod is not None:
        return uid_of(options.pod)
    return options.running_pod.uid if options.running_pod is not None else ""


def _name_of(options: UpdatePodOptions) -> str:
    if options.pod is not None:
        return options.pod.metadata.name
    return options.running_pod.name if options.running_pod is not None else ""


def _outcome(record: Record | None) -> dict[str, object]:
    if record is None:
        return {"state": "gone"}
    return {
        "state": "finished" if record.finished else str(record.state),
        "graceSeconds": record.grace_seconds,
        "evicted": record.evicted,
        "deleted": record.deleted,
        "restartRequested": record.restart_requested,
        "startedTerminating": record.started_terminating,
    }
