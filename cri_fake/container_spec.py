"""From a ContainerConfig and an image to what is run: checks, command, environment, user, files."""

import posixpath
from collections.abc import Mapping

from cri_fake.catalogue import volume_files
from cri_fake.process import ContainerFiles, Mount
from cri_fake.process.images import executable, image_tree
from cri_fake.process.layer import FileNode, Folder
from cri_fake.signals import SIGTERM, kernel_signal, signal_by_name
from cri_fake.store.containers import Container, WireState
from cri_fake.store.faults import Kind, Refused
from cri_fake.store.images import Image
from cri_fake.store.sandboxes import Sandbox
from cri_fake.world import World
from k8s_proto import runtime_v1_pb2 as cri

__all__ = [
    "check_container",
    "container_environment",
    "container_files",
    "container_name",
    "has_own_pid_namespace",
    "merged_resources",
    "resolve_argv",
    "resolve_groups",
    "resolve_stop_signal",
    "resolve_user",
]

_PAUSE = "/pause"
_KNOWN_USERS: Mapping[str, tuple[int, int]] = {
    "root": (0, 0),
    "daemon": (1, 1),
    "www-data": (33, 33),
    "nobody": (65534, 65534),
}


def container_name(config: cri.ContainerConfig, sandbox_config: cri.PodSandboxConfig) -> str:
    """``<container>_<pod>_<namespace>_<uid>_<attempt>`` (CRI-012)."""
    pod = sandbox_config.metadata
    return f"{config.metadata.name}_{pod.name}_{pod.namespace}_{pod.uid}_{config.metadata.attempt}"


def check_container(
    world: World, sandbox: Sandbox, config: cri.ContainerConfig, sandbox_config: cri.PodSandboxConfig
) -> None:
    """Refuse what containerd refuses before anything is made.

    Raises:
        Refused: metadata is missing, or a mount, the user or the target of the pid namespace is wrong.
    """
    if not config.HasField("metadata"):
        raise Refused(Kind.UNKNOWN, "container config must include metadata", rule="CRI-052")
    if not sandbox_config.HasField("metadata"):
        raise Refused(Kind.UNKNOWN, "sandbox config must include metadata", rule="CRI-052")
    for mount in config.mounts:
        _check_mount(world, mount)
    security = config.linux.security_context
    has_user = security.HasField("run_as_user") or security.run_as_username
    if security.HasField("run_as_group") and not has_user:
        raise Refused(
            Kind.UNKNOWN, "user group is specified without user, invalid user/group config", rule="CRI-055"
        )
    if security.namespace_options.pid == cri.TARGET:
        _check_target(world, sandbox, security.namespace_options.target_id)


def _check_mount(world: World, mount: cri.Mount) -> None:
    problem = ""
    if "\0" in mount.host_path or "\0" in mount.container_path:
        problem = "path contains a NUL byte"
    elif not mount.container_path:
        problem = "container path is empty"
    elif mount.recursive_read_only and not mount.readonly:
        problem = "recursive_read_only needs readonly"
    elif mount.recursive_read_only and mount.propagation != cri.PROPAGATION_PRIVATE:
        problem = "recursive_read_only needs private propagation"
    if problem:
        raise Refused(
            Kind.UNKNOWN,
            f'failed to generate container spec: invalid mount "{mount.container_path}": {problem}',
            rule="CRI-055",
        )
    if mount.HasField("image") and mount.image.image:
        if not mount.readonly:
            problem = "image volumes must be read-only"
        elif mount.host_path:
            problem = "host_path and image are both set"
        elif (volume := world.images.resolve(mount.image.image)) is None:
            problem = f'image "{mount.image.image}" is not present'
        elif mount.image_sub_path and not _below(volume, mount.image_sub_path):
            problem = f'sub path "{mount.image_sub_path}" does not exist in the image'
        if problem:
            raise Refused(Kind.UNKNOWN, f"ImageVolumeMountFailed: {problem}", rule="CRI-154")
    elif not mount.host_path.startswith("/"):
        text = f'failed to generate container spec: host path "{mount.host_path}" is not absolute'
        raise Refused(Kind.UNKNOWN, text, rule="CRI-054")


