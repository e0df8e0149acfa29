"""Reads a profile: YAML that says which plugins a node has (pure).

::

    plugins:                      # or one plugin at the top, or a list of them
    - resource: vendor.com/widget # a generic plugin
      ids: [w0, w1, w2, w3]       # or count: 4, and id: "w{index}"
      topology: {numa: [0, 0, 1, 1]}      # {numa: 0}: all on node 0; {nodes: 2}: spread over two
      shared: 2                   # replicas of each, w0::0, w0::1 …
      env: VISIBLE_WIDGETS        # set to the ids on Allocate
      envs: {MODE: fast, PATHS: "/dev/{id}"}
      mounts: [{hostPath: /opt/widget, containerPath: /opt/widget, readOnly: true}]
      deviceNodes: [{hostPath: "/dev/widget{index}", permissions: rw}]
      annotations: {vendor.com/mode: fast}
      cdi: vendor.com/widget
      preStart: true
      preferred: lowest           # none, lowest, topology, packed, spread
      identity: stable            # fresh: new ids at each start
      notices: kubelet-socket     # own-socket, never: how a kubelet restart is noticed
      register: kubelet           # watcher: through plugins_registry
      faults: "Allocate: 2*off -> 1*error(UNKNOWN, \\"broken\\")"
      restartAfterCrash: 5s       # never: stays dead
      failAt: ["w3@30s", "#0@10s-20s"]
    - preset: a100x8              # or a known machine, with any of the last eight fields
    - model: nvidia               # or a vendor's plugin in detail, see docs/devices.md
      count: 8
      numaNodes: 2

All mistakes of a file are reported at once, each with its line.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from attrs import evolve

from devices.model import (
    Device,
    Identity,
    Model,
    MountSpec,
    NodeSpec,
    Notices,
    Preference,
)
from devices.nvidia import NvidiaOptions, gke_gpu_model, nvidia_models
from devices.others import amd_model, fake_operator_model, sample_model
from devices.presets import preset
from devices.setup import (
    DeviceProblem,
    PluginSetup,
    Register,
    find_device,
    parse_duration,
    parse_failure,
)
from devices.tpu import TpuOptions, tpu_model
from node_host.faults import FaultSyntaxError, parse

__all__ = ["MAX_DEVICES", "MAX_PLUGINS", "parse_profile", "plugins_from"]

MAX_DEVICES = 100_000
MAX_PLUGINS = 1000

_Read = Callable[[Any, str], Any]


class _Reader:
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

    def fields(self, node: Any, what: str, known: Mapping[str, _Read]) -> dict[str, Any]:
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

    def word(self, *allowed: str) -> _Read:
        def read(node: Any, what: str) -> str | None:
            text = self.text(node, what)
            if text is None or text in allowed:
                return text
            self.problem(node, f"{what} must be one of {', '.join(allowed)}, not {text!r}")
            return None

        return read

    def list_of(self, read: _Read) -> _Read:
        def read_all(node: Any, what: str) -> list[Any] | None:
            if node.id != "sequence":
                self.problem(node, f"{what} must be a list")
                return None
            found = [read(each, f"{what}[{index}]") for index, each in enumerate(node.value)]
            return [value for value in found if value is not None]

        return read_all

    def map_of(self, read: _Read) -> _Read:
        def read_all(node: Any, what: str) -> dict[str, Any]:
            found = {key: read(value, f"{what}.{key}") for key, _, value in self.items(node, what)}
            return {key: value for key, value in found.items() if value is not None}

        return read_all

    def mount(self, node: Any, what: str) -> MountSpec | None:
        known: dict[str, _Read] = {"hostPath": self.text, "containerPath": self.text, "readOnly": self.flag}
        found = self.fields(node, what, known)
        if "hostPath" not in found:
            self.problem(node, f"{what}: hostPath is missing")
            return None
        return MountSpec(
            found.get("containerPath", found["hostPath"]), found["hostPath"], found.get("readOnly", False)
        )

    def device_node(self, node: Any, what: str) -> NodeSpec | None:
        known: dict[str, _Read] = {
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


def parse_profile(text: str, *, file: str = "devices", serial: str = "") -> tuple[PluginSetup, ...]:
    """The plugins that a profile describes. Raises ``DeviceProblem`` with every mistake and its line."""
    import yaml  # a preset does without

    try:
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        root: Any = cast("Any", yaml).compose(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = file if mark is None else f"{file}:{mark.line + 1}"
        raise DeviceProblem(
            [(place, f"not valid YAML: {getattr(error, 'problem', None) or error}")]
        ) from None
    if root is None:
        raise DeviceProblem([(file, "is empty: describe at least one plugin")])
    reader = _Reader(file)
    setups = _plugins(reader, root, serial)
    if reader.problems:
        raise DeviceProblem(reader.problems)
    return tuple(setups)


def plugins_from(objects: object, *, serial: str = "") -> tuple[PluginSetup, ...]:
    """The same from plain values, such as the ``devices`` of a scenario. Raises ``DeviceProblem``."""
    import json

    return parse_profile(json.dumps(objects), serial=serial)


def _plugins(reader: _Reader, root: Any, serial: str) -> list[PluginSetup]:
    entries = [root]
    if root.id == "sequence":
        entries = list(root.value)
    elif root.id == "mapping" and any(str(key.value) == "plugins" for key, _ in root.value):
        entries = []
        for key, key_node, node in reader.items(root, "a profile"):
            if key != "plugins":
                reader.problem(key_node, f"unknown field {key!r} beside plugins")
            elif node.id != "sequence":
                reader.problem(node, "plugins must be a list")
            else:
                entries = list(node.value)
    if len(entries) > MAX_PLUGINS:
        reader.problem(root, f"{len(entries)} plugins are too many; at most {MAX_PLUGINS} are possible")
        return []
    found: list[PluginSetup] = []
    for index, node in enumerate(entries):
        found.extend(_plugin(reader, node, f"plugins[{index}]", f"{serial or 'device'}/{index}"))
    return found


def _plugin(reader: _Reader, node: Any, what: str, serial: str) -> tuple[PluginSetup, ...]:
    if node.id != "mapping":
        reader.problem(node, f"{what} must be a mapping")
        return ()
    kinds = {str(key.value): str(value.value) for key, value in node.value if value.id == "scalar"}
    kind = "preset" if "preset" in kinds else kinds.get("model", "generic")
    if kind not in _FIELDS:
        kinds_known = ", ".join(name for name in _FIELDS if name != "preset")
        reader.problem(node, f"{what}.model must be one of {kinds_known}, not {kind!r}")
        return ()
    found = reader.fields(node, what, {**_common(reader), **_FIELDS[kind](reader)})
    try:
        models = _MAKERS[kind](found, serial)
    except (DeviceProblem, ValueError) as error:
        reader.problem(node, f"{what}: {error}")
        return ()
    return tuple(_setup(reader, model, found) for model in models)


def _common(reader: _Reader) -> dict[str, _Read]:
    return {
        "model": reader.text,
        "preset": reader.text,
        "resource": reader.text,
        "socket": reader.text,
        "preStart": reader.flag,
        "preferred": reader.word(*Preference),
        "identity": reader.word(*Identity),
        "notices": reader.word(*Notices),
        "register": reader.word(*Register),
        "faults": reader.faults,
        "restartAfterCrash": reader.crash_wait,
        "failAt": reader.list_of(reader.failure),
    }


def _setup(reader: _Reader, model: Model, found: Mapping[str, Any]) -> PluginSetup:
    changed: dict[str, Any] = {}
    for key, attribute, kind in (
        ("resource", "resource", str),
        ("socket", "socket", str),
        ("preStart", "pre_start", bool),
        ("preferred", "preference", Preference),
        ("identity", "identity", Identity),
        ("notices", "notices", Notices),
    ):
        if key in found:
            changed[attribute] = kind(found[key])
    model = evolve(model, **changed)
    changes = [
        evolve(change, device=device)
        for node, text in found.get("failAt", ())
        for change, device in _failures(reader, model, node, text)
    ]
    wait = found.get("restartAfterCrash", 1.0)
    return PluginSetup(
        model=model,
        faults=found.get("faults", ""),
        register=Register(found.get("register", "kubelet")),
        changes=tuple(changes),
        restart_after_crash_seconds=None if wait < 0 else wait,
    )


def _failures(reader: _Reader, model: Model, node: Any, text: str) -> list[tuple[Any, str]]:
    try:
        return [(change, find_device([model], change.device)[1]) for change in parse_failure(text)]
    except DeviceProblem as problem:
        reader.problem(node, str(problem))
        return []


def _generic_fields(reader: _Reader) -> dict[str, _Read]:
    return {
        "ids": reader.list_of(reader.text),
        "count": reader.number,
        "id": reader.text,
        "topology": reader.topology,
        "shared": lambda node, what: reader.number(node, what, 1, 1000),
        "env": reader.text,
        "envs": reader.map_of(reader.text),
        "mounts": reader.list_of(reader.mount),
        "deviceNodes": reader.list_of(reader.device_node),
        "annotations": reader.map_of(reader.text),
        "cdi": reader.text,
    }


def _generic(found: Mapping[str, Any], serial: str) -> tuple[Model, ...]:
    resource = found.get("resource", "")
    if not resource:
        raise DeviceProblem("resource is missing: write such as vendor.com/widget")
    pattern = found.get("id", "Dev-{index}")
    ids = found.get("ids") or [pattern.replace("{index}", str(i)) for i in range(found.get("count", 1))]
    places = _numa(found.get("topology"), len(ids))
    shared = found.get("shared", 1)
    if len(ids) * shared > MAX_DEVICES:
        raise DeviceProblem(f"{len(ids) * shared} devices are too many; at most {MAX_DEVICES} are possible")
    devices = [
        Device(f"{name}::{replica}" if shared > 1 else name, where)
        for name, where in zip(ids, places, strict=True)
        for replica in range(shared)
    ]
    model = Model(
        resource=resource,
        devices=tuple(devices),
        socket=f"{resource.replace('/', '-')}.sock",
        env=found.get("env", ""),
        envs=found.get("envs", {}),
        mounts=tuple(found.get("mounts", ())),
        nodes=tuple(found.get("deviceNodes", ())),
        annotations=found.get("annotations", {}),
        cdi=found.get("cdi", ""),
    )
    return (model,)


def _numa(topology: Any, count: int) -> list[tuple[int, ...] | None]:
    if topology is None:
        return [None] * count
    kind, value = topology
    if kind == "nodes":
        return [(index * value // count,) for index in range(count)]
    if isinstance(value, tuple):
        return [cast("tuple[int, ...]", value)] * count
    listed = cast("list[tuple[int, ...]]", value)
    if len(listed) != count:
        raise DeviceProblem(f"topology.numa has {len(listed)} entries for {count} devices")
    return list(listed)


def _nvidia_fields(reader: _Reader) -> dict[str, _Read]:
    strategy = reader.word("envvar", "volume-mounts", "cdi-annotations", "cdi-cri")
    return {
        "count": lambda node, what: reader.number(node, what, 0, 64),
        "numaNodes": lambda node, what: reader.number(node, what, 0, 64),
        "serial": reader.text,
        "migStrategy": reader.word("none", "single", "mixed"),
        "mig": reader.map_of(lambda node, what: reader.number(node, what, 1, 7)),
        "sharing": reader.word("none", "time-slicing", "mps"),
        "replicas": lambda node, what: reader.number(node, what, 1, 1000),
        "renameByDefault": reader.flag,
        "failRequestsGreaterThanOne": reader.flag,
        "deviceListStrategy": reader.list_of(strategy),
        "deviceIDStrategy": reader.word("uuid", "index"),
        "passDeviceSpecs": reader.flag,
        "features": reader.list_of(reader.word("GDRCOPY", "GDS", "MOFED")),
    }


_NVIDIA_NAMES = {
    "count": "count",
    "numaNodes": "numa_nodes",
    "serial": "serial",
    "migStrategy": "mig_strategy",
    "mig": "mig",
    "sharing": "sharing",
    "replicas": "replicas",
    "renameByDefault": "rename_by_default",
    "failRequestsGreaterThanOne": "fail_requests_greater_than_one",
    "deviceIDStrategy": "device_id_strategy",
    "passDeviceSpecs": "pass_device_specs",
}


def _nvidia(found: Mapping[str, Any], serial: str) -> tuple[Model, ...]:
    given = {name: found[key] for key, name in _NVIDIA_NAMES.items() if key in found}
    for key, name in (("deviceListStrategy", "device_list_strategy"), ("features", "features")):
        if key in found:
            given[name] = tuple(found[key])
    options: Any = {"serial": serial, **given}
    return nvidia_models(NvidiaOptions(**options))


def _tpu(found: Mapping[str, Any], serial: str) -> tuple[Model, ...]:
    names = {"generation": "generation", "chips": "chips", "sliceTopology": "topology"}
    return (tpu_model(TpuOptions(**{name: found[key] for key, name in names.items() if key in found})),)


def _amd(found: Mapping[str, Any], serial: str) -> tuple[Model, ...]:
    return (
        amd_model(
            count=found.get("count", 8),
            numa_nodes=found.get("numaNodes", 2),
            partition=found.get("partition", ""),
        ),
    )


def _gke(found: Mapping[str, Any], serial: str) -> tuple[Model, ...]:
    return (
        gke_gpu_model(
            count=found.get("count", 4), numa_nodes=found.get("numaNodes", 1), shared=found.get("shared", 1)
        ),
    )


def _counted(*more: str) -> Callable[[_Reader], dict[str, _Read]]:
    def fields(reader: _Reader) -> dict[str, _Read]:
        readers: dict[str, _Read] = {
            "count": lambda node, what: reader.number(node, what, 1, 64),
            "numaNodes": lambda node, what: reader.number(node, what, 1, 64),
            "shared": lambda node, what: reader.number(node, what, 1, 1000),
            "partition": reader.text,
            "serial": reader.text,
            "cdi": reader.flag,
            "generation": reader.text,
            "chips": lambda node, what: reader.number(node, what, 1, 8),
            "sliceTopology": reader.text,
        }
        return {name: readers[name] for name in more}

    return fields


_FIELDS: Mapping[str, Callable[[_Reader], dict[str, _Read]]] = {
    "generic": _generic_fields,
    "nvidia": _nvidia_fields,
    "tpu": _counted("generation", "chips", "sliceTopology"),
    "amd": _counted("count", "numaNodes", "partition"),
    "gke-gpu": _counted("count", "numaNodes", "shared"),
    "fake-gpu-operator": _counted("count", "serial"),
    "sample": _counted("count", "cdi"),
    "preset": _counted("serial"),
}

_MAKERS: Mapping[str, Callable[[Mapping[str, Any], str], tuple[Model, ...]]] = {
    "generic": _generic,
    "nvidia": _nvidia,
    "tpu": _tpu,
    "amd": _amd,
    "gke-gpu": _gke,
    "fake-gpu-operator": lambda found, serial: (
        fake_operator_model(count=found.get("count", 2), serial=found.get("serial", serial)),
    ),
    "sample": lambda found, _: (sample_model(count=found.get("count", 2), cdi=found.get("cdi", False)),),
    "preset": lambda found, _: tuple(
        setup.model for setup in preset(found["preset"], serial=found.get("serial", ""))
    ),
}
