"""What lint finds: one bad manifest for each check, and nothing wrong in manifests that are well.

Goal: each warning is right, and none is false. Method: a folder of manifests, each named after the check that
has to find it; and the manifests of all shipped scenarios, whose recordings tell what really happens.
"""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubelet_emu.api.manifests import load
from kubelet_emu.cli.lint import command
from kubelet_emu.errors import CallerError
from kubelet_emu.gates import Gates
from kubelet_emu.lab.lint import CHECKS, Severity, behaviours, lint_pod
from kubelet_emu.lab.scenarios import builtin_scenarios
from kubelet_emu.rules import RULES

BAD = sorted((Path(__file__).parent / "bad").glob("*.yaml"))
TRIALS = {"loops-without-back-off", "probe-kills-again", "init-not-reentrant", "backs-off-after-success"}
SCENARIOS = builtin_scenarios()

RIGHT = {
    "restart-all-no-backoff": {"loops-without-back-off"},
    "restart-all-skips-prestop": {"prestop-not-run"},
    "restart-all-two-second-kill": {"grace-not-used"},
    "liveness-kill-ends-never-pod": {"probe-kill-is-final"},
}
"""Warnings on scenario manifests; each is what the scenario is about, and what its recordings show."""


def invoke(*arguments):
    return CliRunner().invoke(
        command, list(map(str, arguments)), catch_exceptions=False, standalone_mode=False
    )


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_manifest_is_found_out(path):
    pod = load([path]).objects[0].json
    found = [one for one in lint_pod(pod, trial=path.stem in TRIALS) if one.check == path.stem]
    assert len(found) == 1
    assert found[0].rule in RULES
    assert found[0].fix


def test_a_probe_that_kills_the_only_container_is_found_out():
    """Nothing else runs, so the whole pod is killed, and no kill tells that a probe is behind it."""
    command = ["sh", "-c", "sleep 600"]
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 2, "failureThreshold": 1}
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [137]}}
    container = {"name": "app", "image": "busybox:1.36", "command": command, "livenessProbe": probe}
    container |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [container]},
    }
    assert "probe-kills-again" in {one.check for one in lint_pod(pod)}


def test_a_container_that_ends_by_itself_is_not_killed_by_its_probe():
    command = ["sh", "-c", "sleep 12; exit 1"]
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 5}
    container = {"name": "app", "image": "busybox:1.36", "command": command, "livenessProbe": probe}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [container]},
    }
    assert "probe-kills-again" not in {one.check for one in lint_pod(pod)}


def test_every_check_has_a_bad_manifest():
    assert {path.stem for path in BAD} | {"rules-without-gate"} == set(CHECKS)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_the_place_in_the_file_is_named(path):
    result = invoke(path, "--no-trial", "-o", "json", "--fail-on", "never")
    lines = path.read_text().splitlines()
    for finding in json.loads(result.output)["findings"]:
        assert 1 < finding["line"] <= len(lines)
        key = finding["path"].rpartition(".")[2].partition("[")[0]
        assert key in lines[finding["line"] - 1] or "- " in lines[finding["line"] - 1]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_no_false_alarm_on_reading(scenario):
    found = {one.check for one in lint_pod(scenario.pod, trial=False) if one.severity is not Severity.NOTE}
    assert found <= RIGHT.get(scenario.id, set())


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_no_false_alarm_in_trials(scenario):
    """Slow because each of 72 pods is run twice for some minutes of virtual time."""
    found = {one.check for one in lint_pod(scenario.pod) if one.severity is not Severity.NOTE}
    assert found == RIGHT.get(scenario.id, set())


def test_a_node_without_the_gate_refuses_the_rules():
    pod = load([p for p in BAD if p.stem == "loops-without-back-off"]).objects[0].json
    found = lint_pod(pod, gates=Gates({"RestartAllContainersOnContainerExits": False}))
    assert [one.check for one in found if one.severity is Severity.ERROR] == ["rules-without-gate"]


def test_behaviour_in_words():
    pod = {
        "metadata": {"name": "p"},
        "spec": {
            "initContainers": [
                {"name": "setup", "restartPolicy": "Never"},
                {"name": "proxy", "restartPolicy": "Always"},
            ],
            "containers": [
                {"name": "plain"},
                {
                    "name": "ruled",
                    "restartPolicy": "Never",
                    "restartPolicyRules": [
                        {"action": "Restart", "exitCodes": {"operator": "In", "values": [7]}},
                        {
                            "action": "RestartAllContainers",
                            "exitCodes": {"operator": "In", "values": [7, 42]},
                        },
                    ],
                },
            ],
        },
    }
    assert [(one.container, one.text) for one in behaviours(pod)] == [
        ("setup", "0 is done; a failure ends the pod"),
        ("proxy", "any exit restarts it, with back-off"),
        ("plain", "any exit restarts it, with back-off"),
        (
            "ruled",
            "exit 7 restarts it; exit 42 restarts the whole pod in place, without back-off; "
            "else it stays ended",
        ),
    ]


def test_exit_codes(tmp_path):
    warned = BAD[[p.stem for p in BAD].index("rule-without-effect")]
    assert invoke(warned, "--no-trial").return_value == 1
    assert invoke(warned, "--no-trial", "--fail-on", "error").return_value == 0
    assert invoke(warned, "--no-trial", "--fail-on", "never").return_value == 0
    well = tmp_path / "well.yaml"
    well.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: w}\nspec: {containers: [{name: a, image: b}]}\n"
    )
    result = invoke(well)
    assert result.return_value == 0
    assert "nothing will surprise" in result.output
    with pytest.raises(CallerError):
        invoke(tmp_path / "not-there.yaml")


def test_sarif_names_check_place_and_fix():
    warned = BAD[[p.stem for p in BAD].index("rule-without-effect")]
    log = json.loads(invoke(warned, "--no-trial", "-o", "sarif").output)
    run = log["runs"][0]
    result = run["results"][0]
    assert log["version"] == "2.1.0"
    assert (
        run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "rule-without-effect"
    )
    assert result["level"] == "warning"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == str(warned)
    assert place["region"]["startLine"] == 11
