"""Ages as kubectl shows them (pure).

Mirrors ``HumanDuration`` of ``k8s.io/apimachinery/pkg/util/duration`` (STA-1109).
"""

from typing import Final

__all__ = ["age", "human_duration"]

_SECOND_NS: Final = 1_000_000_000
_DAY_HOURS: Final = 24
_YEAR_HOURS: Final = 24 * 365


def human_duration(duration_ns: int) -> str:
    """The duration in one or two units; ``<invalid>`` for one that is more than a second negative."""
    seconds = abs(duration_ns) // _SECOND_NS * (-1 if duration_ns < 0 else 1)
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * 60:
        return f"{max(seconds, 0)}s"
    minutes, hours = seconds // 60, seconds // 3600
    if minutes < 10:
        return _pair(minutes, "m", seconds % 60, "s")
    if minutes < 3 * 60:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // _DAY_HOURS
    if days < 8:
        return _pair(days, "d", hours % _DAY_HOURS, "h")
    years = hours // _YEAR_HOURS
    if years < 2:
        return f"{days}d"
    return _pair(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}" + (f"{small}{small_unit}" if small else "")


def age(time_ns: int | None, now_ns: int) -> str:
    """How long ago that was; ``<unknown>`` for no time."""
    return human_duration(now_ns - time_ns) if time_ns is not None else "<unknown>"
