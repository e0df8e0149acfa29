"""The status manager: cache of statuses and their way into the API.

Mirrors ``pkg/kubelet/status/status_manager.go``.
One task writes (:meth:`StatusManager.run`). Every accepted update leaves a signal in a slot of one; the task
then writes all pods whose sent version is behind, and every ten seconds it also looks for pods that may be
deleted and for statuses that somebody else has changed (STA-701). All decisions are in the pure modules
beside this one.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import trio
from attrs import frozen

from kubelet_emu.api.codec import status_to_json
from kubelet_emu.api.decoded import DecodedPods
from kubelet_emu.api.types import Pod, PodCondition, PodStatus
from kubelet_emu.errors import PeerError
from kubelet_emu.evolving import evolve
from kubelet_emu.gates import Gates
from kubelet_emu.seams import Recorder
from kubelet_emu.status import constants as k
from kubelet_emu.status import resize
from kubelet_emu.status.merge import merge_status
from kubelet_emu.status.normalize import equal_by_kubelet, normalize_status
from kubelet_emu.status.patch import is_empty_patch, status_patch
from kubelet_emu.status.pods import is_static_pod
from kubelet_emu.status.transitions import terminate_status
from kubelet_emu.status.update import (
    Stored,
    accept_update,
    can_be_deleted,
    with_container_readiness,
    with_container_startup,
    with_sandbox_ready,
)
from kubelet_emu.why import Why
from node_host.clock import NodeClock

__all__ = ["PodLookup", "StatusApi", "StatusManager"]


class StatusApi(Protocol):
    """The three calls that the status manager makes to the API. Each may raise ``PeerError``."""

    async def get_pod(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """The pod as JSON, None if there is none."""
        ...

    async def patch_pod_status(
        self, namespace: str, name: str, uid: str, patch: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Strategic merge patch of the status subresource, ``uid`` a precondition. Gives the new pod."""
        ...

    async def delete_pod(self, namespace: str, name: str, uid: str, grace_seconds: int) -> None:
        """Delete the pod with that grace; ``uid`` is a precondition. A pod that is gone is no error."""
        ...


class PodLookup(Protocol):
    """What the status manager asks of the pod manager (POD section 8)."""

    def pod_by_uid(self, uid: str) -> Pod | None:
        """The pod of that uid as its source last gave it; mirror pods are not found."""
        ...

    def mirror_pod_of(self, pod: Pod) -> Pod | None:
        """The mirror pod of a static pod, None if it has none or the pod is no static pod."""
        ...

    def translate_uid(self, uid: str) -> str:
        """The static pod's uid for a mirror pod's uid, else the uid itself."""
        ...


@frozen
class _Sync:
    """One pod that a batch will write: the uid in the cache, the uid in the API, the entry."""

    uid: str
    api_uid: str
    stored: Stored


