"""Static pods from a file or a folder on the node.

Mirrors ``pkg/kubelet/config/file.go`` and ``file_linux.go`` (POD-208 to POD-211). The tree has no change
notification of its own: whoever changes a file says so (``changed``); without that the next listing sees it.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import trio
from attrs import frozen

from kubelet_emu.api.types import Pod
from kubelet_emu.config.manifest import ManifestError, PodReader
from kubelet_emu.pod_update import FILE_SOURCE
from kubelet_emu.seams import Recorder
from node_host.files import Files

__all__ = ["CHANGES_MAX", "FileSource"]

CHANGES_MAX = 200
"""Told changes that may wait; what comes beyond is left to the next listing."""


@frozen
class _Read:
    """One file's content and what came of it: a pod, or what is wrong with it."""

    data: bytes
    pod: Pod | None
    problem: str


class FileSource:
    """Lists ``path`` at start, every ``period_seconds`` and, file by file, when told of a change."""

    def __init__(
        self,
        *,
        path: str,
        files: Files,
        reader: PodReader,
        set_pods: Callable[[str, Sequence[Pod]], Awaitable[None]],
        recorder: Recorder,
        period_seconds: float = 20.0,
    ) -> None:
        self._path = path.rstrip("/") or "/"
        self._files = files
        self._reader = reader
        self._set_pods = set_pods
        self._recorder = recorder
        self._period_seconds = period_seconds
        self._reads: dict[str, _Read] = {}
        self._pods: dict[tuple[str, str], Pod] = {}
        self._key_of_file: dict[str, tuple[str, str]] = {}
        self._changes: deque[str] = deque()
        self._told = trio.Event()

    def changed(self, path: str) -> None:
        """Say that the file at ``path`` was written, created, removed or renamed. Never blocks."""
        if self._is_manifest(path) and len(self._changes) < CHANGES_MAX:
            self._changes.append(path)
            self._told.set()

    async def run(self) -> None:
        """List and follow changes until cancelled."""
        while True:
            await self.list()
            next_listing = trio.current_time() + self._period_seconds
            while trio.current_time() < next_listing:
                with trio.move_on_at(next_listing):
                    await self._told.wait()
                await self._follow_changes()

    async def list(self) -> None:
        """One listing: it replaces everything known before (POD-209, POD-210)."""
        try:
            is_folder = self._files.stat(self._path).kind == "dir"
        except OSError:
            await self._replace({})
            return
        if is_folder:
            paths = [f"{self._path}/{name}" for name in self._files.list(self._path)]
            found = {path: pod for path in paths if (pod := self._read(path))}
            await self._replace(found)
        else:
            pod = self._read(self._path)
            if pod is not None:
                await self._replace({self._path: pod})

    async def _follow_changes(self) -> None:
        self._told = trio.Event()
        while self._changes:
            path = self._changes.popleft()
            if not self._files.exists(path):
                self._reads.pop(path, None)
                self._pods.pop(self._key_of_file.pop(path, ("", "")), None)
            else:
                pod = self._read(path)
                if pod is None:
                    continue
                self._key_of_file[path] = _key(pod)
                self._pods[_key(pod)] = pod
            await self._send()

    async def _replace(self, found: dict[str, Pod]) -> None:
        self._key_of_file = {path: _key(pod) for path, pod in found.items()}
        self._pods = {_key(pod): pod for pod in found.values()}
        self._reads = {path: read for path, read in self._reads.items() if path in found or not read.pod}
        await self._send()

    async def _send(self) -> None:
        await self._set_pods(FILE_SOURCE, [self._pods[key] for key in sorted(self._pods)])

    def _is_manifest(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return path == self._path or (folder == self._path and not name.startswith("."))

    def _read(self, path: str) -> Pod | None:
        """The pod of one file; None for what is no manifest. A problem is reported once per content."""
        if not self._is_manifest(path):
            return None
        try:
            if self._files.stat(path).kind != "file":
                return None
            data = self._files.read(path)
        except OSError as error:
            self._recorder.fact("config", source=FILE_SOURCE, file=path, problem=error.strerror or str(error))
            return None
        known = self._reads.get(path)
        if known is None or known.data != data:
            known = self._reads[path] = self._parse(path, data)
            if known.problem:
                self._recorder.fact("config", source=FILE_SOURCE, file=path, problem=known.problem)
        return known.pod

    def _parse(self, path: str, data: bytes) -> _Read:
        origin = (f"host:{self._reader.node_name}", f"file:{path}")
        try:
            return _Read(data, self._reader.single(data, origin), "")
        except ManifestError as error:
            return _Read(data, None, str(error))


def _key(pod: Pod) -> tuple[str, str]:
    return (pod.metadata.namespace, pod.metadata.name)
