"""A SPDY/3.1 connection over a trio stream: one task reads, one writes, and streams are trio streams.

``run`` drives it until either side closes. Reading pauses while one stream holds more than
``MAX_UNREAD_BYTES`` that nobody has taken; whoever sends waits while as much is still to be written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import trio

from k8s_streams.spdy import (
    DataReceived,
    Ended,
    Event,
    Pong,
    SpdyConnection,
    StreamOpened,
    StreamReset,
    WindowOpened,
)
from k8s_streams.spdy_frames import ResetCode, SpdyFault

__all__ = ["MAX_UNREAD_BYTES", "SpdySession", "SpdyStream"]

MAX_UNREAD_BYTES = 1 << 18
_RECEIVE_BYTES = 65536


class _Signal:
    """Wakes all who wait, as often as one likes."""

    def __init__(self) -> None:
        self._lot = trio.lowlevel.ParkingLot()

    async def wait(self) -> None:
        await self._lot.park()

    def wake(self) -> None:
        self._lot.unpark_all()


class SpdyStream(trio.abc.HalfCloseableStream):
    """One stream of a connection, with the headers that it was opened with."""

    def __init__(self, session: SpdySession, stream_id: int, headers: Mapping[str, str]) -> None:
        self._session = session
        self.stream_id = stream_id
        self.headers = dict(headers)
        self.unread = bytearray()
        self.ended_here = False
        self.ended_there = False
        self.broken = False
        self.arrived = _Signal()
        self.may_send = _Signal()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Raises trio.BrokenResourceError once the stream was reset or the connection lost."""
        await trio.lowlevel.checkpoint()
        view = memoryview(data)
        connection = self._session.connection
        while view:
            if self.broken:
                raise trio.BrokenResourceError("the stream was reset or its connection is gone")
            if self.ended_here:
                raise trio.ClosedResourceError("this end of the stream is closed")
            sent = connection.send(self.stream_id, view)
            view = view[sent:]
            if sent:
                await self._session.written_enough()
            else:
                self._session.wake_writer()
                await self.may_send.wait()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self.unread:
            if self.broken:
                raise trio.BrokenResourceError("the stream was reset or its connection is gone")
            if self.ended_there:
                return b""
            await self.arrived.wait()
        taken = bytes(self.unread[:max_bytes])
        del self.unread[: len(taken)]
        self._session.connection.consumed(self.stream_id, len(taken))
        self._session.wake_writer()
        self._session.taken.wake()
        return taken

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()
        self.end()

    def end(self) -> None:
        """Send no more; twice is once."""
        if not self.ended_here and not self.broken:
            self.ended_here = True
            self._session.connection.end(self.stream_id)
            self._session.wake_writer()

    def reset(self, code: ResetCode = ResetCode.CANCEL) -> None:
        """End both directions at once."""
        self._session.connection.reset(self.stream_id, code)
        self._session.wake_writer()
        self.fail()

    def fail(self) -> None:
        """The stream is over; everyone who waits for it learns so."""
        self.broken = True
        self._session.forget(self)
        self.arrived.wake()
        self.may_send.wake()

    async def aclose(self) -> None:
        """Close: what was sent still arrives, what comes is dropped. Without an end from there, a reset."""
        self.end()
        if not self.ended_there and not self.broken:
            self.reset()
        self._session.forget(self)
        await trio.lowlevel.checkpoint()


