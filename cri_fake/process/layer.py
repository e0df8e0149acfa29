"""The tree a container's root file system is made of: an image below, a writable layer above (pure).

An image tree is shared by all containers and never changes. A container's root is a ``Folder`` whose
``lower`` is the image's; folders of the image are shadowed by empty ones as they are walked through, files
are copied up when they are opened for writing, and a removed name of the image leaves a ``None`` (a
whiteout).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from typing import TypeAlias

from attrs import frozen

__all__ = ["Device", "FileNode", "Folder", "Generated", "Link", "Mount", "MountPoint", "Node", "os_error"]


def os_error(code: int, path: str) -> OSError:
    """The OSError subclass for an errno, with the path as a process in the container wrote it."""
    return OSError(code, os.strerror(code), path)


@frozen
class Mount:
    """A path of the node (``host_path``) that appears in the container at ``container_path``."""

    container_path: str
    host_path: str
    readonly: bool


class FileNode:
    """A regular file. ``frozen`` ones belong to an image and are copied before they change."""

    __slots__ = ("data", "frozen", "links", "mode", "mtime_ns")

    def __init__(self, data: bytes, mode: int, mtime_ns: int, *, frozen: bool = False) -> None:
        self.data: bytearray | bytes = data if frozen else bytearray(data)
        self.mode = mode
        self.mtime_ns = mtime_ns
        self.frozen = frozen
        self.links = 1

    def copy_up(self, now_ns: int) -> FileNode:
        return FileNode(bytes(self.data), self.mode, now_ns)


class Link:
    """A symbolic link."""

    __slots__ = ("mtime_ns", "target")

    def __init__(self, target: str, mtime_ns: int = 0) -> None:
        self.target = target
        self.mtime_ns = mtime_ns


class Device:
    """A special file, by kind: null, zero, full, random, tty, or ``fd:N`` (the opener's descriptor N)."""

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind


class Generated:
    """A read-only file whose content is made when it is read, such as those in /proc."""

    __slots__ = ("produce",)

    def __init__(self, produce: Callable[[], bytes]) -> None:
        self.produce = produce


class MountPoint:
    """Where a host path is mounted; ``inner`` holds further mount points below it."""

    __slots__ = ("inner", "mount")

    def __init__(self, mount: Mount) -> None:
        self.mount = mount
        self.inner = Folder(0o755, 0)


class Folder:
    """A directory. ``pinned`` ones (/proc, /dev, /sys) cannot be removed, nor can what the runtime put in
    them.
    """

    __slots__ = ("entries", "lower", "mode", "mtime_ns", "pinned")

    def __init__(
        self, mode: int, mtime_ns: int, *, lower: Folder | None = None, pinned: bool = False
    ) -> None:
        self.entries: dict[str, Node | None] = {}
        self.lower = lower
        self.mode = mode
        self.mtime_ns = mtime_ns
        self.pinned = pinned

    @classmethod
    def over(cls, lower: Folder) -> Folder:
        """An empty writable folder over one of an image."""
        return cls(lower.mode, lower.mtime_ns, lower=lower, pinned=lower.pinned)

    def get(self, name: str) -> Node | None:
        if name in self.entries:
            return self.entries[name]
        if self.lower is None:
            return None
        node = self.lower.get(name)
        if isinstance(node, Folder):
            node = self.entries[name] = Folder.over(node)
        return node

    def names(self) -> list[str]:
        found = set(self.lower.names()) if self.lower is not None else set[str]()
        for name, node in self.entries.items():
            if node is None:
                found.discard(name)
            else:
                found.add(name)
        return sorted(found)

    def put(self, name: str, node: Node, now_ns: int) -> None:
        self.entries[name] = node
        self.mtime_ns = now_ns

    def drop(self, name: str, now_ns: int) -> None:
        if self.lower is not None and self.lower.get(name) is not None:
            self.entries[name] = None
        else:
            self.entries.pop(name, None)
        self.mtime_ns = now_ns

    def make_path(self, names: Iterable[str], *, mode: int = 0o755) -> Folder:
        """The folder at the names below this one, made where missing; what is in the way is replaced."""
        folder = self
        for name in names:
            child = folder.get(name)
            if isinstance(child, MountPoint):
                child = child.inner
            elif not isinstance(child, Folder):
                child = Folder(mode, folder.mtime_ns)
                folder.entries[name] = child
            folder = child
        return folder


Node: TypeAlias = FileNode | Link | Device | Generated | MountPoint | Folder


def read_only(path: str) -> OSError:
    return os_error(errno.EROFS, path)
