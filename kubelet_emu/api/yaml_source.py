"""Text to JSON values, with the line of every field: YAML as Kubernetes' clients read it, or JSON. (pure)

Scalars resolve as in the YAML library behind kubectl, not as PyYAML's default does (API-185): ``yes``,
``on``,
``y`` and their like are booleans, ``017`` is octal 15, ``1_000`` is 1000, ``1e3`` is 1000, times and dates
stay strings, there is no base 60. Keys become strings. A duplicate key is a problem, with its line. Anchors
and merge keys work; what they expand to is bounded.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import yaml
from attrs import field, frozen

from kubelet_emu.errors import Problem

__all__ = ["MAX_VALUES", "Document", "line_of", "parse_documents"]

MAX_VALUES: Final = 400_000
"""Most values one text may hold once its aliases are expanded."""

_MAX_DEPTH: Final = 200
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAG = "tag:plain"
_BOOLS = {
    word: truth
    for words, truth in ((("y", "yes", "true", "on"), True), (("n", "no", "false", "off"), False))
    for base in words
    for word in (base, base.capitalize(), base.upper())
}
_NULLS = {"", "~", "null", "Null", "NULL"}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INT = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO](?P<oct>[0-7]+)|0(?P<old>[0-7]+)"
    r"|(?P<dec>0|[1-9][0-9]*))"
)
_BASES = {"hex": 16, "bin": 2, "oct": 8, "old": 8, "dec": 10}


@frozen
class Document:
    """One document of a text: its JSON value and the 1-based line at which each path of it begins.

    Paths are written ``spec.containers[0].image``; the whole document has the path ``""``.
    """

    value: Any
    lines: Mapping[str, int] = field(factory=dict[str, int], eq=False)
    problems: tuple[Problem, ...] = ()


def line_of(lines: Mapping[str, int], path: str) -> int:
    """The line of ``path``, else of the nearest part of it that the text holds; 0 if nothing is known.

    Accepts the paths of validation too, which write map keys in brackets: ``limits[cpu]``.
    """
    place = re.sub(r"\[([^\]0-9][^\]]*)\]", r".\1", path)
    while place:
        if place in lines:
            return lines[place]
        cut = max(place.rfind("."), place.rfind("["))
        place = place[:cut] if cut > 0 else ""
    return lines.get("", 0)


class _Loader(yaml.CSafeLoader):
    """The C parser; it only marks plain scalars as such, what they are is decided here (``_plain``)."""

    yaml_implicit_resolvers: dict[Any, Any] = {None: [(_PLAIN_TAG, re.compile(""))]}


class _Refused(Exception):
    """A document that cannot be made into a value."""

    def __init__(self, message: str, line: int) -> None:
        self.message = message
        self.line = line
        super().__init__(message)


def _number(text: str) -> int | float | None:
    plain = text.replace("_", "")
    match = _INT.fullmatch(plain)
    if match:
        name = cast("str", match.lastgroup)
        value = int(match[name], _BASES[name])
        return -value if match["sign"] == "-" else value
    if _FLOAT.fullmatch(plain):
        value = float(plain)
        if value == value and abs(value) < 1e21 and value == int(value):
            return int(value)
        return value
    return None


def _plain(text: str) -> Any:
    """What an unquoted scalar is."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if text[0] in "+-.0123456789":
        number = _number(text)
        return text if number is None else number
    return text


def _tagged(tag: str, text: str, line: int) -> Any:
    """What a scalar with an explicit tag is."""
    kind = tag.removeprefix(_TAG)
    value = _plain(text)
    if kind == "str":
        return text
    if kind == "binary":
        try:
            return base64.b64decode("".join(text.split()), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise _Refused("!!binary value is not base64 of UTF-8 text", line) from None
    if kind == "null":
        return None
    wanted: Mapping[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float)}
    if isinstance(value, wanted.get(kind, ())):
        return value
    raise _Refused(f"cannot decode {text!r} as {tag.replace(_TAG, '!!')}", line)


def _key_text(value: Any, line: int) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise _Refused("a key has to be a plain scalar", line)


