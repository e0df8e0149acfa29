"""The worker machine under any order of requests and ends of runs (POD-501, POD-507, POD-510)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet_emu.api.types import ObjectMeta, Pod, PodSpec, PodStatus
from kubelet_emu.container.runtime import RunningPod, RuntimePodStatus
from kubelet_emu.pod_update import UpdateType
from kubelet_emu.podworkers.effects import StartWorker, StopWorker
from kubelet_emu.podworkers.machine import (
    Start,
    acknowledge_terminating,
    finish_run,
    start_run,
    sync_known_pods,
    update_pod,
)
from kubelet_emu.podworkers.record import KillOptions, SyncError, UpdatePodOptions, WorkersState, WorkState

UIDS = ("u1", "u2", "u3")

uids = st.sampled_from(UIDS)
seconds = st.none() | st.integers(0, 60)


@st.composite
def pods(draw):
    deletion_grace = draw(seconds)
    source = draw(st.sampled_from(["api", "file"]))
    return Pod(
        metadata=ObjectMeta(
            name="a",
            namespace="ns",
            uid=draw(uids),
            annotations={"kubernetes.io/config.source": source},
            deletion_timestamp=None if deletion_grace is None else 1,
            deletion_grace_period_seconds=deletion_grace,
        ),
        spec=PodSpec(termination_grace_period_seconds=draw(seconds)),
        status=PodStatus(phase=draw(st.sampled_from([None, "Running", "Failed", "Succeeded"]))),
    )


kills = st.none() | st.builds(KillOptions, evict=st.booleans(), grace_override_seconds=seconds)
requests = st.one_of(
    st.builds(UpdatePodOptions, type=st.sampled_from(UpdateType), pod=pods(), kill_options=kills),
    st.builds(
        UpdatePodOptions,
        type=st.just(UpdateType.KILL),
        running_pod=st.builds(RunningPod, uids, st.just("a"), st.just("ns")),
        kill_options=kills,
    ),
)
events = st.one_of(
    st.tuples(st.just("request"), requests),
    st.tuples(st.just("run"), uids),
    st.tuples(st.just("end"), st.tuples(uids, st.booleans(), st.booleans())),
    st.tuples(st.just("known"), st.sets(uids)),
)


class World:
    """The state, the run in progress of each UID, and the tasks that exist."""

    def __init__(self):
        self.state = WorkersState()
        self.runs = {}
        self.tasks = set()
        self.now = 0.0

    def take(self, state, effects):
        self.state = state
        for effect in effects:
            if isinstance(effect, StartWorker):
                assert effect.uid not in self.tasks
                self.tasks.add(effect.uid)
            elif isinstance(effect, StopWorker):
                self.tasks.discard(effect.uid)

    def step(self, kind, given):
        self.now += 1.0
        if kind == "request":
            step = update_pod(self.state, given, now=self.now, cached=lambda uid: RuntimePodStatus(uid))
            self.take(step.state, step.effects)
        elif kind == "known":
            step = sync_known_pods(self.state, given, now=self.now)
            self.take(step.state, step.effects)
            assert set(step.known) == set(self.state.records)
        elif kind == "run" and given in self.tasks and given not in self.runs:
            step = start_run(self.state, given, now=self.now)
            self.take(step.state, step.effects)
            assert (step.work is not None) is (step.start is Start.RUN)
            if step.work is not None:
                self.runs[given] = step.work
                if step.work.state is WorkState.TERMINATING:
                    self.state, _ = acknowledge_terminating(self.state, given)
        elif kind == "end" and given[0] in self.runs:
            uid, terminal, failed = given
            error = SyncError("no") if failed else None
            finish = finish_run(
                self.state, uid, self.runs.pop(uid), is_terminal=terminal, error=error, now=self.now
            )
            self.take(finish.state, finish.effects)


def check(before, world):
    state = world.state
    for uid, record in state.records.items():
        old = before.records.get(uid)
        assert record.has_worker is (uid in world.tasks)
        if record.terminated_at is not None:
            assert record.terminating_at is not None
        if record.finished:
            assert record.terminated_at is not None
        if record.started_terminating:
            assert record.is_terminating
        if old is not None and old.synced_at == record.synced_at:
            assert list(WorkState).index(record.state) >= list(WorkState).index(old.state)
            assert old.grace_seconds == 0 or 1 <= record.grace_seconds <= old.grace_seconds
            assert record.evicted >= old.evicted
            assert record.finished >= old.finished
    for name, holder in state.names.started.items():
        assert state.records[holder].full_name == name
        assert not state.records[holder].finished
    assert all(state.names.waiting.values())


@settings(max_examples=60, deadline=None)
@given(st.lists(events, max_size=30))
def test_a_record_only_moves_forward(steps):
    world = World()
    for kind, given_ in steps:
        before = world.state
        world.step(kind, given_)
        check(before, world)
