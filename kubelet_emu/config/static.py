"""Static pods: what is filled in, what they may not use, and the mirror pods that show them (pure).

Mirrors ``pkg/kubelet/config/common.go`` and ``pkg/kubelet/pod/mirror_client.go`` (POD-204 to POD-206,
POD-213, POD-802 to POD-805).
"""

import json
from collections.abc import Iterable, Sequence

from attrs import evolve, frozen

from kubelet_emu.api.codec import pod_to_json
from kubelet_emu.api.types import Container, OwnerReference, Pod, Toleration, Volume, VolumeProjection
from kubelet_emu.pod_update import (
    CONFIG_HASH_ANNOTATION,
    CONFIG_MIRROR_ANNOTATION,
    FILE_SOURCE,
    is_static_pod,
)
from kubelet_emu.why import Why

__all__ = [
    "MirrorPlan",
    "api_reference",
    "is_mirror_pod_of",
    "mirror_pod",
    "plan_mirror",
    "static_pod",
    "static_uid",
]

_FNV_OFFSET = 0x6C62272E07BB014262B821756295C58D
_FNV_PRIME = 0x0000000001000000000000000000013B
_MASK = (1 << 128) - 1

_ALWAYS_TOLERATE = Toleration(operator="Exists", effect="NoExecute")


def static_uid(pod: Pod, origin: Sequence[str]) -> str:
    """The UID of a manifest that names none: 32 hexadecimal digits from content and origin (POD-205).

    ``origin`` is ``("host:<node>", "file:<path>")`` or ``("url:<url>",)``. The real one hashes a dump that
    only Go can make: the digits differ, what they depend on does not.
    """
    content = json.dumps(pod_to_json(pod), sort_keys=True, separators=(",", ":"))
    value = _FNV_OFFSET
    for byte in "".join((content, *origin)).encode():
        value = ((value ^ byte) * _FNV_PRIME) & _MASK
    return f"{value:032x}"


def static_pod(pod: Pod, *, source: str, origin: Sequence[str], node_name: str) -> Pod:
    """A decoded and defaulted manifest as a pod of this node (POD-204)."""
    meta, spec = pod.metadata, pod.spec
    uid = meta.uid or static_uid(pod, origin)
    meta = evolve(
        meta,
        uid=uid,
        name=f"{meta.name}-{node_name.lower()}",
        namespace=meta.namespace or "default",
        annotations={**meta.annotations, CONFIG_HASH_ANNOTATION: uid},
    )
    spec = evolve(spec, node_name=node_name)
    if source == FILE_SOURCE:
        spec = evolve(spec, tolerations=(*spec.tolerations, _ALWAYS_TOLERATE))
    return evolve(pod, metadata=meta, spec=spec, status=evolve(pod.status, phase="Pending"))


# --- references to API objects (POD-213) ----------------------------------------------------------------


def api_reference(pod: Pod) -> str:
    """The first kind of API object that the pod refers to, as the error names it; empty if none."""
    spec = pod.spec
    containers = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
    if spec.service_account_name or spec.service_account:
        return "serviceaccounts"
    if spec.image_pull_secrets or any(map(_uses_secret, containers)) or any(map(_is_secret, spec.volumes)):
        return "secrets"
    if any(map(_uses_config_map, containers)) or any(map(_is_config_map, spec.volumes)):
        return "configmaps"
    if spec.resource_claims:
        return "resourceclaims"
    return next((found for volume in spec.volumes if (found := _other_reference(volume))), "")


def _uses_secret(container: Container) -> bool:
    return any(source.secret_ref is not None for source in container.env_from) or any(
        env.value_from is not None and env.value_from.secret_key_ref is not None for env in container.env
    )


def _uses_config_map(container: Container) -> bool:
    return any(source.config_map_ref is not None for source in container.env_from) or any(
        env.value_from is not None and env.value_from.config_map_key_ref is not None for env in container.env
    )


def _is_secret(volume: Volume) -> bool:
    projected = any(source.secret is not None for source in _projections(volume))
    return volume.secret is not None or projected or "azureFile" in volume.extra


def _is_config_map(volume: Volume) -> bool:
    projected = any(source.config_map is not None for source in _projections(volume))
    return volume.config_map is not None or projected


def _projections(volume: Volume) -> Iterable[VolumeProjection]:
    return volume.projected.sources if volume.projected is not None else ()


def _other_reference(volume: Volume) -> str:
    if volume.persistent_volume_claim is not None or "ephemeral" in volume.extra:
        return "persistentvolumeclaims"
    for name, kind in (("csi", "csidrivers"), ("glusterfs", "endpoints")):
        if name in volume.extra:
            return kind
    for source in _projections(volume):
        if source.service_account_token is not None:
            return "serviceaccounts"
        if source.cluster_trust_bundle is not None:
            return "clustertrustbundles"
        if source.pod_certificate is not None:
            return "podcertificates"
    return ""


# --- mirror pods ----------------------------------------------------------------------------------------


def mirror_pod(pod: Pod, *, node_name: str, node_uid: str) -> Pod:
    """The API object that shows a static pod (POD-802)."""
    annotations = {
        **pod.metadata.annotations,
        CONFIG_MIRROR_ANNOTATION: pod.metadata.annotations.get(CONFIG_HASH_ANNOTATION, ""),
    }
    owner = OwnerReference(api_version="v1", kind="Node", name=node_name, uid=node_uid, controller=True)
    return evolve(pod, metadata=evolve(pod.metadata, annotations=annotations, owner_references=(owner,)))


def is_mirror_pod_of(mirror: Pod, pod: Pod) -> bool:
    """Whether the mirror shows this very version of the static pod: name, namespace and hash agree."""
    a, b = mirror.metadata, pod.metadata
    shown = a.annotations.get(CONFIG_MIRROR_ANNOTATION)
    return (a.name, a.namespace) == (b.name, b.namespace) and shown == b.annotations.get(
        CONFIG_HASH_ANNOTATION, ""
    )


@frozen
class MirrorPlan:
    """What a sync does about the mirror of a static pod. With both set, the deletion comes first."""

    delete: bool
    create: bool
    why: tuple[Why, ...]


def plan_mirror(pod: Pod, mirror: Pod | None, *, node_exists: bool, node_deleting: bool) -> MirrorPlan:
    """Compare a static pod with its mirror (POD-803). Pods that are not static need nothing."""
    if not is_static_pod(pod):
        return MirrorPlan(False, False, ())
    delete = mirror is not None and (
        mirror.metadata.deletion_timestamp is not None or not is_mirror_pod_of(mirror, pod)
    )
    create = (mirror is None or delete) and node_exists and not node_deleting
    return MirrorPlan(delete, create, (Why("POD-803", pod.metadata.name),))
