"""State diagrams: they say what the code does, and look the same each time."""

import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import CliRunner

from cri_fake.store import containers, sandboxes
from kubelet_emu.cli.diagram import command
from kubelet_emu.errors import CallerError
from kubelet_emu.lab.pictures.diagram import diagram_svg, diagram_text
from kubelet_emu.lab.pictures.machines import MACHINES, STATES_MAX, Edge, machine

GOLDEN = Path(__file__).parents[2] / "golden" / "diagrams"


@pytest.mark.parametrize("name", MACHINES)
def test_the_picture_is_the_same_byte_for_byte(name):
    text = diagram_svg(machine(name))
    path = GOLDEN / f"{name}.svg"
    if os.environ.get("REWRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    ElementTree.fromstring(text)


@pytest.mark.parametrize("name", MACHINES)
def test_every_state_can_be_reached_and_the_search_ended(name):
    found = machine(name)
    reached = {found.states[0]} | {edge.target for edge in found.edges if edge.source != edge.target}
    assert reached == set(found.states)
    assert len(found.edges) < STATES_MAX


@pytest.mark.parametrize(("name", "table"), [("sandbox", sandboxes), ("container", containers)])
def test_the_runtime_s_tables_are_drawn_whole(name, table):
    drawn = {(edge.source, edge.label, edge.target) for edge in machine(name).edges}
    moves = {
        (str(phase), str(event), str(target))
        for phase, row in table.TRANSITIONS.items()
        for event, entry in row.items()
        if isinstance(entry, table.Phase | frozenset)
        for target in (entry if isinstance(entry, frozenset) else (entry,))
    }
    assert moves <= drawn


@pytest.mark.parametrize(
    ("name", "edge"),
    [
        ("full-restart", Edge("triggered", "sync", "resetting")),
        ("full-restart", Edge("all removed", "sync", "running")),
        ("back-off", Edge("160 s", "exits, delay over: starts", "300 s")),
        ("back-off", Edge("300 s", "exits, delay over: starts", "300 s")),
        ("pod-worker", Edge("syncing", "deletion", "terminating")),
        ("pod-worker", Edge("terminated", "sync ends well", "finished")),
        ("probe-worker", Edge("1 of 2 failures", "failure", "on hold")),
        ("plugin-endpoint", Edge("gone", "5 min pass", "expired")),
        ("plugin-endpoint", Edge("gone", "registers", "unhealthy")),
    ],
)
def test_what_is_known_of_them(name, edge):
    assert edge in machine(name).edges


def test_no_way_back_from_the_end_of_a_worker():
    order = ["syncing", "terminating", "terminated", "finished"]
    for edge in machine("pod-worker").edges:
        if edge.source in order and edge.target in order:
            assert order.index(edge.target) >= order.index(edge.source)


def test_in_words():
    lines = list(diagram_text(machine("full-restart")))
    assert lines[0] == "A restart of the whole pod in place (full-restart)"
    assert any(line.split() == ["triggered", "sync", "→", "resetting"] for line in lines)


def test_the_verb(tmp_path):
    assert CliRunner().invoke(command, []).output.count("\n") == len(MACHINES)
    path = tmp_path / "x.svg"
    assert CliRunner().invoke(command, ["sandbox", "-o", str(path)]).exit_code == 0
    assert path.read_text(encoding="utf-8") == diagram_svg(machine("sandbox"))
    assert isinstance(CliRunner().invoke(command, ["nothing"]).exception, CallerError)
