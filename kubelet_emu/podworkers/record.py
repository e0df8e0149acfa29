"""What is known of a pod's worker, what can be asked of it, and what a sync gives back (pure).

Mirrors the types of ``pkg/kubelet/pod_workers.go`` (POD-501, POD-502). Times are stamps (node-clock seconds).
"""

from collections.abc import Callable, Mapping
from enum import StrEnum

from attrs import field, frozen

from kubelet_emu.api.types import Pod, PodStatus
from kubelet_emu.container.runtime import RunningPod, SyncPodResult
from kubelet_emu.errors import PeerError
from kubelet_emu.pod_update import UpdateType
from kubelet_emu.podworkers.names import NameLocks

__all__ = [
    "KillOptions",
    "KnownWorker",
    "Record",
    "StatusFunc",
    "SyncError",
    "SyncOutcome",
    "UpdatePodOptions",
    "WorkState",
    "WorkersState",
]

StatusFunc = Callable[[PodStatus], PodStatus]
"""Lays a reason for the termination over a generated status (POD-1103)."""


class WorkState(StrEnum):
    """Which function a worker runs next (POD-501)."""

    SYNCING = "syncing"
    TERMINATING = "terminating"
    TERMINATED = "terminated"


@frozen(kw_only=True)
class KillOptions:
    """How to kill. ``completed`` is called once all containers have stopped (or need not)."""

    completed: Callable[[], None] | None = None
    evict: bool = False
    status_func: StatusFunc | None = None
    grace_override_seconds: int | None = None


@frozen(kw_only=True)
class UpdatePodOptions:
    """One request to a worker. One of ``pod`` and ``running_pod`` counts; ``pod`` wins (POD-504.1)."""

    type: UpdateType
    pod: Pod | None = None
    mirror_pod: Pod | None = None
    running_pod: RunningPod | None = None
    kill_options: KillOptions | None = None
    start_time_seconds: float | None = None
    """When the kubelet first heard of the change, for latency only."""


@frozen(kw_only=True)
class Record:
    """Everything remembered about one UID (POD-502). A time of None means "not yet"."""

    uid: str
    full_name: str
    synced_at: float
    started_at: float | None = None
    terminating_at: float | None = None
    terminated_at: float | None = None
    started_terminating: bool = False
    finished: bool = False
    deleted: bool = False
    evicted: bool = False
    restart_requested: bool = False
    observed_runtime: bool = False
    grace_seconds: int = 0
    """The effective grace so far, 0 before any kill. It can only shrink (POD-507)."""
    pending: UpdatePodOptions | None = None
    active: UpdatePodOptions | None = None
    status_funcs: tuple[StatusFunc, ...] = ()
    on_terminated: tuple[Callable[[], None], ...] = ()
    has_worker: bool = False
    """Whether a task serves this record."""

    @property
    def state(self) -> WorkState:
        """Derived from the times (POD-501)."""
        if self.terminated_at is not None:
            return WorkState.TERMINATED
        if self.terminating_at is not None:
            return WorkState.TERMINATING
        return WorkState.SYNCING

    @property
    def is_terminating(self) -> bool:
        """Whether termination was requested, at any time."""
        return self.terminating_at is not None


@frozen
class WorkersState:
    """All records, the locks on static names, and whether SyncKnownPods has ever run (POD-506)."""

    records: Mapping[str, Record] = field(factory=dict[str, Record])
    names: NameLocks = field(factory=NameLocks)
    synced: bool = False


@frozen(kw_only=True)
class KnownWorker:
    """One entry of the result of SyncKnownPods (POD-520)."""

    state: WorkState
    orphan: bool = False
    has_config: bool = False
    static: bool = False


@frozen
class SyncError:
    """Why a sync function failed, as far as the retry depends on it (POD-514).

    ``backoff_until_seconds`` is the earliest end of a back-off among the failures, on the node clock.
    ``cancelled`` says that the sync gave up because its cancel event was set (POD-513).
    """

    text: str
    backoff_until_seconds: float | None = None
    cancelled: bool = False

    def __str__(self) -> str:
        return self.text

    @classmethod
    def of_result(cls, result: SyncPodResult) -> "SyncError | None":
        """The error of a runtime sync, None if it had none."""
        if not result.error:
            return None
        ends = [r.backoff_until_seconds for r in result.failed if r.backoff_until_seconds is not None]
        return cls(result.error, min(ends, default=None))

    @classmethod
    def of_exception(cls, error: PeerError) -> "SyncError":
        """The error of a peer that failed, with its back-off if it has one."""
        return cls(str(error), getattr(error, "backoff_until_seconds", None))


@frozen
class SyncOutcome:
    """What syncPod gives back: whether the pod has ended by itself, and the error if it failed."""

    is_terminal: bool = False
    error: SyncError | None = None
