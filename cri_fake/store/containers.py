"""The container state machine: facts in, state out (pure).

A container is a frozen record of facts (when it was created, started, finished, with which code); its state
on the wire is *derived* from them in one fixed order (CRI-040) and never stored. Beside the four wire
states two flags exist, as in containerd: *starting* and *removing*. Flags and state together give the
``Phase``, on which the table ``TRANSITIONS`` says for each event whether it moves the container, leaves it
alone, is refused with a text that clients see, or cannot happen at all (a fault of this program,
``IllegalTransition``).

A container never runs twice (CRI-041); once it has exited its times, code and reason stand still, but for the
reason, which an OOM kill that is reported late turns into ``OOMKilled`` (CRI-202, CRI-045).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from cri_fake.store.faults import IllegalTransition, Refusal, Refused

if TYPE_CHECKING:
    from k8s_proto import runtime_v1_pb2 as cri

__all__ = [
    "EXIT_CODE_START_FAILED",
    "OOM_KILLED",
    "START_ERROR",
    "TRANSITIONS",
    "Container",
    "Event",
    "Phase",
    "Stay",
    "WireState",
    "advance",
    "derive_state",
]

EXIT_CODE_START_FAILED = 128
"""Exit code of a container whose start failed (CRI-042)."""
OOM_KILLED = "OOMKilled"
"""The fixed word that marks an OOM kill (CRI-045)."""
START_ERROR = "StartError"
"""Reason of a failed start in containerd (CRI-042)."""


class WireState(StrEnum):
    """State as CRI names it; ``CONTAINER_`` + the name is the enum value."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    EXITED = "EXITED"
    UNKNOWN = "UNKNOWN"


class Phase(StrEnum):
    """Wire state and flags together: what the table is keyed by. GONE is the end, not a stored phase."""

    CREATED = "created"
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"
    REMOVING = "removing"
    GONE = "gone"


class Event(StrEnum):
    START_BEGIN = "start-begin"
    """StartContainer was called."""
    START_DONE = "start-done"
    """The process runs."""
    START_FAIL = "start-fail"
    """The process could not be started."""
    START_UNDO = "start-undo"
    """The call ended before anything was started."""
    EXIT = "exit"
    """The main process ended."""
    OOM = "oom"
    """A process of the container was killed for want of memory."""
    LOST = "lost"
    """The runtime does not know any more what became of the process."""
    STOP = "stop"
    """StopContainer was called: in a phase that stays, there is nothing to stop (CRI-047)."""
    REMOVE_BEGIN = "remove-begin"
    REMOVE_UNDO = "remove-undo"
    REMOVE_DONE = "remove-done"


class Stay(StrEnum):
    """The event is granted and changes no phase."""

    NOTHING_TO_DO = "nothing to do"
    NOTED = "noted"


_IMPOSSIBLE = None
Entry = Phase | frozenset[Phase] | Stay | Refusal | None
_P, _E = Phase, Event
_BACK = frozenset({_P.CREATED, _P.EXITED})


def _state_refusal(state: WireState) -> Refusal:
    return Refusal(f"container is in CONTAINER_{state} state", "CRI-041")