class _Builder:
    """Makes the value of one document from its nodes."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []
        self.count = 0
        self.open: set[int] = set()

    def build(self, node: yaml.Node, path: str) -> Any:
        line = node.start_mark.line + 1
        self.count += 1
        if self.count > MAX_VALUES:
            raise _Refused("document contains excessive aliasing or is too large", line)
        if id(node) in self.open:
            raise _Refused("an anchor's value contains itself", line)
        self.lines.setdefault(path, line)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, line)
        if len(self.open) > _MAX_DEPTH:
            raise _Refused("nested too deeply", line)
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            items = cast("list[yaml.Node]", node.value)
            return [self.build(item, f"{path}[{index}]") for index, item in enumerate(items)]
        finally:
            self.open.discard(id(node))

    def _scalar(self, node: yaml.ScalarNode, line: int) -> Any:
        text = cast("str", node.value)
        if node.tag == _PLAIN_TAG:
            return _plain(text)
        return text if node.tag in (f"{_TAG}str", "!") else _tagged(node.tag, text, line)

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        made: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise _Refused("a key has to be a plain scalar", line)
            if key_node.value == "<<" and key_node.tag == _PLAIN_TAG:
                self._merge(value_node, path, merged)
                continue
            key = _key_text(self._scalar(key_node, line), line)
            place = f"{path}.{key}" if path else key
            if key in made:
                self.problems.append(
                    Problem(f'duplicate field "{place}"', path=place, line=line, hint="keep one of the two")
                )
            self.lines[place] = line
            made[key] = self.build(value_node, place)
        for key, value in merged.items():
            made.setdefault(key, value)
        return made

    def _merge(self, node: yaml.Node, path: str, merged: dict[str, Any]) -> None:
        sources = cast("list[yaml.Node]", node.value) if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                raise _Refused(
                    "map merge requires map or sequence of maps as the value", node.start_mark.line + 1
                )
            for key, value in self.build(source, path).items():
                merged.setdefault(key, value)


def _yaml_problem(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 0
    what = error.problem or error.context or "malformed"
    place = f"line {line}: " if line else ""
    return Problem(f"error converting YAML to JSON: yaml: {place}{what}", line=line, hint=_syntax_hint(what))


def _syntax_hint(what: str) -> str:
    if "cannot start any token" in what:
        return "indent with blanks, not with tabs"
    if "mapping values are not allowed" in what:
        return "look for a wrong indentation, or a ': ' inside a text that needs quotes"
    return ""


def _yaml_documents(text: str) -> Iterator[Document]:
    loader = _Loader(text)
    try:
        while True:
            try:
                more = loader.check_node()
                node = loader.get_node() if more else None
            except yaml.MarkedYAMLError as error:
                yield Document(None, {}, (_yaml_problem(error),))
                return
            except (yaml.YAMLError, RecursionError) as error:
                what = "nested too deeply" if isinstance(error, RecursionError) else str(error).split("\n")[0]
                yield Document(None, {}, (Problem(f"error converting YAML to JSON: yaml: {what}"),))
                return
            if not more:
                return
            if node is None:
                continue
            builder = _Builder()
            try:
                value = builder.build(node, "")
                yield Document(value, builder.lines, tuple(builder.problems))
            except _Refused as error:
                problem = Problem(f"error converting YAML to JSON: yaml: {error.message}", line=error.line)
                yield Document(None, builder.lines, (problem,))
    finally:
        loader.dispose()


def _json_documents(text: str) -> Iterator[Document] | None:
    """The documents of JSON text, None if it is none (or its lines could not be told)."""
    duplicates = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal duplicates
        made = dict(items)
        duplicates = duplicates or len(made) != len(items)
        return made

    decoder = json.JSONDecoder(object_pairs_hook=pairs)
    place = 0
    found: list[Document] = []
    while (start := len(text) - len(text[place:].lstrip())) < len(text):
        try:
            value, place = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return None
        found.append(Document(value, {"": text.count("\n", 0, start) + 1}))
    return None if duplicates else iter(found)


def parse_documents(text: str) -> list[Document]:
    """All documents of a text in order. Never raises: what is wrong is told in ``Document.problems``.

    A document that is empty or null is left out, as kubectl does.
    """
    documents = list(_yaml_documents(text))
    if text.lstrip()[:1] in ("{", "[") and any(document.problems for document in documents):
        as_json = _json_documents(text)
        if as_json is not None:
            documents = list(as_json)
    return [document for document in documents if document.value is not None or document.problems]
