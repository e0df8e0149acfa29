"""What a static pod may not refer to. (pure)

Mirrors HasAPIObjectReference of ``pkg/api/pod``. API-174.
"""

from collections.abc import Iterator

from kubelet_emu.api.types import Pod, PodSpec, Volume

__all__ = ["api_reference", "reference_problem"]

_RAW_SOURCES = (
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
)


def _volume_references(volume: Volume) -> Iterator[str]:
    if volume.config_map is not None:
        yield "configmaps (via configmap volumes)"
    if volume.secret is not None:
        yield "secrets (via secret volumes)"
    if volume.persistent_volume_claim is not None:
        yield "persistentvolumeclaims"
    for json, name in _RAW_SOURCES:
        if volume.extra.get(json) is not None:
            yield name
    for source in volume.projected.sources if volume.projected is not None else ():
        if source.config_map is not None:
            yield "configmaps (via projected volumes)"
        if source.secret is not None:
            yield "secrets (via projected volumes)"
        if source.service_account_token is not None:
            yield "serviceaccounts (via projected volumes)"
        if source.cluster_trust_bundle is not None:
            yield "clustertrustbundles"
        if source.pod_certificate is not None:
            yield "podcertificates"


def _env_references(spec: PodSpec) -> Iterator[str]:
    for container in (*spec.containers, *spec.init_containers, *spec.ephemeral_containers):
        for source in container.env_from:
            if source.config_map_ref is not None:
                yield "configmaps"
            if source.secret_ref is not None:
                yield "secrets"
        for variable in container.env:
            value = variable.value_from
            if value is not None and value.config_map_key_ref is not None:
                yield "configmaps"
            if value is not None and value.secret_key_ref is not None:
                yield "secrets"


def _references(spec: PodSpec) -> Iterator[str]:
    if spec.service_account_name:
        yield "serviceaccounts"
    if spec.image_pull_secrets:
        yield "secrets"
    yield from _env_references(spec)
    if spec.resource_claims:
        yield "resourceclaims"
    for volume in spec.volumes:
        yield from _volume_references(volume)


def api_reference(pod: Pod) -> str:
    """What kind of API object the pod refers to, the first one found; empty if none."""
    return next(_references(pod.spec), "")


def reference_problem(pod: Pod) -> str:
    """``static pods may not reference …``, empty if the pod refers to nothing."""
    found = api_reference(pod)
    return f"static pods may not reference {found}" if found else ""
