"""The worker machine without a loop: requests in, records out (POD-507, POD-519, POD-1303, POD-1307)."""

import pytest
from attrs import evolve

from kubelet_emu.api.types import ObjectMeta, Pod, PodSpec, PodStatus
from kubelet_emu.container.runtime import (
    ContainerState,
    RunningPod,
    RuntimeContainer,
    RuntimePodStatus,
    RuntimeSandbox,
    SandboxState,
)
from kubelet_emu.pod_update import UpdateType
from kubelet_emu.podworkers.effects import CancelSync, Notify, StartWorker, StopWorker, WakeWorker
from kubelet_emu.podworkers.machine import (
    acknowledge_terminating,
    effective_grace,
    finish_run,
    remove_terminated_worker,
    runtime_is_idle,
    start_run,
    sync_known_pods,
    update_pod,
)
from kubelet_emu.podworkers.record import (
    KillOptions,
    Record,
    SyncError,
    UpdatePodOptions,
    WorkersState,
    WorkState,
)


def pod(uid="u1", *, phase=None, grace=30, deletion=None, deletion_grace=None):
    return Pod(
        metadata=ObjectMeta(
            name="a",
            namespace="ns",
            uid=uid,
            deletion_timestamp=deletion,
            deletion_grace_period_seconds=deletion_grace,
        ),
        spec=PodSpec(termination_grace_period_seconds=grace),
        status=PodStatus(phase=phase),
    )


def ask(state, update_type, a_pod=None, *, running=None, kill=None, now=1.0, cached=None):
    options = UpdatePodOptions(type=update_type, pod=a_pod, running_pod=running, kill_options=kill)
    return update_pod(state, options, now=now, cached=lambda uid: cached)


def run_once(state, *, uid="u1", terminal=False, error=None, now=2.0):
    """Take the pending update and end the run at once."""
    step = start_run(state, uid, now=now)
    assert step.work is not None
    finish = finish_run(step.state, uid, step.work, is_terminal=terminal, error=error, now=now)
    return step.work, finish


@pytest.mark.parametrize(
    ("deletion", "override", "expected"),
    [(None, None, 30), (5, None, 5), (5, 2, 2), (0, None, 1), (5, 0, 1)],
    ids=lambda value: f"POD-1303-{value}",
)
def test_effective_grace(deletion, override, expected):
    assert effective_grace(0, pod(deletion_grace=deletion), override) == (expected, False)


def test_grace_only_shrinks():
    assert effective_grace(10, pod(deletion_grace=20), None) == (10, False)
    assert effective_grace(10, pod(deletion_grace=4), None) == (4, True)
    assert effective_grace(10, pod(), 3) == (3, True)


def test_idle_means_no_running_container_and_no_ready_sandbox():
    container = RuntimeContainer("c", "c", ContainerState.RUNNING)
    sandbox = RuntimeSandbox("s", SandboxState.READY)
    assert runtime_is_idle(RuntimePodStatus("u"))
    assert not runtime_is_idle(RuntimePodStatus("u", containers=(container,)))
    assert not runtime_is_idle(RuntimePodStatus("u", sandboxes=(sandbox,)))


def test_create_starts_a_worker():
    step = ask(WorkersState(), UpdateType.CREATE, pod())
    assert step.effects == (StartWorker("u1"), WakeWorker("u1"))
    work, finish = run_once(step.state)
    assert work.state is WorkState.SYNCING
    record = finish.state.records["u1"]
    assert (record.state, record.started_at, record.active.pod) == (WorkState.SYNCING, 2.0, pod())


def test_updates_coalesce_to_the_newest_and_keep_the_older_start_time():
    state = WorkersState()
    for start, changed in ((3.0, pod(grace=1)), (5.0, pod(grace=2))):
        options = UpdatePodOptions(type=UpdateType.UPDATE, pod=changed, start_time_seconds=start)
        state = update_pod(state, options, now=1.0, cached=lambda uid: None).state
    pending = state.records["u1"].pending
    assert pending.pod.spec.termination_grace_period_seconds == 2
    assert pending.start_time_seconds == 3.0


