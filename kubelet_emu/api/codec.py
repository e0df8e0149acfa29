"""JSON objects to API values and back, driven by tables made from the classes' annotations. (pure)

Reading is lenient, as the API machinery's is for stored objects: fields that a class does not know are kept
in ``extra`` and written back, null equals absent, and a zero of a field that the API leaves out when zero
becomes None. A value of a wrong type is always an error (API-183). Writing leaves out what the API server
leaves out and writes what it always writes. Raw parts (``extra``, ``affinity`` …) are shared with the JSON
object that was read, not copied.

Why not cattrs: its hooks have to be generated and compiled for each class, about 1 ms each, and a pod with
its status touches some forty classes before the first byte is read. Tables cost a few microseconds a field,
keep the order and presence of fields in one place, and let errors carry a path. API-040 has the path format.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from attrs import evolve

from kubelet_emu.api.quantity import Quantity, QuantityError
from kubelet_emu.api.schema import FieldPlan, Kind, Presence, Shape, plan_of
from kubelet_emu.api.times import TimeError, format_micro, format_seconds, parse_rfc3339
from kubelet_emu.api.types.base import ApiObject
from kubelet_emu.api.types.pod import Pod
from kubelet_emu.api.types.status import PodStatus
from kubelet_emu.errors import CallerError, Problem

__all__ = [
    "DecodeError",
    "from_json",
    "go_kind",
    "pod_from_json",
    "pod_to_json",
    "scalar_problem",
    "status_from_json",
    "status_to_json",
    "to_json",
]

T = TypeVar("T", bound=ApiObject)
Decoder = Callable[[Any], Any]
Encoder = Callable[[Any], Any]

_INT_LIMITS = {Kind.INT32: 2**31, Kind.INT64: 2**63}
_SCALAR_KINDS = (Kind.STRING, Kind.BOOL, Kind.INT32, Kind.INT64)


class DecodeError(CallerError):
    """Raised for a JSON value of the wrong type; ``path`` is its place, the message reads as Go's does."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.steps: list[str] = []
        self.owner = ""
        super().__init__(message)

    def under(self, step: str, owner: str = "") -> None:
        """Note that the error lies below ``step``; the innermost ``owner`` is the Go struct of the field."""
        self.steps.insert(0, step)
        self.owner = self.owner or owner
        text = self.message
        if text.startswith("cannot unmarshal"):
            fields = ".".join(part.split("[")[0] for part in self.steps if not part.startswith("["))
            text = "json: " + text.replace(
                " into ", f" into Go struct field {self.owner}.{fields} of type ", 1
            )
        self.problems = (Problem(text, path=self.path),)
        self.args = (f"{self.path}: {text}",)

    @property
    def path(self) -> str:
        return "".join(
            step if step.startswith("[") or not place else f".{step}" for place, step in enumerate(self.steps)
        )


def go_kind(value: object) -> str:
    """What Go's JSON errors call a value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "number"
    if isinstance(value, float):
        return f"number {value!r}"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def scalar_problem(shape: Shape, value: object) -> str:
    """Why ``value`` is no scalar of that shape, empty if it is one. Null is not asked about."""
    kind = shape.kind
    if kind is Kind.STRING:
        good = isinstance(value, str)
    elif kind is Kind.BOOL:
        good = isinstance(value, bool)
    elif kind in (Kind.INT32, Kind.INT64):
        good = type(value) is int
        if type(value) is int and not -_INT_LIMITS[kind] <= value < _INT_LIMITS[kind]:
            return f"cannot unmarshal number {value} into {shape.go_name()}"
    else:
        return _special_problem(shape, value)
    return "" if good else f"cannot unmarshal {go_kind(value)} into {shape.go_name()}"


def _special_problem(shape: Shape, value: object) -> str:
    kind = shape.kind
    try:
        if kind is Kind.QUANTITY:
            Quantity.from_json(value)
        elif kind in (Kind.TIME, Kind.MICRO_TIME):
            if not isinstance(value, str):
                return f"cannot unmarshal {go_kind(value)} into {shape.go_name()}"
            parse_rfc3339(value)
        elif kind is Kind.INT_OR_STRING and not isinstance(value, str):
            return scalar_problem(Shape(Kind.INT32), value)
    except (QuantityError, TimeError) as error:
        return error.problems[0].message
    return ""


def _checked(shape: Shape) -> Decoder:
    def decode(value: Any) -> Any:
        problem = scalar_problem(shape, value)
        if problem:
            raise DecodeError(problem)
        return value

    return decode


def _converted_by(shape: Shape, convert: Callable[[Any], Any]) -> Decoder:
    """What is converted is looked at by the conversion itself; its fault is put into the API's words."""

    def decode(value: Any) -> Any:
        try:
            return convert(value)
        except (QuantityError, TimeError, TypeError):
            raise DecodeError(scalar_problem(shape, value)) from None

    return decode


