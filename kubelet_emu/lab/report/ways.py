"""A restart in place next to the same pod deleted and created again: times, and what each kept. (pure)

Both ways start with the same exit of the same container and end when the pod is Ready again; all times count
from that exit.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from kubelet_emu.lab.report.kept import KeptFact, kept_over_restarts
from kubelet_emu.lab.report.text import Line, Style, line, rows, seconds_text
from kubelet_emu.trace.schema import Record, Trace

__all__ = ["Trigger", "Way", "measure", "same_exit", "trigger_of", "way_lines"]

RESTART_ALL = "RestartAllContainers"

Cell = str | tuple[str, Style]


@frozen
class Trigger:
    """The exit that restarts a pod: of which container, with which code, and when in the trace."""

    pod: str
    container: str
    code: int
    at: float


@frozen(kw_only=True)
class Way:
    """One way back. Times are seconds after the exit, None for what did not come about."""

    stopped: float | None
    gone: float | None
    sandbox: float | None
    initialized: float | None
    running: float | None
    ready: float | None
    facts: tuple[KeptFact, ...]
    devices_before: tuple[str, ...]
    devices_after: tuple[str, ...]
    allocations: int
    """Calls of Allocate on the way."""


@define
class _Walk:
    """What is read of one way, record by record from the exit on."""

    trigger: Trigger
    regular: frozenset[str]
    init: frozenset[str]
    up: set[str] = field(factory=set[str])
    stopped: float | None = None
    gone: float | None = None
    sandbox: float | None = None
    initialized: float | None = None
    running: float | None = None
    ready: float | None = None
    allocations: int = 0

    def take(self, record: Record) -> None:
        kind = record["k"]
        after = record["t"] - self.trigger.at
        if kind == "process":
            self._process(record, after)
        elif kind == "pod" and record.get("deleted"):
            self.gone = after
        elif kind == "pod" and self.running is not None:
            if record["conditions"].get("Ready", [""])[0] == "True":
                self.ready = after
        elif kind == "cri" and record["m"] == "RunPodSandbox" and not record.get("code"):
            self.sandbox = after + record.get("dt", 0.0)
        elif kind == "device" and record["method"] == "Allocate":
            self.allocations += 1

    def _process(self, record: Record, after: float) -> None:
        name = str(record["container"]).partition("#")[0]
        if record["do"] == "start":
            if name in self.regular:
                self.up.add(name)
                if self.up == self.regular:
                    self.running = after
        elif name in self.init:
            self.initialized = after
        elif name in self.regular:
            self.up.discard(name)
            self.stopped = after


def trigger_of(trace: Trace) -> Trigger | None:
    """The exit that led to the first restart in place of a whole pod; None if there was none."""
    exits: dict[tuple[str, str], tuple[float, int]] = {}
    for record in trace.records:
        pod = _pod_of(trace, record)
        if record["k"] == "process" and record["do"] == "exit":
            name = str(record["container"]).partition("#")[0]
            exits[pod, name] = record["t"], int(record.get("code", 0))
        elif record["k"] == "decision" and record.get("outcome", {}).get("reset"):
            asking = [name for name, container in _containers(trace, pod) if _asks(container)]
            found = [(*exits[pod, name], name) for name in asking if (pod, name) in exits]
            if found:
                at, code, name = max(found)
                return Trigger(pod, name, code, at)
    return None


def same_exit(trace: Trace, trigger: Trigger) -> Trigger:
    """The exit as it came in another trace; as it was where that has none."""
    for record in trace.records:
        if record["k"] == "process" and record["do"] == "exit" and _pod_of(trace, record) == trigger.pod:
            name = str(record["container"]).partition("#")[0]
            if (name, record.get("code", 0)) == (trigger.container, trigger.code):
                return evolve(trigger, at=record["t"])
    return trigger


def measure(trace: Trace, trigger: Trigger) -> Way:
    """The way back that a trace shows after an exit."""
    shown = list(_containers(trace, trigger.pod))
    regular = frozenset(name for name, container in shown if container.get("_list") == "containers")
    init = frozenset(
        name
        for name, container in shown
        if container.get("_list") == "initContainers" and container.get("restartPolicy") != "Always"
    )
    walk = _Walk(trigger, regular, init, up=set(regular) - {trigger.container})
    if trigger.container in regular and len(regular) == 1:
        walk.stopped = 0.0
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    kept: list[Record] = []
    for record in trace.records:
        if _pod_of(trace, record) != trigger.pod:
            continue
        kept.append(record)
        if record["k"] == "pod" and (ids := _device_ids(record)):
            before, after = (ids, ids) if record["t"] <= trigger.at else (before, ids)
        if record["t"] > trigger.at:
            walk.take(record)
            if walk.ready is not None:
                break
    facts = kept_over_restarts(Trace(trace.header, tuple(kept)), trigger.pod).facts
    return Way(
        stopped=walk.stopped,
        gone=walk.gone,
        sandbox=walk.sandbox,
        initialized=walk.initialized,
        running=walk.running,
        ready=walk.ready,
        facts=tuple(fact for fact in facts if fact.name != "devices"),
        devices_before=before,
        devices_after=after,
        allocations=walk.allocations,
    )


def _pod_of(trace: Trace, record: Record) -> str:
    pods = trace.pods
    return str(record.get("pod", pods[0] if len(pods) == 1 else ""))


def _containers(trace: Trace, pod: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Init and regular containers of a pod as it was created first."""
    for record in trace.records:
        if record["k"] == "action" and record["do"] == "create" and _pod_of(trace, record) == pod:
            spec: Mapping[str, Any] = record["object"].get("spec") or {}
            for key in ("initContainers", "containers"):
                for container in spec.get(key) or ():
                    yield str(container["name"]), {**container, "_list": key}
            return


