# pyright: basic
"""A SPDY/3.1 client of h11, zlib and struct, which shares nothing with the server but the dictionary.

It behaves as the clients of Kubernetes do: it ignores windows unless told to keep them.
"""

import struct
import zlib

import h11
import trio

from k8s_streams.spdy_frames import DICTIONARY

SYN_STREAM, SYN_REPLY, RST, SETTINGS, PING, GOAWAY, HEADERS, WINDOW = 1, 2, 3, 4, 6, 7, 8, 9


def request_bytes(machine: h11.Connection, url: str, headers, method: str = "POST") -> bytes:
    """An upgrade request for a URL."""
    _, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    request = h11.Request(method=method, target=f"/{path}", headers=[("Host", host), *headers])
    return machine.send(request) + machine.send(h11.EndOfMessage())


def address_of(url: str) -> tuple[str, int]:
    host, _, port = url.partition("://")[2].partition("/")[0].rpartition(":")
    return host, int(port)


async def http_answer(net, url: str, headers=(), method: str = "GET"):
    """Status, headers and body of a request that is not upgraded."""
    machine = h11.Connection(h11.CLIENT)
    stream = await net.connect(*address_of(url))
    await stream.send_all(request_bytes(machine, url, headers, method))
    found, body = None, b""
    while True:
        event = machine.next_event()
        if event is h11.NEED_DATA:
            machine.receive_data(bytes(await stream.receive_some()))
        elif isinstance(event, h11.Response | h11.InformationalResponse):
            found = event
            if event.status_code == 101:
                break
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        else:
            break
    await stream.aclose()
    return found.status_code, [(k.decode(), v.decode()) for k, v in found.headers], body.decode()


class SpdyClient:
    """One connection. ``read`` collects until what is wanted has come."""

    def __init__(self, stream, machine: h11.Connection) -> None:
        self.stream = stream
        self.protocol = ""
        self.buffer = bytes(machine.trailing_data[0])
        self.packer = zlib.compressobj(zdict=DICTIONARY)
        self.unpacker = zlib.decompressobj(zdict=DICTIONARY)
        self.next_id = 1
        self.data: dict[int, bytes] = {}
        self.replies: dict[int, dict[str, str]] = {}
        self.ended: set[int] = set()
        self.reset: dict[int, int] = {}
        self.pings: list[int] = []
        self.windows: dict[int, int] = {}
        self.goaway = False
        self.closed = False
        self.keeps_windows = False

    @classmethod
    async def connect(cls, net, url: str, protocols=("v4.channel.k8s.io",)) -> "SpdyClient":
        machine = h11.Connection(h11.CLIENT)
        headers = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("Content-Length", "0")]
        headers += [("X-Stream-Protocol-Version", name) for name in protocols]
        stream = await net.connect(*address_of(url))
        await stream.send_all(request_bytes(machine, url, headers))
        while True:
            event = machine.next_event()
            if event is h11.NEED_DATA:
                machine.receive_data(bytes(await stream.receive_some()))
            elif isinstance(event, h11.InformationalResponse):
                assert event.status_code == 101
                break
            else:
                raise AssertionError(event)
        client = cls(stream, machine)
        answer = {k.decode().lower(): v.decode() for k, v in event.headers}
        assert answer["upgrade"] == "SPDY/3.1"
        client.protocol = answer["x-stream-protocol-version"]
        return client

    async def control(self, kind: int, body: bytes, flags: int = 0) -> None:
        await self.stream.send_all(struct.pack(">HHI", 0x8003, kind, flags << 24 | len(body)) + body)

    async def open(self, fin: bool = False, **headers: str) -> int:
        stream_id, self.next_id = self.next_id, self.next_id + 2
        block = struct.pack(">I", len(headers))
        for name, value in headers.items():
            for part in (name.lower().encode(), value.encode()):
                block += struct.pack(">I", len(part)) + part
        packed = self.packer.compress(block) + self.packer.flush(zlib.Z_SYNC_FLUSH)
        await self.control(SYN_STREAM, struct.pack(">IIBB", stream_id, 0, 0, 0) + packed, int(fin))
        return stream_id

    async def send(self, stream_id: int, data: bytes, fin: bool = False) -> None:
        await self.stream.send_all(struct.pack(">II", stream_id, int(fin) << 24 | len(data)) + data)

    async def _frame(self) -> bool:
        while len(self.buffer) < 8 or len(self.buffer) < 8 + (
            struct.unpack_from(">I", self.buffer, 4)[0] & 0xFFFFFF
        ):
            try:
                got = bytes(await self.stream.receive_some())
            except trio.BrokenResourceError:
                got = b""
            if not got:
                self.closed = True
                return False
            self.buffer += got
        first, second = struct.unpack_from(">II", self.buffer)
        length = second & 0xFFFFFF
        body, self.buffer = self.buffer[8 : 8 + length], self.buffer[8 + length :]
        await self._take(first, second >> 24, body)
        return True

    async def _take(self, first: int, flags: int, body: bytes) -> None:
        if not first >> 31:
            self.data[first] = self.data.get(first, b"") + body
            if flags & 1:
                self.ended.add(first)
            if self.keeps_windows and body:
                for number in (0, first):
                    await self.control(WINDOW, struct.pack(">II", number, len(body)))
            return
        kind = first & 0xFFFF
        number = struct.unpack_from(">I", body)[0]
        if kind == SYN_REPLY:
            self.replies[number] = self._headers(body[4:])
        elif kind == RST:
            self.reset[number] = struct.unpack(">II", body)[1]
        elif kind == PING:
            self.pings.append(number)
            if number % 2 == 0:
                await self.control(PING, body)
        elif kind == GOAWAY:
            self.goaway = True
        elif kind == WINDOW:
            self.windows[number] = self.windows.get(number, 0) + struct.unpack(">II", body)[1]

    def _headers(self, packed: bytes) -> dict[str, str]:
        block = self.unpacker.decompress(packed)
        parts, at = [], 4
        while at < len(block):
            (length,) = struct.unpack_from(">I", block, at)
            parts.append(block[at + 4 : at + 4 + length].decode())
            at += 4 + length
        return dict(zip(parts[::2], parts[1::2], strict=True))

    async def until(self, condition) -> None:
        """Read frames until it holds; fails if the connection ends first."""
        while not condition():
            assert await self._frame(), "the connection ended early"

    async def to_end(self) -> None:
        """Read everything until the server closes."""
        while await self._frame():
            pass
        await self.stream.aclose()
