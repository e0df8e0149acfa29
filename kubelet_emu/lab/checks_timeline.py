"""One pod's part of a trace, indexed for checks (pure).

Built once from the records and read by every check. Works on our traces and on recordings of a real node;
what a recording does not carry is absent here too, and the checks that ask for it are not evaluated.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from attrs import define, field, frozen

from kubelet_emu.trace.schema import Record, Trace

__all__ = ["InstanceLife", "Point", "SandboxLife", "State", "Timeline"]


@frozen
class Point:
    """When something happened. ``seq`` is its place in the order, None in recordings and for shifted moments.

    ``soft``: read from a snapshot, which is written beside the work and not before it.
    """

    t: float
    seq: int | None = None
    soft: bool = False

    def shifted(self, seconds: float) -> "Point":
        """The point that many seconds later; it has no place in the order of its own."""
        return Point(self.t + seconds, None, self.soft) if seconds else self

    def __str__(self) -> str:
        return f"{self.t:.3f} s"


@frozen
class State:
    """What was in force from ``point`` on: the pod's last snapshot and the node's last record, if any."""

    point: Point
    pod: Record
    node: Record | None


@define
class InstanceLife:
    """What is known of one container instance. Moments are None where they did not occur."""

    label: str
    create: Record
    created: Point
    started: Point | None = None
    stopping: Point | None = None
    exited: Point | None = None
    removed: Point | None = None
    stop_timeout_seconds: int | None = None
    exit_code: int | None = None
    _shown: bool = False
    """Whether ``exited`` comes from a snapshot, and so gives way to what the runtime said."""


@define
class SandboxLife:
    """One sandbox that was made: when RunPodSandbox ended and when it was first stopped."""

    label: str
    run: Point
    stopped: Point | None = None


@define
class Timeline:
    """Everything checks ask of one pod of a trace."""

    trace: Trace
    pod: str
    states: list[State] = field(factory=list[State])
    instances: dict[str, list[InstanceLife]] = field(factory=dict[str, list[InstanceLife]])
    sandboxes: list[SandboxLife] = field(factory=list[SandboxLife])
    stopped_sandboxes: list[Point] = field(factory=list[Point])
    execs: list[tuple[Point, str, str]] = field(factory=list[tuple[Point, str, str]])
    """Point, container and command line of each ExecSync."""
    events: list[tuple[Point, Record]] = field(factory=list[tuple[Point, Record]])
    calls: list[tuple[Point, str]] = field(factory=list[tuple[Point, str]])
    devices: list[tuple[Point, str]] = field(factory=list[tuple[Point, str]])
    actions: list[Point] = field(factory=list[Point])
    end: Point = Point(0.0)
    gone: Point | None = None
    has_node: bool = False
    _by_label: dict[str, InstanceLife] = field(factory=dict[str, InstanceLife])
    _seqs: list[int] = field(factory=list[int])
    _times: list[float] = field(factory=list[float])

    @classmethod
    def of(cls, trace: Trace, pod: str = "") -> "Timeline":
        """Index a trace for one pod; without a name for its first. Raises ``KeyError`` for an unknown pod."""
        pods = trace.pods
        if pod and pod not in pods:
            raise KeyError(pod)
        line = cls(trace, pod or (pods[0] if pods else ""))
        several = len(pods) > 1
        for point, record, ends in _in_order(trace):
            if several and record.get("pod", line.pod) != line.pod:
                continue
            line._add(point, record, ends)
        line._finish()
        return line

    @property
    def ordered(self) -> bool:
        """Whether order is judged without slack."""
        return self.trace.ordered

    @property
    def snapshots(self) -> Iterable[Record]:
        """The distinct snapshots, in order."""
        last: Record | None = None
        for state in self.states:
            if state.pod is not last:
                last = state.pod
                yield last

    def index_at(self, point: Point) -> int:
        """Index of the state in force at that point; -1 before the first."""
        if point.seq is not None and self._seqs:
            return bisect_right(self._seqs, point.seq) - 1
        return bisect_right(self._times, point.t + 1e-6) - 1

    def instance(self, container: str, number: int) -> InstanceLife | None:
        """``C#n``, or None if it was not made."""
        lives = self.instances.get(container, [])
        return lives[number] if number < len(lives) else None

    # -- building --

    def _add(self, point: Point, record: Record, ends: Point | None) -> None:
        kind = record["k"]
        if kind == "cri":
            if ends is None:
                self._begin_call(point, record)
            else:
                self._end_call(ends, record)
        elif kind == "pod":
            self._add_pod(Point(point.t, point.seq, soft=True), record)
        elif kind == "node":
            self.has_node = True
            if self.states:
                self.states.append(State(Point(point.t, point.seq, soft=True), self.states[-1].pod, record))
        elif kind == "event":
            self.events.append((point, record))
        elif kind == "device":
            self.devices.append((point, record["method"]))
        elif kind == "action":
            if record["do"] == "end":
                self.end = point
            elif record["do"] != "create":
                self.actions.append(point)

    def _add_pod(self, point: Point, record: Record) -> None:
        if record.get("deleted"):
            self.gone = self.gone or point
        node = self.states[-1].node if self.states else None
        self.states.append(State(point, record, node))
        containers: dict[str, Any] = record["containers"]
        for shown in containers.values():
            life = self._by_label.get(shown.get("id", ""))
            if life is not None and shown["state"] == "terminated":
                if life.exited is None:
                    life.exited, life._shown = point, True
                if life.exit_code is None:
                    life.exit_code = shown.get("exitCode")

    def _begin_call(self, point: Point, record: Record) -> None:
        method = record["m"]
        if not record.get("poll"):
            self.calls.append((point, method))
        life = self._by_label.get(record.get("container", ""))
        if method == "StopContainer" and life is not None and life.stopping is None:
            life.stopping = point
            life.stop_timeout_seconds = int(record.get("timeout", 0))
        elif method == "ExecSync":
            container = str(record.get("container", "")).rpartition("#")[0]
            self.execs.append((point, container, " ".join(record.get("cmd", ()))))
        elif method == "StopPodSandbox":
            self.stopped_sandboxes.append(point)
            for sandbox in self.sandboxes:
                if sandbox.label == record.get("sandbox") and sandbox.stopped is None:
                    sandbox.stopped = point

    def _end_call(self, point: Point, record: Record) -> None:
        method = record["m"]
        if record.get("code"):
            return
        if method == "RunPodSandbox":
            self.sandboxes.append(SandboxLife(record.get("sandbox", ""), point))
        elif method == "CreateContainer":
            life = InstanceLife(record["container"], record, point)
            self._by_label[life.label] = life
            self.instances.setdefault(record["name"], []).append(life)
        else:
            life = self._by_label.get(record.get("container", ""))
            if life is not None:
                _end_container_call(life, method, point, record)

    def _finish(self) -> None:
        if self.end.t == 0.0 and self.trace.records:
            last = max(record["t"] + record.get("dt", 0.0) for record in self.trace.records)
            self.end = Point(last)
        self._times = [state.point.t for state in self.states]
        if self.ordered:
            self._seqs = [state.point.seq or 0 for state in self.states]


