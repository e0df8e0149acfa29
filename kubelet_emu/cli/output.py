"""Writing to the terminal or a pipe: colours, the encoding's limits, and readers that go away."""

import os
import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

import click

from kubelet_emu.errors import CallerError, Problem

if TYPE_CHECKING:
    from kubelet_emu.lab.report import Glyphs
    from kubelet_emu.lab.report.text import Line

__all__ = ["Output"]

PIPE_WIDTH = 120
"""Columns of what is written to a pipe or a file."""

_COLOURS: dict[str, dict[str, object]] = {
    "head": {"bold": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red", "bold": True},
    "warn": {"fg": "yellow"},
    "dim": {"dim": True},
    "run": {"fg": "cyan"},
    "wait": {"fg": "magenta"},
}


class Output:
    """One stream. After its reader has gone (``closed``) writing does nothing.

    ``terminal``: a person looks at it, so lines may be rewritten. Colours need a terminal, no ``NO_COLOR``
    and no ``--no-color``.
    """

    def __init__(self, stream: TextIO, *, no_color: bool = False) -> None:
        self._stream = stream
        self.closed = False
        dumb = os.environ.get("TERM", "") in ("", "dumb")
        self.terminal = _is_terminal(stream) and not dumb
        self.colour = self.terminal and not no_color and not os.environ.get("NO_COLOR")
        self._status = ""
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            # A log line in a foreign alphabet must not end the program on a terminal that cannot show it.
            reconfigure(errors="replace")

    @property
    def width(self) -> int:
        """Columns to fill."""
        if not self.terminal:
            return PIPE_WIDTH
        return max(shutil.get_terminal_size((PIPE_WIDTH, 24)).columns - 1, 40)

    @property
    def glyphs(self) -> "Glyphs":
        """Characters that the stream's encoding can show."""
        from kubelet_emu.lab.report import ASCII, UNICODE

        encoding = (getattr(self._stream, "encoding", None) or "ascii").lower().replace("-", "")
        return UNICODE if encoding.startswith("utf") else ASCII

    def write(self, text: str) -> None:
        """Write a whole line; the status line, if there is one, stays below it."""
        self._put(f"{_ERASE if self._status else ''}{text}\n{self._status}")

    def lines(self, lines: Iterable["Line"]) -> None:
        """Write lines of a report."""
        for spans in lines:
            if self.colour:
                text = "".join(self._styled(span.text, span.style) for span in spans)
            else:
                text = "".join(span.text for span in spans).rstrip()
            self.write(text)

    def status(self, text: str) -> None:
        """Show a line that is rewritten in place; an empty one removes it. On a terminal only."""
        if self.terminal and text != self._status:
            text = text[: self.width]
            shown = click.style(text, dim=True) if self.colour and text else text
            self._status = shown
            self._put(f"{_ERASE}{shown}")

    def flush(self) -> None:
        """Hand over what is buffered."""
        self._put("")

    @staticmethod
    def _styled(text: str, style: str) -> str:
        return click.style(text, **_COLOURS[style]) if style else text  # pyright: ignore[reportArgumentType]

    def _put(self, text: str) -> None:
        if self.closed:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (BrokenPipeError, ValueError):
            self.closed = True
            _silence(self._stream)
        except OSError as error:
            self.closed = True
            _silence(self._stream)
            raise CallerError([Problem(f"what was found cannot be printed: {error.strerror}")]) from None


_ERASE = "\r\x1b[2K"


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False


def _silence(stream: TextIO) -> None:
    """Let what is still buffered for a reader that has gone run into the void when the program ends."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return
    with open(os.devnull, "w") as void:
        os.dup2(void.fileno(), descriptor)


def stdout(*, no_color: bool = False) -> Output:
    """Standard output."""
    return Output(sys.stdout, no_color=no_color)


def stderr(*, no_color: bool = False) -> Output:
    """Standard error."""
    return Output(sys.stderr, no_color=no_color)
