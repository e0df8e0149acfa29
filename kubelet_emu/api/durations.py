"""Go's duration texts, as configuration files use them: ``1h2m3.5s``, ``300ms``. (pure)

API-202.
"""

import re
from typing import Final

from kubelet_emu.errors import CallerError

__all__ = ["DurationError", "format_duration", "parse_duration"]

_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PIECE = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_LIMIT_NS: Final = 2**63


class DurationError(CallerError):
    """Raised for a text that is no duration."""


def parse_duration(text: str) -> int:
    """Nanoseconds of a duration text; a bare number is refused, but for ``0``; raises ``DurationError``."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0
    total = 0
    place = 0
    while place < len(rest):
        match = _PIECE.match(rest, place)
        if match is None:
            break
        whole, _, fraction = match[1].partition(".")
        unit = _UNITS_NS[match[2]]
        total += int(whole or "0") * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)
        place = match.end()
    if not rest or place < len(rest):
        raise DurationError(f"{text!r} is not a duration such as 300ms, 1.5h or 1m30s")
    if total >= _LIMIT_NS:
        raise DurationError(f"duration {text!r} is too long")
    return sign * total


def _trimmed(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    if not rest:
        return str(whole)
    return f"{whole}.{str(rest).rjust(len(str(unit)) - 1, '0').rstrip('0')}"


def format_duration(ns: int) -> str:
    """The text as Go prints it: ``1m0s``, ``1.5s``, ``300ms``, ``0s``."""
    if ns < 0:
        return "-" + format_duration(-ns)
    if ns == 0:
        return "0s"
    for unit, name in ((1_000, "ns"), (1_000_000, "µs"), (1_000_000_000, "ms")):
        if ns < unit:
            return _trimmed(ns, unit // 1000) + name
    minutes, rest = divmod(ns, _UNITS_NS["m"])
    text = _trimmed(rest, _UNITS_NS["s"]) + "s"
    if not minutes:
        return text
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
