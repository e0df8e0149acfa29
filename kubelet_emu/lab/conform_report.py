"""Reports on conformance as people and machines read them: table, JSON, JUnit, explanations."""

import json
import re
from collections.abc import Iterable
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from kubelet_emu.lab.checks import CheckResult
from kubelet_emu.lab.compare import Difference
from kubelet_emu.lab.conform import (
    Conformance,
    Outcome,
    RecordingVerdict,
    ScenarioReport,
    count_verdicts,
    failed_checks,
)
from kubelet_emu.lab.scenarios import Scenario

__all__ = ["as_json", "as_junit", "as_table", "explain", "headline", "listing", "report_lines"]

FORMAT = 1
"""Version of the JSON report."""


# -- JSON --


def as_json(conformance: Conformance) -> str:
    """The report as a JSON document; the shape is part of the interface (``docs/conform.md``)."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "summary": {
            "ok": conformance.ok,
            "against": conformance.against,
            **_counts_json(conformance.reports),
            "areas": {area: _counts_json(reports) for area, reports in _by_area(conformance).items()},
        },
        "scenarios": [_report_json(report) for report in conformance.reports],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _counts_json(reports: Iterable[ScenarioReport]) -> dict[str, Any]:
    counts = count_verdicts(reports)
    return {
        "scenarios": counts.scenarios,
        "expectations": {outcome.value: number for outcome, number in counts.expectations.items()},
        "recordings": {verdict.value: number for verdict, number in counts.recordings.items()},
    }


def _by_area(conformance: Conformance) -> dict[str, list[ScenarioReport]]:
    areas: dict[str, list[ScenarioReport]] = {}
    for report in conformance.reports:
        areas.setdefault(report.area or "-", []).append(report)
    return areas


def _report_json(report: ScenarioReport) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": report.id,
        "area": report.area,
        "expectations": report.expectations.value,
        "recording": report.recording.value,
        "seed": report.seed,
        "seeds": report.seeds,
        "run": report.run or None,
        "checks": [_check_json(check) for check in report.checks],
        "violations": list(report.violations),
        "difference": _difference_json(report.difference, report.rules),
    }
    for key in ("error", "skipped"):
        if getattr(report, key):
            shown[key] = getattr(report, key)
    return shown


def _check_json(check: CheckResult) -> dict[str, Any]:
    return {"check": check.check, "verdict": check.verdict.value, "found": check.found, "t": check.t}


def _difference_json(difference: Difference | None, rules: tuple[str, ...]) -> dict[str, Any] | None:
    if difference is None:
        return None
    return {
        "aspect": difference.aspect,
        "strand": difference.strand,
        "index": difference.index,
        "message": difference.message,
        "expectedAt": difference.t[0],
        "foundAt": difference.t[1],
        "expected": list(difference.left),
        "found": list(difference.right),
        "rules": list(rules),
    }


# -- table --


def as_table(conformance: Conformance) -> str:
    """Counts by area, and below them what is wrong with each scenario that is not in order."""
    rows: list[tuple[str, ...]] = [("AREA", "SCENARIOS", "MET", "NOT MET", "SKIPPED", "MATCH", "DIFFER")]
    for area, reports in _by_area(conformance).items():
        rows.append(_row(area, reports))
    rows.append(_row("all", conformance.reports))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    for report in conformance.reports:
        if not report.ok or report.skipped:
            lines += ["", *report_lines(report)]
    return "\n".join(lines) + "\n"


def _row(name: str, reports: Iterable[ScenarioReport]) -> tuple[str, ...]:
    counts = count_verdicts(reports)
    met = [counts.expectations[one] for one in (Outcome.PASS, Outcome.FAIL, Outcome.SKIPPED)]
    matched = [counts.recordings[one] for one in (RecordingVerdict.MATCH, RecordingVerdict.DIFFER)]
    return name, *map(str, (counts.scenarios, *met, *matched))


def headline(report: ScenarioReport) -> str:
    """One scenario's outcome in one line, with a mark in front."""
    mark = "–" if report.skipped else "✓" if report.ok else "✗"
    return f"{mark} {report_lines(report)[0]}"


def report_lines(report: ScenarioReport) -> list[str]:
    """One scenario's outcome: a headline, then failed checks, violations and the difference, if any."""
    words = {
        Outcome.PASS: "expectations met",
        Outcome.FAIL: "expectations not met",
        Outcome.SKIPPED: "skipped",
        Outcome.NONE: "run",
    }
    of_run = f" {report.run}" if report.run else ""
    recording = {
        RecordingVerdict.MATCH: f", recording{of_run} matched",
        RecordingVerdict.DIFFER: f", recording{of_run} not matched",
        RecordingVerdict.NONE: "",
    }
    head = f"{report.id}: {words[report.expectations]}{recording[report.recording]} (seed {report.seed}"
    lines = [head + (f", {report.seeds} seeds)" if report.seeds > 1 else ")")]
    if report.skipped:
        return [f"{report.id}: skipped: {report.skipped}"]
    if report.error:
        lines += [f"  {line}" for line in report.error.splitlines()]
    for check in failed_checks(report):
        lines += [f"  ✗ {check.check}", f"      {check.found}"]
    lines += [f"  ✗ invariant {violation}" for violation in report.violations]
    if report.difference is not None and report.recording is RecordingVerdict.DIFFER:
        lines += _difference_lines(report.difference, report.rules)
    return lines


