"""Where ``--trace`` writes to: a file or, for ``-``, standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import IO

from kubelet_emu.errors import CallerError, Problem

__all__ = ["trace_file"]


@contextmanager
def trace_file(
    name: str, *, stdout_is_free: bool = False, line_by_line: bool = False
) -> Generator[Callable[[str], object]]:
    """The sink of a trace, open for as long as the context is.

    A trace that cannot be written (a full disk) does not end the run in the middle: what comes after is
    dropped, and leaving the context raises ``CallerError`` in place of an end without error. ``-`` is
    standard output, if nothing else is printed there (``stdout_is_free``); a reader that goes away raises
    ``BrokenPipeError``.
    """
    file = _opened(name, stdout_is_free=stdout_is_free, line_by_line=line_by_line)
    failures: list[OSError] = []

    def sink(text: str) -> None:
        if failures:
            return
        try:
            file.write(text)
        except OSError as error:
            failures.append(error)

    try:
        yield sink
    except BaseException:
        with suppress(OSError):
            _finish(file)
        raise
    try:
        _finish(file)
    except OSError as error:
        failures.append(error)
    if failures:
        raise _unwritable(name, failures[0])


def _opened(name: str, *, stdout_is_free: bool, line_by_line: bool) -> IO[str]:
    if name == "-":
        if stdout_is_free:
            return sys.stdout
        problem = Problem(
            "standard output is taken by what else is printed", path="--trace", hint="name a file"
        )
        raise CallerError([problem])
    try:
        return open(name, "w", encoding="utf-8", buffering=1 if line_by_line else -1)
    except OSError as error:
        raise _unwritable(name, error) from None


def _finish(file: IO[str]) -> None:
    if file is sys.stdout:
        file.flush()
    else:
        file.close()


def _unwritable(name: str, error: OSError) -> Exception:
    if name == "-" and isinstance(error, BrokenPipeError):
        return error
    return CallerError([Problem(f"{name} cannot be written: {error.strerror}", path="--trace")])
