"""Where two traces part (pure)."""

from itertools import zip_longest

from attrs import frozen

from kubelet_emu.trace.ndjson import dumps
from kubelet_emu.trace.schema import Record, Trace

__all__ = ["Difference", "diff"]


@frozen
class Difference:
    """First record in which two traces differ. ``index`` counts from 0; -1 is the header.

    A side is None where that trace has ended. ``keys`` are the keys whose values differ.
    """

    index: int
    first: Record | None
    second: Record | None
    keys: tuple[str, ...]

    def __str__(self) -> str:
        where = "header" if self.index < 0 else f"record {self.index}"
        sides = [dumps(side) if side is not None else "(ended)" for side in (self.first, self.second)]
        return (
            f"traces differ at {where} in {', '.join(self.keys) or 'length'}:\n  - {sides[0]}\n  + {sides[1]}"
        )


def diff(first: Trace, second: Trace, *, header: bool = True) -> Difference | None:
    """The first difference of two traces, or None if they are equal in every key."""
    if header and first.header != second.header:
        return Difference(-1, first.header, second.header, _keys(first.header, second.header))
    for index, (left, right) in enumerate(zip_longest(first.records, second.records)):
        if left != right:
            return Difference(index, left, right, _keys(left, right))
    return None


def _keys(left: Record | None, right: Record | None) -> tuple[str, ...]:
    if left is None or right is None:
        return ()
    return tuple(key for key in left | right if left.get(key) != right.get(key))
