"""What is told of a run at its end: the timeline, the tables, and all of them together. (pure)"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from kubelet_emu.lab.expectations import PodCheck
from kubelet_emu.lab.invariants import Verdict
from kubelet_emu.lab.log_lines import InstanceLog
from kubelet_emu.lab.report.kept import kept_over_restarts
from kubelet_emu.lab.report.summary import (
    absent_lines,
    check_lines,
    condition_lines,
    container_lines,
    event_lines,
    invariant_lines,
    kept_lines,
    log_lines,
    opaque_lines,
)
from kubelet_emu.lab.report.text import Line, Style, line, plain, seconds_text
from kubelet_emu.lab.report.timeline import ASCII, UNICODE, Glyphs, timeline
from kubelet_emu.lab.report.why import why_lines
from kubelet_emu.lab.until import Ending, has_ended
from kubelet_emu.trace.schema import Trace

__all__ = [
    "ASCII",
    "UNICODE",
    "Glyphs",
    "Line",
    "Report",
    "Reported",
    "Style",
    "ending_line",
    "full_report",
    "plain",
    "timeline",
    "verdict_lines",
]

Object = Mapping[str, Any]


@frozen(kw_only=True)
class Reported:
    """What a report is made from: the parts of a ``RunResult``, and how it is to look."""

    ending: Ending
    trace: Trace
    pods: Sequence[Object]
    events: Sequence[Object]
    checks: Sequence[PodCheck]
    invariants: Sequence[Verdict]
    logs: Sequence[InstanceLog] | None
    opaque: Mapping[tuple[str, str], tuple[str, ...]]
    now_ns: int
    zero_ns: int
    wall_seconds: float
    calls: int
    until: str = "settled"
    width: int = 100
    glyphs: Glyphs = UNICODE
    absent: Mapping[tuple[str, str], Mapping[str, str]] = field(factory=dict[Any, Any])
    """What containers ask for and the node does not have, see ``lab.run.absent_resources``."""


@frozen
class Report:
    """Titled parts of a report, in order."""

    parts: tuple[tuple[str, tuple[Line, ...]], ...] = field()

    def lines(self) -> Iterable[Line]:
        """All lines, with a blank one before each part."""
        for title, body in self.parts:
            yield line("")
            if title:
                yield line((title, "head"))
            yield from body


def ending_line(given: Reported) -> Line:
    """Why the run ended, in one sentence, and what it cost."""
    ending = given.ending
    at, quiet = seconds_text(ending.at_seconds), seconds_text(ending.quiet_since_seconds)
    style: Style = "good" if ending.as_asked else "bad"
    text = {
        "settled": f"settled at {quiet}: nothing more is due within ten minutes",
        "reached": f"{given.until} reached at {at}",
        "time": f"stopped at {at} as asked",
        "max-time": f"{given.until} not reached within {at} (--max-time)",
        "unreachable": f"{given.until} not reached: every pod has ended without it by {quiet}",
        "interrupted": f"interrupted at {at}",
    }[ending.kind]
    if ending.kind == "settled" and given.pods and all(map(has_ended, given.pods)):
        text = f"settled at {quiet}: every pod has ended"
    cost = f"   {at} simulated in {given.wall_seconds:.1f} s, {given.calls} CRI calls"
    return line((text, style), (cost, "dim"))


def full_report(given: Reported) -> Report:
    """Everything: a timeline and tables for each pod, then what concerns the whole run."""
    marks = (given.glyphs.good, given.glyphs.bad)
    opening = [ending_line(given)]
    if given.ending.kind == "max-time":
        hint = "The pods go on changing: ask for a time (--until 10m) or a state, or raise --max-time."
        opening.append(line((hint, "dim")))
    parts: list[tuple[str, tuple[Line, ...]]] = [("", tuple(opening))]
    shown = given.trace.pods
    several = len(shown) > 1
    objects = {str(pod["metadata"]["name"]): pod for pod in given.pods}
    for name in shown:
        title = f"Pod {name}" if several else ""
        pod = objects.get(name)
        parts.append((_titled("Timeline", title), tuple(timeline_of(given, name))))
        story = why_lines(given.trace, name, given.width)
        if story:
            parts.append((_titled("What happened, and why", title), tuple(story)))
        if pod is None:
            parts.append((_titled("Containers", title), (line("  the pod has been deleted"),)))
        else:
            parts.append((_titled("Containers", title), tuple(container_lines(pod))))
            parts.append((_titled("Conditions", title), tuple(condition_lines(pod))))
            parts.append((_titled("Events", title), tuple(event_lines(given.events, pod, given.now_ns))))
        kept = kept_over_restarts(given.trace, name)
        if kept.restarts or any(not fact.kept for fact in kept.facts):
            what = f"{kept.restarts} restart" + ("s" if kept.restarts != 1 else "") + " of containers"
            if kept.whole:
                what += f" ({kept.whole} of the whole pod in place)"
            parts.append((_titled(f"Kept over {what}", title), tuple(kept_lines(kept, glyphs=marks))))
    if given.logs is not None:
        parts.append(("Logs", tuple(log_lines(given.logs, given.zero_ns))))
    parts += _verdict_parts(given)
    absent = absent_lines(given.absent)
    if absent:
        parts.append(("Devices that the node does not have", tuple(absent)))
    opaque = opaque_lines(given.opaque, given.width)
    if opaque:
        parts.append(("Programs that are not emulated", tuple(opaque)))
    return Report(tuple(parts))


def timeline_of(given: Reported, pod: str) -> list[Line]:
    """The timeline of one pod at the report's width, indented."""
    drawn = timeline(given.trace, pod, width=given.width - 2, glyphs=given.glyphs)
    return [(*line("  "), *spans) for spans in drawn]


def _titled(what: str, pod: str) -> str:
    return f"{pod}: {what[0].lower()}{what[1:]}" if pod else what


def _verdict_parts(given: Reported) -> list[tuple[str, tuple[Line, ...]]]:
    marks = (given.glyphs.good, given.glyphs.bad)
    broken = sum(not verdict.holds for verdict in given.invariants)
    title = f"Invariants: {f'{broken} BROKEN' if broken else f'all {len(given.invariants)} hold'}"
    lines = tuple(invariant_lines(given.invariants, given.width, glyphs=marks))
    parts: list[tuple[str, tuple[Line, ...]]] = [(title, lines)]
    if given.checks:
        failed = sum(not check.result.ok for check in given.checks)
        title = f"Checks: {f'{failed} FAILED' if failed else 'all hold'}"
        parts.append((title, tuple(check_lines(given.checks, glyphs=marks))))
    return parts


def verdict_lines(given: Reported) -> list[Line]:
    """Only what went wrong: an ending that was not asked for, broken invariants, failed checks."""
    marks = (given.glyphs.good, given.glyphs.bad)
    lines: list[Line] = []
    if not given.ending.as_asked:
        lines.append(ending_line(given))
    broken = [verdict for verdict in given.invariants if not verdict.holds]
    lines += invariant_lines(broken, given.width, glyphs=marks)
    lines += check_lines([check for check in given.checks if not check.result.ok], glyphs=marks)
    return lines