def _check_target(world: World, sandbox: Sandbox, target_id: str) -> None:
    target = world.containers.find(target_id) if target_id else None
    problem = ""
    if target is None:
        problem = f'container "{target_id}" does not exist'
    elif target.sandbox_id != sandbox.id:
        problem = f'container "{target_id}" is not in sandbox "{sandbox.id}"'
    elif target.state is not WireState.RUNNING:
        problem = f'container "{target_id}" is not running - in state CONTAINER_{target.state}'
    if problem:
        raise Refused(Kind.UNKNOWN, f"invalid target container: {problem}", rule="CRI-056")


def has_own_pid_namespace(config: cri.ContainerConfig) -> bool:
    """False if the pod shares its process namespace; unset means shared (CRI-035)."""
    return config.linux.security_context.namespace_options.pid == cri.CONTAINER


def resolve_argv(config: cri.ContainerConfig, image: Image) -> tuple[str, ...]:
    """What is run: command replaces entrypoint and command of the image, args the latter (CRI-053).

    Raises:
        Refused: nothing is to be run.
    """
    arguments = tuple(config.args)
    if config.command:
        argv = (*config.command, *arguments)
    else:
        argv = (*image.config.entrypoint, *(arguments or image.config.command))
    if not argv or not argv[0]:
        raise Refused(Kind.UNKNOWN, "failed to generate container spec: no command specified", rule="CRI-053")
    return argv


def resolve_stop_signal(config: cri.ContainerConfig, image: Image) -> int:
    """The kernel's number of the stop signal: the config's, else the image's, else TERM (CRI-049)."""
    return kernel_signal(config.stop_signal) or signal_by_name(image.config.stop_signal or "0") or SIGTERM


def resolve_user(config: cri.ContainerConfig, image: Image) -> tuple[int, int]:
    """``(uid, gid)`` of the main process.

    Raises:
        Refused: a user name that the image does not have.
    """
    security = config.linux.security_context
    if security.HasField("run_as_user"):
        uid, gid = int(security.run_as_user.value), 0
    elif security.run_as_username:
        uid, gid = _by_name(security.run_as_username)
    else:
        user, _, group = image.config.user.partition(":")
        uid, gid = (int(user), 0) if user.isdigit() else _by_name(user or "root")
        gid = int(group) if group.isdigit() else gid
    if security.HasField("run_as_group"):
        gid = int(security.run_as_group.value)
    return uid, gid


def resolve_groups(config: cri.ContainerConfig, image: Image, uid: int, gid: int) -> tuple[int, ...]:
    """The groups of the main process: its own first, then those of the image's /etc/group that the user is
    in, unless the policy is Strict, then the supplemental ones.
    """
    security = config.linux.security_context
    groups = [gid]
    if security.supplemental_groups_policy == cri.Merge:
        groups += _member_of(image.config.contents, uid)
    groups += (int(group) for group in security.supplemental_groups)
    return tuple(dict.fromkeys(groups))


def _member_of(contents: str, uid: int) -> list[int]:
    """The groups that list the user of that number as a member."""
    users = [line.split(":") for line in _table(contents, "passwd")]
    name = next((entry[0] for entry in users if len(entry) > 2 and entry[2] == str(uid)), "")
    groups = [line.split(":") for line in _table(contents, "group")]
    return [int(entry[2]) for entry in groups if len(entry) > 3 and name in filter(None, entry[3].split(","))]


def _table(contents: str, name: str) -> list[str]:
    """The lines of a file in the image's /etc."""
    folder = image_tree(contents).entries.get("etc")
    found = folder.entries.get(name) if isinstance(folder, Folder) else None
    return bytes(found.data).decode().splitlines() if isinstance(found, FileNode) else []