class SpdySession:
    """One connection. Use ``async with``; ``accept`` gives the streams that the peer opens."""

    def __init__(
        self, transport: trio.abc.HalfCloseableStream, *, client: bool = False, received: bytes = b""
    ) -> None:
        self.connection = SpdyConnection(client=client)
        self.taken = _Signal()
        self.closed = trio.Event()
        self.fault: SpdyFault | None = None
        self._transport = transport
        self._received = received
        self._streams: dict[int, SpdyStream] = {}
        self._opened: deque[SpdyStream] = deque()
        self._opening = _Signal()
        self._pongs: dict[int, trio.Event] = {}
        self._writing = _Signal()
        self._written = _Signal()
        self._pending = bytearray()
        self._idle = trio.Event()
        self._nursery_manager: trio.abc.AsyncResource | None = None
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        """Read and write until the peer has gone, a fault ends it, or ``close`` is called."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    await self._read()
                    nursery.cancel_scope.cancel()
        finally:
            self.closed.set()
            for stream in list(self._streams.values()):
                stream.fail()
            for pong in self._pongs.values():
                pong.set()
            self._opening.wake()
            self._written.wake()

    def close(self) -> None:
        """End ``run`` now."""
        self._scope.cancel()

    async def accept(self) -> SpdyStream | None:
        """The next stream that the peer has opened; None once the connection is over."""
        while not self._opened:
            if self.closed.is_set():
                return None
            await self._opening.wait()
        return self._opened.popleft()

    def open_stream(self, headers: Mapping[str, str]) -> SpdyStream:
        """Open a stream of our own."""
        stream = SpdyStream(self, self.connection.open_stream(headers), headers)
        self._streams[stream.stream_id] = stream
        self.wake_writer()
        return stream

    def end_all(self) -> None:
        """Send nothing more on any stream."""
        for stream in list(self._streams.values()):
            stream.end()

    async def ping(self) -> bool:
        """Send a ping and wait for it; False if the connection ended first."""
        number = self.connection.ping()
        pong = self._pongs[number] = trio.Event()
        self.wake_writer()
        await pong.wait()
        return not self.closed.is_set()

    async def flush(self) -> None:
        """Wait until everything that was sent has gone to the transport."""
        self.wake_writer()
        while self._pending and not self.closed.is_set():
            await self._written.wait()

    def forget(self, stream: SpdyStream) -> None:
        """A stream is closed on both sides."""
        self._streams.pop(stream.stream_id, None)
        self.taken.wake()

    # -- writing --------------------------------------------------------------------------------------------

    def wake_writer(self) -> None:
        """Have what the connection wants to send written."""
        self._pending += self.connection.take_output()
        if self._pending:
            self._writing.wake()

    async def written_enough(self) -> None:
        """Wait while too much is to be written; raises trio.BrokenResourceError when the connection ends."""
        self.wake_writer()
        while len(self._pending) > MAX_UNREAD_BYTES:
            if self.closed.is_set():
                raise trio.BrokenResourceError("the connection is gone")
            await self._written.wait()

    async def _write(self) -> None:
        try:
            while True:
                self._pending += self.connection.take_output()
                if not self._pending:
                    await self._writing.wait()
                    continue
                chunk = bytes(self._pending[:_RECEIVE_BYTES])
                await self._transport.send_all(chunk)
                del self._pending[: len(chunk)]
                self._written.wake()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._scope.cancel()

    # -- reading --------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        data = self._received
        try:
            while True:
                if data:
                    for event in self.connection.receive(data):
                        self._handle(event)
                    self.wake_writer()
                    await self._pause()
                data = bytes(await self._transport.receive_some(_RECEIVE_BYTES))
                if not data:
                    return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return
        except SpdyFault as fault:
            self.fault = fault
            with trio.move_on_after(1.0):
                await self.flush()

    async def _pause(self) -> None:
        while any(len(stream.unread) > MAX_UNREAD_BYTES for stream in self._streams.values()):
            await self.taken.wait()

    def _handle(self, event: Event) -> None:
        match event:
            case StreamOpened(stream_id, headers):
                stream = self._streams[stream_id] = SpdyStream(self, stream_id, headers)
                self.connection.reply(stream_id)
                self._opened.append(stream)
                self._opening.wake()
            case DataReceived(stream_id, data):
                self._arrived(stream_id, data)
            case Ended(stream_id):
                if (stream := self._streams.get(stream_id)) is not None:
                    stream.ended_there = True
                    stream.arrived.wake()
            case StreamReset(stream_id, _):
                if (stream := self._streams.get(stream_id)) is not None:
                    stream.fail()
            case WindowOpened(stream_id):
                for number, stream in self._streams.items():
                    if stream_id in (0, number):
                        stream.may_send.wake()
            case Pong(ping_id):
                if (pong := self._pongs.pop(ping_id, None)) is not None:
                    pong.set()
            case _:
                return

    def _arrived(self, stream_id: int, data: bytes) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            self.connection.consumed(stream_id, len(data))
            return
        stream.unread += data
        stream.arrived.wake()

    # -- as a context ---------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._manager = trio.open_nursery()
        nursery = await self._manager.__aenter__()
        nursery.start_soon(self.run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self.close()
        return await self._manager.__aexit__(kind, error, trace)
