"""The wire form of each API class, read from its annotations: names, kinds, what is left out. (pure)

``plan_of(Pod)`` is what the codec and the strict decoder both read, so a class is described in one place
only: its own annotations (see ``kubelet_emu.api.types.base``). A plan is made at the first use of its class.
"""

import types
from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Any, ClassVar, Union, cast, get_args, get_origin

from attrs import fields, frozen

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types.base import ApiObject

__all__ = ["ClassPlan", "FieldPlan", "Kind", "Presence", "Shape", "json_name", "plan_of"]

_ACRONYMS = {
    "ip": "IP",
    "ips": "IPs",
    "id": "ID",
    "pid": "PID",
    "ipc": "IPC",
    "uuid": "UUID",
    "cidr": "CIDR",
    "cidrs": "CIDRs",
    "fqdn": "FQDN",
    "api": "API",
}
_ODD_NAMES = {("DaemonEndpoint", "port"): "Port"}


class Kind(IntEnum):
    """What a JSON value is."""

    STRING = 1
    BOOL = 2
    INT32 = 3
    INT64 = 4
    TIME = 5
    MICRO_TIME = 6
    QUANTITY = 7
    INT_OR_STRING = 8
    OBJECT = 9
    LIST = 10
    MAP = 11
    RAW = 12


class Presence(IntEnum):
    """When a field is left out of JSON."""

    ALWAYS = 0
    OMIT_NONE = 1
    OMIT_ZERO = 2
    NULL = 3
    """Never left out; written as null while there is nothing to write."""


@frozen
class Shape:
    """Kind of a value; ``cls`` for an object, ``item`` for the elements of a list or a map."""

    kind: Kind
    cls: type[ApiObject] | None = None
    item: "Shape | None" = None

    def go_name(self) -> str:
        """The type as Go's JSON errors print it."""
        item = self.item.go_name() if self.item else "interface {}"
        names = {
            Kind.STRING: "string",
            Kind.BOOL: "bool",
            Kind.INT32: "int32",
            Kind.INT64: "int64",
            Kind.OBJECT: f"v1.{self.cls.__name__}" if self.cls else "v1.Object",
            Kind.LIST: f"[]{item}",
            Kind.MAP: f"map[string]{item}",
            Kind.QUANTITY: "resource.Quantity",
            Kind.INT_OR_STRING: "intstr.IntOrString",
            Kind.RAW: "v1.Object",
        }
        return names.get(self.kind, "v1.Time")


@frozen
class FieldPlan:
    """One field: attribute and JSON name, shape, and when it is left out."""

    name: str
    json: str
    shape: Shape
    presence: Presence


@frozen
class ClassPlan:
    """All fields of one class in the order in which they are written; ``by_json`` finds them on reading."""

    cls: type[ApiObject]
    fields: tuple[FieldPlan, ...]
    by_json: Mapping[str, FieldPlan]


def json_name(cls_name: str, name: str) -> str:
    """The JSON name of an attribute: ``pod_ips`` is ``podIPs``."""
    odd = _ODD_NAMES.get((cls_name, name))
    if odd:
        return odd
    first, *rest = name.split("_")
    return first + "".join(_ACRONYMS.get(word) or word.capitalize() for word in rest)


def _is_object(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, ApiObject)


_SCALARS: Mapping[object, Kind] = {
    str: Kind.STRING,
    bool: Kind.BOOL,
    int: Kind.INT64,
    Quantity: Kind.QUANTITY,
}
_MARKED = {"int32": Kind.INT32, "int64": Kind.INT64, "time": Kind.TIME, "microtime": Kind.MICRO_TIME}


class _Reading:
    """Reads one annotation into shape, markers and whether None is allowed."""

    _UNIONS: ClassVar[tuple[object, ...]] = (Union, types.UnionType)

    def __init__(self, annotation: Any) -> None:
        self.markers: set[str] = set()
        self.optional = False
        self.shape = self._read(annotation)

    def _read(self, annotation: Any) -> Shape:
        origin = get_origin(annotation)
        if origin is Annotated:
            inner, *markers = get_args(annotation)
            self.markers.update(markers)
            return self._read(inner)
        if origin in self._UNIONS:
            members = [member for member in get_args(annotation) if member is not type(None)]
            if len(members) == 2:
                return Shape(Kind.INT_OR_STRING)
            self.optional = True
            return self._read(members[0])
        if origin is tuple:
            return Shape(Kind.LIST, item=_Reading(get_args(annotation)[0]).shape)
        if origin is not None:
            item = get_args(annotation)[1]
            return Shape(Kind.RAW) if item is Any else Shape(Kind.MAP, item=_Reading(item).shape)
        if _is_object(annotation):
            return Shape(Kind.OBJECT, cls=cast("type[ApiObject]", annotation))
        kind = next((_MARKED[marker] for marker in self.markers if marker in _MARKED), None)
        return Shape(kind or _SCALARS[annotation])


_ZEROABLE = {Kind.STRING, Kind.BOOL, Kind.INT32, Kind.INT64, Kind.LIST, Kind.MAP}


def _presence(reading: _Reading) -> Presence:
    kind = reading.shape.kind
    if "null" in reading.markers:
        return Presence.NULL
    if "omit" in reading.markers or kind in (Kind.LIST, Kind.MAP):
        return Presence.OMIT_ZERO
    if not reading.optional:
        return Presence.ALWAYS
    if "ptr" in reading.markers or kind not in _ZEROABLE:
        return Presence.OMIT_NONE
    return Presence.OMIT_ZERO


_plans: dict[type[ApiObject], ClassPlan] = {}


def plan_of(cls: type[ApiObject]) -> ClassPlan:
    """The wire form of ``cls``."""
    known = _plans.get(cls)
    if known is not None:
        return known
    made: list[FieldPlan] = []
    for attribute in fields(cls):
        if attribute.name == "extra":
            continue
        reading = _Reading(attribute.type)
        json = json_name(cls.__name__, attribute.name)
        made.append(FieldPlan(attribute.name, json, reading.shape, _presence(reading)))
    plan = ClassPlan(cls, tuple(made), {field.json: field for field in made})
    _plans[cls] = plan
    return plan
