"""A transport as one value: whoever assembles a node picks one and hands it down; parts ask it for ends
of wires.
"""

import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from trio_grpc.channel import Channel
from trio_grpc.memory import MemoryChannel, MemoryServer, MemorySockets
from trio_grpc.method import Handler
from trio_grpc.unix_client import UnixChannel
from trio_grpc.unix_server import UnixServer

__all__ = ["MemoryTransport", "OptionsFor", "Server", "Transport", "UnixTransport"]


class Server(Protocol):
    """The server side of any transport: add handlers, then enter it as an async context."""

    @property
    def listening(self) -> bool: ...

    def add(self, handler: Handler) -> None:
        """Serve the contracts of this handler. Raises ValueError for a method that is already served."""
        ...

    def close(self) -> None:
        """Stop at once, as a process that dies. Leaving the context does it too, and waits for the
        handlers.
        """
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Transport(Protocol):
    """Makes channels and servers. ``path`` is the socket's path as the node sees it."""

    def channel(self, path: str, **options: Any) -> Channel:
        """A channel to whatever listens there; options as for ``Channel``."""
        ...

    def server(self, path: str, **options: Any) -> Server:
        """A server that will listen there."""
        ...

    def listening(self, path: str) -> bool:
        """Whether there is a socket at the path; it may be a dead one where sockets are real."""
        ...


OptionsFor = Callable[[str], Mapping[str, Any]]
"""Options of every channel to a path, such as faults and hooks; those that a caller gives come on top."""


def _no_options(_: str) -> Mapping[str, Any]:
    return {}


class MemoryTransport:
    """Wires in memory, among parts that share this value."""

    def __init__(self, *, options_for: OptionsFor = _no_options) -> None:
        self.sockets = MemorySockets()
        self._options_for = options_for

    def channel(self, path: str, **options: Any) -> MemoryChannel:
        return MemoryChannel(path, sockets=self.sockets, **{**self._options_for(path), **options})

    def server(self, path: str, **options: Any) -> MemoryServer:
        return MemoryServer(path, sockets=self.sockets, **options)

    def listening(self, path: str) -> bool:
        return self.sockets.find(path) is not None


class UnixTransport:
    """Unix sockets. ``host_path`` says where a path of the node lies on this machine; by default it is
    the same.
    """

    def __init__(
        self, host_path: Callable[[str], str] = str, *, options_for: OptionsFor = _no_options
    ) -> None:
        self._host_path = host_path
        self._options_for = options_for

    def host_path(self, path: str) -> str:
        """Where a path of the node lies on this machine."""
        return self._host_path(path)

    def channel(self, path: str, **options: Any) -> UnixChannel:
        return UnixChannel(self._host_path(path), **{**self._options_for(path), **options})

    def server(self, path: str, **options: Any) -> UnixServer:
        return UnixServer(self._host_path(path), **options)

    def listening(self, path: str) -> bool:
        return os.path.exists(self._host_path(path))
