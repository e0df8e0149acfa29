"""A case: everything that a simulated run follows from, and the file in which it is kept (pure).

::

    kubelet-emu-case: 1
    seed: 7
    schedule: uniform
    duration: 60
    plan:
    - "@5s crash kubelet"
    - "@0s after 3 CreateContainer calls crash runtime"
    documents:
    - {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {...}}

Steps are lines of ``node_host.plan``; behaviours have the shape of a behaviour file. The same case gives the
same trace, byte for byte, wherever it is run.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from attrs import field, frozen

from kubelet_emu.errors import CallerError, Problem
from node_host.faults import FaultSyntaxError
from node_host.order import CHANGES_MAX
from node_host.plan import Deed, Trigger, ends_after_seconds, parse_line, parse_triggered, seconds_text

__all__ = ["CASE_FORMAT", "Case", "Step", "case_from_json", "case_to_json", "case_to_yaml"]

CASE_FORMAT = 1
"""Version of the file format; it grows when a reader of the old one would misread the new one."""

DURATION_SECONDS_MAX = 86_400.0
DOCUMENTS_MAX = 100
STEPS_MAX = 1_000
SEED_MAX = 2**63 - 1


@frozen(kw_only=True)
class Step:
    """One fault or action: ``text`` in the grammar of ``node_host.plan``, ``at_seconds`` after the start.

    Raises ``CallerError`` for a text that is not in the grammar.
    """

    at_seconds: float
    text: str
    trigger: Trigger | None = field(init=False, eq=False, repr=False)
    deed: Deed = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        try:
            trigger, deed = parse_triggered(self.text)
        except FaultSyntaxError as error:
            raise CallerError([Problem(str(error), path="plan")]) from None
        object.__setattr__(self, "at_seconds", round(float(self.at_seconds), 6))
        object.__setattr__(self, "trigger", trigger)
        object.__setattr__(self, "deed", deed)
        object.__setattr__(self, "text", f"{trigger} {deed}" if trigger is not None else str(deed))

    @classmethod
    def parse(cls, line: str) -> "Step":
        """Read ``@5s crash kubelet``. Raises ``CallerError``."""
        try:
            at_seconds, trigger, deed = parse_line(line)
        except FaultSyntaxError as error:
            raise CallerError([Problem(str(error), path="plan")]) from None
        return cls(at_seconds=at_seconds, text=f"{trigger} {deed}" if trigger is not None else str(deed))

    @property
    def ends_seconds(self) -> float:
        """When the fault is over by itself, counted from the start; calls that wait for it apart."""
        return self.at_seconds + ends_after_seconds(self.deed)

    def __str__(self) -> str:
        return f"@{seconds_text(self.at_seconds)} {self.text}"


@frozen(kw_only=True)
class Case:
    """One simulated run. Seconds are simulated ones, from the creation of the first pod.

    ``documents`` are Pods and what they refer to, in JSON shape; ``behaviours`` what a behaviour file holds;
    ``devices`` presets or profiles as for ``--devices``, separated by blanks. ``schedule`` is ``uniform`` or
    ``priority:N``. Faults end at ``duration_seconds`` at the latest. ``bugs`` are switched on, ``fixes`` too.
    """

    documents: tuple[Mapping[str, Any], ...] = field(converter=tuple)
    behaviours: Mapping[str, Any] = field(factory=dict[str, Any])
    gates: Mapping[str, bool] = field(factory=dict[str, bool])
    devices: str | None = None
    plan: tuple[Step, ...] = field(default=(), converter=tuple)
    seed: int = 0
    schedule: str = "uniform"
    duration_seconds: float = 60.0
    bugs: tuple[str, ...] = field(default=(), converter=tuple)
    fixes: tuple[str, ...] = field(default=(), converter=tuple)

    def __attrs_post_init__(self) -> None:
        problems = [*_problems(self)]
        if problems:
            raise CallerError(problems)

    @property
    def pods(self) -> tuple[Mapping[str, Any], ...]:
        """The documents that are Pods."""
        return tuple(one for one in self.documents if one.get("kind", "Pod") == "Pod")


def _problems(case: Case) -> list[Problem]:
    found: list[Problem] = []
    if not case.pods:
        found.append(Problem("there is no Pod", path="documents", hint="give at least one Pod"))
    if len(case.documents) > DOCUMENTS_MAX:
        found.append(Problem(f"there are more than {DOCUMENTS_MAX}", path="documents"))
    if len(case.plan) > STEPS_MAX:
        found.append(Problem(f"it has more than {STEPS_MAX} steps", path="plan"))
    if not 0 < case.duration_seconds <= DURATION_SECONDS_MAX:
        found.append(Problem(f"must be over 0 and at most {DURATION_SECONDS_MAX:g}", path="duration"))
    if not 0 <= case.seed <= SEED_MAX:
        found.append(Problem(f"must be from 0 to {SEED_MAX}", path="seed"))
    name, _, number = case.schedule.partition(":")
    digits = number.isascii() and number.isdigit() and len(number) < 5
    if case.schedule != "uniform" and not (name == "priority" and digits and int(number) <= CHANGES_MAX):
        found.append(
            Problem(
                f"{case.schedule!r} is no schedule",
                path="schedule",
                hint=f"write uniform, or priority:N with N up to {CHANGES_MAX}",
            )
        )
    return found


def case_to_json(case: Case) -> dict[str, Any]:
    """The case as its file holds it; what is at its default is left out."""
    shown: dict[str, Any] = {
        "kubelet-emu-case": CASE_FORMAT,
        "seed": case.seed,
        "schedule": case.schedule,
        "duration": case.duration_seconds,
    }
    optional: dict[str, Any] = {
        "bugs": list(case.bugs),
        "fixes": list(case.fixes),
        "gates": dict(case.gates),
        "devices": case.devices,
        "plan": [str(step) for step in case.plan],
        "behaviours": dict(case.behaviours),
    }
    shown |= {key: value for key, value in optional.items() if value}
    shown["documents"] = [dict(one) for one in case.documents]
    return shown


def case_to_yaml(case: Case) -> str:
    """The text of a case's file."""
    import yaml

    plain = json.loads(json.dumps(case_to_json(case)))
    return cast("Any", yaml).safe_dump(plain, sort_keys=False, allow_unicode=True, width=110)


