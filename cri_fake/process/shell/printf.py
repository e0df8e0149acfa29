"""``printf`` formats and ``echo -e`` escapes as busybox has them (pure)."""

from collections.abc import Sequence

from attrs import frozen

__all__ = ["Formatted", "format_printf", "unescape_echo"]

_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
}
_MAX_WIDTH = 1 << 20


@frozen
class Formatted:
    """The output, the complaints (without the program's name) and the exit code."""

    text: str
    problems: tuple[str, ...]
    exit_code: int


def _escape(text: str, at: int, *, octal_zero: bool) -> tuple[str, int, bool]:
    r"""The escape whose backslash stands before ``at``: its value, the position behind it, whether it was
    ``\c``.
    """
    if at >= len(text):
        return "\\", at, False
    char = text[at]
    if char == "c":
        return "", at + 1, True
    if char in _SIMPLE:
        return _SIMPLE[char], at + 1, False
    if char == "x":
        end = at + 1
        while end < len(text) and end < at + 3 and text[end] in "0123456789abcdefABCDEF":
            end += 1
        if end > at + 1:
            return _byte(int(text[at + 1 : end], 16)), end, False
        return "\\x", at + 1, False
    if char in "01234567":
        start = at + 1 if octal_zero and char == "0" else at
        end = start
        while end < len(text) and end < start + 3 and text[end] in "01234567":
            end += 1
        return _byte(int(text[start:end] or "0", 8) & 0xFF), end, False
    return "\\" + char, at + 1, False


def _byte(value: int) -> str:
    """One byte as shell text: bytes above 127 are kept as lone surrogates, see ``encode``."""
    return chr(value) if value < 128 else chr(0xDC00 + value)


def unescape_echo(text: str) -> tuple[str, bool]:
    r"""``echo -e`` and ``%b``: the text, and whether ``\c`` ended all output."""
    out: list[str] = []
    at = 0
    while True:
        found = text.find("\\", at)
        if found < 0:
            out.append(text[at:])
            return "".join(out), False
        out.append(text[at:found])
        value, at, stop = _escape(text, found + 1, octal_zero=True)
        out.append(value)
        if stop:
            return "".join(out), True


class _Printf:
    def __init__(self, template: str, arguments: Sequence[str]) -> None:
        self.template = template
        self.arguments = arguments
        self.used = 0
        self.out: list[str] = []
        self.problems: list[str] = []
        self.failed = False
        self.stopped = False

    def argument(self) -> str | None:
        if self.used < len(self.arguments):
            self.used += 1
            return self.arguments[self.used - 1]
        return None

    def integer(self, text: str | None) -> int:
        if not text:
            return 0
        if text[0] in "'\"":
            return ord(text[1]) if len(text) > 1 else 0
        value = _parse_integer(text.strip())
        if value is None:
            self.complain(text)
            return 0
        return value

    def number(self, text: str | None) -> float:
        if not text:
            return 0.0
        try:
            return float(text)
        except ValueError:
            self.complain(text)
            return 0.0

    def complain(self, text: str) -> None:
        self.problems.append(f"invalid number '{text}'")
        self.failed = True

    def once(self) -> bool:
        """One pass over the template; False when it must not be repeated."""
        at, template = 0, self.template
        while at < len(template):
            char = template[at]
            at += 1
            if char == "\\":
                value, at, stop = _escape(template, at, octal_zero=False)
                self.out.append(value)
                if stop:
                    return False
            elif char != "%":
                self.out.append(char)
            elif template.startswith("%", at):
                self.out.append("%")
                at += 1
            else:
                end = self.conversion(at)
                if end < 0 or self.stopped:
                    return False
                at = end
        return True

    def conversion(self, at: int) -> int:
        start, template = at, self.template
        flags, width, precision = "", "", None
        while at < len(template) and template[at] in "-+ #0":
            flags += template[at]
            at += 1
        width, at = self._count(at)
        if template.startswith(".", at):
            precision, at = self._count(at + 1)
            precision = precision or "0"
        while at < len(template) and template[at] in "hlLjzt":
            at += 1
        kind = template[at] if at < len(template) else ""
        if width.startswith("-"):
            flags, width = flags + "-", width[1:]
        too_wide = any(len(text or "") > 7 for text in (width, precision))
        if not kind or kind not in "diouxXeEfFgGcsb" or too_wide:
            self.problems.append(
                f"%{template[start:] if not kind else template[start : at + 1]}: invalid format"
            )
            self.failed = True
            return -1
        self.out.append(self.convert(kind, flags, width, precision))
        return at + 1

    def _count(self, at: int) -> tuple[str, int]:
        if self.template.startswith("*", at):
            return str(self.integer(self.argument())), at + 1
        end = at
        while end < len(self.template) and self.template[end].isdigit():
            end += 1
        return self.template[at:end], end

    def convert(self, kind: str, flags: str, width: str, precision: str | None) -> str:
        argument = self.argument()
        point = "" if precision is None else f".{precision}"
        if kind in "di":
            return f"%{flags}{width}{point}d" % self.integer(argument)
        if kind in "ouxX":
            value = self.integer(argument) & 0xFFFFFFFFFFFFFFFF
            if kind == "u":
                return f"%{flags}{width}{point}d" % value
            if kind == "o" and "#" in flags:
                flags = flags.replace("#", "")
                return f"%{flags}{width}s" % f"0{value:o}"
            return f"%{flags}{width}{point}{kind}" % value
        if kind in "eEfFgG":
            return f"%{flags}{width}{point}{kind}" % self.number(argument)
        text = argument or ""
        if kind == "c":
            return f"%{'-' if '-' in flags else ''}{width}s" % text[:1]
        if kind == "b":
            text, self.stopped = unescape_echo(text)
        return f"%{'-' if '-' in flags else ''}{width}{point}s" % text


def _parse_integer(text: str) -> int | None:
    body = text.lstrip("+-")
    sign = -1 if text.startswith("-") else 1
    if len(text) - len(body) > 1:
        return None
    try:
        if body[:2].lower() == "0x":
            return sign * int(body, 16)
        if len(body) > 1 and body[0] == "0":
            return sign * int(body, 8)
        return sign * int(body) if body.isascii() and body.isdigit() else None
    except ValueError:
        return None


def format_printf(template: str, arguments: Sequence[str]) -> Formatted:
    """``printf TEMPLATE ARGUMENTS``; the template is repeated while it uses up arguments."""
    run = _Printf(template, arguments)
    while True:
        before = run.used
        if not run.once() or run.used >= len(arguments) or run.used == before:
            break
    return Formatted("".join(run.out), tuple(run.problems), 1 if run.failed else 0)
