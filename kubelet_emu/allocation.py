"""What pods were promised of CPU and memory, and the resizes that wait for more (NOD-70 to NOD-72).

Mirrors ``pkg/kubelet/allocation/allocation_manager.go``. A pod runs with what it was promised, not with what
its object says: the difference is a resize, granted at once, later, or never. ``allocation_rules`` decides.
"""

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from attrs import evolve

from kubelet_emu.allocation_rules import (
    INFEASIBLE,
    judge_resize,
    resize_differs,
    resize_in_progress,
    resize_order,
    resize_summary,
    with_resources,
)
from kubelet_emu.api.codec import from_json, to_json
from kubelet_emu.api.types import Node, Pod, ResourceRequirements
from kubelet_emu.container.runtime import RuntimePodStatus, SyncAction, SyncPodResult
from kubelet_emu.kuberuntime.actions import ActuatedView
from kubelet_emu.pod_update import uid_of
from kubelet_emu.seams import EventRecorder
from node_host.files import Files

__all__ = ["Allocations", "ResizeStatuses", "ResourceRecords"]

RETRY_FIRST_SECONDS = 30.0
RETRY_SECONDS = 180.0


class ResizeStatuses(Protocol):
    """The resize conditions of the status manager."""

    def set_pod_resize_pending(
        self, uid: str, *, reason: str, message: str, generation: int | None
    ) -> bool: ...
    def set_pod_resize_in_progress(
        self, uid: str, *, reason: str, message: str, generation: int | None
    ) -> bool: ...
    def clear_pod_resize_pending(self, uid: str) -> bool: ...
    def clear_pod_resize_in_progress(self, uid: str) -> bool: ...


class ResourceRecords:
    """Resources by pod and container, kept in one file so that a new kubelet finds them (POD-1202).

    Implements ``kuberuntime.seams.ActuatedResources``. A file that cannot be read counts as empty.
    """

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._pods: dict[str, ActuatedView] = {}
        self._texts: dict[str, str] = {}
        self._load()

    def view(self, pod_uid: str) -> ActuatedView:
        return self._pods.get(pod_uid) or ActuatedView()

    def __contains__(self, pod_uid: object) -> bool:
        return pod_uid in self._pods

    def set_container(self, pod_uid: str, name: str, resources: ResourceRequirements) -> None:
        known = self.view(pod_uid)
        if known.containers.get(name) != resources or pod_uid not in self._pods:
            self._set(pod_uid, evolve(known, containers={**known.containers, name: resources}))

    def set_pod_level(self, pod_uid: str, resources: ResourceRequirements) -> None:
        known = self.view(pod_uid)
        if known.pod_level != resources:
            self._set(pod_uid, evolve(known, pod_level=resources))

    def set_pod(self, pod: Pod) -> None:
        """Take all resources over from a pod as it stands."""
        containers = {c.name: c.resources for c in (*pod.spec.init_containers, *pod.spec.containers)}
        self._set(uid_of(pod), ActuatedView(containers=containers, pod_level=pod.spec.resources))

    def forget(self, pod_uid: str) -> None:
        if self._pods.pop(pod_uid, None) is not None:
            del self._texts[pod_uid]
            self._save()

    def keep(self, uids: Collection[str]) -> None:
        """Forget all pods but these."""
        for uid in [uid for uid in self._pods if uid not in uids]:
            self.forget(uid)

    def _set(self, uid: str, view: ActuatedView) -> None:
        self._pods[uid] = view
        entry: dict[str, Any] = {
            "ContainerResources": {name: to_json(given) for name, given in view.containers.items()}
        }
        if view.pod_level is not None:
            entry["PodLevelResources"] = to_json(view.pod_level)
        self._texts[uid] = json.dumps(entry, separators=(",", ":"), sort_keys=True)
        self._save()

    def _save(self) -> None:
        folder = self._path.rpartition("/")[0]
        if not self._files.exists(folder):
            self._files.make_dirs(folder)
        listed = ",".join(f'"{uid}":{self._texts[uid]}' for uid in sorted(self._texts))
        self._files.write(self._path, f'{{"entries":{{{listed}}}}}'.encode(), mode=0o600)

    def _load(self) -> None:
        if not self._files.exists(self._path):
            return
        try:
            entries: dict[str, Any] = json.loads(self._files.read(self._path))["entries"]
            for uid, entry in entries.items():
                given = entry["ContainerResources"].items()
                level = entry.get("PodLevelResources")
                self._pods[uid] = ActuatedView(
                    containers={name: from_json(ResourceRequirements, each) for name, each in given},
                    pod_level=from_json(ResourceRequirements, level) if level is not None else None,
                )
                self._texts[uid] = json.dumps(entry, separators=(",", ":"), sort_keys=True)
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            self._pods.clear()
            self._texts.clear()


