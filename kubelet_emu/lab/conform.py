"""Judging scenarios: does a node meet their expectations, and does it do what a recorded real node did.

The node is not known here: a callable runs one scenario with one seed and gives back its trace. A scenario
*meets its expectations* if every seed does; it *matches* if one seed reproduces one recording whole.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Literal

from attrs import evolve, frozen

from kubelet_emu.errors import CallerError, KubeletEmuError, Problem
from kubelet_emu.lab.checks import CheckResult, Verdict, evaluate
from kubelet_emu.lab.checks_timeline import Timeline
from kubelet_emu.lab.compare import Comparison, Difference, compare
from kubelet_emu.lab.invariants import check_trace
from kubelet_emu.lab.rules import RULE
from kubelet_emu.lab.scenarios import (
    AREAS,
    Scenario,
    builtin_scenarios,
    load_recordings,
    load_scenarios,
)
from kubelet_emu.trace.schema import Trace

__all__ = [
    "Against",
    "Conformance",
    "Counts",
    "Outcome",
    "RecordingVerdict",
    "RunScenario",
    "ScenarioReport",
    "ScenarioSkipped",
    "conform",
    "count_verdicts",
    "failed_checks",
    "judge",
    "rules_fired",
    "select",
]

Against = Literal["recordings", "expectations", "both"]

RunScenario = Callable[[Scenario, int], Trace]
"""Runs a scenario with a seed. Raises ``KubeletEmuError`` if it cannot, ``ScenarioSkipped`` to leave out."""

RULES_WINDOW_SECONDS = 1.5
RULES_SHOWN_MAX = 40


class ScenarioSkipped(KubeletEmuError):
    """Raised by a runner for a scenario that needs what this node does not offer; the text says what."""


class Outcome(StrEnum):
    """Whether a scenario's expectations (and the invariants) held with every seed; ``NONE`` if not judged."""

    PASS = "pass"
    FAIL = "fail"
    SKIPPED = "skipped"
    NONE = "none"


class RecordingVerdict(StrEnum):
    """Whether some seed reproduced some recording; ``NONE`` without recordings, or if not asked for."""

    MATCH = "match"
    DIFFER = "differ"
    NONE = "none"


