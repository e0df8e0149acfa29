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
    [("--focus", "nothing"), ("--examples", "0"), ("--gate", "Nothing=true"), ("--time", "soon")],
)
def test_misuse_is_told(arguments):
    with pytest.raises(CallerError):
        fuzz("--corpus", "", *arguments)
