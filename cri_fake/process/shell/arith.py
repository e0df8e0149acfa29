"""Shell arithmetic: ``$((…))``, ``let`` and substring offsets (pure).

64-bit two's complement, C precedence, with ``**`` as busybox ash has it. Variables are read and written
through two callables; a variable that holds an expression is evaluated in turn. Errors carry ash's texts.
"""

import re
from collections.abc import Callable
from functools import lru_cache

__all__ = ["ArithmeticError_", "evaluate"]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|\d+#[0-9a-zA-Z@_]+|\d+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<op><<=|>>=|\*\*|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&^|]=|[-+*/%<>=!~&^|?:,()]))"
)
_ASSIGNING = frozenset(["=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "^=", "|="])
_BINARY: dict[str, int] = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10, "**": 11,
}  # fmt: skip
_MAX_DEPTH = 60
_SYNTAX = "arithmetic syntax error"


class ArithmeticError_(Exception):
    """An expression that cannot be evaluated; the text is ash's."""


def _wrap(value: int) -> int:
    value &= 0xFFFFFFFFFFFFFFFF
    return value - (1 << 64) if value >> 63 else value


def _number(text: str) -> int:
    try:
        if "#" in text:
            base, _, digits = text.partition("#")
            radix = int(base)
            if not 2 <= radix <= 36:
                raise ArithmeticError_(_SYNTAX)
            return _wrap(int(digits, radix))
        if text[:2] in ("0x", "0X"):
            return _wrap(int(text, 16))
        if len(text) > 1 and text[0] == "0":
            return _wrap(int(text, 8))
        return _wrap(int(text))
    except ValueError:
        raise ArithmeticError_(_SYNTAX) from None


def _apply(op: str, left: int, right: int) -> int:
    if op in ("/", "%"):
        if right == 0:
            raise ArithmeticError_("divide by zero")
        quotient = abs(left) // abs(right)
        quotient = quotient if (left < 0) == (right < 0) else -quotient
        return _wrap(quotient if op == "/" else left - quotient * right)
    if op == "**":
        if right < 0:
            raise ArithmeticError_("exponent less than 0")
        return _wrap(pow(left, right, 1 << 64))
    table: dict[str, Callable[[], int]] = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "<<": lambda: left << (right & 63),
        ">>": lambda: left >> (right & 63),
        "&": lambda: left & right,
        "^": lambda: left ^ right,
        "|": lambda: left | right,
        "==": lambda: int(left == right),
        "!=": lambda: int(left != right),
        "<": lambda: int(left < right),
        ">": lambda: int(left > right),
        "<=": lambda: int(left <= right),
        ">=": lambda: int(left >= right),
    }
    return _wrap(table[op]())


