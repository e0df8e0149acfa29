"""Lines of container logs: the values, and the text of a CRI log to lines. (pure)"""

from attrs import frozen

from kubelet_emu.api.times import parse_rfc3339
from kubelet_emu.errors import CallerError

__all__ = ["InstanceLog", "LoggedLine", "parse_log"]

LINES_MAX = 100_000
"""Lines of one instance that are read; the last ones count."""


@frozen
class LoggedLine:
    """One line of output, at that time of day."""

    at_ns: int
    stream: str
    text: str


@frozen
class InstanceLog:
    """The log of one container instance; ``number`` is the restart count it ran with."""

    pod: str
    container: str
    number: int
    lines: tuple[LoggedLine, ...]


def parse_log(text: str) -> tuple[LoggedLine, ...]:
    """The lines of a CRI log; parts of a long line are joined, what is no log line is left out."""
    lines: list[LoggedLine] = []
    pending: dict[str, LoggedLine] = {}
    for raw in text.split("\n"):
        fields = raw.split(" ", 3)
        if len(fields) < 3:
            continue
        stamp, stream, tag = fields[:3]
        content = fields[3] if len(fields) == 4 else ""
        try:
            at_ns = parse_rfc3339(stamp)
        except CallerError:
            continue
        begun = pending.pop(stream, None)
        logged = LoggedLine(at_ns, stream, (begun.text if begun is not None else "") + content)
        if tag.startswith("P"):
            pending[stream] = logged
        else:
            lines.append(logged)
    # A last line that has not been ended is shown all the same.
    lines += pending.values()
    return tuple(lines[-LINES_MAX:])
