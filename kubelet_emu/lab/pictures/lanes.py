"""The rows of a timeline: sandbox, containers, conditions … as bars and dots (pure)."""

from collections.abc import Iterable, Sequence

from attrs import define, field, frozen

from kubelet_emu.lab.explain.phrases import join, short
from kubelet_emu.lab.explain.reading import Instance, PodReading, Reading
from kubelet_emu.trace.schema import Record

__all__ = ["Bar", "Dot", "Lane", "lanes_of"]

_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "AllContainersRestarting")
_DEVICES_NAMED = 4
_DEVICES_CHARACTERS = 60
"""Up to this their ids are in the bar; beyond it their number is, and the title has the ids."""
_PHASES = {"Pending": "made", "Running": "run", "Succeeded": "ok", "Failed": "bad"}


@frozen
class Bar:
    """Something that lasts: from, to (seconds), its look, a word inside, and what it says when pointed at."""

    start: float
    end: float
    look: str
    text: str
    title: str


@frozen
class Dot:
    """Something at one moment. ``shape`` is tick, dot, flag, kill or code (an exit code as text)."""

    t: float
    shape: str
    look: str
    text: str
    title: str


@define
class Lane:
    """One row: its name, a second word beside it, what is in it. ``thin`` bars lie below the thick ones."""

    name: str
    note: str = ""
    bars: list[Bar] = field(factory=list[Bar])
    thin: list[Bar] = field(factory=list[Bar])
    dots: list[Dot] = field(factory=list[Dot])
    kind: str = "plain"

    @property
    def empty(self) -> bool:
        """Whether nothing is in it."""
        return not (self.bars or self.thin or self.dots)


def lanes_of(reading: Reading, pod: PodReading) -> list[Lane]:
    """All rows of a pod, those that have something to show, from the outside in."""
    end = pod.gone if pod.gone is not None else reading.end
    rows = [
        _marks(reading, pod),
        _phase(pod, end),
        *_conditions(pod, end),
        _sandbox(pod, end),
        _volumes(pod, end),
        _devices(pod, end),
        *(_container(pod, name, end) for name in pod.kinds),
        _writes(pod),
    ]
    return [row for row in rows if not row.empty]


def _seconds(value: float) -> str:
    return f"{value:.2f} s"


def _span(start: float, end: float) -> str:
    return f"{_seconds(start)} to {_seconds(end)}"


def _marks(reading: Reading, pod: PodReading) -> Lane:
    lane = Lane("what happened", kind="marks")
    looks = {"action": "run", "fault": "wait", "invariant": "bad", "event": "wait"}
    for mark in sorted([*pod.marks, *reading.node_marks], key=lambda mark: mark.t):
        shape = "flag" if mark.kind != "event" else "dot"
        # An invariant is told by its name; what it says is the title.
        text = "" if mark.kind == "event" else mark.text.partition(": ")[0]
        lane.dots.append(
            Dot(mark.t, shape, looks[mark.kind], text, f"{mark.kind} at {_seconds(mark.t)}: {mark.text}")
        )
    return lane


def _phase(pod: PodReading, end: float) -> Lane:
    lane = Lane("phase")
    for span in pod.phases:
        until = span.end if span.end is not None else end
        look = _PHASES.get(span.text, "off")
        lane.bars.append(Bar(span.start, until, look, span.text, f"{span.text}, {_span(span.start, until)}"))
    return lane


def _conditions(pod: PodReading, end: float) -> Iterable[Lane]:
    for name in _CONDITIONS:
        lane = Lane(name, kind="condition")
        for span in pod.conditions.get(name, ()):
            until = span.end if span.end is not None else end
            look = "off" if span.text != "True" else "reset" if name == _CONDITIONS[-1] else "ok"
            lane.bars.append(
                Bar(span.start, until, look, "", f"{name} {span.text}, {_span(span.start, until)}")
            )
        yield lane


def _sandbox(pod: PodReading, end: float) -> Lane:
    lane = Lane("sandbox, IP")
    for one in pod.sandboxes:
        ready = one.ready if one.ready is not None else one.ended if one.ended is not None else end
        until = max(ready, one.ended if one.ended is not None else end)
        label = short(one.label)
        lane.bars.append(Bar(one.asked, ready, "made", "", f"{label} is made, {_span(one.asked, ready)}"))
        if one.ready is not None:
            text = f"{label.removeprefix('sandbox')} {one.ip}".strip()
            title = f"{label} ready{', address ' + one.ip if one.ip else ''}, {_span(ready, until)}"
            lane.bars.append(Bar(ready, until, "init", text, title))
    return lane


