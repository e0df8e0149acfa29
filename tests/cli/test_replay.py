# pyright: basic
"""``kubelet-emu replay``: files, traces, stepping, and what it says of mistakes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubelet_emu.cli.replay import command
from kubelet_emu.errors import CallerError
from kubelet_emu.sim import Case, case_to_yaml, steps

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a"},
    "spec": {
        "containers": [{"name": "m", "image": "busybox", "command": ["sh", "-c", "sleep 3; exit 1"]}],
        "restartPolicy": "Never",
    },
}


@pytest.fixture
def case_file(tmp_path):
    file = tmp_path / "case.yaml"
    case = Case(documents=(POD,), plan=steps(["@1s crash kubelet"]), seed=3, duration_seconds=8.0)
    file.write_text(case_to_yaml(case))
    return str(file)


def replay(*args, input=""):
    result = CliRunner().invoke(command, list(args), input=input, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, result.output


def test_a_case_file_is_run_and_told(case_file):
    code, text = replay(case_file)
    assert code == 0
    assert "fault  text=crash kubelet" in text
    assert "m#0 exit 1" in text
    assert "pod a: Failed" in text
    assert "nothing is violated" in text


def test_step_by_step_until_enough_is_seen(case_file):
    code, text = replay(case_file, "--step", input="\n\n60\nq\n")
    assert code == 0
    assert "stopped where asked" in text
    assert "m#0 exit 1" not in text
    _, whole = replay(case_file, "--step", input="c\n")
    assert "m#0 exit 1" in whole


def test_up_to_a_record(case_file):
    _, text = replay(case_file, "--until-record", "40", "-o", "json")
    found = json.loads(text)
    assert found["verdict"] == "stopped"
    assert found["simulatedSeconds"] < 3.0


def test_a_trace_holds_its_case(case_file, tmp_path):
    trace = str(tmp_path / "x.jsonl")
    _, first = replay(case_file, "--trace", trace)
    _, again = replay(trace)
    assert again == first
    other = str(tmp_path / "y.jsonl")
    replay(trace, "--trace", other)
    assert Path(trace).read_text() == Path(other).read_text()
    replay(trace, "--trace", other, "--reseed-from", "40", "--seed", "9")
    assert Path(trace).read_text() != Path(other).read_text()


def test_both_runs_are_the_same(case_file):
    code, text = replay(case_file, "--check-determinism")
    assert (code, text) == (0, "both runs gave the same trace\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"k": "header", "format": 1}', "does not say how it was made"),
        ("a: [", "not valid YAML"),
        ("seed: 1", "format None is not known"),
    ],
)
def test_what_is_no_case_is_said(tmp_path, content, words):
    file = tmp_path / "x"
    file.write_text(content)
    with pytest.raises(CallerError) as caught:
        replay(str(file))
    assert words in str(caught.value)
    with pytest.raises(CallerError) as caught:
        replay(str(tmp_path / "none"))
    assert "there is no file" in str(caught.value)


def test_a_seed_is_the_example_of_a_campaign():
    code, text = replay("7/3", "-o", "json")
    assert code == 0
    assert json.loads(text)["verdict"] == "ok"
