"""Where plugins and kubelet meet, and how a plugin sees that a socket there has come or gone."""

import os
from collections.abc import Callable, Hashable
from typing import Protocol

import trio
from attrs import frozen

from trio_grpc import MemorySockets, MemoryTransport, Transport, UnixTransport

__all__ = ["POLL_SECONDS", "MemoryEye", "Places", "SocketEye", "UnixEye", "eye_of"]

POLL_SECONDS = 0.25
"""How often a plugin looks at sockets on disk; the real ones have inotify or look each second."""

FIRST_POLL_SECONDS = 0.01


@frozen(kw_only=True)
class Places:
    """Folders of one node (DEV-001)."""

    device_plugins: str = "/var/lib/kubelet/device-plugins"
    registry: str = "/var/lib/kubelet/plugins_registry"
    plugins: str = "/var/lib/kubelet/plugins"

    @property
    def kubelet_socket(self) -> str:
        """The kubelet's own socket for registrations."""
        return f"{self.device_plugins}/kubelet.sock"

    @classmethod
    def below(cls, kubelet_dir: str) -> "Places":
        """The folders of a kubelet whose root directory is given."""
        root = kubelet_dir.rstrip("/")
        return cls(
            device_plugins=f"{root}/device-plugins",
            registry=f"{root}/plugins_registry",
            plugins=f"{root}/plugins",
        )


class SocketEye(Protocol):
    """Sees sockets by path."""

    def identity(self, path: str) -> Hashable | None:
        """A value that differs for each socket that ever was at the path; None while there is none."""
        ...

    async def changed(self) -> None:
        """Wait until something may have changed."""
        ...

    async def appeared(self, path: str) -> None:
        """Wait until there is a socket at the path."""
        ...


class MemoryEye:
    """Sees servers of the transport in memory, without polling."""

    def __init__(self, sockets: MemorySockets) -> None:
        self._sockets = sockets
        self._seen: dict[str, tuple[object, int]] = {}

    def identity(self, path: str) -> Hashable | None:
        server = self._sockets.find(path)
        if server is None:
            return None
        known, number = self._seen.get(path, (None, 0))
        if known is not server:
            number += 1
            self._seen[path] = (server, number)
        return number

    async def changed(self) -> None:
        await self._sockets.changed()

    async def appeared(self, path: str) -> None:
        while self._sockets.find(path) is None:
            await self._sockets.changed()


class UnixEye:
    """Looks at sockets on disk; ``host_path`` says where a path of the node lies on this machine."""

    def __init__(
        self, host_path: Callable[[str], str] = str, *, period_seconds: float = POLL_SECONDS
    ) -> None:
        self._host_path = host_path
        self._period_seconds = period_seconds

    def identity(self, path: str) -> Hashable | None:
        try:
            status = os.stat(self._host_path(path))
        except OSError:
            return None
        return (status.st_dev, status.st_ino, status.st_ctime_ns)

    async def changed(self) -> None:
        await trio.sleep(self._period_seconds)

    async def appeared(self, path: str) -> None:
        """Looks often at first: a kubelet that has just started admits its pods soon after (DEV-112)."""
        pause_seconds = FIRST_POLL_SECONDS
        while self.identity(path) is None:
            await trio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, self._period_seconds)


def eye_of(transport: Transport) -> SocketEye:
    """The eye for a transport. Raises ``TypeError`` for one of neither kind."""
    if isinstance(transport, MemoryTransport):
        return MemoryEye(transport.sockets)
    if isinstance(transport, UnixTransport):
        return UnixEye(transport.host_path)
    raise TypeError(f"no way to watch the sockets of a {type(transport).__name__}")
