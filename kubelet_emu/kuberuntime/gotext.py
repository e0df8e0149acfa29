"""Go's ways of writing values, where a text that people or tools read depends on them (pure).

Event and status texts of the kubelet are made with Go's ``%q`` and ``%v``; conformance compares them letter
by letter (IMG, HOK, RST-117).
"""

from collections.abc import Sequence

from kubelet_emu.api.types import Pod

__all__ = ["format_pod", "go_duration", "go_list", "go_quote"]

_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}
_SECOND_NS = 1_000_000_000


def _go_char(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def go_quote(text: str) -> str:
    """The text as ``%q`` writes it: in double quotes, with Go's escapes."""
    return '"' + "".join(_go_char(char) for char in text) + '"'


def go_list(items: Sequence[str]) -> str:
    """A list of strings as ``%v`` writes it: ``[a b]``."""
    return "[" + " ".join(items) + "]"


def _fraction(value_ns: int, unit_ns: int) -> str:
    whole, rest = divmod(value_ns, unit_ns)
    if not rest:
        return str(whole)
    return f"{whole}.{str(unit_ns + rest)[1:].rstrip('0')}"


def go_duration(duration_ns: int) -> str:
    """A duration in nanoseconds as ``time.Duration.String`` writes it: ``1m20s``, ``350ms``, ``0s``."""
    if duration_ns < 0:
        return "-" + go_duration(-duration_ns)
    if duration_ns == 0:
        return "0s"
    if duration_ns < 1_000:
        return f"{duration_ns}ns"
    if duration_ns < 1_000_000:
        return _fraction(duration_ns, 1_000) + "µs"
    if duration_ns < _SECOND_NS:
        return _fraction(duration_ns, 1_000_000) + "ms"
    minutes, rest_ns = divmod(duration_ns, 60 * _SECOND_NS)
    hours, minutes = divmod(minutes, 60)
    seconds = _fraction(rest_ns, _SECOND_NS) + "s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def format_pod(pod: Pod) -> str:
    """The pod as texts name it: ``name_namespace(uid)`` (RST-117, HOK-06)."""
    return f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
