"""Files of a node whose hostPath volumes are the machine's own; all else stays in the node's private tree.

Only what a pod names as a hostPath is let through, and never the folders that belong to the kubelet itself.
"""

import errno
from collections.abc import Iterable, Mapping
from typing import Any

from node_host.files import Files, FileStat
from node_host.filestat import os_error

__all__ = ["HostPathFiles", "host_paths_of"]

_Names = list[str]  # inside the class ``list`` is a method


def host_paths_of(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """The paths that a pod object's hostPath volumes name."""
    spec: Mapping[str, Any] = pod.get("spec") or {}
    volumes: Iterable[Mapping[str, Any]] = spec.get("volumes") or ()
    found = (volume["hostPath"].get("path", "") for volume in volumes if volume.get("hostPath"))
    return tuple(path for path in found if path)


class HostPathFiles(Files):
    """Paths below an allowed one go to ``real``, all others and those below ``kept`` to ``private``."""

    def __init__(self, private: Files, real: Files, *, kept: Iterable[str]) -> None:
        self._private = private
        self._real = real
        self._kept = tuple(path.rstrip("/") for path in kept if path)
        self._allowed: list[str] = []

    def allow(self, paths: Iterable[str]) -> None:
        """Let these paths and what lies below them through."""
        for path in paths:
            plain = "/" + "/".join(name for name in path.split("/") if name not in ("", "."))
            if plain not in self._allowed:
                self._allowed.append(plain)

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        return self._at(path).read(path, offset=offset, limit=limit)

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self._at(path).write(path, data, mode=mode)

    def append(self, path: str, data: bytes) -> None:
        self._at(path).append(path, data)

    def make_dirs(self, path: str, *, mode: int = 0o755) -> None:
        self._at(path).make_dirs(path, mode=mode)

    def list(self, path: str) -> _Names:
        return self._at(path).list(path)

    def remove(self, path: str) -> None:
        self._at(path).remove(path)

    def remove_tree(self, path: str) -> None:
        self._at(path).remove_tree(path)

    def exists(self, path: str) -> bool:
        return self._at(path).exists(path)

    def stat(self, path: str, *, follow: bool = True) -> FileStat:
        return self._at(path).stat(path, follow=follow)

    def symlink(self, target: str, path: str) -> None:
        self._at(path).symlink(target, path)

    def read_link(self, path: str) -> str:
        return self._at(path).read_link(path)

    def rename(self, old: str, new: str) -> None:
        here = self._at(old)
        if here is not self._at(new):
            raise os_error(errno.EXDEV, old)
        here.rename(old, new)

    def chmod(self, path: str, mode: int) -> None:
        self._at(path).chmod(path, mode)

    def _at(self, path: str) -> Files:
        if any(_below(path, kept) for kept in self._kept):
            return self._private
        return self._real if any(_below(path, allowed) for allowed in self._allowed) else self._private


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder == "/" else folder + "/")
