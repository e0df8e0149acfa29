"""The active deadline of a pod (pure).

Mirrors ``pkg/kubelet/active_deadline.go`` (POD-1101, POD-1102).
"""

from kubelet_emu.api.types import Pod

__all__ = ["DEADLINE_MESSAGE", "DEADLINE_REASON", "deadline_exceeded"]

DEADLINE_REASON = "DeadlineExceeded"
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"

_NS_PER_SECOND = 1_000_000_000


def deadline_exceeded(pod: Pod, *, status_start_time_ns: int | None, now_ns: int) -> bool:
    """Whether the pod has been active for its ``activeDeadlineSeconds`` (RST-169).

    ``status_start_time_ns`` is what the status manager has; without it the API status counts; without either
    the deadline has not begun. Both are whole seconds, so the deadline strikes up to one second early.
    """
    limit = pod.spec.active_deadline_seconds
    if limit is None:
        return False
    start = status_start_time_ns if status_start_time_ns is not None else pod.status.start_time
    if start is None:
        return False
    return now_ns - start >= limit * _NS_PER_SECOND
