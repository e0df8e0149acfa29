"""Quoting for people and for reading back (pure)."""

import re

__all__ = ["quote", "quote_trace"]

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%^")


def quote(text: str) -> str:
    """The text in single quotes, as ``set`` and ``export -p`` print values."""
    out: list[str] = []
    for piece in re.findall(r"[^']+|'+", text) or [""]:
        out.append(f'"{piece}"' if piece.startswith("'") else f"'{piece}'")
    return "".join(out)


def quote_trace(text: str) -> str:
    """The text as ``set -x`` shows it: quoted only where it has to be."""
    if _PLAIN.issuperset(text):
        return text
    return quote(text)
