"""What a person sees of a pod at one moment, made from a snapshot in a trace (pure)."""

from collections.abc import Mapping
from typing import Any

from kubelet_emu.printers.pods import pod_row
from kubelet_emu.trace.schema import Record

__all__ = ["pod_object", "row_text"]

_LISTS = (
    ("init", "initContainerStatuses"),
    ("regular", "containerStatuses"),
    ("ephemeral", "ephemeralContainerStatuses"),
)


def pod_object(record: Record, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The pod in the API's JSON shape, as far as a snapshot knows it; times are not in it."""
    metadata: dict[str, Any] = {"name": record["pod"]}
    if record.get("uid"):
        metadata["uid"] = record["uid"]
    if "deleting" in record:
        metadata["deletionGracePeriodSeconds"] = record["deleting"]
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status: dict[str, Any] = {"phase": record["phase"]}
    for key in ("reason", "message", "observedGeneration", "qosClass"):
        if record.get(key):
            status[key] = record[key]
    if record.get("ip"):
        address = (record.get("addresses") or [record["ip"]])[0]
        status |= {"podIP": address, "podIPs": [{"ip": one} for one in record.get("addresses") or [address]]}
    status["conditions"] = [_condition(name, value) for name, value in record["conditions"].items()]
    for kind, key in _LISTS:
        shown = [
            _container(name, one) for name, one in record["containers"].items() if one.get("kind") == kind
        ]
        if shown:
            status[key] = shown
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(spec), "status": status}


def _condition(name: str, value: list[str]) -> dict[str, str]:
    shown = {"type": name, "status": value[0]}
    for key, text in zip(("reason", "message"), value[1:], strict=False):
        if text:
            shown[key] = text
    return shown


def _container(name: str, shown: Record) -> dict[str, Any]:
    status: dict[str, Any] = {"name": name, "image": shown.get("image", "")}
    detail = {key: shown[key] for key in ("reason", "message", "exitCode", "signal") if key in shown}
    status["state"] = {shown["state"]: detail}
    if shown.get("last"):
        status["lastState"] = {"terminated": dict(shown["last"])}
    status["ready"] = shown.get("ready", False)
    status["restartCount"] = shown.get("restartCount", 0)
    if shown.get("started") is not None:
        status["started"] = shown["started"]
    if shown.get("id"):
        status["containerID"] = f"containerd://{shown['id']}"
    return status


def row_text(record: Record, spec: Mapping[str, Any]) -> str:
    """READY, STATUS and RESTARTS as ``kubectl get pods`` shows them; that the pod is gone if it is."""
    if record.get("deleted"):
        return "not found"
    row = pod_row(pod_object(record, spec), 0)
    return f"{row.ready}  {row.status}  {row.restart_count} restart{'s' * (row.restart_count != 1)}"
