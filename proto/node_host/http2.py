"""As much of HTTP/2 and HPACK as one unary gRPC call needs, on either side (pure).

The client announces a header table of size 0, so servers send no dynamic entries. Decoding keeps ``:status``
and literal fields; other entries of the static table carry nothing that a gRPC status needs and are passed
over. Huffman codes are canonical: the symbols of each length, in order, determine them (RFC 7541, appendix
B); those beyond ASCII never occur in the fields read here.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from attrs import field, frozen

__all__ = [
    "PREFACE",
    "Frame",
    "FrameReader",
    "FrameType",
    "Http2Error",
    "decode_fields",
    "encode_fields",
    "frame_bytes",
    "header_block",
]

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY: Final = 0x20
MAX_FRAME_BYTES: Final = 16_384
_HEAD_BYTES: Final = 9
_HUFFMAN_SYMBOLS: Final[Mapping[int, str]] = {
    5: "012aceiost",
    6: " %-./3456789=A_bdfghlmnpru",
    7: ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz",
    8: "&*,;XZ",
    10: '!"()?',
    11: "'+|",
    12: "#>",
    13: "\0$@[]~",
    14: "^}",
    15: "<`{",
    19: "\\",
}
_STATUS_VALUES: Final = ("200", "204", "206", "304", "400", "404", "500")
_FIRST_STATUS: Final = 8
"""Index of ``:status: 200`` in the static table; the others follow."""

_STATIC_NAMES: Final[Mapping[int, str]] = {4: ":path", 5: ":path"} | dict.fromkeys(range(8, 15), ":status")
"""Names of the static table that are kept where a value is given with them."""


class FrameType:
    """Types of frames."""

    DATA = 0x0
    HEADERS = 0x1
    RST_STREAM = 0x3
    SETTINGS = 0x4
    PING = 0x6
    GOAWAY = 0x7
    WINDOW_UPDATE = 0x8
    CONTINUATION = 0x9


class Http2Error(Exception):
    """Raised for bytes that are no HTTP/2."""


@frozen
class Frame:
    """One frame; ``kind`` is one of ``FrameType``."""

    kind: int
    flags: int
    stream: int
    payload: bytes = b""


def frame_bytes(frame: Frame) -> bytes:
    """The frame on the wire."""
    head = len(frame.payload).to_bytes(3, "big") + bytes((frame.kind, frame.flags))
    return head + frame.stream.to_bytes(4, "big") + frame.payload


@frozen
class FrameReader:
    """Takes bytes in any pieces and gives whole frames."""

    _pending: bytearray = field(factory=bytearray)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """All frames that are complete now; raises ``Http2Error`` for a frame larger than was agreed."""
        self._pending.extend(data)
        while len(self._pending) >= _HEAD_BYTES:
            size = int.from_bytes(self._pending[:3], "big")
            if size > MAX_FRAME_BYTES:
                raise Http2Error(f"frame of {size} bytes")
            if len(self._pending) < _HEAD_BYTES + size:
                return
            kind, flags = self._pending[3], self._pending[4]
            stream = int.from_bytes(self._pending[5:9], "big") & 0x7FFF_FFFF
            payload = bytes(self._pending[_HEAD_BYTES : _HEAD_BYTES + size])
            del self._pending[: _HEAD_BYTES + size]
            yield Frame(kind, flags, stream, payload)


def header_block(frame: Frame) -> bytes:
    """The header block of a HEADERS or CONTINUATION frame, without padding and priority."""
    payload = frame.payload
    if frame.kind == FrameType.CONTINUATION:
        return payload
    padding = 0
    if frame.flags & PADDED:
        if not payload:
            raise Http2Error("padded frame without padding length")
        padding, payload = payload[0], payload[1:]
    if frame.flags & PRIORITY:
        payload = payload[5:]
    return payload[: len(payload) - padding]


def encode_fields(fields: Iterable[tuple[str, str]]) -> bytes:
    """Header fields as literals that are never indexed, without Huffman coding."""
    out = bytearray()
    for name, value in fields:
        out.append(0x00)
        for text in (name, value):
            raw = text.encode("latin-1")
            out += _integer(len(raw), 7)
            out += raw
    return bytes(out)


def _integer(value: int, prefix_bits: int) -> bytes:
    limit = (1 << prefix_bits) - 1
    if value < limit:
        return bytes((value,))
    out = bytearray((limit,))
    value -= limit
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    out.append(value)
    return bytes(out)


class _Block:
    """A header block being read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    def byte(self) -> int:
        if self.place >= len(self.data):
            raise Http2Error("header block ends too early")
        self.place += 1
        return self.data[self.place - 1]

    def integer(self, first: int, prefix_bits: int) -> int:
        limit = (1 << prefix_bits) - 1
        value = first & limit
        if value < limit:
            return value
        shift = 0
        while True:
            following = self.byte()
            value += (following & 127) << shift
            shift += 7
            if not following & 128:
                return value
            if shift > 28:
                raise Http2Error("integer too large")

    def text(self) -> str:
        first = self.byte()
        size = self.integer(first, 7)
        raw = self.data[self.place : self.place + size]
        if len(raw) < size:
            raise Http2Error("header block ends too early")
        self.place += size
        return _huffman(raw) if first & 128 else raw.decode("latin-1")


def decode_fields(data: bytes) -> list[tuple[str, str]]:
    """Fields of a header block: ``:status``, ``:path`` and literals with a literal name.

    Raises:
        Http2Error: the block cannot be read.
    """
    block = _Block(data)
    fields: list[tuple[str, str]] = []
    while block.place < len(data):
        first = block.byte()
        if first & 0x80:
            place = block.integer(first, 7) - _FIRST_STATUS
            if 0 <= place < len(_STATUS_VALUES):
                fields.append((":status", _STATUS_VALUES[place]))
            continue
        if first & 0x60 == 0x20:
            block.integer(first, 5)
            continue
        index = block.integer(first, 6 if first & 0x40 else 4)
        name = block.text() if index == 0 else _STATIC_NAMES.get(index, "")
        value = block.text()
        if name:
            fields.append((name, value))
    return fields


def _codes() -> Mapping[tuple[int, int], str]:
    """Symbol by length and code."""
    codes: dict[tuple[int, int], str] = {}
    code = length = 0
    for size, symbols in _HUFFMAN_SYMBOLS.items():
        code <<= size - length
        length = size
        for symbol in symbols:
            codes[size, code] = symbol
            code += 1
    return codes


_HUFFMAN: Final = _codes()
_LONGEST: Final = max(_HUFFMAN_SYMBOLS)


def _huffman(raw: bytes) -> str:
    out: list[str] = []
    code = length = 0
    for octet in raw:
        for bit in range(7, -1, -1):
            code, length = code << 1 | octet >> bit & 1, length + 1
            symbol = _HUFFMAN.get((length, code))
            if symbol is not None:
                out.append(symbol)
                code = length = 0
            elif length > _LONGEST:
                raise Http2Error("text beyond ASCII in a header")
    return "".join(out)
