"""The sandbox state machine: two facts (process alive, network open) and the table over them (pure).

A sandbox is READY while its own process lives. When that process dies the network stays until StopPodSandbox
closes it (phase DEAD, then STOPPED); both are NOTREADY on the wire. It never becomes READY again (CRI-027).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from cri_fake.store.faults import IllegalTransition, Kind, Refusal, Refused

if TYPE_CHECKING:
    from k8s_proto import runtime_v1_pb2 as cri

__all__ = ["TRANSITIONS", "Event", "Phase", "Sandbox", "Stay", "advance"]


class Phase(StrEnum):
    """READY is READY on the wire, DEAD and STOPPED are NOTREADY. GONE is the end, not a stored phase."""

    READY = "ready"
    DEAD = "dead"
    STOPPED = "stopped"
    GONE = "gone"


class Event(StrEnum):
    USE = "use"
    """A container is to be created or started in it (CRI-026)."""
    DIED = "died"
    """Its process ended, by StopPodSandbox or by itself."""
    CLOSED = "closed"
    """Its network was torn down; the addresses are free again (CRI-032)."""
    RESOURCES = "resources"
    """UpdatePodSandboxResources (CRI-151)."""
    REMOVE = "remove"


class Stay(StrEnum):
    """The event is granted and changes no phase."""

    FINE = "fine"


Entry = Phase | Stay | Refusal | None
_IMPOSSIBLE = None
_NOT_RUNNING = Refusal("is not running", "CRI-026")
_NOT_STOPPED = Refusal("is not fully stopped", "CRI-025", Kind.UNKNOWN)

TRANSITIONS: Mapping[Phase, Mapping[Event, Entry]] = {
    Phase.READY: {
        Event.USE: Stay.FINE,
        Event.DIED: Phase.DEAD,
        Event.CLOSED: _IMPOSSIBLE,
        Event.RESOURCES: Stay.FINE,
        Event.REMOVE: _NOT_STOPPED,
    },
    Phase.DEAD: {
        Event.USE: _NOT_RUNNING,
        Event.DIED: Stay.FINE,
        Event.CLOSED: Phase.STOPPED,
        Event.RESOURCES: _NOT_RUNNING,
        Event.REMOVE: _NOT_STOPPED,
    },
    Phase.STOPPED: {
        Event.USE: _NOT_RUNNING,
        Event.DIED: Stay.FINE,
        Event.CLOSED: Stay.FINE,
        Event.RESOURCES: _NOT_RUNNING,
        Event.REMOVE: Phase.GONE,
    },
}
"""What each event does in each phase; total over both."""


@frozen(kw_only=True)
class Sandbox:
    """One sandbox. ``config`` is what RunPodSandbox brought and is never changed.

    ``ips`` are the addresses it holds, primary first; none for host network or after ``closed``.
    """

    id: str
    reserved_name: str
    name: str
    namespace: str
    uid: str
    attempt: int
    config: "cri.PodSandboxConfig"
    runtime_handler: str = ""
    created_at_ns: int
    host_network: bool = False
    ips: tuple[str, ...] = ()
    pid: int = 0
    alive: bool = True
    network_open: bool = True
    overhead: "cri.LinuxContainerResources | None" = None
    resources: "cri.LinuxContainerResources | None" = None

    @property
    def ready(self) -> bool:
        return self.alive

    @property
    def phase(self) -> Phase:
        if self.alive:
            return Phase.READY
        return Phase.DEAD if self.network_open else Phase.STOPPED


def advance(sandbox: Sandbox, event: Event) -> Sandbox | None:
    """The sandbox after the event; None once it is gone.

    Raises:
        Refused: the table refuses the event; the text names the sandbox.
        IllegalTransition: the event cannot happen in that phase.
    """
    entry = TRANSITIONS[sandbox.phase][event]
    if entry is _IMPOSSIBLE:
        raise IllegalTransition("sandbox", sandbox.phase, event)
    if isinstance(entry, Refusal):
        raise Refused(entry.kind, f'sandbox container "{sandbox.id}" {entry.text}', rule=entry.rule)
    if entry is Phase.GONE:
        return None
    match event:
        case Event.DIED:
            new = evolve(sandbox, alive=False, pid=0)
        case Event.CLOSED:
            new = evolve(sandbox, network_open=False, ips=())
        case Event.USE | Event.RESOURCES | Event.REMOVE:
            new = sandbox
    expected = sandbox.phase if isinstance(entry, Stay) else entry
    assert new.phase is expected, (sandbox.phase, event, new.phase)
    return new
