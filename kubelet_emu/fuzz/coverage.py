"""Which transitions of the declared tables a search has taken, and which it never reached (pure)."""

from collections.abc import Mapping, Sequence
from typing import Any

from kubelet_emu.sim.transitions import Transition, declared

__all__ = ["coverage_json", "coverage_lines"]

Taken = Mapping[Transition, int]


def _tables() -> Mapping[str, tuple[Transition, ...]]:
    found: dict[str, list[Transition]] = {}
    for transition in declared():
        found.setdefault(transition[0], []).append(transition)
    return {table: tuple(transitions) for table, transitions in found.items()}


def coverage_lines(taken: Taken, *, everything: bool = False) -> list[str]:
    """A line a table: how much was reached; below it what never was, or ``everything``."""
    tables = _tables()
    all_of_them = [transition for transitions in tables.values() for transition in transitions]
    lines = [f"coverage of declared transitions: {_share(all_of_them, taken)}"]
    for table, transitions in tables.items():
        lines.append(f"  {table:<16} {_share(transitions, taken)}")
        for transition in transitions:
            count = taken.get(transition, 0)
            _, source, target = transition
            if not count:
                lines.append(f"    never    {source} → {target}")
            elif everything:
                lines.append(f"    {count:<8} {source} → {target}")
    return lines


def _share(transitions: Sequence[Transition], taken: Taken) -> str:
    reached = sum(transition in taken for transition in transitions)
    return f"{reached} of {len(transitions)} ({100 * reached / max(len(transitions), 1):.0f} %)"


def coverage_json(taken: Taken) -> Mapping[str, Any]:
    """The same for machines."""
    return {
        table: {
            "declared": len(transitions),
            "reached": sum(transition in taken for transition in transitions),
            "never": [
                f"{source} > {target}"
                for name, source, target in transitions
                if (name, source, target) not in taken
            ],
            "taken": {
                f"{source} > {target}": taken.get((name, source, target), 0)
                for name, source, target in transitions
            },
        }
        for table, transitions in _tables().items()
    }
