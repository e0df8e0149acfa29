"""What all API value classes share: the class decorator, equality, and how a field is written to JSON. (pure)

Kubernetes' Go types tell apart a pointer (absent differs from zero), a plain value with ``omitempty`` (zero
is left out) and a plain value that is always written. Here the type annotation of a field tells it:

===========================  =========================================================================
``str`` / ``int`` / ``bool``  always written, also when zero
``OmitStr``                   never None in Python, left out of JSON when empty
``str | None`` …              left out when None or zero; a zero in JSON becomes None (absent equals zero)
``PtrStr``, ``PtrBool`` …     a pointer: None is left out, a zero is a value of its own and is kept
``Time | None``, MicroTime    left out when None
``NullTime``, NullMicroTime   written as ``null`` when None
``X | None`` (a class)        a pointer to an object
``X`` (a class)               an embedded object: always written, as ``{}`` when empty
===========================  =========================================================================

The classes are attrs classes without attrs' own ``__eq__`` and ``__repr__``: generating those for a hundred
classes would double the time of importing them.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, cast, dataclass_transform, final

import attrs

__all__ = [
    "EMPTY",
    "ApiObject",
    "Int32",
    "Int64",
    "IntOrString",
    "JsonMap",
    "MicroTime",
    "NullMicroTime",
    "NullTime",
    "OmitStr",
    "PtrBool",
    "PtrInt32",
    "PtrInt64",
    "PtrStr",
    "Time",
    "WrittenTuple",
    "api_object",
]

T = TypeVar("T")


@final
class _EmptyMap(dict[str, Any]):
    """The one empty mapping that serves as default everywhere; refuses to be filled."""

    def __setitem__(self, key: str, value: Any) -> None:
        raise TypeError("this mapping belongs to a frozen value")


EMPTY: Mapping[str, Any] = _EmptyMap()

Int32 = Annotated[int, "int32"]
Int64 = Annotated[int, "int64"]
IntOrString = int | str
JsonMap = Mapping[str, Any]
Time = Annotated[int, "time"]
"""Unix nanoseconds; whole seconds in JSON (API-201)."""
MicroTime = Annotated[int, "microtime"]
"""Unix nanoseconds; six fractional digits in JSON (API-201)."""
NullTime = Annotated[int | None, "time", "null"]
NullMicroTime = Annotated[int | None, "microtime", "null"]
OmitStr = Annotated[str, "omit"]
PtrStr = Annotated[str | None, "ptr"]
PtrBool = Annotated[bool | None, "ptr"]
PtrInt32 = Annotated[int | None, "int32", "ptr"]
PtrInt64 = Annotated[int | None, "int64", "ptr"]
WrittenTuple = Annotated[tuple[T, ...], "null"]
"""A list that is written, as ``null``, even when it is empty."""


def _names(cls: type["ApiObject"]) -> tuple[str, ...]:
    return tuple(attribute.name for attribute in attrs.fields(cls))


def _rebuild(cls: type["ApiObject"], state: Mapping[str, Any]) -> "ApiObject":
    return cls(**state)


def _hashable(value: object) -> object:
    if isinstance(value, Mapping):
        return frozenset((key, _hashable(item)) for key, item in cast("JsonMap", value).items())
    if isinstance(value, list | tuple):
        return tuple(_hashable(element) for element in cast("Sequence[object]", value))
    return value


class ApiObject:
    """Base of all API value classes: frozen, keyword-only, equal by value.

    ``extra`` holds fields of the JSON object that this class does not know; they are written back untouched.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        __attrs_attrs__: ClassVar[tuple[attrs.Attribute[Any], ...]]
    _values: ClassVar[Callable[[Any], tuple[Any, ...]]]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        values = type(self)._values
        return values(self) == values(other)

    def __hash__(self) -> int:
        return hash((type(self).__name__, *map(_hashable, type(self)._values(self))))

    def __repr__(self) -> str:
        shown = [
            f"{attribute.name}={value!r}"
            for attribute in attrs.fields(type(self))
            if (value := getattr(self, attribute.name)) not in (None, (), EMPTY)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), {name: getattr(self, name) for name in _names(type(self))})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(attrs.field,))
def api_object(cls: type[T]) -> type[T]:
    """Make a lean frozen attrs class with slots; see the module's text for what the annotations mean."""
    made = attrs.define(
        frozen=True,
        kw_only=True,
        slots=True,
        eq=False,
        repr=False,
        order=False,
        auto_detect=False,
        match_args=False,
        weakref_slot=False,
        getstate_setstate=False,
    )(cls)
    made._values = attrgetter(*(a.name for a in made.__attrs_attrs__))  # type: ignore[attr-defined]
    return made
