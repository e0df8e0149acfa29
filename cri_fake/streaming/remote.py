"""A command or an attached client between its channels and the container's processes.

Which protocol brought the channels makes no difference here. A client that goes away ends its streams: the
command reads the end of its input and can write nothing more, but goes on if it wants neither.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import frozen

from cri_fake.console import Attached, Console
from cri_fake.containers import ContainerOps
from cri_fake.execs import ExecOps, not_running
from cri_fake.process import ProcessHandle
from cri_fake.process.streams import Pipe, PipeReader, PipeWriter
from cri_fake.process.terminal import Terminal
from cri_fake.store.containers import WireState
from cri_fake.store.faults import Kind, Refused, not_found
from cri_fake.streaming.tickets import AttachTicket, ExecTicket
from cri_fake.world import World
from k8s_streams.subprotocols import (
    MAX_RESIZE_BYTES,
    failure_status,
    internal_status,
    parse_resize,
    success_status,
)

__all__ = ["Channels", "RemoteCommands"]

_CHUNK_BYTES = 32768
_STATUS_VERSION = 4
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)


@frozen(kw_only=True)
class Channels:
    """What a client has opened. ``gone`` returns when it has left; ``version`` is that of the subprotocol."""

    version: int
    error: trio.abc.HalfCloseableStream
    stdin: trio.abc.ReceiveStream | None
    stdout: trio.abc.HalfCloseableStream | None
    stderr: trio.abc.HalfCloseableStream | None
    resize: trio.abc.ReceiveStream | None
    gone: Callable[[], Awaitable[object]]


class RemoteCommands:
    """Serves exec and attach."""

    def __init__(self, world: World, containers: ContainerOps, execs: ExecOps) -> None:
        self._world = world
        self._containers = containers
        self._execs = execs

    async def exec(self, ticket: ExecTicket, channels: Channels) -> None:
        """Run the command and tell how it ended, unless the client goes first."""
        try:
            process, outputs, closing = await self._launch(ticket, channels)
        except Refused as refused:
            await _tell(channels, internal_status(refused.text), refused.text)
            return
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_gone, channels, nursery.cancel_scope)
                if channels.resize is not None and process.terminal is not None:
                    nursery.start_soon(_take_sizes, channels.resize, process.terminal)
                async with trio.open_nursery() as pumps:
                    for reader, stream in outputs:
                        pumps.start_soon(_show, reader, stream)
                    code = await process.wait()
                    if closing is not None:
                        await process.output_closed()
                        closing.release()
                text = f"command terminated with non-zero exit code: exit status {code}"
                status = failure_status(code) if code else success_status()
                await _tell(channels, status, text if code else "")
                nursery.cancel_scope.cancel()
        finally:
            for reader, _ in outputs:
                reader.release()

    async def _launch(
        self, ticket: ExecTicket, channels: Channels
    ) -> tuple[
        ProcessHandle, list[tuple[PipeReader, trio.abc.HalfCloseableStream | None]], PipeWriter | None
    ]:
        world = self._world
        container = world.containers.find(ticket.container_id)
        if container is None:
            raise not_found(f'failed to find container "{ticket.container_id}" in store')
        live = self._containers.live(container.id)
        if container.state is not WireState.RUNNING or live is None:
            raise not_running(world.profile, container)
        if not ticket.argv:
            raise Refused(Kind.INVALID_ARGUMENT, "exec command must not be empty", rule="CRI-110")
        await world.spend(world.latency.draw("ExecSync"))
        out, err = Pipe(), Pipe()
        if ticket.tty:
            process = self._execs.launch(
                container, live, ticket.argv, stdin=channels.stdin or _Silence(), tty=True,
                stdout=out.writer.push, stderr=out.writer.push, room=out.writer.room,
            )  # fmt: skip
            return process, [(out.reader, channels.stdout)], out.writer
        process = self._execs.launch(
            container, live, ticket.argv, stdin=channels.stdin, stdout=out.writer, stderr=err.writer
        )
        return process, [(out.reader, channels.stdout), (err.reader, channels.stderr)], None

    async def attach(self, ticket: AttachTicket, channels: Channels) -> None:
        """Show what the main process writes from now on, and let the client type."""
        live = self._containers.live(ticket.container_id)
        client = None if live is None else live.console.attach()
        if live is None or client is None:
            why = (
                "container is in CONTAINER_EXITED state" if live is None else "too many clients are attached"
            )
            await _tell(channels, internal_status(why, "attaching to container"), why)
            return
        console = live.console
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_gone, channels, nursery.cancel_scope)
                if channels.resize is not None and console.terminal is not None:
                    nursery.start_soon(_take_sizes, channels.resize, console.terminal)
                if channels.stdin is not None and console.accepts_stdin:
                    nursery.start_soon(_type, channels.stdin, console, client)
                async with trio.open_nursery() as pumps:
                    pumps.start_soon(_show, client.stdout, channels.stdout)
                    pumps.start_soon(_show, client.stderr, channels.stderr)
                await _tell(channels, success_status(), "")
                nursery.cancel_scope.cancel()
        finally:
            client.close()
            client.stdout.release()
            client.stderr.release()
            if ticket.stdin and console.stdin_once and not console.tty:
                console.end_stdin()


class _Silence(trio.abc.ReceiveStream):
    """A client that types nothing, as long as it is there."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.sleep_forever()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def _until_gone(channels: Channels, scope: trio.CancelScope) -> None:
    await channels.gone()
    scope.cancel()


async def _show(reader: PipeReader, stream: trio.abc.HalfCloseableStream | None) -> None:
    """Everything from a pipe to a channel; without a channel it is dropped."""
    while chunk := await reader.read(_CHUNK_BYTES):
        if stream is not None:
            try:
                await stream.send_all(chunk)
            except _GONE:
                stream = None
    if stream is not None:
        try:
            await stream.send_eof()
        except _GONE:
            return


async def _type(stream: trio.abc.ReceiveStream, console: Console, client: Attached) -> None:
    """What a client types to the main process. Its end ends the container's input if that is for one session,
    else the session.
    """
    try:
        while chunk := bytes(await stream.receive_some(_CHUNK_BYTES)):
            if not await console.type(chunk):
                break
    except _GONE:
        return
    if console.stdin_once and not console.tty:
        console.end_stdin()
    else:
        client.close()


async def _take_sizes(stream: trio.abc.ReceiveStream, terminal: Terminal) -> None:
    """Sizes of the client's window, one JSON object after the other."""
    rest = b""
    try:
        while chunk := bytes(await stream.receive_some(MAX_RESIZE_BYTES)):
            *objects, rest = (rest + chunk).replace(b"}", b"}\0").split(b"\0")
            for each in objects:
                size = parse_resize(each)
                if size is not None:
                    terminal.resize(*size)
            rest = rest[-MAX_RESIZE_BYTES:]
    except _GONE:
        return


async def _tell(channels: Channels, status: bytes, text: str) -> None:
    """How it ended, on the error channel: a Status from version 4 on, else text (CRI-118)."""
    said = status if channels.version >= _STATUS_VERSION else text.encode()
    try:
        if said:
            await channels.error.send_all(said)
        await channels.error.send_eof()
    except _GONE:
        return