def _difference_lines(difference: Difference, rules: tuple[str, ...]) -> list[str]:
    where = difference.aspect + (f", {difference.strand}" if difference.strand != difference.aspect else "")
    lines = [f"  parts in {where}: {difference.message}"]
    lines += difference.side_by_side(names=("recorded", "found")).splitlines()
    if rules:
        lines.append(f"  rules in play: {', '.join(rules)}")
    return lines


def listing(scenarios: Iterable[Scenario]) -> str:
    """Id, area and title of each scenario, one a line."""
    rows = [(scenario.area, scenario.id, scenario.title) for scenario in scenarios]
    area = max((len(row[0]) for row in rows), default=0)
    name = max((len(row[1]) for row in rows), default=0)
    return "".join(f"{row[0]:<{area}}  {row[1]:<{name}}  {row[2]}".rstrip() + "\n" for row in rows)


# -- one scenario --


def explain(scenario: Scenario, report: ScenarioReport | None = None) -> str:
    """What a scenario pins down, what is done in it and expected of it; with a report, what came out."""
    lines = [f"{scenario.id}  ({scenario.area or 'no area'}, {scenario.run_for_seconds:g} s)"]
    if scenario.title:
        lines.append(scenario.title)
    if scenario.about:
        lines += ["", *_wrap(scenario.about)]
    if scenario.source:
        lines += ["", f"From: {scenario.source}"]
    if scenario.needs:
        lines.append(f"Needs: {', '.join(scenario.needs)}")
    if scenario.actions:
        lines += ["", "What is done:"]
        for action in scenario.actions:
            keys = " ".join(f"{key}={_short(value)}" for key, value in action.fields().items())
            lines.append(f"  {action.at_seconds:6g} s  {action.do} {keys}".rstrip())
    lines += ["", "What has to be true:"]
    results = {check.check: check for check in report.checks} if report is not None else {}
    for check in scenario.expect:
        result = results.get(check)
        mark = {"pass": "✓", "fail": "✗", "skipped": "–"}.get(result.verdict.value, "·") if result else "·"
        lines.append(f"  {mark} {check}")
        if result is not None:
            lines.append(f"      {result.found}")
    if report is not None:
        lines += ["", *report_lines(report)]
        if report.fired:
            lines += ["", *_wrap(f"Rules that fired: {', '.join(report.fired)}")]
    return "\n".join(lines) + "\n"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 70 else text[:67] + "…"


def _wrap(text: str, width: int = 100) -> list[str]:
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line] if line else lines


# -- JUnit --


def as_junit(conformance: Conformance) -> str:
    """The report as JUnit XML: a suite an area, a case a scenario; not to match a recording is a failure."""
    reports = conformance.reports
    skipped = sum(report.expectations is Outcome.SKIPPED for report in reports)
    failures = sum(not report.ok and not report.error for report in conformance.reports)
    errors = sum(bool(report.error) for report in conformance.reports)
    total = sum(report.seconds for report in conformance.reports)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="kubelet-emu conform" tests="{len(reports)}" failures="{failures}" '
        f'errors="{errors}" skipped="{skipped}" time="{total:.3f}">',
    ]
    for area, reports in _by_area(conformance).items():
        lines += _suite(area, reports)
    lines.append("</testsuites>")
    return "\n".join(lines) + "\n"


def _suite(area: str, reports: list[ScenarioReport]) -> list[str]:
    failures = sum(not report.ok and not report.error for report in reports)
    errors = sum(bool(report.error) for report in reports)
    skipped = sum(report.expectations is Outcome.SKIPPED for report in reports)
    seconds = sum(report.seconds for report in reports)
    lines = [
        f'  <testsuite name={quoteattr(area)} tests="{len(reports)}" failures="{failures}" errors="{errors}" '
        f'skipped="{skipped}" time="{seconds:.3f}">'
    ]
    for report in reports:
        lines += _case(area, report)
    lines.append("  </testsuite>")
    return lines


def _case(area: str, report: ScenarioReport) -> list[str]:
    head = (
        f"    <testcase classname={quoteattr('kubelet-emu.' + area)} name={quoteattr(report.id)} "
        f'time="{report.seconds:.3f}"'
    )
    if report.ok and not report.skipped:
        return [head + "/>"]
    if report.skipped:
        body = f"      <skipped message={quoteattr(_printable(report.skipped))}/>"
    else:
        lines = report_lines(report)
        kind = "error" if report.error else "failure"
        text = escape(_printable("\n".join(lines)))
        body = f"      <{kind} message={quoteattr(_printable(lines[0]))}>{text}</{kind}>"
    return [head + ">", body, "    </testcase>"]


def _printable(text: str) -> str:
    """Text without the control characters that XML cannot hold."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "�", text)
