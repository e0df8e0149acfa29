"""What a file descriptor leads to: pipes, regular files, devices, sockets and the runtime's output.

Descriptors of several processes can share one open file; it counts its holders and closes with the last one.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import trio

from cri_fake.process.handles import Handle

__all__ = [
    "CAPACITY_BYTES",
    "BytesSource",
    "DeviceFile",
    "OpenFile",
    "Pipe",
    "PipeReader",
    "PipeWriter",
    "RegularFile",
    "Sink",
    "SocketFile",
    "StreamSource",
]

CAPACITY_BYTES = 65536
"""How much a pipe holds before its writer waits."""


class OpenFile:
    """One open file. ``read`` gives b"" at the end; ``write`` raises BrokenPipeError when nobody reads."""

    def __init__(self) -> None:
        self._holders = 1

    @property
    def is_terminal(self) -> bool:
        return False

    def hold(self) -> OpenFile:
        """One more descriptor leads here."""
        self._holders += 1
        return self

    def release(self) -> None:
        """One descriptor less; the last one closes."""
        self._holders -= 1
        if self._holders == 0:
            self.closed()

    def closed(self) -> None:
        """Called once, when no descriptor is left."""

    async def read(self, limit: int) -> bytes:
        raise OSError(9, "Bad file descriptor")

    async def write(self, data: bytes) -> None:
        raise OSError(9, "Bad file descriptor")


class RegularFile(OpenFile):
    """A file with its position."""

    def __init__(
        self, handle: Handle, *, append: bool = False, writable: bool = False, readable: bool = True
    ) -> None:
        super().__init__()
        self.handle = handle
        self.offset = 0
        self._append = append
        self._writable = writable
        self._readable = readable

    async def read(self, limit: int) -> bytes:
        if not self._readable:
            raise OSError(9, "Bad file descriptor")
        try:
            data = self.handle.read(self.offset, limit)
        except OSError as problem:
            raise _without_path(problem) from None
        self.offset += len(data)
        return data

    async def write(self, data: bytes) -> None:
        if not self._writable:
            raise OSError(9, "Bad file descriptor")
        try:
            if self._append:
                self.handle.append(data)
                self.offset = self.handle.size()
            else:
                self.handle.write(self.offset, data)
                self.offset += len(data)
        except OSError as problem:
            raise _without_path(problem) from None


def _without_path(problem: OSError) -> OSError:
    """As read(2) and write(2) fail: without a path. A volume's would be that on the node."""
    return problem if problem.errno is None else OSError(problem.errno, problem.strerror)


class DeviceFile(OpenFile):
    """/dev/null, zero, full and random."""

    def __init__(self, kind: str, rng: random.Random) -> None:
        super().__init__()
        self.kind = kind
        self._rng = rng

    async def read(self, limit: int) -> bytes:
        if self.kind in ("zero", "full"):
            return bytes(limit)
        return self._rng.randbytes(limit) if self.kind == "random" else b""

    async def write(self, data: bytes) -> None:
        if self.kind == "full":
            raise OSError(28, "No space left on device")


class Sink(OpenFile):
    """Where the runtime takes a process's output from. ``done`` is set when no process can write any more.

    ``room`` lets a writer wait, after each piece, until whoever looks on has taken enough.
    """

    def __init__(
        self, take: Callable[[bytes], None], room: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        super().__init__()
        self._take = take
        self._room = room
        self.done = trio.Event()

    def closed(self) -> None:
        self.done.set()

    async def write(self, data: bytes) -> None:
        self._take(data)
        if self._room is not None:
            await self._room()


class BytesSource(OpenFile):
    """Standard input given as a whole."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data
        self._at = 0

    async def read(self, limit: int) -> bytes:
        taken = self._data[self._at : self._at + limit]
        self._at += len(taken)
        return taken


class StreamSource(OpenFile):
    """Standard input that arrives over time."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        super().__init__()
        self._stream = stream
        self._rest = b""

    async def read(self, limit: int) -> bytes:
        if not self._rest:
            try:
                self._rest = bytes(await self._stream.receive_some())
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return b""
        taken, self._rest = self._rest[:limit], self._rest[limit:]
        return taken


class Pipe:
    """A bounded buffer between processes; ``reader`` and ``writer`` are its two ends."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.data_or_end = trio.lowlevel.ParkingLot()
        self.space_or_end = trio.lowlevel.ParkingLot()
        self.reader = PipeReader(self)
        self.writer = PipeWriter(self)
        self.read_closed = False
        self.write_closed = False


class PipeReader(OpenFile):
    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self._pipe = pipe

    def closed(self) -> None:
        self._pipe.read_closed = True
        self._pipe.space_or_end.unpark_all()

    async def read(self, limit: int) -> bytes:
        pipe = self._pipe
        while not pipe.buffer:
            if pipe.write_closed:
                return b""
            await pipe.data_or_end.park()
        taken = bytes(pipe.buffer[:limit])
        del pipe.buffer[:limit]
        pipe.space_or_end.unpark_all()
        return taken


class PipeWriter(OpenFile):
    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self._pipe = pipe

    def closed(self) -> None:
        self._pipe.write_closed = True
        self._pipe.data_or_end.unpark_all()

    def push(self, data: bytes) -> None:
        """Put in at once, over the pipe's capacity if need be; lost when nobody reads."""
        pipe = self._pipe
        if not pipe.read_closed:
            pipe.buffer += data
            pipe.data_or_end.unpark_all()

    async def room(self) -> None:
        """Wait until the pipe holds less than its capacity, or nobody reads any more."""
        pipe = self._pipe
        while len(pipe.buffer) >= CAPACITY_BYTES and not pipe.read_closed:
            await pipe.space_or_end.park()

    async def write(self, data: bytes) -> None:
        pipe = self._pipe
        rest = memoryview(data)
        while rest:
            if pipe.read_closed:
                raise BrokenPipeError(32, "Broken pipe")
            space = CAPACITY_BYTES - len(pipe.buffer)
            if space <= 0:
                await pipe.space_or_end.park()
                continue
            pipe.buffer += rest[:space]
            rest = rest[space:]
            pipe.data_or_end.unpark_all()


class SocketFile(OpenFile):
    """A connection, both ways."""

    def __init__(self, stream: trio.abc.HalfCloseableStream) -> None:
        super().__init__()
        self.stream = stream
        self._rest = b""

    async def read(self, limit: int) -> bytes:
        if not self._rest:
            try:
                self._rest = bytes(await self.stream.receive_some())
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return b""
        taken, self._rest = self._rest[:limit], self._rest[limit:]
        return taken

    async def write(self, data: bytes) -> None:
        try:
            await self.stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise BrokenPipeError(32, "Broken pipe") from None
