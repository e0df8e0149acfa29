"""Errors of a field as the API server words and joins them. (pure)

``FieldError`` is a ``Problem`` whose message reads ``<type text>: <value>: <detail>``; its kind is the cause
reason that a Status carries. API-040 to API-048.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, cast

from attrs import frozen

from kubelet_emu.api.codec import to_json
from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types.base import ApiObject
from kubelet_emu.errors import Problem

__all__ = [
    "EnumText",
    "ErrorKind",
    "FieldError",
    "aggregate",
    "causes",
    "duplicate",
    "forbidden",
    "go_quote",
    "internal",
    "invalid",
    "invalid_message",
    "kubectl_message",
    "not_found",
    "not_supported",
    "render_value",
    "required",
    "too_long",
    "too_many",
]


class ErrorKind(StrEnum):
    """Type of a field error; the value is the ``reason`` of its cause in a Status (API-040)."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    TYPE_INVALID = "FieldValueTypeInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    INTERNAL = "InternalError"


_TEXTS: Mapping[ErrorKind, str] = {
    ErrorKind.NOT_FOUND: "Not found",
    ErrorKind.REQUIRED: "Required value",
    ErrorKind.DUPLICATE: "Duplicate value",
    ErrorKind.INVALID: "Invalid value",
    ErrorKind.TYPE_INVALID: "Invalid value",
    ErrorKind.NOT_SUPPORTED: "Unsupported value",
    ErrorKind.FORBIDDEN: "Forbidden",
    ErrorKind.TOO_LONG: "Too long",
    ErrorKind.TOO_MANY: "Too many",
    ErrorKind.INTERNAL: "Internal error",
}
_GO_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_HTML_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class EnumText(str):
    """A text of a named type, which Go prints as JSON and not quoted in its own way (API-041)."""

    __slots__ = ()


@frozen
class FieldError(Problem):
    """One error of validation. ``message`` has no path; ``detail`` is its last part alone."""

    kind: ErrorKind = ErrorKind.INVALID
    detail: str = ""

    @property
    def text(self) -> str:
        """The error with its path, as in a Status message; an empty path leaves its colon (API-044)."""
        return f"{self.path}: {self.message}"


def go_quote(text: str) -> str:
    """``text`` in double quotes with Go's escapes (the verb %q)."""
    made: list[str] = []
    for char in text:
        if char in '"\\':
            made.append("\\" + char)
        elif char in _GO_ESCAPES:
            made.append(_GO_ESCAPES[char])
        elif char.isprintable():
            made.append(char)
        else:
            code = ord(char)
            made.append(
                f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
            )
    return '"' + "".join(made) + '"'


def _json_text(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return "".join(_HTML_ESCAPES.get(char, char) for char in text)


def _plain(value: Any) -> Any:
    """A value made of API values as plain JSON. Go prints its own field names; nobody compares them."""
    if isinstance(value, ApiObject):
        return to_json(value)
    if isinstance(value, Quantity):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in sorted(cast("Mapping[str, Any]", value).items())}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("Sequence[Any]", value)]
    return value


def render_value(value: object) -> str:
    """The value as it stands in an error (API-041)."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str) and not isinstance(value, EnumText):
        return go_quote(value)
    return _json_text(_plain(value))


def _error(kind: ErrorKind, path: str, value: str, detail: str) -> FieldError:
    parts = [_TEXTS[kind], value, detail]
    return FieldError(": ".join(part for part in parts if part), path=path, kind=kind, detail=detail)


def required(path: str, detail: str = "") -> FieldError:
    return _error(ErrorKind.REQUIRED, path, "", detail)


def forbidden(path: str, detail: str) -> FieldError:
    return _error(ErrorKind.FORBIDDEN, path, "", detail)


def invalid(path: str, value: object, detail: str) -> FieldError:
    return _error(ErrorKind.INVALID, path, render_value(value), detail)


def duplicate(path: str, value: object) -> FieldError:
    return _error(ErrorKind.DUPLICATE, path, render_value(value), "")


def not_found(path: str, value: object, detail: str = "") -> FieldError:
    return _error(ErrorKind.NOT_FOUND, path, render_value(value), detail)


def not_supported(path: str, value: str | None, supported: Iterable[str]) -> FieldError:
    """``supported`` is listed as given: callers sort where the server holds a set (API-042)."""
    detail = "supported values: " + ", ".join(go_quote(name) for name in supported)
    shown = render_value(None if value is None else EnumText(value))
    return _error(ErrorKind.NOT_SUPPORTED, path, shown, detail)


def too_many(path: str, actual: int, limit: int) -> FieldError:
    return _error(ErrorKind.TOO_MANY, path, str(actual), f"must have at most {limit} items")


def too_long(path: str, limit: int) -> FieldError:
    return _error(ErrorKind.TOO_LONG, path, "", f"may not be more than {limit} bytes")


def internal(path: str, detail: str) -> FieldError:
    return _error(ErrorKind.INTERNAL, path, "", detail)


def aggregate(errors: Sequence[FieldError]) -> str:
    """All errors in one line: in brackets, equal texts once; a single one without brackets (API-045)."""
    texts = list(dict.fromkeys(error.text for error in errors))
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"


def invalid_message(kind: str, name: str, errors: Sequence[FieldError]) -> str:
    """The ``message`` of the 422 Status (API-046)."""
    return f"{kind} {go_quote(name)} is invalid: {aggregate(errors)}"


def causes(errors: Sequence[FieldError]) -> list[dict[str, str]]:
    """The ``details.causes`` of the 422 Status, one for each error (API-046)."""
    return [{"reason": str(error.kind), "message": error.message, "field": error.path} for error in errors]


def kubectl_message(kind: str, name: str, errors: Sequence[FieldError]) -> str:
    """What kubectl prints for such a Status (API-047)."""
    header = f"The {kind} {go_quote(name)} is invalid: "
    if len(errors) == 1:
        return header + errors[0].text
    return "\n".join([header, *(f"* {error.text}" for error in errors)])
