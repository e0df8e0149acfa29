"""What the kubelet knows of its runtime's health (mirrors ``pkg/kubelet/runtime.go``; NOD-21 to NOD-23).
(pure)"""

from attrs import define

__all__ = ["DOWN_AFTER_SECONDS", "RuntimeHealth"]

DOWN_AFTER_SECONDS = 30.0


@define
class RuntimeHealth:
    """The last good status and the two conditions of the runtime. Times are node-clock seconds."""

    last_good_seconds: float | None = None
    runtime_condition: str = ""
    network_condition: str = "network state unknown"

    def runtime_error(self, now_seconds: float, *, pleg_error: str) -> str:
        """Why the sync loop must not work now, empty if it may (POD-102)."""
        if self.last_good_seconds is None:
            return "container runtime status check may not have completed yet"
        if self.last_good_seconds + DOWN_AFTER_SECONDS <= now_seconds:
            return "container runtime is down"
        return pleg_error or self.runtime_condition

    def take_status(
        self, now_seconds: float, *, runtime_ready: str | None, network_ready: str | None
    ) -> None:
        """Take a Status reply: each argument is None for a condition that is true, else its printed form."""
        self.network_condition = (
            "" if network_ready is None else f"container runtime network not ready: {network_ready}"
        )
        self.runtime_condition = (
            "" if runtime_ready is None else f"container runtime not ready: {runtime_ready}"
        )
        if runtime_ready is None:
            self.last_good_seconds = now_seconds