class Allocations:
    """The promises of one node.

    ``active`` are the active pods, ``sync`` has a pod's worker look at it, ``refused`` says what the resource
    managers have against a pod that is to be resized (DEV-095).
    """

    def __init__(
        self,
        *,
        promised: ResourceRecords,
        actuated: ResourceRecords,
        statuses: ResizeStatuses,
        events: EventRecorder,
        node: Callable[[], Node],
        active: Callable[[], Collection[Pod]],
        sync: Callable[[Pod], None],
        refused: Callable[[Pod], str] = lambda pod: "",
    ) -> None:
        self._promised = promised
        self._actuated = actuated
        self._statuses = statuses
        self._events = events
        self._node = node
        self._active = active
        self._sync = sync
        self._refused = refused
        self._pending: dict[str, tuple[Pod, int]] = {}
        self._arrivals = 0
        self._retry_at_seconds = RETRY_FIRST_SECONDS

    def allocated(self, pod: Pod) -> Pod:
        """The pod as it is to run."""
        return with_resources(pod, self._promised.view(uid_of(pod)))

    def active(self) -> tuple[Pod, ...]:
        """The active pods with what they were promised, as admission counts them (POD-401)."""
        return tuple(self.allocated(pod) for pod in self._active())

    def admitted(self, pod: Pod) -> None:
        """Promise a new pod what it asks for; one that was promised something before may now want more."""
        if uid_of(pod) not in self._promised:
            self._promised.set_pod(pod)
        else:
            self.updated(pod)

    def updated(self, pod: Pod) -> None:
        """Take a changed pod in, and try every resize that waits (NOD-71)."""
        uid = uid_of(pod)
        if uid in self._promised and resize_differs(pod, self._promised.view(uid)):
            if uid not in self._pending:
                self._arrivals += 1
            self._pending[uid] = (pod, self._pending.get(uid, (pod, self._arrivals))[1])
        elif self._pending.pop(uid, None) is not None:
            self._statuses.clear_pod_resize_pending(uid)
        self.retry()

    def removed(self, uid: str) -> None:
        """A pod is gone from the configuration; what it held may serve another."""
        self._pending.pop(uid, None)
        self._promised.forget(uid)
        self.retry()

    def keep(self, uids: Collection[str]) -> None:
        """Forget all pods but these."""
        self._promised.keep(uids)
        self._actuated.keep(uids)

    def retry_when_due(self, now_seconds: float) -> None:
        """The periodic try: after 30 s, then every three minutes."""
        if now_seconds >= self._retry_at_seconds:
            self._retry_at_seconds = now_seconds + RETRY_SECONDS
            self.retry()

    def retry(self) -> None:
        """Try all resizes that wait, in their order."""
        waiting = [(pod, self._promised.view(uid), since) for uid, (pod, since) in self._pending.items()]
        for pod in resize_order(waiting):
            self._try(pod)

    def _try(self, pod: Pod) -> None:
        uid = uid_of(pod)
        others: Sequence[Pod] = [other for other in self.active() if uid_of(other) != uid]
        answer = judge_resize(pod, others, self._node(), refused=self._refused(pod))
        if answer.reason:
            changed = self._statuses.set_pod_resize_pending(
                uid, reason=answer.reason, message=answer.message, generation=pod.metadata.generation
            )
            if changed:
                text = resize_summary(pod, error=answer.message)
                event = "ResizeInfeasible" if answer.reason == INFEASIBLE else "ResizeDeferred"
                self._events.event(pod, "Warning", event, f"Pod resize {answer.reason}: {text}")
                self._sync(pod)
            return
        del self._pending[uid]
        self._promised.set_pod(pod)
        self._statuses.clear_pod_resize_pending(uid)
        self._sync(pod)

    def note_progress(self, pod: Pod, status: RuntimePodStatus) -> None:
        """At the start of a sync of an allocated pod: is a resize under way (POD-601)?"""
        uid = uid_of(pod)
        if resize_in_progress(pod, status, self._actuated.view(uid)):
            begun = self._statuses.set_pod_resize_in_progress(
                uid, reason="", message="", generation=pod.metadata.generation
            )
            if begun:
                text = f"Pod resize started: {resize_summary(pod)}"
                self._events.event(pod, "Normal", "ResizeStarted", text)
        elif self._statuses.clear_pod_resize_in_progress(uid):
            self._events.event(
                pod, "Normal", "ResizeCompleted", f"Pod resize completed: {resize_summary(pod)}"
            )

    def note_result(self, pod: Pod, result: SyncPodResult) -> bool:
        """After the runtime's part of a sync; true if a resize was carried out."""
        done = False
        for outcome in result.results:
            if outcome.action is not SyncAction.RESIZE_POD_IN_PLACE:
                continue
            done = not outcome.error
            if done:
                continue
            changed = self._statuses.set_pod_resize_in_progress(
                uid_of(pod), reason="Error", message=outcome.message, generation=pod.metadata.generation
            )
            if changed:
                text = f"Pod resize error: {resize_summary(pod, error=outcome.message)}"
                self._events.event(pod, "Warning", "ResizeError", text)
        return done
