# pyright: basic, reportArgumentType=false
"""The fuzz verb: options, output, exit codes, the corpus."""

import json

import pytest
from click.testing import CliRunner

from kubelet_emu.cli.fuzz import command
from kubelet_emu.errors import CallerError


def fuzz(*arguments):
    return CliRunner().invoke(command, arguments, catch_exceptions=False, standalone_mode=False)


def test_what_was_searched_is_told_as_json(tmp_path):
    result = fuzz("--examples", "3", "--faults", "none", "--corpus", str(tmp_path / "c"), "-o", "json")
    assert result.return_value == 0
    told = json.loads(result.stdout)
    assert (told["examples"], told["violation"]) == (3, None)
    assert told["invariantsChecked"] > 0
    assert not (tmp_path / "c").exists()


def test_text_ends_with_the_verdict():
    result = fuzz("--examples", "2", "--faults", "none", "--corpus", "")
    assert result.stdout.splitlines()[-1] == "nothing is violated"
    assert result.stdout.startswith("2 examples (")


def test_each_example_may_be_run_twice():
    assert fuzz("--examples", "2", "--check-determinism", "--corpus", "").return_value == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("--focus", "nothing"),
        ("--examples", "0"),
        ("--gate", "Nothing=true"),
        ("--time", "soon"),
        ("--bug", "x"),
        ("--fix", "136910"),
    ],
)
def test_misuse_is_told(arguments):
    with pytest.raises(CallerError):
        fuzz("--corpus", "", *arguments)


def test_bugs_are_listed_one_a_line():
    lines = fuzz("--list-bugs").stdout.splitlines()
    assert len(lines) >= 15
    assert "136910" in [line.split()[0] for line in lines]


@pytest.mark.slow
def test_a_bug_is_found_shrunk_told_kept_and_tried_first(tmp_path):
    """Shrinking takes hundreds of runs."""
    given = (
        "--bug",
        "sandbox-recreated",
        "--focus",
        "restart-all",
        "--faults",
        "none",
        "--corpus",
        str(tmp_path),
    )
    first = fuzz(*given)
    assert first.return_value == 1
    assert "VIOLATED  sandbox-kept" in first.stdout
    assert "RestartAllContainers" in first.stdout
    assert "def test_sandbox_kept():" in first.stdout
    (kept,) = tmp_path.iterdir()
    assert f"kubelet-emu replay {kept}" in first.stdout
    again = fuzz(*given, "-o", "json")
    assert again.return_value == 1
    told = json.loads(again.stdout)
    assert told["examples"] == 0
    assert told["violation"]["invariant"] == "sandbox-kept"
    assert told["violation"]["case"]["bugs"] == ["sandbox-recreated"]
    assert fuzz("--examples", "1", "--faults", "none", "--corpus", str(tmp_path)).return_value == 0
