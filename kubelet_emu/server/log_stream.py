"""The lines of one CRI log file as a log request wants them (LOG-04, LOG-11).

Mirrors ReadLogs of ``staging/src/k8s.io/cri-client/pkg/logs/logs.go``.
"""

from collections.abc import AsyncIterator, Callable

from attrs import frozen

from kubelet_emu.api.times import TimeError, parse_rfc3339
from kubelet_emu.server.log_request import LogOptions
from node_host.clock import NodeClock
from node_host.files import Files

__all__ = ["FOLLOW_SECONDS", "LogLine", "parse_line", "read_log", "tail_offset"]

FOLLOW_SECONDS = 0.25
"""How often a followed log is looked at."""

BLOCK_BYTES = 65536
MAX_LINE_BYTES = 1024 * 1024
"""A longer line is cut; runtimes write lines of at most 16 KiB."""


@frozen
class LogLine:
    """One line of a CRI log: its time, the time's text, the content; a partial one lacks the line end."""

    at_ns: int
    stamp: bytes
    content: bytes


def parse_line(raw: bytes) -> LogLine | None:
    """Read one line; None for what is no log line."""
    fields = raw.split(b" ", 3)
    if len(fields) < 3 or fields[1] not in (b"stdout", b"stderr"):
        return None
    try:
        at_ns = parse_rfc3339(fields[0].decode("ascii", "replace"))
    except TimeError:
        return None
    content = fields[3] if len(fields) == 4 else b""
    partial = fields[2].split(b":")[0] == b"P"
    return LogLine(at_ns, fields[0], content if partial else content + b"\n")


def tail_offset(files: Files, path: str, lines: int) -> int:
    """Where the last ``lines`` lines of a file begin. Raises OSError."""
    end = files.stat(path).size
    start, seen = end, 0
    while start > 0:
        begin = max(start - BLOCK_BYTES, 0)
        block = files.read(path, offset=begin, limit=start - begin)
        position = len(block)
        while (position := block.rfind(b"\n", 0, position)) >= 0:
            if begin + position + 1 >= end:
                continue  # the line end of the last line
            seen += 1
            if seen >= lines:
                return begin + position + 1
        start = begin
    return end if lines == 0 else 0


async def read_log(
    files: Files,
    clock: NodeClock,
    path: str,
    options: LogOptions,
    *,
    running: Callable[[], bool],
) -> AsyncIterator[bytes]:
    """The content in pieces; with ``follow`` until ``running`` says no and all has been read.

    A file that is not there (any more) ends it.
    """
    try:
        offset = 0 if options.tail_lines is None else tail_offset(files, path, options.tail_lines)
        if options.tail_lines == 0:
            offset = files.stat(path).size
    except OSError:
        return
    left = options.limit_bytes
    rest = b""
    while True:
        goes_on = running()  # before the look, so that what was written last is not missed
        try:
            block = files.read(path, offset=offset, limit=BLOCK_BYTES)
        except OSError:
            return
        offset += len(block)
        pieces = (rest + block).split(b"\n")
        rest = pieces.pop()[:MAX_LINE_BYTES]
        data = b"".join(_shown(piece, options) for piece in pieces)
        if left is not None:
            data = data[:left]
            left -= len(data)
        if data:
            yield data
        if left == 0:
            return
        if len(block) < BLOCK_BYTES:
            if not options.follow or not goes_on:
                return
            await clock.sleep(FOLLOW_SECONDS)


def _shown(raw: bytes, options: LogOptions) -> bytes:
    line = parse_line(raw)
    if line is None or (options.since_ns is not None and line.at_ns < options.since_ns):
        return b""
    return line.stamp + b" " + line.content if options.timestamps else line.content
