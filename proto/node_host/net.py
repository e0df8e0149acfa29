"""The network of the node: who listens where, and streams between them.

In memory for simulation: a table of (host, port) and pairs of bounded streams, inside virtual time. On
loopback addresses for serving: real sockets on 127.0.0.0/8 and nothing else. Errors are those of the
system: ConnectionRefusedError where nobody listens, OSError (EHOSTUNREACH) where no host is, OSError
(EADDRINUSE) for a port taken.

A listener owns its connections: ``close`` ends them as the death of a process does.
"""

import errno
import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable, Collection
from typing import Literal, Protocol

import trio

__all__ = [
    "Handler",
    "Listening",
    "LoopbackNet",
    "MemoryNet",
    "MemoryStream",
    "Net",
    "PodNet",
    "memory_stream_pair",
]

Handler = Callable[[trio.abc.HalfCloseableStream], Awaitable[object]]
Reachability = Literal["up", "unreachable", "silent"]

_WILDCARDS = ("", "0.0.0.0", "::")
_EPHEMERAL_PORTS = range(32768, 61000)
_BUFFER_BYTES = 65536
_LOOPBACK = ipaddress.ip_network("127.0.0.0/8")
_BACKLOG = 128


class Listening(Protocol):
    """One listening port."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int:
        """The port, also where 0 was asked for."""
        ...

    def close(self) -> None:
        """Stop listening and end every connection accepted here. Twice is once."""
        ...


class Net(Protocol):
    """A network that one can connect and listen on."""

    async def connect(self, host: str, port: int) -> trio.abc.HalfCloseableStream:
        """A new connection. Raises ConnectionRefusedError, OSError (EHOSTUNREACH, ENETUNREACH)."""
        ...

    def listen(self, host: str, port: int, handler: Handler) -> Listening:
        """Run ``handler(stream)`` for each connection; its stream is closed when it returns.

        An empty host or ``0.0.0.0`` takes what no other listener takes; port 0 picks a free one. A
        handler that ends in an OSError or in a broken stream ends only its connection. Raises OSError
        (EADDRINUSE, EADDRNOTAVAIL).
        """
        ...


class _Pipe:
    """One direction of a stream in memory: bounded, with an end."""

    __slots__ = ("broken", "changed", "data", "ended")

    def __init__(self) -> None:
        self.data = bytearray()
        self.ended = False
        self.broken = False
        self.changed = trio.Event()

    def signal(self) -> None:
        changed, self.changed = self.changed, trio.Event()
        changed.set()


class MemoryStream(trio.abc.HalfCloseableStream):
    """One end of a connection in memory. Sending blocks while 64 KiB are unread at the other end."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._closed = False
        self._conflict_send = trio.Lock()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Raises trio.BrokenResourceError once the other end is closed."""
        if self._conflict_send.locked():
            raise trio.BusyResourceError("another task is sending on this stream")
        async with self._conflict_send:
            await trio.lowlevel.checkpoint()
            view = memoryview(data)
            pipe = self._outgoing
            while True:
                if self._closed or pipe.ended:
                    raise trio.ClosedResourceError("this end of the stream is closed")
                if pipe.broken:
                    raise trio.BrokenResourceError("the other end of the stream is closed")
                room = _BUFFER_BYTES - len(pipe.data)
                if room > 0 and view:
                    pipe.data += view[:room]
                    view = view[room:]
                    pipe.signal()
                if not view:
                    return
                await pipe.changed.wait()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()
        pipe = self._outgoing
        while len(pipe.data) >= _BUFFER_BYTES and not pipe.broken:
            if self._closed:
                raise trio.ClosedResourceError("this end of the stream is closed")
            await pipe.changed.wait()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """The next bytes, or empty at the end. Raises trio.ClosedResourceError on a closed stream."""
        if max_bytes is not None and max_bytes < 1:
            raise ValueError("max_bytes must be at least 1")
        await trio.lowlevel.checkpoint()
        pipe = self._incoming
        while not pipe.data:
            if self._closed:
                raise trio.ClosedResourceError("this end of the stream is closed")
            if pipe.ended:
                return b""
            await pipe.changed.wait()
        if self._closed:
            raise trio.ClosedResourceError("this end of the stream is closed")
        got = bytes(pipe.data[:max_bytes])
        del pipe.data[: len(got)]
        pipe.signal()
        return got

    async def send_eof(self) -> None:
        """Say that nothing more will be sent; receiving goes on."""
        await trio.lowlevel.checkpoint()
        if self._closed:
            raise trio.ClosedResourceError("this end of the stream is closed")
        self._outgoing.ended = True
        self._outgoing.signal()

    def close(self) -> None:
        """Close both directions at once."""
        self._closed = True
        self._outgoing.ended = True
        self._incoming.broken = True
        self._outgoing.signal()
        self._incoming.signal()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()


def memory_stream_pair() -> tuple[MemoryStream, MemoryStream]:
    """Both ends of a new connection in memory."""
    there, back = _Pipe(), _Pipe()
    return MemoryStream(back, there), MemoryStream(there, back)


class _Served:
    """A listener with its connections: one cancel scope over all handlers."""

    def __init__(self, host: str, port: int, handler: Handler, forget: Callable[[], object]) -> None:
        self._host = host
        self._port = port
        self._handler = handler
        self._forget = forget
        self._scope = trio.CancelScope()
        self._connections: dict[trio.CancelScope, None] = {}
        self.closed = False

    @property
    def host(self) -> str:
        return self._host

    @property
    def port(self) -> int:
        return self._port

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._forget()
            for scope in [*self._connections, self._scope]:
                scope.cancel()

    async def accept_loop(self, listener: trio.SocketListener, nursery: trio.Nursery) -> None:
        with self._scope:
            async with listener:
                while True:
                    try:
                        stream = await listener.accept()
                    except OSError:
                        await trio.sleep(0.1)  # out of descriptors: wait for a connection to end
                        continue
                    nursery.start_soon(self.serve, stream)

    async def serve(self, stream: trio.abc.HalfCloseableStream) -> None:
        with trio.CancelScope() as scope:
            self._connections[scope] = None
            try:
                if self.closed:
                    scope.cancel()
                async with stream:
                    await self._handler(stream)
            except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                return
            finally:
                del self._connections[scope]


class MemoryNet:
    """A network in memory; every address is there until ``set_reachability`` says otherwise.

    Connections are served by tasks of ``nursery``.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._listeners: dict[tuple[str, int], _Served] = {}
        self._reachability: dict[str, Reachability] = {}
        self._next_port = 0

    def set_reachability(self, host: str, state: Reachability) -> None:
        """``up``: as if on the network; ``unreachable``: no route; ``silent``: packets vanish,
        connecting hangs.
        """
        if state == "up":
            self._reachability.pop(host, None)
        else:
            self._reachability[host] = state

    async def connect(self, host: str, port: int) -> MemoryStream:
        await trio.lowlevel.checkpoint()
        host = "127.0.0.1" if host == "localhost" else host
        state = self._reachability.get(host, "up")
        if state == "silent":
            await trio.sleep_forever()
        if state == "unreachable":
            raise _net_error(errno.EHOSTUNREACH, host, port)
        served = self._listeners.get((host, port)) or self._listeners.get(("", port))
        if served is None:
            raise _net_error(errno.ECONNREFUSED, host, port)
        ours, theirs = memory_stream_pair()
        self._nursery.start_soon(served.serve, theirs)
        return ours

    def listen(self, host: str, port: int, handler: Handler) -> Listening:
        key_host = "" if host in _WILDCARDS else "127.0.0.1" if host == "localhost" else host
        port = port or self._free_port(key_host)
        if not 0 < port < 65536:
            raise _net_error(errno.EADDRNOTAVAIL, host, port)
        key = (key_host, port)
        if key in self._listeners:
            raise _net_error(errno.EADDRINUSE, host, port)
        served = _Served(host, port, handler, lambda: self._listeners.pop(key, None))
        self._listeners[key] = served
        return served

    def _free_port(self, host: str) -> int:
        for _ in _EPHEMERAL_PORTS:
            port = _EPHEMERAL_PORTS[self._next_port % len(_EPHEMERAL_PORTS)]
            self._next_port += 1
            if (host, port) not in self._listeners:
                return port
        raise _net_error(errno.EADDRINUSE, host, 0)


