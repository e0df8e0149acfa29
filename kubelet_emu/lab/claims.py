"""Stands in for scheduler and claim controller on a node that has DRA drivers: gives claims their devices.

The deciding is in ``kubelet_emu.cm.dra.standin``; here the API store is read and written. Claims are seen to
in the moment in which their pod is created, so the kubelet never meets one that is still without devices.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from devices.dra import ClaimDevice, ClaimName, DraSetup
from devices.model import Refused
from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.apiserver.store import ApiStore, WatchEvent
from kubelet_emu.cm.dra.standin import DriverOffer, claim_from_template, claims_wanted, reserve
from kubelet_emu.errors import CallerError

__all__ = ["ClaimKeeper"]

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5


class ClaimKeeper:
    """One node's claims. ``note`` is told of claims that nothing fits; their pods wait."""

    def __init__(
        self,
        store: ApiStore,
        drivers: Sequence[DraSetup],
        *,
        rng: random.Random,
        note: Callable[[str], None],
    ) -> None:
        self._store = store
        self._offers = [
            DriverOffer(driver=setup.driver, pool=setup.pool, devices=setup.devices) for setup in drivers
        ]
        self._rng = rng
        self._note = note
        store.listen("Pod", self._on_pod)

    def create_pod(self, obj: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create a pod. One with claims from templates is bound to its node only once they are made, as by a
        scheduler; the kubelet first sees it then. Raises ``ApiError``.
        """
        spec = cast("Mapping[str, Any]", obj.get("spec") or {})
        if not any(template for _, _, template in claims_wanted(obj)):
            return self._store.create("Pod", obj)
        unbound = {key: value for key, value in spec.items() if key != "nodeName"}
        created = self._store.create("Pod", {**obj, "spec": unbound})
        self._tell(created)
        metadata = created["metadata"]
        current = self._store.get("Pod", metadata["namespace"], metadata["name"]) or created
        bound = {**current, "spec": {**current["spec"], "nodeName": spec.get("nodeName")}}
        return self._store.replace(
            "Pod", metadata["namespace"], metadata["name"], bound, subresource="binding"
        )

    def lookup(self, driver: str) -> Callable[[ClaimName], Sequence[ClaimDevice]]:
        """What a driver reads from the API: the devices of its own that a claim was given."""

        def devices(claim: ClaimName) -> Sequence[ClaimDevice]:
            obj = self._store.get("ResourceClaim", claim.namespace, claim.name)
            if obj is None or obj["metadata"]["uid"] != claim.uid:
                raise Refused(f"claim {claim.namespace}/{claim.name} is not in the API")
            return [
                ClaimDevice(
                    device=str(result["device"]),
                    requests=(str(result.get("request", "")),),
                    pool=str(result.get("pool", "")),
                    share_id=result.get("shareID"),
                )
                for result in _results(obj)
                if result.get("driver") == driver
            ]

        return devices

    def _on_pod(self, event: WatchEvent) -> None:
        if event.type == "ADDED":
            self._admit(event.object)
        elif event.type == "DELETED":
            self._release(event.object)

    def _admit(self, pod: Mapping[str, Any]) -> None:
        namespace = pod["metadata"]["namespace"]
        for name, claim_name, template_name in claims_wanted(pod):
            try:
                claim = self._store.get("ResourceClaim", namespace, claim_name) if claim_name else None
                if template_name:
                    claim = self._from_template(pod, name, template_name)
                if claim is not None:
                    self._reserve(pod, claim)
            except (ApiError, CallerError) as error:
                self._note(f"claim {name} of pod {pod['metadata']['name']}: {error}")

    def _from_template(
        self, pod: Mapping[str, Any], name: str, template_name: str
    ) -> Mapping[str, Any] | None:
        template = self._store.get("ResourceClaimTemplate", pod["metadata"]["namespace"], template_name)
        if template is None:
            return None
        suffix = "".join(self._rng.choice(_SUFFIX) for _ in range(_SUFFIX_LENGTH))
        return self._store.create("ResourceClaim", claim_from_template(template, pod, name, suffix))

    def _reserve(self, pod: Mapping[str, Any], claim: Mapping[str, Any]) -> None:
        metadata = claim["metadata"]
        others = (
            each for each in self._store.list("ResourceClaim") if each["metadata"]["uid"] != metadata["uid"]
        )
        in_use = [
            (str(result.get("driver")), str(result.get("device")))
            for each in others
            for result in _results(each)
        ]
        status = reserve(claim, pod, self._offers, in_use).status
        self._write(claim, status)

    def _release(self, pod: Mapping[str, Any]) -> None:
        """The pod is gone: its own claims go, others lose its reservation, then their devices too."""
        metadata = pod["metadata"]
        for claim in self._store.list("ResourceClaim", namespace=metadata["namespace"]):
            owners = claim["metadata"].get("ownerReferences") or ()
            if any(owner.get("uid") == metadata["uid"] for owner in owners):
                self._store.delete("ResourceClaim", metadata["namespace"], claim["metadata"]["name"])
                continue
            status = cast("dict[str, Any]", claim.get("status") or {})
            before = cast("list[Mapping[str, Any]]", status.get("reservedFor") or [])
            after = [each for each in before if each.get("uid") != metadata["uid"]]
            if len(after) != len(before):
                self._write(claim, {**status, "reservedFor": after} if after else {})

    def _tell(self, pod: Mapping[str, Any]) -> None:
        metadata = pod["metadata"]
        made = {
            str(claim["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"]): str(
                claim["metadata"]["name"]
            )
            for claim in self._store.list("ResourceClaim", namespace=metadata["namespace"])
            for owner in claim["metadata"].get("ownerReferences") or ()
            if owner.get("uid") == metadata["uid"]
        }
        if not made:
            return
        entries = [{"name": name, "resourceClaimName": claim} for name, claim in sorted(made.items())]
        patch = {"status": {"resourceClaimStatuses": entries}}
        try:
            self._store.patch("Pod", metadata["namespace"], metadata["name"], patch, subresource="status")
        except ApiError as error:
            self._note(f"claims of pod {metadata['name']}: {error}")

    def _write(self, claim: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        metadata = claim["metadata"]
        self._store.replace(
            "ResourceClaim",
            metadata["namespace"],
            metadata["name"],
            {**claim, "status": status},
            subresource="status",
        )


def _results(claim: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    status = cast("Mapping[str, Any]", claim.get("status") or {})
    allocation = cast("Mapping[str, Any]", status.get("allocation") or {})
    devices = cast("Mapping[str, Any]", allocation.get("devices") or {})
    return cast("Sequence[Mapping[str, Any]]", devices.get("results") or ())
