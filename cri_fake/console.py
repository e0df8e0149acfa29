"""The main process's standard streams: its log, whoever is attached, and what they type (CRI-057, CRI-122).

Without an attached client this is a call of the log and nothing else. Each client gets a copy of what comes
from then on. A client that takes nothing holds the container up, as with containerd, but not for ever: after
``PATIENCE_SECONDS`` it is let go.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from cri_fake.process.streams import Pipe, PipeReader
from cri_fake.process.terminal import Terminal

__all__ = ["Attached", "Console"]

PATIENCE_SECONDS = 10.0
MAX_CLIENTS = 64


class Attached:
    """One client: what it is to be shown, a pipe a stream. ``close`` detaches it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pipes = {"stdout": Pipe(), "stderr": Pipe()}
        self.closed = False

    @property
    def stdout(self) -> PipeReader:
        return self._pipes["stdout"].reader

    @property
    def stderr(self) -> PipeReader:
        return self._pipes["stderr"].reader

    def take(self, stream: str, data: bytes) -> None:
        """Show this too."""
        self._pipes[stream].writer.push(data)

    async def room(self) -> None:
        """Wait until it has taken enough; a client that does not is detached."""
        with trio.move_on_after(PATIENCE_SECONDS) as limit:
            for pipe in self._pipes.values():
                await pipe.writer.room()
        if limit.cancelled_caught:
            self.close()

    def close(self) -> None:
        """Show nothing more: what it has is still there to be read, then comes the end."""
        if not self.closed:
            self.closed = True
            self._console.detach(self)
            for pipe in self._pipes.values():
                pipe.writer.release()


class Console:
    """The streams of one main process. ``take`` gets its output; ``stdin`` is what it reads, if anything.

    ``terminal`` is set once the process has been started with one.
    """

    def __init__(
        self, log: Callable[[str, bytes], None], *, stdin: bool, stdin_once: bool, tty: bool
    ) -> None:
        self._log = log
        self._clients: tuple[Attached, ...] = ()
        self._typed = Pipe() if stdin and not tty else None
        self.accepts_stdin = stdin
        self.stdin_once = stdin_once
        self.tty = tty
        self.terminal: Terminal | None = None
        self.ended = False

    @property
    def stdin(self) -> PipeReader | None:
        return None if self._typed is None else self._typed.reader

    def take(self, stream: str, data: bytes) -> None:
        """Output of the main process, or told in its name."""
        self._log(stream, data)
        for client in self._clients:
            client.take(stream, data)

    async def room(self) -> None:
        """Wait for attached clients that are behind."""
        for client in self._clients:
            await client.room()

    def attach(self) -> Attached | None:
        """A new client; None if there are too many or the process has ended."""
        if self.ended or len(self._clients) >= MAX_CLIENTS:
            return None
        client = Attached(self)
        self._clients = (*self._clients, client)
        return client

    def detach(self, client: Attached) -> None:
        """A client has gone."""
        self._clients = tuple(each for each in self._clients if each is not client)

    async def type(self, data: bytes) -> bool:
        """What a client types; False if nobody reads it any more."""
        if self.terminal is not None:
            self.terminal.feed(data)
            await self.room()
            return not self.ended
        if self._typed is None:
            return False
        try:
            await self._typed.writer.write(data)
        except BrokenPipeError:
            return False
        return True

    def end_stdin(self) -> None:
        """The process reads the end from now on; twice is once."""
        if self._typed is not None and not self._typed.write_closed:
            self._typed.writer.release()

    def close(self) -> None:
        """The process has ended: so do the clients' streams."""
        self.ended = True
        for client in self._clients:
            client.close()
