"""A small HTTP/1.1 server over the node's network, for the kubelet's read-only endpoints.

Requests have no use for a body here: one that comes is read and dropped. Answers are whole, or chunked while
they are made; a client that goes away ends the making. Every size and wait has a bound.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from urllib.parse import parse_qsl, unquote, urlsplit

import h11
import trio
from attrs import field, frozen

from node_host.clock import NodeClock
from node_host.net import Listening, Net

__all__ = ["App", "HttpServer", "Request", "Response", "text"]

IDLE_SECONDS = 90.0
"""How long a connection may wait for a request (NOD-84)."""

WRITE_SECONDS = 4 * 3600.0
"""How long one answer may take (NOD-84)."""

MAX_CONNECTIONS = 256
MAX_BODY_BYTES = 1024 * 1024
_RECEIVE_BYTES = 65536


@frozen(kw_only=True)
class Request:
    """One request; ``query`` holds the last value of each name."""

    method: str
    path: str
    query: Mapping[str, str] = field(factory=dict[str, str])


@frozen(kw_only=True)
class Response:
    """An answer: ``body``, or ``chunks`` where it is made bit by bit."""

    status: int = 200
    body: bytes = b""
    chunks: AsyncIterator[bytes] | None = None
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(factory=dict[str, str])


App = Callable[[Request], Awaitable[Response]]


def text(body: str, status: int = 200) -> Response:
    """A plain text answer."""
    return Response(status=status, body=body.encode())


class HttpServer:
    """Serves ``app`` on one port. ``on_failure`` is told of exceptions of the app; the client gets a 500."""

    def __init__(
        self,
        app: App,
        *,
        clock: NodeClock,
        on_failure: Callable[[str, Exception], None] = lambda path, problem: None,
    ) -> None:
        self._app = app
        self._clock = clock
        self._on_failure = on_failure
        self._connections = 0

    def listen(self, net: Net, host: str, port: int) -> Listening:
        """Start to listen; raises OSError (EADDRINUSE)."""
        return net.listen(host, port, self.serve)

    async def serve(self, stream: trio.abc.HalfCloseableStream) -> None:
        """Serve one connection to its end."""
        if self._connections >= MAX_CONNECTIONS:
            connection = _Connection(stream, self._clock)
            await connection.answer(text("too many connections", 503), head=False)
            return
        self._connections += 1
        try:
            await self._serve(_Connection(stream, self._clock))
        finally:
            self._connections -= 1

    async def _serve(self, connection: "_Connection") -> None:
        while True:
            request: Request | None = None
            with trio.move_on_after(IDLE_SECONDS):
                request = await connection.request()
            if request is None:
                return
            with trio.move_on_after(WRITE_SECONDS):
                await connection.answer(await self._respond(request), head=request.method == "HEAD")
            if not connection.reusable():
                return

    async def _respond(self, request: Request) -> Response:
        try:
            return await self._app(request)
        except Exception as problem:  # the border of the app: a fault there ends one answer, not the node
            self._on_failure(request.path, problem)
            return text("internal error", 500)


class _Connection:
    """One connection: h11's state machine over a stream."""

    def __init__(self, stream: trio.abc.HalfCloseableStream, clock: NodeClock) -> None:
        self._stream = stream
        self._clock = clock
        self._machine = h11.Connection(h11.SERVER)

    async def request(self) -> Request | None:
        """The next request with its body dropped; None at the end. Answers a broken one by itself."""
        try:
            head = await self._next()
            if not isinstance(head, h11.Request):
                return None
            if not _local(head):
                await self.answer(text("this server answers on loopback only", 403), head=False)
                return None
            size = 0
            while isinstance(event := await self._next(), h11.Data):
                size += len(event.data)
                if size > MAX_BODY_BYTES:
                    await self.answer(text("the body is too large", 413), head=False)
                    return None
            if not isinstance(event, h11.EndOfMessage):
                return None
        except h11.RemoteProtocolError as problem:
            if self._machine.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                await self.answer(text(str(problem), problem.error_status_hint), head=False)
            return None
        parts = urlsplit(head.target.decode("ascii", "replace"))
        return Request(
            method=head.method.decode("ascii", "replace"),
            path=unquote(parts.path, errors="replace") or "/",
            query=dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=100)),
        )

    async def answer(self, response: Response, *, head: bool) -> None:
        """Send an answer; ``head`` leaves the body away."""
        headers = {"Content-Type": response.content_type, "Date": self._date(), **response.headers}
        if response.chunks is None:
            headers["Content-Length"] = str(len(response.body))
        else:
            headers["Transfer-Encoding"] = "chunked"
        await self._send(h11.Response(status_code=response.status, headers=list(headers.items())))
        if response.chunks is None:
            if response.body and not head:
                await self._send(h11.Data(data=response.body))
        elif not head:
            await self._send_chunks(response.chunks)
        await self._send(h11.EndOfMessage())

    def reusable(self) -> bool:
        """Whether another request may come; makes ready for it."""
        if self._machine.our_state is h11.DONE and self._machine.their_state is h11.DONE:
            self._machine.start_next_cycle()
            return True
        return False

    async def _send_chunks(self, chunks: AsyncIterator[bytes]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until_gone, nursery.cancel_scope)
            async for chunk in chunks:
                if chunk:
                    await self._send(h11.Data(data=chunk))
            nursery.cancel_scope.cancel()

    async def _until_gone(self, scope: trio.CancelScope) -> None:
        """End an answer that nobody reads any more. What else a client sends meanwhile is bounded by h11."""
        try:
            while data := await self._stream.receive_some(_RECEIVE_BYTES):
                self._machine.receive_data(bytes(data))
        except (OSError, trio.BrokenResourceError, h11.ProtocolError):
            pass
        scope.cancel()

    async def _next(self) -> object:
        while (event := self._machine.next_event()) is h11.NEED_DATA:
            self._machine.receive_data(bytes(await self._stream.receive_some(_RECEIVE_BYTES)))
        return event

    async def _send(self, event: h11.Event) -> None:
        try:
            data = self._machine.send(event)  # pyright: ignore[reportArgumentType, reportCallIssue]
        except h11.LocalProtocolError:
            return  # the other side is gone, and h11 knows
        if data:
            await self._stream.send_all(data)

    def _date(self) -> str:
        return format_datetime(
            datetime.fromtimestamp(self._clock.now_ns() // 1_000_000_000, UTC), usegmt=True
        )


def _local(head: h11.Request) -> bool:
    """Whether the request was meant for this machine: a page that rebinds a name to loopback is kept out."""
    host = dict(head.headers).get(b"host", b"").decode("ascii", "replace")
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    return name in ("", "localhost", "[::1]") or name.startswith("127.")
