"""One SPDY/3.1 connection without I/O: streams, flow control, ping, goaway (pure).

Bytes go in through ``receive`` and come out as events; what is to be sent is in ``take_output``.

*Flow control.* The protocol has a window for each stream and one for the connection, 64 KiB at first. The
library that kubectl, the kubelet and crictl use ignores windows altogether: it neither waits for ours nor
opens its own. A peer is therefore taken to keep windows once it has sent SETTINGS or a WINDOW_UPDATE. Until
then 64 KiB are sent on trust; where they are used up a ping goes out, and a peer that answers it without ever
having opened a window keeps none, so that only the transport's own back-pressure counts from then on. Windows
for what we receive are always opened as data is consumed; a peer that oversteps them is not punished, the
reader above has to stop reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from attrs import define, frozen

from k8s_streams.spdy_frames import (
    SETTING_INITIAL_WINDOW,
    Data,
    Frame,
    FrameReader,
    FrameWriter,
    GoAway,
    Headers,
    Ping,
    Reset,
    ResetCode,
    Settings,
    SpdyFault,
    SynReply,
    SynStream,
    WindowUpdate,
)

__all__ = [
    "INITIAL_WINDOW_BYTES",
    "MAX_STREAMS",
    "DataReceived",
    "Ended",
    "Event",
    "GoingAway",
    "Pong",
    "Replied",
    "SpdyConnection",
    "StreamOpened",
    "StreamReset",
    "WindowOpened",
]

INITIAL_WINDOW_BYTES = 65536
MAX_WINDOW_BYTES = (1 << 31) - 1
_TAKEN = {":status": "200", ":version": "HTTP/1.1"}
"""What the protocol wants of every reply, though most clients of Kubernetes do not."""
MAX_STREAMS = 1024
"""How many streams the peer may have open at once; more are refused."""
MAX_DATA_BYTES = 16384
"""How much of a stream is sent in one frame, so that streams take turns."""


@frozen
class StreamOpened:
    """The peer has opened a stream."""

    stream_id: int
    headers: Mapping[str, str]


@frozen
class Replied:
    """The peer has taken a stream of ours."""

    stream_id: int


@frozen
class DataReceived:
    """Bytes of a stream; give back their number to ``consumed`` when they have been used."""

    stream_id: int
    data: bytes


@frozen
class Ended:
    """The peer sends no more on this stream."""

    stream_id: int


@frozen
class StreamReset:
    """The stream is over, both ways."""

    stream_id: int
    code: int


@frozen
class WindowOpened:
    """More may be sent, on one stream or (0) on all."""

    stream_id: int


@frozen
class Pong:
    """A ping of ours came back."""

    ping_id: int


@frozen
class GoingAway:
    """The peer takes no new streams."""

    last_stream_id: int


Event: TypeAlias = (
    StreamOpened | Replied | DataReceived | Ended | StreamReset | WindowOpened | Pong | GoingAway
)


@define
class _Stream:
    send_window_bytes: int
    unopened_bytes: int = 0
    """Received and consumed, but the window not yet opened again for them."""
    ended_here: bool = False
    ended_there: bool = False


class SpdyConnection:
    """One end of a connection."""

    def __init__(self, *, client: bool) -> None:
        self._reader = FrameReader()
        self._writer = FrameWriter()
        self._output = bytearray()
        self._streams: dict[int, _Stream] = {}
        self._next_id = self._next_ping = 1 if client else 2
        self._last_peer_id = 0
        self._initial_window_bytes = INITIAL_WINDOW_BYTES
        self._send_window_bytes = INITIAL_WINDOW_BYTES
        self._unopened_bytes = 0
        self._peer_keeps_windows = False
        self._unlimited = False
        self._probe_id = 0
        self._leaving = False

    # -- what is to be sent ---------------------------------------------------------------------------------

    def take_output(self) -> bytes:
        """The bytes to send now; they are forgotten here."""
        taken = bytes(self._output)
        self._output.clear()
        return taken

    def _send(self, frame: Frame) -> None:
        self._output += self._writer.write(frame)

    def open_stream(self, headers: Mapping[str, str], *, fin: bool = False) -> int:
        """Open a stream; gives its number. With ``fin`` nothing will be sent on it."""
        stream_id = self._next_id
        self._next_id += 2
        self._streams[stream_id] = _Stream(self._initial_window_bytes, ended_here=fin)
        self._send(SynStream(stream_id=stream_id, headers=headers, fin=fin))
        return stream_id

    def reply(self, stream_id: int) -> None:
        """Take a stream of the peer's."""
        if stream_id in self._streams:
            self._send(SynReply(stream_id=stream_id, headers=_TAKEN))

    def send(self, stream_id: int, data: bytes | memoryview) -> int:
        """Send what the windows allow now; gives how much that was. 0: wait for ``WindowOpened``.

        Raises:
            SpdyFault: the stream is closed on this side.
        """
        stream = self._streams.get(stream_id)
        if stream is None or stream.ended_here:
            raise SpdyFault(f"stream {stream_id} is closed")
        allowed = min(len(data), MAX_DATA_BYTES)
        if not self._unlimited:
            allowed = min(allowed, stream.send_window_bytes, self._send_window_bytes)
            if allowed <= 0 < len(data):
                self._probe()
                return 0
            stream.send_window_bytes -= allowed
            self._send_window_bytes -= allowed
        self._send(Data(stream_id=stream_id, data=bytes(data[:allowed])))
        return allowed

    def _probe(self) -> None:
        if not self._peer_keeps_windows and not self._probe_id:
            self._probe_id = self.ping()

    def end(self, stream_id: int) -> None:
        """Say that nothing more comes on this stream. Twice is once."""
        stream = self._streams.get(stream_id)
        if stream is not None and not stream.ended_here:
            stream.ended_here = True
            self._send(Data(stream_id=stream_id, data=b"", fin=True))
            self._forget_if_done(stream_id)

    def reset(self, stream_id: int, code: ResetCode = ResetCode.CANCEL) -> None:
        """End a stream at once. Nothing if it is over."""
        if self._streams.pop(stream_id, None) is not None:
            self._send(Reset(stream_id=stream_id, code=code))

    def ping(self) -> int:
        """Send a ping; gives its number."""
        ping_id = self._next_ping
        self._next_ping += 2
        self._send(Ping(ping_id=ping_id))
        return ping_id

    def go_away(self, code: int = 0) -> None:
        """Take no more streams."""
        self._leaving = True
        self._send(GoAway(last_stream_id=self._last_peer_id, code=code))

    def consumed(self, stream_id: int, count: int) -> None:
        """So many received bytes were used: opens the windows again, half a window at a time."""
        self._unopened_bytes += count
        if self._unopened_bytes >= INITIAL_WINDOW_BYTES // 2:
            self._send(WindowUpdate(stream_id=0, delta_bytes=self._unopened_bytes))
            self._unopened_bytes = 0
        stream = self._streams.get(stream_id)
        if stream is None or stream.ended_there:
            return
        stream.unopened_bytes += count
        if stream.unopened_bytes >= INITIAL_WINDOW_BYTES // 2:
            self._send(WindowUpdate(stream_id=stream_id, delta_bytes=stream.unopened_bytes))
            stream.unopened_bytes = 0

    # -- what comes in --------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Event]:
        """Take in bytes of the peer.

        Raises:
            SpdyFault: the connection cannot go on; a GOAWAY is ready to be sent.
        """
        events: list[Event] = []
        try:
            for frame in self._reader.feed(data):
                self._handle(frame, events)
        except SpdyFault:
            self.go_away(1)
            raise
        return events

    def _handle(self, frame: Frame, events: list[Event]) -> None:
        match frame:
            case SynStream():
                self._opened(frame, events)
            case SynReply(stream_id=stream_id, fin=fin):
                if stream_id in self._streams:
                    events.append(Replied(stream_id))
                    self._ended(stream_id, fin, events)
            case Headers(stream_id=stream_id, fin=fin):
                self._ended(stream_id, fin, events)
            case Data(stream_id=stream_id, data=data, fin=fin):
                self._data(stream_id, data, fin, events)
            case Reset(stream_id=stream_id, code=code):
                if self._streams.pop(stream_id, None) is not None:
                    events.append(StreamReset(stream_id, code))
            case Settings(values=values):
                self._settings(values, events)
            case WindowUpdate(stream_id=stream_id, delta_bytes=delta):
                self._window(stream_id, delta, events)
            case Ping(ping_id=ping_id):
                self._pinged(ping_id, events)
            case GoAway(last_stream_id=last):
                events.append(GoingAway(last))

    def _opened(self, frame: SynStream, events: list[Event]) -> None:
        stream_id = frame.stream_id
        theirs = stream_id % 2 != self._next_id % 2
        if not theirs or stream_id <= self._last_peer_id:
            raise SpdyFault(f"the peer opened stream {stream_id} after {self._last_peer_id}")
        self._last_peer_id = stream_id
        if len(self._streams) >= MAX_STREAMS or self._leaving:
            self._send(Reset(stream_id=stream_id, code=ResetCode.REFUSED_STREAM))
            return
        self._streams[stream_id] = _Stream(self._initial_window_bytes, ended_here=frame.unidirectional)
        events.append(StreamOpened(stream_id, frame.headers))
        self._ended(stream_id, frame.fin, events)

    def _data(self, stream_id: int, data: bytes, fin: bool, events: list[Event]) -> None:
        stream = self._streams.get(stream_id)
        if stream is None or stream.ended_there:
            self.consumed(0, len(data))
            if stream_id > self._last_peer_id and stream is None and stream_id >= self._next_id:
                self._send(Reset(stream_id=stream_id, code=ResetCode.INVALID_STREAM))
            return
        if data:
            events.append(DataReceived(stream_id, data))
        self._ended(stream_id, fin, events)

    def _ended(self, stream_id: int, fin: bool, events: list[Event]) -> None:
        stream = self._streams.get(stream_id)
        if fin and stream is not None and not stream.ended_there:
            stream.ended_there = True
            events.append(Ended(stream_id))
            self._forget_if_done(stream_id)

    def _forget_if_done(self, stream_id: int) -> None:
        stream = self._streams[stream_id]
        if stream.ended_here and stream.ended_there:
            del self._streams[stream_id]

    def _settings(self, values: Mapping[int, int], events: list[Event]) -> None:
        self._peer_keeps_windows = True
        window = values.get(SETTING_INITIAL_WINDOW)
        if window is None:
            return
        if window > MAX_WINDOW_BYTES:
            raise SpdyFault(f"an initial window of {window} bytes")
        for stream in self._streams.values():
            stream.send_window_bytes += window - self._initial_window_bytes
        self._initial_window_bytes = window
        events.append(WindowOpened(0))

    def _window(self, stream_id: int, delta: int, events: list[Event]) -> None:
        self._peer_keeps_windows = True
        if stream_id == 0:
            self._send_window_bytes += delta
            over = self._send_window_bytes > MAX_WINDOW_BYTES
        elif (stream := self._streams.get(stream_id)) is not None:
            stream.send_window_bytes += delta
            over = stream.send_window_bytes > MAX_WINDOW_BYTES
        else:
            return
        if over:
            raise SpdyFault(f"the window of stream {stream_id} is opened beyond {MAX_WINDOW_BYTES} bytes")
        events.append(WindowOpened(stream_id))

    def _pinged(self, ping_id: int, events: list[Event]) -> None:
        if ping_id % 2 != self._next_ping % 2:
            self._send(Ping(ping_id=ping_id))
            return
        events.append(Pong(ping_id))
        if ping_id == self._probe_id and not self._peer_keeps_windows:
            self._unlimited = True
            events.append(WindowOpened(0))