class _Evaluator:
    """Precedence climbing over one token list. ``live`` is False in a branch that must have no effect."""

    def __init__(
        self, text: str, lookup: Callable[[str], str], assign: Callable[[str, str], None], depth: int
    ) -> None:
        if depth > _MAX_DEPTH:
            raise ArithmeticError_("expression recursion loop detected")
        self._tokens = _tokenise(text)
        self._at = 0
        self._lookup = lookup
        self._assign = assign
        self._depth = depth
        self._nesting = 0

    def run(self) -> int:
        if not self._tokens:
            return 0
        value = self._comma(live=True)
        if self._at != len(self._tokens):
            raise ArithmeticError_(_SYNTAX)
        return value

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self, text: str) -> bool:
        if self._peek() == text and self._tokens[self._at][0] == "op":
            self._at += 1
            return True
        return False

    def _comma(self, *, live: bool) -> int:
        value = self._assignment(live=live)
        while self._take(","):
            value = self._assignment(live=live)
        return value

    def _assignment(self, *, live: bool) -> int:
        self._nesting += 1
        if self._nesting > _MAX_DEPTH:
            raise ArithmeticError_(f"expression nested deeper than {_MAX_DEPTH} levels")
        try:
            if self._at + 1 < len(self._tokens) and self._tokens[self._at][0] == "name":
                op = self._tokens[self._at + 1]
                if op[0] == "op" and op[1] in _ASSIGNING:
                    name = self._peek()
                    self._at += 2
                    value = self._assignment(live=live)
                    if not live:
                        return 0
                    if op[1] != "=":
                        value = _apply(op[1][:-1], self._value_of(name), value)
                    self._assign(name, str(value))
                    return value
            return self._ternary(live=live)
        finally:
            self._nesting -= 1

    def _ternary(self, *, live: bool) -> int:
        condition = self._binary(1, live=live)
        if not self._take("?"):
            return condition
        yes = self._comma(live=live and condition != 0)
        if not self._take(":"):
            raise ArithmeticError_(_SYNTAX)
        no = self._assignment(live=live and condition == 0)
        return yes if condition else no

    def _binary(self, lowest: int, *, live: bool) -> int:
        left = self._unary(live=live)
        while True:
            op = self._peek()
            precedence = _BINARY.get(op, 0)
            if precedence < lowest or self._tokens[self._at][0] != "op":
                return left
            self._at += 1
            if op in ("&&", "||"):
                decided = (left == 0) if op == "&&" else (left != 0)
                right = self._binary(precedence + 1, live=live and not decided)
                left = int(left != 0 and right != 0) if op == "&&" else int(left != 0 or right != 0)
                continue
            right = self._binary(precedence if op == "**" else precedence + 1, live=live)
            left = _apply(op, left, right) if live else 0

    def _unary(self, *, live: bool) -> int:
        self._nesting += 1
        if self._nesting > _MAX_DEPTH:
            raise ArithmeticError_(f"expression nested deeper than {_MAX_DEPTH} levels")
        try:
            for op in ("++", "--"):
                if self._take(op):
                    return self._prefix(op, live=live)
            if self._take("+"):
                return self._unary(live=live)
            if self._take("-"):
                return _wrap(-self._unary(live=live))
            if self._take("!"):
                return int(self._unary(live=live) == 0)
            if self._take("~"):
                return _wrap(~self._unary(live=live))
            return self._primary(live=live)
        finally:
            self._nesting -= 1

    def _prefix(self, op: str, *, live: bool) -> int:
        if self._at >= len(self._tokens) or self._tokens[self._at][0] != "name":
            return self._unary(live=live)  # `--5` is two signs
        name = self._peek()
        self._at += 1
        if not live:
            return 0
        value = _wrap(self._value_of(name) + (1 if op == "++" else -1))
        self._assign(name, str(value))
        return value

    def _primary(self, *, live: bool) -> int:
        if self._take("("):
            value = self._comma(live=live)
            if not self._take(")"):
                raise ArithmeticError_(_SYNTAX)
            return value
        if self._at >= len(self._tokens):
            raise ArithmeticError_(_SYNTAX)
        kind, text = self._tokens[self._at]
        if kind == "op":
            raise ArithmeticError_(_SYNTAX)
        self._at += 1
        if kind == "number":
            return _number(text)
        if not live:
            if self._peek() in ("++", "--"):
                self._at += 1
            return 0
        value = self._value_of(text)
        for op in ("++", "--"):
            if self._take(op):
                self._assign(text, str(_wrap(value + (1 if op == "++" else -1))))
                break
        return value

    def _value_of(self, name: str) -> int:
        text = self._lookup(name).strip()
        if not text:
            return 0
        if text.isascii() and text.isdigit():
            return _number(text)
        return evaluate(text, self._lookup, self._assign, depth=self._depth + 1)


@lru_cache(maxsize=512)
def _tokenise(text: str) -> tuple[tuple[str, str], ...]:
    tokens: list[tuple[str, str]] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise ArithmeticError_(_SYNTAX)
        kind = match.lastgroup or "op"
        tokens.append((kind, match.group(kind)))
        at = match.end()
    return tuple(tokens)


def evaluate(
    text: str, lookup: Callable[[str], str], assign: Callable[[str, str], None], *, depth: int = 0
) -> int:
    """The value of an expression; an empty one is 0. Raises ``ArithmeticError_``."""
    return _Evaluator(text, lookup, assign, depth).run()
