"""Validation of volumes and their sources. (pure)

API-130 to API-133.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kubelet_emu.api.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from kubelet_emu.api.names import label_problems
from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import (
    ConfigMapProjection,
    DownwardAPIVolumeFile,
    KeyToPath,
    SecretProjection,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
from kubelet_emu.api.validation.env import validate_field_ref, validate_resource_field_ref
from kubelet_emu.api.validation.meta import messages
from kubelet_emu.api.validation.paths import backstep_errors, mode_errors, relative_path_errors
from kubelet_emu.api.volume_defaults import RAW_VOLUME_SOURCES

__all__ = ["PULL_POLICIES", "validate_pull_policy", "validate_volumes"]

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_VOLUME_FIELD_PATHS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_MIN_TOKEN_SECONDS: Final = 600
_MAX_TOKEN_SECONDS: Final = 1 << 32

# The order in which the server looks at sources, with the names it uses in paths (API-130: two are misspelt).
_ORDER: tuple[tuple[str, str], ...] = (
    ("emptyDir", "emptyDir"),
    ("hostPath", "hostPath"),
    ("gitRepo", "gitRepo"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("secret", "secret"),
    ("nfs", "nfs"),
    ("iscsi", "iscsi"),
    ("glusterfs", "glusterfs"),
    ("flexVolume", "flexVolume"),
    ("persistentVolumeClaim", "persistentVolumeClaim"),
    ("rbd", "rbd"),
    ("cinder", "cinder"),
    ("cephfs", "cephFS"),
    ("flocker", "flocker"),
    ("downwardAPI", "downwarAPI"),
    ("fc", "fc"),
    ("configMap", "configMap"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("storageos", "storageos"),
    ("projected", "projected"),
    ("quobyte", "quobyte"),
    ("scaleIO", "scaleIO"),
    ("csi", "csi"),
    ("ephemeral", "ephemeral"),
    ("image", "image"),
)


def validate_pull_policy(policy: str | None, path: str) -> list[FieldError]:
    """A pull policy; empty is Required."""
    if not policy:
        return [required(path)]
    return [] if policy in PULL_POLICIES else [not_supported(path, policy, PULL_POLICIES)]


def _validate_items(items: Sequence[KeyToPath], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, item in enumerate(items):
        place = f"{path}[{index}]"
        if not item.key:
            errors.append(required(f"{place}.key"))
        if not item.path:
            errors.append(required(f"{place}.path"))
        errors += relative_path_errors(item.path, f"{place}.path", reserved=True)
        errors += mode_errors(item.mode, f"{place}.mode")
    return errors


def _validate_downward_file(item: DownwardAPIVolumeFile, path: str) -> list[FieldError]:
    """The path of an item is that of its source: the server adds no index here."""
    errors = [] if item.path else [required(f"{path}.path")]
    errors += relative_path_errors(item.path, f"{path}.path", reserved=True)
    if item.field_ref is not None:
        errors += validate_field_ref(item.field_ref, f"{path}.fieldRef", _VOLUME_FIELD_PATHS)
        if item.resource_field_ref is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", text))
    elif item.resource_field_ref is not None:
        place = f"{path}.resourceFieldRef"
        errors += validate_resource_field_ref(item.resource_field_ref, place, needs_container=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors + mode_errors(item.mode, f"{path}.mode")


def _empty_dir(volume: Volume, path: str) -> list[FieldError]:
    source = volume.empty_dir
    if source is None or source.size_limit is None or source.size_limit >= Quantity(0):
        return []
    return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]


def _host_path(volume: Volume, path: str) -> list[FieldError]:
    source = volume.host_path
    if source is None:
        return []
    if not source.path:
        return [required(f"{path}.path")]
    errors = backstep_errors(source.path, f"{path}.path")
    if source.type is not None and source.type not in _HOST_PATH_TYPES:
        errors.append(not_supported(f"{path}.type", source.type, _HOST_PATH_TYPES))
    return errors


def _secret(volume: Volume, path: str) -> list[FieldError]:
    source = volume.secret
    if source is None:
        return []
    errors = [] if source.secret_name else [required(f"{path}.secretName")]
    errors += mode_errors(source.default_mode, f"{path}.defaultMode")
    return errors + _validate_items(source.items, f"{path}.items")


def _config_map(volume: Volume, path: str) -> list[FieldError]:
    source = volume.config_map
    if source is None:
        return []
    errors = [] if source.name else [required(f"{path}.name")]
    errors += mode_errors(source.default_mode, f"{path}.defaultMode")
    return errors + _validate_items(source.items, f"{path}.items")


def _claim(volume: Volume, path: str) -> list[FieldError]:
    source = volume.persistent_volume_claim
    return [] if source is None or source.claim_name else [required(f"{path}.claimName")]


def _downward(volume: Volume, path: str) -> list[FieldError]:
    source = volume.downward_api
    if source is None:
        return []
    place = path.replace("downwarAPI", "downwardAPI")
    errors = mode_errors(source.default_mode, f"{place}.defaultMode")
    for item in source.items:
        errors += _validate_downward_file(item, place)
    return errors


def _image(volume: Volume, path: str) -> list[FieldError]:
    source = volume.image
    if source is None:
        return []
    errors = [] if source.reference else [required(f"{path}.reference")]
    return errors + validate_pull_policy(source.pull_policy, f"{path}.pullPolicy")


class _Projections:
    """The sources of one projected volume, which share the target paths (API-133)."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.targets: set[str] = set()
        self.errors: list[FieldError] = []

    def _claim(self, target: str, value: str) -> None:
        if not target:
            return
        if target in self.targets:
            self.errors.append(invalid(self.path, value, "conflicting duplicate paths"))
        self.targets.add(target)

    def _keyed(self, source: SecretProjection | ConfigMapProjection, path: str) -> None:
        if not source.name:
            self.errors.append(required(f"{path}.name"))
        self.errors += _validate_items(source.items, f"{path}.items")
        for item in source.items:
            self._claim(item.path, source.name or "")

    def _token(self, token: ServiceAccountTokenProjection, path: str) -> None:
        seconds = token.expiration_seconds
        if seconds is not None and seconds < _MIN_TOKEN_SECONDS:
            text = "may not specify a duration less than 10 minutes"
            self.errors.append(invalid(f"{path}.expirationSeconds", seconds, text))
        if seconds is not None and seconds > _MAX_TOKEN_SECONDS:
            text = "may not specify a duration larger than 2^32 seconds"
            self.errors.append(invalid(f"{path}.expirationSeconds", seconds, text))
        if not token.path:
            self.errors.append(required(f"{self.path}.path"))
        else:
            self._claim(token.path, token.path)

    def source(self, source: VolumeProjection, path: str) -> None:
        members = (
            ("secret", source.secret),
            ("configMap", source.config_map),
            ("downwardAPI", source.downward_api),
            ("serviceAccountToken", source.service_account_token),
            ("clusterTrustBundle", source.cluster_trust_bundle),
            ("podCertificate", source.pod_certificate),
        )
        present = [(name, member) for name, member in members if member is not None]
        for name, _ in present[1:]:
            text = "may not specify more than 1 volume type per source"
            self.errors.append(forbidden(f"{path}.{name}", text))
        first = present[0][0] if present else ""
        if first == "secret" and source.secret is not None:
            self._keyed(source.secret, f"{path}.secret")
        elif first == "configMap" and source.config_map is not None:
            self._keyed(source.config_map, f"{path}.configMap")
        elif first == "downwardAPI" and source.downward_api is not None:
            for item in source.downward_api.items:
                self.errors += _validate_downward_file(item, f"{path}.downwardAPI")
                self._claim(item.path, item.path)
        elif first == "serviceAccountToken" and source.service_account_token is not None:
            self._token(source.service_account_token, f"{path}.serviceAccountToken")


