"""What one pod's sandbox and containers went through, as segments of time, read from a trace. (pure)

Works on traces of every runtime: where processes tell of their start and end themselves these times are
taken, else those at which the runtime's answers showed them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from attrs import define, evolve, field, frozen

from kubelet_emu.trace.schema import Record, Trace

__all__ = ["ContainerKind", "Instance", "Lane", "Mark", "PodLanes", "Segment", "What", "pod_lanes"]

What: TypeAlias = Literal[
    "phase",
    "phase-ready",
    "sandbox",
    "ready",
    "running",
    "stopping",
    "backoff",
    "waiting",
    "pulling",
    "failed",
    "devices",
    "devices-unhealthy",
]
ContainerKind: TypeAlias = Literal["init", "sidecar", "regular", "ephemeral"]

_QUIET_REASONS = ("", "PodInitializing", "ContainerCreating")


@frozen
class Segment:
    """A stretch of a lane. ``begins`` and ``ends`` are labels for its ends, ``middle`` one for its middle.

    ``code`` is the exit code in ``ends``, None where nothing ended; ``open``: it goes on after the trace.
    """

    what: What
    start: float
    end: float
    begins: str = ""
    middle: str = ""
    ends: str = ""
    code: int | None = None
    open: bool = False


@frozen
class Lane:
    """One line of the picture; ``kind`` is empty for the pod's own. Later segments cover earlier ones."""

    name: str
    kind: ContainerKind | Literal[""]
    segments: tuple[Segment, ...]


@frozen
class Mark:
    """Something that happened to the whole pod at one moment: restart-all, or an action from outside."""

    what: Literal["restart-all", "action"]
    at: float
    text: str


@frozen
class PodLanes:
    """All lanes of a pod, top to bottom, over ``[start, end]`` seconds of the trace."""

    pod: str
    start: float
    end: float
    lanes: tuple[Lane, ...]
    marks: tuple[Mark, ...]


@define
class Instance:
    """What is known of one container instance; times are None where they did not come."""

    label: str
    number: int
    created: float
    started: float | None = None
    stopping: float | None = None
    exited: float | None = None
    code: int | None = None
    signal: int = 0
    reason: str = ""
    start_failed: bool = False
    opaque: bool = False
    removed: float | None = None
    exact: bool = False
    """Whether the process itself told of its end."""


@define
class _Container:
    name: str
    kind: ContainerKind
    image: str = ""
    instances: list[Instance] = field(factory=list[Instance])
    waiting: list[tuple[float, str]] = field(factory=list[tuple[float, str]])
    """When the API began to show it waiting, and why; a reason of ``-`` means that it no longer waits."""
    ready: list[tuple[float, bool]] = field(factory=list[tuple[float, bool]])
    pulls: list[Segment] = field(factory=list[Segment])
    backoff: list[tuple[float, float]] = field(factory=list[tuple[float, float]])
    """When a start was put off, and the whole delay in seconds."""
    ended_at: float | None = None


