"""``kubelet-emu conform`` as people and machines call it."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from kubelet_emu.cli.conform import command, parse_seeds
from kubelet_emu.errors import CallerError
from kubelet_emu.lab.scenarios import builtin_scenarios

MINE = """
id: mine
title: A worker that fails once
runFor: 6
pod:
  apiVersion: v1
  kind: Pod
  metadata: {name: worker}
  spec:
    restartPolicy: Never
    containers:
    - {name: main, image: "docker.io/library/busybox:1.36", command: [sh, -c, "sleep 1; exit 3"]}
expect:
- final phase = PHASE
"""


def call(*words):
    """The outcome of a call in this process: exit code, output, and what went to standard error."""
    result = CliRunner().invoke(command, list(words), standalone_mode=False)
    if isinstance(result.exception, CallerError):
        return 2, result.stdout, str(result.exception)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        if type(result.exception).__module__.startswith("click"):
            return 2, result.stdout, result.exception.format_message()
        raise result.exception
    return result.return_value, result.stdout, result.stderr


@pytest.fixture
def mine(tmp_path):
    def make(phase="Failed", name="mine"):
        path = tmp_path / "own" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(MINE.replace("PHASE", phase).replace("id: mine", f"id: {name}"))
        return path

    return make


def test_a_line_a_scenario_and_a_table_by_area():
    code, out, _ = call("admission", "--seeds", "1", "-j", "1")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "✓ admission-too-much-cpu: expectations met, recording a matched (seed 1)"
    assert lines[-1].split() == ["all", "2", "2", "0", "0", "2", "0"]


def test_quiet_shows_only_the_table():
    code, out, _ = call("admission", "--seeds", "1", "-q", "-j", "1")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["AREA", "admission", "all"]


def test_what_is_wrong_is_shown_and_ends_with_1(mine):
    code, out, _ = call(str(mine("Succeeded")))
    assert code == 1
    assert "✗ mine: expectations not met (seed 1)" in out
    assert "final phase = Succeeded" in out
    assert "phase is Failed" in out


def test_json_is_a_document_and_nothing_else(mine):
    mine()
    mine("Running", name="wrong")
    code, out, _ = call(str(mine().parent), "init-serial-then-regular", "-o", "json", "-j", "1")
    assert code == 1
    document = json.loads(out)
    by_id = {one["id"]: one for one in document["scenarios"]}
    assert by_id["mine"]["expectations"] == "pass"
    assert by_id["mine"]["recording"] == "none"
    assert by_id["wrong"]["expectations"] == "fail"
    assert by_id["init-serial-then-regular"]["recording"] == "match"
    assert by_id["init-serial-then-regular"]["seed"] in range(1, 21)
    assert document["summary"]["ok"] is False


def test_junit_is_xml(mine):
    code, out, _ = call(str(mine("Running")), "-o", "junit")
    assert code == 1
    assert ElementTree.fromstring(out).attrib["failures"] == "1"


def test_recordings_of_ones_own(mine, tmp_path):
    path = mine()
    code, out, _ = call(str(path), "--recordings", str(tmp_path), "-o", "json")
    assert (code, json.loads(out)["scenarios"][0]["recording"]) == (0, "none")


def test_the_first_difference_is_shown_side_by_side(mine, tmp_path):
    from kubelet_emu.lab.node import NodeOptions
    from kubelet_emu.lab.runner import run_scenario
    from kubelet_emu.lab.scenarios import load_scenario
    from kubelet_emu.trace.ndjson import write_lines

    trace = run_scenario(load_scenario(mine()), NodeOptions(seed=9, transport="memory"))
    text = "".join(write_lines(trace))
    folder = tmp_path / "recordings"
    folder.mkdir()
    (folder / "mine.jsonl").write_text(text)
    assert call(str(mine()), "--recordings", str(folder))[0] == 0
    (folder / "mine.jsonl").write_text(text.replace('"exitCode":3', '"exitCode":4'))
    code, out, _ = call(str(mine()), "--recordings", str(folder), "--seeds", "1-3")
    assert code == 1
    assert "✗ mine: expectations met, recording not matched (seed" in out
    assert ", 3 seeds)" in out
    assert "  ≠ " in out
    assert "rules in play:" in out
    code, out, _ = call(str(mine()), "--recordings", str(folder), "--against", "expectations")
    assert code == 0


def test_traces_that_were_kept_are_recordings(mine, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    assert call(str(mine()), "--traces", str(kept), "--seeds", "4,6")[0] == 0
    assert [path.name for path in sorted(kept.iterdir())] == ["mine.4.jsonl", "mine.6.jsonl"]
    code, out, _ = call(str(mine()), "--recordings", str(kept), "--seeds", "6")
    assert code == 0
    assert "matched (seed 6)" in out


def test_all_seeds_are_run_where_asked_for(mine):
    code, out, _ = call(str(mine()), "--all-seeds", "-o", "json", "-j", "1")
    assert code == 0
    assert json.loads(out)["scenarios"][0]["seeds"] == 20


def test_scenarios_by_area_id_and_rule():
    code, out, _ = call(
        "--area", "backoff", "--id", "init-serial-then-regular", "--rule", "RST-040", "--list"
    )
    assert code == 0
    ids = [line.split()[1] for line in out.splitlines()]
    assert {"crashloop-delays-double", "init-serial-then-regular", "restart-all-regular-exit"} <= set(ids)
    assert "conditions-in-order" not in ids


def test_the_list_is_of_all_scenarios():
    code, out, _ = call("--list")
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()] == [one.id for one in builtin_scenarios()]


def test_a_scenario_explained():
    code, out, _ = call("--explain", "restart-all-sidecar-exit")
    assert code == 0
    assert "A sidecar triggers a restart of the whole pod in place" in out
    assert "What has to be true:" in out
    assert "  ✓ " in out
    assert "Rules that fired:" in out
    assert "RST-121" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nothing-like-it"], "is no area, scenario, rule, file or folder"),
        (["crashloop"], "did you mean crashloop-delays-double?"),
        (["--area", "restarts"], "--area: there is no area restarts"),
        (["--rule", "121"], "--rule: 121 is no rule id"),
        (["--rule", "RST-999"], "no scenario is known to exercise rule RST-999"),
        (["--seeds", "x"], "--seeds: 'x' names no seeds"),
        (["--seeds", "9-1"], "is no range of seeds"),
        (["--seeds", "0-5000"], "are more than 1000"),
        (["--seeds", "1", "--all-seeds"], "exclude each other"),
        (["--latency", "slow"], "--latency: unknown latency 'slow'"),
        (["--cri-endpoint", "tcp://1.2.3.4:1"], "is no unix socket"),
        (["--cri-endpoint", "unix:///nowhere/cri.sock"], "no CRI v1 runtime answers at /nowhere/cri.sock"),
        (["--recordings", "/nowhere"], "does not exist"),
        (["--jobs", "0"], "--jobs"),
        (["--rate", "0"], "--rate"),
        (["-o", "xml"], "--output"),
        (["--explain", "backoff"], "--explain takes one scenario, backoff names 2"),
        (["--explain", "init-serial-then-regular", "restart"], "--explain takes one scenario by itself"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_misuse_is_told_and_ends_with_2(words, told):
    code, out, problem = call(*words)
    assert code == 2
    assert out == ""
    assert told in problem


def test_a_bad_file_is_told_with_its_line(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("id: bad\nrunFor: -1\npod: {}\nexpect: [final phase]\nwhat: 1\n")
    code, _, problem = call(str(path))
    assert code == 2
    assert f"{path}:2" in problem
    assert "unknown field" in problem


@pytest.mark.parametrize(
    ("text", "seeds"), [("7", (7,)), ("1-3", (1, 2, 3)), ("4,1,4", (4, 1)), ("2-3, 9", (2, 3, 9))]
)
def test_seeds(text, seeds):
    assert parse_seeds(text) == seeds


def test_several_processes_give_the_report_of_one():
    """Takes seconds: processes are started afresh."""
    root = Path(__file__).parents[2]
    env = {"PYTHONPATH": f"{root / 'proto'}:{root}", "PATH": "/usr/bin:/bin"}
    words = [
        sys.executable,
        "-m",
        "kubelet_emu",
        "conform",
        "ephemeral",
        "admission",
        "--seeds",
        "1",
        "-o",
        "json",
    ]
    one, two = (
        subprocess.run(
            [*words, "-j", jobs], capture_output=True, text=True, env=env, timeout=120, check=False
        )
        for jobs in ("1", "2")
    )
    assert one.returncode == two.returncode == 0, two.stderr
    assert one.stdout == two.stdout
