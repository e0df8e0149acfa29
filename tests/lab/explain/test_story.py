"""Stories of runs: of our own traces, and of recordings of a real kubelet.

Goal: a person who reads one learns what happened, by which rule, and what is surprising about it. Method: run
shipped scenarios in memory, tell them, and look for the sentences that have to be there.
"""

from functools import lru_cache

import pytest

from kubelet_emu.errors import CallerError
from kubelet_emu.lab.explain.compare import diff_lines
from kubelet_emu.lab.explain.reading import read_trace
from kubelet_emu.lab.explain.story import Story, as_json, at_lines, rule_lines, story_lines, tell, why_lines
from kubelet_emu.lab.node import NodeOptions
from kubelet_emu.lab.runner import run_scenario
from kubelet_emu.lab.scenarios import builtin_scenarios, load_recordings
from kubelet_emu.rules import RULES

SCENARIOS = {scenario.id: scenario for scenario in builtin_scenarios()}


@lru_cache(maxsize=16)
def ours(name: str) -> Story:
    return tell(read_trace(run_scenario(SCENARIOS[name], NodeOptions(seed=1, transport="memory"))))


@lru_cache(maxsize=80)
def recorded(name: str) -> Story:
    scenario = SCENARIOS[name]
    return tell(read_trace(load_recordings(name)[0], {scenario.pod_name: scenario.pod}))


def rules_of(story: Story) -> set[str]:
    return {fired.rule for moment in story.moments for fired in moment.rules}


def surprises_of(story: Story) -> set[str]:
    return {surprise.rule for moment in story.moments for surprise in moment.surprises}


def titles(story: Story) -> list[str]:
    return [moment.title for moment in story.moments if not moment.quiet]


def test_a_restart_in_place_is_told_from_trigger_to_ready():
    story = ours("restart-all-regular-exit")
    told = titles(story)
    wanted = [
        "The pod is created.",
        "The pod gets a sandbox, and setup may start.",
        "source#0 exits with 42.",
        "source exited with 42: the whole pod restarts in place.",
        "setup starts again.",
        "setup exited with 0: proxy starts again.",
        "source and bystander start again.",
    ]
    assert [title for title in told if title in wanted or title == "proxy starts again."][:3] == wanted[:3]
    for title in wanted[2:5]:
        assert title in told
    reset = next(moment for moment in story.moments if moment.kind == "reset")
    assert [text.partition(" (")[0] for text in reset.did] == [
        "stopped bystander#0",
        "removed bystander#0",
        "removed setup#0",
        "stopped proxy#0",
        "removed proxy#0",
        "removed source#0",
    ]
    assert reset.kept == ("sandbox#0 with address ip-1", "volume work")
    assert "RST-130" in {fired.rule for fired in reset.rules}


def test_what_a_person_sees_is_the_row_of_kubectl():
    story = ours("restart-all-regular-exit")
    people = [moment.person for moment in story.moments]
    assert "0/3  RestartingAllContainers  2 restarts" in people
    assert people[-1] == "3/3  Running  3 restarts"


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("restart-all-regular-exit", {"RST-126", "RST-134", "RST-146", "RST-152", "RST-156"}),
        ("restart-all-no-backoff", {"RST-142"}),
        ("restart-all-skips-prestop", {"RST-131"}),
        ("restart-all-reruns-finished-sibling", {"RST-024"}),
        ("restart-all-leaves-ephemeral-alone", {"RST-135"}),
        ("restart-all-first-rule-wins", {"RST-020"}),
        ("prestop-not-run-on-own-exit", {"RST-101"}),
        ("rule-restarts-back-off-too", {"RST-111"}),
        ("init-serial-then-regular", set()),
        ("conditions-in-order", set()),
    ],
)
def test_surprises_are_pointed_out_where_they_happen(name, rules):
    found = surprises_of(ours(name))
    assert rules <= found if rules else not found


def test_a_surprise_is_told_once():
    story = ours("restart-all-no-backoff")
    told = [surprise for moment in story.moments for surprise in moment.surprises]
    assert len(told) == len(set(told))