class _Reader:
    """Walks the records of one pod."""

    def __init__(self, pod: str, several: bool) -> None:
        self.pod = pod
        self._several = several
        self.containers: dict[str, _Container] = {}
        self.by_label: dict[str, Instance] = {}
        self.sandboxes: dict[str, list[Any]] = {}
        self.failed_sandboxes: list[tuple[float, float]] = []
        self.phases: list[tuple[float, str, bool]] = []
        self.held: dict[str, dict[str, dict[str, bool]]] = {}
        """Devices by resource and container: the ids, and whether each is healthy."""
        self.devices: dict[str, list[tuple[float, int, int]]] = {}
        """By resource, when what the pod holds changed: how many devices, and how many of them unhealthy."""
        self.marks: list[Mark] = []
        self.first = 0.0
        self.last = 0.0
        self.gone: float | None = None

    def read(self, records: Iterable[Record]) -> None:
        seen = False
        for record in records:
            kind = record["k"]
            if kind != "polls":
                self.last = max(self.last, record["t"] + record.get("dt", 0.0))
            if record.get("pod", "" if self._several else self.pod) != self.pod:
                continue
            if not seen and kind in ("action", "pod"):
                seen, self.first = True, max(record["t"], 0.0)
            reader = getattr(self, f"_{kind}", None)
            if reader is not None:
                reader(record)

    # -- kinds of records --

    def _action(self, record: Record) -> None:
        if record["do"] == "create":
            self._learn(record.get("object", {}).get("spec") or {})
        elif record["do"] != "end":
            self.marks.append(Mark("action", record["t"], record["do"]))

    def _learn(self, spec: Mapping[str, Any]) -> None:
        for key, kind in (("initContainers", "init"), ("containers", ""), ("ephemeralContainers", "")):
            for container in spec.get(key) or ():
                found: ContainerKind = "regular" if key == "containers" else "ephemeral"
                if kind == "init":
                    found = "sidecar" if container.get("restartPolicy") == "Always" else "init"
                known = self._container(container["name"], found)
                known.kind, known.image = found, container.get("image", "")

    def _container(self, name: str, kind: ContainerKind = "regular") -> _Container:
        return self.containers.setdefault(name, _Container(name, kind))

    def _pod(self, record: Record) -> None:
        at: float = record["t"]
        if "spec" in record:
            self._learn(record["spec"])
        if record.get("deleted"):
            self.gone = at
            return
        ready = record["conditions"].get("Ready", [""])[0] == "True"
        if not self.phases or self.phases[-1][1:] != (record["phase"], ready):
            self.phases.append((at, record["phase"], ready))
        shown: Mapping[str, Any]
        self._health(at, record["containers"], ended=record["phase"] in ("Succeeded", "Failed"))
        for name, shown in record["containers"].items():
            container = self._container(name, shown["kind"])
            reason = shown.get("reason", "") if shown["state"] == "waiting" else "-"
            if not container.waiting or container.waiting[-1][1] != reason:
                container.waiting.append((at, reason))
            if not container.ready or container.ready[-1][1] != shown["ready"]:
                container.ready.append((at, shown["ready"]))
            instance = self.by_label.get(shown.get("id", ""))
            if instance is not None and shown["state"] == "terminated":
                self._ended(instance, at, shown.get("exitCode", 0), shown.get("reason", ""))

    def _process(self, record: Record) -> None:
        instance = self.by_label.get(record["container"])
        if instance is None:
            return
        if record["do"] == "start":
            instance.started = record["t"]
            instance.opaque = bool(record.get("opaque"))
        else:
            instance.exited, instance.exact = record["t"], True
            instance.code, instance.signal = record.get("code", 0), record.get("signal", 0)
            instance.reason = record.get("reason", "")

    def _decision(self, record: Record) -> None:
        outcome: Mapping[str, Any] = record.get("outcome", {})
        if record["machine"] == "kuberuntime.actions" and outcome.get("reset"):
            self.marks.append(Mark("restart-all", record["t"], "all containers restarted in place"))
        elif record["machine"] == "kuberuntime.backoff" and outcome.get("wait"):
            container = self._container(record["inputs"]["container"])
            container.backoff.append((record["t"], float(outcome.get("delaySeconds", 0.0))))
        elif record["machine"] == "devicemanager" and outcome.get("devices"):
            inputs: Mapping[str, Any] = record["inputs"]
            held = self.held.setdefault(inputs["resource"], {})
            held[inputs["container"]] = dict.fromkeys(outcome["devices"], True)
            self._holds(record["t"], inputs["resource"])

    def _health(self, at: float, containers: Mapping[str, Mapping[str, Any]], *, ended: bool) -> None:
        """Take devices and their health from a status; a pod that has ended holds none."""
        if ended:
            for resource in self.held:
                self.held[resource] = {}
                self._holds(at, resource)
            return
        for name, shown in containers.items():
            for entry in shown.get("allocatedResourcesStatus") or ():
                resource, devices = str(entry.get("name", "")), entry.get("resources") or ()
                found = {str(one.get("resourceID", "")): one.get("health") == "Healthy" for one in devices}
                if found:
                    self.held.setdefault(resource, {})[name] = found
                    self._holds(at, resource)

    def _holds(self, at: float, resource: str) -> None:
        healthy: dict[str, bool] = {}
        for devices in self.held[resource].values():
            for device, good in devices.items():
                healthy[device] = good and healthy.get(device, True)
        now = len(healthy), sum(not good for good in healthy.values())
        points = self.devices.setdefault(resource, [])
        if not points or points[-1][1:] != now:
            points.append((at, *now))

    def _cri(self, record: Record) -> None:
        method, at = record["m"], record["t"]
        ended = at + record.get("dt", 0.0)
        failed = bool(record.get("code"))
        if method == "RunPodSandbox":
            if failed:
                self.failed_sandboxes.append((at, ended))
            else:
                self.sandboxes[record.get("sandbox", "")] = [at, None]
        elif method in ("StopPodSandbox", "RemovePodSandbox"):
            life = self.sandboxes.get(record.get("sandbox", ""))
            if life is not None and life[1] is None:
                life[1] = at
        elif method == "PullImage":
            self._pull(record, ended, failed)
        elif method == "CreateContainer" and not failed:
            container = self._container(record["name"])
            instance = Instance(record["container"], len(container.instances), ended)
            container.instances.append(instance)
            self.by_label[instance.label] = instance
        else:
            instance = self.by_label.get(record.get("container", ""))
            if instance is not None:
                self._container_call(instance, record, ended, failed)

    def _container_call(self, instance: Instance, record: Record, ended: float, failed: bool) -> None:
        method = record["m"]
        if method == "StartContainer":
            if failed:
                instance.start_failed, instance.exited = True, ended
            elif instance.started is None:
                instance.started = ended
        elif method == "StopContainer" and instance.stopping is None:
            instance.stopping = record["t"]
        elif method == "RemoveContainer":
            instance.removed = record["t"]
        elif method == "ContainerStatus" and record.get("state") == "exited":
            self._ended(instance, record["t"], record.get("exitCode", 0), record.get("reason", ""))

    def _pull(self, record: Record, ended: float, failed: bool) -> None:
        for container in self.containers.values():
            if container.image == record.get("image") and not container.instances:
                ends = "pull failed" if failed else ""
                segment = Segment(
                    "failed" if failed else "pulling", record["t"], ended, middle="pull", ends=ends
                )
                container.pulls.append(segment)
                return

    @staticmethod
    def _ended(instance: Instance, at: float, code: int, reason: str) -> None:
        if not instance.exact:
            instance.exited = at if instance.exited is None else instance.exited
            instance.code = code if instance.code is None else instance.code
        instance.reason = instance.reason or reason