TRANSITIONS: Mapping[Phase, Mapping[Event, Entry]] = {
    _P.CREATED: {
        _E.START_BEGIN: _P.STARTING,
        _E.START_DONE: _IMPOSSIBLE,
        _E.START_FAIL: _IMPOSSIBLE,
        _E.START_UNDO: _IMPOSSIBLE,
        _E.EXIT: _IMPOSSIBLE,
        _E.OOM: _IMPOSSIBLE,
        _E.LOST: _IMPOSSIBLE,
        _E.STOP: Stay.NOTHING_TO_DO,
        _E.REMOVE_BEGIN: _P.REMOVING,
        _E.REMOVE_UNDO: _IMPOSSIBLE,
        _E.REMOVE_DONE: _IMPOSSIBLE,
    },
    _P.STARTING: {
        _E.START_BEGIN: Refusal("container is already in starting state", "CRI-041"),
        _E.START_DONE: _P.RUNNING,
        _E.START_FAIL: _P.EXITED,
        _E.START_UNDO: _P.CREATED,
        _E.EXIT: _IMPOSSIBLE,
        _E.OOM: _IMPOSSIBLE,
        _E.LOST: _P.UNKNOWN,
        _E.STOP: Stay.NOTHING_TO_DO,
        _E.REMOVE_BEGIN: Refusal("container is in starting state, can't be removed", "CRI-051"),
        _E.REMOVE_UNDO: _IMPOSSIBLE,
        _E.REMOVE_DONE: _IMPOSSIBLE,
    },
    _P.RUNNING: {
        _E.START_BEGIN: _state_refusal(WireState.RUNNING),
        _E.START_DONE: _IMPOSSIBLE,
        _E.START_FAIL: _IMPOSSIBLE,
        _E.START_UNDO: _IMPOSSIBLE,
        _E.EXIT: _P.EXITED,
        _E.OOM: Stay.NOTED,
        _E.LOST: _P.UNKNOWN,
        _E.STOP: Stay.NOTED,
        _E.REMOVE_BEGIN: Refusal("container is still running, to stop first", "CRI-051"),
        _E.REMOVE_UNDO: _IMPOSSIBLE,
        _E.REMOVE_DONE: _IMPOSSIBLE,
    },
    _P.EXITED: {
        _E.START_BEGIN: _state_refusal(WireState.EXITED),
        _E.START_DONE: _IMPOSSIBLE,
        _E.START_FAIL: _IMPOSSIBLE,
        _E.START_UNDO: _IMPOSSIBLE,
        _E.EXIT: _IMPOSSIBLE,
        _E.OOM: Stay.NOTED,
        _E.LOST: _IMPOSSIBLE,
        _E.STOP: Stay.NOTHING_TO_DO,
        _E.REMOVE_BEGIN: _P.REMOVING,
        _E.REMOVE_UNDO: _IMPOSSIBLE,
        _E.REMOVE_DONE: _IMPOSSIBLE,
    },
    _P.UNKNOWN: {
        _E.START_BEGIN: _state_refusal(WireState.UNKNOWN),
        _E.START_DONE: _IMPOSSIBLE,
        _E.START_FAIL: _IMPOSSIBLE,
        _E.START_UNDO: _IMPOSSIBLE,
        _E.EXIT: _P.EXITED,
        _E.OOM: Stay.NOTED,
        _E.LOST: Stay.NOTED,
        _E.STOP: Stay.NOTED,
        _E.REMOVE_BEGIN: Refusal("container state is unknown, to stop first", "CRI-051"),
        _E.REMOVE_UNDO: _IMPOSSIBLE,
        _E.REMOVE_DONE: _IMPOSSIBLE,
    },
    _P.REMOVING: {
        _E.START_BEGIN: Refusal("container is in removing state, can't be started", "CRI-051"),
        _E.START_DONE: _IMPOSSIBLE,
        _E.START_FAIL: _IMPOSSIBLE,
        _E.START_UNDO: _IMPOSSIBLE,
        _E.EXIT: _IMPOSSIBLE,
        _E.OOM: Stay.NOTED,
        _E.LOST: _IMPOSSIBLE,
        _E.STOP: Stay.NOTHING_TO_DO,
        _E.REMOVE_BEGIN: Refusal("container is already in removing state", "CRI-051"),
        _E.REMOVE_UNDO: _BACK,
        _E.REMOVE_DONE: _P.GONE,
    },
}
"""What each event does in each phase; total over both."""