@pytest.mark.parametrize("name", SCENARIOS)
def test_recordings_of_a_real_kubelet_can_be_told(name):
    story = recorded(name)
    lines = list(story_lines(story))
    assert "inferred" in lines[1]
    assert story.moments
    assert rules_of(story) <= set(RULES)


def test_decisions_of_a_recording_are_inferred_with_the_same_functions():
    told = recorded("crashloop-delays-double")
    waits = [moment.title for moment in told.moments if "back-off" in moment.title]
    assert waits == [
        "main has to wait: back-off of 10 s.",
        "main has to wait: back-off of 20 s.",
        "main has to wait: back-off of 40 s.",
    ]
    assert all(moment.inferred for moment in told.moments if moment.kind == "sync")


@pytest.mark.parametrize(
    "name", ["restart-all-regular-exit", "rule-restart-on-listed-code", "init-serial-then-regular"]
)
def test_inferred_stories_start_the_same_containers_by_the_same_rules(name):
    def starts(story: Story) -> list[tuple[str, frozenset[str]]]:
        found = []
        for moment in story.moments:
            started = [text for text in moment.did if text.startswith("started")]
            if started:
                rules = {fired.rule for fired in moment.rules if fired.rule.startswith("RST-0")}
                found.append(("; ".join(started), frozenset(rules)))
        return found

    assert starts(ours(name)) == starts(recorded(name))


def test_why_one_instance_was_started():
    lines = list(why_lines(ours("crashloop-delays-double"), "main#2"))
    assert lines[0].startswith("main#2 of pod crashloop-delays-double started at")
    assert "because main#1 exited with 1" in lines[0]
    assert "back-off included" in lines[0]
    text = "\n".join(lines)
    assert "back-off of 10 s" in text
    assert "main#0 exits" not in text


def test_why_after_a_restart_in_place_names_the_trigger():
    lines = list(why_lines(ours("restart-all-regular-exit"), "bystander#1"))
    assert lines[0].endswith("because source exited with 42: the whole pod restarts in place.")


def test_why_of_a_first_instance():
    lines = list(why_lines(ours("restart-all-regular-exit"), "proxy#0"))
    assert "it is the first instance of proxy" in lines[0]


def test_an_instance_that_is_not_there_names_those_that_are():
    with pytest.raises(CallerError) as caught:
        list(why_lines(ours("crashloop-delays-double"), "other#1"))
    assert "main#0" in caught.value.problems[0].hint


def test_moments_of_a_rule():
    lines = list(rule_lines(ours("restart-all-regular-exit"), "rst-121"))
    assert lines[0] == f"RST-121: {RULES['RST-121']}"
    assert any("the whole pod restarts in place" in line for line in lines)
    silent = list(rule_lines(ours("conditions-in-order"), "RST-121"))
    assert silent[1] == "It did not fire in this run."
    with pytest.raises(CallerError):
        list(rule_lines(ours("conditions-in-order"), "RST-1"))


def test_the_state_at_one_moment():
    text = "\n".join(at_lines(ours("restart-all-regular-exit"), 10.0))
    assert "bystander#0      is being stopped (grace 2 s)" in text
    assert "source#0         exited with 42" in text
    assert "sandbox#0        ready ip-1" in text
    assert "next: 11." in text


def test_two_runs_of_one_seed_tell_the_same_story():
    story = ours("restart-all-regular-exit")
    assert list(diff_lines(story, story))[-1] == "Both runs tell the same story."


def test_stories_part_where_the_runs_do():
    lines = list(diff_lines(ours("rule-restart-on-listed-code"), ours("rule-notin-until-listed-code")))
    assert "  here the stories part:" in lines


def test_the_emulator_and_the_recording_tell_the_same_story():
    lines = list(diff_lines(ours("restart-all-regular-exit"), recorded("restart-all-regular-exit")))
    assert lines[-1] == "Both runs tell the same story."


def test_every_moment_as_json():
    told = as_json(ours("restart-all-regular-exit"))
    reset = next(moment for moment in told["moments"] if moment["kind"] == "reset")
    assert {"rule": "RST-130", "about": "", "sentence": RULES["RST-130"]} in reset["rules"]
    assert told["recorded"] is False
