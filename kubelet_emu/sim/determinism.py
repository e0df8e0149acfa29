"""The same run twice: where do the traces part?"""

import json
from collections.abc import Callable
from itertools import zip_longest

from kubelet_emu.sim.case import Case
from kubelet_emu.trace.difference import Difference
from kubelet_emu.trace.schema import Record

__all__ = ["Sink", "check_determinism", "first_difference"]

Sink = Callable[[str], object]
"""Takes the lines of a trace, header first, as they are made."""


def check_determinism(case: Case) -> Difference | None:
    """Run a case twice; the first record in which the traces differ, None for the same bytes."""
    from kubelet_emu.sim.runner import run_case

    return first_difference(lambda sink: run_case(case, sink=sink))


def first_difference(run: Callable[[Sink], object]) -> Difference | None:
    """Do ``run`` twice, each time with a sink for the trace's lines, and compare them byte for byte."""
    first: list[str] = []
    second: list[str] = []
    run(first.append)
    run(second.append)
    if first == second:
        return None
    for index, (left, right) in enumerate(zip_longest(first, second)):
        if left != right:
            return _difference(index - 1, left, right)
    return None


def _difference(index: int, left: str | None, right: str | None) -> Difference:
    sides: list[Record | None] = [None if line is None else json.loads(line) for line in (left, right)]
    one, other = sides
    keys: tuple[str, ...] = ()
    if one is not None and other is not None:
        keys = tuple(key for key in one | other if one.get(key) != other.get(key))
    return Difference(index, one, other, keys)
