"""What the applets share: usage errors, reading operands, complaining in busybox' words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from cri_fake.process.applets.options import Options, UsageError, parse_options
from cri_fake.process.proc import Exit, Proc
from cri_fake.process.programs import Program
from cri_fake.process.streams import OpenFile

__all__ = ["applet", "copy_stream", "fail", "inputs", "lines_of", "open_input", "options_of", "reason"]

_CHUNK_BYTES = 65536


def applet(function: Callable[[Proc], Awaitable[int]]) -> Program:
    """An applet: usage errors become a message and exit code 1."""

    async def program(proc: Proc) -> int:
        try:
            return await function(proc)
        except UsageError as problem:
            await proc.complain(str(problem))
            return 1

    program.__doc__ = function.__doc__
    return program


async def fail(proc: Proc, text: str, code: int = 1) -> Exit:
    """Say why, and give the exit to raise."""
    await proc.complain(text)
    return Exit(code)


def options_of(
    proc: Proc, spec: str, *, long: Mapping[str, str] | None = None, in_order: bool = False
) -> Options:
    return parse_options(proc.args, spec, long=long, in_order=in_order)


def reason(problem: OSError) -> str:
    return problem.strerror or str(problem)


def open_input(proc: Proc, name: str) -> OpenFile:
    """A file to read; ``-`` is standard input. Raises OSError."""
    if name == "-" and 0 in proc.fds:
        return proc.fds[0].hold()
    return proc.open(name)


async def read_fully(proc: Proc, file: OpenFile) -> bytes:
    """Everything an open file gives."""
    fd = _spare(proc)
    proc.set_fd(fd, file)
    try:
        return await proc.read_all(fd=fd)
    finally:
        proc.close_fd(fd)


def _spare(proc: Proc) -> int:
    fd = 10
    while fd in proc.fds:
        fd += 1
    return fd


async def inputs(proc: Proc, names: list[str]) -> list[tuple[str, bytes | None]]:
    """Name and content of each operand (standard input if there are none); None where one cannot be read.

    A list, not an asynchronous generator: a process may be killed anywhere, and trio wants those closed.
    """
    found: list[tuple[str, bytes | None]] = []
    for name in names or ["-"]:
        try:
            found.append((name, await read_fully(proc, open_input(proc, name))))
            continue
        except IsADirectoryError as problem:
            await proc.complain(f"read error: {reason(problem)}")
        except OSError as problem:
            await proc.complain(f"{name}: {reason(problem)}")
        found.append((name, None))
    return found


async def copy_stream(proc: Proc, file: OpenFile) -> None:
    """Everything from an open file to standard output, chunk by chunk."""
    fd = _spare(proc)
    proc.set_fd(fd, file)
    try:
        while chunk := await proc.read(_CHUNK_BYTES, fd=fd):
            await proc.write(chunk)
    finally:
        proc.close_fd(fd)


def lines_of(data: bytes) -> list[bytes]:
    """The lines, without their ends."""
    lines = data.split(b"\n")
    if lines and lines[-1] == b"":
        lines.pop()
    return lines
