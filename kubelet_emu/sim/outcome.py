"""What came of a case: its trace, what it broke, what it reached (pure)."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from attrs import field, frozen

from kubelet_emu.sim.case import Case
from kubelet_emu.trace.schema import Record, Trace

__all__ = ["Finding", "Outcome", "Reached", "SimVerdict"]

SimVerdict: TypeAlias = Literal["ok", "violated", "failed", "stopped"]
"""``failed``: the program under test broke; ``stopped``: the run was ended at a record, as asked."""

Reached: TypeAlias = Mapping[tuple[str, str, str], int]
"""How often each transition (table, from, to) was taken."""


@frozen(kw_only=True)
class Finding:
    """Something that did not hold. ``record`` is the ``seq`` of the record that proves it, -1 for none.

    ``exempt`` is the rule that lets a real node do it too; then it counts for nothing.
    """

    invariant: str
    record: int
    text: str
    pod: str = ""
    rules: tuple[str, ...] = ()
    exempt: str = ""

    def __str__(self) -> str:
        by = f" (exempt by {self.exempt})" if self.exempt else ""
        rules = f" ({', '.join(self.rules)})" if self.rules else ""
        return f"{self.invariant}{rules}{f', pod {self.pod}' if self.pod else ''}: {self.text}{by}"


@frozen(kw_only=True)
class Outcome:
    """The result of ``run_case``. ``pods`` are the API objects at the end, ``calls`` all rpcs of the run."""

    case: Case
    trace: Trace
    findings: tuple[Finding, ...]
    verdict: SimVerdict
    transitions: Reached = field(factory=dict[tuple[str, str, str], int])
    calls: int = 0
    simulated_seconds: float = 0.0
    pods: tuple[Mapping[str, Any], ...] = ()
    judged: int = 0
    """How often an invariant was checked."""
    failure: str = ""
    """The traceback of a program that broke."""

    @property
    def records(self) -> tuple[Record, ...]:
        """The records of the trace, in order of ``seq``."""
        return self.trace.records

    @property
    def violations(self) -> tuple[Finding, ...]:
        """The findings that are not exempt."""
        return tuple(one for one in self.findings if not one.exempt)

    @property
    def ok(self) -> bool:
        """Whether nothing was broken."""
        return self.verdict in ("ok", "stopped")
