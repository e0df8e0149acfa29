"""The work queue: which pod is due for a sync, and when (pure).

Mirrors ``pkg/kubelet/util/queue/work_queue.go`` (POD-106).
"""

__all__ = ["WorkQueue"]


class WorkQueue:
    """One due time a pod, the last one written. Times are stamps (``container.stamps``)."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._due)

    def enqueue(self, uid: str, *, now: float, delay_seconds: float) -> None:
        """Make the pod due ``delay_seconds`` after ``now``, whatever was set before."""
        self._due[uid] = now + delay_seconds

    def due_at(self, uid: str) -> float | None:
        """When the pod is due, None if it is not queued."""
        return self._due.get(uid)

    def take_due(self, now: float) -> tuple[str, ...]:
        """Remove and return the pods whose due time lies strictly before ``now``, the longest due first."""
        due = sorted((at, uid) for uid, at in self._due.items() if at < now)
        for _, uid in due:
            del self._due[uid]
        return tuple(uid for _, uid in due)
