"""Pods from the API, decoded once a version. (pure)

The kubelet meets each version of a pod several times: as the answer to its own write, as an event of its
watch, and when it reads before the next write. An object of the API with one uid and one resourceVersion is
one value, so what was made of it serves again; and of a version that differs in its status only, the spec of
the one before.
"""

from collections.abc import Mapping
from typing import Any

from attrs import evolve, frozen

from kubelet_emu.api.codec import pod_from_json
from kubelet_emu.api.types import Pod

__all__ = ["PODS_MAX", "DecodedPods"]

PODS_MAX = 1000
"""Pods of which the last version is kept; beyond it the one that has not changed for longest is dropped."""


@frozen
class _Known:
    version: str
    spec: object
    pod: Pod


class DecodedPods:
    """The last version of each pod. Objects given to it are not to be changed afterwards."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def pod(self, obj: Mapping[str, Any]) -> Pod:
        """The Pod of an object of the API. Raises ``DecodeError``."""
        metadata = obj.get("metadata")
        uid, version = "", ""
        if isinstance(metadata, Mapping):
            uid, version = str(metadata.get("uid", "")), str(metadata.get("resourceVersion", ""))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        if not uid or not version:
            return pod_from_json(obj)
        known = self._known.get(uid)
        if known is not None and known.version == version:
            return known.pod
        spec: object = obj.get("spec")
        if known is not None and spec is not None and (known.spec is spec or known.spec == spec):
            rest = {key: value for key, value in obj.items() if key != "spec"}
            pod = evolve(pod_from_json(rest), spec=known.pod.spec)
        else:
            pod = pod_from_json(obj)
        self._known.pop(uid, None)
        self._known[uid] = _Known(version, spec, pod)
        if len(self._known) > PODS_MAX:
            del self._known[next(iter(self._known))]
        return pod
