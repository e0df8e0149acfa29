"""Runs examples of a campaign in this process, and shrinks one of them.

Hypothesis draws the cases (from ``source``) and shrinks them. Judging a case is a pure function, so the
shrinker may try what it likes; what it has tried is remembered, and its runs are bounded.
"""

import time
from collections.abc import Callable, Mapping
from typing import cast

from attrs import evolve, frozen
from hypothesis import HealthCheck, Phase, given, settings

from kubelet_emu.errors import CallerError
from kubelet_emu.fuzz.campaign import Campaign, Found, Tally, broken_by
from kubelet_emu.fuzz.simpler import simplified
from kubelet_emu.fuzz.source import BACKEND, Examples
from kubelet_emu.sim import Case, Outcome, run_case
from kubelet_emu.strategies import cases

__all__ = ["SHRINK_RUNS_MAX", "SHRINK_SECONDS", "Stretch", "draw_cases", "explore", "judge", "shrink"]

SHRINK_RUNS_MAX = 2_000
"""Most runs that shrinking one case may take."""
SHRINK_SECONDS = 90.0
"""Most wall seconds that shrinking one case may take."""
NOT_ONE_TRACE = "one-seed-one-trace"
"""Stands for an invariant where the same case gave two traces."""

_ALL_CHECKS = cast("list[HealthCheck]", list(HealthCheck))
"""Examples are slow on purpose, and what they depend on is drawn."""

Broken = Mapping[str, tuple[str, tuple[str, ...]]]


@frozen(kw_only=True)
class Stretch:
    """What a stretch of examples came to: the first violation ends it."""

    tally: Tally
    found: Found | None = None


class _Fails(Exception):
    """How a case that breaks the invariant looks to Hypothesis; one class, so that it is one failure."""


def judge(case: Case, *, twice: bool = False) -> tuple[Outcome, Broken]:
    """Run a case, and say what it breaks."""
    outcome = run_case(case)
    broken = dict(broken_by(outcome))
    if twice:
        from kubelet_emu.trace.difference import diff

        difference = diff(outcome.trace, run_case(case).trace)
        if difference is not None:
            broken.setdefault(NOT_ONE_TRACE, (str(difference), ()))
    return outcome, broken


def _drive(
    campaign: Campaign, first: int, count: int, test: Callable[[Case], None], *, shrinks: bool
) -> None:
    """Have Hypothesis run ``test`` on ``count`` examples from number ``first`` on, and shrink a failure."""
    source = cases(
        focus=campaign.focus,
        faults=campaign.faults,
        gates=campaign.gates,
        bugs=campaign.bugs,
        fixes=campaign.fixes,
    )
    chosen = settings(
        # Hypothesis runs the simplest case first, whatever it is asked for; ``test`` leaves that one out.
        max_examples=count + 1,
        backend=BACKEND,
        database=None,
        deadline=None,
        derandomize=True,
        phases=(Phase.generate, Phase.shrink) if shrinks else (Phase.generate,),
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=_ALL_CHECKS,
    )
    Examples.seed, Examples.number = campaign.seed, first

    def on_case(case: Case) -> None:
        test(case)

    try:
        chosen(given(source)(on_case))()
    except _Fails:
        return


def draw_cases(campaign: Campaign, first: int, count: int) -> tuple[Case, ...]:
    """The examples from number ``first`` on, not run."""
    drawn: list[Case] = []

    def keep(case: Case) -> None:
        if Examples.drawing:
            drawn.append(case)

    _drive(campaign, first, count, keep, shrinks=False)
    return tuple(drawn)


def explore(campaign: Campaign, first: int, count: int, until: float | None = None) -> Stretch:
    """Run examples ``first`` to ``first + count - 1``, up to the first that breaks something.

    ``until`` is a moment of ``time.time()`` (the same in all processes) after which no example is begun.
    """
    tally = Tally()
    found: list[Found] = []

    def test(case: Case) -> None:
        if not Examples.drawing or found or (until is not None and time.time() >= until):
            return
        number = Examples.number
        outcome, broken = judge(case, twice=campaign.twice)
        tally.take(outcome)
        for invariant, (text, rules) in broken.items():
            found.append(Found(invariant=invariant, text=text, rules=rules, case=case, example=number))
            break

    _drive(campaign, first, count, test, shrinks=False)
    return Stretch(tally=tally, found=found[0] if found else None)


@frozen
class _Bounds:
    runs: int
    seconds: float


class _Judge:
    """Whether cases break one invariant; remembers, counts, and in the end says no."""

    def __init__(
        self, invariant: str, bounds: _Bounds, *, twice: bool, tell: Callable[[int, Case], None]
    ) -> None:
        self._invariant, self._bounds, self._twice, self._tell = invariant, bounds, twice, tell
        self._known: dict[str, bool] = {}
        self._begun = time.perf_counter()
        self.runs = 0
        self.best: tuple[Case, str, tuple[str, ...]] | None = None

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begun

    def __call__(self, case: Case) -> bool:
        key = repr(case)
        if key not in self._known:
            spent = self.runs >= self._bounds.runs or self.seconds > self._bounds.seconds
            self._known[key] = not spent and self._run(case)
        return self._known[key]

    def _run(self, case: Case) -> bool:
        self.runs += 1
        try:
            _, broken = judge(case, twice=self._twice)
        except CallerError:
            return False
        if self._invariant not in broken:
            return False
        self.best = (case, *broken[self._invariant])
        self._tell(self.runs, case)
        return True


def shrink(
    campaign: Campaign,
    found: Found,
    *,
    runs_max: int = SHRINK_RUNS_MAX,
    seconds_max: float = SHRINK_SECONDS,
    tell: Callable[[int, Case], None] = lambda runs, case: None,
) -> Found:
    """The smallest case that breaks the same invariant: Hypothesis shrinks what was drawn, then fields are
    taken out of the manifest one after the other. ``tell`` hears of each smaller case.
    """
    judged = _Judge(found.invariant, _Bounds(runs_max, seconds_max), twice=campaign.twice, tell=tell)
    best = found.case
    if found.example is not None:
        last: list[Case] = []

        def test(case: Case) -> None:
            if (Examples.drawing or last) and judged(case):
                last[:] = [case]
                raise _Fails

        _drive(campaign, found.example, 1, test, shrinks=True)
        best = last[0] if last else best
    best = simplified(best, judged)
    text, rules = found.text, found.rules
    if judged(best):
        _, broken = judge(best, twice=campaign.twice)
        text, rules = broken[found.invariant]
    return evolve(
        found,
        case=best,
        text=text,
        rules=rules,
        original=found.case,
        runs=judged.runs,
        seconds=judged.seconds,
    )
