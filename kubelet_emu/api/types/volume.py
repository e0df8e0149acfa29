"""Volumes of a pod; sources that this node mounts are typed, all others are kept raw. (pure)"""

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types.base import (
    EMPTY,
    ApiObject,
    JsonMap,
    PtrBool,
    PtrInt32,
    PtrInt64,
    PtrStr,
    WrittenTuple,
    api_object,
)
from kubelet_emu.api.types.container import ObjectFieldSelector, ResourceFieldSelector

__all__ = [
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "DownwardAPIProjection",
    "DownwardAPIVolumeFile",
    "DownwardAPIVolumeSource",
    "EmptyDirVolumeSource",
    "HostPathVolumeSource",
    "ImageVolumeSource",
    "KeyToPath",
    "PersistentVolumeClaimVolumeSource",
    "ProjectedVolumeSource",
    "SecretProjection",
    "SecretVolumeSource",
    "ServiceAccountTokenProjection",
    "Volume",
    "VolumeProjection",
]


@api_object
class EmptyDirVolumeSource(ApiObject):
    medium: str | None = None
    size_limit: Quantity | None = None
    extra: JsonMap = EMPTY


@api_object
class HostPathVolumeSource(ApiObject):
    path: str = ""
    type: PtrStr = None
    extra: JsonMap = EMPTY


@api_object
class KeyToPath(ApiObject):
    key: str = ""
    path: str = ""
    mode: PtrInt32 = None
    extra: JsonMap = EMPTY


@api_object
class SecretVolumeSource(ApiObject):
    secret_name: str | None = None
    items: tuple[KeyToPath, ...] = ()
    default_mode: PtrInt32 = None
    optional: PtrBool = None
    extra: JsonMap = EMPTY


@api_object
class ConfigMapVolumeSource(ApiObject):
    name: str | None = None
    items: tuple[KeyToPath, ...] = ()
    default_mode: PtrInt32 = None
    optional: PtrBool = None
    extra: JsonMap = EMPTY


@api_object
class DownwardAPIVolumeFile(ApiObject):
    path: str = ""
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: PtrInt32 = None
    extra: JsonMap = EMPTY


@api_object
class DownwardAPIVolumeSource(ApiObject):
    items: tuple[DownwardAPIVolumeFile, ...] = ()
    default_mode: PtrInt32 = None
    extra: JsonMap = EMPTY


@api_object
class SecretProjection(ApiObject):
    name: str | None = None
    items: tuple[KeyToPath, ...] = ()
    optional: PtrBool = None
    extra: JsonMap = EMPTY


@api_object
class ConfigMapProjection(ApiObject):
    name: str | None = None
    items: tuple[KeyToPath, ...] = ()
    optional: PtrBool = None
    extra: JsonMap = EMPTY


@api_object
class DownwardAPIProjection(ApiObject):
    items: tuple[DownwardAPIVolumeFile, ...] = ()
    extra: JsonMap = EMPTY


@api_object
class ServiceAccountTokenProjection(ApiObject):
    audience: str | None = None
    expiration_seconds: PtrInt64 = None
    path: str = ""
    extra: JsonMap = EMPTY


@api_object
class VolumeProjection(ApiObject):
    secret: SecretProjection | None = None
    downward_api: DownwardAPIProjection | None = None
    config_map: ConfigMapProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None
    cluster_trust_bundle: JsonMap | None = None
    pod_certificate: JsonMap | None = None
    extra: JsonMap = EMPTY


@api_object
class ProjectedVolumeSource(ApiObject):
    sources: WrittenTuple[VolumeProjection] = ()
    default_mode: PtrInt32 = None
    extra: JsonMap = EMPTY


@api_object
class ImageVolumeSource(ApiObject):
    reference: str | None = None
    pull_policy: str | None = None
    extra: JsonMap = EMPTY


@api_object
class PersistentVolumeClaimVolumeSource(ApiObject):
    claim_name: str = ""
    read_only: bool | None = None
    extra: JsonMap = EMPTY


@api_object
class Volume(ApiObject):
    """A volume: exactly one source. A source without a field of its own here lies raw in ``extra``."""

    name: str = ""
    host_path: HostPathVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    image: ImageVolumeSource | None = None
    extra: JsonMap = EMPTY
