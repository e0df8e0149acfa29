"""The file system a container sees: an image, a writable layer over it, and mounts of the node's paths.

Every path is walked name by name inside the container's root: symbolic links, those in mounted volumes
included, are resolved against that root, and ``..`` stops at it. Only paths in which no link is left are
handed to the node's ``Files``, so nothing a process does reaches anything but its own layer and its writable
mounts.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

from cri_fake.process.handles import Handle, HostHandle, LayerHandle
from cri_fake.process.images import busybox_tree
from cri_fake.process.layer import (
    Device,
    FileNode,
    Folder,
    Generated,
    Link,
    Mount,
    MountPoint,
    Node,
    os_error,
)
from node_host.files import Files, FileStat

__all__ = ["ContainerFiles", "FileInfo"]

DEFAULT_LAYER_BYTES = 64 << 20
"""How much a container may write into its own layer before ENOSPC."""

_MAX_LINKS = 40
_MAX_NAME = 255


@frozen
class FileInfo:
    """What ``stat`` tells. ``kind``: file, dir, symlink, char or fifo; ``identity`` is equal for the same
    file.
    """

    kind: str
    size: int
    mode: int
    mtime_ns: int
    links: int
    identity: object


class _HostFolder:
    """A folder of a mounted volume on the way through a path."""

    __slots__ = ("inner", "mount", "path")

    def __init__(self, mount: Mount, path: str, inner: Folder | None) -> None:
        self.mount = mount
        self.path = path
        self.inner = inner


class _HostEntry:
    """A file or link of a mounted volume."""

    __slots__ = ("mount", "path", "stat")

    def __init__(self, mount: Mount, path: str, stat: FileStat) -> None:
        self.mount = mount
        self.path = path
        self.stat = stat


_Where = Folder | _HostFolder
_Found = Node | _HostFolder | _HostEntry


class _Spot:
    """Where a path leads: the folder it is in, its name there (empty for the root), and what is there (or
    None).
    """

    __slots__ = ("name", "node", "parent", "path")

    def __init__(self, parent: _Where, name: str, node: _Found | None, path: str) -> None:
        self.parent = parent
        self.name = name
        self.node = node
        self.path = path


class ContainerFiles:
    """One container's file system. All paths are absolute in the container; errors are OSError with errno.

    ``image`` is the tree below (busybox' by default), ``image_files`` are further files of the image by path.
    With ``readonly_root`` only mounts can be written. ``now_ns`` stamps changes. ``layer_bytes`` bounds the
    layer (ENOSPC).
    """

    def __init__(
        self,
        files: Files,
        *,
        mounts: Sequence[Mount],
        image_files: Mapping[str, bytes] | None = None,
        readonly_root: bool = False,
        image: Folder | None = None,
        now_ns: Callable[[], int] | None = None,
        layer_bytes: int = DEFAULT_LAYER_BYTES,
    ) -> None:
        self._files = files
        self._readonly_root = readonly_root
        self._now_ns = now_ns or _epoch
        self._root = Folder.over(image or busybox_tree())
        self._used_bytes = 0
        self._layer_bytes = layer_bytes
        self.mounts = tuple(mounts)
        for path, data in sorted((image_files or {}).items()):
            names = _names(path)
            folder = self._root.make_path(names[:-1])
            mode = 0o755 if data.startswith((b"#!", b"\x7fELF")) else 0o644
            folder.entries[names[-1]] = FileNode(data, mode, self._root.mtime_ns, frozen=True)
        for mount in sorted(mounts, key=lambda mount: mount.container_path.count("/")):
            names = _names(mount.container_path)
            if names:
                self._root.make_path(names[:-1]).entries[names[-1]] = MountPoint(mount)

    @property
    def used_bytes(self) -> int:
        """Content in the writable layer; mounts do not count."""
        return self._used_bytes

    def now_ns(self) -> int:
        return self._now_ns()

    # -- reading --------------------------------------------------------------------------------------------

    def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        spot = self._walk(path, follow=follow)
        node = spot.node
        if node is None:
            raise os_error(errno.ENOENT, path)
        if isinstance(node, FileNode):
            return FileInfo("file", len(node.data), node.mode, node.mtime_ns, node.links, id(node))
        if isinstance(node, Folder):
            return FileInfo("dir", 4096, node.mode, node.mtime_ns, 2, id(node))
        if isinstance(node, Link):
            return FileInfo("symlink", len(node.target.encode()), 0o777, node.mtime_ns, 1, id(node))
        if isinstance(node, Device):
            return FileInfo("char", 0, 0o666, 0, 1, id(node))
        if isinstance(node, Generated):
            return FileInfo("file", 0, 0o444, self._now_ns(), 1, id(node))
        if isinstance(node, _HostFolder):
            stat = self._files.stat(node.path)
            return FileInfo("dir", 4096, stat.mode, stat.mtime_ns, 2, node.path)
        if isinstance(node, _HostEntry):
            stat = node.stat
            return FileInfo(stat.kind, stat.size, stat.mode, stat.mtime_ns, 1, node.path)
        raise os_error(errno.ENOENT, path)

    def exists(self, path: str) -> bool:
        try:
            self.stat(path)
        except OSError:
            return False
        return True

    def is_dir(self, path: str) -> bool:
        try:
            return self.stat(path).kind == "dir"
        except OSError:
            return False

    def list(self, path: str) -> list[str]:
        """The names in a folder, sorted by byte order."""
        node = self._walk(path, follow=True).node
        if isinstance(node, Folder):
            return node.names()
        if isinstance(node, _HostFolder):
            names = set(self._files.list(node.path))
            if node.inner is not None:
                names.update(node.inner.names())
            return sorted(names)
        raise os_error(errno.ENOENT if node is None else errno.ENOTDIR, path)

    def read_link(self, path: str) -> str:
        node = self._walk(path, follow=False).node
        if isinstance(node, Link):
            return node.target
        if isinstance(node, _HostEntry) and node.stat.kind == "symlink":
            return self._files.read_link(node.path)
        raise os_error(errno.ENOENT if node is None else errno.EINVAL, path)

    def real_path(self, path: str) -> str:
        """The path without links; the last name need not exist."""
        return self._walk(path, follow=True).path

    def read(self, path: str) -> bytes:
        """The whole content of a regular or generated file."""
        handle = self.open(path)
        if isinstance(handle, Device):
            return b""
        return handle.read(0, None)

    # -- writing --------------------------------------------------------------------------------------------

    def open(
        self,
        path: str,
        *,
        write: bool = False,
        create: bool = False,
        truncate: bool = False,
        exclusive: bool = False,
        mode: int = 0o644,
    ) -> Handle | Device:
        """What a process opens: a handle on content, or a device for it to interpret."""
        spot = self._walk(path, follow=True)
        node = spot.node
        if node is None:
            if not create or path.endswith("/"):
                raise os_error(errno.EISDIR if create else errno.ENOENT, path)
            return self._create(spot, path, mode)
        if exclusive:
            raise os_error(errno.EEXIST, path)
        if isinstance(node, Device):
            return node
        if isinstance(node, Folder | _HostFolder):
            if write:
                raise os_error(errno.EISDIR, path)
            return Handle()
        if isinstance(node, Generated):
            if write:
                raise os_error(errno.EACCES, path)
            return LayerHandle(FileNode(node.produce(), 0o444, self._now_ns()), self._charge, self._now_ns)
        if write:
            self._writable(spot, path)
        handle = self._handle(spot, node, path, write=write)
        if truncate:
            handle.truncate(0)
        return handle

    def _handle(self, spot: _Spot, node: _Found, path: str, *, write: bool) -> Handle:
        if isinstance(node, _HostEntry):
            return HostHandle(self._files, node.path)
        if isinstance(node, FileNode):
            if write and node.frozen and isinstance(spot.parent, Folder):
                node = node.copy_up(self._now_ns())
                self._charge(len(node.data), path)
                spot.parent.entries[spot.name] = node
            return LayerHandle(node, self._charge, self._now_ns)
        raise os_error(errno.EACCES, path)

    def _create(self, spot: _Spot, path: str, mode: int) -> Handle:
        self._writable(spot, path)
        if isinstance(spot.parent, _HostFolder):
            host_path = _join(spot.parent.path, spot.name)
            self._files.write(host_path, b"", mode=mode)
            return HostHandle(self._files, host_path)
        node = FileNode(b"", mode, self._now_ns())
        spot.parent.put(spot.name, node, self._now_ns())
        return LayerHandle(node, self._charge, self._now_ns)

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Create or replace a whole file."""
        handle = self.open(path, write=True, create=True, truncate=True, mode=mode)
        if not isinstance(handle, Device):
            handle.write(0, data)

    def make_dir(self, path: str, *, mode: int = 0o755) -> None:
        spot = self._walk(path.rstrip("/") or "/", follow=False)
        if spot.node is not None:
            raise os_error(errno.EEXIST, path)
        self._writable(spot, path)
        if isinstance(spot.parent, _HostFolder):
            self._files.make_dirs(_join(spot.parent.path, spot.name), mode=mode)
        else:
            spot.parent.put(spot.name, Folder(mode, self._now_ns()), self._now_ns())

    def symlink(self, target: str, path: str) -> None:
        spot = self._walk(path, follow=False)
        if spot.node is not None:
            raise os_error(errno.EEXIST, path)
        self._writable(spot, path)
        if isinstance(spot.parent, _HostFolder):
            self._files.symlink(target, _join(spot.parent.path, spot.name))
        else:
            spot.parent.put(spot.name, Link(target, self._now_ns()), self._now_ns())

    def link(self, old: str, new: str) -> None:
        """A hard link within the layer; across or inside mounts EXDEV, as between file systems."""
        source, target = self._walk(old, follow=False), self._walk(new, follow=False)
        if source.node is None:
            raise os_error(errno.ENOENT, old)
        if target.node is not None:
            raise os_error(errno.EEXIST, new)
        self._writable(target, new)
        if not isinstance(source.node, FileNode) or not isinstance(target.parent, Folder):
            raise os_error(errno.EXDEV, new)
        node = source.node
        if node.frozen and isinstance(source.parent, Folder):
            node = node.copy_up(self._now_ns())
            self._charge(len(node.data), old)
            source.parent.entries[source.name] = node
        node.links += 1
        target.parent.put(target.name, node, self._now_ns())

    def unlink(self, path: str) -> None:
        """Remove a file or link."""
        spot = self._walk(path, follow=False)
        node = spot.node
        if node is None:
            raise os_error(errno.ENOENT, path)
        if isinstance(node, Folder | _HostFolder):
            raise os_error(errno.EBUSY if self._is_mount(spot) else errno.EISDIR, path)
        self._removable(spot, path)
        if isinstance(node, _HostEntry):
            self._files.remove(node.path)
            return
        if isinstance(node, FileNode) and not node.frozen:
            node.links -= 1
            if node.links == 0:
                self._charge(-len(node.data), path)
        if isinstance(spot.parent, Folder):
            spot.parent.drop(spot.name, self._now_ns())

    def remove_dir(self, path: str) -> None:
        """Remove an empty folder."""
        spot = self._walk(path.rstrip("/") or "/", follow=False)
        node = spot.node
        if node is None:
            raise os_error(errno.ENOENT, path)
        if not isinstance(node, Folder | _HostFolder):
            raise os_error(errno.ENOTDIR, path)
        self._removable(spot, path)
        if isinstance(node, _HostFolder):
            if node.inner is not None and node.inner.names():
                raise os_error(errno.EBUSY, path)
            self._files.remove(node.path)
            return
        if node.names():
            raise os_error(errno.ENOTEMPTY, path)
        if isinstance(spot.parent, Folder):
            spot.parent.drop(spot.name, self._now_ns())

    def rename(self, old: str, new: str) -> None:
        """Move within the layer or within one mount; EXDEV across (``mv`` then copies)."""
        source, target = self._walk(old, follow=False), self._walk(new.rstrip("/"), follow=False)
        if source.node is None:
            raise os_error(errno.ENOENT, old)
        self._removable(source, old)
        self._writable(target, new)
        if isinstance(source.parent, _HostFolder) and isinstance(target.parent, _HostFolder):
            if source.parent.mount is not target.parent.mount:
                raise os_error(errno.EXDEV, new)
            self._files.rename(_join(source.parent.path, source.name), _join(target.parent.path, target.name))
            return
        if not isinstance(source.parent, Folder) or not isinstance(target.parent, Folder):
            raise os_error(errno.EXDEV, new)
        self._rename_in_layer(source, target, old, new)

    def _rename_in_layer(self, source: _Spot, target: _Spot, old: str, new: str) -> None:
        assert isinstance(source.parent, Folder)
        assert isinstance(target.parent, Folder)
        node, there = source.node, target.node
        if node is there:
            return
        if isinstance(node, Folder):
            if (target.path + "/").startswith(source.path + "/"):
                raise os_error(errno.EINVAL, new)
            if there is not None and not isinstance(there, Folder):
                raise os_error(errno.ENOTDIR, new)
            if isinstance(there, Folder) and there.names():
                raise os_error(errno.ENOTEMPTY, new)
        elif isinstance(there, Folder):
            raise os_error(errno.EISDIR, new)
        elif isinstance(node, FileNode) and node.frozen:
            node = node.copy_up(node.mtime_ns)
            self._charge(len(node.data), old)
        if there is not None and not isinstance(there, Folder):
            self.unlink(new)
        if isinstance(node, FileNode | Folder | Link):
            source.parent.drop(source.name, self._now_ns())
            target.parent.put(target.name, node, self._now_ns())

    def chmod(self, path: str, mode: int) -> None:
        spot = self._walk(path, follow=True)
        node = spot.node
        if node is None:
            raise os_error(errno.ENOENT, path)
        self._writable(spot, path)
        if isinstance(node, _HostEntry | _HostFolder):
            self._files.chmod(node.path, mode)
        elif isinstance(node, FileNode):
            if node.frozen and isinstance(spot.parent, Folder):
                node = node.copy_up(node.mtime_ns)
                self._charge(len(node.data), path)
                spot.parent.entries[spot.name] = node
            node.mode = mode
        elif isinstance(node, Folder):
            node.mode = mode

    def touch(self, path: str, *, mtime_ns: int | None = None) -> None:
        """Set the time of change of what exists. The node's ``Files`` only know "now"."""
        spot = self._walk(path, follow=True)
        node = spot.node
        if node is None:
            raise os_error(errno.ENOENT, path)
        if isinstance(node, Device | Generated):
            return
        self._writable(spot, path)
        if isinstance(node, _HostEntry):
            self._files.append(node.path, b"")
        elif isinstance(node, FileNode):
            if node.frozen and isinstance(spot.parent, Folder):
                node = node.copy_up(node.mtime_ns)
                spot.parent.entries[spot.name] = node
            node.mtime_ns = self._now_ns() if mtime_ns is None else mtime_ns
        elif isinstance(node, Folder):
            node.mtime_ns = self._now_ns() if mtime_ns is None else mtime_ns

    def put_generated(self, path: str, produce: Callable[[], bytes]) -> None:
        """For the runtime: a read-only file with content made on reading. Mounts of that path win."""
        names = _names(path)
        folder = self._root.make_path(names[:-1])
        if not isinstance(folder.get(names[-1]), MountPoint):
            folder.entries[names[-1]] = Generated(produce)

    def put_file(self, path: str, data: bytes) -> None:
        """For the runtime: a file of the layer, even with ``readonly_root``. A mount of that path wins."""
        names = _names(path)
        folder = self._root.make_path(names[:-1])
        if not isinstance(folder.get(names[-1]), MountPoint):
            folder.entries[names[-1]] = FileNode(data, 0o644, self._now_ns())

    # -- rules ----------------------------------------------------------------------------------------------

    def _charge(self, more_bytes: int, path: str) -> None:
        if more_bytes > 0 and self._used_bytes + more_bytes > self._layer_bytes:
            raise os_error(errno.ENOSPC, path)
        self._used_bytes += more_bytes

    def _writable(self, spot: _Spot, path: str) -> None:
        if len(spot.name.encode("utf-8", "surrogateescape")) > _MAX_NAME:
            raise os_error(errno.ENAMETOOLONG, path)
        node = spot.node
        if isinstance(node, _HostEntry | _HostFolder):
            readonly = node.mount.readonly
        elif isinstance(spot.parent, _HostFolder):
            readonly = spot.parent.mount.readonly
        else:
            readonly = self._readonly_root and not spot.path.startswith(("/dev/", "/proc/"))
            if spot.path.startswith(("/proc/", "/sys/")):
                raise os_error(errno.EACCES, path)
        if readonly:
            raise os_error(errno.EROFS, path)

    def _is_mount(self, spot: _Spot) -> bool:
        if isinstance(spot.parent, Folder):
            return isinstance(spot.parent.get(spot.name), MountPoint)
        inner = spot.parent.inner
        return inner is not None and inner.get(spot.name) is not None

    def _removable(self, spot: _Spot, path: str) -> None:
        if not spot.name or self._is_mount(spot):
            raise os_error(errno.EBUSY, path)
        pinned = isinstance(spot.parent, Folder) and spot.parent.pinned
        if pinned or (isinstance(spot.node, Folder) and spot.node.pinned):
            raise os_error(errno.EBUSY if isinstance(spot.node, Folder) else errno.EPERM, path)
        self._writable(spot, path)

    # -- walking --------------------------------------------------------------------------------------------

    def _walk(self, path: str, *, follow: bool) -> _Spot:
        """Resolve a path. Raises for what is missing on the way; the last name may be missing."""
        if not path:
            raise os_error(errno.ENOENT, path)
        if "\0" in path:
            raise os_error(errno.EINVAL, path)
        wants_folder = path.endswith(("/", "/."))
        todo = _names(path)[::-1]
        above: list[tuple[_Where, str]] = []
        here: _Where = self._root
        links = 0
        while todo:
            name = todo.pop()
            if name == "..":
                if above:
                    here = above.pop()[0]
                continue
            found = self._entry(here, name)
            last = not todo
            target = self._link_target(found) if (follow or not last or wants_folder) else None
            if target is not None:
                links += 1
                if links > _MAX_LINKS:
                    raise os_error(errno.ELOOP, path)
                if target.startswith("/"):
                    here, above = self._root, []
                todo.extend(part for part in reversed(target.split("/")) if part and part != ".")
                continue
            if isinstance(found, Folder | _HostFolder):
                above.append((here, name))
                here = found
                continue
            if not last:
                raise os_error(errno.ENOENT if found is None else errno.ENOTDIR, path)
            if wants_folder and found is not None:
                raise os_error(errno.ENOTDIR, path)
            return _Spot(here, name, found, _path_of(above, name))
        if not above:
            return _Spot(here, "", here, "/")
        parent, name = above[-1]
        return _Spot(parent, name, here, _path_of(above[:-1], name))

    def _link_target(self, found: _Found | None) -> str | None:
        if isinstance(found, Link):
            return found.target
        if isinstance(found, _HostEntry) and found.stat.kind == "symlink":
            return self._files.read_link(found.path)
        return None

    def _entry(self, here: _Where, name: str) -> _Found | None:
        if isinstance(here, Folder):
            node = here.get(name)
            return self._enter_mount(node) if isinstance(node, MountPoint) else node
        inner = here.inner.get(name) if here.inner is not None else None
        if isinstance(inner, MountPoint):
            return self._enter_mount(inner)
        path = _join(here.path, name)
        try:
            stat = self._files.stat(path, follow=False)
        except FileNotFoundError:
            return None
        if stat.kind == "dir":
            return _HostFolder(here.mount, path, inner if isinstance(inner, Folder) else None)
        return _HostEntry(here.mount, path, stat)

    def _enter_mount(self, point: MountPoint) -> _Found | None:
        mount = point.mount
        try:
            stat = self._files.stat(mount.host_path)
        except FileNotFoundError:
            return None
        if stat.kind == "dir":
            inner = point.inner if point.inner.entries else None
            return _HostFolder(mount, mount.host_path, inner)
        return _HostEntry(mount, mount.host_path, stat)


def _epoch() -> int:
    return 0


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name and name != "."]


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"


def _path_of(above: list[tuple[_Where, str]], name: str) -> str:
    return "/" + "/".join([*(step for _, step in above), name])
