"""Values as Go's deep printer shows them, and the checksum over that text (pure).

Mirrors ``pkg/util/hash/hash.go`` (DeepHashObject) and ``pkg/kubelet/checkpointmanager/checksum`` (DEV-083).
A value here is what the printer says of it: ``Struct``, ``Typed`` and plain Python values.
"""

from collections.abc import Mapping
from typing import Any, cast

from attrs import frozen

__all__ = ["Struct", "Typed", "checksum", "fnv1a_32", "show"]

_OFFSET_BASIS = 2166136261
_PRIME = 16777619


@frozen
class Typed:
    """A value with its Go type, as the fields of a struct are shown: ``(string)value``."""

    go_type: str
    value: Any


@frozen
class Struct:
    """A struct: fields in order, each usually a ``Typed``. Shown without its type where it is an element."""

    fields: Mapping[str, Any]
    pointer: bool = False
    """Whether it is an element behind a pointer, which is shown as ``<*>``."""


def show(value: Any) -> str:
    """The text of a value: maps by sorted key, slices in their order, None as ``<nil>``, bytes in decimal."""
    if isinstance(value, Typed):
        return f"({value.go_type}){show(value.value)}"
    if isinstance(value, Struct):
        inside = " ".join(f"{name}:{show(each)}" for name, each in value.fields.items())
        return ("<*>" if value.pointer else "") + "{" + inside + "}"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return "[" + " ".join(map(str, value)) + "]"
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value)
        return "map[" + " ".join(f"{show(key)}:{show(items[key])}" for key in sorted(items)) + "]"
    if isinstance(value, list | tuple):
        return "[" + " ".join(show(each) for each in cast("list[Any]", value)) + "]"
    return str(value)


def fnv1a_32(data: bytes) -> int:
    """The 32-bit FNV-1a hash."""
    state = _OFFSET_BASIS
    for byte in data:
        state = (state ^ byte) * _PRIME & 0xFFFFFFFF
    return state


def checksum(value: Any) -> int:
    """The checksum of a value as the checkpoint manager computes it."""
    return fnv1a_32(show(value).encode())