def _projected(volume: Volume, path: str) -> list[FieldError]:
    projected = volume.projected
    if projected is None:
        return []
    check = _Projections(path)
    for index, source in enumerate(projected.sources):
        check.source(source, f"{path}.sources[{index}]")
    return check.errors + mode_errors(projected.default_mode, f"{path}.defaultMode")


_CHECKS: Mapping[str, Callable[[Volume, str], list[FieldError]]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "secret": _secret,
    "configMap": _config_map,
    "persistentVolumeClaim": _claim,
    "downwardAPI": _downward,
    "image": _image,
    "projected": _projected,
}
_ATTRIBUTES: Mapping[str, str] = {
    "emptyDir": "empty_dir",
    "hostPath": "host_path",
    "secret": "secret",
    "configMap": "config_map",
    "persistentVolumeClaim": "persistent_volume_claim",
    "downwardAPI": "downward_api",
    "image": "image",
    "projected": "projected",
}


def _has(volume: Volume, json: str) -> bool:
    if json in _ATTRIBUTES:
        return getattr(volume, _ATTRIBUTES[json]) is not None
    return json in RAW_VOLUME_SOURCES and volume.extra.get(json) is not None


def _validate_source(volume: Volume, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    present = [(json, shown) for json, shown in _ORDER if _has(volume, json)]
    if not present:
        return [required(path, "must specify a volume type")]
    for index, (json, shown) in enumerate(present):
        if index:
            errors.append(forbidden(f"{path}.{shown}", "may not specify more than 1 volume type"))
        elif json in _CHECKS:
            errors += _CHECKS[json](volume, f"{path}.{shown}")
    return errors


def validate_volumes(volumes: Sequence[Volume], path: str) -> tuple[list[FieldError], dict[str, Volume]]:
    """The errors, and the volumes by name that mounts may refer to: those without any error (API-062)."""
    errors: list[FieldError] = []
    known: dict[str, Volume] = {}
    for index, volume in enumerate(volumes):
        place = f"{path}[{index}]"
        own = _validate_source(volume, place)
        if not volume.name:
            own.append(required(f"{place}.name"))
        else:
            own += messages(f"{place}.name", volume.name, label_problems(volume.name))
        if volume.name in known:
            own.append(duplicate(f"{place}.name", volume.name))
        if not own:
            known[volume.name] = volume
        errors += own
    return errors, known
