"""``test``, ``[`` and ``[[``: evaluation over a small view of the file system (pure).

POSIX' rules by number of arguments first, then the full grammar with ``!``, ``-a``, ``-o`` and parentheses.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from cri_fake.process.shell.pattern import matches

__all__ = ["FileView", "TestError", "evaluate_test"]

_INTEGER: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b, "-ne": lambda a, b: a != b, "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b, "-gt": lambda a, b: a > b, "-ge": lambda a, b: a >= b,
}  # fmt: skip
_STRING = ("=", "==", "!=", "<", ">", "=~")
_FILES = ("-nt", "-ot", "-ef")
_FILE_UNARY = "bcdefghkLprsSuwxOG"
_MAX_DEPTH = 100


class TestError(Exception):
    """A malformed expression; the text is what ash says. The exit code is 2."""

    __test__ = False


class FileView(Protocol):
    """What ``test`` may ask about files; each answer is False for what does not exist."""

    def test_file(self, operator: str, path: str) -> bool: ...

    def compare_files(self, operator: str, left: str, right: str) -> bool: ...

    def is_terminal(self, fd: int) -> bool: ...

    def regex_match(self, pattern: str, text: str) -> bool: ...


def _integer(text: str) -> int:
    stripped = text.strip()
    body = stripped[1:] if stripped[:1] in ("-", "+") else stripped
    if not (body.isascii() and body.isdigit()):
        raise TestError(f"{text}: bad number")
    return int(stripped)


class _Test:
    def __init__(self, arguments: Sequence[str], view: FileView, *, patterns: bool) -> None:
        self._arguments = arguments
        self._at = 0
        self._view = view
        self._patterns = patterns
        self._depth = 0

    def run(self) -> bool:
        if not self._arguments:
            return False
        value = self._or()
        if self._at < len(self._arguments):
            raise TestError(f"{self._arguments[self._at]}: unknown operand")
        return value

    def _peek(self, ahead: int = 0) -> str | None:
        at = self._at + ahead
        return self._arguments[at] if at < len(self._arguments) else None

    def _or(self) -> bool:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise TestError("expression nested too deeply")
        value = self._and()
        while self._peek() in ("-o", "||") and self._peek(1) is not None:
            self._at += 1
            value = self._and() or value
        self._depth -= 1
        return value

    def _and(self) -> bool:
        value = self._not()
        while self._peek() in ("-a", "&&") and self._peek(1) is not None:
            self._at += 1
            value = self._not() and value
        return value

    def _not(self) -> bool:
        negated = False
        while self._peek() == "!" and self._peek(1) is not None and not self._is_binary(self._peek(1)):
            self._at += 1
            negated = not negated
        return self._primary() != negated

    def _is_binary(self, text: str | None) -> bool:
        return (text in _INTEGER or text in _STRING or text in _FILES) and self._peek(2) is not None

    def _primary(self) -> bool:
        first = self._peek()
        if first is None:
            raise TestError("argument expected")
        second = self._peek(1)
        if self._is_binary(second):
            self._at += 3
            return self._binary(first, second or "", self._arguments[self._at - 1])
        if first == "(" and second is not None:
            self._at += 1
            value = self._or()
            if self._peek() != ")":
                raise TestError("closing paren expected")
            self._at += 1
            return value
        unary = len(first) == 2 and first[0] == "-" and (first[1] in _FILE_UNARY or first[1] in "nzt")
        if unary and second is not None:
            self._at += 2
            return self._unary(first, second)
        self._at += 1
        return first != ""

    def _unary(self, operator: str, operand: str) -> bool:
        if operator == "-n":
            return operand != ""
        if operator == "-z":
            return operand == ""
        if operator == "-t":
            return self._view.is_terminal(_integer(operand))
        return self._view.test_file(operator, operand)

    def _binary(self, left: str, operator: str, right: str) -> bool:
        if operator in _INTEGER:
            return _INTEGER[operator](_integer(left), _integer(right))
        if operator in _FILES:
            return self._view.compare_files(operator, left, right)
        if operator == "=~":
            return self._view.regex_match(right, left)
        if operator == "<":
            return left < right
        if operator == ">":
            return left > right
        equal = matches(right, left) if self._patterns else left == right
        return equal if operator != "!=" else not equal


def evaluate_test(arguments: Sequence[str], view: FileView, *, patterns: bool = False) -> bool:
    """The truth of ``test ARGUMENTS``; raises ``TestError``. ``patterns`` makes the right of ``=`` a pattern
    (``[[``).

    With one argument the answer is whether it is empty, whatever it looks like; with three and a binary
    operator in the middle it is that operator.
    """
    count = len(arguments)
    if count == 1:
        return arguments[0] != ""
    if count == 2 and arguments[0] == "!":
        return arguments[1] == ""
    return _Test(arguments, view, patterns=patterns).run()