class LoopbackNet:
    """Real sockets, on 127.0.0.0/8 only; anything else is ENETUNREACH. For the real pace of time.

    A wildcard host binds 127.0.0.1. Connections are served by tasks of ``nursery``. ``also`` are addresses
    beyond loopback that may be listened on because a person said so; a wildcard among them is itself.
    """

    def __init__(self, nursery: trio.Nursery, *, also: Collection[str] = ()) -> None:
        self._nursery = nursery
        self._also = also

    async def connect(self, host: str, port: int) -> trio.SocketStream:
        host = _loopback_host(host, port, errno.ENETUNREACH)
        found = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            await found.connect((host, port))
        except BaseException:
            found.close()
            raise
        return trio.SocketStream(found)

    def listen(self, host: str, port: int, handler: Handler) -> Listening:
        if host in self._also:
            address = host
        else:
            address = _loopback_host("127.0.0.1" if host in _WILDCARDS else host, port, errno.EADDRNOTAVAIL)
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((address, port))
            sock.listen(_BACKLOG)
        except OSError as problem:
            sock.close()
            raise _net_error(problem.errno or errno.EIO, address, port) from None
        served = _Served(address, int(sock.getsockname()[1]), handler, lambda: None)
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        self._nursery.start_soon(served.accept_loop, listener, self._nursery)
        return served


class PodNet:
    """Loopback addresses are real, all others in memory: what a runtime in a process of its own sees.

    Pods whose addresses are not on loopback then reach each other, and port-forward reaches them, though
    nobody outside the process can. A wildcard is in memory too: no port of the machine is taken by it.
    """

    def __init__(self, nursery: trio.Nursery, *, also: Collection[str] = ()) -> None:
        self._real = LoopbackNet(nursery, also=also)
        self._memory = MemoryNet(nursery)
        self._also = also

    def _of(self, host: str) -> LoopbackNet | MemoryNet:
        return self._real if host in self._also or _is_loopback(host) else self._memory

    async def connect(self, host: str, port: int) -> trio.abc.HalfCloseableStream:
        return await self._of(host).connect(host, port)

    def listen(self, host: str, port: int, handler: Handler) -> Listening:
        return self._of(host).listen(host, port, handler)


def _net_error(code: int, host: str, port: int) -> OSError:
    return OSError(code, f"{os.strerror(code)}: {host}:{port}")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host) in _LOOPBACK
    except ValueError:
        return False


def _loopback_host(host: str, port: int, code: int) -> str:
    if not _is_loopback(host):
        raise _net_error(code, host, port)
    return "127.0.0.1" if host == "localhost" else host
