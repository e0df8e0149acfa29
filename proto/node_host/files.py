"""Files of the node: one tree for kubelet, runtime and containers, in memory for simulation, on disk
when serving.

Paths are absolute POSIX paths as the node sees them, whatever carries them. Errors are OSError and its
subclasses with errno and the node's path, as the operating system raises them. Symbolic links are
resolved inside the tree: an absolute target starts at the tree's own root and ``..`` stops there, so
nothing a manifest says can lead out of it.
"""

import errno
from collections.abc import Callable
from typing import Protocol

from node_host.disk import DiskFiles
from node_host.filestat import MAX_SYMLINKS, FileKind, FileStat, os_error, split

__all__ = ["DEFAULT_CAPACITY_BYTES", "DiskFiles", "FileKind", "FileStat", "Files", "MemoryFiles"]

DEFAULT_CAPACITY_BYTES = 1 << 30
"""How much a tree in memory may hold before ENOSPC, unless told otherwise."""


class Files(Protocol):
    """A tree of files. See the module's text for paths, errors and links."""

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """The content from ``offset`` on, at most ``limit`` bytes. Raises FileNotFoundError,
        IsADirectoryError.
        """
        ...

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Create or replace the content; ``mode`` is for a new file. The parent folder must exist."""
        ...

    def append(self, path: str, data: bytes) -> None:
        """Add to the end, creating the file (0644) when it is missing."""
        ...

    def make_dirs(self, path: str, *, mode: int = 0o755) -> None:
        """Create the folder and all above it; nothing happens where it exists. Raises FileExistsError
        for a file.
        """
        ...

    def list(self, path: str) -> list[str]:
        """The names in a folder, sorted. Raises FileNotFoundError, NotADirectoryError."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, a link (not its target) or an empty folder. Raises FileNotFoundError, OSError
        (ENOTEMPTY).
        """
        ...

    def remove_tree(self, path: str) -> None:
        """Remove whatever is there with all below it, never following a link. Nothing there is no error."""
        ...

    def exists(self, path: str) -> bool:
        """Whether the path leads somewhere; a dangling link does not."""
        ...

    def stat(self, path: str, *, follow: bool = True) -> FileStat:
        """Kind, size, mode and time of the path, or of the link itself without ``follow``."""
        ...

    def symlink(self, target: str, path: str) -> None:
        """Make ``path`` a link to ``target``, which need not exist. Raises FileExistsError."""
        ...

    def read_link(self, path: str) -> str:
        """Where a link points, as written. Raises OSError (EINVAL) for anything but a link."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Move, replacing a file or an empty folder of the same kind in one step, as POSIX says."""
        ...

    def chmod(self, path: str, mode: int) -> None:
        """Set the permission bits of what the path leads to."""
        ...


_Names = list[str]  # inside the class ``list`` is a method


class _File:
    __slots__ = ("data", "mode", "mtime_ns")

    def __init__(self, data: bytes, mode: int, mtime_ns: int) -> None:
        self.data = bytearray(data)
        self.mode = mode
        self.mtime_ns = mtime_ns


class _Link:
    __slots__ = ("mtime_ns", "target")

    def __init__(self, target: str, mtime_ns: int) -> None:
        self.target = target
        self.mtime_ns = mtime_ns


class _Folder:
    __slots__ = ("entries", "mode", "mtime_ns")

    def __init__(self, mode: int, mtime_ns: int) -> None:
        self.entries: dict[str, _Entry] = {}
        self.mode = mode
        self.mtime_ns = mtime_ns


_Entry = _File | _Link | _Folder


def _epoch() -> int:
    return 0


