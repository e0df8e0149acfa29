"""Mounts of a container that is about to start, and the files that have to exist for them.

Mirrors ``makeMounts`` and ``ensureHostsFile`` of ``pkg/kubelet/kubelet_pods.go`` and the termination file of
``pkg/kubelet/kuberuntime/kuberuntime_container.go`` (VOL-09, VOL-10, RST-195, IMG-33).
"""

import posixpath
import random
from collections.abc import Mapping, Sequence

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.api.types import Container, Pod, Volume, VolumeMount
from kubelet_emu.kuberuntime import podnet
from kubelet_emu.kuberuntime.env import ConfigError, expand
from kubelet_emu.kuberuntime.gotext import go_quote
from kubelet_emu.kuberuntime.seams import NodeFacts, RunOptions, VolumePaths
from kubelet_emu.settings import KubeletSettings
from node_host.files import Files
from node_host.randoms import new_id

__all__ = ["Mounter"]

_HOSTS = "/etc/hosts"
_PROPAGATION = {
    "HostToContainer": cri.PROPAGATION_HOST_TO_CONTAINER,
    "Bidirectional": cri.PROPAGATION_BIDIRECTIONAL,
}


def _always_read_only(volume: Volume | None) -> bool:
    """Volumes whose content the kubelet writes are never writable in a container."""
    if volume is None:
        return False
    sources = (volume.config_map, volume.secret, volume.projected, volume.downward_api)
    return any(source is not None for source in sources)


class Mounter:
    """Makes mounts from the volumes that are set up, and the files of one start."""

    def __init__(
        self,
        *,
        files: Files,
        volumes: VolumePaths,
        settings: KubeletSettings,
        node: NodeFacts,
        rng: random.Random,
    ) -> None:
        self._files = files
        self._volumes = volumes
        self._settings = settings
        self._node = node
        self._rng = rng

    def mounts(
        self,
        pod: Pod,
        container: Container,
        *,
        pod_ips: Sequence[str],
        envs: Mapping[str, str],
        options: RunOptions,
        images: Mapping[str, cri.ImageSpec],
    ) -> list[cri.Mount]:
        """All mounts in the kubelet's order: plugin, volumes, hosts file, termination file (DEV-106).

        ``images`` holds the resolved image of each image volume. Raises ``ConfigError``.
        """
        made = [
            cri.Mount(
                container_path=mount.container_path, host_path=mount.host_path, readonly=mount.read_only
            )
            for mount in options.mounts
        ]
        by_name = {volume.name: volume for volume in pod.spec.volumes}
        own_hosts = False
        for mount in container.volume_mounts:
            own_hosts = own_hosts or mount.mount_path == _HOSTS
            made.append(self._volume_mount(pod, container, mount, by_name.get(mount.name), envs, images))
        if not own_hosts and (pod.spec.host_network or pod_ips):
            made.append(cri.Mount(container_path=_HOSTS, host_path=self._hosts_file(pod, pod_ips)))
        if container.termination_message_path:
            path = self._termination_file(pod, container)
            made.append(cri.Mount(container_path=container.termination_message_path, host_path=path))
        return made

    def pod_dir(self, pod: Pod) -> str:
        return f"{self._settings.root_dir}/pods/{pod.metadata.uid}"

    def _volume_mount(
        self,
        pod: Pod,
        container: Container,
        mount: VolumeMount,
        volume: Volume | None,
        envs: Mapping[str, str],
        images: Mapping[str, cri.ImageSpec],
    ) -> cri.Mount:
        sub_path = self._sub_path(mount, envs)
        if mount.name in images:
            return cri.Mount(
                container_path=mount.mount_path,
                image=images[mount.name],
                image_sub_path=sub_path,
                readonly=True,
            )
        base = self._volumes.host_path(pod, mount.name)
        if base is None:
            raise ConfigError(
                f"cannot find volume {go_quote(mount.name)} to mount into container "
                f"{go_quote(container.name)}"
            )
        container_path = mount.mount_path
        if not container_path.startswith("/"):
            container_path = posixpath.join("/", container_path)
        return cri.Mount(
            container_path=container_path,
            host_path=self._under(pod, container, mount, base, sub_path) if sub_path else base,
            readonly=bool(mount.read_only) or _always_read_only(volume),
            propagation=_PROPAGATION.get(mount.mount_propagation or "", cri.PROPAGATION_PRIVATE),
            recursive_read_only=mount.recursive_read_only == "Enabled",
        )

    def _sub_path(self, mount: VolumeMount, envs: Mapping[str, str]) -> str:
        text = mount.sub_path or ""
        if mount.sub_path_expr:
            missing: list[str] = []

            def lookup(name: str) -> str | None:
                if name not in envs:
                    missing.append(name)
                return envs.get(name)

            text = expand(mount.sub_path_expr, lookup)
            if missing:
                raise ConfigError(f"missing value for {go_quote(missing[0])}")
        if text.startswith("/"):
            raise ConfigError(f"error SubPath `{text}` must not be an absolute path")
        if ".." in text.split("/"):
            raise ConfigError(f"unable to provision SubPath `{text}`: must not contain '..'")
        return text

    def _under(self, pod: Pod, container: Container, mount: VolumeMount, base: str, sub_path: str) -> str:
        """The sub path's place on the node; a missing one is made as a folder.

        In a volume that the kubelet writes, the sub path is bound as it is now and never follows an update
        (VOL-05): the container gets a copy of its own.
        """
        path = posixpath.normpath(posixpath.join(base, sub_path))
        try:
            if not self._files.exists(path):
                self._files.make_dirs(path, mode=0o755)
            elif self._files.exists(f"{base}/..data"):
                number = container.volume_mounts.index(mount)
                bound = f"{self.pod_dir(pod)}/volume-subpaths/{mount.name}/{container.name}/{number}"
                if self._files.exists(bound):
                    self._files.remove_tree(bound)
                self._copy(path, bound)
                return bound
        except OSError as error:
            raise ConfigError(
                f"failed to create subPath directory for volumeMount {go_quote(mount.name)} of container "
                f"{go_quote(container.name)}"
            ) from error
        return path

    def _copy(self, source: str, target: str) -> None:
        if self._files.stat(source).kind != "dir":
            self._files.make_dirs(posixpath.dirname(target), mode=0o750)
            self._files.write(target, self._files.read(source), mode=self._files.stat(source).mode & 0o777)
            return
        self._files.make_dirs(target, mode=0o755)
        for name in self._files.list(source):
            self._copy(f"{source}/{name}", f"{target}/{name}")

    def _hosts_file(self, pod: Pod, pod_ips: Sequence[str]) -> str:
        path = f"{self.pod_dir(pod)}/etc-hosts"
        name = podnet.host_name(pod, self._settings.cluster_domain)
        content = podnet.hosts_file(pod, pod_ips, name, self._node.host_file)
        try:
            self._files.make_dirs(self.pod_dir(pod), mode=0o750)
            self._files.write(path, content.encode())
        except OSError as error:
            raise ConfigError(str(error)) from error
        return path

    def _termination_file(self, pod: Pod, container: Container) -> str:
        directory = f"{self.pod_dir(pod)}/containers/{container.name}"
        path = f"{directory}/{new_id(self._rng, 8)}"
        try:
            self._files.make_dirs(directory, mode=0o750)
            self._files.write(path, b"", mode=0o666)
        except OSError as error:
            raise ConfigError(f"error on creating termination-log file {go_quote(path)}: {error}") from error
        return path
