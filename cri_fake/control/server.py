"""The control API: one line of text in, one line of JSON out, on a unix socket that only its owner can open.

An answer is ``{"ok": true, "result": {…}}`` or ``{"ok": false, "error": "…"}``. A connection may send many
lines; they are answered in order.
"""

import json
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import trio

from cri_fake.control.commands import MAX_LINE_BYTES, CommandProblem, Timed, parse_command
from cri_fake.control.desk import Desk
from trio_grpc.unix_path import SocketPath

__all__ = ["ask", "play", "serve_control"]

_BACKLOG = 16
_MAX_CONNECTIONS = 16
_ANSWER_SECONDS = 120.0
"""How long a client waits for the answer to one command; a downtime may be part of it."""
_MAX_ANSWER_BYTES = 1 << 20


async def serve_control(
    path: str, desk: Desk, *, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED
) -> None:
    """Answer commands on a socket (0600) at ``path`` until cancelled.

    Raises:
        OSError: the path cannot be taken, see ``SocketPath``.
    """
    with _listening(path) as listener:
        room = trio.CapacityLimiter(_MAX_CONNECTIONS)
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                connection, _ = await listener.accept()
                nursery.start_soon(_serve, trio.SocketStream(connection), desk, room)


@contextmanager
def _listening(path: str) -> "Generator[trio.socket.SocketType]":
    place = SocketPath(path)
    try:
        raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            raw.bind(place.bind_path)
            raw.listen(_BACKLOG)
            place.publish()
            yield trio.socket.from_stdlib_socket(raw)
        finally:
            raw.close()
    finally:
        place.give_back()


async def _serve(stream: trio.SocketStream, desk: Desk, room: trio.CapacityLimiter) -> None:
    """One connection; a peer that goes away or sends nonsense ends only that."""
    try:
        async with room, stream:
            await _each_line(stream, lambda text: _answer(desk, text))
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return


async def _each_line(stream: trio.SocketStream, answer: Callable[[str], Awaitable[dict[str, Any]]]) -> None:
    rest = b""
    while True:
        data = await stream.receive_some(MAX_LINE_BYTES)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            reply = await answer(line.decode("utf-8", "replace"))
            await stream.send_all(json.dumps(reply).encode() + b"\n")
        if len(rest) > MAX_LINE_BYTES:
            error = {"ok": False, "error": f"the command is longer than {MAX_LINE_BYTES} bytes"}
            await stream.send_all(json.dumps(error).encode() + b"\n")
            return


async def _answer(desk: Desk, text: str) -> dict[str, Any]:
    try:
        return {"ok": True, "result": await desk.do(parse_command(text))}
    except CommandProblem as problem:
        return {"ok": False, "error": str(problem)}


async def play(
    script: tuple[Timed, ...],
    desk: Desk,
    sleep_until: Callable[[float], Awaitable[None]],
    report: Callable[[str], None],
) -> None:
    """Carry out a file of commands, each at its time; ``report`` gets a line for each that fails."""

    async def carry_out(timed: Timed) -> None:
        try:
            await desk.do(timed.command)
        except CommandProblem as problem:
            report(f"line {timed.line}: {problem}")

    async with trio.open_nursery() as nursery:
        for timed in script:
            await sleep_until(timed.at_seconds)
            nursery.start_soon(carry_out, timed)


def ask(path: str, line: str) -> dict[str, Any]:
    """Send one command to the runtime behind ``path`` and return its answer. For programs without a loop.

    Raises:
        OSError: nobody answers there.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        connection.connect(path)
        connection.sendall(line.encode("utf-8", "replace") + b"\n")
        received = b""
        while not received.endswith(b"\n"):
            data = connection.recv(65536)
            if not data or len(received) > _MAX_ANSWER_BYTES:
                raise ConnectionError("the runtime closed the connection before it had answered")
            received += data
    return cast("dict[str, Any]", json.loads(received))
