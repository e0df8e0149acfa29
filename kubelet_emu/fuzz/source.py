"""Where generated choices come from: one random stream an example, so that a number alone fixes an example.

Hypothesis' own source mutates what it has drawn and mixes in constants that it finds in the source files
around; both make an example depend on what was drawn before it and on where the program lies. Here example
``n`` of seed ``s`` is the same alone, in a batch, in another process and on another machine. Shrinking is
Hypothesis' own.
"""

from collections.abc import Generator
from contextlib import contextmanager
from random import Random
from typing import Any

from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, PrimitiveProvider

__all__ = ["BACKEND", "Examples"]

BACKEND = "kubelet-emu"
"""The name under which Hypothesis knows this source."""


class Examples(PrimitiveProvider):
    """Draws uniformly. ``seed`` and ``number`` of the next example are set by who runs the examples."""

    lifetime = "test_function"
    seed: int = 0
    number: int = 0
    drawing: bool = False
    """Whether an example of this source is being run, not one of the shrinker's."""

    def __init__(self, conjecturedata: Any, /) -> None:
        super().__init__(conjecturedata)
        self._random = Random(0)

    @contextmanager
    def per_test_case_context_manager(self) -> Generator[None, None, None]:
        """Around each example."""
        self._random.seed(f"{Examples.seed}/example/{Examples.number}")
        Examples.drawing = True
        try:
            yield
        finally:
            Examples.drawing = False
            Examples.number += 1

    def draw_boolean(self, p: float = 0.5) -> bool:
        """True with probability ``p``."""
        return self._random.random() < p

    def draw_integer(
        self,
        min_value: int | None = None,
        max_value: int | None = None,
        *,
        weights: dict[int, float] | None = None,
        shrink_towards: int = 0,
    ) -> int:
        """An integer between bounds, each as likely as the other."""
        least = -(2**63) if min_value is None else min_value
        return self._random.randint(least, least + 2**64 if max_value is None else max_value)

    def draw_float(
        self,
        *,
        min_value: float = -1e9,
        max_value: float = 1e9,
        allow_nan: bool = True,
        smallest_nonzero_magnitude: float = 0.0,
    ) -> float:
        """A float between bounds."""
        return self._random.uniform(max(min_value, -1e9), min(max_value, 1e9))

    def draw_string(self, intervals: Any, *, min_size: int = 0, max_size: int = 100) -> str:
        """A text of allowed characters."""
        size = self._random.randint(min_size, min(max_size, min_size + 20))
        return "".join(chr(intervals[self._random.randrange(len(intervals))]) for _ in range(size))

    def draw_bytes(self, min_size: int = 0, max_size: int = 100) -> bytes:
        """Bytes."""
        return self._random.randbytes(self._random.randint(min_size, min(max_size, min_size + 20)))


AVAILABLE_PROVIDERS[BACKEND] = Examples
