"""From moments to columns: a time axis that gives room where something happens. (pure)

Moments that lie close together share a border between columns; every stretch between two borders gets at
least what its labels need, and the rest of the width goes to the long ones, by the logarithm of their length.
What does not fit side by side is broken into bands, drawn one below the other.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

__all__ = ["Band", "Stretch", "bands"]

CLUSTER_SECONDS = 0.25
"""Moments no further apart than this share a border, unless that would hide a stretch."""


@frozen
class Stretch:
    """A stretch of time that needs ``width`` columns; with ``apart`` its ends never share a border."""

    start: float
    end: float
    width: int
    apart: bool = False


@frozen
class Band:
    """A part of the axis. ``borders`` are times, ``columns`` the first column at or after each of them."""

    borders: tuple[float, ...]
    columns: tuple[int, ...]
    _place: Mapping[float, int]
    """The border of each moment, counted over all bands."""
    first: int
    """How many borders there are before this band."""

    @property
    def start(self) -> float:
        """The time at the left end."""
        return self.borders[0]

    @property
    def end(self) -> float:
        """The time at the right end."""
        return self.borders[-1]

    @property
    def width(self) -> int:
        """How many columns the band has."""
        return self.columns[-1]

    def column(self, moment: float) -> int:
        """The column of a moment that ``bands`` was told of; clipped to the band."""
        index = self._place[moment] - self.first
        return self.columns[min(max(index, 0), len(self.columns) - 1)]

    def shows(self, moment: float) -> bool:
        """Whether the moment lies within the band (its right end belongs to the next one)."""
        index = self._place[moment] - self.first
        return 0 <= index < len(self.columns) - 1


def bands(moments: Iterable[float], stretches: Sequence[Stretch], width: int) -> tuple[Band, ...]:
    """Lay out an axis over all moments (the ends of stretches among them) in bands of at most ``width``."""
    wanted = sorted({*moments, *(s.start for s in stretches), *(s.end for s in stretches)})
    if len(wanted) < 2:
        wanted = [*wanted, (wanted[0] if wanted else 0.0) + 1.0][:2]
    place, borders = _cluster(wanted, stretches)
    if len(borders) == 1:
        borders.append(borders[0] + 1.0)
    sizes = _sizes(place, borders, stretches, width)
    result: list[Band] = []
    first = 0
    while first < len(sizes):
        last, used = first, 0
        while last < len(sizes) and (last == first or used + sizes[last] <= width):
            used += sizes[last]
            last += 1
        whole = last < len(sizes) or first > 0
        filled = _fill(
            sizes[first:last], borders[first : last + 1], width if whole or used <= width else used
        )
        columns = [0]
        for size in filled:
            columns.append(columns[-1] + size)
        result.append(Band(tuple(borders[first : last + 1]), tuple(columns), place, first))
        first = last
    return tuple(result)


def _cluster(wanted: Sequence[float], stretches: Sequence[Stretch]) -> tuple[dict[float, int], list[float]]:
    """Each moment's border, and the times of the borders."""
    starts: dict[float, list[float]] = {}
    for stretch in stretches:
        if stretch.apart:
            starts.setdefault(stretch.end, []).append(stretch.start)
    place: dict[float, int] = {}
    borders: list[float] = []
    for moment in wanted:
        hides = any(place.get(start) == len(borders) - 1 for start in starts.get(moment, ()))
        if not borders or moment - borders[-1] >= CLUSTER_SECONDS or hides:
            borders.append(moment)
        place[moment] = len(borders) - 1
    return place, borders


def _sizes(
    place: Mapping[float, int], borders: Sequence[float], stretches: Sequence[Stretch], width: int
) -> list[int]:
    """The least columns of each gap between borders."""
    sizes = [1] * (len(borders) - 1)
    for stretch in sorted(stretches, key=lambda s: (place[s.end] - place[s.start], s.start)):
        gaps = range(place[stretch.start], place[stretch.end])
        missing = min(stretch.width, width) - sum(sizes[gap] for gap in gaps)
        if missing > 0 and gaps:
            longest = max(gaps, key=lambda gap: (borders[gap + 1] - borders[gap], -gap))
            sizes[longest] = min(sizes[longest] + missing, width)
    return sizes


def _fill(sizes: Sequence[int], borders: Sequence[float], width: int) -> list[int]:
    """Give the columns that are left over to the gaps, by the logarithm of their length."""
    spare = width - sum(sizes)
    if spare <= 0:
        return list(sizes)
    weights = [math.log1p(borders[i + 1] - borders[i]) for i in range(len(sizes))]
    total = sum(weights) or 1.0
    shares: list[float] = []
    so_far = 0.0
    for weight in weights:
        so_far += weight / total * spare
        shares.append(so_far)
    filled: list[int] = []
    given = 0
    for size, share in zip(sizes, shares, strict=True):
        more = round(share) - given
        given += more
        filled.append(size + more)
    return filled
