"""SPDY/3.1 frames: bytes to values and back (pure).

A control frame is ``1|version(15) type(16) flags(8) length(24)`` and its body, a data frame ``0|stream(31)
flags(8) length(24)`` and the data. Header blocks of one direction share one zlib stream that starts with a
dictionary of the words one expects. Large data frames are handed on in pieces, so that no frame has to be
held as a whole; control frames and header blocks have a limit.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from enum import IntEnum
from typing import TypeAlias

from attrs import field, frozen

__all__ = [
    "DICTIONARY",
    "Data",
    "Frame",
    "FrameReader",
    "FrameWriter",
    "GoAway",
    "Headers",
    "Ping",
    "Reset",
    "ResetCode",
    "Settings",
    "SpdyFault",
    "SynReply",
    "SynStream",
    "WindowUpdate",
]

_VERSION = 3
_HEADER_BYTES = 8
MAX_CONTROL_BYTES = 1 << 16
MAX_HEADER_BLOCK_BYTES = 1 << 18
"""How long the headers of one frame may be once they are unpacked."""
FIN, UNIDIRECTIONAL = 0x01, 0x02
SETTING_INITIAL_WINDOW = 7

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges "
    "age allow authorization cache-control connection content-base content-encoding content-language "
    "content-length content-location content-md5 content-range content-type date etag expect expires from "
    "host if-match if-modified-since if-none-match if-range if-unmodified-since last-modified location "
    "max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server te trailer "
    "transfer-encoding upgrade user-agent vary via warning www-authenticate method get status 200_OK version "
    "HTTP/1.1 url public set-cookie keep-alive origin"
)
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY: bytes = (
    b"".join(struct.pack(">I", len(word)) + word.replace("_", " ").encode() for word in _WORDS.split())
    + _REST.encode()
)
"""What both ends of a header stream have seen before its first byte."""


class SpdyFault(Exception):
    """The peer broke the protocol so that the connection cannot go on."""


class ResetCode(IntEnum):
    """Why a stream is ended at once."""

    PROTOCOL_ERROR = 1
    INVALID_STREAM = 2
    REFUSED_STREAM = 3
    UNSUPPORTED_VERSION = 4
    CANCEL = 5
    INTERNAL_ERROR = 6
    FLOW_CONTROL_ERROR = 7
    STREAM_IN_USE = 8
    STREAM_ALREADY_CLOSED = 9


class _Type(IntEnum):
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


@frozen(kw_only=True)
class SynStream:
    """A new stream. Several values of one header are joined by NUL."""

    stream_id: int
    headers: Mapping[str, str] = field(factory=dict[str, str])
    fin: bool = False
    unidirectional: bool = False
    priority: int = 0
    associated_id: int = 0


@frozen(kw_only=True)
class SynReply:
    """The other side takes the stream."""

    stream_id: int
    headers: Mapping[str, str] = field(factory=dict[str, str])
    fin: bool = False


@frozen(kw_only=True)
class Headers:
    """More headers of an open stream."""

    stream_id: int
    headers: Mapping[str, str] = field(factory=dict[str, str])
    fin: bool = False


@frozen(kw_only=True)
class Data:
    """Bytes of a stream; ``fin`` ends this direction."""

    stream_id: int
    data: bytes
    fin: bool = False


@frozen(kw_only=True)
class Reset:
    """The end of a stream, both ways and at once."""

    stream_id: int
    code: int = ResetCode.CANCEL


@frozen(kw_only=True)
class Settings:
    """Settings by number; 7 is the initial window."""

    values: Mapping[int, int] = field(factory=dict[int, int])


@frozen(kw_only=True)
class Ping:
    """To be sent back by whoever did not send it first: clients use odd numbers."""

    ping_id: int


@frozen(kw_only=True)
class GoAway:
    """No new streams after ``last_stream_id``."""

    last_stream_id: int = 0
    code: int = 0


@frozen(kw_only=True)
class WindowUpdate:
    """``delta_bytes`` more may be sent, on a stream or (0) on the connection."""

    stream_id: int
    delta_bytes: int


Frame: TypeAlias = SynStream | SynReply | Headers | Data | Reset | Settings | Ping | GoAway | WindowUpdate


class FrameWriter:
    """Turns values into bytes; one for each direction of a connection."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(wbits=11, memLevel=5, zdict=DICTIONARY)

    def write(self, frame: Frame) -> bytes:
        match frame:
            case Data():
                flags = FIN if frame.fin else 0
                return struct.pack(">II", frame.stream_id, flags << 24 | len(frame.data)) + frame.data
            case SynStream():
                flags = (FIN if frame.fin else 0) | (UNIDIRECTIONAL if frame.unidirectional else 0)
                head = struct.pack(">IIBB", frame.stream_id, frame.associated_id, frame.priority << 5, 0)
                return self._control(_Type.SYN_STREAM, flags, head + self._block(frame.headers))
            case SynReply() | Headers():
                kind = _Type.SYN_REPLY if isinstance(frame, SynReply) else _Type.HEADERS
                head = struct.pack(">I", frame.stream_id)
                return self._control(kind, FIN if frame.fin else 0, head + self._block(frame.headers))
            case Reset():
                return self._control(_Type.RST_STREAM, 0, struct.pack(">II", frame.stream_id, frame.code))
            case Settings():
                body = struct.pack(">I", len(frame.values))
                body += b"".join(struct.pack(">II", *pair) for pair in sorted(frame.values.items()))
                return self._control(_Type.SETTINGS, 0, body)
            case Ping():
                return self._control(_Type.PING, 0, struct.pack(">I", frame.ping_id))
            case GoAway():
                return self._control(_Type.GOAWAY, 0, struct.pack(">II", frame.last_stream_id, frame.code))
            case WindowUpdate():
                body = struct.pack(">II", frame.stream_id, frame.delta_bytes)
                return self._control(_Type.WINDOW_UPDATE, 0, body)

    def _control(self, kind: _Type, flags: int, body: bytes) -> bytes:
        if len(body) > MAX_CONTROL_BYTES:
            raise SpdyFault(f"{kind.name} of {len(body)} bytes: at most {MAX_CONTROL_BYTES} are sent")
        return struct.pack(">HHI", 0x8000 | _VERSION, kind, flags << 24 | len(body)) + body

    def _block(self, headers: Mapping[str, str]) -> bytes:
        text = struct.pack(">I", len(headers))
        for name, value in headers.items():
            for part in (name.lower().encode(), value.encode()):
                text += struct.pack(">I", len(part)) + part
        return self._packer.compress(text) + self._packer.flush(zlib.Z_SYNC_FLUSH)


