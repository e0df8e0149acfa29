"""Defaults of volumes, also of the sources that this node only carries through. (pure)

API-017.
"""

from collections.abc import Mapping
from typing import Any, cast

from attrs import evolve

from kubelet_emu.api.images import default_pull_policy
from kubelet_emu.api.types import (
    DownwardAPIVolumeFile,
    EmptyDirVolumeSource,
    ProjectedVolumeSource,
    Volume,
    VolumeProjection,
)

__all__ = ["RAW_VOLUME_SOURCES", "TYPED_VOLUME_SOURCES", "default_volume"]

TYPED_VOLUME_SOURCES = (
    "host_path",
    "empty_dir",
    "secret",
    "persistent_volume_claim",
    "downward_api",
    "config_map",
    "projected",
    "image",
)
"""Attributes of ``Volume`` that are sources."""

RAW_VOLUME_SOURCES = (
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "ephemeral",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
)
"""JSON names of the sources that stay raw in ``Volume.extra``."""

_RAW_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
_DEFAULT_MODE = 0o644
_TOKEN_SECONDS = 3600


def _filled(source: Mapping[str, Any], defaults: Mapping[str, object]) -> Mapping[str, Any]:
    missing = {
        name: value for name, value in defaults.items() if source.get(name) is None or source[name] == ""
    }
    return {**source, **missing} if missing else source


def _claim_template(source: Mapping[str, Any]) -> Mapping[str, Any]:
    template = source.get("volumeClaimTemplate")
    if not isinstance(template, Mapping):
        return source
    known = cast("Mapping[str, Any]", template)
    spec = known.get("spec")
    if not isinstance(spec, Mapping) or cast("Mapping[str, Any]", spec).get("volumeMode"):
        return source
    filled = {**cast("Mapping[str, Any]", spec), "volumeMode": "Filesystem"}
    return {**source, "volumeClaimTemplate": {**known, "spec": filled}}


def _default_raw(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    changed = dict(extra)
    for name, value in extra.items():
        if not isinstance(value, Mapping):
            continue
        source = cast("Mapping[str, Any]", value)
        if name in _RAW_DEFAULTS:
            changed[name] = _filled(source, _RAW_DEFAULTS[name])
        elif name == "ephemeral":
            changed[name] = _claim_template(source)
    return extra if changed == extra else changed


def _downward_item(item: DownwardAPIVolumeFile) -> DownwardAPIVolumeFile:
    field = item.field_ref
    if field is None or field.api_version:
        return item
    return evolve(item, field_ref=evolve(field, api_version="v1"))


def _projection(source: VolumeProjection) -> VolumeProjection:
    token, downward = source.service_account_token, source.downward_api
    if token is not None and token.expiration_seconds is None:
        source = evolve(source, service_account_token=evolve(token, expiration_seconds=_TOKEN_SECONDS))
    if downward is not None:
        items = tuple(_downward_item(item) for item in downward.items)
        if items != downward.items:
            source = evolve(source, downward_api=evolve(downward, items=items))
    return source


def _projected(projected: ProjectedVolumeSource) -> ProjectedVolumeSource:
    sources = tuple(_projection(source) for source in projected.sources)
    mode = _DEFAULT_MODE if projected.default_mode is None else projected.default_mode
    if sources == projected.sources and mode == projected.default_mode:
        return projected
    return evolve(projected, sources=sources, default_mode=mode)


def _changes(volume: Volume) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if volume.host_path is not None and volume.host_path.type is None:
        changes["host_path"] = evolve(volume.host_path, type="")
    if volume.secret is not None and volume.secret.default_mode is None:
        changes["secret"] = evolve(volume.secret, default_mode=_DEFAULT_MODE)
    if volume.config_map is not None and volume.config_map.default_mode is None:
        changes["config_map"] = evolve(volume.config_map, default_mode=_DEFAULT_MODE)
    downward = volume.downward_api
    if downward is not None:
        items = tuple(_downward_item(item) for item in downward.items)
        mode = _DEFAULT_MODE if downward.default_mode is None else downward.default_mode
        if items != downward.items or mode != downward.default_mode:
            changes["downward_api"] = evolve(downward, items=items, default_mode=mode)
    if volume.projected is not None and (changed := _projected(volume.projected)) is not volume.projected:
        changes["projected"] = changed
    image = volume.image
    if image is not None and not image.pull_policy:
        changes["image"] = evolve(image, pull_policy=default_pull_policy(image.reference or ""))
    if volume.extra and (extra := _default_raw(volume.extra)) is not volume.extra:
        changes["extra"] = extra
    return changes


def default_volume(volume: Volume) -> Volume:
    """A volume with its defaults; one without any source becomes an emptyDir."""
    if not any(getattr(volume, name) is not None for name in TYPED_VOLUME_SOURCES) and not any(
        name in RAW_VOLUME_SOURCES for name in volume.extra
    ):
        return evolve(volume, empty_dir=EmptyDirVolumeSource())
    changes = _changes(volume)
    return evolve(volume, **changes) if changes else volume
