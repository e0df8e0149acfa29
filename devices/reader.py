"""Walks the nodes of a YAML document, so that every mistake in a profile has its line (pure)."""

from collections.abc import Callable, Mapping
from typing import Any

from devices.model import MountSpec, NodeSpec
from devices.setup import parse_duration
from node_host.faults import FaultSyntaxError, parse

__all__ = ["MAX_DEVICES", "Read", "Reader"]

MAX_DEVICES = 100_000

Read = Callable[[Any, str], Any]
"""Reads one node; the text names it in messages. None for a node that is reported as wrong."""


class Reader:
    """Walks YAML nodes and keeps every problem with its line."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.problems: list[tuple[str, str]] = []

    def problem(self, node: Any, text: str) -> None:
        self.problems.append((f"{self._file}:{node.start_mark.line + 1}", text))

    def items(self, node: Any, what: str) -> list[tuple[str, Any, Any]]:
        """Key, key node and value node of a mapping."""
        if node.id != "mapping":
            self.problem(node, f"{what} must be a mapping")
            return []
        seen: dict[str, tuple[str, Any, Any]] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in seen:
                self.problem(key_node, f"{what} has the key {key!r} twice")
            seen.setdefault(key, (key, key_node, value_node))
        return list(seen.values())

    def fields(self, node: Any, what: str, known: Mapping[str, Read]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, key_node, value_node in self.items(node, what):
            read = known.get(key)
            if read is None:
                self.problem(key_node, f"{what}: unknown field {key!r}; known are {', '.join(known)}")
                continue
            value = read(value_node, f"{what}.{key}")
            if value is not None:
                found[key] = value
        return found

    def text(self, node: Any, what: str) -> str | None:
        if node.id == "scalar":
            return str(node.value)
        self.problem(node, f"{what} must be a text")
        return None

    def number(self, node: Any, what: str, low: int = 0, high: int = MAX_DEVICES) -> int | None:
        text = str(node.value) if node.id == "scalar" else ""
        if text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high:
            return int(text)
        self.problem(node, f"{what} must be a number from {low} to {high}")
        return None

    def flag(self, node: Any, what: str) -> bool | None:
        value = {"true": True, "false": False}.get(str(node.value)) if node.id == "scalar" else None
        if value is None:
            self.problem(node, f"{what} must be true or false")
        return value

    def word(self, *allowed: str) -> Read:
        def read(node: Any, what: str) -> str | None:
            text = self.text(node, what)
            if text is None or text in allowed:
                return text
            self.problem(node, f"{what} must be one of {', '.join(allowed)}, not {text!r}")
            return None

        return read

    def list_of(self, read: Read) -> Read:
        def read_all(node: Any, what: str) -> list[Any] | None:
            if node.id != "sequence":
                self.problem(node, f"{what} must be a list")
                return None
            found = [read(each, f"{what}[{index}]") for index, each in enumerate(node.value)]
            return [value for value in found if value is not None]

        return read_all

    def map_of(self, read: Read) -> Read:
        def read_all(node: Any, what: str) -> dict[str, Any]:
            found = {key: read(value, f"{what}.{key}") for key, _, value in self.items(node, what)}
            return {key: value for key, value in found.items() if value is not None}

        return read_all

    def mount(self, node: Any, what: str) -> MountSpec | None:
        known: dict[str, Read] = {"hostPath": self.text, "containerPath": self.text, "readOnly": self.flag}
        found = self.fields(node, what, known)
        if "hostPath" not in found:
            self.problem(node, f"{what}: hostPath is missing")
            return None
        return MountSpec(
            found.get("containerPath", found["hostPath"]), found["hostPath"], found.get("readOnly", False)
        )

    def device_node(self, node: Any, what: str) -> NodeSpec | None:
        known: dict[str, Read] = {
            "hostPath": self.text,
            "containerPath": self.text,
            "permissions": self.text,
        }
        found = self.fields(node, what, known)
        if "hostPath" not in found:
            self.problem(node, f"{what}: hostPath is missing")
            return None
        return NodeSpec(found["hostPath"], found.get("containerPath", ""), found.get("permissions", "rw"))

    def faults(self, node: Any, what: str) -> str | None:
        text = self.text(node, what)
        try:
            parse(text or "")
        except FaultSyntaxError as error:
            self.problem(node, f"{what}: {error}")
            return None
        return text

    def failure(self, node: Any, what: str) -> tuple[Any, str] | None:
        text = self.text(node, what)
        return None if text is None else (node, text)

    def crash_wait(self, node: Any, what: str) -> float | None:
        """Seconds, or -1 for never."""
        text = self.text(node, what)
        if text is None or text == "never":
            return -1.0
        try:
            return parse_duration(text)
        except ValueError as error:
            self.problem(node, f"{what}: {error}")
            return None

    def topology(self, node: Any, what: str) -> Any:
        """``("nodes", n)``, or ``("numa", …)`` with one entry or one for each device."""

        def numa(each: Any, at: str) -> Any:
            return self.list_of(self.places)(each, at) if each.id == "sequence" else self.places(each, at)

        found = self.fields(node, what, {"numa": numa, "nodes": lambda n, w: self.number(n, w, 1, 64)})
        return next(iter(found.items()), None)

    def places(self, node: Any, what: str) -> tuple[int, ...] | None:
        if node.id == "sequence":
            return tuple(self.list_of(self.number)(node, what) or ())
        found = self.number(node, what)
        return None if found is None else (found,)