def _volumes(pod: PodReading, end: float) -> Lane:
    names = [str(volume.get("name")) for volume in pod.spec.get("volumes") or ()]
    names = [name for name in names if not name.startswith("kube-api-access")]
    lane = Lane("volumes")
    if names and pod.instances:
        begun = pod.instances[0].created
        lane.bars.append(
            Bar(begun, end, "init", ", ".join(names), f"volumes {join(names)}, {_span(begun, end)}")
        )
    return lane


def _devices(pod: PodReading, end: float) -> Lane:
    lane = Lane("devices")
    held = sorted({device for one in pod.instances for device in one.devices})
    if held:
        begun = min(one.created for one in pod.instances if one.devices)
        shown = ", ".join(held)
        if len(held) > _DEVICES_NAMED or len(shown) > _DEVICES_CHARACTERS:
            shown = f"{len(held)} devices"
        lane.bars.append(Bar(begun, end, "init", shown, f"devices {join(held)}, {_span(begun, end)}"))
    for mark in pod.devices:
        lane.dots.append(Dot(mark.t, "tick", "tick", "", f"{mark.text} at {_seconds(mark.t)}"))
    return lane


def _container(pod: PodReading, name: str, end: float) -> Lane:
    kind = pod.kinds[name]
    lane = Lane(name, kind, kind="container")
    instances = pod.of(name)
    for one in instances:
        _instance(lane, one, kind, end)
    for span in pod.backoffs.get(name, ()):
        until = span.end if span.end is not None else end
        delay = f"back-off {span.text}".strip()
        lane.bars.append(
            Bar(span.start, until, "hatch", delay, f"{name}: {delay}, {_span(span.start, until)}")
        )
    lane.bars.sort(key=lambda bar: (bar.start, bar.end))
    lane.thin += _ready(pod, name, end)
    for probe in pod.probes:
        if probe.container == name:
            look = "ok" if probe.outcome == "success" else "bad"
            title = f"{probe.kind} probe of {name}: {probe.outcome}, at {_seconds(probe.t)}"
            lane.dots.append(Dot(probe.t, "dot", look, "", title))
    return lane


def _instance(lane: Lane, one: Instance, kind: str, end: float) -> None:
    until = one.running_until if one.running_until is not None else end
    if one.started is None:
        lane.bars.append(
            Bar(
                one.created,
                until,
                "made",
                "",
                f"{one.label} created, never started, {_span(one.created, until)}",
            )
        )
        return
    if one.started > one.created:
        span = _span(one.created, one.started)
        lane.bars.append(
            Bar(one.created, one.started, "made", "", f"{one.label} is created and started, {span}")
        )
    look = "run" if kind in ("regular", "ephemeral") else "init"
    text = f"#{one.attempt}"
    lane.bars.append(Bar(one.started, until, look, text, f"{one.label} runs, {_span(one.started, until)}"))
    if one.stop_asked is not None:
        grace = f" with {one.stop_grace} s of grace" if one.stop_grace else ""
        title = f"{one.label} is told to stop{grace}, at {_seconds(one.stop_asked)}"
        lane.dots.append(Dot(one.stop_asked, "kill", "kill", "", title))
    for hook in one.hooks:
        until_hook = hook.end if hook.end is not None else end
        lane.bars.append(
            Bar(
                hook.start,
                until_hook,
                "reset",
                "hook",
                f"hook of {one.label}, {_span(hook.start, until_hook)}",
            )
        )
    if one.ended is not None and one.code is not None:
        reason = f", {one.reason}" if one.reason else ""
        title = f"{one.label} exits with {one.code}{reason}, at {_seconds(one.ended)}"
        lane.dots.append(Dot(one.ended, "code", "tok" if one.code == 0 else "tbad", str(one.code), title))


def _ready(pod: PodReading, name: str, end: float) -> Sequence[Bar]:
    bars: list[Bar] = []
    since: float | None = None
    for record in pod.snapshots:
        shown: Record = record["containers"].get(name) or {}
        ready = bool(shown.get("ready")) and shown.get("state") == "running" and not record.get("deleted")
        if ready and since is None:
            since = record["t"]
        elif not ready and since is not None:
            bars.append(Bar(since, record["t"], "ok", "", f"{name} ready, {_span(since, record['t'])}"))
            since = None
    if since is not None:
        bars.append(Bar(since, end, "ok", "", f"{name} ready, {_span(since, end)}"))
    return bars


def _writes(pod: PodReading) -> Lane:
    lane = Lane("API status", kind="writes")
    for record in pod.snapshots:
        what = "the object is gone" if record.get("deleted") else f"status: {record['phase']}"
        lane.dots.append(Dot(record["t"], "tick", "tick", "", f"{what}, at {_seconds(record['t'])}"))
    return lane
