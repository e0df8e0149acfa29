"""Scenarios: one pod, what is done to it, and what has to be true of it afterwards; and their recordings.

72 of them ship with the package; people add their own files (``docs/scenarios.md``). Every mistake in a file
is reported at once, each with its path and line.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from attrs import field, frozen

from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.gates import Gates
from kubelet_emu.lab.checks_grammar import parse_check
from kubelet_emu.lab.scenario_document import Document, shown
from kubelet_emu.trace.ndjson import read_lines
from kubelet_emu.trace.schema import Trace

__all__ = [
    "AREAS",
    "FORMAT",
    "NEEDS",
    "Action",
    "Device",
    "Scenario",
    "builtin_scenarios",
    "load_recordings",
    "load_scenario",
    "load_scenarios",
    "scenario_from_text",
]

FORMAT = 1
"""Version of the scenario format; a file may say ``format: 1``, and says 1 if it says nothing."""

AREAS = (
    "restart",
    "restart-all",
    "init",
    "sidecar",
    "probe",
    "hook",
    "termination",
    "image",
    "status",
    "device",
    "volume",
    "ephemeral",
    "backoff",
    "admission",
)
NEEDS = ("api", "alone", "devices", "second-image", "crictl", "gates")
RUN_FOR_SECONDS_MAX = 86_400.0
FILE_BYTES_MAX = 4 * 1024 * 1024

_DATA = Path(__file__).parent / "data"

_ACTION_KEYS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "delete": ((), ("gracePeriod",)),
    "exec": (("container", "command"), ()),
    "restart-kubelet": ((), ("down",)),
    "restart-runtime": ((), ("down",)),
    "reboot-node": ((), ("down", "forget")),
    "stop-sandbox": ((), ()),
    "set-device-health": (("resource", "device", "health"), ()),
    "add-ephemeral-container": (("container",), ()),
    "update-image": (("container", "image"), ()),
    "patch": (("patch",), ()),
}
"""Keys of each action besides ``at`` and ``do``: those it must have, those it may have."""

_KEY_TYPES: Mapping[str, tuple[str, type | tuple[type, ...]]] = {
    "gracePeriod": ("a whole number of seconds", int),
    "command": ("a list of strings", list),
    "down": ("a number of seconds", (int, float)),
    "forget": ("true or false", bool),
    "resource": ("a string", str),
    "device": ("a string", str),
    "health": ("Healthy or Unhealthy", str),
    "image": ("a string", str),
    "patch": ("a mapping", dict),
}


@frozen(kw_only=True)
class Action:
    """Something done to the node ``at_seconds`` after the pod was created; further fields as it needs."""

    at_seconds: float
    do: str
    grace_period_seconds: int | None = None
    container: str = ""
    command: tuple[str, ...] = ()
    down_seconds: float = 0.0
    forget: bool = False
    resource: str = ""
    device: str = ""
    health: str = ""
    image: str = ""
    ephemeral_container: Mapping[str, Any] | None = None
    patch: Mapping[str, Any] | None = None

    def fields(self) -> dict[str, Any]:
        """The action's keys as the file and the trace have them, without time."""
        named = {
            "gracePeriod": self.grace_period_seconds,
            "container": self.container or self.ephemeral_container or None,
            "command": list(self.command) or None,
            "down": self.down_seconds or None,
            "forget": self.forget or None,
            "resource": self.resource or None,
            "device": self.device or None,
            "health": self.health or None,
            "image": self.image or None,
            "patch": self.patch,
        }
        return {key: value for key, value in named.items() if value is not None}


@frozen(kw_only=True)
class Device:
    """A device plugin of the node: ``topology`` maps a device to its NUMA node."""

    resource: str
    ids: tuple[str, ...]
    topology: Mapping[str, Any] = field(factory=dict[str, Any])
    env: str = ""
    pre_start: bool = False
    preferred: str = ""


