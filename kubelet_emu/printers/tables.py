"""Columns of text as kubectl lays them out (pure)."""

from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["TableWriter", "format_block"]

_MIN_WIDTH: Final = 6
_GAP: Final = 3
_DESCRIBE_GAP: Final = 2


class TableWriter:
    """A table that grows line by line, as ``kubectl get --watch`` prints it.

    A column never gets narrower: widths are remembered from all lines before (kubectl's tab writer runs with
    RememberWidths). The last column is not padded.
    """

    def __init__(self, columns: Sequence[str], *, header: bool = True) -> None:
        self._columns = tuple(columns)
        self._widths = [0] * len(self._columns)
        self._header = header

    def write(self, rows: Iterable[Sequence[str]]) -> tuple[str, ...]:
        """The lines for these rows, aligned together; the header comes with the first ones."""
        block = [tuple(row) for row in rows]
        if self._header:
            block.insert(0, self._columns)
            self._header = False
        for row in block:
            for place, cell in enumerate(row[:-1]):
                self._widths[place] = max(self._widths[place], len(cell) + _GAP, _MIN_WIDTH)
        return tuple(_line(row, self._widths) for row in block)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
    return "".join([*padded, *row[-1:]])


def format_block(rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Rows aligned with a gap of two, as the sections of ``kubectl describe`` are."""
    if not rows:
        return ()
    widths = [max(len(row[place]) for row in rows) + _DESCRIBE_GAP for place in range(len(rows[0]) - 1)]
    return tuple(_line(row, widths) for row in rows)
