"""The two state files of the DRA manager, DEV-159 (pure).

``dra_manager_state`` is a JSON object with the claims as a JSON text and its CRC-32; ``dra_health_state`` is
plain JSON. Both are written as a kubelet writes them and read from one.
"""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from kubelet_emu.api.times import TimeError, format_nano, parse_rfc3339
from kubelet_emu.cm.dra.claims import ClaimInfo, PreparedDevice
from kubelet_emu.cm.dra.health import DeviceHealth, HealthCache
from kubelet_emu.errors import PeerError

__all__ = ["HEALTH_FILE", "STATE_FILE", "decode", "decode_health", "encode", "encode_health"]

STATE_FILE = "dra_manager_state"
HEALTH_FILE = "dra_health_state"

_KIND = "DRACheckpoint"
_API_VERSION = "checkpoint.dra.kubelet.k8s.io/v1"


def encode(claims: Iterable[ClaimInfo]) -> bytes:
    """The file's content for these claims."""
    entries = [_entry(claim) for claim in claims]
    data = _dump({"kind": _KIND, "apiVersion": _API_VERSION, "ClaimInfoStateList": entries})
    return _dump({"Data": data, "Checksum": zlib.crc32(data.encode())}).encode()


def decode(content: bytes) -> tuple[ClaimInfo, ...]:
    """The claims of a file, none of them prepared (DEV-154). Raises ``PeerError``, which stops a kubelet."""
    try:
        outer: Any = json.loads(content)
        data = str(outer["Data"])
        if zlib.crc32(data.encode()) != outer["Checksum"]:
            raise PeerError("checkpoint is corrupted")
        inner: Any = json.loads(data)
        return tuple(_claim(entry) for entry in inner.get("ClaimInfoStateList") or ())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise PeerError(f"the checkpoint cannot be read: {error}") from None


def _entry(claim: ClaimInfo) -> dict[str, Any]:
    return {
        "ClaimUID": claim.uid,
        "ClaimName": claim.name,
        "Namespace": claim.namespace,
        "PodUIDs": {uid: {} for uid in sorted(claim.pod_uids)},
        "DriverState": {
            driver: {"Devices": [_device(each) for each in claim.drivers[driver]] or None}
            for driver in sorted(claim.drivers)
        },
    }


def _device(device: PreparedDevice) -> dict[str, Any]:
    return {
        "PoolName": device.pool,
        "DeviceName": device.device,
        "ShareID": device.share_id,
        "RequestNames": list(device.requests) or None,
        "CDIDeviceIDs": list(device.cdi_ids) or None,
    }


def _claim(entry: Mapping[str, Any]) -> ClaimInfo:
    drivers = cast("Mapping[str, Mapping[str, Any]]", entry.get("DriverState") or {})
    return ClaimInfo(
        uid=str(entry["ClaimUID"]),
        name=str(entry["ClaimName"]),
        namespace=str(entry["Namespace"]),
        pod_uids=tuple(sorted(entry.get("PodUIDs") or ())),
        drivers={
            str(driver): tuple(_prepared(each) for each in state.get("Devices") or ())
            for driver, state in drivers.items()
        },
    )


def _prepared(entry: Mapping[str, Any]) -> PreparedDevice:
    return PreparedDevice(
        pool=str(entry["PoolName"]),
        device=str(entry["DeviceName"]),
        requests=_texts(entry.get("RequestNames")),
        cdi_ids=_texts(entry.get("CDIDeviceIDs")),
        share_id=None if entry.get("ShareID") is None else str(entry["ShareID"]),
    )


def _texts(value: Sequence[object] | None) -> tuple[str, ...]:
    return tuple(str(each) for each in value or ())


def encode_health(cache: HealthCache, *, epoch_ns: int) -> bytes:
    """The health file. ``epoch_ns`` is the time of day at the node clock's zero."""
    return _dump(
        {
            driver: {
                "Devices": {
                    f"{pool}/{device}": {
                        "PoolName": pool,
                        "DeviceName": device,
                        "Health": health.health,
                        "LastUpdated": format_nano(epoch_ns + round(health.at_seconds * 1e9)),
                        "HealthCheckTimeout": round(health.timeout_seconds * 1e9),
                    }
                    for (pool, device), health in sorted(devices.items())
                }
            }
            for driver, devices in sorted(cache.drivers.items())
        }
    ).encode()


def decode_health(content: bytes, *, epoch_ns: int) -> HealthCache:
    """What a health file holds; an unreadable one holds nothing."""
    cache = HealthCache()
    try:
        drivers: Any = json.loads(content)
        for driver, state in drivers.items():
            for entry in state["Devices"].values():
                at_seconds = (parse_rfc3339(entry["LastUpdated"]) - epoch_ns) / 1e9
                health = DeviceHealth(str(entry["Health"]), at_seconds, entry["HealthCheckTimeout"] / 1e9)
                cache.drivers.setdefault(str(driver), {})[
                    str(entry["PoolName"]), str(entry["DeviceName"])
                ] = health
    except (ValueError, TypeError, KeyError, AttributeError, TimeError, RecursionError):
        return HealthCache()
    return cache


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