@frozen(kw_only=True)
class Scenario:
    """One scenario as its file says it. ``pod`` is the object as a user writes it, in its JSON shape."""

    id: str
    title: str = ""
    about: str = ""
    source: str = ""
    area: str = ""
    gates: Mapping[str, bool] = field(factory=dict[str, bool])
    run_for_seconds: float
    needs: tuple[str, ...] = ()
    pod: Mapping[str, Any]
    actions: tuple[Action, ...] = ()
    devices: tuple[Device, ...] = ()
    expect: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    file: str = ""

    @property
    def pod_name(self) -> str:
        """Name of the scenario's pod."""
        return self.pod["metadata"]["name"]


def builtin_scenarios() -> tuple[Scenario, ...]:
    """The scenarios that ship with the package, by area in the order of ``AREAS``, then by id."""
    return load_scenarios([_DATA / "scenarios"])


def load_scenarios(paths: Iterable[str | Path]) -> tuple[Scenario, ...]:
    """Load files and the ``*.yaml``, ``*.yml`` and ``*.json`` files of folders.

    Raises ``CallerError`` with every problem of every file, and for an id that two files have.
    """
    problems: list[Problem] = []
    loaded: dict[str, Scenario] = {}
    for file in _files(paths, problems):
        try:
            scenario = load_scenario(file)
        except CallerError as error:
            problems += error.problems
            continue
        first = loaded.setdefault(scenario.id, scenario)
        if first is not scenario:
            problems.append(Problem(f"id {scenario.id} is also that of {first.file}", file=str(file)))
    if problems:
        raise CallerError(problems)
    order = {area: index for index, area in enumerate(AREAS)}
    return tuple(sorted(loaded.values(), key=lambda one: (order.get(one.area, len(order)), one.area, one.id)))


def _files(paths: Iterable[str | Path], problems: list[Problem]) -> Iterable[Path]:
    for path in map(Path, paths):
        if path.is_dir():
            found = sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml", ".json"))
            if not found:
                problems.append(
                    Problem("the folder holds no scenario (*.yaml, *.yml, *.json)", file=str(path))
                )
            yield from found
        else:
            yield path


def load_scenario(path: str | Path) -> Scenario:
    """Load one file; raises ``CallerError``."""
    path = Path(path)
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise CallerError([Problem(f"larger than {FILE_BYTES_MAX} bytes", file=str(path))])
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CallerError([Problem(f"cannot be read: {error.strerror}", file=str(path))]) from None
    except UnicodeDecodeError as error:
        raise CallerError([Problem(f"is not UTF-8: byte {error.start}", file=str(path))]) from None
    scenario = scenario_from_text(text, file=str(path))
    if scenario.id != path.stem:
        hint = f"rename the file to {scenario.id}{path.suffix}"
        raise CallerError([Problem(f"{scenario.id!r} is not the file's name", "id", str(path), hint=hint)])
    return scenario


def load_recordings(scenario_id: str, folder: str | Path | None = None) -> tuple[Trace, ...]:
    """The recordings of a scenario (``ID.jsonl``, ``ID.RUN.jsonl``) in run order, empty if there are none.

    Without a folder: those that ship with the package. Raises ``CallerError`` for a file that cannot be read.
    """
    place = Path(folder) if folder is not None else _DATA / "recordings"
    traces: list[Trace] = []
    for path in sorted(place.glob(f"{scenario_id}.jsonl")) + sorted(place.glob(f"{scenario_id}.*.jsonl")):
        try:
            with path.open(encoding="utf-8") as lines:
                traces.append(read_lines(lines, file=str(path)))
        except OSError as error:
            raise CallerError([Problem(f"cannot be read: {error.strerror}", file=str(path))]) from None
        except UnicodeDecodeError as error:
            raise CallerError([Problem(f"is not UTF-8: byte {error.start}", file=str(path))]) from None
    return tuple(traces)


# -- one document --


def scenario_from_text(text: str, *, file: str = "") -> Scenario:
    """Read a scenario from YAML or JSON text; raises ``CallerError`` with every problem and its line."""
    document = Document(text, file)
    scenario = _build(document)
    if document.problems:
        raise CallerError(document.problems)
    assert scenario is not None
    return scenario


