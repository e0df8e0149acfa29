"""Reads the behaviour file: YAML with behaviours of containers and pulls of images.

::

    containers:
      trainer:            # any pod's container of that name; pod/trainer for one pod
        runFor: 30s
        exitCode: 1
      trainer#0:          # its first instance only
        oomKill: true
        runFor: 12s
      web:
        ignoreSigterm: true
        logLines: [started, {at: 2s, text: "ready", stream: stderr}]
        readiness: [{at: 5s, ready: true}, {at: 60s, ready: false}]
      broken:
        startFailure: 'exec: "train": executable file not found in $PATH'
        imagePull: {failure: "manifest unknown", code: NOT_FOUND, times: 2, duration: 3s}
    images:
      docker.io/library/busybox:1.36: {duration: 5s}

All mistakes of a file are reported at once, each with its line.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from cri_fake.behaviours import (
    Behaviour,
    BehaviourProblem,
    Behaviours,
    LogLine,
    PullBehaviour,
    ReadinessStep,
    Target,
    parse_duration,
    parse_target,
)
from cri_fake.store.faults import Kind

__all__ = ["parse_behaviours"]

_Node = Any
_MAX_ENTRIES = 10_000


class _Reader:
    """Walks the YAML nodes, so that each problem has its line."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.problems: list[tuple[str, str]] = []

    def problem(self, node: _Node, text: str) -> None:
        line = node.start_mark.line + 1
        self.problems.append((f"{self._file}:{line}", text))

    def mapping(self, node: _Node, what: str) -> list[tuple[str, _Node, _Node]]:
        """``(key, key node, value node)`` of a mapping; reports another kind and repeated keys."""
        if node.id != "mapping":
            self.problem(node, f"{what} must be a mapping")
            return []
        seen: set[str] = set()
        pairs: list[tuple[str, _Node, _Node]] = []
        for key_node, value_node in node.value[:_MAX_ENTRIES]:
            key = str(key_node.value) if key_node.id == "scalar" else ""
            if not key:
                self.problem(key_node, f"{what} has a key that is not a word")
            elif key in seen:
                self.problem(key_node, f"{what} has the key {key!r} twice")
            else:
                seen.add(key)
                pairs.append((key, key_node, value_node))
        return pairs

    def sequence(self, node: _Node, what: str) -> list[_Node]:
        if node.id != "sequence":
            self.problem(node, f"{what} must be a list")
            return []
        return list(node.value[:_MAX_ENTRIES])

    def text(self, node: _Node, what: str) -> str | None:
        if node.id == "scalar":
            return str(node.value)
        self.problem(node, f"{what} must be a text")
        return None

    def flag(self, node: _Node, what: str) -> bool | None:
        value = {"true": True, "false": False}.get(str(node.value)) if node.id == "scalar" else None
        if value is None:
            self.problem(node, f"{what} must be true or false")
        return value

    def number(self, node: _Node, what: str, *, low: int, high: int) -> int | None:
        text = str(node.value) if node.id == "scalar" else ""
        if text.isascii() and text.isdigit() and len(text) < 12 and low <= int(text) <= high:
            return int(text)
        self.problem(node, f"{what} must be a number from {low} to {high}")
        return None

    def duration(self, node: _Node, what: str) -> float | None:
        try:
            return parse_duration(str(node.value) if node.id == "scalar" else "")
        except ValueError as error:
            self.problem(node, f"{what}: {error}")
            return None

    def word(self, node: _Node, what: str, allowed: tuple[str, ...]) -> str | None:
        text = self.text(node, what)
        if text is None or text in allowed:
            return text
        self.problem(node, f"{what} must be one of {', '.join(allowed)}, not {text!r}")
        return None

    def fields(
        self, node: _Node, what: str, known: Mapping[str, Callable[[_Node, str], Any]]
    ) -> dict[str, Any]:
        """Read a mapping with known keys; unknown ones are reported with what there is."""
        result: dict[str, Any] = {}
        for key, key_node, value_node in self.mapping(node, what):
            read = known.get(key)
            if read is None:
                self.problem(key_node, f"{what}: unknown field {key!r}; known are {', '.join(known)}")
                continue
            value = read(value_node, f"{what}.{key}")
            if value is not None:
                result[key] = value
        return result

    def log_line(self, node: _Node, what: str) -> LogLine | None:
        if node.id == "scalar":
            return LogLine(str(node.value))
        found = self.fields(
            node,
            what,
            {
                "text": self.text,
                "at": self.duration,
                "stream": lambda n, w: self.word(n, w, ("stdout", "stderr")),
            },
        )
        if "text" not in found:
            self.problem(node, f"{what}: text is missing")
            return None
        return LogLine(found["text"], found.get("at", 0.0), found.get("stream", "stdout"))

    def log_lines(self, node: _Node, what: str) -> tuple[LogLine, ...] | None:
        lines = [self.log_line(each, f"{what}[{i}]") for i, each in enumerate(self.sequence(node, what))]
        return tuple(sorted((line for line in lines if line), key=lambda line: line.at_seconds))

    def readiness(self, node: _Node, what: str) -> tuple[ReadinessStep, ...] | None:
        steps: list[ReadinessStep] = []
        for index, each in enumerate(self.sequence(node, what)):
            found = self.fields(each, f"{what}[{index}]", {"at": self.duration, "ready": self.flag})
            if "ready" not in found:
                self.problem(each, f"{what}[{index}]: ready is missing")
                continue
            steps.append(ReadinessStep(found.get("at", 0.0), found["ready"]))
        return tuple(sorted(steps, key=lambda step: step.at_seconds))

    def pull(self, node: _Node, what: str) -> PullBehaviour | None:
        kinds = tuple(kind.value for kind in Kind)
        found = self.fields(
            node,
            what,
            {
                "failure": self.text,
                "code": lambda n, w: self.word(n, w, kinds),
                "duration": self.duration,
                "times": lambda n, w: self.number(n, w, low=1, high=1_000_000),
            },
        )
        return PullBehaviour(
            failure=found.get("failure"),
            code=found.get("code", Kind.UNKNOWN.value),
            duration_seconds=found.get("duration"),
            times=found.get("times"),
        )

    def behaviour(self, node: _Node, what: str) -> Behaviour:
        found = self.fields(
            node,
            what,
            {
                "runFor": self.duration,
                "exitCode": lambda n, w: self.number(n, w, low=0, high=255),
                "oomKill": self.flag,
                "ignoreSigterm": self.flag,
                "logLines": self.log_lines,
                "readiness": self.readiness,
                "startFailure": self.text,
                "imagePull": self.pull,
            },
        )
        return Behaviour(
            run_for_seconds=found.get("runFor"),
            exit_code=found.get("exitCode"),
            oom_kill=found.get("oomKill"),
            ignore_sigterm=found.get("ignoreSigterm"),
            log_lines=found.get("logLines"),
            readiness=found.get("readiness"),
            start_failure=found.get("startFailure"),
            pull=found.get("imagePull"),
        )


