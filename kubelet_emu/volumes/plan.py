"""Which volumes a pod needs and where they lie on the node (VOL-02, VOL-03, VOL-04). (pure)"""

import posixpath
from collections.abc import Iterable
from enum import StrEnum

from attrs import frozen

from kubelet_emu.api.types import Pod, Volume

__all__ = ["PlannedVolume", "VolumeKind", "memory_volumes", "needed_volumes", "pod_dir", "volume_dir"]


class VolumeKind(StrEnum):
    """Kinds that this node sets up; the value is the plugin's directory name."""

    EMPTY_DIR = "kubernetes.io~empty-dir"
    CONFIG_MAP = "kubernetes.io~configmap"
    SECRET = "kubernetes.io~secret"
    PROJECTED = "kubernetes.io~projected"
    DOWNWARD_API = "kubernetes.io~downward-api"
    HOST_PATH = "kubernetes.io~host-path"
    IMAGE = "kubernetes.io~image"
    CLAIM = "kubernetes.io~local-volume"
    UNSUPPORTED = "unsupported"

    @property
    def rewritten(self) -> bool:
        """Whether each sync sets it up again with the latest content (VOL-03)."""
        return self in (
            VolumeKind.CONFIG_MAP,
            VolumeKind.SECRET,
            VolumeKind.PROJECTED,
            VolumeKind.DOWNWARD_API,
        )


@frozen
class PlannedVolume:
    """One needed volume; ``host_path`` is empty for an image volume, which the runtime mounts itself."""

    name: str
    kind: VolumeKind
    host_path: str
    volume: Volume


def pod_dir(root_dir: str, uid: str) -> str:
    """The pod's directory on the node."""
    return f"{root_dir}/pods/{uid}"


def volume_dir(root_dir: str, uid: str, kind: VolumeKind, name: str) -> str:
    """Where a volume of the pod lies (VOL-04)."""
    return f"{pod_dir(root_dir, uid)}/volumes/{kind.value}/{name}"


def needed_volumes(pod: Pod, *, root_dir: str, host_root: str = "") -> tuple[PlannedVolume, ...]:
    """Volumes that some container names, in spec order; unused ones are ignored even if broken (VOL-02).

    Host paths lie under ``host_root``, whatever they say.
    """
    spec = pod.spec
    containers = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
    used = {mount.name for container in containers for mount in container.volume_mounts}
    return tuple(_plan(volume, pod, root_dir, host_root) for volume in spec.volumes if volume.name in used)


def memory_volumes(pods: Iterable[Pod], *, root_dir: str) -> tuple[str, ...]:
    """Folders of the pods' emptyDir volumes that lie in memory, and so do not outlive the node (VOL-04)."""
    return tuple(
        volume_dir(root_dir, pod.metadata.uid, VolumeKind.EMPTY_DIR, volume.name)
        for pod in pods
        for volume in pod.spec.volumes
        if volume.empty_dir is not None and volume.empty_dir.medium == "Memory"
    )


def _plan(volume: Volume, pod: Pod, root_dir: str, host_root: str) -> PlannedVolume:
    kind = _kind(volume)
    if kind is VolumeKind.IMAGE:
        path = ""
    elif volume.host_path is not None:
        path = volume.host_path.path or "/"
        if host_root:
            # An absolute path that is normalised has no way up left in it.
            path = (host_root + posixpath.normpath(f"/{path.lstrip('/')}")).rstrip("/")
    elif volume.persistent_volume_claim is not None:
        claim = volume.persistent_volume_claim.claim_name
        path = f"{root_dir}/claims/{pod.metadata.namespace or 'default'}/{claim}"
    else:
        path = volume_dir(root_dir, pod.metadata.uid or "", kind, volume.name)
    return PlannedVolume(volume.name, kind, path, volume)


def _kind(volume: Volume) -> VolumeKind:
    for attribute, kind in (
        ("empty_dir", VolumeKind.EMPTY_DIR),
        ("config_map", VolumeKind.CONFIG_MAP),
        ("secret", VolumeKind.SECRET),
        ("projected", VolumeKind.PROJECTED),
        ("downward_api", VolumeKind.DOWNWARD_API),
        ("host_path", VolumeKind.HOST_PATH),
        ("image", VolumeKind.IMAGE),
        ("persistent_volume_claim", VolumeKind.CLAIM),
    ):
        if getattr(volume, attribute) is not None:
            return kind
    # A volume without any source is an emptyDir (API default).
    return VolumeKind.UNSUPPORTED if volume.extra else VolumeKind.EMPTY_DIR
