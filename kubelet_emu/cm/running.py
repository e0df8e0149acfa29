"""What ran when the kubelet started: container ids by place, and which of them were running (pure).

Mirrors ``buildContainerMapAndRunningSetFromRuntime`` of ``pkg/kubelet/cm`` (DEV-010, DEV-113).
"""

from collections.abc import Collection, Mapping

from attrs import field, frozen

from k8s_proto import runtime_v1_pb2 as cri

__all__ = ["RunningAtStart", "running_at_start"]


def _nothing() -> Mapping[tuple[str, str], tuple[str, ...]]:
    return {}


@frozen(kw_only=True)
class RunningAtStart:
    """Container ids by (pod UID, container name), and the ids that were running."""

    containers: Mapping[tuple[str, str], tuple[str, ...]] = field(factory=_nothing)
    running: frozenset[str] = frozenset()

    def was_running(self, uid: str, name: str) -> bool:
        """Whether an instance of that container ran (DEV-064 row 2)."""
        return any(one in self.running for one in self.containers.get((uid, name), ()))

    def by_id(self) -> dict[str, tuple[str, str]]:
        """(pod UID, container name) of each container that ran, by id."""
        return {one: place for place, ids in self.containers.items() for one in ids if one in self.running}


def running_at_start(
    sandboxes: Collection[cri.PodSandbox], containers: Collection[cri.Container]
) -> RunningAtStart:
    """Read the runtime's two lists; a container whose sandbox is not listed is left out."""
    uids = {sandbox.id: sandbox.metadata.uid for sandbox in sandboxes}
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for container in containers:
        uid = uids.get(container.pod_sandbox_id)
        if uid is not None:
            place = uid, container.metadata.name
            found[place] = (*found.get(place, ()), container.id)
    running = frozenset(one.id for one in containers if one.state == cri.CONTAINER_RUNNING)
    return RunningAtStart(containers=found, running=running)
