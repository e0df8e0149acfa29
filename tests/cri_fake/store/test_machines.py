"""The transition tables: total over states and events, and true to the facts they move."""

import itertools
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_fake.store import containers, images, sandboxes
from cri_fake.store.containers import Container, WireState
from cri_fake.store.faults import IllegalTransition, Kind, Refusal, Refused
from cri_fake.store.sandboxes import Sandbox
from k8s_proto import runtime_v1_pb2 as cri

C, CE = containers.Phase, containers.Event
S, SE = sandboxes.Phase, sandboxes.Event


def a_container(**facts: Any) -> Container:
    base = Container(
        id="c" * 64,
        sandbox_id="s" * 64,
        reserved_name="main_web_default_u_0",
        name="main",
        attempt=0,
        instance=0,
        config=cri.ContainerConfig(),
        image_id="sha256:0",
        image_name="busybox",
        image_ref="sha256:0",
        log_path="",
        stop_signal=15,
        created_at_ns=100,
    )
    return evolve(base, **facts)


IN_PHASE: dict[containers.Phase, Container] = {
    C.CREATED: a_container(),
    C.STARTING: a_container(starting=True),
    C.RUNNING: a_container(started_at_ns=200, pid=7),
    C.EXITED: a_container(started_at_ns=200, finished_at_ns=300),
    C.UNKNOWN: a_container(started_at_ns=200, unknown=True),
    C.REMOVING: a_container(started_at_ns=200, finished_at_ns=300, removing=True),
}

SANDBOX = Sandbox(
    id="5" * 64,
    reserved_name="web_default_u_0",
    name="web",
    namespace="default",
    uid="u",
    attempt=0,
    config=cri.PodSandboxConfig(),
    created_at_ns=1,
    ips=("10.88.0.2",),
)
SANDBOX_IN_PHASE: dict[sandboxes.Phase, Sandbox] = {
    S.READY: SANDBOX,
    S.DEAD: evolve(SANDBOX, alive=False),
    S.STOPPED: evolve(SANDBOX, alive=False, network_open=False, ips=()),
}


def test_container_table_is_total() -> None:
    stored = [phase for phase in C if phase is not C.GONE]
    assert set(containers.TRANSITIONS) == set(stored)
    for phase in stored:
        assert set(containers.TRANSITIONS[phase]) == set(CE)


@pytest.mark.parametrize(("phase", "event"), list(itertools.product(IN_PHASE, CE)))
def test_container_every_state_and_event(phase: containers.Phase, event: containers.Event) -> None:
    before = IN_PHASE[phase]
    assert before.phase is phase
    entry = containers.TRANSITIONS[phase][event]
    if entry is None:
        with pytest.raises(IllegalTransition):
            containers.advance(before, event, now_ns=400)
        return
    if isinstance(entry, Refusal):
        with pytest.raises(Refused) as caught:
            containers.advance(before, event, now_ns=400)
        assert caught.value.text == entry.text
        assert caught.value.kind is Kind.UNKNOWN
        return
    after = containers.advance(before, event, now_ns=400)
    if entry is C.GONE:
        assert after is None
    elif isinstance(entry, containers.Stay):
        assert after is not None
        assert after.phase is phase
    else:
        assert after is not None
        assert after.phase in (entry if isinstance(entry, frozenset) else {entry})


def test_sandbox_table_is_total() -> None:
    stored = [phase for phase in S if phase is not S.GONE]
    assert set(sandboxes.TRANSITIONS) == set(stored)
    for phase in stored:
        assert set(sandboxes.TRANSITIONS[phase]) == set(SE)


@pytest.mark.parametrize(("phase", "event"), list(itertools.product(SANDBOX_IN_PHASE, SE)))
def test_sandbox_every_state_and_event(phase: sandboxes.Phase, event: sandboxes.Event) -> None:
    before = SANDBOX_IN_PHASE[phase]
    assert before.phase is phase
    entry = sandboxes.TRANSITIONS[phase][event]
    if entry is None:
        with pytest.raises(IllegalTransition):
            sandboxes.advance(before, event)
        return
    if isinstance(entry, Refusal):
        with pytest.raises(Refused, match=before.id):
            sandboxes.advance(before, event)
        return
    after = sandboxes.advance(before, event)
    if entry is S.GONE:
        assert after is None
    else:
        assert after is not None
        assert after.phase is (phase if isinstance(entry, sandboxes.Stay) else entry)


def test_image_table_is_total() -> None:
    assert set(images.TRANSITIONS) == set(images.Phase)
    assert all(set(row) == set(images.Event) for row in images.TRANSITIONS.values())


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        pytest.param({}, WireState.CREATED, id="CRI-040-created"),
        pytest.param({"started_at_ns": 1}, WireState.RUNNING, id="CRI-040-running"),
        pytest.param({"started_at_ns": 1, "finished_at_ns": 2}, WireState.EXITED, id="CRI-040-exited"),
        pytest.param({"finished_at_ns": 2}, WireState.EXITED, id="CRI-040-start-failed"),
        pytest.param({"finished_at_ns": 2, "unknown": True}, WireState.UNKNOWN, id="CRI-040-unknown-first"),
    ],
)
def test_state_is_derived(facts: dict[str, Any], state: WireState) -> None:
    assert a_container(**facts).state is state


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        pytest.param({"exit_code": 0}, "Completed", id="CRI-045-zero"),
        pytest.param({"exit_code": 3}, "Error", id="CRI-045-failure"),
        pytest.param({"exit_code": 137}, "Error", id="CRI-045-killed"),
        pytest.param({"exit_code": 137, "oom_killed": True}, "OOMKilled", id="CRI-045-oom"),
        pytest.param({"exit_code": 0, "oom_killed": True}, "OOMKilled", id="CRI-045-oom-of-a-child"),
        pytest.param({"exit_code": 128, "explicit_reason": "StartError"}, "StartError", id="CRI-045-start"),
    ],
)
def test_reason(facts: dict[str, Any], reason: str) -> None:
    assert a_container(finished_at_ns=5, **facts).reason == reason
    assert a_container(**facts).reason == ""


def test_start_failure_CRI_042() -> None:
    failed = containers.advance(IN_PHASE[C.STARTING], CE.START_FAIL, now_ns=500, message="no such file")
    assert failed is not None
    assert (failed.exit_code, failed.reason, failed.message) == (128, "StartError", "no such file")
    assert (failed.started_at_ns, failed.finished_at_ns) == (0, 500)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(CE)), st.integers(0, 10_000)), max_size=12))
def test_any_sequence_keeps_the_invariants_CRI_202_CRI_044(steps: list[tuple[containers.Event, int]]) -> None:
    current = a_container()
    runs = 0
    for event, now_ns in steps:
        try:
            following = containers.advance(current, event, now_ns=now_ns, exit_code=3)
        except (Refused, IllegalTransition):
            continue
        if following is None:
            break
        runs += event is CE.START_DONE
        if current.state is WireState.EXITED:
            frozen = ("started_at_ns", "finished_at_ns", "exit_code", "explicit_reason", "message")
            assert all(getattr(current, name) == getattr(following, name) for name in frozen)
            assert following.state is WireState.EXITED
        if following.started_at_ns and following.finished_at_ns:
            assert following.created_at_ns <= following.started_at_ns <= following.finished_at_ns
        current = following
    assert runs <= 1
