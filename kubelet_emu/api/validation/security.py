"""Validation of security contexts and of what an operating system excludes. (pure)

API-150 to API-152.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from kubelet_emu.api.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from kubelet_emu.api.names import range_problem
from kubelet_emu.api.types import (
    AppArmorProfile,
    Container,
    PodSecurityContext,
    PodSpec,
    SeccompProfile,
    SecurityContext,
    Sysctl,
)
from kubelet_emu.api.validation.options import Options
from kubelet_emu.api.validation.paths import relative_path_errors

__all__ = ["all_containers", "validate_os", "validate_pod_security", "validate_security_context"]

_MAX_ID: Final = 2**31 - 1
_PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
_PROC_MOUNTS = ("Default", "Unmasked")
_SYSCTL_SEGMENT: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = rf"({_SYSCTL_SEGMENT}[\./])*{_SYSCTL_SEGMENT}"
_MAX_SYSCTL: Final = 253
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")


def all_containers(spec: PodSpec) -> Iterator[tuple[str, Container]]:
    """Every container of the spec with its path, in the order of the kinds that the server checks."""
    for kind, containers in (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        for index, container in enumerate(containers):
            yield f"spec.{kind}[{index}]", container


def _id_errors(value: int | None, path: str) -> list[FieldError]:
    return [] if value is None or 0 <= value <= _MAX_ID else [invalid(path, value, range_problem(0, _MAX_ID))]


def _validate_profile(
    profile: SeccompProfile | AppArmorProfile | None, path: str, *, seccomp: bool
) -> list[FieldError]:
    if profile is None:
        return []
    errors: list[FieldError] = []
    if not profile.type:
        errors.append(
            required(f"{path}.type", "type is required when seccompProfile is set" if seccomp else "")
        )
    elif profile.type not in _PROFILE_TYPES:
        errors.append(not_supported(f"{path}.type", profile.type, _PROFILE_TYPES))
    name, local = f"{path}.localhostProfile", profile.localhost_profile
    what = "seccomp type" if seccomp else "AppArmor type"
    if profile.type == "Localhost":
        if local is None or (not seccomp and not local.strip()):
            errors.append(required(name, f"must be set when {what} is Localhost"))
        elif seccomp:
            errors += relative_path_errors(local, name)
    elif local is not None:
        errors.append(invalid(name, local, f"can only be set when {what} is Localhost"))
    return errors


def _validate_escalation(context: SecurityContext, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if context.allow_privilege_escalation is not False:
        return errors
    if context.privileged:
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.append(invalid(path, context, text))
    if context.capabilities is not None and "CAP_SYS_ADMIN" in context.capabilities.add:
        text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        errors.append(invalid(path, context, text))
    return errors


def validate_security_context(
    context: SecurityContext | None, path: str, *, host_users: bool, options: Options
) -> list[FieldError]:
    """The security context of a container (API-151)."""
    if context is None:
        return []
    errors: list[FieldError] = []
    if context.privileged and not options.allow_privileged:
        errors.append(forbidden(f"{path}.privileged", "disallowed by cluster policy"))
    errors += _id_errors(context.run_as_user, f"{path}.runAsUser")
    errors += _id_errors(context.run_as_group, f"{path}.runAsGroup")
    if context.proc_mount is not None:
        if context.proc_mount not in _PROC_MOUNTS:
            errors.append(not_supported(f"{path}.procMount", context.proc_mount, _PROC_MOUNTS))
        if context.proc_mount == "Unmasked" and host_users:
            text = "`hostUsers` must be false to use `Unmasked`"
            errors.append(invalid(f"{path}.procMount", context.proc_mount, text))
    errors += _validate_profile(context.seccomp_profile, f"{path}.seccompProfile", seccomp=True)
    errors += _validate_escalation(context, path)
    return errors + _validate_profile(context.app_armor_profile, f"{path}.appArmorProfile", seccomp=False)


def _validate_sysctls(sysctls: Sequence[Sysctl], spec: PodSpec, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        place = f"{path}[{index}].name"
        name = sysctl.name.replace("/", ".")
        if not sysctl.name:
            errors.append(required(place))
        elif len(sysctl.name) > _MAX_SYSCTL or not re.fullmatch(_SYSCTL, sysctl.name):
            text = f"must have at most {_MAX_SYSCTL} characters and match regex ^{_SYSCTL}$"
            errors.append(invalid(place, sysctl.name, text))
        elif name in seen:
            errors.append(duplicate(place, sysctl.name))
        seen.add(name)
        if spec.host_network and name.startswith("net."):
            errors.append(invalid(place, sysctl.name, "may not be specified when 'hostNetwork' is true"))
        if spec.host_ipc and name.startswith(_IPC_SYSCTLS):
            errors.append(invalid(place, sysctl.name, "may not be specified when 'hostIPC' is true"))
    return errors


def _policy_errors(value: str | None, path: str, supported: Sequence[str]) -> list[FieldError]:
    return [] if value is None or value in supported else [not_supported(path, value, supported)]


def _validate_pod_context(context: PodSecurityContext, spec: PodSpec, path: str) -> list[FieldError]:
    errors = _id_errors(context.run_as_user, f"{path}.runAsUser")
    errors += _id_errors(context.run_as_group, f"{path}.runAsGroup")
    errors += _id_errors(context.fs_group, f"{path}.fsGroup")
    for index, group in enumerate(context.supplemental_groups):
        errors += _id_errors(group, f"{path}.supplementalGroups[{index}]")
    errors += _validate_sysctls(context.sysctls, spec, f"{path}.sysctls")
    errors += _policy_errors(
        context.fs_group_change_policy, f"{path}.fsGroupChangePolicy", ("Always", "OnRootMismatch")
    )
    errors += _policy_errors(
        context.supplemental_groups_policy, f"{path}.supplementalGroupsPolicy", ("Merge", "Strict")
    )
    errors += _policy_errors(
        context.se_linux_change_policy, f"{path}.seLinuxChangePolicy", ("MountOption", "Recursive")
    )
    errors += _validate_profile(context.seccomp_profile, f"{path}.seccompProfile", seccomp=True)
    return errors + _validate_profile(context.app_armor_profile, f"{path}.appArmorProfile", seccomp=False)


def validate_pod_security(spec: PodSpec, path: str) -> list[FieldError]:
    """``spec.securityContext`` and the host fields that the server counts as a part of it (API-004)."""
    errors: list[FieldError] = []
    if spec.share_process_namespace and spec.host_pid:
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{path}.shareProcessNamespace", True, text))
    if spec.security_context is not None:
        errors += _validate_pod_context(spec.security_context, spec, path)
    return errors


_NOT_ON_WINDOWS = "cannot be set for a windows pod"


def _validate_windows(spec: PodSpec) -> list[FieldError]:
    context = spec.security_context or PodSecurityContext()
    path = "spec.securityContext"
    pod_fields: tuple[tuple[str, object], ...] = (
        (f"{path}.appArmorProfile", context.app_armor_profile),
        (f"{path}.seLinuxOptions", context.se_linux_options),
        ("spec.hostUsers", spec.host_users),
        ("spec.hostPID", spec.host_pid or None),
        ("spec.hostIPC", spec.host_ipc or None),
        (f"{path}.seccompProfile", context.seccomp_profile),
        (f"{path}.fsGroup", context.fs_group),
        (f"{path}.fsGroupChangePolicy", context.fs_group_change_policy),
        (f"{path}.sysctls", context.sysctls or None),
        ("spec.shareProcessNamespace", spec.share_process_namespace),
        (f"{path}.runAsUser", context.run_as_user),
        (f"{path}.runAsGroup", context.run_as_group),
        (f"{path}.supplementalGroups", context.supplemental_groups or None),
        (f"{path}.supplementalGroupsPolicy", context.supplemental_groups_policy),
    )
    errors = [forbidden(place, _NOT_ON_WINDOWS) for place, value in pod_fields if value is not None]
    for place, container in all_containers(spec):
        own = container.security_context
        if own is None:
            continue
        fields: tuple[tuple[str, object], ...] = (
            ("appArmorProfile", own.app_armor_profile),
            ("seLinuxOptions", own.se_linux_options),
            ("seccompProfile", own.seccomp_profile),
            ("capabilities", own.capabilities),
            ("readOnlyRootFilesystem", own.read_only_root_filesystem),
            ("privileged", own.privileged),
            ("allowPrivilegeEscalation", own.allow_privilege_escalation),
            ("procMount", own.proc_mount),
            ("runAsUser", own.run_as_user),
            ("runAsGroup", own.run_as_group),
        )
        errors += [
            forbidden(f"{place}.securityContext.{name}", _NOT_ON_WINDOWS)
            for name, value in fields
            if value is not None
        ]
    return errors


def _validate_linux(spec: PodSpec) -> list[FieldError]:
    text = "windows options cannot be set for a linux pod"
    errors: list[FieldError] = []
    if spec.security_context is not None and spec.security_context.windows_options is not None:
        errors.append(forbidden("spec.securityContext.windowsOptions", text))
    for place, container in all_containers(spec):
        if container.security_context is not None and container.security_context.windows_options is not None:
            errors.append(forbidden(f"{place}.securityContext.windowsOptions", text))
    return errors


def validate_os(spec: PodSpec) -> list[FieldError]:
    """``spec.os`` and the fields that the named system does not have."""
    if spec.os is None:
        return []
    if not spec.os.name:
        return [required("spec.os.name")]
    if spec.os.name == "linux":
        return _validate_linux(spec)
    if spec.os.name == "windows":
        return _validate_windows(spec)
    return [not_supported("spec.os.name", spec.os.name, ("linux", "windows"))]
