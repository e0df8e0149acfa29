"""The explain verb: sources, choices, exit codes."""

import json

import pytest
from click.testing import CliRunner

from kubelet_emu.cli.explain import command
from kubelet_emu.errors import CallerError

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: worker}
spec:
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "sleep 5; exit 3"]
"""


def explain(*arguments, text=""):
    return CliRunner().invoke(command, arguments, input=text, catch_exceptions=False)


def test_a_manifest_is_run_and_told(tmp_path):
    path = tmp_path / "pod.yaml"
    path.write_text(POD)
    result = explain(str(path), "--until", "30s")
    assert result.exit_code == 0
    assert "main#0 exits with 3." in result.output
    assert "main exited with 3: main starts again." in result.output


def test_what_a_probe_counts_as_before_its_first_result_is_no_finding(tmp_path):
    path = tmp_path / "pod.yaml"
    path.write_text(POD + "    readinessProbe: {exec: {command: ['true']}}\n")
    told = explain(str(path), "--until", "4s").output
    first = "The readiness probe of main counts as failure until its first result."
    assert told.index(first) < told.index("The readiness probe of main now counts as success.")
    assert "now counts as failure" not in told


def test_a_manifest_is_told_as_run_runs_it(tmp_path):
    path = tmp_path / "pod.yaml"
    path.write_text(POD)
    asked = (str(path), "--until", "30s")
    assert explain(*asked).output == explain(*asked, "--seed", "0").output
    assert explain(*asked).output != explain(*asked, "--seed", "1").output
    scenario = "restart-all-regular-exit"
    assert explain(scenario).output == explain(scenario, "--seed", "1").output


def test_a_trace_is_told_as_the_run_that_wrote_it(tmp_path):
    from kubelet_emu.lab.node import NodeOptions
    from kubelet_emu.lab.runner import run_scenario
    from kubelet_emu.lab.scenarios import builtin_scenarios
    from kubelet_emu.trace.ndjson import write_lines

    scenario = next(one for one in builtin_scenarios() if one.id == "restart-always-after-success")
    trace = run_scenario(scenario, NodeOptions(seed=1, transport="memory"))
    path = tmp_path / "run.jsonl"
    path.write_text("".join(write_lines(trace)))
    assert explain(str(path)).output == explain(scenario.id).output


def test_a_case_is_run_with_its_faults_and_told(tmp_path):
    import yaml

    path = tmp_path / "case.yaml"
    plan = ["@1s crash kubelet down 2s"]
    case = {"kubelet-emu-case": 1, "duration": 6.0, "plan": plan, "documents": [yaml.safe_load(POD)]}
    path.write_text("# what broke\n" + yaml.safe_dump(case))
    result = explain(str(path))
    assert result.exit_code == 0
    assert "From outside: crash kubelet down 2s." in result.output


def test_json_is_one_document():
    document = json.loads(explain("recording:restart-always-after-success", "-o", "json").output)
    assert document["recorded"] is True


@pytest.mark.parametrize("name", ["nothing-here", "recording:nothing-here"])
def test_a_source_that_is_not_there(name):
    with pytest.raises(CallerError):
        explain(name)


@pytest.mark.parametrize(
    "arguments",
    [
        ("a", "b"),
        ("a", "--diff"),
        ("a", "--at", "1s", "--rule", "RST-022"),
    ],
)
def test_misuse(arguments):
    assert explain(*arguments).exit_code == 2
