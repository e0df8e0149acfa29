"""Quoting for people and for reading back (pure)."""

__all__ = ["quote", "quote_trace"]

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%^")


def quote(text: str) -> str:
    """The text in single quotes, as ``set`` and ``export -p`` print values."""
    if "'" not in text:
        return f"'{text}'"
    return "'" + text.replace("'", "'\"'\"'") + "'"


def quote_trace(text: str) -> str:
    """The text as ``set -x`` shows it: quoted only where it has to be."""
    if text and _PLAIN.issuperset(text):
        return text
    return quote(text)
