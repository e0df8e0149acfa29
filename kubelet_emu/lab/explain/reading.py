"""A trace read once: what became of each pod, its sandboxes, its container instances and its status (pure).

Explanations, pictures and the page are made from this. Traces of the emulator and recordings of a real
kubelet both give a reading; recordings know neither decisions nor the moment in which a process ended, so an
end is put where it can have been seen first.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from attrs import define, field

from kubelet_emu.lab.invariants.recordings import completed
from kubelet_emu.trace.schema import Record, Trace

__all__ = ["Instance", "Kind", "Mark", "PodReading", "Probe", "Reading", "Sandbox", "Span", "read_trace"]

Kind: TypeAlias = Literal["init", "sidecar", "regular", "ephemeral"]
_LISTS: tuple[tuple[str, Kind], ...] = (
    ("initContainers", "init"),
    ("containers", "regular"),
    ("ephemeralContainers", "ephemeral"),
)


@define
class Span:
    """Something that lasts, in seconds of the trace; ``end`` is None while it lasts. ``text`` says what."""

    start: float
    end: float | None
    text: str


@define
class Mark:
    """Something at one moment: ``kind`` is action, fault, invariant, event or api."""

    t: float
    kind: str
    text: str
    seq: int = -1


@define
class Probe:
    """One run of a probe: its kind (liveness …), how it ended and how many seconds it took."""

    t: float
    container: str
    kind: str
    outcome: str
    seconds: float = 0.0


@define
class Sandbox:
    """One sandbox: when it was asked for, ready and gone, and its address in the trace's naming."""

    label: str
    asked: float
    ready: float | None = None
    ended: float | None = None
    ip: str = ""


@define
class Instance:
    """One container instance. ``ended`` is when its process ended, ``code`` how; -1 seconds are unknown."""

    pod: str
    label: str
    container: str
    attempt: int
    created: float
    sandbox: str = ""
    started: float | None = None
    ended: float | None = None
    code: int | None = None
    reason: str = ""
    stop_asked: float | None = None
    stop_grace: str = ""
    removed: float | None = None
    devices: tuple[str, ...] = ()
    mounts: Mapping[str, str] = field(factory=dict[str, str])
    hooks: list[Span] = field(factory=list[Span])

    @property
    def running_until(self) -> float | None:
        """When it stopped to run: its end, else its removal."""
        return self.ended if self.ended is not None else self.removed


@define
class PodReading:
    """What became of one pod."""

    name: str
    created: float = 0.0
    spec: Mapping[str, Any] = field(factory=dict[str, Any])
    kinds: dict[str, Kind] = field(factory=dict[str, Kind])
    """Containers by name, in the order in which they start."""
    sandboxes: list[Sandbox] = field(factory=list[Sandbox])
    instances: list[Instance] = field(factory=list[Instance])
    snapshots: list[Record] = field(factory=list[Record])
    phases: list[Span] = field(factory=list[Span])
    conditions: dict[str, list[Span]] = field(factory=dict[str, list[Span]])
    backoffs: dict[str, list[Span]] = field(factory=dict[str, list[Span]])
    """Waits by container; the text is the delay."""
    probes: list[Probe] = field(factory=list[Probe])
    marks: list[Mark] = field(factory=list[Mark])
    devices: list[Mark] = field(factory=list[Mark])
    writes: list[float] = field(factory=list[float])
    """When the API had a new status of the pod."""
    gone: float | None = None

    def container(self, name: str) -> Mapping[str, Any]:
        """A container of the specification; empty if there is none of that name."""
        for key, _ in _LISTS:
            for one in self.spec.get(key) or ():
                if one.get("name") == name:
                    return one
        return {}

    def of(self, container: str) -> list[Instance]:
        """The instances of a container, oldest first."""
        return [one for one in self.instances if one.container == container]

    def instance(self, label: str) -> Instance | None:
        """The latest instance under a label (``main#2``)."""
        return next((one for one in reversed(self.instances) if one.label == label), None)

    def snapshot_at(self, t: float) -> Record | None:
        """The object as the API had it at that moment; None before there was one."""
        found = None
        for record in self.snapshots:
            if record["t"] > t + 1e-9:
                break
            found = record
        return found

    def last_end(self, container: str, before: float) -> Instance | None:
        """The instance of a container that ended last before a moment."""
        ended = [one for one in self.of(container) if one.ended is not None and one.ended <= before + 1e-9]
        return max(ended, key=lambda one: (one.ended or 0.0, one.created), default=None)


