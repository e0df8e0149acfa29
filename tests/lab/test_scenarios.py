"""Scenario files: those that ship load; every mistake in one's own is named with its place."""

from pathlib import Path

import pytest

from kubelet_emu.errors import CallerError
from kubelet_emu.lab.checks import evaluate_all
from kubelet_emu.lab.node import NodeOptions
from kubelet_emu.lab.runner import run_scenario
from kubelet_emu.lab.scenarios import (
    AREAS,
    builtin_scenarios,
    load_recordings,
    load_scenario,
    load_scenarios,
    scenario_from_text,
)

GOOD = """\
id: mine
runFor: 10
pod:
  apiVersion: v1
  kind: Pod
  metadata: {name: p}
  spec: {containers: [{name: main, image: busybox}]}
expect:
- final phase = Running
"""


def problems(text):
    with pytest.raises(CallerError) as caught:
        scenario_from_text(text, file="mine.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_the_shipped_scenarios_load_and_have_two_recordings_each():
    scenarios = builtin_scenarios()
    assert len(scenarios) == 72
    assert {scenario.area for scenario in scenarios} == set(AREAS)
    for scenario in scenarios:
        runs = [trace.header["run"] for trace in load_recordings(scenario.id)]
        assert runs == ["a", "b"], scenario.id


def test_actions_keep_their_keys():
    by_id = {scenario.id: scenario for scenario in builtin_scenarios()}
    (action,) = by_id["ephemeral-runs-once"].actions
    assert (action.at_seconds, action.do) == (5.0, "add-ephemeral-container")
    assert action.fields()["container"]["name"] == "debug"
    (action,) = by_id["image-update-restarts-one-container"].actions
    assert action.fields() == {"container": "main", "image": "docker.io/library/busybox:1.35"}
    assert by_id["device-kept-over-restart-all"].devices[0].pre_start is True


def test_a_good_file_of_ones_own(tmp_path):
    (tmp_path / "mine.yaml").write_text(GOOD)
    (scenario,) = load_scenarios([tmp_path])
    assert (scenario.id, scenario.pod_name, scenario.run_for_seconds) == ("mine", "p", 10.0)
    assert load_recordings("mine", tmp_path) == ()


def test_the_example_of_the_documentation_holds():
    page = Path(__file__).parents[2] / "docs" / "scenarios.md"
    if not page.is_file():
        pytest.skip("the documentation is not here")
    text = page.read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]
    scenario = scenario_from_text(text, file="restart-once.yaml")
    trace = run_scenario(scenario, NodeOptions(seed=1, transport="memory"))
    assert [(one.check, one.found) for one in evaluate_all(scenario.expect, trace) if not one.ok] == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("runFor: 10", "runFor: soon", "mine.yaml:2: runFor: must be a number of seconds, not 'soon'"),
        ("runFor: 10", "runFor: true", "mine.yaml:2: runFor: must be a number of seconds, not True"),
        ("runFor: 10", "runFor: -1", "mine.yaml:2: runFor: must be more than 0 and at most 86400 seconds"),
        ("runFor: 10\n", "", "mine.yaml: runFor: is missing"),
        ("id: mine", "id: Mine!", "mine.yaml:1: id: must be lower-case words joined by dashes"),
        ("id: mine", "id: mine\nid: mine", "mine.yaml:2: id: key 'id' stands here twice"),
        (
            "id: mine",
            "id: mine\nformat: 2",
            "mine.yaml:2: format: must be 1",
        ),
        ("id: mine", "id: mine\nneeds: [moon]", "mine.yaml:2: needs[0]: unknown word 'moon'"),
        ("id: mine", "id: mine\ngates: {Foo: true}", "mine.yaml:2: gates: unknown feature gate Foo"),
        ("id: mine", "id: mine\nwhen: 3", "mine.yaml:2: when: unknown field"),
        (
            "kind: Pod",
            "kind: Deployment",
            "mine.yaml:3: pod: must be an object of",
        ),
        ("metadata: {name: p}", "metadata: {}", "mine.yaml:6: pod.metadata: must have a name"),
        (
            "phase = Running",
            "phase is Running",
            "mine.yaml:9: expect[0]: check, column 13",
        ),
        (
            "expect:",
            "actions:\n- {at: 1, do: dance}\nexpect:",
            "mine.yaml:9: actions[0].do: unknown action 'dance'",
        ),
        (
            "expect:",
            "actions:\n- {at: 1, do: exec, container: main}\nexpect:",
            "mine.yaml:9: actions[0]: action exec needs command",
        ),
        (
            "expect:",
            "actions:\n- {at: 1, do: delete, container: main}\nexpect:",
            "mine.yaml:9: actions[0].container: action delete has no such key",
        ),
        (
            "expect:",
            "actions:\n- {at: 9, do: delete}\n- {at: 1, do: delete}\nexpect:",
            "mine.yaml:10: actions[1].at: must not be earlier",
        ),
        (GOOD, "", "mine.yaml: the file is empty"),
        (GOOD, "a: [", "mine.yaml:2: not YAML"),
        (GOOD, "[1]", "mine.yaml:1: must be a mapping"),
        (GOOD, "a: " + "[" * 90 + "]" * 90, "nested too deeply"),
    ],
    ids=lambda value: value[:30].replace("\n", "/"),
)
def test_each_mistake_is_named_with_its_line(old, new, expected):
    assert old in GOOD
    found = problems(GOOD.replace(old, new))
    assert any(expected in problem for problem in found), found


def test_all_mistakes_are_reported_at_once():
    found = problems("id: x y\nrunFor: no\npod: 3\nexpect: [final]\n")
    assert len(found) == 4


def test_a_file_that_is_not_there_or_has_another_name(tmp_path):
    with pytest.raises(CallerError, match="cannot be read"):
        load_scenario(tmp_path / "gone.yaml")
    (tmp_path / "other.yaml").write_text(GOOD)
    with pytest.raises(CallerError, match=r"rename the file to mine\.yaml"):
        load_scenario(tmp_path / "other.yaml")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CallerError, match="holds no scenario"):
        load_scenarios([tmp_path / "empty"])
