"""Behaviours: the --exit option, the file, and which one wins."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_fake.behaviour_file import parse_behaviours
from cri_fake.behaviours import (
    Behaviour,
    BehaviourProblem,
    Behaviours,
    LogLine,
    PullBehaviour,
    ReadinessStep,
    Target,
    parse_duration,
    parse_exit,
    parse_target,
)


@pytest.mark.parametrize(
    ("text", "target", "code", "seconds"),
    [
        ("trainer=1@30s", Target("trainer"), 1, 30.0),
        ("job/trainer=137@1m30s", Target("trainer", "job"), 137, 90.0),
        ("trainer#0=88@2", Target("trainer", "", 0), 88, 2.0),
        ("my.job-1/a-b#12=0@250ms", Target("a-b", "my.job-1", 12), 0, 0.25),
        ("w=255@0s", Target("w"), 255, 0.0),
    ],
)
def test_exit_option(text: str, target: Target, code: int, seconds: float) -> None:
    found, behaviour = parse_exit(text)
    assert found == target
    assert behaviour == Behaviour(run_for_seconds=seconds, exit_code=code)
    assert str(parse_target(str(found))) == str(found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("trainer", "write [POD/]NAME[#N]=CODE@TIME"),
        ("trainer=1", "write [POD/]NAME[#N]=CODE@TIME"),
        ("trainer=256@3s", "exit code '256' is not a number from 0 to 255"),
        ("trainer=-1@3s", "exit code '-1' is not a number from 0 to 255"),
        ("trainer=1@soon", "'soon' is not a duration"),
        ("trainer#x=1@3s", "'trainer#x' is not a container"),
        ("=1@3s", "'' is not a container"),
        ("a/b/c=1@3s", "'a/b/c' is not a container"),
    ],
)
def test_exit_option_says_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(BehaviourProblem) as caught:
        parse_exit(text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("35s", 35), ("1m30s", 90), ("1h", 3600), ("250ms", 0.25), (2, 2), ("1.5", 1.5), ("0.5s", 0.5)],
)
def test_duration(value: object, seconds: float) -> None:
    assert parse_duration(value) == seconds


@pytest.mark.parametrize("value", ["", "s", "1 s", "-1s", "1d", "1s2", None, True, -1, "1s1"])
def test_bad_duration(value: object) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(value)


FILE = """
containers:
  trainer:
    runFor: 30s
    exitCode: 1
  trainer#0: {oomKill: true, runFor: 12}
  job/trainer#1: {exitCode: 88}
  web:
    ignoreSigterm: true
    logLines: [started, {at: 2s, text: ready, stream: stderr}]
    readiness: [{at: 60s, ready: false}, {at: 5s, ready: true}]
  broken:
    startFailure: no such file
    imagePull: {failure: manifest unknown, code: NOT_FOUND, times: 2, duration: 3s}
images:
  docker.io/library/busybox:1.36: {duration: 5s}
"""


def test_file() -> None:
    found = parse_behaviours(FILE)
    assert found.for_instance("job", "trainer", 0) == Behaviour(
        run_for_seconds=12.0, exit_code=1, oom_kill=True
    )
    assert found.for_instance("job", "trainer", 1) == Behaviour(run_for_seconds=30.0, exit_code=88)
    assert found.for_instance("other", "trainer", 1) == Behaviour(run_for_seconds=30.0, exit_code=1)
    web = found.for_instance("any", "web", 7)
    assert web.ignore_sigterm is True
    assert web.log_lines == (LogLine("started"), LogLine("ready", 2.0, "stderr"))
    assert web.readiness == (ReadinessStep(5.0, True), ReadinessStep(60.0, False))
    assert [web.ready_at(seconds) for seconds in (0, 5, 59, 60)] == [None, True, True, False]
    pull = found.for_pull("any", ("x",), ("broken",))
    assert pull == PullBehaviour(failure="manifest unknown", code="NOT_FOUND", duration_seconds=3.0, times=2)
    assert found.for_pull("any", ("docker.io/library/busybox:1.36",), ()) == PullBehaviour(
        duration_seconds=5.0
    )
    assert found.for_pull("any", ("y",), ("trainer",)) is None


def test_all_problems_of_a_file_come_at_once_with_their_lines() -> None:
    text = (
        "containers:\n"
        "  a: {runFor: soon, exitCode: 256}\n"
        "  b: {runfor: 3s}\n"
        "  'c!': {}\n"
        "  a: {}\n"
        "  d: {logLines: [{at: 1s}], readiness: [{}], oomKill: maybe}\n"
        "  e: [x]\n"
        "volumes: {}\n"
    )
    with pytest.raises(BehaviourProblem) as caught:
        parse_behaviours(text, file="b.yaml")
    places = [place for place, _ in caught.value.problems]
    assert places == [
        "b.yaml:5",
        *["b.yaml:2"] * 2,
        "b.yaml:3",
        "b.yaml:4",
        *["b.yaml:6"] * 3,
        "b.yaml:7",
        "b.yaml:8",
    ]
    said = str(caught.value)
    assert "b.yaml:3: containers.b: unknown field 'runfor'; known are runFor, exitCode" in said
    assert "b.yaml:5: containers has the key 'a' twice" in said


@pytest.mark.parametrize("text", ["", "# nothing\n", "a: [", "- x\n", "containers: 3\n", "{a: b"])
def test_bad_files_are_problems(text: str) -> None:
    with pytest.raises(BehaviourProblem):
        parse_behaviours(text)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="abc:{}[]-#&*!|>'\" \n0123:@", max_size=60))
def test_no_text_crashes_the_reader(text: str) -> None:
    try:
        parse_behaviours(text)
    except BehaviourProblem:
        return


def test_more_exact_target_wins_field_by_field() -> None:
    behaviours = Behaviours(
        {
            Target("c"): Behaviour(run_for_seconds=1.0, exit_code=1, ignore_sigterm=True),
            Target("c", "p"): Behaviour(run_for_seconds=2.0, exit_code=2),
            Target("c", "", 0): Behaviour(run_for_seconds=3.0),
            Target("c", "p", 0): Behaviour(start_failure="x"),
        }
    )
    assert behaviours.for_instance("p", "c", 0) == Behaviour(
        run_for_seconds=3.0, exit_code=2, ignore_sigterm=True, start_failure="x"
    )


def test_a_callable_wins_over_all() -> None:
    behaviours = Behaviours(
        {Target("c"): Behaviour(exit_code=1)},
        decide=lambda pod, name, instance: Behaviour(exit_code=instance) if instance else None,
    )
    assert behaviours.for_instance("p", "c", 0).exit_code == 1
    assert behaviours.for_instance("p", "c", 4).exit_code == 4


def test_merged_sets() -> None:
    one = Behaviours({Target("c"): Behaviour(exit_code=1, run_for_seconds=5.0)})
    two = Behaviours({Target("c"): Behaviour(exit_code=2)}, {"x": PullBehaviour(failure="no")})
    both = one.merged_with(two)
    assert both.for_instance("p", "c", 0) == Behaviour(exit_code=2, run_for_seconds=5.0)
    assert both.for_pull("p", ("x",), ()) == PullBehaviour(failure="no")
