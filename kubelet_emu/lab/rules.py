"""Which rules of the specification fire in which scenarios, and which are cited where.

Ids only: what a rule says stands in the code that cites it. The lists are data that ``tools/fidelity.py``
writes; ``docs/fidelity.md`` is made from them.
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

__all__ = ["RULE", "fired_in", "rule_ids"]

RULE = re.compile(r"[A-Z]{2,5}-[A-Z]{0,4}\d{1,4}[a-z]?$")
"""How a rule id looks."""

_DATA = Path(__file__).parent / "data" / "rules"


@lru_cache(maxsize=4)
def _read(name: str) -> Any:
    path = _DATA / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def fired_in() -> Mapping[str, tuple[str, ...]]:
    """Ids of the rules that fire in each shipped scenario with seed 1, by scenario id."""
    return {scenario: tuple(rules) for scenario, rules in _read("fired.json").items()}


def rule_ids() -> Mapping[str, tuple[str, ...]]:
    """All rule ids of the specification's pages on restarts and on pod status, by page."""
    return {page: tuple(rules) for page, rules in _read("ids.json").items()}
