"""POSIX regular expressions, basic and extended, as Python's (pure).

Leftmost but not longest: alternatives are tried in order, which differs from POSIX only where one alternative
is the beginning of another.
"""

import re
from functools import lru_cache

__all__ = ["RegexError", "compile_posix"]

_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z",
    "space": r"\s", "blank": r" \t", "xdigit": "0-9a-fA-F", "cntrl": r"\x00-\x1f\x7f",
    "punct": r"!-/:-@\[-`{-~", "print": " -~", "graph": "!-~",
}  # fmt: skip
_GNU = {
    "<": r"\b(?=\w)",
    ">": r"\b(?<=\w)",
    "w": r"\w",
    "W": r"\W",
    "s": r"\s",
    "S": r"\S",
    "b": r"\b",
    "B": r"\B",
}
_CONTROL = {"n": r"\n", "t": r"\t"}
MAX_PATTERN_CHARS = 16384


class RegexError(Exception):
    """A pattern that is not a regular expression."""


def _bracket(pattern: str, at: int) -> tuple[str, int]:
    """The bracket expression whose ``[`` stands before ``at``."""
    out = ["["]
    if pattern.startswith("^", at):
        out.append("^")
        at += 1
    first = True
    while at < len(pattern):
        char = pattern[at]
        if char == "]" and not first:
            return "".join(out) + "]", at + 1
        first = False
        if pattern.startswith("[:", at):
            end = pattern.find(":]", at)
            name = pattern[at + 2 : end] if end > 0 else ""
            if name not in _CLASSES:
                raise RegexError("bad character class")
            out.append(_CLASSES[name])
            at = end + 2
            continue
        out.append("\\" + char if char in "\\[]^&~|" else char)
        at += 1
    raise RegexError("unmatched [")


def _interval(pattern: str, at: int, closing: str) -> tuple[str, int]:
    end = pattern.find(closing, at)
    body = pattern[at:end] if end >= 0 else ""
    if not re.fullmatch(r"\d+(,\d*)?|,\d+", body):
        raise RegexError("bad interval")
    return "{" + body + "}", end + len(closing)


class _Translation:
    """One pass over a pattern. ``operators`` in extended syntax stand for themselves, in basic behind a
    ``\\``.
    """

    def __init__(self, pattern: str, *, extended: bool) -> None:
        self.pattern = pattern
        self.extended = extended
        self.out: list[str] = []
        self.depth = 0
        self.fresh = True
        """Whether a repetition here would have nothing to repeat."""

    def run(self) -> str:
        at = 0
        while at < len(self.pattern):
            at = self.step(at)
        if self.depth:
            raise RegexError("unmatched (")
        return "".join(self.out)

    def step(self, at: int) -> int:
        char = self.pattern[at]
        following = self.pattern[at + 1 : at + 2]
        if char == "\\":
            if not following:
                raise RegexError("trailing backslash")
            if not self.extended and following in "(){}|+?":
                return self.operator(following, at + 2)
            return self.escape(following, at + 2)
        if char == "[":
            text, at = _bracket(self.pattern, at + 1)
            return self.put(text, at)
        if char == ".":
            return self.put(".", at + 1)
        if char == "*" and not self.fresh:
            return self.repeat("*", at + 1)
        if self.extended and char in "(){}|+?":
            return self.operator(char, at + 1)
        if char == "^" and (self.extended or self.fresh):
            self.out.append("^")
            return at + 1
        if char == "$" and (
            self.extended or at + 1 == len(self.pattern) or self.pattern.startswith("\\)", at + 1)
        ):
            self.out.append(r"(?!.|\n)" if at + 1 == len(self.pattern) else "$")
            return at + 1
        return self.put(re.escape(char), at + 1)

    def put(self, text: str, at: int) -> int:
        self.out.append(text)
        self.fresh = False
        return at

    def repeat(self, text: str, at: int) -> int:
        if (
            self.out
            and self.out[-1][-1:] in ("*", "+", "?", "}")
            and not self.out[-1].startswith(("\\", "["))
        ):
            self.out = ["(?:" + "".join(self.out) + ")"] if self.depth == 0 else self.out
        self.out.append(text)
        return at

    def operator(self, char: str, at: int) -> int:
        if char == "(":
            self.depth += 1
            self.out.append("(")
            self.fresh = True
        elif char == ")":
            if not self.depth:
                if self.extended:
                    return self.put(r"\)", at)
                raise RegexError("unmatched )")
            self.depth -= 1
            self.put(")", at)
        elif char == "|":
            self.out.append("|")
            self.fresh = True
        elif char == "{":
            if self.fresh or self.pattern[at : at + 1] not in tuple("0123456789,"):
                return self.put(r"\{", at)
            text, at = _interval(self.pattern, at, "}" if self.extended else "\\}")
            self.repeat(text, at)
        elif char == "}" or self.fresh:
            return self.put(re.escape(char), at)
        else:
            self.repeat(char, at)
        return at

    def escape(self, char: str, at: int) -> int:
        if char.isdigit() and char != "0":
            return self.put(f"\\{char}", at)
        text = _GNU.get(char) or _CONTROL.get(char) or re.escape(char)
        return self.put(text, at)


@lru_cache(maxsize=256)
def compile_posix(pattern: str, *, extended: bool, ignore_case: bool = False) -> re.Pattern[str]:
    """The pattern compiled. Raises ``RegexError``."""
    if len(pattern) > MAX_PATTERN_CHARS:
        raise RegexError("regular expression too big")
    text = _Translation(pattern, extended=extended).run()
    try:
        return re.compile(text, re.IGNORECASE if ignore_case else 0)
    except (re.error, OverflowError, RecursionError) as problem:
        raise RegexError(str(problem)) from None
