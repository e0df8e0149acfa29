"""Shell patterns: matching, prefix and suffix removal, substitution (pure).

A pattern is text in which every character that must stand for itself is preceded by a backslash (``escape``).
Patterns become regular expressions once and are cached.
"""

import re
from functools import lru_cache

__all__ = [
    "compile_pattern",
    "escape",
    "has_magic",
    "matches",
    "remove_prefix",
    "remove_suffix",
    "substitute",
    "unescape",
]

_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z",
    "space": " \\t\\n\\r\\f\\v", "blank": " \\t", "xdigit": "0-9a-fA-F", "cntrl": "\\x00-\\x1f\\x7f",
    "punct": "!-/:-@\\[-`{-~", "print": " -~", "graph": "!-~",
}  # fmt: skip


def escape(text: str) -> str:
    """The pattern that matches exactly the text."""
    if not any(char in "*?[]\\-!^" for char in text):
        return text
    return "".join("\\" + char if char in "*?[]\\-!^" else char for char in text)


def unescape(pattern: str) -> str:
    """The pattern as plain text: backslashes before characters are dropped."""
    return re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL) if "\\" in pattern else pattern


def has_magic(pattern: str) -> bool:
    """Whether the pattern holds an unescaped ``*``, ``?`` or ``[``."""
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 2
            continue
        if char in "*?" or (char == "[" and "]" in pattern[at + 2 :]):
            return True
        at += 1
    return False


def _bracket(pattern: str, start: int) -> tuple[str, int]:
    """The regular expression of the bracket that opens at ``start`` and the position behind it."""
    at = start + 1
    negated = at < len(pattern) and pattern[at] in "!^"
    if negated:
        at += 1
    body: list[str] = []
    first = True
    while at < len(pattern):
        char = pattern[at]
        if char == "]" and not first:
            return f"[{'^' if negated else ''}{''.join(body)}]", at + 1
        first = False
        if char == "[" and pattern.startswith("[:", at):
            end = pattern.find(":]", at + 2)
            name = pattern[at + 2 : end] if end > 0 else ""
            if name in _CLASSES:
                body.append(_CLASSES[name])
                at = end + 2
                continue
        if char == "\\" and at + 1 < len(pattern):
            at += 1
            body.append(re.escape(pattern[at]))
        elif char == "-" and body and at + 1 < len(pattern) and pattern[at + 1] != "]":
            body.append("-")
        else:
            body.append(re.escape(char))
        at += 1
    return "\\[", start + 1


@lru_cache(maxsize=1024)
def _regex(pattern: str, lazy: bool) -> str:
    out: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "*":
            if out[-1:] not in (["(?:.*)"], ["(?:.*?)"]):
                out.append("(?:.*?)" if lazy else "(?:.*)")
            at += 1
        elif char == "?":
            out.append(".")
            at += 1
        elif char == "[":
            text, at = _bracket(pattern, at)
            out.append(text)
        elif char == "\\" and at + 1 < len(pattern):
            out.append(re.escape(pattern[at + 1]))
            at += 2
        else:
            out.append(re.escape(char))
            at += 1
    return "".join(out)


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str, *, lazy: bool = False) -> re.Pattern[str]:
    """The pattern as a regular expression; a range that runs backwards matches nothing."""
    try:
        return re.compile(_regex(pattern, lazy), re.DOTALL)
    except re.error:
        return re.compile(r"(?!)")


def matches(pattern: str, text: str) -> bool:
    """Whether the whole text matches."""
    return compile_pattern(pattern).fullmatch(text) is not None


def remove_prefix(pattern: str, text: str, *, longest: bool) -> str:
    """``${x#p}`` and ``${x##p}``."""
    regex = compile_pattern(pattern)
    ends = range(len(text), -1, -1) if longest else range(len(text) + 1)
    for end in ends:
        if regex.fullmatch(text, 0, end):
            return text[end:]
    return text


def remove_suffix(pattern: str, text: str, *, longest: bool) -> str:
    """``${x%p}`` and ``${x%%p}``."""
    regex = compile_pattern(pattern)
    starts = range(len(text) + 1) if longest else range(len(text), -1, -1)
    for start in starts:
        if regex.fullmatch(text, start):
            return text[:start]
    return text


def substitute(pattern: str, replacement: str, text: str, *, everywhere: bool) -> str:
    """``${x/p/r}`` and ``${x//p/r}``: longest match from the left. As in ash, # and % do not anchor."""
    if not pattern:
        return text
    regex = compile_pattern(pattern)
    out: list[str] = []
    at = 0
    while at < len(text):
        found = regex.search(text, at)
        if found is None or found.end() == found.start():
            break
        out.append(text[at : found.start()] + replacement)
        at = found.end()
        if not everywhere:
            break
    return "".join(out) + text[at:]
