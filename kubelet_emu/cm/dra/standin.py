"""What scheduler and claim controller do about ResourceClaims, as far as one node needs it (pure).

There is neither on an emulated node, so claims that stand beside a pod in a manifest get their devices here:
a device class is taken for the driver of the same name, devices are given in the driver's order, and the pod
is noted under ``reservedFor``. A claim that has an allocation already keeps it. A template makes a claim of
the pod's own. Selectors and constraints are not looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from attrs import frozen

from kubelet_emu.errors import CallerError, Problem

__all__ = ["DriverOffer", "Reserved", "claim_from_template", "claims_wanted", "reserve"]

Json = Mapping[str, Any]


@frozen(kw_only=True)
class DriverOffer:
    """A driver on this node: its pool and its devices."""

    driver: str
    pool: str
    devices: tuple[str, ...]


@frozen
class Reserved:
    """The new status of a claim: what was allocated and for whom it is reserved."""

    status: Json
    devices: tuple[tuple[str, str], ...]
    """(driver, device) of all its results."""


def claims_wanted(pod: Json) -> tuple[tuple[str, str, str], ...]:
    """(name in the pod, name of a claim, name of a template) of each claim; one of the last two is empty."""
    spec = cast("Json", pod.get("spec") or {})
    return tuple(
        (
            str(entry.get("name", "")),
            str(entry.get("resourceClaimName") or ""),
            str(entry.get("resourceClaimTemplateName") or ""),
        )
        for entry in cast("Sequence[Json]", spec.get("resourceClaims") or ())
    )


def claim_from_template(template: Json, pod: Json, name: str, suffix: str) -> Json:
    """The claim that the controller makes for one entry of a pod."""
    metadata = cast("Json", pod["metadata"])
    inner = cast("Json", template.get("spec") or {})
    return {
        "apiVersion": template.get("apiVersion", "resource.k8s.io/v1"),
        "kind": "ResourceClaim",
        "metadata": {
            **cast("Json", inner.get("metadata") or {}),
            "name": f"{metadata['name']}-{name}-{suffix}",
            "namespace": metadata.get("namespace", "default"),
            "annotations": {"resource.kubernetes.io/pod-claim-name": name},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": inner.get("spec") or {},
    }


def reserve(
    claim: Json, pod: Json, offers: Sequence[DriverOffer], in_use: Iterable[tuple[str, str]]
) -> Reserved:
    """Allocate a claim if it is not, and reserve it for a pod.

    ``in_use`` are (driver, device) of other claims. Raises ``CallerError`` where nothing fits.
    """
    status = dict(cast("Json", claim.get("status") or {}))
    if not status.get("allocation"):
        status["allocation"] = {"devices": {"results": _results(claim, offers, set(in_use))}}
    metadata = cast("Json", pod["metadata"])
    entry = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
    reserved = [dict(each) for each in cast("Sequence[Json]", status.get("reservedFor") or ())]
    if all(each.get("uid") != entry["uid"] for each in reserved):
        reserved.append(entry)
    status["reservedFor"] = reserved
    results = cast("Sequence[Json]", status["allocation"].get("devices", {}).get("results") or ())
    used = tuple((str(each.get("driver")), str(each.get("device"))) for each in results)
    return Reserved(status, used)


def _results(claim: Json, offers: Sequence[DriverOffer], used: set[tuple[str, str]]) -> list[dict[str, str]]:
    metadata = cast("Json", claim.get("metadata") or {})
    name = str(metadata.get("name", ""))
    spec = cast("Json", claim.get("spec") or {})
    devices = cast("Json", spec.get("devices") or {})
    results: list[dict[str, str]] = []
    for request in cast("Sequence[Json]", devices.get("requests") or ()):
        results += _request_results(name, request, offers, used)
    if not results:
        raise CallerError([Problem(f"ResourceClaim {name} asks for no device", "spec.devices.requests")])
    return results


def _request_results(
    claim: str, request: Json, offers: Sequence[DriverOffer], used: set[tuple[str, str]]
) -> list[dict[str, str]]:
    """The devices of one request; of alternatives the first that fits."""
    name = str(request.get("name", ""))
    alternatives = cast("Sequence[Json]", request.get("firstAvailable") or ())
    wanted = [(f"{name}/{each.get('name', '')}", each) for each in alternatives] or [
        (name, cast("Json", request.get("exactly") or request))
    ]
    said = ""
    for full_name, exact in wanted:
        class_name = str(exact.get("deviceClassName", ""))
        offer = next((each for each in offers if each.driver == class_name), None)
        if offer is None:
            known = ", ".join(each.driver for each in offers) or "none"
            said = f"no driver serves device class {class_name!r}: there are {known}"
            continue
        free = [device for device in offer.devices if (offer.driver, device) not in used]
        count = len(free) if exact.get("allocationMode") == "All" else int(exact.get("count") or 1)
        if not free or len(free) < count:
            said = f"{count or 1} devices of {class_name} are wanted, {len(free)} are free"
            continue
        taken = free[:count]
        used.update((offer.driver, device) for device in taken)
        return [
            {"request": full_name, "driver": offer.driver, "pool": offer.pool, "device": device}
            for device in taken
        ]
    raise CallerError([Problem(f"ResourceClaim {claim}: request {name}: {said}")])
