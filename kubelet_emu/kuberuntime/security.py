"""Security contexts and namespaces of sandboxes and containers as CRI carries them (pure).

Mirrors ``pkg/kubelet/kuberuntime/security_context.go``, ``util/util.go`` (NamespacesForPod) and
``pkg/securitycontext/util.go``.
"""

from collections.abc import Sequence

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.api.types import (
    AppArmorProfile,
    Container,
    Pod,
    SeccompProfile,
    SecurityContext,
    SELinuxOptions,
)
from kubelet_emu.kuberuntime.env import ConfigError
from kubelet_emu.kuberuntime.gotext import format_pod, go_quote

__all__ = [
    "USERNS_LENGTH",
    "container_security",
    "namespaces",
    "sandbox_security",
    "verify_run_as_non_root",
]

USERNS_LENGTH = 65536
"""Ids that one user namespace maps."""
_MASKED_PATHS = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
_READONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_PROFILE_TYPES = {
    "RuntimeDefault": cri.SecurityProfile.RuntimeDefault,
    "Unconfined": cri.SecurityProfile.Unconfined,
    "Localhost": cri.SecurityProfile.Localhost,
}


def _user_namespace(host_id: int | None) -> cri.UserNamespace:
    if host_id is None:
        return cri.UserNamespace(mode=cri.NODE)
    mapping = cri.IDMapping(host_id=host_id, container_id=0, length=USERNS_LENGTH)
    return cri.UserNamespace(mode=cri.POD, uids=[mapping], gids=[mapping])


def namespaces(pod: Pod, *, userns_host_id: int | None = None, target_id: str = "") -> cri.NamespaceOption:
    """Which namespaces a pod's containers share. ``userns_host_id`` starts the pod's own id range (CRI-153).

    ``target_id`` is the container whose processes an ephemeral container wants to see.
    """
    spec = pod.spec
    if spec.host_pid:
        pid = cri.NODE
    elif spec.share_process_namespace:
        pid = cri.POD
    else:
        pid = cri.CONTAINER
    options = cri.NamespaceOption(
        network=cri.NODE if spec.host_network else cri.POD,
        pid=cri.TARGET if target_id else pid,
        ipc=cri.NODE if spec.host_ipc else cri.POD,
        target_id=target_id,
    )
    options.userns_options.CopyFrom(_user_namespace(userns_host_id))
    return options


def _selinux(options: SELinuxOptions) -> cri.SELinuxOption:
    return cri.SELinuxOption(
        user=options.user or "", role=options.role or "", type=options.type or "", level=options.level or ""
    )


def _profile(kind: str, reference: str) -> cri.SecurityProfile:
    known = _PROFILE_TYPES.get(kind, cri.SecurityProfile.Unconfined)
    local = reference if known == cri.SecurityProfile.Localhost else ""
    return cri.SecurityProfile(profile_type=known, localhost_ref=local)


def _seccomp(chosen: SeccompProfile | None, root_dir: str, *, default_on: bool) -> cri.SecurityProfile:
    if chosen is not None:
        return _profile(chosen.type, f"{root_dir}/seccomp/{chosen.localhost_profile or ''}")
    return _profile("RuntimeDefault" if default_on else "Unconfined", "")


def sandbox_security(pod: Pod, *, userns_host_id: int | None = None) -> cri.LinuxSandboxSecurityContext:
    """Security settings of the whole sandbox."""
    everyone = (*pod.spec.init_containers, *pod.spec.containers)
    contexts = [c.security_context for c in everyone if c.security_context is not None]
    security = cri.LinuxSandboxSecurityContext(
        privileged=any(bool(context.privileged) for context in contexts),
        seccomp=cri.SecurityProfile(profile_type=cri.SecurityProfile.RuntimeDefault),
    )
    given = pod.spec.security_context
    if given is None:
        return security
    security.namespace_options.CopyFrom(namespaces(pod, userns_host_id=userns_host_id))
    if given.run_as_user is not None:
        security.run_as_user.value = given.run_as_user
    if given.run_as_group is not None:
        security.run_as_group.value = given.run_as_group
    security.supplemental_groups.extend(_groups(pod))
    if given.supplemental_groups_policy == "Strict":
        security.supplemental_groups_policy = cri.Strict
    if given.se_linux_options is not None:
        security.selinux_options.CopyFrom(_selinux(given.se_linux_options))
    return security


