"""One pass of housekeeping as a list of things to do (pure).

Mirrors HandlePodCleanups of ``pkg/kubelet/kubelet_pods.go`` (POD-308, POD-409, POD-804, POD-1001, POD-1002,
POD-1205). The kubelet first gives the pods of the pod manager to ``PodWorkers.sync_known_pods``, then reads
the running pods from the runtime (a failure ends the pass), then asks ``plan_cleanup`` and does what it
says, in order.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from attrs import frozen

from kubelet_emu.api.types import Pod
from kubelet_emu.container.runtime import RunningPod
from kubelet_emu.pod_update import UpdateType, is_mirror_pod, is_terminal_phase, phase_of, uid_of
from kubelet_emu.podworkers.record import KillOptions, KnownWorker, UpdatePodOptions, WorkState
from kubelet_emu.why import Why

__all__ = [
    "CleanUpBackoff",
    "CleanUpPodDirs",
    "CleanUpProbes",
    "CleanupInput",
    "CleanupPlan",
    "DeleteMirror",
    "Effect",
    "RemoveOrphanedStatuses",
    "UpdateWorker",
    "active_pods",
    "plan_cleanup",
]


@frozen
class CleanUpProbes:
    """Stop the probes of all pods but these (pods that sync or terminate)."""

    keep_uids: tuple[str, ...]


@frozen
class RemoveOrphanedStatuses:
    """Drop statuses and allocations of all pods but these; mirror UIDs are among them."""

    keep_uids: tuple[str, ...]


@frozen
class CleanUpPodDirs:
    """Remove directories of pods that are neither configured nor running (POD-1003)."""

    keep_uids: tuple[str, ...]


@frozen
class DeleteMirror:
    """Delete the mirror pod of that full name: no static pod has it (POD-804)."""

    full_name: str


@frozen
class UpdateWorker:
    """Pass the options to ``PodWorkers.update_pod``."""

    options: UpdatePodOptions
    why: Why


@frozen
class CleanUpBackoff:
    """Forget crash-loop back-off that has expired."""


Effect = (
    CleanUpProbes | RemoveOrphanedStatuses | CleanUpPodDirs | DeleteMirror | UpdateWorker | CleanUpBackoff
)


@frozen(kw_only=True)
class CleanupInput:
    """What a pass looks at. ``known`` is the result of SyncKnownPods; the functions answer for that moment.

    ``running`` holds the runtime's pods with a READY sandbox or a running container (POD-919). ``mirror_of``
    gives the mirror pod of a static pod.
    """

    pods: Sequence[Pod]
    mirrors: Sequence[Pod]
    orphaned_mirror_names: Sequence[str]
    known: Mapping[str, KnownWorker]
    running: Sequence[RunningPod]
    known_terminated: Callable[[str], bool]
    termination_requested: Callable[[str], bool]
    status_phase: Callable[[str], str | None]
    mirror_terminating: Callable[[str], bool]
    mirror_of: Callable[[Pod], Pod | None]


@frozen
class CleanupPlan:
    """What to do, in order, and why."""

    effects: tuple[Effect, ...]
    why: tuple[Why, ...]


def active_pods(
    pods: Sequence[Pod],
    *,
    known_terminated: Callable[[str], bool],
    termination_requested: Callable[[str], bool],
    status_phase: Callable[[str], str | None],
) -> tuple[Pod, ...]:
    """Pods that use or may use the node: the basis of admission (POD-308).

    ``status_phase`` is the phase in the status manager. A terminal pod that still terminates is active.
    """

    def active(pod: Pod) -> bool:
        uid = uid_of(pod)
        if known_terminated(uid):
            return False
        terminal = is_terminal_phase(phase_of(pod)) or is_terminal_phase(status_phase(uid))
        return not terminal or termination_requested(uid)

    return tuple(pod for pod in pods if active(pod))


def plan_cleanup(given: CleanupInput) -> CleanupPlan:
    """Decide one pass (POD-1001)."""
    syncing_or_terminating = tuple(
        uid for uid, worker in given.known.items() if worker.state is not WorkState.TERMINATED
    )
    pod_uids = tuple(uid_of(pod) for pod in given.pods)
    mirror_uids = tuple(uid_of(mirror) for mirror in given.mirrors)
    running_uids = tuple(pod.uid for pod in given.running)
    updates = _worker_updates(given)
    effects: tuple[Effect, ...] = (
        CleanUpProbes(syncing_or_terminating),
        RemoveOrphanedStatuses((*pod_uids, *mirror_uids)),
        CleanUpPodDirs(tuple(dict.fromkeys((*pod_uids, *running_uids)))),
        *_orphaned_mirrors(given),
        *updates,
        CleanUpBackoff(),
    )
    return CleanupPlan(effects, (Why("POD-1001"), *(update.why for update in updates)))


def _orphaned_mirrors(given: CleanupInput) -> tuple[DeleteMirror, ...]:
    names = given.orphaned_mirror_names
    return tuple(DeleteMirror(name) for name in names if not given.mirror_terminating(name))


def _worker_updates(given: CleanupInput) -> tuple[UpdateWorker, ...]:
    """Creates of active pods without a worker, then kills of ended ones, then of runtime orphans.

    A pod that one step gives to a worker is known to the steps after it.
    """
    known = set(given.known)
    updates = [
        UpdateWorker(
            UpdatePodOptions(type=UpdateType.CREATE, pod=pod, mirror_pod=given.mirror_of(pod)),
            Why("POD-1002", pod.metadata.name),
        )
        for pod in active_pods(
            given.pods,
            known_terminated=given.known_terminated,
            termination_requested=given.termination_requested,
            status_phase=given.status_phase,
        )
        if uid_of(pod) not in known and not is_mirror_pod(pod)
    ]
    known.update(uid_of(update.options.pod) for update in updates if update.options.pod is not None)
    running = {pod.uid for pod in given.running}
    updates += [
        UpdateWorker(UpdatePodOptions(type=UpdateType.KILL, pod=pod), Why("POD-409", pod.metadata.name))
        for pod in given.pods
        if _is_ended_and_deleted(pod, known, running)
    ]
    updates += [_kill_orphan(pod) for pod in given.running if pod.uid not in known]
    return tuple(updates)


def _is_ended_and_deleted(pod: Pod, known: Collection[str], running: Collection[str]) -> bool:
    """A pod that was rejected, or ended before a restart of the kubelet, and is now to go (POD-409)."""
    uid = uid_of(pod)
    return (
        pod.metadata.deletion_timestamp is not None
        and is_terminal_phase(phase_of(pod))
        and uid not in known
        and uid not in running
    )


def _kill_orphan(pod: RunningPod) -> UpdateWorker:
    kill = KillOptions(grace_override_seconds=1)
    return UpdateWorker(
        UpdatePodOptions(type=UpdateType.KILL, running_pod=pod, kill_options=kill), Why("POD-1205", pod.name)
    )
