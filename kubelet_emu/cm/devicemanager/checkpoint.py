"""The device manager's checkpoint: its text, its checksum, and what is read back from it (pure).

Mirrors ``pkg/kubelet/cm/devicemanager/checkpoint/checkpoint.go`` (DEV-080 to DEV-085). A file written here is
read by a kubelet of 1.36 and the other way round.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, cast

from attrs import frozen

from kubelet_emu.cm.devicemanager.pod_devices import Held
from kubelet_emu.cm.devicemanager.state import DeviceState, Endpoint
from kubelet_emu.cm.gotext import Struct, Typed, checksum
from kubelet_emu.errors import PeerError

__all__ = ["Checkpoint", "Entry", "checkpoint_of", "decode", "encode", "restore"]

CORRUPTED = "checkpoint is corrupted"


@frozen(kw_only=True)
class Entry:
    """Devices of one resource in one container; ``response`` is None where the file has null."""

    pod_uid: str
    container: str
    resource: str
    by_node: Mapping[int, tuple[str, ...] | None] | None
    response: bytes | None


@frozen(kw_only=True)
class Checkpoint:
    """The data of a file. None stands for null, which the checksum tells from empty."""

    entries: tuple[Entry, ...] | None
    registered: Mapping[str, tuple[str, ...] | None] | None


def checkpoint_of(state: DeviceState) -> Checkpoint:
    """What is to be written of a state (DEV-081)."""
    entries = tuple(
        Entry(
            pod_uid=uid,
            container=container,
            resource=resource,
            by_node=held.by_node,
            response=held.response,
        )
        for uid, container, resource, held in state.pods.entries()
    )
    registered = {name: tuple(sorted(ids)) for name, ids in state.healthy.items()}
    return Checkpoint(entries=entries or None, registered=registered)


def restore(state: DeviceState, checkpoint: Checkpoint, now_seconds: float) -> None:
    """Fill a fresh state: every resource is there with no device and a plugin that is gone (DEV-081)."""
    for entry in checkpoint.entries or ():
        by_node = {node: ids or () for node, ids in (entry.by_node or {}).items()}
        held = Held(by_node, entry.response or b"")
        state.pods.insert(entry.pod_uid, entry.container, entry.resource, held)
    state.rebuild_allocated()
    for resource in checkpoint.registered or {}:
        state.healthy[resource] = set()
        state.unhealthy[resource] = set()
        state.endpoints[resource] = Endpoint(path=resource, stopped_at_seconds=now_seconds)


# -- text --


def _checksum(checkpoint: Checkpoint) -> int:
    entries = checkpoint.entries
    shown = None if entries is None else [_entry(entry) for entry in entries]
    data = Struct(
        {
            "PodDeviceEntries": Typed("[]checkpoint.PodDevicesEntry", shown),
            "RegisteredDevices": Typed("map[string][]string", checkpoint.registered),
        }
    )
    return checksum(Typed("checkpoint.checkpointData", data))


def _entry(entry: Entry) -> Struct:
    return Struct(
        {
            "PodUID": Typed("string", entry.pod_uid),
            "ContainerName": Typed("string", entry.container),
            "ResourceName": Typed("string", entry.resource),
            "DeviceIDs": Typed("checkpoint.DevicesPerNUMA", entry.by_node),
            "AllocResp": Typed("[]uint8", entry.response),
        }
    )


def encode(checkpoint: Checkpoint) -> bytes:
    """The file's content: one line of JSON, keys in Go's order (DEV-080)."""
    entries = checkpoint.entries
    data = {
        "PodDeviceEntries": None if entries is None else [_entry_json(entry) for entry in entries],
        "RegisteredDevices": _sorted(checkpoint.registered),
    }
    text = json.dumps(
        {"Data": data, "Checksum": _checksum(checkpoint)}, separators=(",", ":"), ensure_ascii=False
    )
    # Go's encoder escapes these in strings, and nothing else in the text can hold them.
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode("utf-8", "surrogatepass")


def _entry_json(entry: Entry) -> dict[str, Any]:
    response = entry.response
    return {
        "PodUID": entry.pod_uid,
        "ContainerName": entry.container,
        "ResourceName": entry.resource,
        "DeviceIDs": _sorted(entry.by_node),
        "AllocResp": None if response is None else base64.b64encode(response).decode(),
    }


def _sorted(lists: Mapping[Any, tuple[str, ...] | None] | None) -> dict[str, Any] | None:
    if lists is None:
        return None
    named = {str(key): ids for key, ids in lists.items()}
    return {key: _listed(named[key]) for key in sorted(named)}


def _listed(ids: tuple[str, ...] | None) -> list[str] | None:
    return None if ids is None else list(ids)


def decode(content: bytes) -> Checkpoint:
    """Read a file's content; raises ``PeerError`` for bad JSON and for a wrong checksum (DEV-085)."""
    try:
        given = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise PeerError(f"could not read the device manager's checkpoint: {error}") from None
    try:
        data = _mapping(_mapping(given).get("Data") or {})
        checkpoint = Checkpoint(
            entries=_entries(data.get("PodDeviceEntries")),
            registered=_lists(data.get("RegisteredDevices")),
        )
        expected = cast("dict[str, Any]", given).get("Checksum")
    except (TypeError, ValueError, binascii.Error) as error:
        raise PeerError(f"could not read the device manager's checkpoint: {error}") from None
    if expected != _checksum(checkpoint):
        raise PeerError(CORRUPTED)
    return checkpoint


def _entries(value: Any) -> tuple[Entry, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise TypeError("PodDeviceEntries is no list")
    return tuple(_entry_of(_mapping(each)) for each in cast("list[Any]", value))


def _entry_of(given: Mapping[str, Any]) -> Entry:
    by_node = _lists(given.get("DeviceIDs"))
    response = given.get("AllocResp")
    return Entry(
        pod_uid=_text(given.get("PodUID") or ""),
        container=_text(given.get("ContainerName") or ""),
        resource=_text(given.get("ResourceName") or ""),
        by_node=None if by_node is None else {int(node): ids for node, ids in by_node.items()},
        response=None if response is None else base64.b64decode(_text(response), validate=True),
    )


def _lists(value: Any) -> dict[str, tuple[str, ...] | None] | None:
    if value is None:
        return None
    return {key: _ids(ids) for key, ids in _mapping(value).items()}


def _ids(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise TypeError("ids are no list")
    return tuple(_text(one) for one in cast("list[Any]", value))


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("an object is expected")
    return cast("dict[str, Any]", value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a string is expected")
    return value
