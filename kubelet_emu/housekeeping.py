"""Housekeeping: runs one pass after the other over workers, pod manager and runtime.

Mirrors HandlePodCleanups of ``pkg/kubelet/kubelet_pods.go`` (POD-1001). ``kubelet_emu.cleanup`` decides; here
the plan is carried out. Housekeeping belongs to the sync loop: no config event is handled while a pass runs.
"""

from collections.abc import Awaitable, Callable, Sequence

from attrs import frozen

from kubelet_emu.api.types import Pod
from kubelet_emu.cleanup import (
    CleanUpBackoff,
    CleanupInput,
    CleanUpPodDirs,
    CleanUpProbes,
    DeleteMirror,
    Effect,
    RemoveOrphanedStatuses,
    UpdateWorker,
    active_pods,
    plan_cleanup,
)
from kubelet_emu.errors import PeerError
from kubelet_emu.pod_manager import PodManager
from kubelet_emu.podworkers.workers import PodWorkers
from kubelet_emu.seams import PodStatusSource, Recorder, Runtime

__all__ = ["Housekeeper", "HousekeepingSeams", "active_pods"]


@frozen(kw_only=True)
class HousekeepingSeams:
    """What a pass asks of parts that it does not know. ``keep`` are UIDs of pods that still count."""

    cleanup_probes: Callable[[Sequence[str]], None]
    remove_orphaned_statuses: Callable[[Sequence[str]], None]
    cleanup_pod_dirs: Callable[[Sequence[str]], None]
    delete_mirror: Callable[[str], Awaitable[None]]
    collect_backoff: Callable[[], None]


class Housekeeper:
    """Runs passes. The caller skips them while not all sources are ready (POD-219)."""

    def __init__(
        self,
        *,
        pods: PodManager,
        workers: PodWorkers,
        runtime: Runtime,
        statuses: PodStatusSource,
        seams: HousekeepingSeams,
        recorder: Recorder,
    ) -> None:
        self._pods = pods
        self._workers = workers
        self._runtime = runtime
        self._statuses = statuses
        self._seams = seams
        self._recorder = recorder

    def active_pods(self) -> tuple[Pod, ...]:
        """The basis of admission (POD-308)."""
        return active_pods(
            self._pods.pods(),
            known_terminated=self._workers.is_known_terminated,
            termination_requested=self._workers.termination_requested,
            status_phase=self._status_phase,
        )

    async def run_pass(self) -> bool:
        """One pass; False if it ended early because the runtime could not be listed."""
        configured = self._pods.pods_and_mirrors()
        known = self._workers.sync_known_pods(configured.pods)
        try:
            running = await self._runtime.get_pods(include_exited=False)
        except PeerError as error:
            self._recorder.fact("housekeeping", problem=f"error listing running pods: {error}")
            return False
        plan = plan_cleanup(
            CleanupInput(
                pods=configured.pods,
                mirrors=configured.mirrors,
                orphaned_mirror_names=configured.orphaned_mirror_names,
                known=known,
                running=running,
                known_terminated=self._workers.is_known_terminated,
                termination_requested=self._workers.termination_requested,
                status_phase=self._status_phase,
                mirror_terminating=self._workers.is_pod_for_mirror_terminating,
                mirror_of=lambda pod: self._pods.pair(pod).mirror,
            )
        )
        for effect in plan.effects:
            await self._perform(effect)
        return True

    def _status_phase(self, uid: str) -> str | None:
        status = self._statuses.get_pod_status(uid)
        return status.phase if status is not None else None

    async def _perform(self, effect: Effect) -> None:
        seams = self._seams
        if isinstance(effect, UpdateWorker):
            self._workers.update_pod(effect.options)
        elif isinstance(effect, CleanUpProbes):
            seams.cleanup_probes(effect.keep_uids)
        elif isinstance(effect, RemoveOrphanedStatuses):
            seams.remove_orphaned_statuses(effect.keep_uids)
        elif isinstance(effect, CleanUpPodDirs):
            seams.cleanup_pod_dirs(effect.keep_uids)
        elif isinstance(effect, DeleteMirror):
            await seams.delete_mirror(effect.full_name)
        else:
            assert isinstance(effect, CleanUpBackoff)
            seams.collect_backoff()
