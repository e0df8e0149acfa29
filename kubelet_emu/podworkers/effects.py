"""What the worker machine asks of its shell, in the order in which it is to be done (pure)."""

from collections.abc import Callable

from attrs import frozen

from kubelet_emu.podworkers.record import WorkersState
from kubelet_emu.why import Why

__all__ = ["CancelSync", "Effect", "Notify", "StartWorker", "Step", "StopWorker", "WakeWorker"]


@frozen
class StartWorker:
    """Start the task that serves this UID."""

    uid: str


@frozen
class WakeWorker:
    """Tell the UID's task that an update is pending."""

    uid: str


@frozen
class StopWorker:
    """The UID's task is to end once it has returned from what it does."""

    uid: str


@frozen
class CancelSync:
    """Set the cancel event of the sync that runs now, if any (POD-516)."""

    uid: str


@frozen
class Notify:
    """Tell those who wait for the end of the termination."""

    callbacks: tuple[Callable[[], None], ...]


Effect = StartWorker | WakeWorker | StopWorker | CancelSync | Notify


@frozen
class Step:
    """The state after one event, what is to be done, and why."""

    state: WorkersState
    effects: tuple[Effect, ...] = ()
    why: tuple[Why, ...] = ()