class FrameReader:
    """Takes in bytes and gives the frames that are complete; one for each direction of a connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._unpacker = zlib.decompressobj(zdict=DICTIONARY)
        self._rest: tuple[int, int, bool] | None = None
        """Of a data frame that is being handed on: its stream, the bytes to come, and whether it ends."""

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete.

        Raises:
            SpdyFault: what comes is not SPDY/3.1, or is too large.
        """
        self._buffer += data
        found: list[Frame] = []
        while True:
            if self._rest is not None:
                if not self._take_data(found):
                    return found
                continue
            if len(self._buffer) < _HEADER_BYTES:
                return found
            first, second = struct.unpack_from(">II", self._buffer)
            flags, length = second >> 24, second & 0xFFFFFF
            if not first & 0x80000000:
                del self._buffer[:_HEADER_BYTES]
                self._rest = (first, length, bool(flags & FIN))
                continue
            version, kind = (first >> 16) & 0x7FFF, first & 0xFFFF
            if version != _VERSION:
                raise SpdyFault(f"SPDY version {version}: only 3 is spoken")
            if length > MAX_CONTROL_BYTES:
                raise SpdyFault(f"control frame of {length} bytes: at most {MAX_CONTROL_BYTES} are taken")
            if len(self._buffer) < _HEADER_BYTES + length:
                return found
            body = bytes(self._buffer[_HEADER_BYTES : _HEADER_BYTES + length])
            del self._buffer[: _HEADER_BYTES + length]
            frame = self._control(kind, flags, body)
            if frame is not None:
                found.append(frame)

    def _take_data(self, found: list[Frame]) -> bool:
        """Hand on what is there of a data frame; False if more is needed first."""
        assert self._rest is not None
        stream_id, length, fin = self._rest
        if length and not self._buffer:
            return False
        piece = bytes(self._buffer[:length])
        del self._buffer[:length]
        length -= len(piece)
        found.append(Data(stream_id=stream_id, data=piece, fin=fin and not length))
        self._rest = (stream_id, length, fin) if length else None
        return True

    def _control(self, kind: int, flags: int, body: bytes) -> Frame | None:
        try:
            return self._decode(kind, bool(flags & FIN), flags, body)
        except (struct.error, zlib.error, UnicodeDecodeError) as problem:
            raise SpdyFault(f"control frame of type {kind} cannot be read: {problem}") from None

    def _decode(self, kind: int, fin: bool, flags: int, body: bytes) -> Frame | None:
        match kind:
            case _Type.SYN_STREAM:
                stream_id, associated, priority = struct.unpack_from(">IIB", body)
                headers = self._headers(body[10:])
                return SynStream(
                    stream_id=stream_id & 0x7FFFFFFF,
                    associated_id=associated & 0x7FFFFFFF,
                    priority=priority >> 5,
                    headers=headers,
                    fin=fin,
                    unidirectional=bool(flags & UNIDIRECTIONAL),
                )
            case _Type.SYN_REPLY | _Type.HEADERS:
                (stream_id,) = struct.unpack_from(">I", body)
                make = SynReply if kind == _Type.SYN_REPLY else Headers
                return make(stream_id=stream_id & 0x7FFFFFFF, headers=self._headers(body[4:]), fin=fin)
            case _Type.RST_STREAM:
                stream_id, code = struct.unpack(">II", body)
                return Reset(stream_id=stream_id & 0x7FFFFFFF, code=code)
            case _Type.SETTINGS:
                (count,) = struct.unpack_from(">I", body)
                if len(body) != 4 + 8 * count:
                    raise SpdyFault(f"SETTINGS of {len(body)} bytes for {count} values")
                pairs = struct.iter_unpack(">II", body[4:])
                return Settings(values={name & 0xFFFFFF: value for name, value in pairs})
            case _Type.PING:
                return Ping(ping_id=struct.unpack(">I", body)[0])
            case _Type.GOAWAY:
                last, code = struct.unpack(">II", body)
                return GoAway(last_stream_id=last & 0x7FFFFFFF, code=code)
            case _Type.WINDOW_UPDATE:
                stream_id, delta = struct.unpack(">II", body)
                return WindowUpdate(stream_id=stream_id & 0x7FFFFFFF, delta_bytes=delta & 0x7FFFFFFF)
            case _:
                return None

    def _headers(self, packed: bytes) -> dict[str, str]:
        block = self._unpacker.decompress(packed, MAX_HEADER_BLOCK_BYTES)
        if self._unpacker.unconsumed_tail:
            raise SpdyFault(f"headers of more than {MAX_HEADER_BLOCK_BYTES} bytes")
        (count,) = struct.unpack_from(">I", block)
        at = 4
        parts: list[str] = []
        for _ in range(min(2 * count, len(block) // 4)):
            (length,) = struct.unpack_from(">I", block, at)
            at += 4
            if at + length > len(block):
                raise SpdyFault("a header is longer than its block")
            parts.append(block[at : at + length].decode())
            at += length
        if len(parts) != 2 * count:
            raise SpdyFault(f"{count} headers announced, {len(parts) // 2} found")
        return {name.lower(): value for name, value in zip(parts[::2], parts[1::2], strict=True)}
