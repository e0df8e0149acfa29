"""Syntax tree of the shell language (pure).

Words are tuples of parts, so that quoting survives until expansion; commands are a small set of frozen nodes.
Lines are counted from 1 in the script that was parsed.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import define, field, frozen

__all__ = [
    "AndOr",
    "Arith",
    "Assignment",
    "Case",
    "CaseItem",
    "Command",
    "CommandSub",
    "DoubleQuoted",
    "For",
    "Function",
    "Group",
    "HereDocument",
    "If",
    "Literal",
    "Loop",
    "Param",
    "Part",
    "Pipeline",
    "Redirect",
    "Script",
    "Sequence",
    "ShellSyntaxError",
    "Simple",
    "Subshell",
    "Word",
    "bare_text",
]


class ShellSyntaxError(Exception):
    """The script cannot be parsed. ``line`` is the line on which the parser gave up.

    ``incomplete``: it stopped because the text ended, so more text could mend it.
    """

    def __init__(self, message: str, line: int, *, incomplete: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.incomplete = incomplete


@frozen
class Literal:
    """Text as it stands; ``quoted`` text is neither split nor globbed."""

    text: str
    quoted: bool = False


@frozen
class Param:
    """``$name`` or ``${name op arg}``. ``op`` is "" for plain, "len" for ``${#name}``, "sub" for
    ``${name:o:l}``.
    """

    name: str
    op: str = ""
    arg: Word = ()
    arg2: Word | None = None
    quoted: bool = False
    line: int = 0


@frozen
class CommandSub:
    """``$(…)`` or backquotes."""

    body: Script
    quoted: bool = False


@frozen
class Arith:
    """``$((…))``; the parts are expanded before the text is evaluated."""

    expression: Word
    quoted: bool = False


@frozen
class DoubleQuoted:
    """``"…"``; kept as a group because an empty one still makes a field."""

    parts: Word


Part: TypeAlias = Literal | Param | CommandSub | Arith | DoubleQuoted
Word: TypeAlias = tuple[Part, ...]


@define(eq=False)
class HereDocument:
    """The body of ``<<``; it follows the line that names it, so the parser fills it in when it gets there."""

    body: Word = ()


@frozen
class Redirect:
    """One redirection. ``op`` is one of < > >> >| <> <& >& << ; for << ``document`` holds the body."""

    fd: int
    op: str
    target: Word
    document: HereDocument | None = None
    both: bool = False
    """True for ``&>`` and ``&>>``: standard output and standard error together."""


@frozen
class Assignment:
    name: str
    value: Word


@frozen
class Simple:
    """Assignments, words and redirections of one simple command."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]
    line: int


@frozen
class Pipeline:
    """Commands joined by ``|``; ``negated`` by a leading ``!``."""

    commands: tuple[Command, ...]
    negated: bool
    line: int


@frozen
class AndOr:
    """``first`` followed by (operator, command) pairs; operators are ``&&`` and ``||``."""

    first: Command
    rest: tuple[tuple[str, Command], ...]


@frozen
class Sequence:
    """Commands one after the other; a True beside a command puts it into the background."""

    items: tuple[tuple[Command, bool], ...]


@frozen
class Group:
    """``{ …; }`` or any compound command with redirections."""

    body: Command
    redirects: tuple[Redirect, ...]


@frozen
class Subshell:
    body: Command
    redirects: tuple[Redirect, ...]
    line: int


@frozen
class If:
    """``clauses`` are (condition, body) pairs; ``orelse`` may be None."""

    clauses: tuple[tuple[Command, Command], ...]
    orelse: Command | None


@frozen
class Loop:
    """``while`` and ``until``."""

    condition: Command
    body: Command
    until: bool


@frozen
class For:
    """``words`` None means the positional parameters."""

    name: str
    words: tuple[Word, ...] | None
    body: Command
    line: int


@frozen
class CaseItem:
    patterns: tuple[Word, ...]
    body: Command | None
    falls_through: bool = False


@frozen
class Case:
    subject: Word
    items: tuple[CaseItem, ...]
    line: int


@frozen
class Function:
    name: str
    body: Command


Command: TypeAlias = (
    Simple | Pipeline | AndOr | Sequence | Group | Subshell | If | Loop | For | Case | Function
)


@frozen(eq=False)
class Script:
    """Complete commands in order; ``error`` is what stopped the parser after them, if anything did.

    A shell runs what precedes a syntax error before it complains, so the error is part of the result.
    """

    commands: tuple[tuple[Command, bool], ...] = field(factory=tuple)
    error: ShellSyntaxError | None = None
    open_document: bool = False
    """The text ended inside a here-document, which a shell takes for its end."""


def bare_text(word: Word) -> str | None:
    """The text of a word that is one unquoted literal, else None; only such a word can be a reserved word."""
    if len(word) == 1:
        part = word[0]
        if isinstance(part, Literal) and not part.quoted:
            return part.text
    return None
