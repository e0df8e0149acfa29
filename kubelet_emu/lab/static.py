"""Static pods of a node without an API server: written as files, looked at in the kubelet's own status cache.

Nobody else knows of such pods, so the snapshots in the trace of such a run are what the kubelet would report.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import trio
from attrs import evolve

from kubelet_emu.api.codec import pod_to_json
from kubelet_emu.lab.host_paths import HostPathFiles, host_paths_of
from kubelet_emu.lab.node import Node
from kubelet_emu.pod_update import is_static_pod, uid_of
from kubelet_emu.trace.schema import Record

__all__ = ["STATIC_POD_PATH", "StaticPods"]

STATIC_POD_PATH = "/etc/kubernetes/manifests"
"""Where manifests lie unless the kubelet's configuration says otherwise; the folder that kubeadm uses."""


class StaticPods:
    """Writes manifests and follows what the kubelet makes of them. The node needs a ``static_pod_path``."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._folder = node.settings.static_pod_path
        self._written = 0
        self._changed = trio.Event()
        self._listeners: list[Callable[[Mapping[str, Any]], None]] = []
        self._shown: dict[str, Mapping[str, Any]] = {}
        node.recorder.subscribe(self._look)

    def write(self, manifest: Mapping[str, Any]) -> None:
        """Put a pod's manifest into the folder and say so, as a file system's notification would."""
        node = self._node
        if not self._written:
            node.begin(node.clock.elapsed_seconds())
            node.files.make_dirs(self._folder)
        self._written += 1
        obj: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", **manifest}
        name = str(obj["metadata"].get("name", "pod"))
        node.recorder.action("create", pod=name, object=obj)
        if isinstance(node.files, HostPathFiles):
            node.files.allow(host_paths_of(obj))
        path = f"{self._folder}/{self._written:03}-{name}.json"
        node.files.write(path, json.dumps(obj).encode())
        node.kubelet.file_source.changed(path)

    def listen(self, listener: Callable[[Mapping[str, Any]], None]) -> None:
        """Have every change of a pod, as the kubelet sees it, passed on."""
        self._listeners.append(listener)

    def objects(self) -> tuple[Mapping[str, Any], ...]:
        """The static pods with the status that the kubelet has for them, by namespace and name."""
        kubelet = self._node.kubelet
        found: list[Mapping[str, Any]] = []
        for pod in kubelet.pods.pods():
            if is_static_pod(pod):
                status = kubelet.status.get_pod_status(uid_of(pod))
                found.append(pod_to_json(evolve(pod, status=status) if status is not None else pod))
        return tuple(sorted(found, key=lambda obj: (obj["metadata"]["namespace"], obj["metadata"]["name"])))

    async def run(self) -> None:
        """Write each change into the trace until cancelled."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            for obj in self.objects():
                uid: str = obj["metadata"]["uid"]
                if self._shown.get(uid) != obj:
                    self._shown[uid] = obj
                    self._node.recorder.pod_object(obj)
                    for listener in self._listeners:
                        listener(obj)

    def _look(self, record: Record) -> None:
        if record["k"] == "decision" and record["machine"] in ("status.update", "admission"):
            self._changed.set()