_FIELDS = (
    "format",
    "id",
    "title",
    "about",
    "source",
    "area",
    "gates",
    "runFor",
    "needs",
    "pod",
    "actions",
    "devices",
    "expect",
    "rules",
)


def _build(document: Document) -> Scenario | None:
    if document.problems:
        return None
    if not document.typed(document.value, "", dict, "a mapping with id, runFor, pod and expect"):
        return None
    given = cast("dict[str, Any]", document.value)
    for key in given:
        if key not in _FIELDS:
            document.problem("unknown field", str(key), hint=f"known: {', '.join(_FIELDS)}")
    for key in ("id", "runFor", "pod", "expect"):
        if key not in given:
            document.problem("is missing", key)
    texts = {key: _string(document, given, key) for key in ("id", "title", "about", "source", "area")}
    if texts["id"] and not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", texts["id"]):
        document.problem("must be lower-case words joined by dashes", "id")
    version = given.get("format", FORMAT)
    if version != FORMAT:
        document.problem(f"must be {FORMAT}, the version this program reads, not {shown(version)}", "format")
    run_for = given.get("runFor", 1)
    if document.typed(run_for, "runFor", (int, float), "a number of seconds") and not (
        0 < run_for <= RUN_FOR_SECONDS_MAX
    ):
        document.problem(f"must be more than 0 and at most {RUN_FOR_SECONDS_MAX:g} seconds", "runFor")
    parts: dict[str, Any] = {
        "gates": _gates(document, given.get("gates") or {}),
        "needs": _words(document, given, "needs", NEEDS),
        "rules": _words(document, given, "rules", None),
        "pod": _pod(document, given.get("pod", {})),
        "actions": _actions(document, given.get("actions") or []),
        "devices": _devices(document, given.get("devices") or []),
        "expect": _expect(document, given.get("expect", ["final phase = Running"])),
    }
    if document.problems:
        return None
    return Scenario(**texts, run_for_seconds=float(run_for), file=document.file, **parts)


def _string(document: Document, given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    if value is None:
        return ""
    return value if document.typed(value, key, str, "a string") else ""


def _words(
    document: Document, given: Mapping[str, Any], key: str, allowed: Sequence[str] | None
) -> tuple[str, ...]:
    value: object = given.get(key) or []
    if not document.typed(value, key, list, "a list of words"):
        return ()
    words = cast("list[str]", value)
    for index, word in enumerate(words):
        if not document.typed(word, f"{key}[{index}]", str, "a word"):
            return ()
        if allowed is not None and word not in allowed:
            document.problem(f"unknown word {word!r}", f"{key}[{index}]", hint=f"known: {', '.join(allowed)}")
    return tuple(words)


def _gates(document: Document, value: object) -> Mapping[str, bool]:
    if not document.typed(value, "gates", dict, "a mapping of feature gates to true or false"):
        return {}
    gates = cast("dict[str, Any]", value)
    if all(document.typed(on, f"gates.{name}", bool, "true or false") for name, on in gates.items()):
        try:
            Gates(gates)
        except CallerError as error:
            for problem in error.problems:
                document.problem(problem.message, "gates", hint=problem.hint)
    return gates


def _pod(document: Document, value: object) -> Mapping[str, Any]:
    if not document.typed(value, "pod", dict, "a core/v1 Pod"):
        return {}
    pod = cast("dict[str, Any]", value)
    if pod.get("kind") != "Pod" or pod.get("apiVersion") != "v1":
        found = f"{pod.get('apiVersion')} {pod.get('kind')}"
        document.problem(f"must be an object of apiVersion v1 and kind Pod, not {found}", "pod")
    meta = pod.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):  # pyright: ignore[reportUnknownMemberType]
        document.problem("must have a name", "pod.metadata")
    if not isinstance(pod.get("spec"), dict):
        document.problem("must be a mapping", "pod.spec")
    return pod


