"""What an API server does to an object on its way into the store, per kind. (pure)

Only pods have a strategy of their own: status at creation, generation on a change of the spec, the rules of
graceful deletion (FAC-071, FAC-072). Everything works on plain JSON objects.
"""

from collections.abc import Mapping
from typing import Any, cast

from attrs import frozen

__all__ = ["Deletion", "deletion_step", "prepare_pod_for_create", "prepare_pod_for_update"]

Json = dict[str, Any]


@frozen
class Deletion:
    """What a DELETE does: nothing, a change of the deletion fields, and whether the object then goes."""

    changed: bool
    remove: bool
    grace_seconds: int = 0
    deletion_ns: int = 0
    first: bool = False


def prepare_pod_for_create(obj: Mapping[str, Any]) -> Json:
    """Status is reset to Pending with the QoS class kept, generation starts at 1 (pod strategy)."""
    metadata = dict(obj.get("metadata") or {})
    metadata.pop("deletionTimestamp", None)
    metadata.pop("deletionGracePeriodSeconds", None)
    metadata["generation"] = 1
    status: Json = {"phase": "Pending"}
    qos = cast(Json, obj.get("status") or {}).get("qosClass")
    if qos:
        status["qosClass"] = qos
    return {**obj, "metadata": metadata, "status": status}


def prepare_pod_for_update(old: Mapping[str, Any], new: Mapping[str, Any], *, subresource: str) -> Json:
    """A status write keeps the spec, any other keeps the status; a changed spec raises the generation."""
    if subresource == "status":
        return {**new, "spec": old["spec"]}
    metadata = dict(new["metadata"])
    if old["spec"] != new["spec"]:
        metadata["generation"] = int(old["metadata"].get("generation", 0)) + 1
    return {**new, "metadata": metadata, "status": old.get("status", {})}


def deletion_step(
    obj: Mapping[str, Any], *, grace_seconds: int | None, now_ns: int, deletion_ns: int
) -> Deletion:
    """The rules of FAC-071 and FAC-072. ``deletion_ns`` is the stored deletionTimestamp, 0 if there is
    none.
    """
    metadata = obj["metadata"]
    finalizers = bool(metadata.get("finalizers"))
    wanted = _period(obj, grace_seconds)
    if not metadata.get("deletionTimestamp"):
        if wanted == 0:
            return Deletion(changed=True, remove=not finalizers, deletion_ns=now_ns, first=True)
        end_ns = now_ns + wanted * 1_000_000_000
        return Deletion(changed=True, remove=False, grace_seconds=wanted, deletion_ns=end_ns, first=True)
    stored = int(metadata.get("deletionGracePeriodSeconds") or 0)
    if stored == 0:
        return Deletion(changed=False, remove=not finalizers)
    if grace_seconds is None and wanted != 0:
        return Deletion(changed=False, remove=False)
    if wanted >= stored:
        return Deletion(changed=False, remove=False)
    end_ns = deletion_ns + (wanted - stored) * 1_000_000_000
    if end_ns < now_ns:
        end_ns, wanted = now_ns, 1 if wanted else 0
    return Deletion(
        changed=True, remove=wanted == 0 and not finalizers, grace_seconds=wanted, deletion_ns=end_ns
    )


def _period(obj: Mapping[str, Any], grace_seconds: int | None) -> int:
    if obj.get("kind") != "Pod":
        return 0
    spec: Mapping[str, Any] = obj.get("spec") or {}
    status: Mapping[str, Any] = obj.get("status") or {}
    if grace_seconds is None:
        own = spec.get("terminationGracePeriodSeconds")
        grace_seconds = int(own) if own is not None else 30
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    return grace_seconds if grace_seconds >= 0 else 1
