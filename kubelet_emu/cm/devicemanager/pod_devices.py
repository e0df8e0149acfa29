"""Which container holds which devices, and what the plugin answered for it (pure).

Mirrors ``pkg/kubelet/cm/devicemanager/pod_devices.go`` (DEV-062, DEV-063, DEV-070).
"""

from collections.abc import Iterable, Iterator, Mapping

from attrs import define, field, frozen

__all__ = ["Held", "PodDevices"]


@frozen
class Held:
    """Devices of one resource in one container: ids by NUMA node, and the serialised plugin response."""

    by_node: Mapping[int, tuple[str, ...]]
    response: bytes = b""

    @property
    def ids(self) -> frozenset[str]:
        """All ids; a device on several nodes counts once."""
        return frozenset(one for ids in self.by_node.values() for one in ids)


_ByContainer = dict[str, dict[str, Held]]


@define
class PodDevices:
    """All assignments, by pod UID, container and resource."""

    _pods: dict[str, _ByContainer] = field(factory=dict[str, _ByContainer])

    def insert(self, uid: str, container: str, resource: str, held: Held) -> None:
        """Note an assignment; one for the same place is replaced."""
        self._pods.setdefault(uid, {}).setdefault(container, {})[resource] = held

    def get(self, uid: str, container: str, resource: str) -> Held | None:
        """What a container holds of a resource, None if nothing was ever assigned to it."""
        return self._pods.get(uid, {}).get(container, {}).get(resource)

    def container(self, uid: str, container: str) -> Mapping[str, Held]:
        """All that a container holds, by resource."""
        return self._pods.get(uid, {}).get(container, {})

    def pod_ids(self, uid: str, resource: str) -> frozenset[str]:
        """The ids of a resource that a pod's containers hold together."""
        held = (by_resource.get(resource) for by_resource in self._pods.get(uid, {}).values())
        return frozenset(one for each in held if each is not None for one in each.ids)

    def has_pod(self, uid: str) -> bool:
        return uid in self._pods

    def uids(self) -> list[str]:
        """UIDs of all pods that hold something, in the order in which they came."""
        return list(self._pods)

    def drop(self, uids: Iterable[str]) -> None:
        """Forget pods."""
        for uid in uids:
            self._pods.pop(uid, None)

    def entries(self) -> Iterator[tuple[str, str, str, Held]]:
        """(UID, container, resource, held) of everything."""
        for uid, containers in self._pods.items():
            for name, resources in containers.items():
                for resource, held in resources.items():
                    yield uid, name, resource, held

    def allocated(self) -> dict[str, set[str]]:
        """Ids in use by resource, rebuilt from the assignments (DEV-063)."""
        found: dict[str, set[str]] = {}
        for _, _, resource, held in self.entries():
            found.setdefault(resource, set()).update(held.ids)
        return found

    def holder(self, device: str) -> str:
        """UID of the first pod that holds a device of this id, of whatever resource (DEV-122); else empty."""
        for uid, _, _, held in self.entries():
            if any(device in ids for ids in held.by_node.values()):
                return uid
        return ""
