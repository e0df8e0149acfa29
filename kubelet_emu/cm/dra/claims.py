"""ResourceClaims as a kubelet knows them: who uses them, what drivers said of them (pure).

Mirrors ``pkg/kubelet/cm/dra/claiminfo.go`` and the checks of ``manager.go`` (DEV-153 to DEV-157).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from attrs import evolve, field, frozen

from kubelet_emu.api.types import Container, Pod
from kubelet_emu.errors import PeerError
from kubelet_emu.pod_update import uid_of

__all__ = [
    "Checked",
    "ClaimCache",
    "ClaimInfo",
    "PodClaim",
    "PreparedDevice",
    "cdi_ids",
    "check_claim",
    "container_claims",
    "extended_resources",
    "pod_claims",
]


@frozen(kw_only=True)
class PreparedDevice:
    """A device as its driver described it. Without ``requests`` it belongs to every request of the claim."""

    pool: str
    device: str
    requests: tuple[str, ...] = ()
    cdi_ids: tuple[str, ...] = ()
    share_id: str | None = None

    def serves(self, request: str) -> bool:
        """Whether the device is meant by a request; empty means all. A subrequest counts for its parent."""
        if not request or not self.requests:
            return True
        return any(name == request or name.startswith(f"{request}/") for name in self.requests)


def _no_drivers() -> Mapping[str, tuple[PreparedDevice, ...]]:
    return {}


@frozen(kw_only=True)
class ClaimInfo:
    """One claim in the kubelet's cache. ``prepared`` is forgotten by a restart of the kubelet (DEV-154)."""

    uid: str
    name: str
    namespace: str
    pod_uids: tuple[str, ...] = ()
    drivers: Mapping[str, tuple[PreparedDevice, ...]] = field(factory=_no_drivers)
    prepared: bool = False

    def with_pod(self, uid: str) -> "ClaimInfo":
        """The claim with one more reference."""
        return evolve(self, pod_uids=tuple(sorted({*self.pod_uids, uid})))

    def without_pod(self, uid: str) -> "ClaimInfo":
        """The claim without that pod's reference."""
        return evolve(self, pod_uids=tuple(each for each in self.pod_uids if each != uid))

    def with_devices(self, driver: str, devices: Iterable[PreparedDevice]) -> "ClaimInfo":
        """What a driver returned is added to what is stored, also when it comes again (DEV-154)."""
        added = (*self.drivers.get(driver, ()), *devices)
        return evolve(self, drivers={**self.drivers, driver: added})


@frozen
class PodClaim:
    """A claim of a pod: its name in the pod's spec, and the name of the ResourceClaim object."""

    name: str
    claim_name: str
    generated: bool = False
    """Made from a template for this pod, which has to own it."""


@frozen(kw_only=True)
class Checked:
    """A claim that this pod may use, as read from the API: drivers in the order of their results."""

    uid: str
    name: str
    namespace: str
    drivers: tuple[str, ...]


class ClaimCache:
    """All claims of the node, by namespace and name."""

    def __init__(self, claims: Iterable[ClaimInfo] = ()) -> None:
        self._claims = {(claim.namespace, claim.name): claim for claim in claims}

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        return self._claims.get((namespace, name))

    def put(self, claim: ClaimInfo) -> None:
        self._claims[claim.namespace, claim.name] = claim

    def remove(self, namespace: str, name: str) -> None:
        self._claims.pop((namespace, name), None)

    def all(self) -> tuple[ClaimInfo, ...]:
        """Sorted by namespace and name."""
        return tuple(self._claims[key] for key in sorted(self._claims))

    def add(self, checked: Checked, pod_uid: str) -> ClaimInfo:
        """Note that a pod uses a claim (step 2 of DEV-153). Raises ``PeerError`` for another UID of that
        name.
        """
        known = self.get(checked.namespace, checked.name)
        if known is not None and known.uid != checked.uid:
            raise PeerError(
                f"old ResourceClaim with same name {checked.name} and different UID {known.uid} still exists "
                "(previous pod force-deleted?!)"
            )
        if known is None:
            known = ClaimInfo(
                uid=checked.uid,
                name=checked.name,
                namespace=checked.namespace,
                drivers=dict.fromkeys(checked.drivers, ()),
            )
        found = known.with_pod(pod_uid)
        self.put(found)
        return found