def pod_lanes(trace: Trace, pod: str) -> PodLanes:
    """The lanes of one pod of a trace: the pod's phase, its sandboxes, and every container."""
    reader = _Reader(pod, len(trace.pods) > 1)
    reader.read(
        sorted(trace.records, key=lambda record: record.get("seq", 0)) if trace.ordered else trace.records
    )
    end = reader.last if reader.gone is None else min(reader.gone, reader.last)
    lanes = [
        Lane("pod", "", _phase_segments(reader, end)),
        Lane("sandbox", "", _sandbox_segments(reader, end)),
    ]
    lanes += [
        Lane(resource, "", _device_segments(points, end)) for resource, points in reader.devices.items()
    ]
    lanes += [Lane(c.name, c.kind, _container_segments(c, end)) for c in reader.containers.values()]
    shown = tuple(evolve(lane, segments=tuple(s for s in lane.segments if s.start < end)) for lane in lanes)
    return PodLanes(pod, reader.first, end, shown, tuple(mark for mark in reader.marks if mark.at <= end))


def _spans(points: Iterable[tuple[float, Any]], end: float) -> Iterable[tuple[float, float, Any]]:
    """Each point's value with the stretch in which it holds."""
    listed = list(points)
    for index, (at, value) in enumerate(listed):
        until = listed[index + 1][0] if index + 1 < len(listed) else end
        if until > at:
            yield at, until, value