def _end_container_call(life: InstanceLife, method: str, point: Point, record: Record) -> None:
    if method == "StartContainer":
        life.started = life.started or point
    elif method == "RemoveContainer":
        life.removed = life.removed or point
    elif method == "StopContainer":
        _saw_exit(life, point)
    elif method == "ContainerStatus" and record.get("state") == "exited":
        _saw_exit(life, point)
        life.exit_code = record.get("exitCode", 0)


def _saw_exit(life: InstanceLife, point: Point) -> None:
    if life.exited is None or life._shown:
        life.exited, life._shown = point, False


def _in_order(trace: Trace) -> Iterable[tuple[Point, Record, Point | None]]:
    """Each record at its beginning and, calls, once more at their end (third part), all in one order."""
    ordered = trace.ordered
    steps: list[tuple[float, int, int, Record]] = []
    for position, record in enumerate(trace.records):
        seq: int = record["seq"] if ordered else position
        steps.append((record["t"], seq, 0, record))
        if record["k"] == "cri":
            ends_at: float = record["t"] + record.get("dt", 0.0)
            steps.append((ends_at, record.get("end", seq) if ordered else position, 1, record))
    steps.sort(key=(lambda step: step[1:3]) if ordered else (lambda step: (step[0], step[2], step[1])))
    for t, seq, ends, record in steps:
        point = Point(t, seq if ordered else None)
        yield point, record, point if ends else None