def _decode_bool(value: Any) -> bool:
    if value is True or value is False:
        return value
    raise DecodeError(scalar_problem(Shape(Kind.BOOL), value))


def _decode_string(value: Any) -> str:
    if type(value) is str:
        return value
    raise DecodeError(f"cannot unmarshal {go_kind(value)} into string")


def _list_decoder(shape: Shape) -> Decoder:
    assert shape.item is not None
    decode_item = _decoder(shape.item)
    name = shape.go_name()
    blank = _blank(shape.item)

    def decode(value: Any) -> tuple[Any, ...]:
        if type(value) is not list and not isinstance(value, list | tuple):
            raise DecodeError(f"cannot unmarshal {go_kind(value)} into {name}")
        items: list[Any] = []
        for index, item in enumerate(cast("Iterable[Any]", value)):
            try:
                items.append(blank() if item is None else decode_item(item))
            except DecodeError as error:
                error.under(f"[{index}]")
                raise
        return tuple(items)

    return decode


def _map_decoder(shape: Shape) -> Decoder:
    assert shape.item is not None
    decode_item = _decoder(shape.item)
    name = shape.go_name()
    blank = _blank(shape.item)

    def decode(value: Any) -> dict[str, Any]:
        if type(value) is not dict and not isinstance(value, Mapping):
            raise DecodeError(f"cannot unmarshal {go_kind(value)} into {name}")
        items: dict[str, Any] = {}
        for key, item in cast("Mapping[str, Any]", value).items():
            try:
                items[key] = blank() if item is None else decode_item(item)
            except DecodeError as error:
                error.under(f"[{key}]")
                raise
        return items

    return decode