class StatusManager:
    """Cache and writer of pod statuses. ``api`` is None for a kubelet without an API server (STA-609)."""

    def __init__(
        self,
        *,
        clock: NodeClock,
        api: StatusApi | None,
        pods: PodLookup,
        could_have_running_containers: Callable[[str], bool],
        recorder: Recorder,
        gates: Gates,
        decoded: DecodedPods | None = None,
    ) -> None:
        self._clock = clock
        self._decoded = decoded or DecodedPods()
        self._api = api
        self._pods = pods
        self._could_have_running_containers = could_have_running_containers
        self._recorder = recorder
        self._gates = gates
        self._stored: dict[str, Stored] = {}
        self._sent: dict[str, int] = {}
        self._resize: dict[str, resize.ResizeConditions] = {}
        self._signal = trio.Event()

    # Reading the cache

    def get_pod_status(self, uid: str) -> PodStatus | None:
        """The cached status; a mirror pod's uid is translated first (STA-610)."""
        stored = self._stored.get(self._pods.translate_uid(uid))
        return stored.status if stored is not None else None

    def is_finished(self, uid: str) -> bool:
        """Whether the terminated step of that pod has completed (STA-607)."""
        stored = self._stored.get(uid)
        return stored is not None and stored.finished

    # Changing it

    def set_pod_status(self, pod: Pod, status: PodStatus) -> None:
        """Store a status made by a sync; forced while the pod is being deleted (STA-605, STA-516)."""
        generation = pod.metadata.generation
        if generation is not None:
            status = evolve(status, observed_generation=generation)
        self._update(pod, status, forced=pod.metadata.deletion_timestamp is not None)

    def set_container_readiness(self, pod_uid: str, container_id: str, ready: bool) -> None:
        """Store one container's readiness with the conditions that follow from it (STA-406,
        STA-1222).
        """
        pod, stored = self._pods.pod_by_uid(pod_uid), self._stored.get(pod_uid)
        if pod is None or stored is None:
            return
        status = with_container_readiness(pod, stored.status, container_id, ready)
        if status is not None:
            self._update(pod, status)

    def set_container_startup(self, pod_uid: str, container_id: str, started: bool) -> None:
        """Store one container's ``started`` (STA-406)."""
        pod, stored = self._pods.pod_by_uid(pod_uid), self._stored.get(pod_uid)
        if pod is None or stored is None:
            return
        status = with_container_startup(stored.status, container_id, started)
        if status is not None:
            self._update(pod, status)

    def set_pod_ready_to_start_containers(self, pod: Pod) -> None:
        """Note that a sandbox has come up, before its containers are started (STA-105)."""
        self.set_pod_status(pod, with_sandbox_ready(pod, self._status_of(pod)))

    def terminate_pod(self, pod: Pod) -> None:
        """Give every container an end and the pod a terminal phase, and mark it finished (STA-607)."""
        status, why = terminate_status(pod, self._status_of(pod))
        self._recorder.decision(
            "status.terminate",
            pod.metadata.name,
            why,
            inputs={"phase": self._status_of(pod).phase},
            outcome={"phase": status.phase},
        )
        self._update(pod, status, forced=True, finished=True)

    def remove_orphaned_statuses(self, pod_uids: Collection[str]) -> None:
        """Drop the statuses of all pods but these; mirror uids count for their static pods (STA-610)."""
        known = {self._pods.translate_uid(uid) for uid in pod_uids}
        for uid in [uid for uid in self._stored if uid not in known]:
            self._forget(uid)

    def _forget(self, uid: str) -> None:
        self._stored.pop(uid, None)
        self._resize.pop(uid, None)

    def _status_of(self, pod: Pod) -> PodStatus:
        stored = self._stored.get(pod.metadata.uid)
        return stored.status if stored is not None else pod.status

    def _update(self, pod: Pod, status: PodStatus, *, forced: bool = False, finished: bool = False) -> None:
        uid = pod.metadata.uid
        update = accept_update(
            pod,
            status,
            cached=self._stored.get(uid),
            mirror=self._pods.mirror_pod_of(pod),
            forced=forced,
            finished=finished,
            now_ns=self._clock.now_ns(),
            gates=self._gates,
        )
        outcome: dict[str, object] = {"stored": update.stored is not None}
        if update.problem:
            outcome["problem"] = update.problem
        if update.stored is not None:
            outcome["version"] = update.stored.version
            outcome["phase"] = update.stored.status.phase
        self._recorder.decision(
            "status.update",
            pod.metadata.name,
            update.why,
            inputs={"forced": forced, "finished": finished},
            outcome=outcome,
        )
        if update.stored is None:
            return
        self._stored[uid] = update.stored
        # A slot of one: a signal that is pending already starts a batch that sees this update too.
        self._signal.set()

    # Resize conditions

    def get_pod_resize_conditions(self, uid: str) -> tuple[PodCondition, ...]:
        """The pod's resize conditions as they go into its status (STA-501)."""
        return self._resize.get(uid, resize.ResizeConditions()).listed

    def set_pod_resize_pending(self, uid: str, *, reason: str, message: str, generation: int | None) -> bool:
        """Set PodResizePending; true if it appeared or its reason changed (STA-512)."""
        return self._set_resize(uid, resize.set_pending, reason, message, generation)

    def set_pod_resize_in_progress(
        self, uid: str, *, reason: str, message: str, generation: int | None
    ) -> bool:
        """Set PodResizeInProgress; true if it appeared or its reason changed (STA-513)."""
        return self._set_resize(uid, resize.set_in_progress, reason, message, generation)

    def clear_pod_resize_pending(self, uid: str) -> bool:
        """Remove PodResizePending; true if it was there."""
        before = self._resize.get(uid, resize.ResizeConditions())
        self._resize[uid] = resize.ResizeConditions(None, before.in_progress)
        return before.pending is not None

    def clear_pod_resize_in_progress(self, uid: str) -> bool:
        """Remove PodResizeInProgress; true if it was there."""
        before = self._resize.get(uid, resize.ResizeConditions())
        self._resize[uid] = resize.ResizeConditions(before.pending, None)
        return before.in_progress is not None

    def backfill_pod_resize_conditions(self, pods: Sequence[Pod]) -> None:
        """Take the resize conditions of the API back after a restart of the kubelet (POD-1202)."""
        for pod in pods:
            self._resize.setdefault(pod.metadata.uid, resize.from_api(pod.status.conditions))

    def _set_resize(
        self,
        uid: str,
        change: "_ResizeChange",
        reason: str,
        message: str,
        generation: int | None,
    ) -> bool:
        before = self._resize.get(uid, resize.ResizeConditions())
        self._resize[uid], changed = change(
            before, reason=reason, message=message, generation=generation, now_ns=self._clock.now_ns()
        )
        return changed

    # Writing to the API

    async def run(self) -> None:
        """Write statuses until cancelled; returns at once without an API client (STA-609)."""
        if self._api is None:
            return
        next_full = self._clock.elapsed_seconds() + k.FULL_BATCH_PERIOD_SECONDS
        while True:
            full = True
            with trio.move_on_after(max(0.0, next_full - self._clock.elapsed_seconds())):
                await self._signal.wait()
                self._signal = trio.Event()
                full = False
            if full:
                next_full += k.FULL_BATCH_PERIOD_SECONDS
            await self.sync_batch(full=full)

    async def sync_batch(self, *, full: bool) -> int:
        """Write what needs writing; gives the number of pods looked up in the API (STA-701)."""
        if self._api is None:
            return 0
        batch = self._batch(full=full)
        for entry in batch:
            await self._sync_pod(self._api, entry)
        return len(batch)

    def _batch(self, *, full: bool) -> list[_Sync]:
        if full:
            for uid in [uid for uid in self._sent if self._pods.translate_uid(uid) not in self._stored]:
                del self._sent[uid]
        batch: list[_Sync] = []
        for uid, stored in self._stored.items():
            api_uid = self._api_uid(uid)
            if api_uid is None:
                continue
            if self._sent.get(api_uid, 0) < stored.version or (full and self._may_delete(uid, stored)):
                batch.append(_Sync(uid, api_uid, stored))
            elif full and self._differs_in_api(uid, stored.status):
                # Forget what was sent, so that a failed write is tried again in the next batch.
                self._sent.pop(api_uid, None)
                batch.append(_Sync(uid, api_uid, stored))
        return batch

    def _api_uid(self, uid: str) -> str | None:
        """The uid of the API object that shows this pod; None for a static pod without mirror (STA-702)."""
        pod = self._pods.pod_by_uid(uid)
        if pod is None or not is_static_pod(pod):
            return uid
        mirror = self._pods.mirror_pod_of(pod)
        return mirror.metadata.uid if mirror is not None else None

    def _may_delete(self, uid: str, stored: Stored) -> bool:
        pod = self._pods.pod_by_uid(uid)
        return pod is not None and can_be_deleted(pod, finished=stored.finished)

    def _differs_in_api(self, uid: str, status: PodStatus) -> bool:
        """Whether the API's copy, as the watch last showed it, is not what this kubelet wrote (STA-705)."""
        pod = self._pods.pod_by_uid(uid)
        if pod is not None and is_static_pod(pod):
            pod = self._pods.mirror_pod_of(pod)
        if pod is None:
            return False
        return not equal_by_kubelet(normalize_status(pod, pod.status), status)

    async def _sync_pod(self, api: StatusApi, entry: _Sync) -> None:
        """GET, merge, PATCH, delete (STA-703 to STA-807). A failure leaves the pod to the next batch."""
        try:
            await self._write(api, entry)
        except PeerError as error:
            self._recorder.fact("status_write_failed", pod=entry.stored.name, error=str(error))

    async def _write(self, api: StatusApi, entry: _Sync) -> None:
        stored = entry.stored
        found = await api.get_pod(stored.namespace, stored.name)
        if found is None:
            return
        pod = self._decoded.pod(found)
        if self._pods.translate_uid(pod.metadata.uid) != entry.uid:
            # Deleted and made anew under the same name: this status belongs to nobody any more.
            self._forget(entry.uid)
            return
        merged = merge_status(
            pod.status,
            stored.status,
            could_have_running_containers=self._could_have_running_containers(pod.metadata.uid),
            now_ns=self._clock.now_ns(),
        )
        patch = status_patch(
            pod.metadata.uid, status_to_json(pod.status), status_to_json(normalize_status(pod, merged.status))
        )
        if not is_empty_patch(patch):
            self._record_write(pod, stored, merged.why, merged.status.phase)
            written = await api.patch_pod_status(stored.namespace, stored.name, pod.metadata.uid, patch)
            pod = self._decoded.pod(written)
        self._sent[pod.metadata.uid] = stored.version
        if can_be_deleted(pod, finished=stored.finished):
            await api.delete_pod(stored.namespace, stored.name, pod.metadata.uid, 0)
            self._forget(entry.uid)

    def _record_write(self, pod: Pod, stored: Stored, why: tuple[Why, ...], phase: str | None) -> None:
        self._recorder.decision(
            "status.write",
            pod.metadata.name,
            why or (Why("STA-704"),),
            inputs={"apiPhase": pod.status.phase, "phase": stored.status.phase, "version": stored.version},
            outcome={"phase": phase},
        )


class _ResizeChange(Protocol):
    def __call__(
        self,
        conditions: resize.ResizeConditions,
        *,
        reason: str,
        message: str,
        generation: int | None,
        now_ns: int,
    ) -> tuple[resize.ResizeConditions, bool]: ...
