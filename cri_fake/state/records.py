"""The records of a journal: one line each, with a checksum, and what can be read of a file (pure).

    line = CRC-32 of the rest, 8 hex digits · blank · JSON · newline

A crash can cut the last line short, and nothing else. A bad line with a good one after it is damage, which is
told and never repaired silently.
"""

import json
import zlib
from collections.abc import Iterable
from typing import Any, cast

from attrs import frozen

__all__ = ["FORMAT", "Damaged", "Journaled", "header", "line", "read_journal", "snapshot"]

FORMAT = 1


class Damaged(Exception):
    """Raised for a journal that a crash cannot have left behind; says where."""


@frozen
class Journaled:
    """What a journal says: the newest line and value of each key, in the order in which the keys came.

    ``good_bytes`` is where the next line has to go; what lies after is the rest of a line that was cut.
    """

    lines: dict[str, bytes]
    values: dict[str, Any]
    good_bytes: int


def line(key: str, value: Any) -> bytes:
    """The record that ``key`` has this value from now on; None: there is no such thing any more."""
    return _framed({"k": key, "v": value})


def header(snapshot_records: int) -> bytes:
    """The first line of a journal, and how many lines after it were written together with it."""
    return _framed({"format": FORMAT, "snapshot": snapshot_records})


def _framed(content: dict[str, Any]) -> bytes:
    text = json.dumps(content, separators=(",", ":"), sort_keys=True).encode("ascii")
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _read(framed: bytes) -> dict[str, Any] | None:
    """The content of a line (without its newline); None if it is none."""
    checksum, blank, text = framed.partition(b" ")
    if not blank or checksum != b"%08x" % zlib.crc32(text):
        return None
    try:
        content = json.loads(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", content) if isinstance(content, dict) else None


def read_journal(data: bytes) -> Journaled:
    """Read a journal as far as it goes.

    Raises:
        Damaged: the beginning is not whole, or something is wrong before the end.
    """
    *whole, _ = data.split(b"\n")
    contents = [_read(each) for each in whole]
    good = next((at for at, content in enumerate(contents) if content is None), len(contents))
    if any(content is not None for content in contents[good:]):
        raise Damaged(f"line {good + 1} is damaged, though lines after it are good")
    first = contents[0] if good else None
    if first is None or first.get("format") != FORMAT:
        raise Damaged(f"the first line is not that of a journal of format {FORMAT}")
    snapshot = first.get("snapshot")
    if not isinstance(snapshot, int) or good - 1 < snapshot:
        raise Damaged(f"{good - 1} of the {snapshot} records that were written together are there")
    lines: dict[str, bytes] = {}
    values: dict[str, Any] = {}
    for framed, content in zip(whole[1:good], contents[1:good], strict=True):
        _take(lines, values, framed + b"\n", content)
    return Journaled(lines, values, sum(len(each) + 1 for each in whole[:good]))


def _take(
    lines: dict[str, bytes], values: dict[str, Any], framed: bytes, content: dict[str, Any] | None
) -> None:
    key = "" if content is None else content.get("k")
    if content is None or not isinstance(key, str) or "v" not in content:
        raise Damaged(f"{framed[:80]!r} is no record")
    if content["v"] is None:
        lines.pop(key, None)
        values.pop(key, None)
    else:
        lines[key], values[key] = framed, content["v"]


def snapshot(lines: Iterable[bytes], count: int) -> bytes:
    """A whole new journal that says the same as these lines."""
    return header(count) + b"".join(lines)
