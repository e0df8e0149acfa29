"""The language of checks: one line that says what has to be true of a run, parsed into values (pure).

``docs/checks.md`` has the grammar. A mistake raises ``CheckSyntaxError``, which names the column and what
was expected there.
"""

import re
from collections.abc import Callable
from typing import Literal

from attrs import frozen

from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.lab.checks_values import (
    And,
    At,
    Base,
    Check,
    Comparison,
    Count,
    Expr,
    Final,
    Gap,
    Instance,
    InstanceIs,
    Keep,
    Moment,
    Not,
    Operator,
    Or,
    Order,
    Path,
    Quantified,
    Series,
    Value,
    Window,
)

__all__ = ["CheckSyntaxError", "parse_check", "parse_expr"]

LENGTH_MAX = 2_000
NESTING_MAX = 40


class CheckSyntaxError(CallerError):
    """Raised for a check that cannot be parsed; ``column`` counts from 1."""

    def __init__(self, text: str, column: int, message: str) -> None:
        self.text = text
        self.column = column
        shown = text if len(text) <= 200 else text[:200] + " …"
        hint = f"in: {shown}"
        super().__init__([Problem(f"check, column {column}: {message}", hint=hint)])


@frozen
class _Token:
    kind: Literal["word", "string", "op", "end"]
    text: str
    column: int


