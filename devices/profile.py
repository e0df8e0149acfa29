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
    Notices,
    Preference,
)
from devices.nvidia import NvidiaOptions, gke_gpu_model, nvidia_models
from devices.others import amd_model, fake_operator_model, sample_model
from devices.presets import preset
from devices.reader import MAX_DEVICES, Read, Reader
from devices.setup import (
    DeviceProblem,
    PluginSetup,
    Register,
    find_device,
    parse_failure,
)
from devices.tpu import TpuOptions, tpu_model

__all__ = ["MAX_DEVICES", "MAX_PLUGINS", "parse_profile", "plugins_from"]

MAX_PLUGINS = 1000


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
    reader = Reader(file)
    setups = _plugins(reader, root, serial)
    if reader.problems:
        raise DeviceProblem(reader.problems)
    return tuple(setups)


def plugins_from(objects: object, *, serial: str = "") -> tuple[PluginSetup, ...]:
    """The same from plain values, such as the ``devices`` of a scenario. Raises ``DeviceProblem``."""
    import json

    return parse_profile(json.dumps(objects), serial=serial)


def _plugins(reader: Reader, root: Any, serial: str) -> list[PluginSetup]:
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


def _plugin(reader: Reader, node: Any, what: str, serial: str) -> tuple[PluginSetup, ...]:
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


def _common(reader: Reader) -> dict[str, Read]:
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


def _setup(reader: Reader, model: Model, found: Mapping[str, Any]) -> PluginSetup:
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


def _failures(reader: Reader, model: Model, node: Any, text: str) -> list[tuple[Any, str]]:
    try:
        return [(change, find_device([model], change.device)[1]) for change in parse_failure(text)]
    except DeviceProblem as problem:
        reader.problem(node, str(problem))
        return []


def _generic_fields(reader: Reader) -> dict[str, Read]:
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


def _nvidia_fields(reader: Reader) -> dict[str, Read]:
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


def _counted(*more: str) -> Callable[[Reader], dict[str, Read]]:
    def fields(reader: Reader) -> dict[str, Read]:
        readers: dict[str, Read] = {
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


_FIELDS: Mapping[str, Callable[[Reader], dict[str, Read]]] = {
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
