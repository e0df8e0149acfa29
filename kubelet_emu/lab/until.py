"""When a run ends: the forms of ``--until``, parsed and judged. (pure)

A duration (``35s``, ``2m30s``), a phase (``Succeeded``), a condition (``Ready``, ``Ready=False``,
``condition=X=True``) or ``settled``. Phase and condition have to hold for every pod at once.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from attrs import frozen

from cri_fake.behaviours import parse_duration
from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.trace.schema import Record

__all__ = [
    "ENDED_QUIET_SECONDS",
    "PHASES",
    "SETTLED",
    "SETTLED_QUIET_SECONDS",
    "Ending",
    "EndingKind",
    "Until",
    "UntilCondition",
    "UntilDuration",
    "UntilPhase",
    "UntilSettled",
    "has_ended",
    "is_visible_change",
    "parse_until",
    "pods_satisfy",
]

PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")

ENDED_PHASES = ("Succeeded", "Failed")
"""Phases that a pod never leaves."""

SETTLED_QUIET_SECONDS = 600.0
"""Settled means: no API-visible change is due within this time."""

ENDED_QUIET_SECONDS = 20.0
"""The same where every pod has ended for good: one full pass of the status manager is enough."""

_PROBE_EVENTS = frozenset({"Unhealthy", "ProbeWarning"})


@frozen
class UntilDuration:
    """Stop after so many simulated seconds."""

    seconds: float


@frozen
class UntilPhase:
    """Stop once every pod is in that phase."""

    phase: str


@frozen
class UntilCondition:
    """Stop once every pod has that condition with that status."""

    type: str
    status: str


@frozen
class UntilSettled:
    """Stop once no API-visible change is due within ten simulated minutes, probes aside."""


EndingKind: TypeAlias = Literal["settled", "reached", "time", "max-time", "unreachable", "interrupted"]


@frozen
class Ending:
    """Why a run ended and when (seconds of the trace). ``as_asked``: it is what ``--until`` asked for."""

    kind: EndingKind
    at_seconds: float
    quiet_since_seconds: float = 0.0
    """When the last visible change was; the moment at which a settled node had settled."""

    @property
    def as_asked(self) -> bool:
        """Whether the run ended as asked for."""
        return self.kind in ("settled", "reached", "time")


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is in a phase that it never leaves (RST-174)."""
    status: Mapping[str, Any] = pod.get("status") or {}
    return status.get("phase") in ENDED_PHASES


Until = UntilDuration | UntilPhase | UntilCondition | UntilSettled
SETTLED = UntilSettled()


def parse_until(text: str) -> Until:
    """Read a ``--until``; raises ``CallerError`` that says which forms there are."""
    words = text.strip()
    if words == "settled":
        return SETTLED
    if words in PHASES:
        return UntilPhase(words)
    if words[:1].isdigit():
        try:
            return UntilDuration(parse_duration(words))
        except ValueError as error:
            raise CallerError([Problem(str(error), path="--until")]) from error
    condition = words.removeprefix("condition=")
    name, equals, status = condition.partition("=")
    status = status.capitalize() if equals else "True"
    if name[:1].isupper() and name.replace("-", "").replace("/", "").isalnum():
        if status in ("True", "False", "Unknown"):
            return UntilCondition(name, status)
        raise CallerError([Problem(f"{status!r} is no status of a condition", path="--until")])
    hint = "give a duration (35s), a phase (Succeeded), a condition (Ready, Ready=False) or settled"
    raise CallerError([Problem(f"cannot understand {text!r}", path="--until", hint=hint)])


def pods_satisfy(until: Until, pods: Iterable[Mapping[str, Any]]) -> bool:
    """Whether every one of these pod objects is as a phase or condition asks; false for no pod at all."""
    found: list[Mapping[str, Any]] = [pod.get("status") or {} for pod in pods]
    return bool(found) and all(_satisfies(until, status) for status in found)


def _satisfies(until: Until, status: Mapping[str, Any]) -> bool:
    if isinstance(until, UntilPhase):
        return bool(status.get("phase") == until.phase)
    if isinstance(until, UntilCondition):
        wanted = (until.type, until.status)
        return any((c.get("type"), c.get("status")) == wanted for c in status.get("conditions") or ())
    return False


def is_visible_change(record: Record) -> bool:
    """Whether a record is a change that a person at the API sees, events of probes aside."""
    if record["k"] == "pod":
        return True
    return record["k"] == "event" and record["reason"] not in _PROBE_EVENTS
