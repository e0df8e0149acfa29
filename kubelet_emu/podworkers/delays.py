"""When a pod is synced again after a run (pure).

Mirrors completeWork in ``pkg/kubelet/pod_workers.go`` (POD-003, POD-514, RST-098).
"""

from attrs import frozen

from kubelet_emu.podworkers.record import SyncError
from kubelet_emu.why import Why

__all__ = [
    "BACKOFF_SECONDS",
    "JITTER_FACTOR",
    "NETWORK_NOT_READY",
    "TRANSIENT_BACKOFF_SECONDS",
    "Requeue",
    "jittered",
    "requeue_after",
]

BACKOFF_SECONDS = 10.0
"""Retry after a failed sync, before jitter (POD-001)."""
TRANSIENT_BACKOFF_SECONDS = 1.0
"""Retry while the network is not ready, before jitter (POD-001)."""
NETWORK_NOT_READY = "network is not ready"
JITTER_FACTOR = 0.5


@frozen
class Requeue:
    """``base_seconds`` from now, stretched by the jitter if there is to be one."""

    base_seconds: float
    jitter: bool
    why: tuple[Why, ...]


def jittered(base_seconds: float, draw: float) -> float:
    """``base_seconds`` × [1, 1.5); ``draw`` is uniform in [0, 1) (POD-003)."""
    return base_seconds + draw * JITTER_FACTOR * base_seconds


def requeue_after(
    *,
    phase_transition: bool,
    error: SyncError | None,
    now_seconds: float,
    resync_seconds: float,
    backoff_seconds: float = BACKOFF_SECONDS,
) -> Requeue:
    """The delay after one run; first case that applies (POD-514)."""
    if phase_transition:
        return Requeue(0.0, False, (Why("POD-514", "phase transition"),))
    if error is None:
        return Requeue(resync_seconds, True, (Why("POD-514", "success"),))
    if NETWORK_NOT_READY in error.text:
        return Requeue(TRANSIENT_BACKOFF_SECONDS, True, (Why("POD-514", "network not ready"),))
    if error.backoff_until_seconds is not None:
        left = error.backoff_until_seconds - now_seconds
        return Requeue(min(max(left, 0.0), resync_seconds), True, (Why("POD-611", "back-off"),))
    return Requeue(backoff_seconds, True, (Why("POD-514", "error"),))
