"""The line discipline of a terminal: what ``kubectl exec -it`` and ``attach -it`` talk to.

Typed bytes are echoed and collected into lines; erase, kill, interrupt and end of file work as a terminal's
do in its usual (canonical) mode. Programs that switch to raw mode are not emulated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from cri_fake.process import signals
from cri_fake.process.streams import OpenFile

__all__ = ["Terminal"]

MAX_LINE_BYTES = 4096
_ERASE = (0x7F, 0x08)
_KILL_LINE, _INTERRUPT, _QUIT, _END = 0x15, 0x03, 0x1C, 0x04
_CONTROL = {_INTERRUPT: signals.INT, _QUIT: signals.QUIT}


class Terminal(OpenFile):
    """One terminal: descriptors 0, 1 and 2 of a process all lead to it.

    ``take`` gets what is shown, ``room`` lets whoever shows or types more wait until enough was taken.
    ``interrupt`` is called with INT or QUIT when ^C or ^\\ is typed, with WINCH when the size changes. Its
    closing, when no process has it open any more, sets ``done`` and ends ``pump``.
    """

    def __init__(
        self,
        take: Callable[[bytes], None],
        interrupt: Callable[[int], None],
        room: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__()
        self.columns, self.rows = 0, 0
        self.echo = True
        self._room = room
        self._take = take
        self._interrupt = interrupt
        self._line = bytearray()
        self._ready = bytearray()
        self._ends = 0
        self._hung_up = False
        self._readers = trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope()
        self.done = trio.Event()

    @property
    def is_terminal(self) -> bool:
        return True

    def closed(self) -> None:
        self.done.set()
        self._scope.cancel()

    async def write(self, data: bytes) -> None:
        self._take(data.replace(b"\n", b"\r\n"))
        if self._room is not None:
            await self._room()

    def resize(self, columns: int, rows: int) -> None:
        """Take a new size; the programs learn of it by WINCH if it is another."""
        if (columns, rows) != (self.columns, self.rows):
            self.columns, self.rows = columns, rows
            self._interrupt(signals.WINCH)

    async def read(self, limit: int) -> bytes:
        """The rest of the oldest complete line; b"" after ^D on an empty line or when the peer has gone."""
        while not self._ready:
            if self._ends:
                self._ends -= 1
                return b""
            if self._hung_up:
                return b""
            await self._readers.park()
        newline = self._ready.find(b"\n") + 1
        count = min(newline or len(self._ready), limit)
        taken = bytes(self._ready[:count])
        del self._ready[:count]
        return taken

    async def pump(self, stream: trio.abc.ReceiveStream) -> None:
        """Take in what is typed, until the terminal is closed or the peer goes."""
        with self._scope:
            try:
                while chunk := bytes(await stream.receive_some()):
                    self.feed(chunk)
                    if self._room is not None:
                        await self._room()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            self.hang_up()

    def hang_up(self) -> None:
        """Nobody types any more: what was begun can be read, then comes the end."""
        self._ready += self._line
        self._line.clear()
        self._hung_up = True
        self._readers.unpark_all()

    def feed(self, data: bytes) -> None:
        """Take in typed bytes."""
        for byte in data:
            self._type(byte)

    def _type(self, byte: int) -> None:
        if byte in (0x0D, 0x0A):
            self._show(b"\r\n")
            self._submit(b"\n")
        elif byte in _ERASE:
            if self._line:
                self._erase()
        elif byte == _KILL_LINE:
            while self._line:
                self._erase()
        elif byte in _CONTROL:
            self._show(b"^C\r\n" if byte == _INTERRUPT else b"^\\\r\n")
            self._line.clear()
            self._interrupt(_CONTROL[byte])
        elif byte == _END:
            if self._line:
                self._submit(b"")
            else:
                self._ends += 1
                self._readers.unpark_all()
        elif len(self._line) < MAX_LINE_BYTES:
            self._line.append(byte)
            self._show(bytes([byte]) if byte >= 0x20 or byte == 0x09 else b"^" + bytes([byte + 0x40]))

    def _erase(self) -> None:
        last = self._line.pop()
        while 0x80 <= last < 0xC0 and self._line:  # the rest of a UTF-8 character
            last = self._line.pop()
        self._show(b"\b \b")

    def _show(self, data: bytes) -> None:
        if self.echo:
            self._take(data)

    def _submit(self, end: bytes) -> None:
        self._ready += self._line + end
        self._line.clear()
        self._readers.unpark_all()