def test_kill_cancels_the_running_sync_and_passes_the_grace_down():
    state = ask(WorkersState(), UpdateType.CREATE, pod()).state
    step = ask(state, UpdateType.KILL, pod())
    assert step.effects == (WakeWorker("u1"), CancelSync("u1"))
    assert step.state.records["u1"].pending.kill_options.grace_override_seconds == 30
    shorter = ask(step.state, UpdateType.UPDATE, pod(deletion=1, deletion_grace=3))
    assert shorter.effects == (WakeWorker("u1"), CancelSync("u1"))
    assert shorter.state.records["u1"].grace_seconds == 3
    same = ask(shorter.state, UpdateType.UPDATE, pod(deletion=1, deletion_grace=60))
    assert same.effects == (WakeWorker("u1"),)


def test_completed_is_called_at_once_while_syncing_and_after_termination_otherwise():
    called = []
    kill = KillOptions(completed=lambda: called.append(1))
    step = ask(WorkersState(), UpdateType.SYNC, pod(), kill=kill)
    assert [type(effect) for effect in step.effects] == [Notify, StartWorker, WakeWorker]
    state = ask(step.state, UpdateType.KILL, pod(), kill=kill).state
    work, finish = run_once(state)
    assert work.state is WorkState.TERMINATING
    assert [type(effect) for effect in finish.effects] == [Notify, WakeWorker]
    after = ask(finish.state, UpdateType.KILL, pod(), kill=kill)
    assert isinstance(after.effects[0], Notify)


def test_the_newest_status_function_wins_POD_517():
    def first(status):
        return status

    def second(status):
        return status

    state = ask(WorkersState(), UpdateType.KILL, pod(), kill=KillOptions(status_func=first)).state
    state = ask(state, UpdateType.KILL, pod(), kill=KillOptions(status_func=second)).state
    state, function = acknowledge_terminating(state, "u1")
    assert function is second
    assert state.records["u1"].started_terminating
    assert acknowledge_terminating(state, "nobody") == (state, None)


def test_natural_end_replays_without_a_grace_POD_508():
    state = ask(WorkersState(), UpdateType.CREATE, pod()).state
    _, finish = run_once(state, terminal=True)
    assert finish.phase_transition
    work, finish = run_once(finish.state)
    assert work.state is WorkState.TERMINATING
    assert work.update.kill_options is None
    work, finish = run_once(finish.state)
    assert work.state is WorkState.TERMINATED
    assert finish.ended
    assert finish.effects == (StopWorker("u1"),)
    assert finish.state.records["u1"].finished


def test_an_error_keeps_the_state():
    state = ask(WorkersState(), UpdateType.KILL, pod()).state
    _, finish = run_once(state, error=SyncError("no"))
    assert not finish.phase_transition
    assert finish.state.records["u1"].state is WorkState.TERMINATING
    assert finish.state.records["u1"].pending is None


RUNNING = RunningPod("u1", "a", "ns")


def known(**changes):
    changes.setdefault("active", UpdatePodOptions(type=UpdateType.SYNC, pod=pod(grace=7)))
    return Record(uid="u1", full_name="a_ns", synced_at=0.0, has_worker=True, **changes)


PENDING = UpdatePodOptions(type=UpdateType.UPDATE, pod=pod(grace=9))
DONE = {"started_at": 1.0, "terminating_at": 2.0, "terminated_at": 3.0}