def _by_name(name: str) -> tuple[int, int]:
    known = _KNOWN_USERS.get(name)
    if known is None:
        why = f"unable to find user {name}: no matching entries in passwd file"
        raise Refused(Kind.UNKNOWN, f"failed to generate container spec: {why}", rule="CRI-055")
    return known


def container_environment(sandbox: Sandbox, config: cri.ContainerConfig, image: Image) -> dict[str, str]:
    """Variables of the main process: the image's, HOSTNAME, then the config's; later ones win."""
    environment = dict(image.config.environment)
    environment["HOSTNAME"] = sandbox.config.hostname
    if config.tty:
        environment["TERM"] = "xterm"
    for pair in config.envs:
        environment[pair.key] = bytes(pair.value).decode("utf-8", "surrogateescape")
    return environment


def container_files(world: World, sandbox: Sandbox, container: Container, image: Image) -> ContainerFiles:
    """The file system of a container: a fresh layer over the image, with the mounts of the config."""
    mounts = [
        Mount(container_path=m.container_path, host_path=m.host_path, readonly=m.readonly)
        for m in container.config.mounts
        if m.host_path
    ]
    pause = image.config.entrypoint == (_PAUSE,)
    content = {_PAUSE: executable("pause")} if pause else {}
    content["/etc/resolv.conf"] = _resolv_conf(sandbox)
    if all(mount.container_path != "/etc/hosts" for mount in mounts):
        address = sandbox.ips[0] if sandbox.ips else world.host_ip
        content["/etc/hosts"] = f"127.0.0.1\tlocalhost\n{address}\t{sandbox.config.hostname}\n".encode()
    for mount in container.config.mounts:
        volume = world.images.resolve(mount.image.image) if mount.HasField("image") else None
        if volume is not None:
            for path, data in _below(volume, mount.image_sub_path).items():
                content[posixpath.join(mount.container_path, path)] = data
    for name, value in sandbox.config.linux.sysctls.items():
        content[f"/proc/sys/{name.replace('.', '/')}"] = f"{value}\n".encode()
    readonly = container.config.linux.security_context.readonly_rootfs
    return ContainerFiles(
        world.files,
        mounts=mounts,
        image_files=content,
        readonly_root=readonly,
        image=image_tree("scratch" if pause else image.config.contents),
        now_ns=world.clock.now_ns,
    )


def _below(volume: Image, sub_path: str) -> dict[str, bytes]:
    """The files of an image volume, paths relative to its sub path (CRI-154)."""
    start = posixpath.normpath(f"/{sub_path}").rstrip("/") + "/"
    files = volume_files(volume).items()
    return {path.removeprefix(start): data for path, data in files if path.startswith(start)}


def _resolv_conf(sandbox: Sandbox) -> bytes:
    dns = sandbox.config.dns_config
    lines: list[str] = []
    if dns.searches:
        lines.append("search " + " ".join(dns.searches))
    lines.extend(f"nameserver {server}" for server in dns.servers)
    if dns.options:
        lines.append("options " + " ".join(dns.options))
    return "".join(f"{line}\n" for line in lines).encode()


def merged_resources(
    old: cri.LinuxContainerResources | None, wanted: cri.LinuxContainerResources
) -> cri.LinuxContainerResources:
    """The old values with the fields that are set in ``wanted`` replaced; zero means "leave" (CRI-150)."""
    merged = cri.LinuxContainerResources()
    if old is not None:
        merged.CopyFrom(old)
    for field, value in wanted.ListFields():
        if field.name in ("hugepage_limits", "unified"):
            merged.ClearField(field.name)
            continue
        setattr(merged, field.name, value)
    merged.hugepage_limits.extend(wanted.hugepage_limits)
    merged.unified.update(wanted.unified)
    return merged
