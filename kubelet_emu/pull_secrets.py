"""Pull secrets of pods: read at each sync, missing ones told, the rest offered for pulls (IMG-23)."""

from collections.abc import Sequence
from typing import Any

from kubelet_emu.api.types import Pod
from kubelet_emu.errors import PeerError
from kubelet_emu.keyring import Keyring, keyring_of
from kubelet_emu.kuberuntime.seams import PullCredential
from kubelet_emu.object_cache import ObjectCache
from kubelet_emu.seams import EventRecorder

__all__ = ["PullSecrets"]

PODS_MAX = 4096
"""Pods whose keyrings are kept; the oldest goes first and is read again at its next sync."""


class PullSecrets:
    """Implements ``kuberuntime.seams.PullCredentials``; without an API every secret is missing."""

    def __init__(self, *, objects: ObjectCache | None, events: EventRecorder) -> None:
        self._objects = objects
        self._events = events
        self._keyrings: dict[str, Keyring] = {}

    async def take(self, pod: Pod) -> None:
        """Read the secrets that a pod names; those that cannot be had are only told."""
        names = [ref.name for ref in pod.spec.image_pull_secrets if ref.name]
        if not names:
            return
        found = {name: await self._read(pod.metadata.namespace or "default", name) for name in names}
        self._keyrings.pop(pod.metadata.uid, None)
        self._keyrings[pod.metadata.uid] = keyring_of([secret for secret in found.values() if secret])
        while len(self._keyrings) > PODS_MAX:
            del self._keyrings[next(iter(self._keyrings))]
        missing = [name for name in names if found[name] is None]
        if missing:
            text = (
                f"Unable to retrieve some image pull secrets ({', '.join(missing)}); "
                "attempting to pull the image may not succeed."
            )
            self._events.event(pod, "Warning", "FailedToRetrieveImagePullSecret", text)

    async def lookup(self, pod: Pod, image: str) -> Sequence[PullCredential]:
        """Credentials for one image, in the order in which they are tried (IMG-24)."""
        keyring = self._keyrings.get(pod.metadata.uid)
        return keyring.matching(image) if keyring is not None else ()

    async def _read(self, namespace: str, name: str) -> dict[str, Any] | None:
        if self._objects is None:
            return None
        try:
            return await self._objects.get("Secret", namespace, name)
        except PeerError:
            return None
