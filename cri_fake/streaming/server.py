"""The HTTP server behind the URLs of Exec, Attach and PortForward (CRI-114 to CRI-121).

``/{exec,attach,portforward}/TOKEN`` with an upgrade to SPDY/3.1 or to a WebSocket. It listens on the node's
network, so in memory in a simulation; a port is taken with the first URL and given back by ``close``, which
ends all connections.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from cri_fake.containers import ContainerOps
from cri_fake.execs import ExecOps
from cri_fake.store.faults import Kind, Refused
from cri_fake.streaming.forward import PortForwards
from cri_fake.streaming.http_front import Upgrade, answer, read_request, switch
from cri_fake.streaming.remote import Channels, RemoteCommands
from cri_fake.streaming.tickets import AttachTicket, ExecTicket, ForwardTicket, Ticket, Tickets
from cri_fake.world import World
from k8s_streams.spdy_session import SpdySession, SpdyStream
from k8s_streams.subprotocols import (
    PORT_FORWARD_SPDY,
    PORT_FORWARD_TUNNEL,
    PORT_FORWARD_WEBSOCKETS,
    REMOTE_SPDY,
    REMOTE_WEBSOCKETS,
    Channel,
    WebSocketProtocol,
    choose,
)
from k8s_streams.websocket import ByteMessages, WebSocketChannels, WebSocketServer
from node_host.net import Listening

__all__ = ["StreamServer"]

STREAMS_SECONDS = 30.0
"""How long a client may take to open its streams (CRI-117)."""
IDLE_SECONDS = 4 * 3600.0
LINGER_SECONDS = 2.0
MAX_CONNECTIONS = 512
_TOKEN_BYTES = 6
_RESIZE_VERSION = 3
_PATHS: dict[type[Ticket], str] = {ExecTicket: "exec", AttachTicket: "attach", ForwardTicket: "portforward"}
_VERSION_HEADER = "X-Stream-Protocol-Version"


class StreamServer:
    """Issues URLs and serves them. ``host`` and ``port`` are where it listens, port 0 for any."""

    def __init__(
        self, world: World, containers: ContainerOps, execs: ExecOps, *, host: str, port: int
    ) -> None:
        self._world = world
        self._host = host
        self._port = port
        self._tickets = Tickets(partial(secrets.token_urlsafe, _TOKEN_BYTES))
        self._remote = RemoteCommands(world, containers, execs)
        self._forwards = PortForwards(world)
        self._listening: Listening | None = None
        self._connections = 0

    def url(self, ticket: Ticket) -> str:
        """A URL for the ticket, good once and for a minute.

        Raises:
            Refused: too many are pending, or no port can be had.
        """
        if self._listening is None:
            try:
                self._listening = self._world.net.listen(self._host, self._port, self._serve)
            except OSError as problem:
                text = f"the streaming server cannot listen on {self._host}:{self._port}: {problem.strerror}"
                raise Refused(Kind.UNAVAILABLE, text, rule="CRI-114") from None
        token = self._tickets.issue(ticket, self._world.clock.elapsed_seconds())
        host = f"[{self._listening.host}]" if ":" in self._listening.host else self._listening.host
        return f"http://{host}:{self._listening.port}/{_PATHS[type(ticket)]}/{token}"

    def close(self) -> None:
        """Forget all tickets, end all connections, give the port back."""
        self._tickets.clear()
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    async def _serve(self, stream: trio.abc.HalfCloseableStream) -> None:
        if self._connections >= MAX_CONNECTIONS:
            await answer(stream, 503, f"more than {MAX_CONNECTIONS} streams are open\n")
            return
        self._connections += 1
        try:
            with trio.move_on_after(IDLE_SECONDS) as limit:
                await self._serve_one(_Watched(stream, limit))
        except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass  # the client has gone in the middle of something
        finally:
            self._connections -= 1

    async def _serve_one(self, stream: trio.abc.HalfCloseableStream) -> None:
        request = await read_request(stream)
        if request is None:
            return
        if request.method not in ("GET", "POST"):
            await answer(stream, 405, "use GET or POST\n", [("Allow", "GET, POST")])
            return
        _, _, rest = request.target.partition("?")[0].partition("/")
        kind, _, token = rest.partition("/")
        ticket = self._tickets.redeem(token, self._world.clock.elapsed_seconds())
        if ticket is None or _PATHS[type(ticket)] != kind:
            await answer(stream, 404, "404 page not found\n")
            return
        wanted = request.upgrades_to()
        if wanted == "websocket":
            await self._websocket(stream, request, ticket)
        elif wanted == "spdy/3.1":
            await self._spdy(stream, request, ticket)
        else:
            text = "unable to upgrade: missing upgrade headers in request\n"
            await answer(stream, 400, text)

    # -- SPDY -----------------------------------------------------------------------------------------------

    async def _spdy(self, stream: trio.abc.HalfCloseableStream, request: Upgrade, ticket: Ticket) -> None:
        offered = request.values(_VERSION_HEADER)
        if not offered:
            await answer(stream, 400, f"unable to upgrade: {_VERSION_HEADER} header is required\n")
            return
        known = PORT_FORWARD_SPDY if isinstance(ticket, ForwardTicket) else REMOTE_SPDY
        chosen = choose(known, offered)
        if chosen is None:
            text = f"unable to upgrade: unable to negotiate protocol: client supports {list(offered)}, "
            accepted = [("X-Accepted-Stream-Protocol-Versions", name) for name in known]
            await answer(stream, 403, f"{text}server accepts {list(known)}\n", accepted)
            return
        headers = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), (_VERSION_HEADER, chosen)]
        await switch(stream, headers)
        async with SpdySession(stream, received=request.received) as session:
            if isinstance(ticket, ForwardTicket):
                await self._forwards.over_spdy(ticket.sandbox_id, session)
                return
            version = 1 if chosen == "channel.k8s.io" else int(chosen[1])
            channels = await _spdy_channels(session, ticket, version)
            if channels is None:
                return
            await self._run(ticket, channels)
            await _leave(session, stream)

    async def _run(self, ticket: ExecTicket | AttachTicket, channels: Channels) -> None:
        if isinstance(ticket, ExecTicket):
            await self._remote.exec(ticket, channels)
        else:
            await self._remote.attach(ticket, channels)

    # -- WebSocket ------------------------------------------------------------------------------------------

    async def _websocket(
        self, stream: trio.abc.HalfCloseableStream, request: Upgrade, ticket: Ticket
    ) -> None:
        socket = WebSocketServer(
            stream, head=request.headers, target=request.target, received=request.received
        )
        if isinstance(ticket, ForwardTicket) and PORT_FORWARD_TUNNEL in socket.offered:
            await self._tunnel(socket, ticket)
            return
        known = PORT_FORWARD_WEBSOCKETS if isinstance(ticket, ForwardTicket) else REMOTE_WEBSOCKETS
        by_name = {protocol.name: protocol for protocol in known}
        chosen = choose(tuple(by_name), socket.offered or ("",))
        if chosen is None:
            await socket.refuse(403)
            return
        await socket.accept(chosen)
        if isinstance(ticket, ForwardTicket):
            await self._forward_channels(socket, by_name[chosen], ticket)
        else:
            await self._remote_channels(socket, by_name[chosen], ticket)
        await socket.close()
        with trio.move_on_after(LINGER_SECONDS):
            await stream.send_eof()
            while await stream.receive_some(65536):
                pass

    async def _remote_channels(
        self, socket: WebSocketServer, protocol: WebSocketProtocol, ticket: ExecTicket | AttachTicket
    ) -> None:
        wanted = {
            Channel.STDIN: ticket.stdin,
            Channel.STDOUT: ticket.stdout,
            Channel.STDERR: ticket.stderr,
            Channel.ERROR: True,
            Channel.RESIZE: ticket.tty,
        }
        channels = WebSocketChannels(socket, protocol, [number for number, asked in wanted.items() if asked])
        greeting = next(n for n in (Channel.STDOUT, Channel.STDERR, Channel.ERROR) if wanted[n])
        await channels.send(greeting, b"")
        await _with_reader(
            channels.run,
            lambda gone: self._run(
                ticket,
                Channels(
                    version=protocol.version,
                    error=channels[Channel.ERROR],
                    stdin=channels[Channel.STDIN] if ticket.stdin else None,
                    stdout=channels[Channel.STDOUT] if ticket.stdout else None,
                    stderr=channels[Channel.STDERR] if ticket.stderr else None,
                    resize=channels[Channel.RESIZE] if ticket.tty else None,
                    gone=gone,
                ),
            ),
        )

    async def _forward_channels(
        self, socket: WebSocketServer, protocol: WebSocketProtocol, ticket: ForwardTicket
    ) -> None:
        channels = WebSocketChannels(socket, protocol, range(2 * len(ticket.ports)))
        for index, port in enumerate(ticket.ports):
            for number in (2 * index, 2 * index + 1):
                await channels.send(number, port.to_bytes(2, "little"))

        async def one(index: int, port: int) -> None:
            problem = await self._forwards.connect(ticket.sandbox_id, port, channels[2 * index])
            if problem:
                await channels.send(2 * index + 1, problem.encode())

        async def serve(gone: Callable[[], Awaitable[object]]) -> None:
            async with trio.open_nursery() as outer:

                async def watch() -> None:
                    await gone()
                    outer.cancel_scope.cancel()

                outer.start_soon(watch)
                async with trio.open_nursery() as nursery:
                    for index, port in enumerate(ticket.ports):
                        nursery.start_soon(one, index, port)
                outer.cancel_scope.cancel()

        await _with_reader(channels.run, serve)

    async def _tunnel(self, socket: WebSocketServer, ticket: ForwardTicket) -> None:
        await socket.accept(PORT_FORWARD_TUNNEL)
        messages = ByteMessages(socket)

        async def serve(gone: Callable[[], Awaitable[object]]) -> None:
            async with SpdySession(messages) as session:
                await self._forwards.over_spdy(ticket.sandbox_id, session)

        await _with_reader(messages.run, serve)
        await socket.close()


async def _with_reader(
    read: Callable[[], Awaitable[None]], serve: Callable[[Callable[[], Awaitable[object]]], Awaitable[None]]
) -> None:
    """Read while ``serve`` runs; it gets something to wait for that ends with the reading."""
    gone = trio.Event()

    async def reader() -> None:
        try:
            await read()
        finally:
            gone.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader)
        await serve(gone.wait)
        nursery.cancel_scope.cancel()


async def _spdy_channels(
    session: SpdySession, ticket: ExecTicket | AttachTicket, version: int
) -> Channels | None:
    """The streams that a client opens, by their ``streamType``; None if they do not come in time."""
    resizes = ticket.tty and version >= _RESIZE_VERSION
    wanted = {"error": True, "stdin": ticket.stdin, "stdout": ticket.stdout, "stderr": ticket.stderr}
    wanted["resize"] = resizes
    found: dict[str, SpdyStream] = {}
    missing = {name for name, asked in wanted.items() if asked}
    with trio.move_on_after(STREAMS_SECONDS):
        while missing:
            stream = await session.accept()
            if stream is None:
                return None
            kind = stream.headers.get("streamtype", "")
            if kind in missing:
                missing.discard(kind)
                found[kind] = stream
            else:
                stream.reset()
    if missing:
        return None
    return Channels(
        version=version,
        error=found["error"],
        stdin=found.get("stdin"),
        stdout=found.get("stdout"),
        stderr=found.get("stderr"),
        resize=found.get("resize"),
        gone=session.closed.wait,
    )


async def _leave(session: SpdySession, stream: trio.abc.HalfCloseableStream) -> None:
    """Say goodbye and let the client leave first: one that is cut off loses what it has not read yet."""
    session.end_all()
    session.connection.go_away()
    with trio.move_on_after(LINGER_SECONDS):
        await session.flush()
        await session.closed.wait()
    with trio.move_on_after(LINGER_SECONDS):
        try:
            await stream.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            return
        await session.closed.wait()


class _Watched(trio.abc.HalfCloseableStream):
    """A connection whose idle limit starts anew with everything that is sent or received."""

    def __init__(self, stream: trio.abc.HalfCloseableStream, limit: trio.CancelScope) -> None:
        self._stream = stream
        self._limit = limit

    def _used(self) -> None:
        self._limit.deadline = trio.current_time() + IDLE_SECONDS

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)
        self._used()

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        got = bytes(await self._stream.receive_some(max_bytes))
        self._used()
        return got

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()
