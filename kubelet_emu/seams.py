"""The seams between the kubelet's parts: what each part asks of the others, and nothing more.

A part receives the others through these protocols, so each can be tested alone with a small fake of its own.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal, Protocol

from attrs import frozen

from kubelet_emu.api.types import Pod, PodStatus
from kubelet_emu.container.runtime import RunningPod, RuntimePodStatus, SyncPodResult
from kubelet_emu.why import Why

__all__ = [
    "EventRecorder",
    "EventType",
    "ProbeKind",
    "ProbeOutcome",
    "ProbeUpdate",
    "ProbeView",
    "Recorder",
    "Runtime",
]

EventType = Literal["Normal", "Warning"]


class Recorder(Protocol):
    """Where decisions and other facts go: the trace of the run. Never blocks, never fails."""

    def decision(
        self,
        machine: str,
        pod: str,
        why: Sequence[Why],
        *,
        inputs: Mapping[str, object],
        outcome: Mapping[str, object],
    ) -> None:
        """One decision: the machine that took it (``kuberuntime.actions``), the pod's name, the rules,
        both sides.

        ``inputs`` and ``outcome`` hold plain JSON values only.
        """
        ...

    def fact(self, kind: str, **fields: object) -> None:
        """One record of another kind (``probe``, ``backoff``, ``worker`` …); plain JSON values only."""
        ...


class EventRecorder(Protocol):
    """Emits Kubernetes events about a pod (EVT-). Never blocks; what it drops it counts."""

    def event(
        self, pod: Pod, event_type: EventType, reason: str, message: str, *, field_path: str = ""
    ) -> None:
        """``field_path`` is empty for the pod itself, else such as ``spec.initContainers{setup}``."""
        ...


class ProbeKind(StrEnum):
    LIVENESS = "liveness"
    READINESS = "readiness"
    STARTUP = "startup"


class ProbeOutcome(StrEnum):
    """A result in a results cache; "no result yet" is None, never one of these."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


@frozen
class ProbeUpdate:
    """A cached result that has changed (PRB-)."""

    kind: ProbeKind
    container_id: str
    outcome: ProbeOutcome
    pod_uid: str


class ProbeView(Protocol):
    """Read access to the results caches, by container id."""

    def result(self, kind: ProbeKind, container_id: str) -> ProbeOutcome | None: ...


class Runtime(Protocol):
    """What the kubelet asks of its runtime manager (``pkg/kubelet/container`` Runtime interface).

    Implemented by ``kubelet_emu.kuberuntime.manager``. Every call may raise ``PeerError``.
    """

    async def get_pods(self, *, include_exited: bool) -> tuple[RunningPod, ...]:
        """All pods the runtime lists, from one ListPodSandbox and one ListContainers, sorted by uid."""
        ...

    async def get_pod_status(self, uid: str, name: str, namespace: str) -> RuntimePodStatus:
        """Everything about one pod, freshly read (POD-917)."""
        ...

    async def sync_pod(
        self, pod: Pod, status: RuntimePodStatus, *, restart_all_containers: bool
    ) -> SyncPodResult:
        """One pass of the runtime step (RST section 5). Never raises for a failed action; the result
        tells.
        """
        ...

    async def kill_pod(
        self, pod: Pod | None, running: RunningPod, *, grace_override_seconds: int | None
    ) -> None:
        """Stop all running containers, then all sandboxes (POD-711). ``pod`` is None for a runtime orphan."""
        ...

    async def delete_container(self, container_id: str) -> None:
        """Remove one exited instance with its logs (RST-095)."""
        ...

    async def garbage_collect(self, *, all_sources_ready: bool) -> None:
        """One pass of container, sandbox and log GC (POD-1005 to POD-1009)."""
        ...


class PodStatusSource(Protocol):
    """Read access to the status manager's cache."""

    def get_pod_status(self, uid: str) -> PodStatus | None: ...