@frozen(kw_only=True)
class ScenarioReport:
    """What came out for one scenario.

    ``seed`` is the one that matched (``run`` names the recording), else the one whose checks are shown: the
    first that failed, or the first. ``rules`` are those that fired in the decisions just before the
    difference. ``error`` is set if it could not be run, ``skipped`` if it was left out.
    """

    id: str
    area: str
    title: str = ""
    expectations: Outcome
    recording: RecordingVerdict
    seed: int
    run: str = ""
    seeds: int = 1
    checks: tuple[CheckResult, ...] = ()
    violations: tuple[str, ...] = ()
    difference: Difference | None = None
    rules: tuple[str, ...] = ()
    fired: tuple[str, ...] = ()
    error: str = ""
    skipped: str = ""
    seconds: float = 0.0
    """Wall time; 0 if nobody measured it."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.expectations is not Outcome.FAIL and self.recording is not RecordingVerdict.DIFFER


@frozen
class Conformance:
    """All reports of one call, in the order of the scenarios."""

    reports: tuple[ScenarioReport, ...]
    against: Against = "both"

    @property
    def ok(self) -> bool:
        """Whether every scenario is in order: the exit code is 0."""
        return all(report.ok for report in self.reports)


# -- choosing --


def select(words: Sequence[str], *, rules: Mapping[str, Iterable[str]] | None = None) -> tuple[Scenario, ...]:
    """The scenarios that words name: areas, ids, rule ids, files, folders; all that ship without any.

    ``rules`` says which rules a shipped scenario is known to exercise, by scenario id. Raises ``CallerError``
    for words that name nothing, and for files with mistakes.
    """
    builtin = builtin_scenarios()
    if not words:
        return builtin
    chosen: dict[str, Scenario] = {}
    problems: list[Problem] = []
    for word in words:
        try:
            found = _named(word, builtin, rules or {})
        except CallerError as error:
            problems += error.problems
            continue
        for scenario in found:
            chosen[scenario.id] = scenario
    if problems:
        raise CallerError(problems)
    return tuple(chosen.values())


def _named(word: str, builtin: Sequence[Scenario], rules: Mapping[str, Iterable[str]]) -> Sequence[Scenario]:
    if word in AREAS:
        return [scenario for scenario in builtin if scenario.area == word]
    by_id = [scenario for scenario in builtin if scenario.id == word]
    if by_id:
        return by_id
    if Path(word).exists():
        return load_scenarios([word])
    if RULE.match(word):
        found = [one for one in builtin if word in one.rules or word in rules.get(one.id, ())]
        if found:
            return found
        raise CallerError([Problem(f"no scenario is known to exercise rule {word}")])
    close = [scenario.id for scenario in builtin if word in scenario.id][:5]
    hint = f"did you mean {', '.join(close)}?" if close else f"areas are {', '.join(AREAS)}"
    raise CallerError([Problem(f"{word} is no area, scenario, rule, file or folder", hint=hint)])


# -- judging --


def conform(
    scenarios: Iterable[Scenario],
    run: RunScenario,
    *,
    seeds: Sequence[int] = (0,),
    search: Sequence[int] = (),
    against: Against = "both",
    recordings: str | Path | None = None,
    done: Callable[[ScenarioReport], None] | None = None,
) -> Conformance:
    """Judge scenarios one after the other; ``done`` is told of each. See ``judge``."""
    reports: list[ScenarioReport] = []
    for scenario in scenarios:
        report = judge(scenario, run, seeds=seeds, search=search, against=against, recordings=recordings)
        reports.append(report)
        if done is not None:
            done(report)
    return Conformance(tuple(reports), against)


def judge(
    scenario: Scenario,
    run: RunScenario,
    *,
    seeds: Sequence[int] = (0,),
    search: Sequence[int] = (),
    against: Against = "both",
    recordings: str | Path | None = None,
) -> ScenarioReport:
    """Run a scenario with each seed and judge it.

    Recordings come from ``recordings``, a folder; without one, from those that ship. Once a seed has matched,
    further seeds are run for the expectations only, and not at all ``against`` recordings alone. Seeds of
    ``search`` are added, one after the other, as long as there are recordings and none has matched.
    """
    known = load_recordings(scenario.id, recordings) if against != "expectations" else ()
    report = ScenarioReport(
        id=scenario.id,
        area=scenario.area,
        title=scenario.title,
        expectations=Outcome.NONE if against == "recordings" else Outcome.PASS,
        recording=RecordingVerdict.DIFFER if known else RecordingVerdict.NONE,
        seed=seeds[0] if seeds else 0,
        seeds=0,
    )
    for number, seed in enumerate((*seeds, *search)):
        if number >= len(seeds) and report.recording is not RecordingVerdict.DIFFER:
            break
        try:
            trace = run(scenario, seed)
        except ScenarioSkipped as reason:
            return _left_out(report, str(reason))
        except KubeletEmuError as error:
            seen = report.seeds + 1
            return evolve(report, expectations=Outcome.FAIL, seed=seed, error=str(error), seeds=seen)
        report = _judge_trace(report, scenario, seed, trace, known, against)
        if against == "recordings" and report.recording is RecordingVerdict.MATCH:
            break
    return report


def _left_out(report: ScenarioReport, reason: str) -> ScenarioReport:
    return evolve(report, expectations=Outcome.SKIPPED, recording=RecordingVerdict.NONE, skipped=reason)


def _judge_trace(
    report: ScenarioReport,
    scenario: Scenario,
    seed: int,
    trace: Trace,
    recordings: Sequence[Trace],
    against: Against,
) -> ScenarioReport:
    fired = tuple(sorted({*report.fired, *rules_fired(trace)}))
    report = evolve(report, seeds=report.seeds + 1, fired=fired)
    if against != "recordings":
        report = _judge_expectations(report, scenario, seed, trace)
    if recordings and report.recording is not RecordingVerdict.MATCH:
        report = _judge_recordings(report, seed, trace, recordings)
    return report


def _judge_expectations(
    report: ScenarioReport, scenario: Scenario, seed: int, trace: Trace
) -> ScenarioReport:
    if report.expectations is Outcome.FAIL:  # the first seed that failed is shown
        return report
    timeline = Timeline.of(trace, scenario.pod_name)
    checks = tuple(evaluate(check, timeline) for check in scenario.expect)
    monitor = check_trace(trace, objects={scenario.pod_name: scenario.pod})
    violations = tuple(str(violation) for violation in monitor.violations)
    failed = bool(violations) or not all(check.ok for check in checks)
    if failed:
        return evolve(report, expectations=Outcome.FAIL, seed=seed, checks=checks, violations=violations)
    return report if report.checks else evolve(report, checks=checks)


def _judge_recordings(
    report: ScenarioReport, seed: int, trace: Trace, recordings: Sequence[Trace]
) -> ScenarioReport:
    failed = report.expectations is Outcome.FAIL
    for recording in recordings:
        result = compare(recording, trace)
        if result.matches:
            return evolve(
                report,
                recording=RecordingVerdict.MATCH,
                run=str(recording.header.get("run", "")),
                seed=report.seed if failed else seed,
                difference=None,
                rules=(),
            )
        report = _keep_best(report, result, seed, trace, recording, failed=failed)
    return report


def _keep_best(
    report: ScenarioReport, result: Comparison, seed: int, trace: Trace, recording: Trace, *, failed: bool
) -> ScenarioReport:
    """Show the attempt that went along with a recording for longest."""
    difference = result.first
    assert difference is not None
    if report.difference is not None and _parts_at(report.difference) >= _parts_at(difference):
        return report
    return evolve(
        report,
        difference=difference,
        rules=_rules_before(trace, difference),
        run=str(recording.header.get("run", "")),
        seed=report.seed if failed else seed,
    )


def _parts_at(difference: Difference) -> float:
    return min((t for t in difference.t if t is not None), default=0.0)


def _rules_before(trace: Trace, difference: Difference) -> tuple[str, ...]:
    """Rules that fired shortly before the point where the run left the recording, newest last."""
    at = difference.t[1] if difference.t[1] is not None else difference.t[0]
    if at is None:
        return ()
    recent = [
        rule
        for record in trace.of_kind("decision")
        if at - RULES_WINDOW_SECONDS <= record["t"] <= at + 0.05
        for rule in record["rules"]
    ]
    newest_once = list(dict.fromkeys(reversed(recent)))[:RULES_SHOWN_MAX]
    return tuple(reversed(newest_once))


def rules_fired(trace: Trace) -> frozenset[str]:
    """Ids of all rules that fired in a trace's decisions, what they were applied to left out."""
    return frozenset(
        rule.partition("(")[0] for record in trace.of_kind("decision") for rule in record["rules"]
    )


@frozen
class Counts:
    """How many scenarios there are of each outcome."""

    scenarios: int
    expectations: Mapping[Outcome, int]
    recordings: Mapping[RecordingVerdict, int]


def count_verdicts(reports: Iterable[ScenarioReport]) -> Counts:
    """Count the outcomes of reports."""
    expectations, recordings = dict.fromkeys(Outcome, 0), dict.fromkeys(RecordingVerdict, 0)
    number = 0
    for report in reports:
        number += 1
        expectations[report.expectations] += 1
        recordings[report.recording] += 1
    return Counts(number, expectations, recordings)


def failed_checks(report: ScenarioReport) -> tuple[CheckResult, ...]:
    """The checks of a report that did not hold."""
    return tuple(check for check in report.checks if check.verdict is Verdict.FAIL)
