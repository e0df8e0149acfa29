"""What a pod worker runs: syncPod, syncTerminatingPod, syncTerminatedPod (mirrors
``pkg/kubelet/kubelet.go``).

The order of the steps is the contract (POD-601, POD-701, POD-704). In particular a status is published before
the runtime acts on it, so that effects of a sync show in the status of the next one (POD-602).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from attrs import frozen

from kubelet_emu.api.types import ObjectMeta, Pod, PodCondition, PodStatus, ResourceStatus
from kubelet_emu.bugs import REMOVED_RUNS_AGAIN
from kubelet_emu.container.runtime import (
    ContainerState,
    RunningPod,
    RuntimePodStatus,
    SyncAction,
    SyncPodResult,
)
from kubelet_emu.deadline import DEADLINE_MESSAGE, DEADLINE_REASON
from kubelet_emu.errors import PeerError
from kubelet_emu.evolving import evolve
from kubelet_emu.kuberuntime.reading import running_pod_of
from kubelet_emu.pod_update import UpdateType, is_static_pod, is_terminal_phase
from kubelet_emu.podworkers.record import SyncError, SyncOutcome, UpdatePodOptions
from kubelet_emu.reason_cache import ReasonCache
from kubelet_emu.seams import EventRecorder, Recorder, Runtime
from kubelet_emu.settings import KubeletSettings
from kubelet_emu.status.generate import FillProbes, GeneratedStatus, StatusInput, generate_status
from kubelet_emu.status.manager import StatusManager
from kubelet_emu.volumes.content import VolumeError
from kubelet_emu.volumes.manager import VolumeManager, WaitInterrupted
from kubelet_emu.volumes.plan import pod_dir
from node_host.files import Files

__all__ = ["Allocating", "PodSync", "Probing", "SyncSeams"]


class Allocating(Protocol):
    """What a sync asks of the promises of resources (NOD-70)."""

    def allocated(self, pod: Pod) -> Pod: ...
    def note_progress(self, pod: Pod, status: RuntimePodStatus) -> None: ...
    def note_result(self, pod: Pod, result: SyncPodResult) -> bool: ...
    def retry(self) -> None: ...


class Probing(Protocol):
    """What a sync asks of the prober."""

    def add_pod(self, pod: Pod) -> None: ...
    def stop_liveness_and_startup(self, pod: Pod) -> None: ...
    def remove_pod(self, pod: Pod) -> None: ...


@frozen(kw_only=True)
class SyncSeams:
    """What a sync asks of the rest of the kubelet.

    ``network_error`` is empty while the network is ready; ``deadline_exceeded`` judges a pod now;
    ``request_update`` queues another update of the same pod; ``request_relist`` has PLEG look at it.
    """

    network_error: Callable[[], str]
    deadline_exceeded: Callable[[Pod], bool]
    sync_cancelled: Callable[[str], bool]
    request_update: Callable[[UpdatePodOptions], None]
    request_relist: Callable[[str, str, str], None]
    reconcile_mirror: Callable[[Pod, Pod | None], Awaitable[None]] | None
    resize_conditions: Callable[[Pod], tuple[PodCondition, ...]]
    device_health: Callable[[Pod], Mapping[str, Sequence[ResourceStatus]]]
    take_pull_secrets: Callable[[Pod], Awaitable[None]]
    unprepare_resources: Callable[[Pod], Awaitable[None]]
    """Gives back claims; raises ``PeerError``, and the sync is tried again (DEV-156)."""


class PodSync:
    """The functions of ``podworkers.PodSyncer`` over status manager, volumes, prober and runtime."""

    def __init__(
        self,
        *,
        settings: KubeletSettings,
        files: Files,
        status: StatusManager,
        volumes: VolumeManager,
        prober: Probing,
        allocation: Allocating,
        fill_probes: FillProbes,
        runtime: Runtime,
        reasons: ReasonCache,
        events: EventRecorder,
        recorder: Recorder,
        seams: SyncSeams,
        has_api: bool,
    ) -> None:
        self._settings = settings
        self._files = files
        self._status = status
        self._volumes = volumes
        self._prober = prober
        self._allocation = allocation
        self._fill_probes = fill_probes
        self._runtime = runtime
        self._reasons = reasons
        self._events = events
        self._recorder = recorder
        self._seams = seams
        self._has_api = has_api

    async def sync_pod(
        self, update_type: UpdateType, pod: Pod, mirror_pod: Pod | None, status: RuntimePodStatus
    ) -> SyncOutcome:
        """Set the pod up, or find that it has ended (POD-601, RST-097, RST-129)."""
        del update_type  # it counts for metrics only (POD-307)
        uid, given, pod = pod.metadata.uid, pod, self._allocation.allocated(pod)
        self._allocation.note_progress(pod, status)
        generated = self._generate(pod, status, pod_is_terminal=False)
        status = evolve(status, ips=tuple(entry.ip for entry in generated.status.pod_ips if entry.ip))
        self._status.set_pod_status(pod, generated.status)
        if is_terminal_phase(generated.status.phase):
            return SyncOutcome(is_terminal=True)
        network_error = self._seams.network_error()
        if network_error and not pod.spec.host_network:
            text = f"network is not ready: {network_error}"
            self._events.event(pod, "Warning", "NetworkNotReady", text)
            return SyncOutcome(error=SyncError(text))
        if is_static_pod(pod) and self._seams.reconcile_mirror is not None:
            await self._seams.reconcile_mirror(pod, mirror_pod)
        error = self._make_dirs(pod) or await self._wait_for_volumes(pod)
        if error is not None:
            return SyncOutcome(error=error)
        await self._seams.take_pull_secrets(pod)
        self._prober.add_pod(pod)
        if self._settings.deviations.fixed(REMOVED_RUNS_AGAIN):
            pod = evolve(pod, status=generated.status)
        result = await self._runtime.sync_pod(
            pod, status, restart_all_containers=generated.restart_all_containers
        )
        self._reasons.update(uid, result)
        again = self._allocation.note_result(pod, result) and not result.error
        if generated.restart_all_containers and not result.error:
            # Phase 2 of the full restart starts without waiting for the next resync (RST-133).
            again = any(r.action is SyncAction.REMOVE_CONTAINER and not r.error for r in result.results)
        if again:
            self._seams.request_update(
                UpdatePodOptions(type=UpdateType.UPDATE, pod=given, mirror_pod=mirror_pod)
            )
        if result.error:
            return SyncOutcome(error=SyncError.of_result(result))
        if any(r.action is not SyncAction.CONFIG_POD_SANDBOX for r in result.results):
            # Recorded: a sync that did nothing asks for no relist, so the next sync of the pod waits for the
            # global one (ready-survives-kubelet-restart: a probe triggered 0.25 s and 0.42 s later).
            self._seams.request_relist(uid, pod.metadata.name, pod.metadata.namespace or "default")
        return SyncOutcome()

    async def sync_terminating_pod(
        self,
        pod: Pod,
        status: RuntimePodStatus,
        grace_override_seconds: int | None,
        status_override: Callable[[PodStatus], PodStatus] | None,
    ) -> SyncError | None:
        """Stop all containers and see to it that they have stopped (POD-701)."""
        pod = self._allocation.allocated(pod)
        generated = self._generate(pod, status, pod_is_terminal=False).status
        if status_override is not None:
            generated = status_override(generated)
        self._status.set_pod_status(pod, generated)
        self._prober.stop_liveness_and_startup(pod)
        try:
            await self._runtime.kill_pod(
                pod, running_pod_of(status), grace_override_seconds=grace_override_seconds
            )
        except PeerError as error:
            self._events.event(pod, "Warning", "FailedKillPod", f"error killing pod: {error}")
            return SyncError(f"error killing terminating pod: {error}")
        self._prober.remove_pod(pod)
        meta = pod.metadata
        fresh = await self._runtime.get_pod_status(meta.uid, meta.name, meta.namespace or "default")
        ips = tuple(entry.ip for entry in generated.pod_ips if entry.ip)
        fresh = evolve(fresh, ips=fresh.ips or ips)
        running = [c.id for c in fresh.containers if c.state is ContainerState.RUNNING]
        if running:
            listed = " ".join(running)
            return SyncError(
                f"detected running containers after a successful KillPod, CRI violation: [{listed}]"
            )
        try:
            await self._seams.unprepare_resources(pod)
        except PeerError as error:
            return SyncError(str(error))
        self._status.set_pod_status(pod, self._generate(pod, fresh, pod_is_terminal=True).status)
        return None

    async def sync_terminating_runtime_pod(self, running_pod: RunningPod) -> SyncError | None:
        """Stop a pod whose spec is not known: no hooks, no order, no status (POD-703)."""
        try:
            await self._runtime.kill_pod(None, running_pod, grace_override_seconds=1)
        except PeerError as error:
            known = ObjectMeta(name=running_pod.name, namespace=running_pod.namespace, uid=running_pod.uid)
            pod = Pod(metadata=known)
            self._events.event(pod, "Warning", "FailedKillPod", f"error killing pod: {error}")
            return SyncError(f"error killing runtime pod: {error}")
        return None

    async def sync_terminated_pod(self, pod: Pod, status: RuntimePodStatus) -> SyncError | None:
        """Take away what the pod had on the node, then let its status go out as final (POD-704)."""
        pod = self._allocation.allocated(pod)
        self._allocation.retry()
        self._status.set_pod_status(pod, self._generate(pod, status, pod_is_terminal=True).status)
        await self._volumes.wait_for_unmount(pod)
        self._status.terminate_pod(pod)
        return None

    def _make_dirs(self, pod: Pod) -> SyncError | None:
        try:
            for part in ("", "/volumes", "/plugins"):
                self._files.make_dirs(pod_dir(self._settings.root_dir, pod.metadata.uid) + part, mode=0o750)
        except OSError as error:
            text = f"error making pod data directories: {error}"
            self._events.event(pod, "Warning", "Failed", text)
            return SyncError(text)
        return None

    async def _wait_for_volumes(self, pod: Pod) -> SyncError | None:
        uid = pod.metadata.uid
        try:
            await self._volumes.wait_for_mount(pod, interrupted=lambda: self._seams.sync_cancelled(uid))
        except WaitInterrupted as error:
            return SyncError(str(error), cancelled=self._seams.sync_cancelled(uid))
        except VolumeError as error:
            self._events.event(pod, "Warning", "FailedMount", f"Unable to attach or mount volumes: {error}")
            return SyncError(str(error))
        return None

    def _generate(self, pod: Pod, status: RuntimePodStatus, *, pod_is_terminal: bool) -> GeneratedStatus:
        """One generation of the pod's status, with the decision behind it in the trace (STA-101)."""
        exceeded = self._seams.deadline_exceeded(pod)
        if exceeded:
            self._events.event(pod, "Normal", DEADLINE_REASON, DEADLINE_MESSAGE)
        old = self._status.get_pod_status(pod.metadata.uid)
        generated = generate_status(
            StatusInput(
                pod=pod,
                runtime=status,
                gates=self._settings.gates,
                deviations=self._settings.deviations,
                old=old,
                pod_is_terminal=pod_is_terminal,
                reason_cache=self._reasons.get,
                fill_probes=self._fill_probes,
                deadline_exceeded=exceeded,
                host_ips=self._settings.node_ips if self._has_api else (),
                node_ips=self._settings.node_ips,
                resize_conditions=self._seams.resize_conditions(pod),
                device_health=self._seams.device_health(pod),
            )
        )
        self._recorder.decision(
            "status.generate",
            pod.metadata.name,
            generated.why,
            inputs=_status_inputs(status, old, pod_is_terminal=pod_is_terminal),
            outcome={
                "phase": generated.status.phase,
                "restartAllContainers": generated.restart_all_containers,
            },
        )
        return generated


def _status_inputs(
    status: RuntimePodStatus, old: PodStatus | None, *, pod_is_terminal: bool
) -> dict[str, object]:
    inputs: dict[str, object] = {
        "containers": {
            f"{c.name}#{c.restart_count}": (
                f"exited {c.exit_code}" if c.state is ContainerState.EXITED else str(c.state)
            )
            for c in reversed(status.containers)
        },
        "sandboxes": [str(s.state) for s in status.sandboxes],
        "oldPhase": old.phase if old is not None else None,
    }
    if pod_is_terminal:
        inputs["podIsTerminal"] = True
    return inputs