class MemoryFiles:
    """A tree in memory. Permission bits are kept, not enforced: the node runs as root.

    ``now_ns`` gives the times of change (``NodeClock.now_ns``; by default the unix epoch).
    ``capacity_bytes`` bounds the content of all files together; more raises OSError (ENOSPC) and changes
    nothing.
    """

    def __init__(
        self, *, now_ns: Callable[[], int] = _epoch, capacity_bytes: int = DEFAULT_CAPACITY_BYTES
    ) -> None:
        self._now_ns = now_ns
        self._capacity_bytes = capacity_bytes
        self._used_bytes = 0
        self._root = _Folder(0o755, now_ns())

    @property
    def used_bytes(self) -> int:
        """Content of all files together."""
        return self._used_bytes

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        file = self._file(path)
        if offset == 0 and limit is None:
            return bytes(file.data)
        return bytes(file.data[offset : None if limit is None else offset + limit])

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        file = self._file_to_write(path, mode)
        self._charge(len(data) - len(file.data), path)
        file.data = bytearray(data)
        file.mtime_ns = self._now_ns()

    def append(self, path: str, data: bytes) -> None:
        file = self._file_to_write(path, 0o644)
        self._charge(len(data), path)
        file.data += data
        file.mtime_ns = self._now_ns()

    def make_dirs(self, path: str, *, mode: int = 0o755) -> None:
        names = split(path)
        count = self._existing(names, path)
        while count < len(names):
            count += 1
            folder, name = self._walk(names[:count], path, follow=True)
            if not name:
                continue
            if name in folder.entries:
                raise os_error(errno.EEXIST if count == len(names) else errno.ENOTDIR, path)
            folder.mtime_ns = self._now_ns()
            folder.entries[name] = _Folder(mode & 0o7777, folder.mtime_ns)

    def list(self, path: str) -> list[str]:
        return sorted(self._folder(path).entries)

    def remove(self, path: str) -> None:
        parent, name = self._place(path)
        entry = parent.entries.get(name)
        if entry is None:
            raise os_error(errno.ENOENT, path)
        if isinstance(entry, _Folder) and entry.entries:
            raise os_error(errno.ENOTEMPTY, path)
        self._drop(parent, name)

    def remove_tree(self, path: str) -> None:
        try:
            parent, name = self._place(path)
        except FileNotFoundError:
            return
        if name in parent.entries:
            self._drop(parent, name)

    def exists(self, path: str) -> bool:
        try:
            self._find(path)
        except OSError:
            return False
        return True

    def stat(self, path: str, *, follow: bool = True) -> FileStat:
        entry = self._find(path, follow=follow)
        if isinstance(entry, _File):
            return FileStat(kind="file", size=len(entry.data), mode=entry.mode, mtime_ns=entry.mtime_ns)
        if isinstance(entry, _Folder):
            return FileStat(kind="dir", size=len(entry.entries), mode=entry.mode, mtime_ns=entry.mtime_ns)
        size = len(entry.target.encode())
        return FileStat(kind="symlink", size=size, mode=0o777, mtime_ns=entry.mtime_ns)

    def symlink(self, target: str, path: str) -> None:
        if not target:
            raise os_error(errno.ENOENT, path)
        parent, name = self._place(path)
        if name in parent.entries:
            raise os_error(errno.EEXIST, path)
        parent.mtime_ns = self._now_ns()
        parent.entries[name] = _Link(target, parent.mtime_ns)

    def read_link(self, path: str) -> str:
        entry = self._find(path, follow=False)
        if not isinstance(entry, _Link):
            raise os_error(errno.EINVAL, path)
        return entry.target

    def rename(self, old: str, new: str) -> None:
        old_parent, old_name = self._place(old)
        entry = old_parent.entries.get(old_name)
        if entry is None:
            raise os_error(errno.ENOENT, old)
        new_parent, new_name = self._place(new)
        there = new_parent.entries.get(new_name)
        if there is entry:
            return
        if isinstance(entry, _Folder):
            if _holds(entry, new_parent):
                raise os_error(errno.EINVAL, new)
            if there is not None and not isinstance(there, _Folder):
                raise os_error(errno.ENOTDIR, new)
            if there is not None and there.entries:
                raise os_error(errno.ENOTEMPTY, new)
        elif isinstance(there, _Folder):
            raise os_error(errno.EISDIR, new)
        if there is not None:
            self._drop(new_parent, new_name)
        del old_parent.entries[old_name]
        new_parent.entries[new_name] = entry
        old_parent.mtime_ns = new_parent.mtime_ns = self._now_ns()

    def chmod(self, path: str, mode: int) -> None:
        entry = self._find(path)
        if not isinstance(entry, _Link):
            entry.mode = mode & 0o7777

    def _file(self, path: str) -> _File:
        entry = self._find(path)
        if not isinstance(entry, _File):
            raise os_error(errno.EISDIR, path)
        return entry

    def _folder(self, path: str) -> _Folder:
        entry = self._find(path)
        if not isinstance(entry, _Folder):
            raise os_error(errno.ENOTDIR, path)
        return entry

    def _file_to_write(self, path: str, mode: int) -> _File:
        """The file at the path, made empty where there is none; a dangling link creates its target."""
        folder, rest = self._walk(split(path), path, follow=True)
        if path.endswith("/") or not rest:
            raise os_error(errno.EISDIR, path)
        entry = folder.entries.get(rest)
        if entry is None:
            folder.mtime_ns = self._now_ns()
            entry = folder.entries[rest] = _File(b"", mode & 0o7777, folder.mtime_ns)
        if not isinstance(entry, _File):
            raise os_error(errno.EISDIR, path)
        return entry

    def _find(self, path: str, *, follow: bool = True) -> _Entry:
        folder, name = self._walk(split(path), path, follow=follow or path.endswith("/"))
        entry: _Entry | None = folder.entries.get(name) if name else folder
        if entry is None:
            raise os_error(errno.ENOENT, path)
        if path.endswith("/") and not isinstance(entry, _Folder):
            raise os_error(errno.ENOTDIR, path)
        return entry

    def _place(self, path: str) -> tuple[_Folder, str]:
        """The folder and name of an entry that is to be made, moved or removed; the last link is not
        followed.
        """
        folder, name = self._walk(split(path), path, follow=False)
        if not name:
            raise os_error(errno.EBUSY, path)
        return folder, name

    def _walk(self, names: _Names, path: str, *, follow: bool) -> tuple[_Folder, str]:
        """The real folder and the last name of a path. The name is empty where the path ends in that folder.

        Raises FileNotFoundError and NotADirectoryError for what is missing on the way, never for the
        last name.
        """
        folder, above, links = self._root, list[_Folder](), 0
        todo = names[::-1]
        while todo:
            name = todo.pop()
            if name == "..":
                if above:
                    folder = above.pop()
                continue
            entry = folder.entries.get(name)
            if isinstance(entry, _Link) and (todo or follow):
                links += 1
                if links > MAX_SYMLINKS:
                    raise os_error(errno.ELOOP, path)
                if entry.target.startswith("/"):
                    folder, above = self._root, []
                todo.extend(part for part in reversed(entry.target.split("/")) if part and part != ".")
                continue
            if not todo:
                return (folder, name) if not isinstance(entry, _Folder) or not follow else (entry, "")
            if entry is None:
                raise os_error(errno.ENOENT, path)
            if not isinstance(entry, _Folder):
                raise os_error(errno.ENOTDIR, path)
            above.append(folder)
            folder = entry
        return folder, ""

    def _existing(self, names: _Names, path: str) -> int:
        """How many leading names of a path lead to a folder that exists."""
        for count in range(len(names), 0, -1):
            try:
                if not self._walk(names[:count], path, follow=True)[1]:
                    return count
            except (FileNotFoundError, NotADirectoryError):
                continue
        return 0

    def _charge(self, more_bytes: int, path: str) -> None:
        if self._used_bytes + more_bytes > self._capacity_bytes:
            raise os_error(errno.ENOSPC, path)
        self._used_bytes += more_bytes

    def _drop(self, parent: _Folder, name: str) -> None:
        self._used_bytes -= _content_bytes(parent.entries.pop(name))
        parent.mtime_ns = self._now_ns()


def _content_bytes(entry: _Entry) -> int:
    total, todo = 0, [entry]
    while todo:
        one = todo.pop()
        if isinstance(one, _File):
            total += len(one.data)
        elif isinstance(one, _Folder):
            todo.extend(one.entries.values())
    return total


def _holds(folder: _Folder, other: _Folder) -> bool:
    """Whether ``other`` is ``folder`` or lies somewhere below it."""
    todo = [folder]
    while todo:
        one = todo.pop()
        if one is other:
            return True
        todo.extend(entry for entry in one.entries.values() if isinstance(entry, _Folder))
    return False
