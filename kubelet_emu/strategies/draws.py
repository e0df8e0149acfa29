"""Small draws that the generators are made of. All shrink towards nothing special.

They take ``draw`` instead of being strategies of their own: half of the time an example takes goes into
layers of strategies.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Protocol, TypeVar

from hypothesis import strategies as st

__all__ = ["Draw", "chance", "one_of", "quarter_seconds", "weighted"]

T = TypeVar("T")
_HUNDRED = 100
_PERCENT = st.integers(0, _HUNDRED - 1)


class Draw(Protocol):
    """What a composite strategy draws with."""

    def __call__(self, strategy: "st.SearchStrategy[T]", /) -> T: ...


def chance(draw: Draw, percent: int) -> bool:
    """True so many times of a hundred; shrinks to False. Nothing is drawn for 0."""
    return percent > 0 and draw(_PERCENT) >= _HUNDRED - percent


def one_of(values: "Sequence[T]") -> "st.SearchStrategy[T]":
    """One of the values; shrinks to the first."""
    return st.sampled_from(values)


def weighted(weights: "Mapping[T, int]") -> "st.SearchStrategy[T]":
    """A key, as often as its weight says; shrinks to the first key."""
    return st.sampled_from([key for key, weight in weights.items() for _ in range(weight)])


@cache
def _quarters(least: int, most: int) -> "st.SearchStrategy[int]":
    return st.integers(least, most)


def quarter_seconds(draw: Draw, least: int, most: int) -> float:
    """Seconds in steps of a quarter; shrinks to the least."""
    return draw(_quarters(least * 4, most * 4)) / 4
