"""The parser of awk programs (pure).

A program becomes nested tuples whose first element names the node; the interpreter is ``applets.awk``. POSIX
awk without user-defined functions with array parameters passed by reference being an exception: they are
supported; ``getline`` and output to pipes and files are not, and say so.
"""

import re
from functools import lru_cache
from typing import Any, TypeAlias

__all__ = ["AwkError", "AwkProgram", "Node", "parse_awk"]

Node: TypeAlias = tuple[Any, ...]

_TOKEN = re.compile(
    r"(?P<newline>\n)|(?P<space>[ \t\r]+|\\\n|#[^\n]*)"
    r"|(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<op>\*\*=|\+\+|--|\+=|-=|\*=|/=|%=|\^=|==|<=|>=|!=|&&|\|\||>>|\*\*|[-+*/%^!<>|?:~$=,;(){}\[\]])"
)
_KEYWORD_NAMES = """
BEGIN END function func if else while for do break continue next exit return delete in getline print printf
"""
_KEYWORDS = frozenset(_KEYWORD_NAMES.split())
_BUILTIN_NAMES = """
length substr index split sub gsub match sprintf sin cos atan2 exp log sqrt int rand srand tolower toupper
system close fflush systime strftime
"""
BUILTINS = frozenset(_BUILTIN_NAMES.split())
_ASSIGN = ("=", "+=", "-=", "*=", "/=", "%=", "^=", "**=")
_COMPARE = ("<", "<=", "==", "!=", ">", ">=")
_MAX_DEPTH = 60


class AwkError(Exception):
    """A program that cannot be parsed or run."""


class AwkProgram:
    """``begin`` and ``end`` are lists of blocks, ``rules`` pairs of pattern (or None) and block (or None)."""

    def __init__(self) -> None:
        self.begin: list[Node] = []
        self.end: list[Node] = []
        self.rules: list[tuple[Node | None, Node | None]] = []
        self.functions: dict[str, tuple[list[str], Node]] = {}


