"""Pod and Event objects of the API as trace records (pure)."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from kubelet_emu.trace.names import Names
from kubelet_emu.trace.schema import Record

__all__ = ["event_fields", "pod_fields"]

_KINDS = (
    ("initContainerStatuses", "init"),
    ("containerStatuses", "regular"),
    ("ephemeralContainerStatuses", "ephemeral"),
)


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _items(value: object) -> Iterable[Mapping[str, Any]]:
    return (_mapping(item) for item in cast("list[object]", value)) if isinstance(value, list | tuple) else ()


def pod_fields(pod: Mapping[str, Any], names: Names, *, deleted: bool = False) -> Record:
    """The snapshot of a pod object in its JSON shape, without time; ``names`` names the ids it holds."""
    meta, status = _mapping(pod.get("metadata")), _mapping(pod.get("status"))
    name: str = meta.get("name", "")
    uid: str = meta.get("uid", "")
    names.learn_pod(name=name, namespace=meta.get("namespace", ""), uid=uid)
    ip = status.get("podIP") or None
    record: Record = {"k": "pod", "pod": name, "phase": status.get("phase", "")}
    if deleted:
        record["deleted"] = True
    if meta.get("deletionTimestamp"):
        record["deleting"] = meta.get("deletionGracePeriodSeconds", 0)
    for key in ("reason", "message"):
        if status.get(key):
            record[key] = names.text(status[key])
    if status.get("observedGeneration"):
        record["observedGeneration"] = status["observedGeneration"]
    record["qosClass"] = status.get("qosClass", "")
    host_network = bool(_mapping(pod.get("spec")).get("hostNetwork"))
    record["ip"] = names.address(ip) if ip else None
    record["conditions"] = {c.get("type", ""): _condition(c, names) for c in _items(status.get("conditions"))}
    record["containers"] = {
        container.get("name", ""): _container(container, kind, names)
        for key, kind in _KINDS
        for container in _items(status.get(key))
    }
    record["uid"] = uid
    addresses = [item.get("ip", "") for item in _items(status.get("podIPs"))] or ([ip] if ip else [])
    if addresses:
        record["addresses"] = addresses
    if host_network:
        record["hostNetwork"] = True
    return record


def _condition(condition: Mapping[str, Any], names: Names) -> list[str]:
    status, reason = condition.get("status", ""), condition.get("reason") or ""
    message = names.text(condition.get("message") or "")
    return [status, reason, message] if reason or message else [status]


def _container(status: Mapping[str, Any], kind: str, names: Names) -> Record:
    state, last = _mapping(status.get("state")), _mapping(status.get("lastState"))
    shown: Record = {"kind": kind}
    if "terminated" in state:
        shown["state"] = "terminated"
        shown |= _terminated(_mapping(state["terminated"]), names)
    else:
        running = "running" in state
        shown["state"] = "running" if running else "waiting"
        waiting = _mapping(state.get("waiting"))
        for key in ("reason", "message"):
            if waiting.get(key):
                shown[key] = names.text(waiting[key])
    if "terminated" in last:
        shown["last"] = _terminated(_mapping(last["terminated"]), names)
    shown["restartCount"] = status.get("restartCount", 0)
    shown["ready"] = bool(status.get("ready"))
    shown["started"] = status.get("started")
    container_id = str(status.get("containerID") or "").partition("://")[2]
    if container_id:
        shown["id"] = names.label(container_id)
    if status.get("allocatedResourcesStatus"):
        shown["allocatedResourcesStatus"] = status["allocatedResourcesStatus"]
    for key in ("image", "imageID"):
        if status.get(key):
            shown[key] = status[key]
    return shown


def _terminated(terminated: Mapping[str, Any], names: Names) -> Record:
    shown: Record = {}
    for key in ("reason", "message"):
        if terminated.get(key):
            shown[key] = names.text(terminated[key])
    shown["exitCode"] = terminated.get("exitCode", 0)
    if terminated.get("signal"):
        shown["signal"] = terminated["signal"]
    return shown


def event_fields(event: Mapping[str, Any], names: Names) -> Record:
    """An Event object in its JSON shape as a record without time."""
    on = _mapping(event.get("involvedObject"))
    if on.get("kind") == "Pod" and on.get("uid"):
        names.learn_pod(name=on.get("name", ""), namespace=on.get("namespace", ""), uid=on["uid"])
    message = str(event.get("message") or "")
    record: Record = {
        "k": "event",
        "pod": on.get("name", ""),
        "reason": event.get("reason", ""),
        "type": event.get("type", ""),
        "on": on.get("fieldPath", ""),
        "message": names.text(message),
        "count": event.get("count") or 1,
    }
    if record["message"] != message:
        record["raw"] = message
    return record