@frozen(kw_only=True)
class Container:
    """One container as the runtime knows it. ``config`` is what CreateContainer brought and is never changed.

    Times are unix nanoseconds, 0 while not reached. ``instance`` counts the containers of that name in that
    pod in the order of creation, from 0. ``resources`` is what applies now (CRI-062), ``config`` what was
    asked first.
    """

    id: str
    sandbox_id: str
    reserved_name: str
    name: str
    attempt: int
    instance: int
    config: "cri.ContainerConfig"
    image_id: str
    image_name: str
    image_ref: str
    log_path: str
    log_directory: str = ""
    stop_signal: int
    resources: "cri.LinuxContainerResources | None" = None
    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = (0,)
    """All groups of the main process, its own first."""
    created_at_ns: int
    started_at_ns: int = 0
    finished_at_ns: int = 0
    exit_code: int = 0
    explicit_reason: str = ""
    message: str = ""
    pid: int = 0
    oom_killed: bool = False
    starting: bool = False
    removing: bool = False
    unknown: bool = False

    @property
    def state(self) -> WireState:
        return derive_state(self)

    @property
    def phase(self) -> Phase:
        if self.removing:
            return Phase.REMOVING
        if self.starting and self.finished_at_ns == 0 and not self.unknown:
            return Phase.STARTING
        return _PHASE_OF[derive_state(self)]

    @property
    def reason(self) -> str:
        """Reason of an exited container: OOM, else the explicit one, else by exit code (CRI-045)."""
        if self.finished_at_ns == 0:
            return ""
        if self.oom_killed:
            return OOM_KILLED
        if self.explicit_reason:
            return self.explicit_reason
        return "Completed" if self.exit_code == 0 else "Error"


_PHASE_OF: Mapping[WireState, Phase] = {
    WireState.CREATED: Phase.CREATED,
    WireState.RUNNING: Phase.RUNNING,
    WireState.EXITED: Phase.EXITED,
    WireState.UNKNOWN: Phase.UNKNOWN,
}


def derive_state(container: Container) -> WireState:
    """The state on the wire, from the facts in their fixed order (CRI-040)."""
    if container.unknown:
        return WireState.UNKNOWN
    if container.finished_at_ns != 0:
        return WireState.EXITED
    if container.started_at_ns != 0:
        return WireState.RUNNING
    return WireState.CREATED


def advance(
    container: Container,
    event: Event,
    *,
    now_ns: int = 0,
    exit_code: int = 0,
    reason: str = "",
    message: str = "",
    pid: int = 0,
) -> Container | None:
    """The container after the event; None once it is gone. ``now_ns`` is used by events that set a time.

    Raises:
        Refused: the table refuses the event; the text names no container, callers wrap it.
        IllegalTransition: the event cannot happen in that phase.
    """
    entry = TRANSITIONS[container.phase][event]
    if entry is _IMPOSSIBLE:
        raise IllegalTransition("container", container.phase, event)
    if isinstance(entry, Refusal):
        raise Refused(entry.kind, entry.text, rule=entry.rule)
    if entry is Phase.GONE:
        return None
    match event:
        case Event.START_BEGIN:
            new = evolve(container, starting=True)
        case Event.START_DONE:
            started = max(now_ns, container.created_at_ns)
            new = evolve(container, starting=False, started_at_ns=started, pid=pid)
        case Event.START_FAIL:
            new = evolve(
                container,
                starting=False,
                finished_at_ns=max(now_ns, container.created_at_ns),
                exit_code=EXIT_CODE_START_FAILED,
                explicit_reason=reason or START_ERROR,
                message=message,
            )
        case Event.START_UNDO:
            new = evolve(container, starting=False)
        case Event.EXIT:
            new = evolve(
                container,
                unknown=False,
                starting=False,
                pid=0,
                finished_at_ns=max(now_ns, container.started_at_ns, container.created_at_ns),
                exit_code=exit_code,
                explicit_reason=reason,
                message=message,
            )
        case Event.OOM:
            new = evolve(container, oom_killed=True)
        case Event.LOST:
            new = evolve(container, unknown=True, starting=False)
        case Event.STOP:
            new = container
        case Event.REMOVE_BEGIN:
            new = evolve(container, removing=True)
        case Event.REMOVE_UNDO:
            new = evolve(container, removing=False)
        case Event.REMOVE_DONE:
            raise IllegalTransition("container", container.phase, event)
    expected = entry if isinstance(entry, frozenset) else frozenset({entry})
    moved = not isinstance(entry, Stay)
    assert new.phase in expected if moved else new.phase is container.phase, (
        container.phase,
        event,
        new.phase,
    )
    return new