def _groups(pod: Pod) -> Sequence[int]:
    given = pod.spec.security_context
    if given is None:
        return ()
    own = (given.fs_group,) if given.fs_group is not None else ()
    return (*own, *given.supplemental_groups)


def _run_as(pod: Pod, container: Container) -> tuple[int | None, int | None, bool]:
    """Effective user, group and runAsNonRoot: the container's own before the pod's."""
    own, shared = container.security_context, pod.spec.security_context
    user = own.run_as_user if own is not None else None
    group = own.run_as_group if own is not None else None
    non_root = own.run_as_non_root if own is not None else None
    if shared is not None:
        user = shared.run_as_user if user is None else user
        group = shared.run_as_group if group is None else group
        non_root = shared.run_as_non_root if non_root is None else non_root
    return user, group, bool(non_root)


def verify_run_as_non_root(pod: Pod, container: Container, uid: int | None, username: str) -> None:
    """Refuse a container that must not run as root but would; raises ``ConfigError`` (IMG-43).

    ``uid`` and ``username`` are the image's user, as far as ImageStatus tells.
    """
    user, _, non_root = _run_as(pod, container)
    if not non_root:
        return
    where = f"(pod: {go_quote(format_pod(pod))}, container: {container.name})"
    if user is not None:
        if user == 0:
            raise ConfigError(f"container's runAsUser breaks non-root policy {where}")
        return
    if uid == 0:
        raise ConfigError(f"container has runAsNonRoot and image will run as root {where}")
    if uid is None and username:
        raise ConfigError(
            f"container has runAsNonRoot and image has non-numeric user ({username}), "
            f"cannot verify user is non-root {where}"
        )


def _apparmor(pod: Pod, own: SecurityContext | None) -> AppArmorProfile | None:
    if own is not None and own.app_armor_profile is not None:
        return own.app_armor_profile
    shared = pod.spec.security_context
    return shared.app_armor_profile if shared is not None else None


def _no_new_privileges(own: SecurityContext) -> bool:
    return own.allow_privilege_escalation is False


def _apply_own(security: cri.LinuxContainerSecurityContext, own: SecurityContext) -> None:
    """The settings that only a container's own security context has."""
    security.privileged = bool(own.privileged)
    security.readonly_rootfs = bool(own.read_only_root_filesystem)
    security.no_new_privs = _no_new_privileges(own)
    if own.capabilities is not None:
        security.capabilities.add_capabilities.extend(own.capabilities.add)
        security.capabilities.drop_capabilities.extend(own.capabilities.drop)
    if own.proc_mount == "Unmasked":
        del security.masked_paths[:]
        del security.readonly_paths[:]


def container_security(
    pod: Pod,
    container: Container,
    *,
    uid: int | None,
    username: str,
    seccomp_default: bool,
    root_dir: str,
    userns_host_id: int | None = None,
    target_id: str = "",
) -> cri.LinuxContainerSecurityContext:
    """Security settings of one container; ``uid`` and ``username`` are the image's, used where none is
    asked for.
    """
    own, shared = container.security_context, pod.spec.security_context
    user, group, _ = _run_as(pod, container)
    security = cri.LinuxContainerSecurityContext(masked_paths=_MASKED_PATHS, readonly_paths=_READONLY_PATHS)
    security.namespace_options.CopyFrom(namespaces(pod, userns_host_id=userns_host_id, target_id=target_id))
    if user is not None:
        security.run_as_user.value = user
    else:
        if uid is not None:
            security.run_as_user.value = uid
        security.run_as_username = username
    if group is not None:
        security.run_as_group.value = group
    security.supplemental_groups.extend(_groups(pod))
    if shared is not None and shared.supplemental_groups_policy == "Strict":
        security.supplemental_groups_policy = cri.Strict
    if own is not None:
        _apply_own(security, own)
    profile = own.seccomp_profile if own is not None else None
    if profile is None and shared is not None:
        profile = shared.seccomp_profile
    security.seccomp.CopyFrom(_seccomp(profile, root_dir, default_on=seccomp_default))
    armor = _apparmor(pod, own)
    if armor is not None:
        security.apparmor.CopyFrom(_profile(armor.type, armor.localhost_profile or ""))
    labels = own.se_linux_options if own is not None else None
    if labels is None and shared is not None:
        labels = shared.se_linux_options
    if labels is not None:
        security.selinux_options.CopyFrom(_selinux(labels))
    return security
