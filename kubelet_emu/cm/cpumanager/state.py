"""The shared pool of CPUs and who has CPUs of its own (pure).

Mirrors ``pkg/kubelet/cm/cpumanager/state`` (DEV-173).
"""

from attrs import define, field

from kubelet_emu.cm.cpumanager.cpuset import CpuSet

__all__ = ["CpuState"]


@define
class CpuState:
    """What the state file holds: the shared pool, and exclusive CPUs by pod UID and container."""

    default: CpuSet = frozenset()
    entries: dict[str, dict[str, CpuSet]] = field(factory=dict[str, dict[str, CpuSet]])

    def get(self, uid: str, container: str) -> CpuSet | None:
        """Exclusive CPUs, None for a container that shares."""
        return self.entries.get(uid, {}).get(container)

    def put(self, uid: str, container: str, cpus: CpuSet) -> None:
        self.entries.setdefault(uid, {})[container] = cpus

    def delete(self, uid: str, container: str) -> None:
        containers = self.entries.get(uid, {})
        containers.pop(container, None)
        if not containers:
            self.entries.pop(uid, None)

    def places(self) -> list[tuple[str, str]]:
        return [(uid, name) for uid, containers in self.entries.items() for name in containers]