def parse_behaviours(text: str, *, file: str = "behaviours") -> Behaviours:
    """Read a behaviour file's text; ``file`` names it in messages.

    Raises:
        BehaviourProblem: anything in it is wrong; carries every problem with ``file:line``.
    """
    import yaml  # costs start-up time; most runs have no behaviour file

    try:
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        root: _Node = cast("Any", yaml).compose(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = file if mark is None else f"{file}:{mark.line + 1}"
        message = getattr(error, "problem", None) or str(error)
        raise BehaviourProblem([(place, f"not valid YAML: {message}")]) from None
    if root is None:
        raise BehaviourProblem([(file, "is empty: give containers, images, or both")])
    reader = _Reader(file)
    by_target: dict[Target, Behaviour] = {}
    images: dict[str, PullBehaviour] = {}
    for key, key_node, value_node in reader.mapping(root, "a behaviour file"):
        if key == "containers":
            for name, name_node, node in reader.mapping(value_node, "containers"):
                try:
                    target = parse_target(name)
                except ValueError as error:
                    reader.problem(name_node, str(error))
                    continue
                by_target[target] = reader.behaviour(node, f"containers.{name}")
        elif key == "images":
            for name, _, node in reader.mapping(value_node, "images"):
                pull = reader.pull(node, f"images.{name}")
                if pull is not None:
                    images[name] = pull
        else:
            reader.problem(key_node, f"unknown field {key!r}; known are containers, images")
    if reader.problems:
        raise BehaviourProblem(reader.problems)
    return Behaviours(by_target, images)
