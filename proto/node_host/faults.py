"""The one grammar in which faults are written down, its parser, and the plan that hands faults out (pure).

    plan    = rule (";" rule)*              blank rules and whitespace are ignored; a newline is a ";"
    rule    = method ":" term ("->" term)*
    method  = the name on the wire, such as StartContainer, or "*" for every method
    term    = [count "*"] action            without a count, for ever: only the last term of a rule
    action  = "off"                         no fault
            | "error(" code ["," text] ")"  answered with this code; the peer never sees the request
            | "delay(" seconds ")"          handed over that much later; seconds may be spread: ``0.1..0.5``
                                            evenly, ``~0.2`` exponentially with that mean, ``0.2+-0.05``
                                            normally with that deviation, never below 0
            | "hang" ["(" seconds ")"]      never seen by the peer, never answered (or UNAVAILABLE after
                                            seconds)
            | "lost" ["(" code [text] ")"]  done by the peer, but the answer is lost: never answered, or this
                                            code
            | "lost(" seconds ")"           the same, ended by UNAVAILABLE after seconds
            | "duplicate"                   reaches the peer twice, answered once
            | "crash" | "crash(after)"      the peer dies on getting the request, or after having done it
    code    = a gRPC code: UNAVAILABLE, NOT_FOUND …
    text    = characters up to the closing parenthesis; in double quotes it may hold any character but
    the quote

Example: ``StartContainer: 2*off -> 1*error(UNAVAILABLE, "gone away"); *: 1*delay(0.5)`` fails the third
start of a container and delays the first call of all. Terms of a rule are used up one after the other; a
rule that is used up gives no fault. Every rule whose method matches counts the call; where several give
a fault, the first one written wins.

Faults that come at a moment of a run, and what happens beside the wire, are written in the lines of
``node_host.plan``, which may hold such a rule.
"""

import math
import re
from collections.abc import Callable
from typing import Literal

from attrs import evolve, field, frozen

__all__ = [
    "CODES",
    "Draw",
    "Fault",
    "FaultPlan",
    "FaultSyntaxError",
    "Rule",
    "Spread",
    "Term",
    "parse",
    "parse_spread",
]

Draw = Callable[[], float]
"""A number from 0 (included) to 1 (excluded), another one each time."""

FaultKind = Literal["off", "error", "delay", "hang", "lost", "duplicate", "crash", "crash-after"]