def _phase_segments(reader: _Reader, end: float) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    shown = ""
    for at, until, (phase, ready) in _spans(
        ((at, (phase, ready)) for at, phase, ready in reader.phases), end
    ):
        begins = phase if phase != shown else ""
        shown = phase
        segments.append(Segment("phase-ready" if ready else "phase", at, until, begins=begins))
    return tuple(segments)


def _sandbox_segments(reader: _Reader, end: float) -> tuple[Segment, ...]:
    segments = [Segment("failed", at, until, ends="failed") for at, until in reader.failed_sandboxes]
    for label, (at, stopped) in reader.sandboxes.items():
        number = label.rpartition("#")[2]
        until = end if stopped is None else stopped
        segments.append(Segment("sandbox", at, until, begins=f"#{number}", open=stopped is None))
    return tuple(segments)


def _device_segments(points: Iterable[tuple[float, int, int]], end: float) -> tuple[Segment, ...]:
    """What a pod holds of one resource: the number at the beginning, then each change of health."""
    segments: list[Segment] = []
    for at, until, (count, unhealthy) in _spans(((at, now) for at, *now in points), end):
        if count:
            what: What = "devices-unhealthy" if unhealthy else "devices"
            segments.append(Segment(what, at, until, f"{unhealthy} of {count}" if unhealthy else str(count)))
    return tuple(segments)


def _container_segments(container: _Container, end: float) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    for at, until, reason in _spans(container.waiting, end):
        # CrashLoopBackOff shows late in the API; what is drawn is the wait itself.
        if reason in ("-", "CrashLoopBackOff"):
            continue
        created = [one.created for one in container.instances if at < one.created < until]
        middle = "" if reason in _QUIET_REASONS else reason
        segments.append(Segment("waiting", at, min([until, *created]), middle=middle))
    segments += container.pulls
    segments += _backoff_segments(container, end)
    for instance in container.instances:
        segments += _instance_segments(container, instance, end)
    return tuple(segments)


def _backoff_segments(container: _Container, end: float) -> list[Segment]:
    """One segment for each wait, from the end of an instance to the creation of the next."""
    segments: list[Segment] = []
    for index, instance in enumerate(container.instances):
        if instance.exited is None:
            continue
        following = container.instances[index + 1].created if index + 1 < len(container.instances) else end
        delays = [delay for at, delay in container.backoff if instance.exited <= at <= following]
        if delays:
            middle = f"{delays[-1]:g}s"
            segments.append(Segment("backoff", instance.exited, following, middle=middle))
    return segments


def _instance_segments(container: _Container, instance: Instance, end: float) -> list[Segment]:
    begins = f"#{instance.number}"
    if instance.start_failed:
        ends = str(128 if instance.code is None else instance.code)
        exited = instance.exited if instance.exited is not None else end
        return [Segment("failed", instance.created, exited, begins, ends=ends, code=instance.code or 128)]
    if instance.started is None:
        return []
    until = end if instance.exited is None else instance.exited
    stop = instance.stopping
    if stop is None or stop >= until or stop < instance.started:
        stop = until
    segments: list[Segment] = []
    for at, to, ready in _spans(_clipped(container.ready, instance.started, stop), stop):
        segments.append(Segment("ready" if ready else "running", at, to))
    if stop < until:
        segments.append(Segment("stopping", stop, until))
    if not segments:
        segments.append(Segment("running", instance.started, until))
    segments[0] = evolve(segments[0], begins=begins)
    if instance.exited is not None:
        code = instance.code if instance.code is not None else 0
        ends = f"{code}" + ("oom" if instance.reason == "OOMKilled" else "")
        segments[-1] = evolve(segments[-1], ends=ends, code=code)
    else:
        segments[-1] = evolve(segments[-1], open=True)
    return segments


def _clipped(points: Iterable[tuple[float, bool]], start: float, end: float) -> Iterable[tuple[float, bool]]:
    """Readiness while an instance runs: not ready until the API shows otherwise."""
    result: list[tuple[float, bool]] = [(start, False)]
    for at, ready in points:
        if start <= at < end and ready != result[-1][1]:
            result.append((at, ready))
    return result