_LEX = re.compile(
    r"""(?P<blank>\s+)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<op>->|<=|>=|!=|[=<>~()\[\],+])
      | (?P<word>[A-Za-z0-9._/:\#-]+)""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"-?\d+(\.\d+)?$")
_INSTANCE = re.compile(r"([a-z0-9-]+)#(\d{1,6})$")
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=", "~")
_POD_FIELDS = ("phase", "reason", "message", "podIP", "qosClass", "deleting")
_CONTAINER_FIELDS = (
    "state",
    "reason",
    "message",
    "exitCode",
    "last.reason",
    "last.message",
    "last.exitCode",
    "restartCount",
    "ready",
    "started",
    "image",
)
_INSTANCE_MOMENTS = ("created", "started", "stopping", "exited", "removed")
_FACTS = ("podUID", "podIP", "sandbox", "containerID", "restartCount", "devices", "env")
_ATTRIBUTES = ("exitCode", "stopTimeout", "attempt", "image", "lifetime", "env", "mount")


def parse_check(text: str) -> Check:
    """Parse one check; raises ``CheckSyntaxError``."""
    parser = _Parser(text)
    check = parser.check()
    parser.finish()
    return check


def parse_expr(text: str) -> Expr:
    """Parse an expression over one snapshot (``phase = Running and main.ready = true``)."""
    parser = _Parser(text)
    expr = parser.expr()
    parser.finish()
    return expr


def _tokens(text: str) -> list[_Token]:
    if len(text) > LENGTH_MAX:
        raise CheckSyntaxError(text, LENGTH_MAX, f"a check has at most {LENGTH_MAX} characters")
    tokens: list[_Token] = []
    position = 0
    while position < len(text):
        match = _LEX.match(text, position)
        if match is None:
            wrong = text[position]
            what = "a string that does not end" if wrong == '"' else f"unexpected character {wrong!r}"
            raise CheckSyntaxError(text, position + 1, what)
        token = match.group()
        if match.lastgroup == "string":
            plain = re.sub(r'\\(["\\])', r"\1", token[1:-1])
            tokens.append(_Token("string", plain, position + 1))
        elif match.lastgroup == "op" or token == "-":
            tokens.append(_Token("op", token, position + 1))
        elif match.lastgroup == "word":
            # "a->b": the word pattern takes the dash of an arrow that follows without a blank.
            if token.endswith("-") and text[match.end() : match.end() + 1] == ">":
                token = token[:-1]
            tokens.append(_Token("word", token, position + 1))
            position += len(token)
            continue
        position = match.end()
    tokens.append(_Token("end", "", len(text) + 1))
    return tokens


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0

    # -- tokens --

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def _fail(self, expected: str, token: _Token | None = None) -> CheckSyntaxError:
        token = token or self._next
        found = "the end" if token.kind == "end" else f'"{token.text}"'
        return CheckSyntaxError(self._text, token.column, f"expected {expected}, found {found}")

    def _is(self, text: str) -> bool:
        return self._next.kind in ("op", "word") and self._next.text == text

    def _accept(self, text: str) -> bool:
        if self._is(text):
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._fail(f'"{text}"')

    def _word(self, what: str) -> str:
        if self._next.kind != "word":
            raise self._fail(what)
        return self._take().text

    def _text_argument(self, what: str) -> str:
        if self._next.kind not in ("word", "string"):
            raise self._fail(what)
        return self._take().text

    def _number(self, what: str = "a number") -> float:
        token = self._next
        if token.kind != "word" or not _NUMBER.match(token.text):
            raise self._fail(what)
        self._at += 1
        return float(token.text)

    def finish(self) -> None:
        if self._next.kind != "end":
            raise self._fail("the end of the check")

    # -- checks --

    def check(self) -> Check:
        token = self._next
        word = self._word("one of " + ", ".join(_CHECKS))
        parse = _CHECKS.get(word)
        if parse is None:
            raise self._fail("one of " + ", ".join(_CHECKS), token)
        return parse(self)

    def final(self) -> Check:
        return Final(self.expr())

    def at(self) -> Check:
        moment = self.moment()
        return At(moment, self.expr())

    def always(self) -> Check:
        return Quantified("always", self.expr(), self.within())

    def never(self) -> Check:
        return Quantified("never", self.expr(), self.within())

    def eventually(self) -> Check:
        return Quantified("eventually", self.expr(), self.within())

    def order(self) -> Check:
        moments = [self.moment()]
        while self._accept("<"):
            moments.append(self.moment())
        if len(moments) < 2:
            raise self._fail('"<" and a further moment')
        return Order(tuple(moments))

    def gap(self) -> Check:
        first = self.moment()
        self._expect("->")
        second = self.moment()
        op = self.comparison(number=True)
        return Gap(first, second, op, self._number("a number of seconds"))

    def count(self) -> Check:
        series = self.series()
        op = self.comparison(number=True)
        number = self._number()
        return Count(series, op, number, self.within())

    def keep(self) -> Check:
        token = self._next
        fact = self._word("one of " + ", ".join(_FACTS))
        if fact not in _FACTS:
            raise self._fail("one of " + ", ".join(_FACTS), token)
        container = name = ""
        if fact in ("containerID", "restartCount", "devices", "env"):
            self._expect("(")
            container = self._word("a container's name")
            if fact == "env":
                self._expect(",")
                name = self._text_argument("the name of a variable")
            self._expect(")")
        return Keep(fact, container, name, self.within())

    def instance_is(self) -> Check:
        instance = self.instance()
        token = self._next
        attribute = self._word("one of " + ", ".join(_ATTRIBUTES))
        if attribute not in _ATTRIBUTES:
            raise self._fail("one of " + ", ".join(_ATTRIBUTES), token)
        argument = ""
        if attribute in ("env", "mount"):
            self._expect("(")
            argument = self._text_argument("the name of a variable" if attribute == "env" else "a path")
            self._expect(")")
        return InstanceIs(instance, attribute, argument, *self.compared())

    def within(self) -> Window | None:
        if not self._accept("within"):
            return None
        self._expect("[")
        begin = self.moment()
        self._expect(",")
        end = self.moment()
        self._expect("]")
        return Window(begin, end)

    # -- expressions --

    def expr(self) -> Expr:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise CheckSyntaxError(self._text, self._next.column, f"nested more than {NESTING_MAX} deep")
        terms = [self._conjunction()]
        while self._accept("or"):
            terms.append(self._conjunction())
        self._depth -= 1
        return terms[0] if len(terms) == 1 else Or(tuple(terms))

    def _conjunction(self) -> Expr:
        terms = [self._term()]
        while self._accept("and"):
            terms.append(self._term())
        return terms[0] if len(terms) == 1 else And(tuple(terms))

    def _term(self) -> Expr:
        if self._accept("not"):
            self._depth += 1
            if self._depth > NESTING_MAX:
                raise CheckSyntaxError(self._text, self._next.column, f"nested more than {NESTING_MAX} deep")
            term = Not(self._term())
            self._depth -= 1
            return term
        if self._accept("("):
            expr = self.expr()
            self._expect(")")
            return expr
        return Comparison(self.path(), *self.compared())

    def compared(self) -> tuple[Operator, Value]:
        op = self.comparison()
        token = self._next
        if token.kind not in ("word", "string"):
            raise self._fail("a value (a number, a word, a string in quotes, true, false or none)")
        self._at += 1
        value = _value(token)
        if op == "~":
            _check_pattern(self._text, token)
        return op, value

    def comparison(self, *, number: bool = False) -> Operator:
        allowed = _COMPARISONS[:-1] if number else _COMPARISONS
        if self._next.kind != "op" or self._next.text not in allowed:
            raise self._fail(f"a comparison ({' '.join(allowed)})")
        return self._take().text  # pyright: ignore[reportReturnType]

    def path(self) -> Path:
        token = self._next
        word = self._word("a path such as phase, cond(Ready) or main.state")
        if word in _POD_FIELDS:
            return Path("pod", word)
        if word == "cond":
            return self._condition_path()
        if word in ("node.capacity", "node.allocatable"):
            return Path("node", word.partition(".")[2], argument=self._bracketed("a resource"))
        container, dot, field = word.partition(".")
        if dot and container and field == "health":
            return Path("container", field, of=container, argument=self._bracketed("a device"))
        if dot and container and field in _CONTAINER_FIELDS:
            return Path("container", field, of=container)
        if dot and container:
            raise self._fail(f"{container}. and one of {', '.join(_CONTAINER_FIELDS)}, health(DEVICE)", token)
        fields = ", ".join(_POD_FIELDS)
        raise self._fail(f"a path ({fields}, cond(TYPE), CONTAINER.FIELD, node.capacity(RESOURCE))", token)

    def _condition_path(self) -> Path:
        of = self._bracketed("a condition's type")
        token = self._next
        if token.kind == "word" and token.text.startswith("."):
            if token.text not in (".reason", ".message"):
                raise self._fail('".reason" or ".message"')
            self._at += 1
            return Path("cond", token.text[1:], of=of)
        return Path("cond", "status", of=of)

    def _bracketed(self, what: str) -> str:
        self._expect("(")
        text = self._text_argument(what)
        self._expect(")")
        return text

    # -- moments and series --

    def instance(self) -> Instance:
        token = self._next
        match = _INSTANCE.match(self._word("an instance such as main#0"))
        if match is None:
            raise self._fail("an instance such as main#0", token)
        return Instance(match[1], int(match[2]))

    def moment(self) -> Moment:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise CheckSyntaxError(self._text, self._next.column, f"nested more than {NESTING_MAX} deep")
        column = self._next.column
        base = self._base()
        self._depth -= 1
        last = self._tokens[self._at - 1]
        shown = " ".join(self._text[column - 1 : last.column - 1 + len(last.text)].split())
        base = Base(
            base.kind, base.number, base.instance, base.container, base.text, base.expr, base.after, shown
        )
        for sign, factor in (("+", 1.0), ("-", -1.0)):
            if self._next.kind == "op" and self._accept(sign):
                return Moment(base, factor * self._number("a number of seconds"))
        return Moment(base)

    def _base(self) -> Base:
        token = self._next
        what = (
            "a moment (a number, start, end, gone, created(C#0), started(…), stopping(…), exited(…), "
            "removed(…), sandbox(0), sandboxStopped(0), exec(C, text), event(REASON), action(0), when(…))"
        )
        word = self._word(what)
        if _NUMBER.match(word):
            return Base("number", number=float(word))
        if word in ("start", "end", "gone"):
            return Base(word)
        arguments = _BASES.get(word)
        if arguments is None:
            raise self._fail(what, token)
        self._expect("(")
        base = arguments(self, word)
        self._expect(")")
        return base

    def instance_base(self, word: str) -> Base:
        return Base(word, instance=self.instance())

    def numbered_base(self, word: str) -> Base:
        number = self._number("a number from 0")
        if number != int(number) or number < 0:
            raise self._fail("a whole number from 0", self._tokens[self._at - 1])
        return Base(word, number=number)

    def exec_base(self, word: str) -> Base:
        container = self._word("a container's name")
        self._expect(",")
        return Base(word, container=container, text=self._text_argument("part of a command line"))

    def event_base(self, word: str) -> Base:
        reason = self._word("the reason of an event")
        container = self._word("a container's name") if self._accept(",") else ""
        return Base(word, text=reason, container=container)

    def when_base(self, word: str) -> Base:
        expr = self.expr()
        after = self.moment() if self._accept(",") else None
        return Base(word, expr=expr, after=after)

    def series(self) -> Series:
        token = self._next
        what = "a series (created(C), started(C), …, sandboxes, exec(C, text), event(REASON), cri(METHOD))"
        word = self._word(what)
        if word == "sandboxes":
            return Series(word)
        if word not in (*_INSTANCE_MOMENTS, "exec", "event", "cri", "plugin"):
            raise self._fail(what, token)
        self._expect("(")
        if word in _INSTANCE_MOMENTS:
            series = Series(word, container=self._word("a container's name"))
        elif word == "exec":
            container = self._word("a container's name")
            self._expect(",")
            series = Series(word, container=container, text=self._text_argument("part of a command line"))
        elif word == "event":
            series = self._event_series(word)
        else:
            series = Series(word, text=self._word("the name of a method"))
        self._expect(")")
        return series

    def _event_series(self, word: str) -> Series:
        reason = self._word("the reason of an event")
        container = pattern = ""
        if self._accept(","):
            container = self._word("a container's name")
            if self._accept(","):
                token = self._next
                pattern = self._text_argument("a regular expression for the message")
                _check_pattern(self._text, token)
        return Series(word, container=container, text=reason, pattern=pattern)


def _value(token: _Token) -> Value:
    text = token.text
    if token.kind == "string":
        return Value(text, text)
    words: dict[str, bool | None] = {"true": True, "false": False, "none": None}
    if text in words:
        return Value(text, words[text])
    if _NUMBER.match(text):
        return Value(text, float(text))
    return Value(text, text)


def _check_pattern(text: str, token: _Token) -> None:
    try:
        re.compile(token.text)
    except (re.error, RecursionError, OverflowError) as error:
        raise CheckSyntaxError(text, token.column, f"not a regular expression: {error}") from None


_CHECKS: dict[str, Callable[[_Parser], Check]] = {
    "final": _Parser.final,
    "at": _Parser.at,
    "always": _Parser.always,
    "never": _Parser.never,
    "eventually": _Parser.eventually,
    "order": _Parser.order,
    "gap": _Parser.gap,
    "count": _Parser.count,
    "keep": _Parser.keep,
    "instance": _Parser.instance_is,
}
_BASES: dict[str, Callable[[_Parser, str], Base]] = {
    **dict.fromkeys(_INSTANCE_MOMENTS, _Parser.instance_base),
    "sandbox": _Parser.numbered_base,
    "sandboxStopped": _Parser.numbered_base,
    "action": _Parser.numbered_base,
    "exec": _Parser.exec_base,
    "event": _Parser.event_base,
    "when": _Parser.when_base,
}
