"""Rotation of container logs: keeps each log under its size, and a few old ones, compressed.

Mirrors ``pkg/kubelet/logs/container_log_manager.go`` (LOG-06). ``plan_rotation`` decides about the files that
are there; the manager looks at the running containers every ten seconds.
"""

import gzip
import posixpath
from collections.abc import Iterable
from datetime import UTC, datetime

from attrs import frozen

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.errors import PeerError
from kubelet_emu.kuberuntime.calls import CriCalls
from kubelet_emu.seams import Recorder
from kubelet_emu.settings import KubeletSettings
from node_host.clock import NodeClock
from node_host.files import Files
from trio_grpc import StatusError

__all__ = ["ContainerLogManager", "RotationPlan", "plan_rotation"]

MONITOR_SECONDS = 10.0
PATHS_MAX = 10_000
"""Log paths that are remembered; they never change while a container lives."""

_COMPRESSED = ".gz"
_HALF_DONE = ".tmp"


@frozen
class RotationPlan:
    """What is to be done before a log is renamed: names to remove, then names to compress."""

    remove: tuple[str, ...]
    compress: tuple[str, ...]


def plan_rotation(log: str, names: Iterable[str], *, max_files: int) -> RotationPlan:
    """Decide about the files beside a log that is to be rotated.

    ``names`` are all names in its folder. Half-written files go first, then the oldest until, with the log
    itself and the one that it becomes, ``max_files`` are left; what stays is compressed if it is not yet.
    """
    others = sorted(name for name in names if name.startswith(f"{log}."))
    unused = tuple(name for name in others if name.endswith(_HALF_DONE))
    unused += tuple(
        name for name in others if f"{name}{_COMPRESSED}" in others and not name.endswith(_COMPRESSED)
    )
    rotated = [name for name in others if name not in unused]
    excess = rotated[: max(0, len(rotated) - max(0, max_files - 2))]
    kept = rotated[len(excess) :]
    return RotationPlan(
        remove=(*unused, *excess), compress=tuple(name for name in kept if not name.endswith(_COMPRESSED))
    )


class ContainerLogManager:
    """The rotation of one node; ``run`` works until cancelled. A negative size turns it off."""

    def __init__(
        self,
        calls: CriCalls,
        *,
        clock: NodeClock,
        files: Files,
        recorder: Recorder,
        settings: KubeletSettings,
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._files = files
        self._recorder = recorder
        self._max_size_bytes = settings.container_log_max_size_bytes
        self._max_files = settings.container_log_max_files
        self._paths: dict[str, str] = {}

    async def run(self) -> None:
        """Look at all logs every ten seconds; what fails is noted and tried again at the next look."""
        if self._max_size_bytes < 0:
            return
        while True:
            await self._clock.sleep(MONITOR_SECONDS)
            try:
                listed = await self._calls.list_containers()
            except (StatusError, PeerError) as error:
                self._note("", f"failed to list containers: {error}")
                continue
            for container in listed:
                if container.state != cri.CONTAINER_RUNNING:
                    continue
                try:
                    await self._look_at(container.id)
                except (StatusError, PeerError, OSError) as error:
                    self._note(container.metadata.name, f"failed to rotate the log: {error}")

    async def _look_at(self, container_id: str) -> None:
        path = self._paths.get(container_id)
        if path is None:
            path = (await self._calls.container_status(container_id)).log_path
            self._paths[container_id] = path
            while len(self._paths) > PATHS_MAX:
                del self._paths[next(iter(self._paths))]
        if not path:
            return
        if not self._files.exists(path):
            # An earlier rotation renamed it and could not have it reopened.
            await self._calls.reopen_container_log(container_id)
        if self._files.exists(path) and self._files.stat(path).size >= self._max_size_bytes:
            await self._rotate(container_id, path)

    async def _rotate(self, container_id: str, path: str) -> None:
        folder, name = posixpath.split(path)
        plan = plan_rotation(name, self._files.list(folder), max_files=self._max_files)
        for old in plan.remove:
            self._files.remove(f"{folder}/{old}")
        for old in plan.compress:
            self._compress(f"{folder}/{old}")
        stamp = datetime.fromtimestamp(self._clock.now_ns() // 1_000_000_000, UTC).strftime("%Y%m%d-%H%M%S")
        rotated = f"{path}.{stamp}"
        self._files.rename(path, rotated)
        try:
            await self._calls.reopen_container_log(container_id)
        except (StatusError, PeerError):
            if not self._files.exists(path):
                self._files.rename(rotated, path)
            raise

    def _compress(self, path: str) -> None:
        half = f"{path}{_HALF_DONE}"
        self._files.write(half, gzip.compress(self._files.read(path), mtime=0), mode=0o640)
        self._files.rename(half, f"{path}{_COMPRESSED}")
        self._files.remove(path)

    def _note(self, container: str, text: str) -> None:
        self._recorder.fact("note", about="log-rotation", container=container, text=text)