CODES = (
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
"""The codes a fault may answer with."""

MAX_COUNT = 1_000_000_000
MAX_RULES = 1000
_METHOD = re.compile(r"\*|[A-Za-z][A-Za-z0-9_]*")
_TERM = re.compile(
    r"(?:(?P<count>[^*()\"]*)\*)?\s*(?P<action>[^()\"]*?)\s*(?:\((?P<arguments>.*)\))?", re.DOTALL
)


class FaultSyntaxError(ValueError):
    """Raised for a plan that does not follow the grammar; says which rule, what is wrong and what would
    be right.
    """


@frozen
class Spread:
    """Seconds that differ from time to time: ``even`` from ``low`` to ``high``, ``exponential`` with the mean
    ``low``, ``normal`` round ``low`` with the deviation ``high`` and cut off at 0.
    """

    shape: Literal["even", "exponential", "normal"]
    low: float
    high: float = 0.0

    def seconds(self, draw: Draw | None) -> float:
        """One value; without chance the middle one."""
        if self.shape == "even":
            return self.low + (self.high - self.low) * (0.5 if draw is None else draw())
        if self.shape == "exponential":
            return -self.low * math.log(1.0 - (0.5 if draw is None else draw()))
        if draw is None:
            return self.low
        # Box and Muller's way to a normal value.
        radius = math.sqrt(-2.0 * math.log(1.0 - draw()))
        return max(self.low + self.high * radius * math.cos(2.0 * math.pi * draw()), 0.0)

    def __str__(self) -> str:
        if self.shape == "exponential":
            return f"~{_plain(self.low)}"
        return f"{_plain(self.low)}{'..' if self.shape == 'even' else '+-'}{_plain(self.high)}"


@frozen(kw_only=True)
class Fault:
    """What happens to one call."""

    kind: FaultKind
    code: str | None = None
    """Name of the gRPC code it is answered with; None where ``lost`` is never answered."""
    details: str = ""
    seconds: float = 0.0
    """How long ``delay`` waits; after how long ``hang`` and ``lost`` end in UNAVAILABLE, 0 for never."""
    spread: Spread | None = None
    """Where ``delay`` waits differently each time; ``FaultPlan.next`` turns it into ``seconds``."""

    def __str__(self) -> str:
        if self.kind == "delay":
            return f"delay({self.spread or _plain(self.seconds)})"
        if self.kind in ("hang", "lost") and self.seconds:
            return f"{self.kind}({_plain(self.seconds)})"
        if self.kind == "crash-after":
            return "crash(after)"
        if self.code is None:
            return self.kind
        return f'{self.kind}({self.code}, "{self.details}")' if self.details else f"{self.kind}({self.code})"


@frozen
class Term:
    """A fault for ``count`` calls; None is for ever."""

    fault: Fault
    count: int | None

    def __str__(self) -> str:
        return str(self.fault) if self.count is None else f"{self.count}*{self.fault}"


@frozen
class Rule:
    """The faults of one method, or of all methods where it is ``*``."""

    method: str
    terms: tuple[Term, ...] = field(converter=tuple)

    @property
    def ends_after(self) -> int | None:
        """After how many calls it gives no fault any more; None for a rule that goes on for ever."""
        if self.terms and self.terms[-1].count is None and self.terms[-1].fault.kind != "off":
            return None
        return sum(term.count or 0 for term in self.terms)

    def fault_at(self, index: int) -> Fault | None:
        """The fault of the call with this index (from 0) among those the rule matches, None for none."""
        for term in self.terms:
            if term.count is None or index < term.count:
                return None if term.fault.kind == "off" else term.fault
            index -= term.count
        return None

    def __str__(self) -> str:
        return f"{self.method}: " + " -> ".join(str(term) for term in self.terms)


class FaultPlan:
    """Rules with the count of calls each has seen. ``str()`` gives the text that makes it anew.

    ``draw`` is where delays that are spread take their chance; without it they are the middle ones.
    """

    def __init__(self, rules: "tuple[Rule, ...] | list[Rule]" = (), *, draw: Draw | None = None) -> None:
        self.rules = tuple(rules)
        self._seen = [0] * len(self.rules)
        self._draw = draw
        self.active = bool(self.rules)
        """Whether a call may still meet a fault. Calls need not be counted where it is False."""

    def add(self, rule: Rule) -> None:
        """Have one more rule, which counts the calls from now on. Rules that are used up are dropped."""
        self._drop_used_up()
        if len(self.rules) >= MAX_RULES:
            raise FaultSyntaxError(f"a plan has at most {MAX_RULES} rules at a time")
        self.rules += (rule,)
        self._seen.append(0)
        self.active = True

    def clear(self) -> None:
        """No more faults."""
        self.rules, self._seen, self.active = (), [], False

    def _lasting(self, position: int) -> bool:
        end = self.rules[position].ends_after
        return end is None or self._seen[position] < end

    def _drop_used_up(self) -> None:
        kept = [at for at in range(len(self.rules)) if self._lasting(at)]
        if len(kept) < len(self.rules):
            self.rules = tuple(self.rules[at] for at in kept)
            self._seen = [self._seen[at] for at in kept]

    @classmethod
    def parse(cls, text: str, *, draw: Draw | None = None) -> "FaultPlan":
        """The plan written in ``text``. Raises FaultSyntaxError."""
        return cls(parse(text), draw=draw)

    def replace(self, rules: tuple[Rule, ...]) -> None:
        """Go on with other rules, which count the calls from now on."""
        self.clear()
        for rule in rules:
            self.add(rule)

    def next(self, method: str) -> Fault | None:
        """Count a call of ``method`` and say what is to happen to it; None for nothing."""
        found: Fault | None = None
        for position, rule in enumerate(self.rules):
            if rule.method in (method, "*"):
                fault = rule.fault_at(self._seen[position])
                self._seen[position] += 1
                found = found or fault
        if found is None:
            self.active = any(map(self._lasting, range(len(self.rules))))
        if found is not None and found.spread is not None:
            return evolve(found, seconds=found.spread.seconds(self._draw))
        return found

    def __str__(self) -> str:
        return "; ".join(str(rule) for rule in self.rules)


def parse(text: str) -> tuple[Rule, ...]:
    """The rules written in ``text``. Raises FaultSyntaxError."""
    pieces = [piece.strip() for piece in _split(text, (";", "\n"))]
    rules = tuple(_rule(piece) for piece in pieces if piece)
    if len(rules) > MAX_RULES:
        raise FaultSyntaxError(f"{len(rules)} rules are too many; at most {MAX_RULES} are allowed")
    return rules


def _rule(text: str) -> Rule:
    method, colon, rest = text.partition(":")
    method = method.strip()
    if not colon:
        raise _wrong(text, "no ':' after the method; write 'Method: action'")
    if not _METHOD.fullmatch(method):
        raise FaultSyntaxError(
            f"rule {text!r}: {method!r} is no method name; write a wire name such as StartContainer, or *"
        )
    terms = tuple(_term(piece.strip(), text) for piece in _split(rest, ("->",)))
    for term in terms[:-1]:
        if term.count is None:
            raise FaultSyntaxError(
                f"rule {text!r}: '{term}' goes on for ever, so nothing may follow it; give it a count"
            )
    return Rule(method, terms)


def _wrong(rule: str, what: str) -> FaultSyntaxError:
    return FaultSyntaxError(f"rule {rule!r}: {what}")


def _term(text: str, rule: str) -> Term:
    found = _TERM.fullmatch(text)
    if not text or found is None:
        raise FaultSyntaxError(
            f"rule {rule!r}: {text!r} is no action; write one of {_ACTIONS}, with a count before '*'"
        )
    count_text = found["count"]
    count: int | None = None
    if count_text is not None:
        digits = count_text.strip()
        if (
            not (digits.isascii() and digits.isdigit())
            or not 1 <= len(digits) <= 10
            or not 1 <= int(digits) <= MAX_COUNT
        ):
            raise FaultSyntaxError(
                f"rule {rule!r}: {digits!r} is no count; write a number from 1 to {MAX_COUNT}"
            )
        count = int(digits)
    arguments = None if found["arguments"] is None else _arguments(found["arguments"])
    return Term(_fault(found["action"], arguments, rule), count)


_ACTIONS = "off, error(CODE), delay(SECONDS), hang, lost, duplicate, crash"


def _plain(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def _fault(action: str, arguments: list[str] | None, rule: str) -> Fault:
    given = arguments or []
    if action in ("hang", "lost") and len(given) == 1 and given[0][:1].isdigit():
        seconds = _seconds(given[0])
        if seconds is None:
            raise _wrong(rule, f"{action} takes seconds from 0 to {MAX_COUNT}; write {action}(0.5)")
        return Fault(kind="hang" if action == "hang" else "lost", seconds=seconds)
    if action == "error" or (action == "lost" and arguments is not None):
        if not 1 <= len(given) <= 2 or not given[0]:
            raise FaultSyntaxError(
                f"rule {rule!r}: {action} takes a code and an optional text; write {action}(UNAVAILABLE)"
            )
        if given[0] not in CODES:
            raise _wrong(rule, f"{given[0]!r} is no gRPC code; one of {', '.join(CODES)}")
        return Fault(kind="error" if action == "error" else "lost", code=given[0], details="".join(given[1:]))
    if action == "delay":
        found = parse_spread(",".join(given))
        if found is None:
            raise _wrong(
                rule,
                f"delay takes seconds from 0 to {MAX_COUNT}; write delay(0.5), or spread delay(0.1..0.5), "
                "delay(~0.2), delay(0.2+-0.05)",
            )
        if isinstance(found, Spread):
            return Fault(kind="delay", spread=found)
        return Fault(kind="delay", seconds=found)
    if action == "crash" and arguments is not None:
        if given != ["after"]:
            raise FaultSyntaxError(
                f"rule {rule!r}: crash takes nothing or 'after'; write crash or crash(after)"
            )
        return Fault(kind="crash-after")
    plain: tuple[FaultKind, ...] = ("off", "hang", "lost", "duplicate", "crash")
    for kind in plain:
        if action == kind:
            if arguments is not None:
                raise _wrong(rule, f"{action} takes no argument; write {action}")
            return Fault(kind=kind)
    raise _wrong(rule, f"{action!r} is no action; one of {_ACTIONS}")


def parse_spread(text: str) -> float | Spread | None:
    """Seconds as ``delay`` takes them: a number, or how they are spread; None for anything else."""
    text = text.strip()
    if text.startswith("~"):
        mean = _seconds(text[1:])
        return None if mean is None else Spread("exponential", mean)
    for mark, shape in (("..", "even"), ("+-", "normal")):
        if mark in text:
            low, high = (_seconds(part) for part in text.split(mark, 1))
            if low is None or high is None or (shape == "even" and high < low):
                return None
            return Spread("even" if shape == "even" else "normal", low, high)
    return _seconds(text)


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0.0 <= seconds <= MAX_COUNT else None


def _arguments(text: str) -> list[str]:
    """The arguments of an action: split at the first comma, the text without its quotes."""
    first, comma, rest = text.partition(",")
    rest = rest.strip()
    if len(rest) >= 2 and rest[0] == rest[-1] == '"':
        rest = rest[1:-1]
    return [first.strip(), rest] if comma else [first.strip()]


def _split(text: str, separators: tuple[str, ...]) -> list[str]:
    """Split at separators that stand outside double quotes."""
    pieces, start, position, quoted = list[str](), 0, 0, False
    while position < len(text):
        if text[position] == '"':
            quoted = not quoted
        found = None if quoted else next((one for one in separators if text.startswith(one, position)), None)
        if found is None:
            position += 1
            continue
        pieces.append(text[start:position])
        position += len(found)
        start = position
    pieces.append(text[start:])
    if quoted:
        raise FaultSyntaxError(f"{text!r}: a double quote is not closed")
    return pieces
