"""What all parts of the runtime share: stores, names, addresses, clock, chance, latency and the event hub."""

from collections.abc import Callable
from random import Random
from typing import Any

from attrs import define, field

from cri_fake.behaviours import Behaviours
from cri_fake.catalogue import Catalogue
from cri_fake.disk import Disk
from cri_fake.events import EventHub, EventType, PodEvent
from cri_fake.hostports import HostPorts
from cri_fake.latency import Latency
from cri_fake.network import Ipam
from cri_fake.observe import Observer
from cri_fake.profile import Profile
from cri_fake.store.containers import Container
from cri_fake.store.faults import Kind, Refused, not_found
from cri_fake.store.images import ImageStore
from cri_fake.store.sandboxes import Sandbox
from cri_fake.store.table import Names, Store
from node_host.clock import NodeClock
from node_host.files import Files
from node_host.net import Net
from node_host.randoms import new_id

__all__ = ["World", "ignore_move"]

_FIRST_PID = 1000


_NAME_WAIT_SECONDS = 360.0
"""How long a caller who did not say waits for a name that is taken by something in the making."""


def _keep_nothing(name: str, value: Any) -> None:
    """For a runtime whose state does not last."""


def ignore_move(table: str, before: str, after: str) -> None:
    """Nobody wants to know of steps."""


@define(kw_only=True, eq=False)
class World:
    """Shared state; all but ``behaviours`` and the knobs at the end is fixed for the runtime's life."""

    clock: NodeClock
    disk: Disk
    net: Net
    ids: Random
    latency: Latency
    profile: Profile
    observer: Observer
    behaviours: Behaviours
    catalogue: Catalogue
    ipam: Ipam
    hub: EventHub
    host_ip: str
    moved: Callable[[str, str, str], object]
    """Told of each step of a sandbox or container: table, states before and after, the same if refused."""
    hostports: HostPorts
    sandboxes: Store[Sandbox] = field(factory=lambda: Store[Sandbox]())
    containers: Store[Container] = field(factory=lambda: Store[Container]())
    images: ImageStore = field(factory=ImageStore)
    sandbox_names: Names = field(factory=Names)
    container_names: Names = field(factory=Names)
    network_ready: bool = True
    """False: Status says so and pod-network sandboxes cannot be made (CRI-101)."""
    registry_up: bool = True
    """False: no image can be pulled, whichever it is."""
    notes: dict[str, Any] = field(factory=dict[str, Any])
    """What else a runtime with kept state has to remember; JSON by name."""
    keep_note: Callable[[str, Any], None] = _keep_nothing
    _by_sandbox: dict[str, dict[str, None]] = field(factory=dict[str, dict[str, None]])
    _last_stamp_ns: int = 0
    _last_pid: int = _FIRST_PID

    @property
    def files(self) -> Files:
        """The files of the node, as far as the disk has room."""
        return self.disk.files

    def unique_now_ns(self) -> int:
        """The time of day, later than every such time before: no two objects share a created_at (CRI-016)."""
        self._last_stamp_ns = max(self._last_stamp_ns + 1, self.clock.now_ns())
        return self._last_stamp_ns

    def not_before(self, stamp_ns: int) -> None:
        """Give no unique time up to this one: it was given in an earlier life (CRI-016)."""
        self._last_stamp_ns = max(self._last_stamp_ns, stamp_ns)

    def new_id(self) -> str:
        """64 lower-case hex digits from the seed (CRI-010)."""
        return new_id(self.ids)

    def next_pid(self) -> int:
        """A process id as the host would see it; only for show."""
        self._last_pid += 1
        return self._last_pid

    async def pause(self, method: str, variant: str = "", *, share: float = 1.0) -> None:
        """Take the time that the method takes; with no latency not even a checkpoint."""
        seconds = self.latency.draw(method, variant) * share
        if seconds > 0:
            await self.clock.sleep(seconds)

    async def spend(self, seconds: float) -> None:
        """Sleep if there is anything to sleep."""
        if seconds > 0:
            await self.clock.sleep(seconds)

    async def reserve(self, names: Names, store: Store[Any], name: str, owner_id: str) -> str | None:
        """Take a name; None once it is the owner's. CRI-O gives the id of what has the name already, and has
        callers wait for what is still being made (CRI-013).

        Raises:
            Refused: the name is taken.
        """
        holder = names.owner(name)
        if holder is not None and self.profile.gives_existing_for_name:
            if holder in store:
                return holder
            await self.clock.sleep(_NAME_WAIT_SECONDS)
        names.reserve(name, owner_id)
        return None

    def unknown(self, text: str, *, rule: str = "CRI-070") -> Refused:
        """The refusal of an unknown id where containerd says NotFound and CRI-O Unknown (CRI-070)."""
        refused = not_found(text, rule=rule)
        if self.profile.unknown_is_not_found:
            return refused
        return Refused(Kind.UNKNOWN, refused.text, rule=rule)

    def containers_of(self, sandbox_id: str) -> tuple[Container, ...]:
        """The sandbox's containers in any state, in order of creation."""
        found = (self.containers.get(each) for each in self._by_sandbox.get(sandbox_id, ()))
        return tuple(container for container in found if container is not None)

    def add_container(self, container: Container) -> None:
        """Make a container visible."""
        self.containers.add(container)
        self._by_sandbox.setdefault(container.sandbox_id, {})[container.id] = None

    def remove_container(self, container: Container) -> None:
        """Forget a container."""
        self.containers.remove(container.id)
        ids = self._by_sandbox.get(container.sandbox_id, {})
        ids.pop(container.id, None)
        if not ids:
            self._by_sandbox.pop(container.sandbox_id, None)

    def publish(self, kind: EventType, object_id: str, sandbox_id: str) -> None:
        """Emit an event with a snapshot of the pod as it is now (CRI-141)."""
        event = PodEvent(
            kind,
            object_id,
            self.unique_now_ns(),
            self.sandboxes.get(sandbox_id),
            self.containers_of(sandbox_id),
        )
        self.hub.publish(event)
