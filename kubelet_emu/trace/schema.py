"""The records of a trace: their types, their required keys, and the format's version (pure).

A record is a plain JSON object, so it is written and read without conversion; ``k`` tells its kind and
narrows the type. The format is a superset of the one in which the recordings of a real node are kept:
readers of those read ours, and keys they do not know say more. ``docs/trace-format.md`` is the prose.
"""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, Literal, TypeAlias, TypedDict, cast

from attrs import frozen

__all__ = [
    "FORMAT",
    "KINDS",
    "ActionRecord",
    "ContainerSnapshot",
    "CriRecord",
    "DecisionRecord",
    "DeviceRecord",
    "EventRecord",
    "Header",
    "InvariantRecord",
    "PodRecord",
    "PollsRecord",
    "ProcessRecord",
    "Record",
    "TerminatedSnapshot",
    "Trace",
    "problem_of",
]

FORMAT = 1
"""Version of the format. It grows when a reader of the old one would misread the new one."""


class Header(TypedDict, total=False):
    """First line. ``emitter`` is absent in recordings of a real node; ``run`` is theirs alone."""

    k: Literal["header"]
    format: int
    emitter: str
    scenario: str
    run: str
    kubernetes: str
    runtime: str
    pods: list[str]
    runFor: float
    seed: int
    transport: str
    gates: Mapping[str, bool]
    epoch: str


class _Base(TypedDict, total=False):
    """Keys of every record after the header.

    ``t`` is seconds from the trace's zero (the creation of the first pod), rounded to milliseconds; ``seq``
    orders records that share it: it counts what happened, in the order in which it happened.
    """

    t: float
    seq: int


class TerminatedSnapshot(TypedDict, total=False):
    """``last`` of a container: lastState.terminated."""

    reason: str
    message: str
    exitCode: int
    signal: int


class ContainerSnapshot(TypedDict, total=False):
    """One container status. ``id`` is ``NAME#attempt``; ``image`` and ``imageID`` are in our traces only."""

    kind: Literal["init", "regular", "ephemeral"]
    state: Literal["waiting", "running", "terminated"]
    reason: str
    message: str
    exitCode: int
    signal: int
    last: TerminatedSnapshot
    restartCount: int
    ready: bool
    started: bool | None
    id: str
    image: str
    imageID: str
    allocatedResourcesStatus: list[Any]


class PodRecord(_Base, total=False):
    """The pod object after a change that shows. ``deleted`` marks the removal of the object.

    Ours only: ``uid``, ``addresses`` (raw pod IPs), ``spec`` (first time and whenever the generation moved),
    ``hostNetwork``.
    """

    k: Literal["pod"]
    pod: str
    phase: str
    reason: str
    message: str
    observedGeneration: int
    qosClass: str
    ip: str | None
    conditions: dict[str, list[str]]
    containers: dict[str, ContainerSnapshot]
    deleting: int
    deleted: bool
    uid: str
    addresses: list[str]
    spec: Mapping[str, Any]
    hostNetwork: bool


class CriRecord(_Base, total=False):
    """A CRI call that changes something, an exec, or a poll whose answer changed.

    ``t`` and ``seq`` are those of its beginning, ``dt`` its duration in seconds, ``end`` the sequence number
    of its end. Polls that are recorded carry ``poll``: true and what they showed (``state`` …).
    """

    k: Literal["cri"]
    m: str
    pod: str
    container: str
    sandbox: str
    name: str
    attempt: int
    log_path: str
    devices: list[Any]
    timeout: str
    cmd: list[str]
    image: str
    env: dict[str, str]
    mounts: dict[str, str]
    code: str
    details: str
    dt: float
    end: int
    poll: bool
    state: str
    exitCode: int
    reason: str
    states: dict[str, str]
    present: bool
    ip: str
    hostNetwork: bool
    id: str
    exit: int


class PollsRecord(_Base, total=False):
    """How often a polling method was called in all, and how often its answer was as before (not recorded)."""

    k: Literal["polls"]
    m: str
    count: int
    unchanged: int


class EventRecord(_Base, total=False):
    """An Event, once for each increase of its count. ``on`` is the field path, empty for the pod."""

    k: Literal["event"]
    pod: str
    reason: str
    type: str
    on: str
    message: str
    count: int


class DeviceRecord(_Base, total=False):
    """A call of a device plugin, or a report of its own (``ListAndWatch`` item)."""

    k: Literal["device"]
    method: str
    resource: str
    ids: list[Any]
    req: list[Any]