def _asks(container: Mapping[str, Any]) -> bool:
    rules: Sequence[Mapping[str, Any]] = container.get("restartPolicyRules") or ()
    return any(rule.get("action") == RESTART_ALL for rule in rules)


def _device_ids(record: Record) -> tuple[str, ...]:
    found: dict[str, None] = {}
    containers: Mapping[str, Mapping[str, Any]] = record.get("containers") or {}
    for shown in containers.values():
        for resource in shown.get("allocatedResourcesStatus") or ():
            for device in resource.get("resources") or ():
                found[str(device.get("resourceID", ""))] = None
    return tuple(sorted(found))


# -- how it looks --

TITLES = ("in place", "deleted, created again")
ID_WIDTH = 12
IDS_SHOWN = 8


def way_lines(
    trigger: Trigger, in_place: Way, recreated: Way, assumed: str, width: int
) -> tuple[str, list[Line]]:
    """The headline, and the two ways side by side with what was assumed."""
    head = (
        f"Back after {trigger.container} exited with {trigger.code}: {_time(in_place.running)} in place, "
        f"{_time(recreated.running)} deleted and created again"
    )
    table: list[list[Cell]] = [["", *((title, "dim") for title in TITLES)]]
    for text, name in _STEPS:
        times = [getattr(way, name) for way in (in_place, recreated)]
        if any(time is not None for time in times):
            style: Style = "head" if name == "running" else ""
            table.append([(text, style), *((_time(time), style) for time in times)])
    others = {(fact.name, fact.about): fact for fact in recreated.facts}
    for mine in in_place.facts:
        other = others.get((mine.name, mine.about), mine)
        table.append([f"{mine.name} {mine.about}".rstrip(), _kept(mine), _kept(other)])
    ids = in_place.devices_before
    if ids:
        table.append(["devices", *(_devices(ids, way) for way in (in_place, recreated))])
        table.append(["calls of Allocate", *(str(way.allocations) for way in (in_place, recreated))])
    lines = rows(table)
    if ids:
        lines.append(line(""))
        named = (
            ("before", ids),
            (TITLES[0], in_place.devices_after),
            (TITLES[1], recreated.devices_after),
        )
        lines += rows([[(text, "dim"), _ids(found)] for text, found in named])
    lines.append(line(""))
    lines += [line("  ", (text, "dim")) for text in textwrap.wrap(f"Assumed: {assumed}", max(width - 2, 40))]
    return head, lines


_STEPS = (
    ("the other containers have ended", "stopped"),
    ("the pod is gone", "gone"),
    ("a new sandbox is there", "sandbox"),
    ("init containers are done", "initialized"),
    ("the work goes on", "running"),
    ("Ready in the API", "ready"),
)


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else seconds_text(seconds)


def _kept(fact: KeptFact) -> Cell:
    return ("kept", "good") if fact.kept else ("new", "warn")


def _devices(before: tuple[str, ...], way: Way) -> Cell:
    if way.devices_after != before:
        same = len(set(before) & set(way.devices_after))
        return f"{same} of {len(before)} the same", "warn"
    if way.allocations:
        return f"given back, then the same {len(before)}", "warn"
    return f"the same {len(before)}, held throughout", "good"


def _ids(ids: Sequence[str]) -> str:
    shown = " ".join(one.rpartition("=")[2][:ID_WIDTH] for one in ids[:IDS_SHOWN])
    return f"{len(ids)}: {shown}" + (" ..." if len(ids) > IDS_SHOWN else "")