@define
class Reading:
    """A whole trace: its pods by name, its length in seconds, and the records in the order of their end."""

    trace: Trace
    pods: dict[str, PodReading]
    end: float
    node_marks: list[Mark]
    records: Sequence[Record]

    @property
    def recorded(self) -> bool:
        """Whether this is a recording of a real kubelet, without decisions."""
        return "emitter" not in self.trace.header

    @property
    def title(self) -> str:
        """What to call the run."""
        header = self.trace.header
        name = header.get("scenario") or ", ".join(self.trace.pods) or "run"
        if self.recorded:
            run = f", run {header['run']}" if header.get("run") else ""
            return f"{name} (recorded from a real kubelet{run})"
        return f"{name} (seed {header['seed']})" if "seed" in header else str(name)


def read_trace(trace: Trace, objects: Mapping[str, Mapping[str, Any]] | None = None) -> Reading:
    """Read a trace. A recording does not hold the pods themselves: give them by name in ``objects``."""
    records = [record for record in completed(trace, objects or {}) if record["t"] != float("-inf")]
    if trace.ordered:
        first = next((r.get("seq", 0) for r in trace.records if r["k"] == "action"), 0)
        # What the node did before the first pod is none of the story.
        records = [record for record in records if record.get("end", record.get("seq", 0)) >= first]
    reader = _Reader(trace)
    for name, given in (objects or {}).items():
        reader.take_spec(reader.pod(name), given.get("spec") or {})
    for record in records:
        reader.feed(record)
    return Reading(trace, reader.pods, reader.finish(), reader.node_marks, records)