class ActionRecord(_Base, total=False):
    """What was done to the node from outside. ``create`` carries the pod as given under ``object``."""

    k: Literal["action"]
    do: str
    pod: str
    object: Mapping[str, Any]
    error: str
    container: Any
    image: str


class DecisionRecord(_Base, total=False):
    """What a machine decided: the rules that fired (``RULE`` or ``RULE(about)``), inputs, outcome."""

    k: Literal["decision"]
    machine: str
    pod: str
    rules: list[str]
    inputs: Mapping[str, Any]
    outcome: Mapping[str, Any]


class ProcessRecord(_Base, total=False):
    """A container's first process starts or ends (``do``: start, exit), with its ``code`` or ``signal``."""

    k: Literal["process"]
    do: str
    pod: str
    container: str
    code: int
    signal: int


class InvariantRecord(_Base, total=False):
    """An invariant that did not hold: its name, its rules, what was found, the ``seq`` of the evidence."""

    k: Literal["invariant"]
    invariant: str
    rules: list[str]
    pod: str
    message: str
    evidence: list[int]


class FactRecord(_Base, total=False):
    """Any other fact: probe, backoff, worker, node, note …"""

    k: Literal["probe", "backoff", "worker", "node", "note"]


Record: TypeAlias = dict[str, Any]
"""One record as read and written. The typed views above say what each kind holds."""

KINDS: Mapping[str, tuple[str, ...]] = {
    "action": ("do",),
    "backoff": (),
    "cri": ("m",),
    "decision": ("machine", "pod", "rules"),
    "device": ("method", "resource"),
    "event": ("pod", "reason", "type", "message"),
    "invariant": ("invariant", "message"),
    "node": (),
    "note": (),
    "pod": ("pod", "phase", "conditions", "containers"),
    "polls": ("m", "count"),
    "probe": (),
    "process": ("do", "container"),
    "worker": (),
}
"""Kinds of records and the keys each must have besides ``k`` and ``t``. Further kinds are allowed."""


@frozen
class Trace:
    """A whole trace or recording: its header and its records in the order of the file."""

    header: Record
    records: tuple[Record, ...]

    @property
    def ordered(self) -> bool:
        """Whether records carry ``seq``, so that order can be judged without slack (our own traces)."""
        return bool(self.records) and "seq" in self.records[0]

    @property
    def pods(self) -> tuple[str, ...]:
        """Names of the pods, in the order of the header, else of their first snapshot."""
        named = self.header.get("pods")
        if named:
            return tuple(named)
        return tuple(dict.fromkeys(record["pod"] for record in self.records if record["k"] == "pod"))

    def of_kind(self, *kinds: str) -> Iterable[Record]:
        """The records of these kinds, in order."""
        return (record for record in self.records if record["k"] in kinds)


def problem_of(record: object) -> str:
    """What is wrong with a record, for a person; empty if it is well formed."""
    if not isinstance(record, dict):
        return "a record is a JSON object"
    kind: object = record.get("k")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if not isinstance(kind, str):
        return "a record has its kind under 'k'"
    if kind == "header":
        version: object = record.get("format")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        if not isinstance(version, int):
            return "a header has its version under 'format'"
        if version > FORMAT:
            return f"format {version} is newer than this program, which reads up to {FORMAT}"
        pods: object = record.get("pods", [])  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        if not isinstance(pods, list) or not all(isinstance(pod, str) for pod in cast(list[object], pods)):
            return "a header has a list of names under 'pods'"
        return ""
    time: object = record.get("t")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    # JSON as Python reads it also knows NaN, Infinity and 1e999; none is a moment that can be compared.
    if isinstance(time, bool) or not isinstance(time, int | float) or not isfinite(time):
        return f"a record of kind {kind} has its time in seconds under 't'"
    missing = [key for key in KINDS.get(kind, ()) if key not in record]
    if missing:
        return f"a record of kind {kind} lacks {', '.join(missing)}"
    return _problem_of_pod(cast(Record, record)) if kind == "pod" else ""


def _problem_of_pod(record: Record) -> str:
    """What is wrong with the shape of a snapshot, which comparisons take apart; empty if nothing."""
    if not isinstance(record["pod"], str) or not isinstance(record["phase"], str | None):
        return "a record of kind pod has texts under 'pod' and 'phase'"
    for key, kind in (("conditions", list), ("containers", dict)):
        held: object = record[key]
        if not isinstance(held, dict):
            return f"a record of kind pod has an object under '{key}'"
        values = cast(dict[str, object], held).values()
        if not all(isinstance(value, kind) for value in values):
            return f"a record of kind pod has '{key}': {'arrays' if kind is list else 'objects'} by name"
    return ""
