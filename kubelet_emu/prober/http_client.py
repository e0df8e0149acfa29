"""One HTTP GET as a probe or a lifecycle hook makes it, over the node's network.

No proxy, no keep-alive, no compression; certificates are not verified. Redirects are followed while the host
stays the same (PRB-24). Error texts are those of Go's HTTP client, as events show them (PRB-23).
"""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import trio
from attrs import frozen

from kubelet_emu.kuberuntime.gotext import go_quote
from kubelet_emu.prober.dial import DialError, dial
from kubelet_emu.prober.targets import HttpTarget, make_target
from node_host.net import Net

__all__ = ["BODY_LIMIT_BYTES", "HttpAnswer", "HttpBodyError", "HttpError", "http_get"]

BODY_LIMIT_BYTES: Final = 10 * 1024
"""How much of a body is read (PRB-23)."""
REDIRECTS_MAX: Final = 10
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_READ_BYTES: Final = 16 * 1024


class HttpError(Exception):
    """Raised when no answer came; its text is that of Go's client: ``Get "<url>": <cause>``."""

    def __init__(self, url: str, cause: str) -> None:
        self.cause = cause
        super().__init__(f"Get {go_quote(url)}: {cause}")


class HttpBodyError(Exception):
    """Raised when the answer began but its body could not be read."""


@frozen
class HttpAnswer:
    """The last answer: its code and the first part of its body as text."""

    status: int
    body: str


async def http_get(
    net: Net, target: HttpTarget, headers: Sequence[tuple[str, str]], *, timeout_seconds: float
) -> HttpAnswer:
    """GET the target. ``headers`` begin with Host. Raises ``HttpError`` and ``HttpBodyError``."""
    reading = [False]
    with trio.move_on_after(timeout_seconds):
        return await _follow(net, target, headers, reading)
    if reading[0]:
        raise HttpBodyError(
            "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
        )
    raise HttpError(target.url, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)")


async def _follow(
    net: Net, first: HttpTarget, headers: Sequence[tuple[str, str]], reading: list[bool]
) -> HttpAnswer:
    target = first
    for _ in range(REDIRECTS_MAX):
        reading[0] = False
        status, location, body = await _exchange(net, target, headers, reading)
        if status not in _REDIRECTS or not location:
            return HttpAnswer(status, body)
        following = _redirected(target, location)
        if following is None or following.host != first.host:
            return HttpAnswer(status, body)
        target = following
        headers = (("Host", target.authority), *headers[1:])
    raise HttpError(target.url, "stopped after 10 redirects")


def _redirected(target: HttpTarget, location: str) -> HttpTarget | None:
    """Where a Location leads, None if it names no web address."""
    try:
        parts = urlsplit(urljoin(target.url, location))
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return make_target(parts.scheme, parts.hostname, port, path)


async def _exchange(
    net: Net, target: HttpTarget, headers: Sequence[tuple[str, str]], reading: list[bool]
) -> tuple[int, str, str]:
    """One request on a connection of its own: code, Location, body."""
    try:
        plain = await dial(net, target.host, target.port)
    except DialError as error:
        raise HttpError(target.url, str(error)) from error
    async with plain:
        stream: trio.abc.Stream = plain
        if target.scheme == "https":
            stream = await _secured(plain, target)
        try:
            return await _converse(stream, target, headers, reading)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
            if reading[0]:
                raise HttpBodyError("unexpected EOF") from error
            raise HttpError(target.url, "read: connection reset by peer") from error


async def _secured(stream: trio.abc.Stream, target: HttpTarget) -> trio.abc.Stream:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    secured = trio.SSLStream(stream, context, server_hostname=target.host, https_compatible=True)
    try:
        await secured.do_handshake()
    except trio.BrokenResourceError as error:
        cause = error.__cause__
        plain_answer = isinstance(cause, ssl.SSLError) and cause.reason in (
            "WRONG_VERSION_NUMBER",
            "HTTP_REQUEST",
            "RECORD_LAYER_FAILURE",
        )
        text = "http: server gave HTTP response to HTTPS client" if plain_answer else "EOF"
        raise HttpError(target.url, text) from error
    return secured


async def _converse(
    stream: trio.abc.Stream, target: HttpTarget, headers: Sequence[tuple[str, str]], reading: list[bool]
) -> tuple[int, str, str]:
    import h11

    connection = h11.Connection(h11.CLIENT)
    try:
        request = h11.Request(method="GET", target=target.request_target, headers=list(headers))
        data = (connection.send(request) or b"") + (connection.send(h11.EndOfMessage()) or b"")
        await stream.send_all(data)
    except h11.LocalProtocolError as error:
        raise HttpError(target.url, f"net/http: invalid request: {error}") from error
    status, location, body = 0, "", b""
    try:
        while True:
            event = await _next_event(connection, stream)
            if isinstance(event, h11.Response):
                status, location, reading[0] = event.status_code, _location(event.headers), True
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                break
            if len(body) >= BODY_LIMIT_BYTES:
                break
    except h11.RemoteProtocolError as error:
        if reading[0]:
            raise HttpBodyError("unexpected EOF") from error
        text = "EOF" if connection.trailing_data[0] == b"" else f"malformed HTTP response: {error}"
        raise HttpError(target.url, text) from error
    if not status:
        raise HttpError(target.url, "EOF")
    return status, location, body[:BODY_LIMIT_BYTES].decode(errors="replace")


async def _next_event(connection: Any, stream: trio.abc.Stream) -> Any:
    import h11

    while True:
        event = connection.next_event()
        if event is not h11.NEED_DATA:
            return event
        connection.receive_data(await stream.receive_some(_READ_BYTES))


def _location(headers: Any) -> str:
    return next((value.decode("latin-1") for name, value in headers if name == b"location"), "")
