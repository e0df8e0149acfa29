"""Times of the API: text to unix nanoseconds and back. (pure)

Whole seconds for Time, six digits for MicroTime, and RFC 3339 with nanoseconds, trailing zeros dropped, for
annotations such as ``kubernetes.io/config.seen``. All texts are UTC.

API-201.
"""

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache

from kubelet_emu.errors import CallerError

__all__ = ["TimeError", "format_micro", "format_nano", "format_nano9", "format_seconds", "parse_rfc3339"]

_SECOND_NS = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - one name for both directions
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:([Zz])|([+-])(\d\d):(\d\d))"
)


class TimeError(CallerError):
    """Raised for a text that is no RFC 3339 time."""


@lru_cache(maxsize=4096)
def parse_rfc3339(text: str) -> int:
    """Unix nanoseconds of an RFC 3339 time with any offset and fraction; raises ``TimeError``."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise TimeError(f"{text!r} is not an RFC 3339 time such as 2026-01-02T03:04:05Z")
    numbers = [int(group) for group in match.groups()[:6]]
    try:
        moment = datetime(*numbers, tzinfo=timezone.utc)  # type: ignore[arg-type]  # noqa: UP017
    except ValueError as error:
        raise TimeError(f"{text!r} is not a time: {error}") from None
    since = moment - _EPOCH
    seconds = since.days * 86_400 + since.seconds
    if match[8] is None:
        offset = int(match[10]) * 3600 + int(match[11]) * 60
        seconds += offset if match[9] == "-" else -offset
    return seconds * _SECOND_NS + int((match[7] or "")[:9].ljust(9, "0"))


@lru_cache(maxsize=4096)
def _seconds_text(seconds: int) -> str:
    moment = _EPOCH + timedelta(seconds=seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") if moment.year >= 1000 else moment.isoformat()[:19]


def _whole(ns: int) -> str:
    return _seconds_text(ns // _SECOND_NS)


def format_seconds(ns: int) -> str:
    """``2026-01-02T03:04:05Z``; a fraction is cut off."""
    return _whole(ns) + "Z"


def format_micro(ns: int) -> str:
    """``2026-01-02T03:04:05.000000Z``; digits after the sixth are cut off."""
    return f"{_whole(ns)}.{ns % _SECOND_NS // 1000:06d}Z"


def format_nano9(ns: int) -> str:
    """``2026-01-02T03:04:05.000000000Z``: always nine digits, as in container logs."""
    return f"{_whole(ns)}.{ns % _SECOND_NS:09d}Z"


def format_nano(ns: int) -> str:
    """RFC 3339 with as many fractional digits as are needed, none for a whole second (Go's RFC3339Nano)."""
    fraction = f"{ns % _SECOND_NS:09d}".rstrip("0")
    return f"{_whole(ns)}.{fraction}Z" if fraction else _whole(ns) + "Z"
