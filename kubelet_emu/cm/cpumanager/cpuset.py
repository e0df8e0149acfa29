"""Sets of CPUs in the text form of Linux, such as ``0-3,7`` (pure).

Mirrors ``k8s.io/utils/cpuset``.
"""

from collections.abc import Iterable

from kubelet_emu.errors import CallerError

__all__ = ["CpuSet", "format_cpus", "parse_cpus"]

CpuSet = frozenset[int]

CPU_ID_MAX = 65_535


def format_cpus(cpus: Iterable[int]) -> str:
    """Runs of neighbours joined by a dash, ascending; empty for no CPU."""
    parts: list[str] = []
    first = last = -2
    for cpu in [*sorted(cpus), -1]:
        if cpu == last + 1 and cpu >= 0:
            last = cpu
            continue
        if first >= 0:
            parts.append(str(first) if first == last else f"{first}-{last}")
        first = last = cpu
    return ",".join(parts)


def parse_cpus(text: str) -> CpuSet:
    """Read the text form; raises ``CallerError`` for anything else."""
    found: set[int] = set()
    for part in text.split(",") if text.strip() else []:
        first, dash, last = part.strip().partition("-")
        start, end = _number(first, text), _number(last, text) if dash else None
        if end is not None and end < start:
            raise CallerError(f"invalid range {part!r} in the list of CPUs {text!r}: {start} > {end}")
        found.update(range(start, (start if end is None else end) + 1))
    return frozenset(found)


def _number(text: str, whole: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 5 or int(text) > CPU_ID_MAX:
        raise CallerError(f"{text!r} in the list of CPUs {whole!r} is no CPU number")
    return int(text)