@pytest.mark.parametrize(
    ("record", "orphan", "removed", "pending"),
    [
        pytest.param(known(**DONE, finished=True), False, True, None, id="POD-1307-finished"),
        pytest.param(known(started_at=1.0), False, False, None, id="POD-1307-not-orphan"),
        pytest.param(known(active=None), True, True, None, id="POD-1307-never-started"),
        pytest.param(known(started_at=1.0), True, False, 7, id="POD-1307-started"),
        pytest.param(known(started_at=1.0, active=None), True, False, None, id="POD-1307-nothing-to-replay"),
        pytest.param(known(started_at=1.0, terminating_at=2.0), True, False, 7, id="POD-1307-terminating"),
        pytest.param(known(**DONE), True, False, 7, id="POD-1307-terminated"),
        pytest.param(known(**DONE, pending=PENDING), True, False, 9, id="POD-1307-pending-kept"),
    ],
)
def test_remove_terminated_worker(record, orphan, removed, pending):
    state = WorkersState({"u1": record})
    step = remove_terminated_worker(state, record, orphan=orphan, now=9.0)
    assert ("u1" not in step.state.records) is removed
    if removed:
        assert step.effects == (StopWorker("u1"),)
        return
    after = step.state.records["u1"]
    grace = after.pending.pod.spec.termination_grace_period_seconds if after.pending else None
    assert grace == pending
    assert after.deleted is orphan
    assert (after.terminating_at is not None) is (orphan or record.terminating_at is not None)


def test_orphan_gets_the_grace_of_its_last_pod():
    step = sync_known_pods(WorkersState({"u1": known(started_at=1.0)}), frozenset(), now=4.0)
    assert step.state.synced
    assert step.state.records["u1"].grace_seconds == 7
    assert step.effects == (WakeWorker("u1"),)
    worker = step.known["u1"]
    assert (worker.state, worker.orphan, worker.has_config) == (WorkState.TERMINATING, True, True)


def test_a_record_closed_before_its_start_releases_nothing_of_others_POD_1306():
    annotations = {"kubernetes.io/config.source": "file"}

    def static(uid):
        base = pod(uid)
        return evolve(base, metadata=evolve(base.metadata, annotations=annotations))

    state = ask(WorkersState(), UpdateType.CREATE, pod("p1")).state
    for uid in ("p2", "p3", "p4"):
        state = ask(state, UpdateType.CREATE, static(uid)).state
    starts = {}
    for uid in ("p1", "p2", "p3", "p4"):
        step = start_run(state, uid, now=2.0)
        state, starts[uid] = step.state, step.start
    assert list(starts.values()) == ["run", "run", "wait", "wait"]
    assert state.names.waiting == {"a_ns": ("p3", "p4")}

    state = ask(state, UpdateType.KILL, static("p3")).state
    step = start_run(state, "p3", now=3.0)
    assert step.start == "never"
    assert step.state.records["p3"].finished
    assert step.state.names.waiting == {"a_ns": ("p3", "p4")}

    state = ask(step.state, UpdateType.KILL, static("p2")).state
    _, finish = run_once(state, uid="p2")
    _, finish = run_once(finish.state, uid="p2")
    assert finish.state.names.started == {}
    step = start_run(ask(finish.state, UpdateType.UPDATE, static("p4")).state, "p4", now=5.0)
    assert step.start == "run"
    assert step.state.names.started == {"a_ns": "p4"}
    assert step.state.names.waiting == {}


def test_a_runtime_pod_is_killed_and_forgotten():
    step = ask(WorkersState(), UpdateType.KILL, running=RUNNING, kill=KillOptions(grace_override_seconds=1))
    record = step.state.records["u1"]
    assert (record.deleted, record.observed_runtime, record.grace_seconds) == (True, True, 1)
    work, finish = run_once(step.state)
    assert work.update.running_pod is RUNNING
    assert finish.ended
    assert finish.state.records == {}


def test_a_runtime_kill_uses_the_pod_that_is_known():
    state = ask(WorkersState(), UpdateType.CREATE, pod()).state
    step = ask(state, UpdateType.KILL, running=RUNNING)
    pending = step.state.records["u1"].pending
    assert pending.pod == pod()
    assert pending.running_pod is None


def test_only_kills_are_taken_for_a_runtime_pod():
    assert ask(WorkersState(), UpdateType.CREATE, running=RUNNING).state == WorkersState()


def test_finished_record_ignores_everything():
    record = known(**DONE, finished=True)
    step = ask(WorkersState({"u1": record}), UpdateType.UPDATE, pod())
    assert step.effects == ()
    assert step.state.records["u1"] == record
