"""Comparing two runs of one scenario: do they tell the same story, and if not, where do they part (pure).

Compared are the sequence of statuses, the CRI calls in their partial order with the arguments that matter,
the events of each object, and the times between all of these. What is not compared is what two runs of one
real node do not have in common either; ``docs/comparison.md`` names each such thing and why.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, zip_longest

from attrs import frozen

from kubelet_emu.lab.compare_strands import END_TOLERANCE_SECONDS, Item, Strands, strands_of
from kubelet_emu.trace.schema import Trace

__all__ = [
    "GAP_TOLERANCE_SECONDS",
    "JITTER_FACTOR",
    "Comparison",
    "Difference",
    "compare",
]

GAP_TOLERANCE_SECONDS = 1.5
"""How much a gap may differ: one relist period, the watch's lag, and a small machine's pauses."""

JITTER_FACTOR = 1.5
"""A retry that is due after d happens between d and 1.5 d (POD-514): such gaps may differ by this factor."""

CONTEXT_LINES = 3


@frozen
class Difference:
    """Where two runs part in one aspect (status, calls, events, gaps).

    ``strand`` is the part of the aspect (``work``, ``probe main#0 …``, an event's object), ``index`` the
    position in it, ``t`` the time in each run (None where it has ended). ``left`` and ``right`` show both
    sequences around that point, the parting items first after ``before`` common ones.
    """

    aspect: str
    strand: str
    index: int
    message: str
    t: tuple[float | None, float | None]
    left: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    before: int = 0

    def side_by_side(self, *, width: int = 78, names: tuple[str, str] = ("expected", "found")) -> str:
        """Both sequences as two columns, the first line that differs marked with ``≠``."""
        rows = [f"    {names[0]:<{width}} │ {names[1]}"]
        for number, (left, right) in enumerate(zip_longest(self.left, self.right, fillvalue="")):
            mark = "≠" if number == self.before else " "
            for a, b in zip_longest(_wrap(left, width), _wrap(right, width), fillvalue=""):
                rows.append(f"  {mark} {a:<{width}} │ {b}".rstrip())
                mark = " "
        return "\n".join(rows)


@frozen
class Comparison:
    """Outcome: the first difference of each aspect, none if two runs match."""

    differences: tuple[Difference, ...]

    @property
    def matches(self) -> bool:
        """Whether the runs are equal in every aspect."""
        return not self.differences

    @property
    def first(self) -> Difference | None:
        """The difference that comes first in time."""
        return min(self.differences, key=_earliest, default=None)

    def equal(self, aspect: str) -> bool:
        """Whether the runs are equal in status, calls, events, devices or gaps."""
        return all(difference.aspect != aspect for difference in self.differences)


def compare(expected: Trace, found: Trace, *, pod: str = "", found_pod: str = "") -> Comparison:
    """Compare two runs of a scenario for one pod (the first if none is named, in each)."""
    left = strands_of(expected, pod)
    right = strands_of(found, found_pod or pod)
    differences: list[Difference] = []
    pairs: list[tuple[str, str, Item, Item]] = []
    for aspect in ("status", "calls", "events", "devices"):
        difference, matched = _compare_aspect(aspect, left, right)
        pairs += matched
        if difference is not None:
            differences.append(difference)
    gap = _compare_gaps(left, right, pairs)
    if gap is not None:
        differences.append(gap)
    return Comparison(tuple(differences))


def _earliest(difference: Difference) -> tuple[float, str]:
    return min((t for t in difference.t if t is not None), default=0.0), difference.aspect


# -- sequences --

_Pairs = list[tuple[str, str, Item, Item]]


def _compare_aspect(aspect: str, left: Strands, right: Strands) -> tuple[Difference | None, _Pairs]:
    strands, others = left.by_aspect[aspect], right.by_aspect[aspect]
    found: list[Difference] = []
    pairs: _Pairs = []
    for name in sorted(strands.keys() | others.keys()):
        difference, matched = _compare_strand(aspect, name, strands, others, (left.end, right.end))
        pairs += matched
        if difference is not None:
            found.append(difference)
    return min(found, key=_earliest, default=None), pairs


def _compare_strand(
    aspect: str,
    name: str,
    strands: Mapping[str, Sequence[Item]],
    others: Mapping[str, Sequence[Item]],
    ends: tuple[float, float],
) -> tuple[Difference | None, _Pairs]:
    left, right = strands.get(name, ()), others.get(name, ())
    pairs: _Pairs = []
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a.key != b.key:
            return _parting(aspect, name, index, left, right), pairs
        pairs.append((aspect, name, a, b))
    shared = len(pairs)
    for rest, end in ((left[shared:], ends[0]), (right[shared:], ends[1])):
        # What one run did just before its end, the other may have been about to do.
        if any(item.t < end - END_TOLERANCE_SECONDS for item in rest):
            return _parting(aspect, name, shared, left, right), pairs
    return None, pairs


def _parting(aspect: str, name: str, index: int, left: Sequence[Item], right: Sequence[Item]) -> Difference:
    a, b = _at(left, index), _at(right, index)
    first = max(0, index - CONTEXT_LINES)
    shown = slice(first, index + CONTEXT_LINES + 1)
    if a is not None and b is not None:
        message = _what_differs(a, b)
    else:
        over = a or b
        assert over is not None
        message = f"only {'the first' if a else 'the second'} run has: {over.text}"
    return Difference(
        aspect,
        name,
        index,
        message,
        (a.t if a else None, b.t if b else None),
        tuple(item.line for item in left[shown]),
        tuple(item.line for item in right[shown]),
        index - first,
    )


def _at(items: Sequence[Item], index: int) -> Item | None:
    return items[index] if index < len(items) else None


def _what_differs(a: Item, b: Item) -> str:
    ours, theirs = dict(a.key), dict(b.key)
    parts = [
        f"{key}: {_brief(ours.get(key))} / {_brief(theirs.get(key))}"
        for key in ours | theirs
        if ours.get(key) != theirs.get(key)
    ]
    return "; ".join(parts[:6]) + (f"; and {len(parts) - 6} more" if len(parts) > 6 else "")


def _brief(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 120 else text[:117] + "…"


# -- times --


def _compare_gaps(left: Strands, right: Strands, pairs: _Pairs) -> Difference | None:
    """Judge each matched item by its distance from the last common call of the pod's worker before it.

    A jittered retry shifts everything after it, so absolute times say nothing; the worker's calls are the
    marks that both runs have.
    """
    marks = sorted(
        (a.t, b.t) for aspect, name, a, b in pairs if aspect == "calls" and name == "work" and not a.grouped
    )
    found: list[Difference] = []
    for aspect, name, a, b in pairs:
        mark = _last_mark(marks, a, b)
        gap_a, gap_b = a.t - mark[0], b.t - mark[1]
        low, high = sorted((gap_a, gap_b))
        if high - low <= GAP_TOLERANCE_SECONDS + _probe_slack_seconds(left, aspect, name, a):
            continue
        jittered = left.retrying(mark[0], a.t) and right.retrying(mark[1], b.t)
        if jittered and low > 0 and high <= JITTER_FACTOR * low + GAP_TOLERANCE_SECONDS:
            continue
        message = (
            f"{a.text}: {gap_a:.3f} s / {gap_b:.3f} s after the mark at {mark[0]:.3f} s / {mark[1]:.3f} s"
        )
        found.append(Difference("gaps", f"{aspect} {name}", 0, message, (a.t, b.t), (a.line,), (b.line,)))
    return min(found, key=_earliest, default=None)


def _probe_slack_seconds(left: Strands, aspect: str, name: str, item: Item) -> float:
    """A kubelet that starts delays each prober by a random part of its period (PRB-05)."""
    if aspect != "calls" or not name.startswith("probe ") or not any(t <= item.t for t in left.restarts):
        return 0.0
    times = [one.t for one in left.by_aspect["calls"][name]]
    gaps = sorted(second - first for first, second in pairwise(times))
    return gaps[len(gaps) // 2] if gaps else 0.0


def _last_mark(marks: Iterable[tuple[float, float]], a: Item, b: Item) -> tuple[float, float]:
    last = (0.0, 0.0)
    for mark in marks:
        if mark[0] >= a.t or mark[1] >= b.t:
            break
        last = mark
    return last


def _wrap(text: str, width: int) -> list[str]:
    return [text[start : start + width] for start in range(0, len(text), width)] or [""]
