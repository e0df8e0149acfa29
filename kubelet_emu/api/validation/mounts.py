"""Validation of volume mounts and devices of a container. (pure)

API-134 to API-136.
"""

from collections.abc import Mapping

from kubelet_emu.api.field_errors import FieldError, forbidden, invalid, not_found, not_supported, required
from kubelet_emu.api.types import Container, Volume, VolumeMount
from kubelet_emu.api.validation.paths import relative_path_errors

__all__ = ["validate_devices", "validate_mounts"]

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def _validate_propagation(mount: VolumeMount, container: Container, path: str) -> list[FieldError]:
    mode = mount.mount_propagation
    if mode is None:
        return []
    errors: list[FieldError] = []
    if mode not in _PROPAGATIONS:
        errors.append(not_supported(path, mode, _PROPAGATIONS))
    context = container.security_context
    if mode == "Bidirectional" and not (context is not None and context.privileged):
        text = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden(path, text))
    return errors


def _validate_recursive(mount: VolumeMount, path: str) -> list[FieldError]:
    mode = mount.recursive_read_only
    if mode is None or mode == "Disabled":
        return []
    if mode not in _RECURSIVE:
        return [not_supported(path, mode, _RECURSIVE)]
    errors: list[FieldError] = []
    if not mount.read_only:
        errors.append(forbidden(path, "may only be specified when readOnly is true"))
    if mount.mount_propagation not in (None, "None"):
        text = "may only be specified when mountPropagation is None or not specified"
        errors.append(forbidden(path, text))
    return errors


def _validate_sub_path(mount: VolumeMount, path: str, place: str) -> list[FieldError]:
    """``path`` is that of the list: some of these errors have no index (API-134)."""
    errors: list[FieldError] = []
    if mount.sub_path:
        errors += relative_path_errors(mount.sub_path, f"{path}.subPath")
    if mount.sub_path_expr:
        if mount.sub_path:
            text = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(f"{place}.subPathExpr", mount.sub_path_expr, text))
        errors += relative_path_errors(mount.sub_path_expr, f"{path}.subPathExpr")
    return errors


def validate_mounts(container: Container, volumes: Mapping[str, Volume], path: str) -> list[FieldError]:
    """The mounts of one container; ``volumes`` are those of the pod that are valid."""
    errors: list[FieldError] = []
    targets: set[str] = set()
    devices = {device.name for device in container.volume_devices}
    device_paths = {device.device_path for device in container.volume_devices}
    for index, mount in enumerate(container.volume_mounts):
        place = f"{path}[{index}]"
        if not mount.name:
            errors.append(required(f"{place}.name"))
        if mount.name not in volumes:
            errors.append(not_found(f"{place}.name", mount.name))
        if not mount.mount_path:
            errors.append(required(f"{place}.mountPath"))
        if mount.mount_path in targets:
            errors.append(invalid(f"{place}.mountPath", mount.mount_path, "must be unique"))
        targets.add(mount.mount_path)
        if mount.name in devices:
            errors.append(invalid(f"{place}.name", mount.name, "must not already exist in volumeDevices"))
        if mount.mount_path in device_paths:
            text = "must not already exist as a path in volumeDevices"
            errors.append(invalid(f"{place}.mountPath", mount.mount_path, text))
        errors += _validate_sub_path(mount, path, place)
        errors += _validate_propagation(mount, container, f"{path}.mountPropagation")
        errors += _validate_recursive(mount, f"{path}.recursiveReadOnly")
    return errors


def validate_devices(container: Container, volumes: Mapping[str, Volume], path: str) -> list[FieldError]:
    """The raw block devices of one container."""
    errors: list[FieldError] = []
    names: set[str] = set()
    targets: set[str] = set()
    mounts = {mount.name for mount in container.volume_mounts}
    mount_paths = {mount.mount_path for mount in container.volume_mounts}
    for index, device in enumerate(container.volume_devices):
        name, target = f"{path}[{index}].name", f"{path}[{index}].devicePath"
        volume = volumes.get(device.name)
        if not device.name:
            errors.append(required(name))
        if device.name in names:
            errors.append(invalid(name, device.name, "must be unique"))
        if volume is None:
            errors.append(not_found(name, device.name))
        elif volume.persistent_volume_claim is None and volume.extra.get("ephemeral") is None:
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(name, device.name, text))
        if not device.device_path:
            errors.append(required(target))
        if device.device_path in targets:
            errors.append(invalid(target, device.device_path, "must be unique"))
        if ".." in device.device_path.split("/"):
            errors.append(invalid(target, device.device_path, "can not contain backsteps ('..')"))
        if device.name in mounts:
            errors.append(invalid(name, device.name, "must not already exist in volumeMounts"))
        if device.device_path in mount_paths:
            text = "must not already exist as a path in volumeMounts"
            errors.append(invalid(target, device.device_path, text))
        names.add(device.name)
        targets.add(device.device_path)
    return errors
