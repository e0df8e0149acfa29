"""Open regular files: content that can be read and written at an offset, in the layer or on the node."""

import errno
from collections.abc import Callable

from cri_fake.process.layer import FileNode, os_error
from node_host.files import Files

__all__ = ["MAX_REWRITTEN_BYTES", "Handle", "HostHandle", "LayerHandle"]

MAX_REWRITTEN_BYTES = 1 << 30
"""How large a file of the node may get other than by appending: then all of it is in memory for a moment."""


class Handle:
    """A directory opened for reading; the subclasses are files."""

    __slots__ = ()

    def read(self, offset: int, limit: int | None) -> bytes:
        """At most ``limit`` bytes from ``offset``; none at or past the end."""
        raise os_error(errno.EISDIR, "")

    def write(self, offset: int, data: bytes) -> None:
        """Replace or extend from ``offset``; a gap before it is filled with zeros."""
        raise os_error(errno.EISDIR, "")

    def append(self, data: bytes) -> None:
        raise os_error(errno.EISDIR, "")

    def size(self) -> int:
        return 0

    def truncate(self, size: int) -> None:
        raise os_error(errno.EISDIR, "")


class LayerHandle(Handle):
    """A file in the container's layer; it stays readable after its name is gone."""

    __slots__ = ("_charge", "_node", "_now_ns")

    def __init__(self, node: FileNode, charge: Callable[[int, str], None], now_ns: Callable[[], int]) -> None:
        self._node = node
        self._charge = charge
        self._now_ns = now_ns

    def read(self, offset: int, limit: int | None) -> bytes:
        return bytes(self._node.data[offset : None if limit is None else offset + limit])

    def write(self, offset: int, data: bytes) -> None:
        content = self._node.data
        assert isinstance(content, bytearray)
        growth = offset + len(data) - len(content)
        if growth > 0:
            self._charge(growth, "")
            if offset > len(content):
                content.extend(bytes(offset - len(content)))
        content[offset : offset + len(data)] = data
        self._node.mtime_ns = self._now_ns()

    def append(self, data: bytes) -> None:
        self.write(len(self._node.data), data)

    def size(self) -> int:
        return len(self._node.data)

    def truncate(self, size: int) -> None:
        content = self._node.data
        assert isinstance(content, bytearray)
        growth = size - len(content)
        self._charge(growth, "")
        if growth > 0:
            content.extend(bytes(growth))
        else:
            del content[size:]
        self._node.mtime_ns = self._now_ns()


class HostHandle(Handle):
    """A file of the node, by its resolved path."""

    __slots__ = ("_files", "_path")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path

    def read(self, offset: int, limit: int | None) -> bytes:
        return self._files.read(self._path, offset=offset, limit=limit)

    def write(self, offset: int, data: bytes) -> None:
        size = self.size()
        if offset == size:
            self._files.append(self._path, data)
            return
        self._check(max(size, offset + len(data)))
        content = bytearray(self._files.read(self._path))
        if offset > size:
            content.extend(bytes(offset - size))
        content[offset : offset + len(data)] = data
        self._files.write(self._path, bytes(content))

    def append(self, data: bytes) -> None:
        self._files.append(self._path, data)

    def size(self) -> int:
        return self._files.stat(self._path).size

    def truncate(self, size: int) -> None:
        self._check(size)
        content = self._files.read(self._path, limit=size) if size else b""
        self._files.write(self._path, content + bytes(size - len(content)))

    def _check(self, size: int) -> None:
        if size > MAX_REWRITTEN_BYTES:
            raise os_error(errno.EFBIG, self._path)
