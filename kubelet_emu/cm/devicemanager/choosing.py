"""Which devices a container gets (pure).

Mirrors ``devicesToAllocate`` and ``filterByAffinity`` of ``pkg/kubelet/cm/devicemanager/manager.go``: the
rows of DEV-064, in order. The choice may ask the plugin in between, so it is a generator: it yields a
``Preference`` to ask for, is sent the ids that the plugin prefers, and returns a ``Choice``. While a question
is out, lists and collections may change the state, as they may in a real kubelet (DEV-067).
"""

from collections.abc import Collection, Generator, Iterable

from attrs import define, frozen

from kubelet_emu.cm.devicemanager.state import DeviceState
from kubelet_emu.cm.topologymanager.hints import Hint
from kubelet_emu.why import Why

__all__ = ["Choice", "Preference", "Request", "Split", "choose", "split_by_affinity", "without_choice"]


@frozen(kw_only=True)
class Request:
    """What a container asks for, and what is known of it.

    ``was_running`` says that the container ran when the kubelet started, ``sources_ready`` that all pods
    have been heard of (DEV-064 row 2). ``hint`` is what the topology manager has stored for it.
    """

    uid: str
    container: str
    resource: str
    limit: int
    sources_ready: bool = True
    was_running: bool = False
    hint: Hint | None = None


@frozen
class Preference:
    """A question for the plugin (GetPreferredAllocation)."""

    resource: str
    available: tuple[str, ...]
    must_include: tuple[str, ...]
    size: int


@frozen
class Choice:
    """Devices to allocate, none if nothing is to be done, or the text of the error."""

    ids: tuple[str, ...] = ()
    error: str = ""
    why: tuple[Why, ...] = ()


@frozen
class Split:
    """Free devices by what the hint says of their nodes (DEV-066)."""

    aligned: tuple[str, ...]
    unaligned: tuple[str, ...]
    no_affinity: tuple[str, ...]


def split_by_affinity(
    state: DeviceState, resource: str, available: Collection[str], hint: Hint | None
) -> Split:
    """Divide the free devices of a resource (DEV-066, DEV-198)."""
    order = sorted(available)
    if hint is None or hint.mask is None or not state.has_alignment(resource):
        return Split((), (), tuple(order))
    aligned: list[str] = []
    unaligned: list[str] = []
    no_affinity: list[str] = []
    known = state.devices.get(resource, {})
    for device in order:
        nodes = known[device].nodes if device in known else None
        if not nodes:
            no_affinity.append(device)
        elif any(node >= 0 and hint.mask >> node & 1 for node in nodes):
            aligned.append(device)
        else:
            unaligned.append(device)
    return Split(tuple(aligned), tuple(unaligned), tuple(no_affinity))


def choose(state: DeviceState, request: Request) -> Generator[Preference, Collection[str], Choice]:
    """Decide by the rows of DEV-064; chosen devices are marked in use at once."""
    verdict = without_choice(state, request)
    if verdict is not None:
        return verdict
    taking = _Taking(state, request.resource, request.limit)
    reusable = state.reusable.get(request.resource) if state.reusable_for == request.uid else None
    if taking.take(sorted(reusable or ())):
        return taking.done("row 7")
    available = state.free(request.resource)
    if len(available) < taking.need:
        return _refused(
            f"requested number of devices unavailable for {request.resource}. "
            f"Requested: {taking.need}, Available: {len(available)}",
            "row 8",
        )
    split = split_by_affinity(state, request.resource, available, request.hint)
    if taking.need < len(split.aligned):
        preferred = yield taking.question(split.aligned)
        aligned = set(split.aligned)
        if taking.take(one for one in preferred if one in aligned) or taking.take(split.aligned):
            return taking.done("row 9")
    else:
        if taking.take(split.aligned):
            return taking.done("row 10")
        preferred = yield taking.question(sorted(available))
        for more in (
            [one for one in preferred if one in available],
            split.unaligned,
            split.no_affinity,
        ):
            if taking.take(more):
                return taking.done("row 10")
    got = request.limit - taking.need
    return _refused(
        f"unexpectedly allocated less resources than required. Requested: {request.limit}, Got: {got}",
        "row 11",
    )


def without_choice(state: DeviceState, request: Request) -> Choice | None:
    """Rows 1 to 6: nothing to choose, or an error; None where devices have to be chosen."""
    resource = request.resource
    held = state.pods.get(request.uid, request.container, resource)
    have = held.ids if held is not None else frozenset[str]()
    if held is not None and len(have) != request.limit:
        return _refused(
            f'pod "{request.uid}" container "{request.container}" changed request for resource '
            f'"{resource}" from {len(have)} to {request.limit}',
            "row 1",
        )
    if not request.sources_ready and request.was_running:
        return Choice(why=(Why("DEV-064", "row 2"),))
    healthy = state.healthy.get(resource)
    if healthy is None:
        return _refused(f"cannot allocate unregistered device {resource}", "row 3")
    if not healthy:
        return _refused(f"no healthy devices present; cannot allocate unhealthy devices {resource}", "row 4")
    if not have <= healthy:
        return _refused(
            f"previously allocated devices are no longer healthy; "
            f"cannot allocate unhealthy devices {resource}",
            "row 5",
        )
    if held is not None or request.limit == 0:
        return Choice(why=(Why("DEV-064", "row 6"),))
    return None


def _refused(error: str, row: str) -> Choice:
    return Choice(error=error, why=(Why("DEV-064", row),))


@define
class _Taking:
    """The devices taken so far."""

    state: DeviceState
    resource: str
    need: int
    _limit: int = 0
    _taken: dict[str, None] | None = None

    def __attrs_post_init__(self) -> None:
        self._limit = self.need
        self._taken = {}

    @property
    def taken(self) -> dict[str, None]:
        assert self._taken is not None
        return self._taken

    def take(self, devices: Iterable[str]) -> bool:
        """Take what is still needed from these; whether that is enough."""
        for device in devices:
            if self.need == 0:
                break
            if device not in self.taken:
                self.taken[device] = None
                self.state.mark(self.resource, (device,))
                self.need -= 1
        return self.need == 0

    def question(self, available: Iterable[str]) -> Preference:
        every = tuple(sorted({*available, *self.taken}))
        return Preference(self.resource, every, tuple(sorted(self.taken)), self._limit)

    def done(self, row: str) -> Choice:
        return Choice(tuple(sorted(self.taken)), why=(Why("DEV-064", row),))
