"""Checks: every expectation of every scenario holds on both recordings; order on our traces is strict."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet_emu.lab.checks import Verdict, evaluate, evaluate_all, holds_in_snapshot
from kubelet_emu.lab.checks_grammar import CheckSyntaxError, parse_check, parse_expr
from kubelet_emu.lab.scenarios import builtin_scenarios, load_recordings
from kubelet_emu.trace import Trace

SCENARIOS = builtin_scenarios()


def container(state, **more):
    return {"kind": "regular", "state": state, "restartCount": 0, "ready": False, "started": False, **more}


def snapshot(t, phase="Running", *, seq=None, containers=None, **more):
    record = {
        "t": t,
        "k": "pod",
        "pod": "p",
        "phase": phase,
        "conditions": {},
        "containers": containers or {},
    }
    return record | ({"seq": seq} if seq is not None else {}) | more


def call(t, method, *, seq=None, end=None, dt=0.0, **more):
    record = {"t": t, "k": "cri", "m": method, "dt": dt, **more}
    return record | ({"seq": seq, "end": seq if end is None else end} if seq is not None else {})


def trace(*records):
    return Trace({"k": "header", "format": 1, "pods": ["p"]}, records)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_every_expectation_holds_on_both_recordings(scenario):
    for recording in load_recordings(scenario.id):
        results = evaluate_all(scenario.expect, recording)
        assert [result for result in results if not result.ok] == []
        assert any(result.verdict is Verdict.PASS for result in results)


def test_only_what_recordings_do_not_carry_is_left_out():
    skipped = {
        result.found.removeprefix("the recording does not carry ")
        for scenario in SCENARIOS
        for recording in load_recordings(scenario.id)
        for result in evaluate_all(scenario.expect, recording)
        if result.verdict is Verdict.SKIPPED
    }
    assert skipped == {
        "UIDs",
        "node records",
        "the env of instances",
        "the environment of containers",
        "the image of containers",
        "the image of instances",
        "the mounts of instances",
    }


@pytest.mark.parametrize(
    ("check", "column", "expected"),
    [
        ("finally x", 1, "expected one of final, at, always"),
        ("final phase", 12, "found the end"),
        ("final phase =", 14, "expected a value"),
        ("final pod = 3", 7, "expected a path"),
        ("final main.colour = 3", 7, "main. and one of state"),
        ("final cond(Ready).status = True", 18, '".reason" or ".message"'),
        ("order start", 12, 'expected "<" and a further moment'),
        ("gap start end < 3", 11, 'expected "->"'),
        ("gap start -> end ~ 3", 18, "expected a comparison (= != < <= > >=)"),
        ("count started() = 1", 15, "expected a container's name"),
        ("count started(main) = one", 23, "expected a number"),
        ("keep calm", 6, "expected one of podUID"),
        ('final phase = "x', 15, "a string that does not end"),
        ("final phase = 'x'", 15, "unexpected character"),
        ("instance main exitCode = 3", 10, "an instance such as main#0"),
        ("instance main#0 colour = 3", 17, "expected one of exitCode"),
        ("final phase = A within [start, end]", 17, "expected the end of the check"),
        ("always phase = A within [start, foo(1)]", 33, "expected a moment"),
        ("gap start -> sandbox(1.5) < 3", 22, "a whole number from 0"),
        ('final a.message ~ "("', 19, "not a regular expression"),
        ("final " + "(" * 60, 47, "nested more than 40 deep"),
        ("final " + "not " * 60 + "phase = A", 167, "nested more than 40 deep"),
        ("final phase = " + "a" * 3000, 2000, "at most 2000 characters"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_mistakes_name_their_column_and_what_was_expected(check, column, expected):
    with pytest.raises(CheckSyntaxError) as caught:
        parse_check(check)
    assert caught.value.column == column
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("expr", "holds"),
    [
        ("phase = Running", True),
        ("phase != Running", False),
        ('phase ~ "^Run"', True),
        ("reason = none", True),
        ("reason != none", False),
        ("reason = X", False),
        ("reason != X", False),
        ("phase != none", True),
        ("not reason = X", True),
        ("main.exitCode = 42 and main.exitCode < 43", True),
        ("main.exitCode >= 43 or main.ready = false", True),
        ("main.ready = False", False),
        ("main.started = true", False),
        ("main.state = running or phase = Running and other.state = none", True),
        ("(main.state = running or phase = Running) and other.state = running", False),
        ("main.last.reason = Error and main.last.exitCode = 1", True),
        ("cond(Ready) = True and cond(Ready).reason = none", True),
        ("cond(Initialized).reason = PodCompleted and cond(Initialized).message = none", True),
        ("deleting = false and podIP = ip-1", True),
        ('main.message = "a \\"b\\" \\\\"', True),
        ("main.health(GPU-0) = Healthy and main.health(GPU-1) = none", True),
    ],
)
def test_expressions(expr, holds):
    shown = container(
        "terminated",
        exitCode=42,
        message='a "b" \\',
        last={"reason": "Error", "exitCode": 1},
        allocatedResourcesStatus=[
            {"name": "gpu", "resources": [{"resourceID": "GPU-0", "health": "Healthy"}]}
        ],
    )
    record = snapshot(
        1.0,
        containers={"main": shown},
        conditions={"Ready": ["True"], "Initialized": ["True", "PodCompleted", ""]},
        ip="ip-1",
    )
    assert holds_in_snapshot(parse_expr(expr), record) is holds


def life(name, at, seq=None):
    """A container made and started at a time; sequence numbers from ``seq`` on, if given."""
    label = f"{name}#0"
    order = [None if seq is None else seq + step for step in range(2)]
    return (
        call(at, "CreateContainer", seq=order[0], container=label, name=name, attempt=0),
        call(at, "StartContainer", seq=order[1], container=label),
    )


def test_order_on_our_traces_is_the_order_of_records_even_at_one_instant():
    ours = trace(*life("a", 1.0, 1), *life("b", 1.0, 3))
    assert evaluate("order started(a#0) < created(b#0)", ours).ok
    assert not evaluate("order created(b#0) < started(a#0)", ours).ok
    theirs = trace(*life("a", 1.0), *life("b", 1.0))
    assert evaluate("order created(b#0) < started(a#0)", theirs).ok


def test_a_call_is_placed_by_its_beginning_and_by_its_end():
    ours = trace(
        *life("a", 1.0, 1),
        call(2.0, "StopContainer", seq=3, end=5, dt=2.0, container="a#0", timeout="2"),
        snapshot(3.0, seq=4, phase="Failed"),
    )
    assert evaluate("order stopping(a#0) < when(phase = Failed) < exited(a#0)", ours).ok
    assert evaluate("instance a#0 stopTimeout = 2", ours).ok
    assert evaluate("instance a#0 lifetime = 3", ours).ok
    assert evaluate("gap stopping(a#0) -> exited(a#0) = 2", ours).ok


@pytest.mark.parametrize(("late", "ok"), [(0.009, True), (0.02, False)])
def test_order_on_recordings_has_ten_milliseconds_between_calls(late, ok):
    theirs = trace(*life("a", 1.0 + late), *life("b", 1.0))
    assert evaluate("order started(a#0) < created(b#0)", theirs).ok is ok


@pytest.mark.parametrize(("late", "ok"), [(0.4, True), (0.6, False)])
def test_order_on_recordings_has_half_a_second_to_a_snapshot(late, ok):
    theirs = trace(*life("a", 1.0), snapshot(1.0 + late, "Failed"))
    assert evaluate("order when(phase = Failed) < started(a#0)", theirs).ok is ok


def test_exit_is_seen_in_a_status_reply_before_any_snapshot():
    shown = {"a": container("terminated", id="a#0", exitCode=3)}
    status = call(2.0, "ContainerStatus", seq=3, container="a#0", state="exited", exitCode=3, poll=True)
    with_reply = trace(*life("a", 1.0, 1), status, snapshot(2.5, seq=4, containers=shown))
    assert evaluate("gap start -> exited(a#0) = 2", with_reply).ok
    without = trace(*life("a", 1.0, 1), snapshot(2.5, seq=4, containers=shown))
    assert evaluate("gap start -> exited(a#0) = 2.5", without).ok
    assert evaluate("instance a#0 exitCode = 3", without).ok


def test_windows_begin_with_the_snapshot_in_force():
    line = trace(snapshot(1.0, "Pending"), snapshot(2.0, "Running"), snapshot(3.0, "Failed"))
    assert evaluate("always phase = Running within [2.5, 2.9]", line).ok
    assert evaluate("always phase = Running within [2.5, 3]", line).verdict is Verdict.FAIL
    assert evaluate("eventually phase = Pending within [1.5, 9]", line).ok
    assert evaluate("never phase = Pending within [2, 9]", line).ok
    assert not evaluate("always phase = Pending within [0, 0.5]", line).ok
    assert evaluate("never phase = Pending within [0, 0.5]", line).ok
    assert evaluate("at 2.5 phase = Running", line).ok
    assert evaluate("gap start -> when(phase = Running, 2.5) = 2.5", line).ok


def test_the_final_snapshot_is_the_last_before_removal():
    line = trace(snapshot(1.0, "Succeeded"), snapshot(2.0, "Failed", deleted=True))
    assert evaluate("final phase = Succeeded", line).ok
    assert evaluate("gap start -> gone = 2", line).ok


def test_a_moment_that_does_not_occur_fails_the_check():
    line = trace(snapshot(1.0))
    for check in (
        "order start < gone",
        "gap start -> started(main#0) < 3",
        "at action(0) phase = Running",
        "instance main#0 attempt = 0",
        "always phase = Running within [start, event(Killing)]",
    ):
        result = evaluate(check, line)
        assert result.verdict is Verdict.FAIL
        assert "did not occur" in result.found or "was not created" in result.found
    assert evaluate("count started(main) = 0", line).ok


def test_counts_of_events_by_container_and_message():
    def event(t, on, message):
        kind = {"t": t, "k": "event", "pod": "p", "type": "Normal"}
        return kind | {"reason": "Killing", "on": on, "message": message, "count": 1}

    line = trace(
        snapshot(0.0),
        event(1.0, "spec.containers{main}", "killing"),
        event(2.0, "spec.initContainers{side}", "Stopping container side"),
        event(3.0, "", "killing"),
    )
    assert evaluate("count event(Killing) = 3", line).ok
    assert evaluate("count event(Killing, main) = 1", line).ok
    assert evaluate('count event(Killing, side, "^Stopping") = 1', line).ok
    assert evaluate('count event(Killing, side, "^killing$") = 0', line).ok
    assert evaluate("count event(Killing) = 1 within [event(Killing, side), 2.5]", line).ok


def test_what_was_found_is_said():
    line = trace(snapshot(1.0, "Pending"), snapshot(2.0, "Running"))
    result = evaluate("final phase = Failed and main.state = running", line)
    assert result.found == "last snapshot of 2.000 s: phase is Running, main.state is none"
    assert result.t == 2.0
    assert evaluate("keep sandbox", line).found == "0 RunPodSandbox, 0 StopPodSandbox"


def test_polls_cannot_be_counted_as_calls():
    assert evaluate("count cri(ContainerStatus) = 0", trace(snapshot(1.0))).verdict is Verdict.SKIPPED


def test_each_pod_of_a_trace_is_judged_by_its_own_records():
    two = Trace(
        {"k": "header", "format": 1, "pods": ["p", "q"]},
        (snapshot(1.0, seq=1), snapshot(1.0, "Failed", seq=2) | {"pod": "q"}),
    )
    assert evaluate("final phase = Running", two).ok
    assert evaluate("final phase = Failed", two, pod="q").ok
    with pytest.raises(KeyError):
        evaluate("final phase = Failed", two, pod="r")


WORDS = st.sampled_from(
    [
        "final",
        "at",
        "never",
        "order",
        "gap",
        "count",
        "keep",
        "instance",
        "phase",
        "=",
        "~",
        "<",
        "->",
        "(",
        ")",
        "[",
        "]",
        ",",
        "+",
        "-",
        "3",
        "main#0",
        "main.state",
        "cond",
        "when",
        "started",
        "within",
        "not",
        "and",
        '"x"',
        '"',
        "none",
        "start",
        "end",
        "event",
        "sandbox",
        "\\",
        "é",
    ]
)


@given(st.lists(WORDS, max_size=14).map(" ".join) | st.text(max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_check_or_a_mistake_with_a_place(text):
    column = 1
    try:
        assert evaluate(parse_check(text), trace(snapshot(1.0))).found
    except CheckSyntaxError as error:
        column = error.column
    assert 1 <= column <= len(text) + 1
