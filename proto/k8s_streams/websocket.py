"""Channels over a WebSocket, the server's side: each message starts with the number of its channel.

``wsproto`` speaks the protocol; here its messages become trio streams, one a channel. Version 5 of the
subprotocol lets the client end one channel, which no other can.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

import trio
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from k8s_streams.subprotocols import Channel, WebSocketProtocol

__all__ = ["ByteMessages", "ChannelStream", "WebSocketChannels", "WebSocketServer"]

MAX_UNREAD_BYTES = 1 << 18
MAX_MESSAGE_BYTES = 1 << 20
_MAX_SEND_BYTES = 1 << 15
_RECEIVE_BYTES = 65536
_CLOSE_SECONDS = 2.0
_NORMAL, _POLICY, _TOO_LARGE = 1000, 1008, 1009


class WebSocketServer:
    """The frames of one WebSocket. ``head`` are the headers of the upgrade request, as h11 gives them."""

    def __init__(
        self,
        transport: trio.abc.HalfCloseableStream,
        *,
        head: Iterable[tuple[bytes, bytes]],
        target: str,
        received: bytes = b"",
    ) -> None:
        self._transport = transport
        self._machine = WSConnection(ConnectionType.SERVER)
        self._machine.initiate_upgrade_connection([(bytes(k), bytes(v)) for k, v in head], target)
        self._received = received
        self._send_lock = trio.Lock()
        self.offered: tuple[str, ...] = ()
        for event in self._machine.events():
            if isinstance(event, Request):
                self.offered = tuple(event.subprotocols)

    async def accept(self, subprotocol: str) -> None:
        """Answer 101 with this subprotocol; empty for none."""
        await self._send(AcceptConnection(subprotocol=subprotocol or None))
        if self._received:
            self._machine.receive_data(self._received)

    async def refuse(self, status: int) -> None:
        """Answer with this HTTP status."""
        await self._send(RejectConnection(status_code=status))

    async def send(self, data: bytes, *, text: bool = False) -> None:
        """One message. Raises trio.BrokenResourceError when the client has gone."""
        await self._send(TextMessage(data=data.decode()) if text else BytesMessage(data=data))

    async def _send(self, event: AcceptConnection | RejectConnection | BytesMessage | TextMessage) -> None:
        async with self._send_lock:
            try:
                out = self._machine.send(event)
            except LocalProtocolError:
                raise trio.BrokenResourceError("the WebSocket is closed") from None
            await self._transport.send_all(out)

    async def messages(self, take: MessageTaker) -> None:
        """Hand on messages as they come, in pieces, until the client closes or breaks the protocol."""
        size = 0
        while True:
            try:
                for event in self._machine.events():
                    if isinstance(event, Ping):
                        async with self._send_lock:
                            await self._transport.send_all(self._machine.send(event.response()))
                    elif isinstance(event, BytesMessage | TextMessage):
                        data = event.data.encode() if isinstance(event, TextMessage) else bytes(event.data)
                        size += len(data)
                        if size > MAX_MESSAGE_BYTES:
                            await self.close(_TOO_LARGE)
                            return
                        await take(data, event.message_finished)
                        if event.message_finished:
                            size = 0
                    elif isinstance(event, CloseConnection):
                        if self._machine.state is not ConnectionState.REMOTE_CLOSING:
                            await self.close(event.code)  # it broke the protocol
                            return
                        async with self._send_lock:
                            await self._transport.send_all(self._machine.send(event.response()))
                        return
                if self._machine.state is ConnectionState.CLOSED:
                    return
                data = bytes(await self._transport.receive_some(_RECEIVE_BYTES))
                self._machine.receive_data(data or None)
            except RemoteProtocolError:
                await self.close(_POLICY)
                return
            except (trio.BrokenResourceError, trio.ClosedResourceError, LocalProtocolError):
                return

    async def close(self, code: int = _NORMAL) -> None:
        """Say goodbye; nothing if the client has gone."""
        with trio.move_on_after(_CLOSE_SECONDS):
            async with self._send_lock:
                try:
                    await self._transport.send_all(self._machine.send(CloseConnection(code=code)))
                except (trio.BrokenResourceError, trio.ClosedResourceError, LocalProtocolError):
                    return


class MessageTaker:
    """Gets pieces of messages; ``last`` marks the end of one."""

    async def __call__(self, data: bytes, last: bool) -> None:
        raise NotImplementedError


class _Inbox:
    """What has come on one channel: bounded, with an end."""

    def __init__(self) -> None:
        self.unread = bytearray()
        self.ended = False
        self.changed = trio.lowlevel.ParkingLot()

    async def put(self, data: bytes) -> None:
        while len(self.unread) > MAX_UNREAD_BYTES and not self.ended:
            await self.changed.park()
        if not self.ended:
            self.unread += data
            self.changed.unpark_all()

    async def take(self, max_bytes: int | None) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self.unread and not self.ended:
            await self.changed.park()
        taken = bytes(self.unread[:max_bytes])
        del self.unread[: len(taken)]
        self.changed.unpark_all()
        return taken

    def end(self) -> None:
        self.ended = True
        self.changed.unpark_all()


class ChannelStream(trio.abc.HalfCloseableStream):
    """One channel as a stream. ``send_eof`` only stops sending: no version tells the client."""

    def __init__(self, channels: WebSocketChannels, number: int) -> None:
        self._channels = channels
        self._number = number
        self.inbox = _Inbox()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        view = memoryview(data)
        if not view:
            await self._channels.send(self._number, b"")
        while view:
            await self._channels.send(self._number, bytes(view[:_MAX_SEND_BYTES]))
            view = view[_MAX_SEND_BYTES:]

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self.inbox.take(max_bytes)

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self.inbox.end()
        await trio.lowlevel.checkpoint()


class WebSocketChannels(MessageTaker):
    """The channels of one WebSocket; those that nobody asked for are dropped."""

    def __init__(self, socket: WebSocketServer, protocol: WebSocketProtocol, numbers: Iterable[int]) -> None:
        self._socket = socket
        self._protocol = protocol
        self._streams = {number: ChannelStream(self, number) for number in numbers}
        self._current: int | None = None
        self._text = bytearray()

    def __getitem__(self, number: int) -> ChannelStream:
        return self._streams[number]

    async def run(self) -> None:
        """Read until the client has gone; then every channel ends."""
        try:
            await self._socket.messages(self)
        finally:
            for stream in self._streams.values():
                stream.inbox.end()

    async def send(self, number: int, data: bytes) -> None:
        """One message on a channel."""
        if self._protocol.base64:
            await self._socket.send(b"%d" % number + base64.b64encode(data), text=True)
        else:
            await self._socket.send(bytes([number]) + data)

    async def __call__(self, data: bytes, last: bool) -> None:
        if self._protocol.base64:
            self._text += data
            if last:
                text, self._text = bytes(self._text), bytearray()
                await self._take_base64(text)
            return
        if self._current is None and data:
            self._current, data = data[0], data[1:]
        if self._current is not None and data:
            await self._put(self._current, data)
        if last:
            self._current = None

    async def _take_base64(self, text: bytes) -> None:
        if not text[:1].isdigit():
            return
        try:
            data = base64.b64decode(text[1:])
        except binascii.Error:
            return
        if data:
            await self._put(int(text[:1]), data)

    async def _put(self, number: int, data: bytes) -> None:
        if number == Channel.CLOSE and self._protocol.version >= 5:
            ended = self._streams.get(data[0])
            if ended is not None:
                ended.inbox.end()
            return
        stream = self._streams.get(number)
        if stream is not None:
            await stream.inbox.put(data)


class ByteMessages(MessageTaker, trio.abc.HalfCloseableStream):
    """A WebSocket as one stream of bytes, whatever the messages are: what SPDY is tunnelled through."""

    def __init__(self, socket: WebSocketServer) -> None:
        self._socket = socket
        self._inbox = _Inbox()

    async def run(self) -> None:
        """Read until the client has gone."""
        try:
            await self._socket.messages(self)
        finally:
            self._inbox.end()

    async def __call__(self, data: bytes, last: bool) -> None:
        await self._inbox.put(data)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._socket.send(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self._inbox.take(max_bytes)

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self._inbox.end()
        await trio.lowlevel.checkpoint()
