"""Folders of plugin sockets, in memory or on disk: what lies there, and taking it away.

Beside ``trio_grpc.Transport``, which makes the ends of wires: the kubelet cleans its device-plugin folder
(DEV-012) and looks for registration sockets (DEV-030), for which it has to see sockets as files.
"""

import contextlib
import os
import socket
import stat
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import trio

from trio_grpc import MemorySockets, MemoryTransport, Transport, UnixTransport

__all__ = ["DiskSocketFolders", "MemorySocketFolders", "SocketFolders", "memory_wires", "unix_wires"]

SOCKETS_MAX = 10_000
"""Sockets that one look at a folder returns at most."""


class SocketFolders(Protocol):
    """Sees sockets as files. Paths are those of the node."""

    def make(self, folder: str) -> None:
        """Have the folder."""
        ...

    def list(self, folder: str, *, recursive: bool = False) -> Mapping[str, str]:
        """Sockets of a folder by full path, sorted, each with a text that changes when it is made anew."""
        ...

    def accepts(self, path: str) -> bool:
        """Whether somebody listens there now."""
        ...

    def remove(self, path: str) -> None:
        """Take a socket away; a server on it goes on, unreachable. Raises ``OSError``."""
        ...

    async def changed(self) -> None:
        """Wait until a look may find something else than one just now; at once where only a look tells."""
        ...


class MemorySocketFolders:
    """Sockets of one ``MemorySockets``."""

    def __init__(self, sockets: MemorySockets) -> None:
        self._sockets = sockets
        self._seen: dict[str, tuple[object, int]] = {}
        self._number = 0

    def make(self, folder: str) -> None:
        """Folders need no making here."""

    def list(self, folder: str, *, recursive: bool = False) -> Mapping[str, str]:
        """See ``SocketFolders``."""
        start = folder.rstrip("/") + "/"
        found: dict[str, str] = {}
        for path in self._sockets.paths():
            rest = path.removeprefix(start)
            if rest != path and (recursive or "/" not in rest) and not _hidden(rest):
                found[path] = self._identity(path)
        return found

    def accepts(self, path: str) -> bool:
        """See ``SocketFolders``."""
        return self._sockets.find(path) is not None

    async def changed(self) -> None:
        """See ``SocketFolders``."""
        await self._sockets.changed()

    def _identity(self, path: str) -> str:
        server = self._sockets.find(path)
        seen, number = self._seen.get(path, (None, 0))
        if seen is not server:
            self._number = number = self._number + 1
            self._seen[path] = server, number
        return str(number)

    def remove(self, path: str) -> None:
        """See ``SocketFolders``."""
        server = self._sockets.find(path)
        if server is not None:
            self._sockets.unbind(path, server)


class DiskSocketFolders:
    """Sockets on disk; ``host_path`` says where a path of the node lies."""

    def __init__(self, host_path: Callable[[str], str] = str) -> None:
        self._host_path = host_path

    def make(self, folder: str) -> None:
        """See ``SocketFolders``; raises ``OSError``."""
        os.makedirs(self._host_path(folder), exist_ok=True)

    def list(self, folder: str, *, recursive: bool = False) -> Mapping[str, str]:
        """See ``SocketFolders``; a folder that is not there has none."""
        base = self._host_path(folder)
        found: dict[str, str] = {}
        for directory, folders, names in os.walk(base):
            folders[:] = sorted(name for name in folders if recursive and not name.startswith("."))
            for name in sorted(names):
                path = os.path.join(directory, name)
                with contextlib.suppress(OSError):
                    status = os.stat(path)
                    if stat.S_ISSOCK(status.st_mode) and not name.startswith("."):
                        shown = folder.rstrip("/") + path[len(base.rstrip("/")) :]
                        found[shown] = f"{status.st_ino}.{status.st_ctime_ns}"
            if len(found) >= SOCKETS_MAX:
                break
        return found

    def accepts(self, path: str) -> bool:
        """See ``SocketFolders``."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(self._host_path(path))
            except BlockingIOError:
                return True  # its backlog is full: alive, and busy
            except OSError:
                return False
        return True

    async def changed(self) -> None:
        """See ``SocketFolders``: a folder on disk has to be looked at."""
        await trio.lowlevel.checkpoint()

    def remove(self, path: str) -> None:
        """See ``SocketFolders``."""
        os.unlink(self._host_path(path))


def memory_wires(**options: Any) -> tuple[Transport, SocketFolders]:
    """A transport in memory with its folders; options as for ``MemoryTransport``."""
    transport = MemoryTransport(**options)
    return transport, MemorySocketFolders(transport.sockets)


def unix_wires(host_path: Callable[[str], str] = str, **options: Any) -> tuple[Transport, SocketFolders]:
    """A transport over unix sockets with its folders; options as for ``UnixTransport``."""
    return UnixTransport(host_path, **options), DiskSocketFolders(host_path)


def _hidden(rest: str) -> bool:
    return any(part.startswith(".") for part in rest.split("/"))
