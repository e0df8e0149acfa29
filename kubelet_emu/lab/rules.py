"""Which rules of the specification fire in which scenarios, and which are held by tests.

Ids only: what a rule says stands in the code that cites it. The lists are data: ``fired.json`` is written by
``kubelet_emu.lab.fidelity``, ``mutations.json`` by ``tools/mutate_rules.py``, the others by people.
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from attrs import frozen

__all__ = ["DATA", "RULE", "Changes", "Remark", "changes_by_rule", "fired_in", "remarks", "rule_ids"]

RULE = re.compile(r"[A-Z]{2,5}-[A-Z]{0,4}\d{1,4}[a-z]?$")
"""How a rule id looks."""

DATA = Path(__file__).parent / "data" / "rules"
"""Folder of the lists."""


@frozen
class Changes:
    """How many changes of the code that cites a rule were made, how many a test saw, and where."""

    made: int
    seen: int
    where: tuple[str, ...]


@frozen
class Remark:
    """A rule that repeats others (``carried_by``), or that is out of reach if there are none."""

    because: str
    carried_by: tuple[str, ...] = ()


@lru_cache(maxsize=8)
def _read(name: str) -> Any:
    path = DATA / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def fired_in() -> Mapping[str, tuple[str, ...]]:
    """Ids of the rules that fire in each shipped scenario with seed 1, by scenario id."""
    return {scenario: tuple(rules) for scenario, rules in _read("fired.json").items()}


def rule_ids() -> Mapping[str, tuple[str, ...]]:
    """All rule ids of the specification's pages on restarts and on pod status, by page."""
    return {page: tuple(rules) for page, rules in _read("ids.json").items()}


def remarks() -> Mapping[str, Remark]:
    """What people noted about rules that are not covered by themselves."""
    return {
        rule: Remark(str(given.get("because") or given["out"]), tuple(given.get("as", ())))
        for rule, given in _read("remarks.json").items()
    }


def changes_by_rule() -> Mapping[str, Changes]:
    """The changes that were tried, by rule; pieces of code in which a test saw most of them first."""
    pieces: dict[str, list[tuple[int, int, str]]] = {}
    for place, given in _read("mutations.json").items():
        for rule in given["rules"]:
            pieces.setdefault(rule, []).append((len(given["seen"]), given["changes"], _short(place)))
    return {
        rule: Changes(
            sum(made for _, made, _ in found),
            sum(seen for seen, _, _ in found),
            tuple(place for _, _, place in sorted(found, key=lambda one: (-one[0], one[2]))),
        )
        for rule, found in pieces.items()
    }


def _short(place: str) -> str:
    file, _, name = place.partition(":")
    return f"{file.removeprefix('kubelet_emu/').removesuffix('.py').replace('/', '.')}.{name}"
