"""The course and the guides: each chapter is whole, and every example does what it says.

Goal: nothing in the documentation is wrong without somebody noticing. The examples themselves run in the docs
lane and in the slow tests; what is read off the files runs always.
"""

import importlib.util
import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml

DOCS = Path(__file__).parents[2] / "docs"
if not DOCS.is_dir():
    pytest.skip("the documentation is not here", allow_module_level=True)

_spec = importlib.util.spec_from_file_location("run_examples", DOCS / "run_examples.py")
run_examples = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(run_examples)

CHAPTERS = sorted((DOCS / "course").glob("[0-9]*.md"))
PAGES = run_examples.pages()


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_has_a_command_a_picture_and_an_exercise_with_a_check(path):
    text = path.read_text(encoding="utf-8")
    before, exercise = text.split("\n## Exercise\n")
    assert "```console\n$ kubelet-emu" in before
    assert len(re.findall(r"^!\[[^]]+\]\(pictures/\d\d\.svg\)$", before, re.MULTILINE)) == 1
    question, solution = exercise.split("<details><summary>A solution</summary>")
    assert question.strip()
    assert "```console\n$ " in solution
    assert len(text.split()) < 700


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_the_picture_is_there_and_can_be_read(path):
    picture = DOCS / "course" / "pictures" / f"{path.stem[:2]}.svg"
    root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    assert root.get("role") == "img"


def test_every_chapter_is_in_the_course():
    listed = re.findall(r"^\d\d-[a-z0-9-]+$", (DOCS / "course" / "index.md").read_text(), re.MULTILINE)
    assert listed == [path.stem for path in CHAPTERS]


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: path.stem)
def test_links_inside_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#:]+\.(?:md|svg))(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_manifests_of_the_examples_are_valid(path):
    from kubelet_emu.api.check import check_input
    from kubelet_emu.api.manifests import load_text
    from kubelet_emu.gates import Gates
    from kubelet_emu.sim import case_from_json

    for language, content in run_examples.blocks(path.read_text(encoding="utf-8")):
        if language == "yaml" and "\nkubelet-emu-case:" in content:
            assert case_from_json(yaml.safe_load(content)).documents
        elif language == "yaml":
            assert not check_input(load_text(content), gates=Gates()).problems


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_examples_do_what_the_page_says(path, tmp_path):
    """Slow because each command is a process of its own, as for a reader."""
    root = DOCS.parent
    command = tmp_path / "kubelet-emu"
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH={root}/proto:{root} exec {sys.executable} -m kubelet_emu "$@"\n'
    )
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert run_examples.run_page(path, environment=environment) == []


@pytest.mark.parametrize(
    ("wanted", "output", "lost"),
    [
        (["a", "c"], "a\nb\nc\n", ""),
        (["c", "a"], "a\nb\nc\n", "a"),
        (["did … made"], "            did      it was\n                     made\n", ""),
        (["x  y"], "x y", ""),
        (["a.c"], "abc", "a.c"),
    ],
)
def test_how_output_is_compared(wanted, output, lost):
    assert run_examples.missing(wanted, output) == lost


def test_how_console_blocks_are_read():
    block = "$ one \\\n  --two\nsaid\n\n$ three\n(exits 1)\n"
    assert list(run_examples.commands(block)) == [("one \\\n  --two", ["said"], 0), ("three", [], 1)]
