"""What a check says, as values: expressions over a snapshot, moments, series, and the checks (pure)."""

from typing import Literal, TypeAlias

from attrs import frozen

__all__ = [
    "And",
    "At",
    "Base",
    "Check",
    "Comparison",
    "Count",
    "Expr",
    "Final",
    "Gap",
    "Instance",
    "InstanceIs",
    "Keep",
    "Moment",
    "Not",
    "Operator",
    "Or",
    "Order",
    "Path",
    "Quantified",
    "Series",
    "Value",
    "Window",
]

Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">=", "~"]


@frozen
class Value:
    """A value as written: ``text`` verbatim (unquoted), ``value`` what it means; ``none`` is None."""

    text: str
    value: float | str | bool | None


@frozen
class Path:
    """A place in a snapshot: ``field`` of the pod, a condition or a container; ``of`` names the latter two.

    ``scope`` is pod, cond, container or node; ``argument`` is the device of ``health`` or the resource.
    """

    scope: Literal["pod", "cond", "container", "node"]
    field: str
    of: str = ""
    argument: str = ""

    def __str__(self) -> str:
        if self.scope == "cond":
            return f"cond({self.of})" + (f".{self.field}" if self.field != "status" else "")
        head = f"{self.of}." if self.scope == "container" else "node." if self.scope == "node" else ""
        return f"{head}{self.field}" + (f"({self.argument})" if self.argument else "")


@frozen
class Comparison:
    path: Path
    op: Operator
    value: Value


@frozen
class Not:
    term: "Expr"


@frozen
class And:
    terms: tuple["Expr", ...]


@frozen
class Or:
    terms: tuple["Expr", ...]


Expr: TypeAlias = Comparison | Not | And | Or


@frozen
class Instance:
    """``C#n``: the n-th container (from 0) that was created for the pod's container C."""

    container: str
    number: int

    def __str__(self) -> str:
        return f"{self.container}#{self.number}"


@frozen
class Base:
    """What a moment is counted from. ``kind`` is the word before the bracket, or number, start, end, gone."""

    kind: str
    number: float = 0.0
    instance: Instance | None = None
    container: str = ""
    text: str = ""
    expr: Expr | None = None
    after: "Moment | None" = None
    shown: str = ""

    def __str__(self) -> str:
        return self.shown


@frozen
class Moment:
    base: Base
    offset_seconds: float = 0.0

    def __str__(self) -> str:
        if not self.offset_seconds:
            return str(self.base)
        sign = "+" if self.offset_seconds > 0 else "-"
        return f"{self.base} {sign} {abs(self.offset_seconds):g}"


@frozen
class Window:
    begin: Moment
    end: Moment


@frozen
class Series:
    """What is counted; ``container`` and ``text`` are empty where not given."""

    kind: str
    container: str = ""
    text: str = ""
    pattern: str = ""


@frozen
class Final:
    expr: Expr


@frozen
class At:
    moment: Moment
    expr: Expr


@frozen
class Quantified:
    """``always``, ``never`` or ``eventually``."""

    how: Literal["always", "never", "eventually"]
    expr: Expr
    within: Window | None


@frozen
class Order:
    moments: tuple[Moment, ...]


@frozen
class Gap:
    first: Moment
    second: Moment
    op: Operator
    seconds: float


@frozen
class Count:
    series: Series
    op: Operator
    number: float
    within: Window | None


@frozen
class Keep:
    """``fact`` is podUID, podIP, sandbox, containerID, restartCount, devices or env."""

    fact: str
    container: str
    name: str
    within: Window | None


@frozen
class InstanceIs:
    instance: Instance
    attribute: str
    argument: str
    op: Operator
    value: Value


Check: TypeAlias = Final | At | Quantified | Order | Gap | Count | Keep | InstanceIs
