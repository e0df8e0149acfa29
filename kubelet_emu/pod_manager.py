"""The pods a kubelet has been told of, and the mirror pods that stand for static ones in the API.

Mirrors ``pkg/kubelet/pod/pod_manager.go`` (POD-801).
"""

from collections.abc import Mapping, Sequence

from attrs import frozen

from kubelet_emu.api.types import Pod
from kubelet_emu.pod_update import full_name, is_mirror_pod, uid_of

__all__ = ["PodManager", "PodPair", "PodsAndMirrors"]


@frozen
class PodPair:
    """A pod and its mirror, either may be missing; ``was_mirror`` tells which one was asked about."""

    pod: Pod | None
    mirror: Pod | None
    was_mirror: bool


@frozen
class PodsAndMirrors:
    """All regular pods, all mirror pods, and full names of mirrors that mirror nothing."""

    pods: tuple[Pod, ...]
    mirrors: tuple[Pod, ...]
    orphaned_mirror_names: tuple[str, ...]


class PodManager:
    """Regular and mirror pods, each by UID and by full name, in the order in which they were first added.

    A static pod and its mirror share the full name. Lookups by UID never give a mirror.
    """

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._mirrors: dict[str, Pod] = {}
        self._pod_uids: dict[str, str] = {}
        self._mirror_uids: dict[str, str] = {}
        self._static_uids: dict[str, str] = {}

    def put(self, pod: Pod) -> None:
        """Add a pod or replace the one of the same UID."""
        uid, name = uid_of(pod), full_name(pod)
        if is_mirror_pod(pod):
            self._mirrors[uid] = pod
            self._mirror_uids[name] = uid
            if name in self._pod_uids:
                self._static_uids[uid] = self._pod_uids[name]
        else:
            self._pods[uid] = pod
            self._pod_uids[name] = uid
            if name in self._mirror_uids:
                self._static_uids[self._mirror_uids[name]] = uid

    def remove(self, pod: Pod) -> None:
        """Forget a pod; one that is not there is no error."""
        uid, name = uid_of(pod), full_name(pod)
        if is_mirror_pod(pod):
            self._mirrors.pop(uid, None)
            self._static_uids.pop(uid, None)
            if self._mirror_uids.get(name) == uid:
                del self._mirror_uids[name]
        else:
            self._pods.pop(uid, None)
            if self._pod_uids.get(name) == uid:
                del self._pod_uids[name]

    def pods(self) -> tuple[Pod, ...]:
        """All regular pods, static ones included."""
        return tuple(self._pods.values())

    def by_uid(self, uid: str) -> Pod | None:
        """The regular pod of that UID."""
        return self._pods.get(uid)

    def by_full_name(self, name: str) -> Pod | None:
        """The regular pod of that full name."""
        return self._pods.get(self._pod_uids.get(name, ""))

    def mirror_by_full_name(self, name: str) -> Pod | None:
        """The mirror pod of that full name."""
        return self._mirrors.get(self._mirror_uids.get(name, ""))

    def pair(self, pod: Pod) -> PodPair:
        """The given pod with its counterpart: the mirror of a regular pod, or the pod of a mirror."""
        name = full_name(pod)
        if is_mirror_pod(pod):
            return PodPair(self.by_full_name(name), pod, True)
        return PodPair(pod, self.mirror_by_full_name(name), False)

    def pods_and_mirrors(self) -> PodsAndMirrors:
        """Everything at once, for housekeeping."""
        orphaned = tuple(name for name in self._mirror_uids if name not in self._pod_uids)
        return PodsAndMirrors(self.pods(), tuple(self._mirrors.values()), orphaned)

    def translate(self, uid: str) -> str:
        """The UID of the static pod if ``uid`` is that of its mirror, else ``uid``."""
        return self._static_uids.get(uid, uid)

    def translations(self) -> Mapping[str, str]:
        """Static UID by mirror UID, for all pairs known so far."""
        return dict(self._static_uids)

    def mirror_uids_of(self, static_uid: str) -> Sequence[str]:
        """UIDs of all mirrors known to stand for that static pod."""
        return tuple(mirror for mirror, static in self._static_uids.items() if static == static_uid)