def _actions(document: Document, value: object) -> tuple[Action, ...]:
    if not document.typed(value, "actions", list, "a list of actions"):
        return ()
    actions: list[Action] = []
    for index, item in enumerate(cast("list[object]", value)):
        path = f"actions[{index}]"
        if document.typed(item, path, dict, "a mapping with at and do"):
            action = _action(document, cast("dict[str, Any]", item), path)
            if action is not None:
                actions.append(action)
    for index, (first, second) in enumerate(pairwise(actions)):
        if second.at_seconds < first.at_seconds:
            document.problem("must not be earlier than the action before it", f"actions[{index + 1}].at")
    return tuple(actions)


def _action(document: Document, given: dict[str, Any], path: str) -> Action | None:
    before = len(document.problems)
    do = given.get("do")
    if not isinstance(do, str) or do not in _ACTION_KEYS:
        known = ", ".join(_ACTION_KEYS)
        document.problem(f"unknown action {shown(do)}", f"{path}.do", hint=f"known: {known}")
        return None
    at = given.get("at")
    if document.typed(at, f"{path}.at", (int, float), "a number of seconds") and cast("float", at) < 0:
        document.problem("must not be negative", f"{path}.at")
    required, optional = _ACTION_KEYS[do]
    for key in required:
        if key not in given:
            document.problem(f"action {do} needs {key}", path)
    for key, value in given.items():
        if key in ("at", "do"):
            continue
        if key not in required and key not in optional:
            known = ", ".join(("at", "do", *required, *optional))
            document.problem(f"action {do} has no such key", f"{path}.{key}", hint=f"known: {known}")
        elif key == "container":
            ephemeral = do == "add-ephemeral-container"
            what = "an EphemeralContainer" if ephemeral else "a container's name"
            document.typed(value, f"{path}.{key}", dict if ephemeral else str, what)
        else:
            what, kind = _KEY_TYPES[key]
            document.typed(value, f"{path}.{key}", kind, what)
    if given.get("health", "Healthy") not in ("Healthy", "Unhealthy"):
        document.problem("must be Healthy or Unhealthy", f"{path}.health")
    if len(document.problems) > before:
        return None
    container = given.get("container", "")
    return Action(
        at_seconds=float(given["at"]),
        do=do,
        grace_period_seconds=given.get("gracePeriod"),
        container=container if isinstance(container, str) else "",
        command=tuple(map(str, given.get("command", ()))),
        down_seconds=float(given.get("down", 0.0)),
        forget=given.get("forget", False),
        resource=given.get("resource", ""),
        device=given.get("device", ""),
        health=given.get("health", ""),
        image=given.get("image", ""),
        ephemeral_container=None if isinstance(container, str) else container,
        patch=given.get("patch"),
    )


def _devices(document: Document, value: object) -> tuple[Device, ...]:
    if not document.typed(value, "devices", list, "a list of device plugins"):
        return ()
    devices: list[Device] = []
    for index, item in enumerate(cast("list[object]", value)):
        path = f"devices[{index}]"
        if not document.typed(item, path, dict, "a mapping with resource and ids"):
            continue
        given = cast("dict[str, Any]", item)
        for key in given:
            if key not in ("resource", "ids", "topology", "env", "preStart", "preferred"):
                document.problem("unknown field", f"{path}.{key}")
        named = document.typed(given.get("resource"), f"{path}.resource", str, "a resource's name")
        listed = document.typed(given.get("ids"), f"{path}.ids", list, "a list of device ids")
        if named and listed:
            devices.append(
                Device(
                    resource=given["resource"],
                    ids=tuple(map(str, given["ids"])),
                    topology=given.get("topology") or {},
                    env=given.get("env") or "",
                    pre_start=bool(given.get("preStart")),
                    preferred=given.get("preferred") or "",
                )
            )
    return tuple(devices)


def _expect(document: Document, value: object) -> tuple[str, ...]:
    if not document.typed(value, "expect", list, "a list of checks"):
        return ()
    checks: list[str] = []
    for index, check in enumerate(cast("list[object]", value)):
        if not document.typed(check, f"expect[{index}]", str, "a check, as a string"):
            continue
        try:
            parse_check(cast("str", check))
        except CallerError as error:
            document.problem(error.problems[0].message, f"expect[{index}]", hint=error.problems[0].hint)
        checks.append(cast("str", check))
    return tuple(checks)