def _decode_raw(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise DecodeError(f"cannot unmarshal {go_kind(value)} into v1.Object")
    return cast("Any", value)


def _blank(shape: Shape) -> Callable[[], Any]:
    """What null becomes inside a list or a map: the zero value."""
    if shape.kind is Kind.OBJECT and shape.cls is not None:
        return shape.cls
    zeros: Mapping[Kind, Callable[[], Any]] = {
        Kind.STRING: str,
        Kind.BOOL: bool,
        Kind.QUANTITY: Quantity,
        Kind.RAW: dict,
        Kind.LIST: tuple,
        Kind.MAP: dict,
    }
    return zeros.get(shape.kind, int)


def _object_decoder(cls: type[ApiObject]) -> Decoder:
    """The decoder of a class, whose table is made when it is first needed: classes may contain each other."""
    table: _Table | None = None

    def decode(value: Any) -> Any:
        nonlocal table
        if table is None:
            table = _table(cls)
        return table.decode(value)

    return decode


def _decoder(shape: Shape) -> Decoder:
    kind = shape.kind
    if kind is Kind.STRING:
        return _decode_string
    if kind is Kind.OBJECT:
        cls = shape.cls
        assert cls is not None
        return _object_decoder(cls)
    if kind is Kind.LIST:
        return _list_decoder(shape)
    if kind is Kind.MAP:
        return _map_decoder(shape)
    if kind is Kind.RAW:
        return _decode_raw
    if kind is Kind.QUANTITY:
        return _converted_by(shape, Quantity.from_json)
    if kind in (Kind.TIME, Kind.MICRO_TIME):
        return _converted_by(shape, parse_rfc3339)
    if kind is Kind.BOOL:
        return _decode_bool
    return _checked(shape)


def _same(value: Any) -> Any:
    return value


def _encoder(shape: Shape) -> Encoder:
    kind = shape.kind
    if kind is Kind.OBJECT:
        return to_json
    if kind is Kind.QUANTITY:
        return str
    if kind is Kind.TIME:
        return format_seconds
    if kind is Kind.MICRO_TIME:
        return format_micro
    if kind is Kind.LIST:
        encode = _encoder(shape.item) if shape.item else _same
        return list if encode is _same else lambda value: [encode(item) for item in value]
    if kind is Kind.MAP:
        encode = _encoder(shape.item) if shape.item else _same
        return lambda value: {key: encode(value[key]) for key in sorted(value)}
    return _same


class _Table:
    """Decoders and encoders of one class."""

    def __init__(self, cls: type[ApiObject]) -> None:
        plan = plan_of(cls)
        self.cls = cls
        self.read: dict[str, tuple[str, Decoder, bool]] = {}
        self.write: list[tuple[str, str, Encoder, Presence]] = []
        for field in plan.fields:
            self.read[field.json] = (field.name, _decoder(field.shape), _drops_zero(field))
            self.write.append((field.name, field.json, _encoder(field.shape), field.presence))

    def decode(self, obj: Any) -> Any:
        if type(obj) is not dict and not isinstance(obj, Mapping):
            raise DecodeError(f"cannot unmarshal {go_kind(obj)} into v1.{self.cls.__name__}")
        read = self.read
        given: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for key, value in cast("Mapping[str, Any]", obj).items():
            entry = read.get(key)
            if entry is None:
                extra[key] = value
                continue
            if value is None:
                continue
            name, decode, drops_zero = entry
            try:
                decoded = decode(value)
            except DecodeError as error:
                error.under(key, self.cls.__name__)
                raise
            if decoded or not drops_zero:
                given[name] = decoded
        if extra:
            given["extra"] = extra
        return self.cls(**given)

    def encode(self, value: ApiObject) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, json, encode, presence in self.write:
            item = getattr(value, name)
            if item is None or (type(item) is tuple and not item):
                if presence is Presence.NULL:
                    made[json] = None
                continue
            if presence is Presence.OMIT_ZERO and not item:
                continue
            made[json] = encode(item)
        extra = cast("Mapping[str, Any]", getattr(value, "extra"))  # noqa: B009 - the base has no such field
        if extra:
            made.update(extra)
        return made


def _drops_zero(field: FieldPlan) -> bool:
    return field.presence is Presence.OMIT_ZERO and field.shape.kind in _SCALAR_KINDS


_tables: dict[type[ApiObject], _Table] = {}


def _table(cls: type[ApiObject]) -> _Table:
    known = _tables.get(cls)
    if known is None:
        known = _tables[cls] = _Table(cls)
    return known


def from_json(cls: type[T], obj: object) -> T:
    """The value of class ``cls`` that the JSON object ``obj`` denotes; raises ``DecodeError``."""
    return cast("T", _table(cls).decode(obj))


def to_json(value: ApiObject) -> dict[str, Any]:
    """The JSON object of any API value, with the fields in the order in which the API server writes them."""
    return _table(type(value)).encode(value)


def pod_from_json(obj: object) -> Pod:
    """A Pod from its JSON object; a negative grace period becomes 1 (API-006); raises ``DecodeError``."""
    pod = from_json(Pod, obj)
    seconds = pod.spec.termination_grace_period_seconds
    account = pod.spec.service_account_name or pod.spec.service_account
    if (seconds is None or seconds >= 0) and account == pod.spec.service_account:
        return pod
    return _converted(pod)


def _converted(pod: Pod) -> Pod:
    """What the API machinery changes while it decodes a Pod: API-005 (service account alias) and API-006."""
    seconds = pod.spec.termination_grace_period_seconds
    account = pod.spec.service_account_name or pod.spec.service_account
    spec = evolve(
        pod.spec,
        service_account=account,
        service_account_name=account,
        termination_grace_period_seconds=1 if seconds is not None and seconds < 0 else seconds,
    )
    return evolve(pod, spec=spec)


def pod_to_json(pod: Pod) -> dict[str, Any]:
    """The JSON object of a Pod."""
    return to_json(pod)


def status_from_json(obj: object) -> PodStatus:
    """A PodStatus from its JSON object; raises ``DecodeError``."""
    return from_json(PodStatus, obj)


def status_to_json(status: PodStatus) -> dict[str, Any]:
    """The JSON object of a PodStatus."""
    return to_json(status)
