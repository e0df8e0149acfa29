"""Port-forward: connections to servers inside a sandbox (CRI-120, CRI-121).

Over SPDY the client opens two streams a connection, ``error`` and ``data``, which belong together by their
``requestID``. Over WebSocket each port that was asked for has two channels and one connection.
"""

from __future__ import annotations

import trio

from cri_fake.store.faults import Refused, not_found
from cri_fake.world import World
from k8s_streams.spdy_session import SpdySession, SpdyStream

__all__ = ["PAIR_SECONDS", "PortForwards"]

PAIR_SECONDS = 30.0
MAX_WAITING = 256
"""How many streams may wait for their other half."""
_CHUNK_BYTES = 32768
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)


class PortForwards:
    """Connects clients to ports of sandboxes."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def over_spdy(self, sandbox_id: str, session: SpdySession) -> None:
        """Serve pairs of streams until the client has gone."""
        waiting: dict[str, SpdyStream] = {}
        async with trio.open_nursery() as nursery:
            while (stream := await session.accept()) is not None:
                kind, request = stream.headers.get("streamtype", ""), stream.headers.get("requestid", "")
                if kind not in ("error", "data") or not stream.headers.get("port", "").isdigit():
                    stream.reset()
                    continue
                request = request or str(stream.stream_id - (2 if kind == "data" else 0))
                other = waiting.pop(request, None)
                if other is not None and other.headers["streamtype"] != kind:
                    error, data = (other, stream) if kind == "data" else (stream, other)
                    nursery.start_soon(self._pair, sandbox_id, error, data)
                elif other is not None or len(waiting) >= MAX_WAITING:
                    stream.reset()
                else:
                    waiting[request] = stream
                    nursery.start_soon(_expire, waiting, request, stream)
            nursery.cancel_scope.cancel()

    async def _pair(self, sandbox_id: str, error: SpdyStream, data: SpdyStream) -> None:
        try:
            problem = await self.connect(sandbox_id, int(data.headers["port"]), data)
            if problem:
                await error.send_all(problem.encode())
            await error.send_eof()
        except _GONE:
            return
        finally:
            data.end()
            if not data.ended_there and not data.broken:
                data.reset()

    async def connect(self, sandbox_id: str, port: int, client: trio.abc.HalfCloseableStream) -> str:
        """Copy both ways between a client and a port, until both have ended; gives what went wrong."""
        try:
            server = await self._dial(sandbox_id, port)
        except OSError as problem:
            where = f"failed to connect to localhost:{port} inside namespace"
            return f"error forwarding port {port} to pod {sandbox_id}: {where}: {problem.strerror or problem}"
        except Refused as refused:
            return f"error forwarding port {port} to pod {sandbox_id}: {refused.text}"
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_copy, client, server)
                await _copy(server, client)
                nursery.cancel_scope.cancel()
        finally:
            await trio.aclose_forcefully(server)
        return ""

    async def _dial(self, sandbox_id: str, port: int) -> trio.abc.HalfCloseableStream:
        world = self._world
        sandbox = world.sandboxes.get(sandbox_id)
        if sandbox is None or not sandbox.ready:
            raise not_found(f'sandbox "{sandbox_id}" is not running')
        if not 0 < port < 65536:
            raise OSError(22, "Invalid argument")
        refused: OSError | None = None
        for host in sandbox.ips or (world.host_ip, "127.0.0.1"):
            try:
                return await world.net.connect(host, port)
            except OSError as problem:
                refused = refused or problem
        raise refused or OSError(111, "Connection refused")


async def _expire(waiting: dict[str, SpdyStream], request: str, stream: SpdyStream) -> None:
    await trio.sleep(PAIR_SECONDS)
    if waiting.get(request) is stream:
        del waiting[request]
        stream.reset()


async def _copy(source: trio.abc.ReceiveStream, sink: trio.abc.HalfCloseableStream) -> None:
    """Everything from one to the other, then its end."""
    try:
        while chunk := bytes(await source.receive_some(_CHUNK_BYTES)):
            await sink.send_all(chunk)
        await sink.send_eof()
    except (*_GONE, OSError):
        return
