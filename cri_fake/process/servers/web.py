"""A small HTTP/1.1 server for programs in a pod: whole requests in, whole answers out."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

import h11
import trio
from attrs import field, frozen

from cri_fake.process.applets.common import reason
from cri_fake.process.files import ContainerFiles
from cri_fake.process.proc import Exit, Proc
from node_host.net import Listening

__all__ = ["App", "WebRequest", "WebResponse", "file_response", "listen_or_fail", "serve_http", "text"]

MAX_BODY_BYTES = 1 << 20
IDLE_SECONDS = 75.0
_RECEIVE_BYTES = 65536
_TYPES = {
    ".html": "text/html",
    ".htm": "text/html",
    ".css": "text/css",
    ".js": "application/javascript",
    ".json": "application/json",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
}


@frozen(kw_only=True)
class WebRequest:
    """One request; header names are in lower case, ``query`` holds the first value of each name."""

    method: str
    path: str
    query: Mapping[str, str] = field(factory=dict[str, str])
    headers: Mapping[str, str] = field(factory=dict[str, str])
    body: bytes = b""
    peer: str = ""
    """Where it comes from, ``host:port``."""
    target: str = ""


@frozen(kw_only=True)
class WebResponse:
    """An answer."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


App = Callable[[WebRequest], Awaitable[WebResponse]]


def text(body: str, status: int = 200) -> WebResponse:
    """A plain text answer."""
    return WebResponse(status=status, body=body.encode("utf-8", "surrogateescape"))


async def listen_or_fail(
    proc: Proc, port: int, handler: Callable[[trio.abc.HalfCloseableStream], Awaitable[object]]
) -> Listening:
    """Listen on the pod's address; where that cannot be, say so and end the program with 1."""
    try:
        return proc.kernel.net.listen(proc.pod_ip, port, handler)
    except OSError as problem:
        why = "address already in use" if problem.errno == errno.EADDRINUSE else reason(problem)
        await proc.complain(f"listen tcp :{port}: bind: {why}")
        raise Exit(1) from None


async def serve_http(proc: Proc, port: int, app: App, *, server: str = "") -> Listening:
    """Serve ``app`` on a port of the pod until the listening is closed. ``server`` names it in answers."""

    async def serve(stream: trio.abc.HalfCloseableStream) -> None:
        await _Connection(stream, app, server).run()

    return await listen_or_fail(proc, port, serve)


class _Connection:
    """One connection: requests one after the other."""

    def __init__(self, stream: trio.abc.HalfCloseableStream, app: App, server: str) -> None:
        self._stream = stream
        self._app = app
        self._server = server
        self._machine = h11.Connection(h11.SERVER)
        self._peer = _peer_of(stream)

    async def run(self) -> None:
        while True:
            request = None
            with trio.move_on_after(IDLE_SECONDS):
                try:
                    request = await self._request()
                except h11.RemoteProtocolError as problem:
                    if self._machine.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                        status = problem.error_status_hint or 400
                        await self._answer(text(f"{problem}\n", status), head=False)
                    return
            if request is None:
                return
            await self._answer(await self._app(request), head=request.method == "HEAD")
            if self._machine.our_state is h11.MUST_CLOSE or self._machine.their_state is not h11.DONE:
                await self._stream.send_eof()
                return
            self._machine.start_next_cycle()

    async def _request(self) -> WebRequest | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._machine.next_event()
            if event is h11.NEED_DATA:
                if self._machine.they_are_waiting_for_100_continue:
                    go = h11.InformationalResponse(status_code=100, headers=[])
                    await self._stream.send_all(self._machine.send(go))
                self._machine.receive_data(bytes(await self._stream.receive_some(_RECEIVE_BYTES)))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > MAX_BODY_BYTES:
                    raise h11.RemoteProtocolError("the body is too large", error_status_hint=413)
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return self._understood(head, bytes(body))
            else:
                return None

    def _understood(self, head: h11.Request, body: bytes) -> WebRequest:
        target = head.target.decode("latin-1")
        parts = urlsplit(target)
        query: dict[str, str] = {}
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            query.setdefault(name, value)
        return WebRequest(
            method=head.method.decode(),
            path=unquote(parts.path),
            query=query,
            headers={name.decode(): value.decode("latin-1") for name, value in head.headers},
            body=body,
            peer=self._peer,
            target=target,
        )

    async def _answer(self, response: WebResponse, *, head: bool) -> None:
        headers = [("Content-Type", response.content_type), ("Content-Length", str(len(response.body)))]
        if self._server:
            headers.insert(0, ("Server", self._server))
        headers += response.headers
        data = self._machine.send(h11.Response(status_code=response.status, headers=headers))
        if not head:
            data += self._machine.send(h11.Data(data=response.body)) or b""
        data += self._machine.send(h11.EndOfMessage()) or b""
        await self._stream.send_all(data)


def _peer_of(stream: trio.abc.HalfCloseableStream) -> str:
    if isinstance(stream, trio.SocketStream):
        try:
            host, port, *_ = stream.socket.getpeername()
        except OSError:
            return "127.0.0.1:0"
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return "127.0.0.1:0"


def file_response(fs: ContainerFiles, root: str, path: str, *, missing: str) -> WebResponse:
    """A file under a folder, or a folder's index.html; ``missing`` is the page for what is not there."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    found = f"{root.rstrip('/')}/{'/'.join(names)}"
    try:
        if ".." in names:
            raise FileNotFoundError
        if fs.is_dir(found):
            found = f"{found.rstrip('/')}/index.html"
        body = fs.read(found)
    except OSError:
        return WebResponse(status=404, body=missing.encode(), content_type="text/html")
    ending = found[found.rfind(".") :]
    return WebResponse(body=body, content_type=_TYPES.get(ending, "application/octet-stream"))