def _unescape(text: str) -> str:
    codes = {
        "n": "\n",
        "t": "\t",
        "r": "\r",
        "a": "\a",
        "b": "\b",
        "f": "\f",
        "v": "\v",
        "\\": "\\",
        '"': '"',
        "/": "/",
    }

    def one(found: re.Match[str]) -> str:
        code = found.group(1)
        if code[0] in "01234567":
            return chr(int(code, 8) & 0xFF)
        return codes.get(code, "\\" + code)

    return re.sub(r"\\([0-7]{1,3}|.)", one, text, flags=re.DOTALL)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._kind: str = ""
        self._value: str = ""
        self._depth = 0
        self._in_print = False
        self._advance()

    # -- tokens ---------------------------------------------------------------------------------------------

    def _advance(self) -> str:
        taken = self._value
        while True:
            if self._at >= len(self._text):
                self._kind, self._value = "end", ""
                return taken
            found = _TOKEN.match(self._text, self._at)
            if found is None:
                raise self._error(self._text[self._at : self._at + 10])
            self._at = found.end()
            if found.lastgroup == "space":
                continue
            self._kind = found.lastgroup or ""
            self._value = found.group()
            return taken

    def _error(self, near: str = "") -> AwkError:
        line = self._text.count("\n", 0, self._at) + 1
        shown = near or self._value or "end of program"
        return AwkError(f"cmd. line:{line}: syntax error near {shown!r}")

    def _is(self, *values: str) -> bool:
        return self._kind in ("op", "name") and self._value in values

    def _take(self, *values: str) -> bool:
        if self._is(*values):
            self._advance()
            return True
        return False

    def _expect(self, value: str) -> None:
        if not self._take(value):
            raise self._error()

    def _skip_newlines(self) -> None:
        while self._kind == "newline":
            self._advance()

    def _skip_ends(self) -> None:
        while self._kind == "newline" or self._is(";"):
            self._advance()

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise AwkError("program nested too deeply")

    # -- program --------------------------------------------------------------------------------------------

    def program(self) -> AwkProgram:
        made = AwkProgram()
        self._skip_ends()
        while self._kind != "end":
            if self._take("BEGIN"):
                made.begin.append(self._block())
            elif self._take("END"):
                made.end.append(self._block())
            elif self._take("function", "func"):
                name = self._advance()
                made.functions[name] = self._function()
            else:
                pattern: Node | None = None
                if not self._is("{"):
                    pattern = self._expression()
                    if self._take(","):
                        self._skip_newlines()
                        pattern = ("range", pattern, self._expression(), len(made.rules))
                made.rules.append((pattern, self._block() if self._is("{") else None))
            self._skip_ends()
        return made

    def _function(self) -> tuple[list[str], Node]:
        self._expect("(")
        names: list[str] = []
        while not self._take(")"):
            names.append(self._advance())
            self._take(",")
        self._skip_newlines()
        return names, self._block()

    def _block(self) -> Node:
        self._expect("{")
        self._enter()
        body: list[Node] = []
        self._skip_ends()
        while not self._take("}"):
            if self._kind == "end":
                raise self._error()
            body.append(self._statement())
            self._skip_ends()
        self._depth -= 1
        return ("block", body)

    def _end_of_statement(self) -> None:
        if self._is("}") or self._kind == "end":
            return
        if not (self._kind == "newline" or self._is(";")):
            raise self._error()
        self._advance()

    def _body(self) -> Node:
        self._skip_newlines()
        if self._take(";"):
            return ("block", [])
        return self._statement()

    def _statement(self) -> Node:
        self._enter()
        try:
            if self._is("{"):
                return self._block()
            if self._take("if"):
                return self._if()
            if self._take("while"):
                self._expect("(")
                condition = self._expression()
                self._expect(")")
                return ("while", condition, self._body())
            if self._take("do"):
                body = self._body()
                self._skip_ends()
                self._expect("while")
                self._expect("(")
                condition = self._expression()
                self._expect(")")
                self._end_of_statement()
                return ("do", body, condition)
            if self._take("for"):
                return self._for()
            node = self._simple()
            self._end_of_statement()
            return node
        finally:
            self._depth -= 1

    def _if(self) -> Node:
        self._expect("(")
        condition = self._expression()
        self._expect(")")
        yes = self._body()
        at, kind, value = self._at, self._kind, self._value
        self._skip_ends()
        if self._take("else"):
            return ("if", condition, yes, self._body())
        self._at, self._kind, self._value = at, kind, value
        return ("if", condition, yes, None)

    def _for(self) -> Node:
        self._expect("(")
        start: Node | None = None
        if not self._is(";"):
            start = self._simple()
            if start[0] == "expression" and start[1][0] == "in" and self._take(")"):
                _, subject, array = start[1]
                if subject[0] != "var":
                    raise self._error()
                return ("for in", subject[1], array, self._body())
        self._expect(";")
        self._skip_newlines()
        condition = None if self._is(";") else self._expression()
        self._expect(";")
        self._skip_newlines()
        step = None if self._is(")") else self._simple()
        self._expect(")")
        return ("for", start, condition, step, self._body())

    def _simple(self) -> Node:
        if self._is("print", "printf"):
            return self._print(self._advance())
        if self._take("delete"):
            name = self._advance()
            return ("delete", name, self._subscript() if self._take("[") else None)
        for word in ("break", "continue", "next"):
            if self._take(word):
                return (word,)
        for word in ("exit", "return"):
            if self._take(word):
                bare = self._kind in ("newline", "end") or self._is(";", "}")
                return (word, None if bare else self._expression())
        return ("expression", self._expression())

    def _print(self, kind: str) -> Node:
        self._in_print = True
        values: list[Node] = []
        try:
            if not (self._kind in ("newline", "end") or self._is(";", "}", ">", ">>", "|")):
                values.append(self._expression())
                while self._take(","):
                    self._skip_newlines()
                    values.append(self._expression())
        finally:
            self._in_print = False
        if len(values) == 1 and values[0][0] == "group":
            values = list(values[0][1])
        if self._is("|"):
            raise AwkError(f"{kind} into a pipe is not emulated")
        target: Node | None = None
        mode = ""
        if self._is(">", ">>"):
            mode = self._advance()
            target = self._concatenation()
        return (kind, values, mode, target)

    # -- expressions, lowest precedence first ---------------------------------------------------------------

    def _expression(self) -> Node:
        self._enter()
        try:
            left = self._ternary()
            if self._is(*_ASSIGN) and left[0] in ("var", "index", "field"):
                operator = self._advance()
                self._skip_newlines()
                return ("assign", left, operator[:-1].replace("**", "^"), self._expression())
            return left
        finally:
            self._depth -= 1

    def _ternary(self) -> Node:
        condition = self._or()
        if not self._take("?"):
            return condition
        self._skip_newlines()
        yes = self._expression()
        self._skip_newlines()
        self._expect(":")
        self._skip_newlines()
        return ("?", condition, yes, self._expression())

    def _or(self) -> Node:
        left = self._and()
        while self._take("||"):
            self._skip_newlines()
            left = ("||", left, self._and())
        return left

    def _and(self) -> Node:
        left = self._in()
        while self._take("&&"):
            self._skip_newlines()
            left = ("&&", left, self._in())
        return left

    def _in(self) -> Node:
        left = self._match()
        while self._is("in"):
            self._advance()
            left = ("in", left, self._advance())
        return left

    def _match(self) -> Node:
        left = self._comparison()
        while self._is("~") or (self._is("!") and self._text[self._at : self._at + 1] == "~"):
            negated = self._advance() == "!"
            if negated:
                self._expect("~")
            left = ("~", left, self._comparison(), negated)
        return left

    def _comparison(self) -> Node:
        left = self._concatenation()
        if self._is(*_COMPARE) and not (self._in_print and self._is(">")):
            operator = self._advance()
            return ("compare", operator, left, self._concatenation())
        return left

    def _starts_operand(self) -> bool:
        if self._kind in ("number", "string"):
            return True
        if self._kind == "name":
            return self._value not in _KEYWORDS
        return self._is("$", "!", "(", "-", "+", "++", "--") and not (
            self._is("!") and self._text[self._at : self._at + 1] in ("~", "=")
        )

    def _concatenation(self) -> Node:
        left = self._additive()
        while self._starts_operand() and not self._is("+", "-"):
            left = ("concat", left, self._additive())
        return left

    def _additive(self) -> Node:
        left = self._term()
        while self._is("+", "-"):
            left = ("binary", self._advance(), left, self._term())
        return left

    def _term(self) -> Node:
        left = self._unary()
        while self._is("*", "/", "%"):
            left = ("binary", self._advance(), left, self._unary())
        return left

    def _unary(self) -> Node:
        if self._is("!", "-", "+"):
            self._enter()
            operator = self._advance()
            node = ("unary", operator, self._unary())
            self._depth -= 1
            return node
        return self._power()

    def _power(self) -> Node:
        base = self._postfix()
        if self._take("^", "**"):
            self._enter()
            exponent = self._unary() if self._is("-", "+", "!") else self._power()
            self._depth -= 1
            return ("binary", "^", base, exponent)
        return base

    def _postfix(self) -> Node:
        if self._is("++", "--"):
            operator = self._advance()
            return ("pre", operator, self._postfix())
        node = self._primary()
        if self._is("++", "--") and node[0] in ("var", "index", "field"):
            return ("post", self._advance(), node)
        return node

    def _primary(self) -> Node:
        if self._kind == "number":
            text = self._advance()
            return ("number", float(int(text, 16)) if text[:2].lower() == "0x" else float(text))
        if self._kind == "string":
            return ("string", _unescape(self._advance()[1:-1]))
        if self._take("$"):
            self._enter()
            node = ("field", self._postfix() if self._is("++", "--") else self._primary())
            self._depth -= 1
            return node
        if self._is("/", "/="):
            return self._regex()
        if self._take("("):
            return self._parenthesis()
        if self._is("getline"):
            raise AwkError("getline is not emulated")
        if self._kind == "name" and self._value not in _KEYWORDS:
            return self._name(self._advance())
        raise self._error()

    def _regex(self) -> Node:
        start = self._at - len(self._value) + 1
        at, bracket = start, False
        while at < len(self._text) and (self._text[at] != "/" or bracket):
            char = self._text[at]
            if char == "\n":
                raise self._error("/")
            if char == "\\":
                at += 1
            elif char == "[":
                bracket = True
            elif char == "]":
                bracket = False
            at += 1
        if at >= len(self._text):
            raise self._error("/")
        pattern = self._text[start:at].replace("\\/", "/")
        self._at = at + 1
        self._advance()
        return ("regex", pattern)

    def _parenthesis(self) -> Node:
        printing, self._in_print = self._in_print, False
        values = [self._expression()]
        while self._take(","):
            self._skip_newlines()
            values.append(self._expression())
        self._expect(")")
        self._in_print = printing
        if len(values) == 1:
            return ("paren", values[0])
        if self._take("in"):
            return ("in", ("join", values), self._advance())
        return ("group", values)

    def _subscript(self) -> Node:
        printing, self._in_print = self._in_print, False
        values = [self._expression()]
        while self._take(","):
            values.append(self._expression())
        self._expect("]")
        self._in_print = printing
        return values[0] if len(values) == 1 else ("join", values)

    def _name(self, name: str) -> Node:
        if self._take("["):
            return ("index", name, self._subscript())
        called = self._is("(") and self._text[self._at - 2 : self._at - 1] not in (" ", "\t")
        if name in BUILTINS or called:
            values: list[Node] = []
            if self._is("("):
                self._advance()
                printing, self._in_print = self._in_print, False
                self._skip_newlines()
                while not self._take(")"):
                    values.append(self._expression())
                    self._skip_newlines()
                    if not self._is(")"):
                        self._expect(",")
                        self._skip_newlines()
                self._in_print = printing
            return ("call", name, values)
        return ("var", name)


@lru_cache(maxsize=64)
def parse_awk(text: str) -> AwkProgram:
    """The program. Raises ``AwkError``."""
    try:
        return _Parser(text).program()
    except RecursionError:
        raise AwkError("program nested too deeply") from None