def case_from_json(obj: object, *, file: str = "") -> Case:
    """The case in a file's content, named ``file`` in messages. Raises ``CallerError`` with all problems."""
    if not isinstance(obj, Mapping):
        raise CallerError([Problem("a case is a mapping", file=file)])
    given = cast("Mapping[str, Any]", obj)
    version = given.get("kubelet-emu-case")
    if version != CASE_FORMAT:
        hint = f"the first line of a case is kubelet-emu-case: {CASE_FORMAT}"
        raise CallerError([Problem(f"format {version!r} is not known", file=file, hint=hint)])
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    for key, value in given.items():
        field_name, read = _FIELDS.get(key, ("", None))
        if read is None:
            known = ", ".join(_FIELDS)
            problems.append(Problem(f"there is no field {key!r}", file=file, hint=f"known are {known}"))
            continue
        try:
            values[field_name] = read(value)
        except CallerError as error:
            problems += [Problem(one.message, path=one.path or key, file=file) for one in error.problems]
        except (TypeError, ValueError):
            problems.append(Problem(f"{_cut(value)} does not fit", path=key, file=file))
    if "documents" not in given:
        problems.append(Problem("documents are missing", file=file))
    if problems:
        raise CallerError(problems)
    del values[""]
    try:
        return Case(**values)
    except CallerError as error:
        raise CallerError([Problem(p.message, p.path, file, hint=p.hint) for p in error.problems]) from None


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _list(value: Any, read: Callable[[Any], Any]) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple(read(one) for one in cast("list[Any]", value))


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError
    return cast("Mapping[str, Any]", value)


def _gates(value: Any) -> Mapping[str, bool]:
    found = _mapping(value)
    if not all(isinstance(one, bool) for one in found.values()):
        raise TypeError
    return found


def _document(value: Any) -> Mapping[str, Any]:
    found = _mapping(value)
    _mapping(found.get("metadata"))
    return found


def _plan(value: Any) -> tuple[Step, ...]:
    return _list(value, lambda line: Step.parse(_text(line)))


_FIELDS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "kubelet-emu-case": ("", _whole),
    "seed": ("seed", _whole),
    "schedule": ("schedule", _text),
    "duration": ("duration_seconds", _seconds),
    "bugs": ("bugs", lambda value: _list(value, _text)),
    "fixes": ("fixes", lambda value: _list(value, _text)),
    "gates": ("gates", _gates),
    "devices": ("devices", lambda value: None if value is None else _text(value)),
    "plan": ("plan", _plan),
    "behaviours": ("behaviours", _mapping),
    "documents": ("documents", lambda value: _list(value, _document)),
}
