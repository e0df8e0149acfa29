"""Judging a run by checks: does what a check says hold in a trace or recording, and what was found (pure).

On our own traces the order of records decides, without slack. On a recording of a real node, where calls,
events and the watch are seen by different observers, ``order`` allows 10 ms between calls, events and
actions and 0.5 s to a neighbour that is read from a snapshot.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from itertools import pairwise
from typing import Any

from attrs import frozen

from kubelet_emu.lab.checks_grammar import parse_check
from kubelet_emu.lab.checks_timeline import InstanceLife, Point, State, Timeline
from kubelet_emu.lab.checks_values import (
    And,
    At,
    Base,
    Check,
    Comparison,
    Count,
    Expr,
    Final,
    Gap,
    InstanceIs,
    Keep,
    Moment,
    Not,
    Or,
    Order,
    Path,
    Quantified,
    Series,
    Value,
    Window,
)
from kubelet_emu.trace.calls import COUNTED, POLLS
from kubelet_emu.trace.schema import Record, Trace

__all__ = ["CheckResult", "Verdict", "evaluate", "evaluate_all", "holds_in_snapshot"]

CALL_SLACK_SECONDS = 0.010
SNAPSHOT_SLACK_SECONDS = 0.5
_EPSILON_SECONDS = 1e-6


class Verdict(StrEnum):
    """Outcome of a check; ``SKIPPED`` where the recording does not carry what it asks for."""

    PASS = "pass"
    FAIL = "fail"
    SKIPPED = "skipped"


@frozen
class CheckResult:
    """A check as written, its verdict, what was found, and at what time (seconds; None if at none)."""

    check: str
    verdict: Verdict
    found: str
    t: float | None = None

    @property
    def ok(self) -> bool:
        """Whether it did not fail."""
        return self.verdict is not Verdict.FAIL


class _NotCarried(Exception):
    """Raised inside when the recording lacks what a check is about."""


class _Missing(Exception):
    """Raised inside for a moment that did not occur."""


def evaluate(check: str | Check, trace: Trace | Timeline, *, pod: str = "") -> CheckResult:
    """Judge one check for one pod (the first if none is named).

    Raises ``CheckSyntaxError`` for a text that is no check and ``KeyError`` for a pod that the trace lacks.
    """
    parsed = parse_check(check) if isinstance(check, str) else check
    timeline = trace if isinstance(trace, Timeline) else Timeline.of(trace, pod)
    text = check if isinstance(check, str) else str(check)
    judge = _Judge(timeline)
    try:
        ok, found, at = _JUDGES[type(parsed)](judge, parsed)
    except _NotCarried as lack:
        return CheckResult(text, Verdict.SKIPPED, f"the recording does not carry {lack}")
    except _Missing as lack:
        return CheckResult(text, Verdict.FAIL, str(lack))
    return CheckResult(text, Verdict.PASS if ok else Verdict.FAIL, found, at)


def evaluate_all(checks: Iterable[str], trace: Trace, *, pod: str = "") -> tuple[CheckResult, ...]:
    """Judge several checks on one trace, in order."""
    timeline = Timeline.of(trace, pod)
    return tuple(evaluate(check, timeline) for check in checks)


def holds_in_snapshot(expr: Expr, snapshot: Record, *, node: Record | None = None) -> bool:
    """Whether one snapshot satisfies an expression (``parse_expr``)."""
    return _holds(expr, snapshot, node)


# -- expressions --


def _holds(expr: Expr, pod: Record, node: Record | None) -> bool:
    if isinstance(expr, And):
        return all(_holds(term, pod, node) for term in expr.terms)
    if isinstance(expr, Or):
        return any(_holds(term, pod, node) for term in expr.terms)
    if isinstance(expr, Not):
        return not _holds(expr.term, pod, node)
    return _compare(_read(expr.path, pod, node), expr.op, expr.value)


def _read(path: Path, pod: Record, node: Record | None) -> Any:
    if path.scope == "pod":
        if path.field == "deleting":
            return "deleting" in pod or bool(pod.get("deleted"))
        return pod.get("ip" if path.field == "podIP" else path.field) or None
    if path.scope == "node":
        return _quantity((node or {}).get(path.field, {}).get(path.argument))
    if path.scope == "cond":
        parts: list[str] | None = pod["conditions"].get(path.of)
        if parts is None:
            return None
        index = ("status", "reason", "message").index(path.field)
        return (parts[index] or None) if index < len(parts) else None
    shown: Record | None = pod["containers"].get(path.of)
    return None if shown is None else _read_container(path, shown)


def _read_container(path: Path, shown: Record) -> Any:
    name = path.field
    if name == "health":
        for resource in shown.get("allocatedResourcesStatus", ()):
            for device in resource.get("resources", ()):
                if device.get("resourceID") == path.argument:
                    return device.get("health")
        return None
    if name.startswith("last."):
        return _present(shown.get("last", {}).get(name[5:]))
    return _present(shown.get(name))


def _present(value: Any) -> Any:
    return None if value == "" else value


def _quantity(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"\d+", value):
        return int(value)
    return value


_NUMERIC: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _compare(actual: Any, op: str, wanted: Value) -> bool:
    if actual is None or wanted.value is None:
        equal = actual is None and wanted.value is None
        return equal if op == "=" else op == "!=" and not equal and wanted.value is None
    if op == "~":
        return re.search(wanted.text, _text(actual)) is not None
    if op in _NUMERIC:
        if isinstance(actual, bool) or not isinstance(actual, int | float):
            return False
        return isinstance(wanted.value, float) and _NUMERIC[op](actual, wanted.value)
    return _equal(actual, wanted) == (op == "=")


def _equal(actual: Any, wanted: Value) -> bool:
    if isinstance(actual, bool) or isinstance(wanted.value, bool):
        return actual is wanted.value
    if isinstance(actual, str):
        return actual == wanted.text
    return isinstance(wanted.value, float) and actual == wanted.value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _paths(expr: Expr) -> Iterable[Path]:
    if isinstance(expr, Comparison):
        yield expr.path
    elif isinstance(expr, Not):
        yield from _paths(expr.term)
    else:
        for term in expr.terms:
            yield from _paths(term)


def _describe(expr: Expr, state: State) -> str:
    shown: list[str] = []
    for path in dict.fromkeys(_paths(expr)):
        value = _read(path, state.pod, state.node)
        shown.append(f"{path} is {'none' if value is None else _text(value)}")
    return ", ".join(shown)


# -- checks --

_Found = tuple[bool, str, float | None]


class _Judge:
    def __init__(self, line: Timeline) -> None:
        self.line = line

    # moments

    def point(self, moment: Moment) -> Point:
        return self._base(moment.base).shifted(moment.offset_seconds)

    def _base(self, base: Base) -> Point:
        line = self.line
        if base.kind == "number":
            return Point(base.number)
        if base.kind == "start":
            return Point(0.0)
        if base.kind == "end":
            return Point(max(line.end.t, line.states[-1].point.t if line.states else 0.0))
        found: Point | None = None
        if base.kind == "gone":
            found = line.gone
        elif base.kind == "when":
            found = self._when(base)
        elif base.instance is not None:
            life = line.instance(base.instance.container, base.instance.number)
            found = _moment_of(life, base.kind) if life is not None else None
        else:
            found = next(iter(self._points(base)), None)
        if found is None:
            raise _Missing(f"{base} did not occur")
        return found

    def _points(self, base: Base) -> Iterable[Point]:
        number = int(base.number)
        if base.kind == "sandbox":
            return [sandbox.run for sandbox in self.line.sandboxes][number : number + 1]
        if base.kind == "sandboxStopped":
            stops = [sandbox.stopped for sandbox in self.line.sandboxes][number : number + 1]
            return [stop for stop in stops if stop is not None]
        if base.kind == "action":
            return self.line.actions[number : number + 1]
        return self.series_points(Series(base.kind, container=base.container, text=base.text))

    def _when(self, base: Base) -> Point | None:
        assert base.expr is not None
        self._require(base.expr)
        after = self.point(base.after) if base.after is not None else None
        first = self.line.index_at(after) if after is not None else 0
        for state in self.line.states[max(first, 0) :]:
            if _holds(base.expr, state.pod, state.node):
                before = after is not None and _before(state.point, after)
                return Point(after.t, after.seq, soft=True) if before and after is not None else state.point
        return None

    # windows

    def states_in(self, within: Window | None) -> list[State]:
        if within is None:
            return self.line.states
        begin, end = self.point(within.begin), self.point(within.end)
        first, last = self.line.index_at(begin), self.line.index_at(end)
        if _before(end, begin):
            return []
        return self.line.states[max(first, 0) : last + 1]

    def inside(self, points: Iterable[Point], within: Window | None) -> list[Point]:
        if within is None:
            return list(points)
        begin, end = self.point(within.begin), self.point(within.end)
        return [point for point in points if not _before(point, begin) and not _before(end, point)]

    def _require(self, expr: Expr) -> None:
        """Refuse expressions about what this recording does not carry."""
        for path in _paths(expr):
            if path.scope == "node" and not self.line.has_node:
                raise _NotCarried("node records")
            if path.scope == "container" and path.field == "image" and not self._carries("image"):
                raise _NotCarried("the image of containers")

    def _carries(self, key: str) -> bool:
        return self.line.ordered or any(
            key in shown for pod in self.line.snapshots for shown in pod["containers"].values()
        )

    # judges

    def final(self, check: Final) -> _Found:
        self._require(check.expr)
        kept = [state for state in self.line.states if not state.pod.get("deleted")]
        if not kept:
            return False, "there is no snapshot", None
        return self._judge_state(check.expr, kept[-1], "last snapshot")

    def at(self, check: At) -> _Found:
        self._require(check.expr)
        point = self.point(check.moment)
        index = self.line.index_at(point)
        if index < 0:
            return False, f"{check.moment} is {point}, before the first snapshot", point.t
        ok, found, _ = self._judge_state(check.expr, self.line.states[index], f"at {point} snapshot")
        return ok, found, point.t

    def _judge_state(self, expr: Expr, state: State, what: str) -> _Found:
        ok = _holds(expr, state.pod, state.node)
        return ok, f"{what} of {state.point}: {_describe(expr, state)}", state.point.t

    def quantified(self, check: Quantified) -> _Found:
        self._require(check.expr)
        states = self.states_in(check.within)
        wanted = check.how != "never"
        for state in states:
            holds = _holds(check.expr, state.pod, state.node)
            if check.how == "eventually" and holds:
                return self._judge_state(check.expr, state, "snapshot")
            if check.how != "eventually" and holds is not wanted:
                _, found, at = self._judge_state(check.expr, state, "snapshot")
                return False, found, at
        if check.how == "eventually":
            return False, f"none of {len(states)} snapshots satisfies it", None
        if check.how == "always" and not states:
            return False, "no snapshot lies in the window", None
        return True, f"{len(states)} snapshots", None

    def order(self, check: Order) -> _Found:
        points = [self.point(moment) for moment in check.moments]
        shown = [f"{moment} at {point}" for moment, point in zip(check.moments, points, strict=True)]
        for index, (first, second) in enumerate(pairwise(points)):
            if not self._not_later(first, second):
                return False, f"{shown[index]}, but {shown[index + 1]}", second.t
        return True, ", ".join(shown), points[-1].t

    def _not_later(self, first: Point, second: Point) -> bool:
        if first.seq is not None and second.seq is not None:
            return first.seq <= second.seq
        if self.line.ordered:
            return first.t <= second.t + _EPSILON_SECONDS
        slack = SNAPSHOT_SLACK_SECONDS if first.soft or second.soft else CALL_SLACK_SECONDS
        return first.t <= second.t + slack + _EPSILON_SECONDS

    def gap(self, check: Gap) -> _Found:
        first, second = self.point(check.first), self.point(check.second)
        gap = round(second.t - first.t, 4)
        ok = _compare(gap, check.op, Value(str(check.seconds), check.seconds))
        return ok, f"{check.first} at {first}, {check.second} at {second}: {gap:g} s apart", second.t

    def count(self, check: Count) -> _Found:
        points = self.inside(self.series_points(check.series), check.within)
        ok = _compare(len(points), check.op, Value(str(check.number), check.number))
        times = ", ".join(str(point) for point in points[:8]) + (" …" if len(points) > 8 else "")
        return ok, f"{len(points)}" + (f": at {times}" if points else ""), points[-1].t if points else None

    def series_points(self, series: Series) -> list[Point]:
        line = self.line
        if series.kind == "sandboxes":
            return [sandbox.run for sandbox in line.sandboxes]
        if series.kind == "exec":
            return [
                point
                for point, container, command in line.execs
                if container == series.container and series.text in command
            ]
        if series.kind == "event":
            return [point for point, event in line.events if _is_event(event, series)]
        if series.kind == "cri":
            if series.text in POLLS or series.text in COUNTED:
                raise _NotCarried(f"every {series.text} call")
            return [point for point, method in line.calls if method == series.text]
        if series.kind == "plugin":
            if not line.devices and not line.ordered:
                raise _NotCarried("calls of device plugins")
            return [point for point, method in line.devices if method == series.text]
        lives = line.instances.get(series.container, [])
        points = (_moment_of(life, series.kind) for life in lives)
        return [point for point in points if point is not None]

    def keep(self, check: Keep) -> _Found:
        if check.fact == "sandbox":
            return self._keep_sandbox(check)
        if check.fact == "env":
            return self._keep_env(check)
        values: dict[str, State] = {}
        for state in self.states_in(check.within):
            value = _fact(check, state.pod)
            if value is not None:
                values.setdefault(value, state)
        if check.fact == "podUID" and not values:
            raise _NotCarried("UIDs")
        if len(values) > 1:
            changes = ", ".join(f"{value} at {state.point}" for value, state in values.items())
            return False, f"{len(values)} values: {changes}", list(values.values())[1].point.t
        if not values:
            return False, "no snapshot has it", None
        return True, f"always {next(iter(values))}", None

    def _keep_sandbox(self, check: Keep) -> _Found:
        runs = self.inside((sandbox.run for sandbox in self.line.sandboxes), check.within)
        stops = self.inside(self.line.stopped_sandboxes, check.within)
        found = f"{len(runs)} RunPodSandbox" + (f" (at {', '.join(map(str, runs))})" if runs else "")
        found += f", {len(stops)} StopPodSandbox" + (f" (at {', '.join(map(str, stops))})" if stops else "")
        # In a window the sandbox may have been made before it.
        made = len(runs) == 1 if check.within is None else len(runs) <= 1
        return made and not stops, found, stops[0].t if stops else None

    def _keep_env(self, check: Keep) -> _Found:
        lives = self.line.instances.get(check.container, [])
        if lives and not any("env" in life.create for life in lives):
            raise _NotCarried("the environment of containers")
        created = self.inside((life.created for life in lives), check.within)
        values = [life.create["env"].get(check.name) for life in lives if life.created in created]
        found = ", ".join("none" if value is None else repr(value) for value in values)
        return bool(values) and None not in values and len(set(values)) == 1, found or "no instance", None

    def instance_is(self, check: InstanceIs) -> _Found:
        life = self.line.instance(check.instance.container, check.instance.number)
        if life is None:
            raise _Missing(f"{check.instance} was not created")
        actual = _attribute(check, life)
        ok = _compare(actual, check.op, check.value)
        argument = f"({check.argument})" if check.argument else ""
        value = "none" if actual is None else _text(actual)
        return ok, f"{check.attribute}{argument} of {check.instance} is {value}", life.created.t


def _before(first: Point, second: Point) -> bool:
    if first.seq is not None and second.seq is not None:
        return first.seq < second.seq
    return first.t < second.t - _EPSILON_SECONDS


def _moment_of(life: InstanceLife, kind: str) -> Point | None:
    moments = {
        "created": life.created,
        "started": life.started,
        "stopping": life.stopping,
        "exited": life.exited,
        "removed": life.removed,
    }
    return moments[kind]


def _is_event(event: Record, series: Series) -> bool:
    if event["reason"] != series.text:
        return False
    if series.container:
        named = re.fullmatch(r"spec\.\w+\{(.*)\}", event.get("on") or "")
        if named is None or named[1] != series.container:
            return False
    return not series.pattern or re.search(series.pattern, event["message"]) is not None


def _fact(check: Keep, pod: Record) -> str | None:
    if check.fact == "podUID":
        return pod.get("uid")
    if check.fact == "podIP":
        return pod.get("ip")
    shown = pod["containers"].get(check.container, {})
    if check.fact == "containerID":
        return shown.get("id")
    if check.fact == "restartCount":
        return str(shown["restartCount"]) if "restartCount" in shown else None
    devices = [
        str(device.get("resourceID"))
        for resource in shown.get("allocatedResourcesStatus", ())
        for device in resource.get("resources", ())
    ]
    return ", ".join(sorted(devices)) if devices else None


def _attribute(check: InstanceIs, life: InstanceLife) -> Any:
    name = check.attribute
    if name in ("env", "mount", "image"):
        key = "mounts" if name == "mount" else name
        if key not in life.create:
            raise _NotCarried(f"the {key} of instances")
        if name == "mount":
            return check.argument in life.create[key]
        return life.create[key].get(check.argument) if name == "env" else life.create[key]
    if name == "exitCode":
        return life.exit_code
    if name == "stopTimeout":
        return life.stop_timeout_seconds
    if name == "attempt":
        return life.create.get("attempt")
    return None if life.exited is None or life.started is None else life.exited.t - life.started.t


_JUDGES: Mapping[type, Callable[[_Judge, Any], _Found]] = {
    Final: _Judge.final,
    At: _Judge.at,
    Quantified: _Judge.quantified,
    Order: _Judge.order,
    Gap: _Judge.gap,
    Count: _Judge.count,
    Keep: _Judge.keep,
    InstanceIs: _Judge.instance_is,
}