class _Reader:
    """Builds a reading, record by record."""

    def __init__(self, trace: Trace) -> None:
        self.pods: dict[str, PodReading] = {}
        self.node_marks: list[Mark] = []
        self._end = 0.0
        self._allocated: dict[tuple[str, str], tuple[str, ...]] = {}
        self._only = trace.pods[0] if len(trace.pods) == 1 else ""
        self._run_for = float(trace.header.get("runFor") or 0.0)

    def pod(self, name: str) -> PodReading:
        """The reading of a pod, made when it is first heard of."""
        found = self.pods.get(name or self._only)
        if found is None:
            found = self.pods[name or self._only] = PodReading(name or self._only)
        return found

    def feed(self, record: Record) -> None:
        """Take one record in."""
        if record["k"] != "polls":
            self._end = max(self._end, record["t"] + record.get("dt", 0.0))
        handler = _HANDLERS.get(record["k"])
        if handler is not None:
            handler(self, record)

    def finish(self) -> float:
        """Close what belongs to pods that are gone; returns the end of the run."""
        end = max(self._end, self._run_for)
        for pod in self.pods.values():
            if pod.gone is None:
                continue
            for sandbox in pod.sandboxes:
                sandbox.ended = sandbox.ended if sandbox.ended is not None else pod.gone
            for spans in (pod.phases, *pod.conditions.values()):
                if spans and spans[-1].end is None:
                    spans[-1].end = pod.gone
        return end

    # -- from outside --

    def action(self, record: Record) -> None:
        do: str = record["do"]
        if do == "end":
            return
        if do == "fault":
            self.node_marks.append(
                Mark(record["t"], "fault", str(record.get("text", "")), record.get("seq", -1))
            )
            return
        target = record.get("container") or ""
        name = target["name"] if isinstance(target, Mapping) else str(target)  # pyright: ignore[reportUnknownVariableType]
        text = f"{do} {name}".strip() if do != "create" else "create"
        mark = Mark(record["t"], "action", text, record.get("seq", -1))
        if not record.get("pod") and len(self.pods) > 1:
            self.node_marks.append(mark)
            return
        pod = self.pod(record.get("pod") or "")
        if do == "create":
            pod.marks = [one for one in pod.marks if one.text != "create"]
        pod.marks.append(mark)
        if do == "create":
            pod.created = record["t"]
            given: Mapping[str, Any] = record.get("object") or {}
            if given.get("spec"):
                self.take_spec(pod, given["spec"])

    def take_spec(self, pod: PodReading, spec: Mapping[str, Any]) -> None:
        """Note a pod's specification."""
        pod.spec = spec
        for key, kind in _LISTS:
            for container in spec.get(key) or ():
                sidecar = kind == "init" and container.get("restartPolicy") == "Always"
                pod.kinds.setdefault(container["name"], "sidecar" if sidecar else kind)

    def snapshot(self, record: Record) -> None:
        pod = self.pod(record["pod"])
        t: float = record["t"]
        if "spec" in record:
            self.take_spec(pod, record["spec"])
        for name, shown in record["containers"].items():
            pod.kinds.setdefault(name, shown.get("kind", "regular"))
            self._shown(pod, name, shown, t)
        pod.snapshots.append(record)
        pod.writes.append(t)
        _change(pod.phases, t, record["phase"] or "Pending")
        for condition, value in record["conditions"].items():
            _change(pod.conditions.setdefault(condition, []), t, str(value[0]))
        if record.get("deleted"):
            pod.gone = t

    def _shown(self, pod: PodReading, name: str, shown: Record, t: float) -> None:
        instance = pod.instance(shown.get("id", ""))
        if shown["state"] == "terminated" and instance is not None and instance.code is None:
            instance.code, instance.reason = shown.get("exitCode"), shown.get("reason", "")
            instance.ended = instance.ended if instance.ended is not None else t
        waits = pod.backoffs.setdefault(name, [])
        if shown["state"] == "waiting" and shown.get("reason") == "CrashLoopBackOff":
            if not waits or waits[-1].end is not None:
                ended = pod.last_end(name, t)
                begun = ended.ended if ended is not None and ended.ended is not None else t
                waits.append(Span(begun, None, ""))
            delay = str(shown.get("message", "")).partition("back-off ")[2].partition(" ")[0]
            waits[-1].text = waits[-1].text or delay
        elif not waits:
            del pod.backoffs[name]

    def event(self, record: Record) -> None:
        pod = self.pod(record["pod"])
        if record["type"] == "Warning":
            text = f"{record['reason']}: {record['message'].strip()}"
            pod.marks.append(Mark(record["t"], "event", text, record.get("seq", -1)))
        name = str(record.get("on") or "").partition("{")[2].removesuffix("}")
        if (
            record["reason"] == "BackOff"
            and name in pod.kinds
            and record["message"].startswith("Back-off rest")
        ):
            ended = pod.last_end(name, record["t"])
            waits = pod.backoffs.setdefault(name, [])
            if not waits or waits[-1].end is not None:
                begun = ended.ended if ended is not None and ended.ended is not None else record["t"]
                waits.append(Span(begun, None, ""))

    # -- the runtime --

    def cri(self, record: Record) -> None:
        handler = _CALLS.get(record["m"])
        if handler is not None:
            handler(self, self.pod(record.get("pod") or ""), record)

    def run_sandbox(self, pod: PodReading, record: Record) -> None:
        done = record["t"] + record.get("dt", 0.0)
        failed = bool(record.get("code"))
        label: str = record.get("sandbox", "")
        pod.sandboxes.append(Sandbox(label, record["t"], None if failed else done, done if failed else None))

    def stop_sandbox(self, pod: PodReading, record: Record) -> None:
        for sandbox in pod.sandboxes:
            if sandbox.label == record.get("sandbox") and sandbox.ended is None:
                sandbox.ended = record["t"] + record.get("dt", 0.0)

    def sandbox_status(self, pod: PodReading, record: Record) -> None:
        for sandbox in pod.sandboxes:
            if sandbox.label != record.get("sandbox"):
                continue
            sandbox.ip = record.get("ip", sandbox.ip)
            if record.get("state") == "notready" and sandbox.ended is None:
                sandbox.ended = record["t"]

    def create(self, pod: PodReading, record: Record) -> None:
        if record.get("code"):
            return
        pod.kinds.setdefault(record["name"], "regular")
        sandbox = record.get("sandbox") or (pod.sandboxes[-1].label if pod.sandboxes else "")
        instance = Instance(
            pod.name, record["container"], record["name"], record["attempt"], record["t"], sandbox
        )
        held = self._allocated.get((pod.name, instance.container), ())
        instance.devices = tuple(dict.fromkeys((*held, *map(str, record.get("devices", ())))))
        instance.mounts = record.get("mounts") or {}
        pod.instances.append(instance)

    def start(self, pod: PodReading, record: Record) -> None:
        instance = pod.instance(record.get("container", ""))
        if instance is None:
            return
        done = record["t"] + record.get("dt", 0.0)
        if record.get("code"):
            instance.ended, instance.code, instance.reason = done, 128, "StartError"
            return
        instance.started = instance.started if instance.started is not None else done
        waits = pod.backoffs.get(instance.container, [])
        if waits and waits[-1].end is None:
            waits[-1].end = record["t"]

    def stop(self, pod: PodReading, record: Record) -> None:
        instance = pod.instance(record.get("container", ""))
        if instance is None:
            return
        # A call is read when it ends; by then the process may have been seen to end.
        if instance.ended is None or instance.ended >= record["t"]:
            instance.stop_asked, instance.stop_grace = record["t"], str(record.get("timeout", ""))
        if instance.ended is None and not record.get("code"):
            instance.ended = record["t"] + record.get("dt", 0.0)

    def remove(self, pod: PodReading, record: Record) -> None:
        instance = pod.instance(record.get("container", ""))
        if instance is not None and not record.get("code"):
            instance.removed = record["t"] + record.get("dt", 0.0)

    def container_status(self, pod: PodReading, record: Record) -> None:
        instance = pod.instance(record.get("container", ""))
        if instance is not None and record.get("state") == "exited" and instance.code is None:
            instance.code, instance.reason = record.get("exitCode"), record.get("reason", "")
            instance.ended = instance.ended if instance.ended is not None else record["t"]

    def exec_sync(self, pod: PodReading, record: Record) -> None:
        instance = pod.instance(record.get("container", ""))
        if instance is None or "timeout" in record:
            return  # a probe, which has its own records
        done = record["t"] + record.get("dt", 0.0)
        instance.hooks.append(Span(record["t"], done, " ".join(map(str, record.get("cmd", ())))))

    def process(self, record: Record) -> None:
        pod = self.pod(record.get("pod") or "")
        instance = pod.instance(record["container"])
        if instance is None:
            return
        if record["do"] == "start":
            instance.started = record["t"]
        elif record["do"] == "exit":
            code = record.get("code")
            instance.code = code if code is not None else 128 + int(record.get("signal") or 0)
            instance.reason = record.get("reason", instance.reason)
            instance.ended = record["t"] if instance.ended is None else min(instance.ended, record["t"])

    # -- the kubelet --

    def decision(self, record: Record) -> None:
        if record["machine"] != "kuberuntime.backoff" or not record["outcome"].get("wait"):
            return
        pod = self.pod(record["pod"])
        name: str = record["inputs"]["container"]
        waits = pod.backoffs.setdefault(name, [])
        if waits and waits[-1].end is None:
            return
        begun = record["t"] - record["inputs"]["sinceExitMs"] / 1000
        waits.append(Span(begun, None, f"{record['outcome']['delaySeconds']:g}s"))

    def probe(self, record: Record) -> None:
        pod = self.pod(record.get("pod") or "")
        pod.probes.append(
            Probe(
                record["t"],
                record.get("container", ""),
                record.get("probe", ""),
                record.get("outcome", ""),
                record.get("dt", 0.0),
            )
        )

    def device(self, record: Record) -> None:
        ids = _flat(record.get("ids") or ())
        names = ", ".join(ids)
        if record["method"] == "Allocate" and record.get("container"):
            key = (record.get("pod") or self._only, record["container"])
            self._allocated[key] = (*self._allocated.get(key, ()), *ids)
        mark = Mark(record["t"], "device", f"{record['method']} {record['resource']} {names}".strip())
        if record.get("pod") or len(self.pods) == 1:
            self.pod(record.get("pod") or next(iter(self.pods))).devices.append(mark)
        else:
            self.node_marks.append(mark)

    def node(self, record: Record) -> None:
        if record["k"] == "runtime":
            text = "runtime is back" if record.get("up") else "runtime is away"
        else:
            text = str(record.get("fault") or record.get("text") or record.get("problem") or record["k"])
        self.node_marks.append(Mark(record["t"], "fault", text, record.get("seq", -1)))

    def invariant(self, record: Record) -> None:
        text = f"{record['invariant']}: {record['message']}"
        pod = self.pod(record.get("pod") or "")
        pod.marks.append(Mark(record["t"], "invariant", text, record.get("seq", -1)))


