"""The store behind the API: objects as JSON, versions, watches. No I/O and no waiting: every call is atomic.

The interface is that of an API server's storage, so that an HTTP front can be put before it. Objects are
plain
JSON values and must not be changed by whoever receives them; the store never changes one in place either.
A watcher that falls behind by more than ``WATCH_BACKLOG_MAX`` events is cut off with 410 Expired, as a real
server would do it, and has to list again.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import trio
from attrs import frozen

from kubelet_emu.api.times import format_seconds, parse_rfc3339
from kubelet_emu.apiserver import errors
from kubelet_emu.apiserver.patch import merge_patch, strategic_merge_patch
from kubelet_emu.apiserver.strategy import deletion_step, prepare_pod_for_create, prepare_pod_for_update
from node_host.randoms import new_uid

__all__ = ["RESOURCES", "WATCH_BACKLOG_MAX", "ApiStore", "PatchType", "Watch", "WatchEvent"]

Json = dict[str, Any]
PatchType = Literal["strategic", "merge"]

WATCH_BACKLOG_MAX = 1000
"""Undelivered events a watcher may have."""

EVENTS_MAX = 20_000
"""Events kept; the oldest go first (a real server drops them after an hour)."""

RESOURCES: Mapping[str, str] = {
    "Pod": "pods",
    "Node": "nodes",
    "Event": "events",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "Lease": "leases",
    "Namespace": "namespaces",
    "Service": "services",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "ResourceClaim": "resourceclaims",
    "ResourceClaimTemplate": "resourceclaimtemplates",
    "RuntimeClass": "runtimeclasses",
}
"""Kinds that can be stored and their resource names."""

CLUSTER_SCOPED = ("Namespace", "Node", "RuntimeClass")
"""Kinds whose objects belong to no namespace."""


@frozen
class WatchEvent:
    """One change as a watch delivers it; ``type`` is ADDED, MODIFIED or DELETED."""

    type: str
    object: Json
    resource_version: int


class Watch:
    """A subscription: ``await next()`` or iterate. Raises ``ApiError`` 410 once it has fallen behind."""

    def __init__(self, wanted: Callable[[Json], bool]) -> None:
        self.wanted = wanted
        self.pending_initial = 0
        """How many of the objects present at the start are still to be read."""
        self._pending: deque[WatchEvent] = deque()
        self._arrived = trio.Event()
        self._behind_at: int | None = None
        self._closed = False

    def push(self, event: WatchEvent) -> None:
        """Called by the store; never blocks."""
        if self._behind_at is not None or self._closed:
            return
        if len(self._pending) >= WATCH_BACKLOG_MAX:
            self._behind_at = event.resource_version
        else:
            self._pending.append(event)
        self._arrived.set()

    def close(self) -> None:
        """End the subscription; a waiting reader gets ``StopAsyncIteration``."""
        self._closed = True
        self._arrived.set()

    def drop(self) -> None:
        """End the subscription at once; what is still to be read is lost."""
        self._pending.clear()
        self.close()

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> WatchEvent:
        while not self._pending:
            if self._closed:
                raise StopAsyncIteration
            if self._behind_at is not None:
                raise errors.expired(self._behind_at)
            self._arrived = trio.Event()
            await self._arrived.wait()
        self.pending_initial = max(0, self.pending_initial - 1)
        return self._pending.popleft()


class ApiStore:
    """All objects of one cluster, keyed by kind, namespace and name.

    ``now_ns`` gives unix time, ``rng`` makes UIDs. ``validate`` and ``default`` are called for pods that are
    created or changed; each raises ``ApiError`` 422 or returns the object to store.
    """

    def __init__(
        self,
        *,
        now_ns: Callable[[], int],
        rng: random.Random,
        admit_create: Callable[[Json], Json] | None = None,
        admit_update: Callable[[Json, Json, str], Json] | None = None,
    ) -> None:
        self._now_ns = now_ns
        self._rng = rng
        self._admit_create = admit_create
        self._admit_update = admit_update
        self._objects: dict[str, dict[tuple[str, str], Json]] = {kind: {} for kind in RESOURCES}
        self._deletion_ns: dict[str, int] = {}
        self._watches: dict[str, list[Watch]] = {kind: [] for kind in RESOURCES}
        self._listeners: dict[str, list[Callable[[WatchEvent], None]]] = {kind: [] for kind in RESOURCES}
        self._version = 0

    @property
    def resource_version(self) -> int:
        """Version of the last write."""
        return self._version

    # reading

    def get(self, kind: str, namespace: str, name: str) -> Json | None:
        """The object, or None."""
        return self._objects[kind].get((namespace, name))

    def list(self, kind: str, *, namespace: str | None = None) -> Sequence[Json]:
        """All objects of a kind, ordered by namespace and name as a server lists them."""
        found = self._objects[kind]
        return [found[key] for key in sorted(found) if namespace is None or key[0] == namespace]

    def watch(
        self, kind: str, *, wanted: Callable[[Json], bool] = lambda _: True, initial: bool = True
    ) -> Watch:
        """Subscribe; with ``initial`` the present objects come first as ADDED."""
        watch = Watch(wanted)
        if initial:
            for obj in self.list(kind):
                if wanted(obj):
                    watch.push(WatchEvent("ADDED", obj, self._version))
                    watch.pending_initial += 1
        self._watches[kind].append(watch)
        return watch

    def listen(self, kind: str, listener: Callable[[WatchEvent], None]) -> None:
        """Have each change of a kind reported at once, in the order of writing; for a trace. Must not
        raise.
        """
        self._listeners[kind].append(listener)

    def unwatch(self, kind: str, watch: Watch) -> None:
        """Drop a subscription."""
        watch.close()
        if watch in self._watches[kind]:
            self._watches[kind].remove(watch)

    # writing

    def create(self, kind: str, obj: Mapping[str, Any]) -> Json:
        """Store a new object: uid, creationTimestamp and version are set here.

        Raises ``ApiError`` 409 for a name in use, 422 for what does not validate.
        """
        metadata: Json = dict(obj.get("metadata") or {})
        namespace = (
            metadata.get("namespace", "") if kind in CLUSTER_SCOPED else metadata.get("namespace", "default")
        )
        metadata["namespace"] = namespace
        if not namespace:
            del metadata["namespace"]
        name = metadata.get("name", "")
        if not name and metadata.get("generateName"):
            name = self._generated_name(kind, namespace, str(metadata["generateName"]))
            metadata["name"] = name
        known = self._objects[kind].get((namespace, name))
        if known is not None:
            deleting = bool(known["metadata"].get("deletionTimestamp"))
            raise errors.already_exists(RESOURCES[kind], name, deleting=deleting)
        new: Json = {"apiVersion": "v1", "kind": kind, **obj, "metadata": metadata}
        if kind == "Pod":
            if self._admit_create is not None:
                new = self._admit_create(new)
            new = prepare_pod_for_create(new)
        metadata = dict(new["metadata"])
        metadata["uid"] = metadata.get("uid") or new_uid(self._rng)
        metadata["creationTimestamp"] = format_seconds(self._now_ns())
        return self._write("ADDED", kind, {**new, "metadata": metadata})

    def patch(
        self,
        kind: str,
        namespace: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        subresource: str = "",
        patch_type: PatchType = "strategic",
        uid: str | None = None,
    ) -> Json:
        """Apply a patch; a patch that changes nothing writes nothing.

        Raises ``ApiError`` 404, 409 for a foreign uid or stale resourceVersion, 422 for a forbidden change.
        """
        old = self._existing(kind, namespace, name, uid)
        if patch_type == "strategic":
            new = strategic_merge_patch(old, patch)
        else:
            new = cast(Json, merge_patch(old, dict(patch)))
        return self.replace(kind, namespace, name, new, subresource=subresource)

    def replace(
        self, kind: str, namespace: str, name: str, new: Mapping[str, Any], *, subresource: str = ""
    ) -> Json:
        """Write a whole object over the stored one, under the same rules as ``patch``."""
        old = self._existing(kind, namespace, name, None)
        if new["metadata"].get("uid") != old["metadata"]["uid"]:
            raise errors.uid_conflict(kind, name, str(new["metadata"].get("uid")), old["metadata"]["uid"])
        version = new["metadata"].get("resourceVersion")
        if version is not None and version != old["metadata"]["resourceVersion"]:
            raise errors.conflict(RESOURCES[kind], name)
        result: Json = dict(new)
        if kind == "Pod":
            result = prepare_pod_for_update(old, result, subresource=subresource)
            if self._admit_update is not None and subresource not in ("status", "binding"):
                result = self._admit_update(old, result, subresource)
        if result == old:
            return old
        metadata = result["metadata"]
        freed = bool(old["metadata"].get("finalizers")) and not metadata.get("finalizers")
        due = metadata.get("deletionTimestamp") and not metadata.get("deletionGracePeriodSeconds")
        if freed and due:
            return self._remove(kind, result)
        return self._write("MODIFIED", kind, result)

    def delete(
        self,
        kind: str,
        namespace: str,
        name: str,
        *,
        grace_seconds: int | None = None,
        uid: str | None = None,
    ) -> Json:
        """Begin or finish deletion (FAC-071, FAC-072); raises ``ApiError`` 404 or 409.

        A pod on a node that is deleted at once shows its watchers a change to grace 0 first (POD-522).
        """
        old = self._existing(kind, namespace, name, uid)
        step = deletion_step(
            old,
            grace_seconds=grace_seconds,
            now_ns=self._now_ns(),
            deletion_ns=self._deletion_ns.get(old["metadata"]["uid"], 0),
        )
        if not step.changed:
            return self._remove(kind, old) if step.remove else old
        self._deletion_ns[old["metadata"]["uid"]] = step.deletion_ns
        metadata: Json = {
            **old["metadata"],
            "deletionTimestamp": format_seconds(step.deletion_ns),
            "deletionGracePeriodSeconds": step.grace_seconds,
        }
        if kind == "Pod" and step.first and step.grace_seconds > 0:
            metadata["generation"] = int(metadata.get("generation", 0)) + 1
        new = {**old, "metadata": metadata}
        if step.remove:
            spec: Json = old.get("spec") or {}
            if kind == "Pod" and spec.get("nodeName"):
                new = self._write("MODIFIED", kind, new)
            return self._remove(kind, new)
        return self._write("MODIFIED", kind, new)

    # internals

    def _existing(self, kind: str, namespace: str, name: str, uid: str | None) -> Json:
        old = self._objects[kind].get((namespace, name))
        if old is None:
            raise errors.not_found(RESOURCES[kind], name)
        if uid is not None and old["metadata"]["uid"] != uid:
            raise errors.uid_conflict(kind, name, uid, old["metadata"]["uid"])
        return old

    def _generated_name(self, kind: str, namespace: str, prefix: str) -> str:
        for _ in range(8):
            suffix = "".join(self._rng.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(5))
            if (namespace, prefix[:58] + suffix) not in self._objects[kind]:
                return prefix[:58] + suffix
        raise errors.already_exists(RESOURCES[kind], prefix)

    def _write(self, event_type: str, kind: str, obj: Json) -> Json:
        self._version += 1
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}
        key = (stored["metadata"].get("namespace", ""), stored["metadata"]["name"])
        objects = self._objects[kind]
        objects[key] = stored
        if kind == "Event" and len(objects) > EVENTS_MAX:
            del objects[next(iter(objects))]
        self._publish(kind, WatchEvent(event_type, stored, self._version))
        return stored

    def _remove(self, kind: str, obj: Json) -> Json:
        self._version += 1
        gone = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}
        del self._objects[kind][gone["metadata"].get("namespace", ""), gone["metadata"]["name"]]
        self._deletion_ns.pop(gone["metadata"]["uid"], None)
        self._publish(kind, WatchEvent("DELETED", gone, self._version))
        return gone

    def _publish(self, kind: str, event: WatchEvent) -> None:
        for listener in self._listeners[kind]:
            listener(event)
        for watch in self._watches[kind]:
            if watch.wanted(event.object):
                watch.push(event)

    def restore_deletion_times(self, objects: Iterable[Json]) -> None:
        """Learn the deletion times of objects that were loaded with a deletionTimestamp."""
        for obj in objects:
            stamp = obj["metadata"].get("deletionTimestamp")
            if stamp:
                self._deletion_ns[obj["metadata"]["uid"]] = parse_rfc3339(stamp)