def pod_claims(pod: Pod) -> tuple[PodClaim, ...]:
    """The claims of a pod that have an object. Raises ``PeerError`` for one that is not made yet."""
    statuses = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    found: list[PodClaim] = []
    for claim in pod.spec.resource_claims:
        if claim.resource_claim_name is not None:
            found.append(PodClaim(claim.name, claim.resource_claim_name))
        elif claim.name not in statuses:
            raise PeerError("ResourceClaim not found")
        elif (name := statuses[claim.name]) is not None:  # None: no claim was needed after all
            found.append(PodClaim(claim.name, name, generated=True))
    extended = pod.status.extended_resource_claim_status
    if extended and extended.get("resourceClaimName"):
        found.append(PodClaim("", str(extended["resourceClaimName"])))
    return tuple(found)


def check_claim(pod: Pod, claim: PodClaim, obj: Mapping[str, Any] | None) -> Checked:
    """What may be used of the object (step 1 of DEV-153). Raises ``PeerError``."""
    name = claim.claim_name
    if obj is None:
        raise PeerError(f'fetch ResourceClaim {name}: resourceclaims.resource.k8s.io "{name}" not found')
    metadata = cast("Mapping[str, Any]", obj.get("metadata") or {})
    status = cast("Mapping[str, Any]", obj.get("status") or {})
    uid, pod_name = str(metadata.get("uid", "")), pod.metadata.name
    namespace = pod.metadata.namespace or "default"
    owners = cast("Sequence[Mapping[str, Any]]", metadata.get("ownerReferences") or ())
    if claim.generated and not any(
        owner.get("controller") and owner.get("uid") == uid_of(pod) for owner in owners
    ):
        raise PeerError(
            f"ResourceClaim {namespace}/{name} was not created for pod {namespace}/{pod_name} "
            "(pod is not owner)"
        )
    reserved = cast("Sequence[Mapping[str, Any]]", status.get("reservedFor") or ())
    if not any(each.get("uid") == uid_of(pod) for each in reserved):
        raise PeerError(f"pod {pod_name} ({uid_of(pod)}) is not allowed to use ResourceClaim {name} ({uid})")
    allocation = cast("Mapping[str, Any] | None", status.get("allocation"))
    if allocation is None:
        raise PeerError(f"ResourceClaim {name} is not allocated")
    devices = cast("Mapping[str, Any]", allocation.get("devices") or {})
    results = cast("Sequence[Mapping[str, Any]]", devices.get("results") or ())
    drivers = tuple(dict.fromkeys(str(result.get("driver", "")) for result in results))
    return Checked(uid=uid, name=name, namespace=namespace, drivers=drivers)


def container_claims(pod: Pod, container: Container) -> tuple[tuple[PodClaim, str], ...]:
    """The claims that a container names, each with the request it means; empty is the whole claim.

    Extended resources that a driver serves (DEV-160) come with the requests of their mapping.
    """
    by_name = {claim.name: claim for claim in pod_claims(pod)} if _has_claims(pod) else {}
    found = [
        (by_name[entry.name], entry.request or "")
        for entry in container.resources.claims
        if entry.name in by_name
    ]
    extended = cast("Mapping[str, Any]", pod.status.extended_resource_claim_status or {})
    mappings = cast("Sequence[Mapping[str, Any]]", extended.get("requestMappings") or ())
    found += [
        (by_name[""], str(mapping.get("requestName", "")))
        for mapping in mappings
        if mapping.get("containerName") == container.name and "" in by_name
    ]
    return tuple(found)


def extended_resources(pod: Pod, container: str) -> frozenset[str]:
    """Extended resources of a container that a DRA driver serves; the device manager skips them (DEV-160)."""
    if not pod.status.extended_resource_claim_status:
        return frozenset()
    extended = pod.status.extended_resource_claim_status
    mappings = cast("Sequence[Mapping[str, Any]]", extended.get("requestMappings") or ())
    return frozenset(
        str(mapping.get("resourceName", ""))
        for mapping in mappings
        if mapping.get("containerName") == container
    )


def _has_claims(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims or pod.status.extended_resource_claim_status)


def cdi_ids(claim: ClaimInfo, request: str) -> tuple[str, ...]:
    """CDI names of the devices of a request, in the order of drivers' names; repeated ones stay (DEV-154)."""
    return tuple(
        name
        for driver in sorted(claim.drivers)
        for device in claim.drivers[driver]
        if device.serves(request)
        for name in device.cdi_ids
    )
