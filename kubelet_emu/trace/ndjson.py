"""Traces as text: one JSON object a line, the header first (pure)."""

import json
from collections.abc import Iterable
from typing import Any

from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.trace.schema import Record, Trace, problem_of

__all__ = ["dumps", "read_lines", "write_lines"]

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def dumps(record: Record) -> str:
    """One record as a line without its end. Key order is kept, so equal traces are equal bytes."""
    return _encode(record)


def write_lines(trace: Trace) -> Iterable[str]:
    """The lines of a trace, header first, each with its line end."""
    yield dumps(trace.header) + "\n"
    for record in trace.records:
        yield dumps(record) + "\n"


def read_lines(lines: Iterable[str], *, file: str = "") -> Trace:
    """Read a trace or a recording; raises ``CallerError`` that names every bad line (at most 20)."""
    header: Record = {}
    records: list[Record] = []
    problems: list[Problem] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        record: Any = None
        try:
            record = json.loads(line)
            problem = problem_of(record)
        except ValueError as error:
            problem = f"not JSON: {error}"
        except RecursionError:
            problem = "not JSON: nested too deeply"
        if not problem and (record["k"] == "header") != (not header):
            problem = "the header is the first record and stands there once"
        if problem:
            problems.append(Problem(problem, file=file, line=number))
            if len(problems) == 20:
                break
        elif record["k"] == "header":
            header = record
        else:
            records.append(record)
    if not header and not problems:
        problems.append(Problem("no records: the first line of a trace is its header", file=file))
    if problems:
        raise CallerError(problems)
    return Trace(header, tuple(records))
