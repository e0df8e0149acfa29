"""What a node has counted for its metrics: calls of the runtime, admissions, ends of containers, answers
(pure).

Plain numbers by labels; ``metrics`` turns them into Prometheus families. Buckets are the kubelet's own.
"""

from collections.abc import Mapping
from typing import Any, cast

from attrs import define, field

from kubelet_emu.timing import DEFAULT_BUCKETS, Counter, Timing, doubling

__all__ = ["START_BUCKETS", "Tallies", "operation_of"]

START_BUCKETS = (
    *(0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600),
    *(900, 1200, 1800, 2700, 3600),
)
"""Seconds, of starts of pods (NOD-90)."""

OPERATIONS: Mapping[str, str] = {
    "Version": "version",
    "Status": "status",
    "RunPodSandbox": "run_podsandbox",
    "StopPodSandbox": "stop_podsandbox",
    "RemovePodSandbox": "remove_podsandbox",
    "PodSandboxStatus": "podsandbox_status",
    "ListPodSandbox": "list_podsandbox",
    "CreateContainer": "create_container",
    "StartContainer": "start_container",
    "StopContainer": "stop_container",
    "RemoveContainer": "remove_container",
    "ListContainers": "list_containers",
    "ContainerStatus": "container_status",
    "UpdateContainerResources": "update_container",
    "ReopenContainerLog": "reopen_container_log",
    "ExecSync": "exec_sync",
    "Exec": "exec",
    "Attach": "attach",
    "PortForward": "port_forward",
    "ListImages": "list_images",
    "ImageStatus": "image_status",
    "PullImage": "pull_image",
    "RemoveImage": "remove_image",
    "ImageFsInfo": "image_fs_info",
    "UpdateRuntimeConfig": "update_runtime_config",
}
"""Wire name of a call to the label ``operation_type``."""


def operation_of(method: str) -> str:
    """The label of a call; an unknown one keeps its wire name."""
    return OPERATIONS.get(method, method)


@define
class Tallies:
    """Everything counted on one node. ``record`` takes the records of its trace (NOD-91)."""

    operations: Counter = field(factory=Counter)
    operation_errors: Counter = field(factory=Counter)
    operation_seconds: Timing = field(factory=Timing)
    sandbox_seconds: Timing = field(factory=Timing)
    sandbox_errors: Counter = field(factory=Counter)
    started_pods: Counter = field(factory=Counter)
    started_pod_errors: Counter = field(factory=Counter)
    started_containers: Counter = field(factory=Counter)
    start_errors: Counter = field(factory=Counter)
    terminated: Counter = field(factory=Counter)
    rejections: Counter = field(factory=Counter)
    preemptions: Counter = field(factory=Counter)
    topology_requests: Counter = field(factory=Counter)
    topology_errors: Counter = field(factory=Counter)
    http_requests: Counter = field(factory=Counter)
    http_in_flight: Counter = field(factory=Counter)
    pod_resources: Counter = field(factory=Counter)
    pod_resources_by_call: Counter = field(factory=Counter)
    relist_seconds: Timing = field(factory=lambda: Timing(DEFAULT_BUCKETS))
    relist_interval_seconds: Timing = field(factory=lambda: Timing(DEFAULT_BUCKETS))
    containers_per_pod: Timing = field(factory=lambda: Timing(doubling(1.0, 5)))
    pod_start_seconds: Timing = field(factory=lambda: Timing(START_BUCKETS))
    _ended: dict[tuple[str, str], str] = field(factory=dict[tuple[str, str], str])
    _first_seen: dict[str, float] = field(factory=dict[str, float])
    _last_relist: float | None = None

    def relisted(self, begun_seconds: float, ended_seconds: float) -> None:
        """Count a relist of all pods, by the times of the node's clock."""
        self.relist_seconds.observe(max(ended_seconds - begun_seconds, 0.0))
        if self._last_relist is not None:
            self.relist_interval_seconds.observe(begun_seconds - self._last_relist)
        self._last_relist = begun_seconds

    def record(self, record: Mapping[str, Any]) -> None:
        """Count what a record of the trace tells."""
        kind = record["k"]
        if kind == "pod":
            self._pod(record)
        elif kind == "decision" and record["machine"] == "admission":
            refused = record["outcome"].get("refused")
            if refused:
                self.rejections.add(_rejection(refused))
        elif kind == "decision" and record["machine"] == "topologymanager":
            self.topology_requests.add()
            if record["outcome"].get("admit") is False:
                self.topology_errors.add()

    def _pod(self, record: Mapping[str, Any]) -> None:
        uid = str(record.get("uid") or record["pod"])
        if record.get("deleted"):
            self._first_seen.pop(uid, None)
            for key in [key for key in self._ended if key[0] == uid]:
                del self._ended[key]
            return
        now = float(record["t"])
        if uid not in self._first_seen and "spec" in record:
            self.containers_per_pod.observe(len(record["spec"].get("containers") or ()))
        first = self._first_seen.setdefault(uid, now)
        if record.get("phase") == "Running" and first >= 0:
            self.pod_start_seconds.observe(now - first)
            self._first_seen[uid] = -1.0
        containers = cast("Mapping[str, Mapping[str, Any]]", record.get("containers") or {})
        for name, container in containers.items():
            key = (uid, name)
            instance = f"{container.get('id')}/{container.get('restartCount')}"
            if container.get("state") == "terminated" and self._ended.get(key) != instance:
                self._ended[key] = instance
                self.terminated.add(
                    type_label(container.get("kind")),
                    str(container.get("exitCode", 0)),
                    str(container.get("reason", "")),
                )


def type_label(kind: object) -> str:
    """The label ``container_type`` for a kind in the trace."""
    return {"init": "init_container", "ephemeral": "ephemeral_container"}.get(str(kind), "container")


_REASONS = [
    "Evicted",
    "SysctlForbidden",
    "TopologyAffinityError",
    "UnexpectedAdmissionError",
    "SMTAlignmentError",
    "InvalidNodeInfo",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "PodOSNotSupported",
    "SupplementalGroupsPolicyNotSupported",
    "OutOfcpu",
    "OutOfmemory",
    "OutOfephemeral-storage",
    "OutOfpods",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "TaintToleration",
    "AppArmor",
    "PodLevelResourcesNotSupported",
    "PodFeatureUnsupported",
    "NodeShutdown",
]


def _rejection(reason: str) -> str:
    """Unknown extended resources share one label, unknown reasons another (NOD-31)."""
    if reason in _REASONS:
        return reason
    return "OutOfExtendedResources" if reason.startswith("OutOf") else "Other"
