"""Counters and histograms by labels, as parts of a kubelet keep them for its metrics (pure)."""

from bisect import bisect_left
from collections.abc import Sequence

from attrs import define, field

__all__ = ["CALL_BUCKETS", "DEFAULT_BUCKETS", "Counter", "Timing", "doubling"]

DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds; the usual ones of Prometheus."""

CALL_BUCKETS = tuple(0.005 * 2.5**power for power in range(14))
"""Seconds, of calls to the runtime."""

MAX_SERIES = 10_000
"""Label sets of one metric; what comes beyond is counted under the last one's empty labels."""


def doubling(first: float, count: int) -> tuple[float, ...]:
    """So many bounds, each twice the one before."""
    return tuple(first * 2**power for power in range(count))


@define
class Counter:
    """Numbers by label values."""

    values: dict[tuple[str, ...], float] = field(factory=dict[tuple[str, ...], float])

    def add(self, *labels: str, by: float = 1.0) -> None:
        if labels not in self.values and len(self.values) >= MAX_SERIES:
            labels = ("",) * len(labels)
        self.values[labels] = self.values.get(labels, 0.0) + by


@define
class Timing:
    """A histogram by label values: the count of each bucket, and the sum. Seconds, unless said otherwise."""

    bounds: Sequence[float] = CALL_BUCKETS
    counts: dict[tuple[str, ...], list[int]] = field(factory=dict[tuple[str, ...], list[int]])
    sums: dict[tuple[str, ...], float] = field(factory=dict[tuple[str, ...], float])

    def observe(self, seconds: float, *labels: str) -> None:
        if labels not in self.counts and len(self.counts) >= MAX_SERIES:
            labels = ("",) * len(labels)
        counts = self.counts.setdefault(labels, [0] * (len(self.bounds) + 1))
        counts[bisect_left(self.bounds, seconds)] += 1
        self.sums[labels] = self.sums.get(labels, 0.0) + seconds
