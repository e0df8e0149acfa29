"""Strict decoding: every unknown field and every wrong type of a JSON object, with its path. (pure)

Works on the same tables as the codec, so both know the same fields. Messages are those that kubectl shows
(API-180, API-183, API-184); hints name the nearest known field and the shapes of published examples that do
not work as printed (API-240, API-241).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from kubelet_emu.api.codec import go_kind, scalar_problem
from kubelet_emu.api.raw_shapes import RAW_FIELDS, RAW_TYPES
from kubelet_emu.api.schema import Kind, Shape, plan_of
from kubelet_emu.api.types import ApiObject
from kubelet_emu.errors import Problem

__all__ = ["MAX_PROBLEMS", "check_strict", "nearest"]

MAX_PROBLEMS = 100
"""At most so many problems of one object are listed (API-180)."""

_RULE_SHAPE = "write restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]"
_FIELD_HINTS: Mapping[tuple[str, str], str] = {
    ("ContainerRestartRule", "when"): f"exitCodes sits directly under the rule; {_RULE_SHAPE}",
    ("ContainerRestartRule", "onExit"): f"exitCodes sits directly under the rule; {_RULE_SHAPE}",
    ("ContainerRestartRule", "exitCode"): f"a rule has exitCodes; {_RULE_SHAPE}",
    (
        "ContainerRestartRule",
        "restartPolicy",
    ): "restartPolicy sits beside restartPolicyRules, in the container",
    ("ContainerRestartRule", "restartTimes"): "a rule cannot limit the number of restarts",
    ("Container", "containerRestartRules"): f"the field is called restartPolicyRules; {_RULE_SHAPE}",
    ("Container", "restartRules"): f"the field is called restartPolicyRules; {_RULE_SHAPE}",
    ("PodSpec", "restartPolicyRules"): "rules belong to a container, not to the pod",
    ("PodSpec", "sidecars"): "a sidecar is an entry of initContainers with restartPolicy: Always",
    ("Pod", "containers"): "containers belong under spec",
}

_RAW_SCALARS = {
    "string": Kind.STRING,
    "boolean": Kind.BOOL,
    "int32": Kind.INT32,
    "int64": Kind.INT64,
    "Time": Kind.TIME,
    "MicroTime": Kind.MICRO_TIME,
    "Quantity": Kind.QUANTITY,
    "IntOrString": Kind.INT_OR_STRING,
}


def nearest(name: str, known: Collection[str]) -> str:
    """The known name that ``name`` was probably meant to be, empty if none is near."""
    lower = {candidate.lower(): candidate for candidate in known}
    if name.lower() in lower:
        return lower[name.lower()]
    from difflib import get_close_matches

    matches = get_close_matches(name.lower(), lower, n=1, cutoff=0.75)
    return lower[matches[0]] if matches else ""


def _hint(owner: str, name: str, known: Collection[str]) -> str:
    special = _FIELD_HINTS.get((owner, name)) or _FIELD_HINTS.get((owner.removeprefix("Ephemeral"), name))
    if special:
        return special
    near = nearest(name, known)
    return f'did you mean "{near}"?' if near else ""


class _Check:
    """One walk over one object; collects problems in document order."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def full(self) -> bool:
        return len(self.problems) >= MAX_PROBLEMS

    def _unknown(self, path: str, owner: str, name: str, known: Collection[str]) -> None:
        if not self.full():
            place = f"{path}.{name}" if path else name
            message = f'unknown field "{place}"'
            self.problems.append(Problem(message, path=place, hint=_hint(owner, name, known)))

    def _mismatch(self, path: str, owner: str, text: str, value: object) -> None:
        if self.full():
            return
        if text.startswith("cannot unmarshal"):
            steps = ".".join(part.split("[")[0] for part in path.split("."))
            field = f"{owner}.{steps}" if owner and steps else steps
            place = f" into Go struct field {field} of type " if field else " into Go value of type "
            text = "json: " + text.replace(" into ", place, 1)
        wants_text = text.endswith("type string") and isinstance(value, bool | int | float)
        if wants_text and isinstance(value, bool):
            hint = "put it in quotes; unquoted yes, no, on, off, y and n are booleans too"
        else:
            hint = f'put it in quotes: "{value}"' if wants_text else ""
        self.problems.append(Problem(text, path=path, hint=hint))

    def value(self, shape: Shape, value: object, path: str, owner: str, name: str = "") -> None:
        """Check one value; null equals absent everywhere."""
        if value is None or self.full():
            return
        kind = shape.kind
        if kind is Kind.OBJECT and shape.cls is not None:
            self.typed(shape.cls, value, path, owner)
        elif kind is Kind.RAW:
            self._raw(RAW_FIELDS.get((owner, name), ""), value, path, owner)
        elif kind is Kind.LIST and shape.item is not None:
            if not isinstance(value, list | tuple):
                self._mismatch(
                    path, owner, f"cannot unmarshal {go_kind(value)} into {shape.go_name()}", value
                )
                return
            raw_item = RAW_FIELDS.get((owner, name), "").removeprefix("[]")
            for index, item in enumerate(cast("Iterable[object]", value)):
                if raw_item and item is not None:
                    self._raw(raw_item, item, f"{path}[{index}]", owner)
                else:
                    self.value(shape.item, item, f"{path}[{index}]", owner, name)
        elif kind is Kind.MAP and shape.item is not None:
            if not isinstance(value, Mapping):
                self._mismatch(
                    path, owner, f"cannot unmarshal {go_kind(value)} into {shape.go_name()}", value
                )
                return
            for key, item in cast("Mapping[str, object]", value).items():
                self.value(shape.item, item, f"{path}.{key}", owner)
        elif text := scalar_problem(shape, value):
            self._mismatch(path, owner, text, value)

    def typed(self, cls: type[ApiObject], value: object, path: str, owner: str = "") -> None:
        """Check an object of a known class."""
        if not isinstance(value, Mapping):
            self._mismatch(path, owner, f"cannot unmarshal {go_kind(value)} into v1.{cls.__name__}", value)
            return
        plan = plan_of(cls)
        name = cls.__name__
        for key, item in cast("Mapping[str, object]", value).items():
            field = plan.by_json.get(key)
            place = f"{path}.{key}" if path else key
            if field is not None:
                self.value(field.shape, item, place, name, key)
            elif (name, key) in RAW_FIELDS:
                self._raw(RAW_FIELDS[name, key], item, place, name)
            else:
                known = (*plan.by_json, *(json for owner_name, json in RAW_FIELDS if owner_name == name))
                self._unknown(path, name, key, known)

    def _raw(self, type_name: str, value: Any, path: str, owner: str) -> None:
        """Check a part that has no class of its own."""
        if value is None or self.full():
            return
        if type_name in _RAW_SCALARS:
            if text := scalar_problem(Shape(_RAW_SCALARS[type_name]), value):
                self._mismatch(path, owner, text, value)
        elif type_name.startswith("[]"):
            if not isinstance(value, list | tuple):
                self._mismatch(path, owner, f"cannot unmarshal {go_kind(value)} into {type_name}", value)
                return
            for index, item in enumerate(cast("Iterable[object]", value)):
                self._raw(type_name[2:], item, f"{path}[{index}]", owner)
        elif not isinstance(value, Mapping):
            self._mismatch(path, owner, f"cannot unmarshal {go_kind(value)} into v1.{type_name}", value)
        elif type_name.startswith("map[string]"):
            for key, item in cast("Mapping[str, object]", value).items():
                self._raw(type_name.removeprefix("map[string]"), item, f"{path}.{key}", owner)
        elif type_name in RAW_TYPES:
            self._raw_object(type_name, cast("Mapping[str, object]", value), path)

    def _raw_object(self, type_name: str, value: Mapping[str, object], path: str) -> None:
        fields = RAW_TYPES[type_name]
        for key, item in value.items():
            if key in fields:
                self._raw(fields[key], item, f"{path}.{key}", type_name)
            else:
                self._unknown(path, type_name, key, fields)


def check_strict(cls: type[ApiObject], obj: object) -> tuple[Problem, ...]:
    """All unknown fields and wrong types of a JSON object meant to be a ``cls``, at most ``MAX_PROBLEMS``."""
    check = _Check()
    check.typed(cls, obj, "")
    return tuple(check.problems)
