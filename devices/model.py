"""What one device plugin serves: its devices, and what it answers for them (pure).

A model is a value. The plugin around it (``devices.plugin``) holds what changes: health and the current list.
Vendors' models are in the modules named after them; ``Model`` itself is the generic one that a profile fills
in.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from attrs import evolve, field, frozen

from devices.preferred import Candidate, lowest, packed, spread, topology_aware

__all__ = [
    "HEALTHY",
    "UNHEALTHY",
    "Answer",
    "Device",
    "Identity",
    "Model",
    "MountSpec",
    "NodeSpec",
    "Notices",
    "Preference",
    "Refused",
]

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"
"""The two health strings of the API; a kubelet takes any other for unhealthy (DEV-001)."""


class Preference(StrEnum):
    """How a plugin answers GetPreferredAllocation; ``NONE`` does not offer the call."""

    NONE = "none"
    LOWEST = "lowest"
    TOPOLOGY = "topology"
    PACKED = "packed"
    SPREAD = "spread"


class Notices(StrEnum):
    """How a plugin finds out that the kubelet has restarted (DEV-013, DEV-180)."""

    KUBELET_SOCKET = "kubelet-socket"
    OWN_SOCKET = "own-socket"
    NEVER = "never"


class Identity(StrEnum):
    """Whether ids survive a restart of the plugin, or are new each time (DEV-18I)."""

    STABLE = "stable"
    FRESH = "fresh"


class Refused(Exception):
    """Raised by a model or a hook to fail a call; ``code`` is the name of a gRPC code (plain Go errors:
    UNKNOWN).
    """

    def __init__(self, text: str, code: str = "UNKNOWN") -> None:
        super().__init__(text)
        self.text = text
        self.code = code


@frozen
class Device:
    """One entry of the list. ``numa_nodes`` None sends no topology, an empty tuple one without nodes
    (DEV-144).
    """

    id: str
    numa_nodes: tuple[int, ...] | None = None
    health: str = HEALTHY


@frozen
class MountSpec:
    """A host path in the container."""

    container_path: str
    host_path: str
    read_only: bool = False


@frozen
class NodeSpec:
    """A device node of the host in the container."""

    host_path: str
    container_path: str = ""
    permissions: str = "rw"


def _no_map() -> Mapping[str, str]:
    return {}


@frozen(kw_only=True)
class Answer:
    """What Allocate gives for one container."""

    envs: Mapping[str, str] = field(factory=_no_map)
    mounts: tuple[MountSpec, ...] = ()
    nodes: tuple[NodeSpec, ...] = ()
    annotations: Mapping[str, str] = field(factory=_no_map)
    cdi: tuple[str, ...] = ()


@frozen(kw_only=True)
class Model:
    """A generic plugin: answers by templates, in which ``{id}`` and ``{index}`` stand for the device.

    ``socket`` names the plugin's socket; ``{time}`` in it is the unix time of each start. ``env`` is set to
    the ids asked for, joined by commas in that order. ``mounts`` and ``nodes`` are given per device unless
    their text holds no placeholder, then once. ``cdi`` is a kind (``vendor.com/class``), one name per device.
    ``shared`` is the number of replicas of each physical device (ids ``<id>::<n>``). ``retry_seconds`` is the
    wait after a failed registration.
    """

    resource: str
    devices: tuple[Device, ...]
    socket: str
    env: str = ""
    envs: Mapping[str, str] = field(factory=_no_map)
    mounts: tuple[MountSpec, ...] = ()
    nodes: tuple[NodeSpec, ...] = ()
    annotations: Mapping[str, str] = field(factory=_no_map)
    cdi: str = ""
    pre_start: bool = False
    preference: Preference = Preference.NONE
    notices: Notices = Notices.KUBELET_SOCKET
    identity: Identity = Identity.STABLE
    recovers: bool = True
    """Whether a device that turned unhealthy can turn healthy again before the plugin restarts."""
    ignored_faults: tuple[int, ...] = ()
    """Hardware fault numbers (XIDs) that do not make a device unhealthy."""
    retry_seconds: float = 5.0
    kind: str = "generic"

    def allocate(self, ids: Sequence[str], *, serial: int) -> Answer:
        """The answer for these devices. ``serial`` counts the answers of this plugin from 0.

        Raises:
            Refused: the plugin does not give them.
        """
        self.check_known(ids)
        return Answer(
            envs={**({self.env: ",".join(ids)} if self.env else {}), **self._filled_envs(ids)},
            mounts=tuple(
                MountSpec(*pair, spec.read_only)
                for spec in self.mounts
                for pair in self._each(ids, spec.container_path, spec.host_path)
            ),
            nodes=tuple(
                NodeSpec(*pair, spec.permissions)
                for spec in self.nodes
                for pair in self._each(ids, spec.host_path, spec.container_path or spec.host_path)
            ),
            annotations=dict(self.annotations),
            cdi=tuple(f"{self.cdi}={self.physical(name)}" for name in ids) if self.cdi else (),
        )

    def check_known(self, ids: Sequence[str]) -> None:
        """Raises ``Refused`` for an id that the plugin does not have."""
        known = {device.id for device in self.devices}
        for name in ids:
            if name not in known:
                raise Refused(f"unknown device: {name}")

    def check_start(self, ids: Sequence[str]) -> None:
        """PreStartContainer; raises ``Refused``."""
        self.check_known(ids)

    def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> tuple[str, ...]:
        """The devices that the plugin would rather give; may be fewer than ``size`` (DEV-065)."""
        nodes = {device.id: device.numa_nodes or () for device in self.devices}
        order = {device.id: index for index, device in enumerate(self.devices)}
        last = len(order)
        candidates = [
            Candidate(name, order.get(name, last), nodes.get(name, ()), self.physical(name))
            for name in dict.fromkeys([*must, *available])
        ]
        if self.preference is Preference.TOPOLOGY:
            return topology_aware(candidates, must, size)
        if self.preference is Preference.PACKED:
            return packed(candidates, must, size, self._replicas())
        if self.preference is Preference.SPREAD:
            return spread(candidates, must, size, self._replicas())
        return lowest(candidates, must, size)

    def physical(self, name: str) -> str:
        """The device behind an id: replicas of a shared one have ids ``<device>::<n>`` (DEV-186)."""
        return name.partition("::")[0]

    def renewed(self, new_ids: Sequence[str]) -> "Model":
        """The same plugin with other ids, as after a start with ``Identity.FRESH``."""
        return evolve(
            self,
            devices=tuple(evolve(old, id=new) for old, new in zip(self.devices, new_ids, strict=True)),
        )

    def _replicas(self) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        for device in self.devices:
            counts[self.physical(device.id)] = counts.get(self.physical(device.id), 0) + 1
        return counts

    def index_of(self, name: str) -> int:
        """The position of a physical device, as in ``/dev/nvidia<N>``; 0 for an unknown one."""
        wanted = self.physical(name)
        names = dict.fromkeys(self.physical(device.id) for device in self.devices)
        return next((index for index, found in enumerate(names) if found == wanted), 0)

    def _filled_envs(self, ids: Sequence[str]) -> dict[str, str]:
        return {
            name: text
            if "{" not in text
            else ",".join(dict.fromkeys(self._filled(text, device) for device in ids))
            for name, text in self.envs.items()
        }

    def _each(self, ids: Sequence[str], first: str, second: str) -> tuple[tuple[str, str], ...]:
        """Both texts filled in for each device, equal pairs once."""
        return tuple(dict.fromkeys((self._filled(first, name), self._filled(second, name)) for name in ids))

    def _filled(self, text: str, name: str) -> str:
        return text.replace("{id}", self.physical(name)).replace("{index}", str(self.index_of(name)))
