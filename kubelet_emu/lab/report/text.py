"""Lines of text with a meaning for each part, for a terminal to colour and a pipe to leave plain. (pure)"""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from attrs import frozen

__all__ = ["Line", "Span", "Style", "line", "plain", "rows", "seconds_text", "shorten", "wrapped"]

Style: TypeAlias = Literal["", "head", "good", "bad", "warn", "dim", "run", "wait"]
"""What a part means: a heading, fine, wrong, worth a look, of less weight, at work, waiting."""


@frozen
class Span:
    """A part of a line."""

    text: str
    style: Style = ""


Line: TypeAlias = tuple[Span, ...]


def line(*parts: str | tuple[str, Style]) -> Line:
    """A line of parts: texts, or pairs of text and style."""
    return tuple(Span(part) if isinstance(part, str) else Span(*part) for part in parts)


def plain(lines: Iterable[Line]) -> tuple[str, ...]:
    """The bare text of lines."""
    return tuple("".join(span.text for span in spans).rstrip() for spans in lines)


def rows(cells: Sequence[Sequence[str | tuple[str, Style]]], *, indent: int = 2, gap: int = 2) -> list[Line]:
    """Cells in aligned columns; the last column is not padded."""
    if not cells:
        return []
    texts = [[cell if isinstance(cell, str) else cell[0] for cell in row] for row in cells]
    widths = [max(len(row[place]) for row in texts) + gap for place in range(len(texts[0]) - 1)]
    result: list[Line] = []
    for row, words in zip(cells, texts, strict=True):
        spans = [Span(" " * indent)]
        for place, (cell, word) in enumerate(zip(row, words, strict=True)):
            padded = word.ljust(widths[place]) if place < len(widths) else word
            spans.append(Span(padded, "" if isinstance(cell, str) else cell[1]))
        result.append(tuple(spans))
    return result


def shorten(text: str, width: int, *, ellipsis: str = "…") -> str:
    """The text in at most so many columns, cut at the end."""
    if len(text) <= width:
        return text
    return text[: max(width - len(ellipsis), 0)] + ellipsis[: max(width, 0)]


def wrapped(words: Iterable[Sequence[Span]], width: int, *, indent: int = 2, gap: int = 2) -> list[Line]:
    """Groups of spans one after the other, broken into lines at group borders."""
    result: list[Line] = []
    current: list[Span] = [Span(" " * indent)]
    used = indent
    for word in words:
        size = sum(len(span.text) for span in word)
        if used > indent and used + gap + size > width:
            result.append(tuple(current))
            current, used = [Span(" " * indent)], indent
        if used > indent:
            current.append(Span(" " * gap))
            used += gap
        current += word
        used += size
    if used > indent:
        result.append(tuple(current))
    return result


def seconds_text(seconds: float) -> str:
    """A time for people: ``0s``, ``3.4s``, ``125s``, ``12m30s``, ``2h05m``."""
    if seconds < 0.05:
        return "0s"
    if seconds < 99.95:
        return f"{seconds:.1f}s".replace(".0s", "s")
    whole = round(seconds)
    if whole < 600:
        return f"{whole}s"
    if whole < 7200:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"
