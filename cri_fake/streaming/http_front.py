"""One HTTP/1.1 request that asks for an upgrade: reading it, and answering it.

A connection carries one request. Sizes and waits have bounds; what cannot be understood is answered with a
plain text error and closed.
"""

from __future__ import annotations

from collections.abc import Iterable

import h11
import trio
from attrs import frozen

__all__ = ["Upgrade", "answer", "read_request", "switch"]

REQUEST_SECONDS = 30.0
_RECEIVE_BYTES = 65536
_REASONS = {
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@frozen(kw_only=True)
class Upgrade:
    """A request. ``received`` is what came after it, in the protocol that is asked for."""

    method: str
    target: str
    headers: tuple[tuple[bytes, bytes], ...]
    received: bytes

    def values(self, name: str) -> tuple[str, ...]:
        """The comma-separated values of a header, over all its lines."""
        wanted = name.lower().encode()
        lines = [value.decode("latin-1") for key, value in self.headers if key == wanted]
        return tuple(part.strip() for line in lines for part in line.split(",") if part.strip())

    def upgrades_to(self) -> str:
        """The protocol that the connection is to become, in lower case; empty for none."""
        connection = [value.lower() for value in self.values("connection")]
        found = self.values("upgrade")
        return found[0].lower() if found and "upgrade" in connection else ""


async def read_request(stream: trio.abc.HalfCloseableStream) -> Upgrade | None:
    """The request of a connection; None if none came in time or it was broken, which is answered here."""
    machine = h11.Connection(h11.SERVER)
    request: h11.Request | None = None
    with trio.move_on_after(REQUEST_SECONDS):
        try:
            while True:
                event = machine.next_event()
                if event is h11.NEED_DATA:
                    data = bytes(await stream.receive_some(_RECEIVE_BYTES))
                    machine.receive_data(data)
                    if not data:
                        return None
                elif isinstance(event, h11.Request):
                    request = event
                elif isinstance(event, h11.EndOfMessage) or event is h11.PAUSED:
                    break
                elif isinstance(event, h11.ConnectionClosed):
                    return None
        except h11.RemoteProtocolError as problem:
            await answer(stream, problem.error_status_hint or 400, f"{problem}\n")
            return None
    if request is None:
        return None
    return Upgrade(
        method=request.method.decode(),
        target=request.target.decode("latin-1"),
        headers=tuple((bytes(name), bytes(value)) for name, value in request.headers),
        received=bytes(machine.trailing_data[0]),
    )


async def answer(
    stream: trio.abc.HalfCloseableStream,
    status: int,
    text: str,
    headers: Iterable[tuple[str, str]] = (),
) -> None:
    """A plain text answer; the connection is to be closed after it."""
    body = text.encode()
    lines = [
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in headers),
    ]
    await stream.send_all("\r\n".join([*lines, "", ""]).encode() + body)
    await stream.send_eof()


async def switch(stream: trio.abc.HalfCloseableStream, headers: Iterable[tuple[str, str]]) -> None:
    """Answer 101: from here on the other protocol is spoken."""
    lines = ["HTTP/1.1 101 Switching Protocols", *(f"{name}: {value}" for name, value in headers)]
    await stream.send_all("\r\n".join([*lines, "", ""]).encode())