def _flat(values: Sequence[Any]) -> list[str]:
    """Device ids; Allocate has a list of them for each container that it asks for."""
    found: list[str] = []
    for value in values:
        found += _flat(value) if isinstance(value, list) else [str(value)]  # pyright: ignore[reportUnknownArgumentType]
    return found


def _change(spans: list[Span], t: float, text: str) -> None:
    if spans and spans[-1].text == text and spans[-1].end is None:
        return
    if spans and spans[-1].end is None:
        spans[-1].end = t
    spans.append(Span(t, None, text))


_HANDLERS = {
    "action": _Reader.action,
    "cri": _Reader.cri,
    "decision": _Reader.decision,
    "device": _Reader.device,
    "event": _Reader.event,
    "fault": _Reader.node,
    "invariant": _Reader.invariant,
    "pod": _Reader.snapshot,
    "probe": _Reader.probe,
    "process": _Reader.process,
    "runtime": _Reader.node,
}
_CALLS = {
    "RunPodSandbox": _Reader.run_sandbox,
    "StopPodSandbox": _Reader.stop_sandbox,
    "PodSandboxStatus": _Reader.sandbox_status,
    "CreateContainer": _Reader.create,
    "StartContainer": _Reader.start,
    "StopContainer": _Reader.stop,
    "RemoveContainer": _Reader.remove,
    "ContainerStatus": _Reader.container_status,
    "ExecSync": _Reader.exec_sync,
}
