"""What is searched, and what a stretch of it came to (pure)."""

from collections.abc import Iterable, Mapping

from attrs import define, field, frozen

from kubelet_emu.sim.case import Case
from kubelet_emu.sim.outcome import Outcome

__all__ = ["EXAMPLES_MAX", "Campaign", "Found", "Tally", "broken_by"]

EXAMPLES_MAX = 10_000_000
"""Most examples of one campaign."""
PROGRAM = "the-program-goes-on"
"""Stands for an invariant where the program under test itself broke."""

Transition = tuple[str, str, str]


@frozen(kw_only=True)
class Campaign:
    """A space of cases. Example ``n`` of a campaign is always the same case.

    ``focus`` and ``faults`` are those of ``kubelet_emu.strategies``. Bugs and fixes change what is run, not
    what is drawn. ``twice`` runs each example twice and takes two different traces for a violation.
    """

    seed: int = 0
    focus: str = "all"
    faults: str = "light"
    gates: Mapping[str, bool] = field(factory=dict[str, bool])
    bugs: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    twice: bool = False


@frozen(kw_only=True)
class Found:
    """A case that breaks an invariant: which one, where it was found, and what shrinking made of it."""

    invariant: str
    text: str
    rules: tuple[str, ...] = ()
    case: Case
    example: int | None = None
    """Number of the example it was, or was shrunk from; None for one of the corpus."""
    original: Case | None = None
    """What was drawn, if ``case`` is shrunk."""
    runs: int = 0
    """Runs that shrinking took."""
    seconds: float = 0.0
    """Wall seconds that shrinking took."""


@define(kw_only=True)
class Tally:
    """What examples came to; tallies add up."""

    examples: int = 0
    simulated_seconds: float = 0.0
    calls: int = 0
    records: int = 0
    judged: int = 0
    exempt: dict[str, int] = field(factory=dict[str, int])
    """Findings that a named exemption covers, by its rule."""
    transitions: dict[Transition, int] = field(factory=dict[Transition, int])

    def take(self, outcome: Outcome) -> None:
        """Count one more example."""
        self.examples += 1
        self.simulated_seconds += outcome.simulated_seconds
        self.calls += outcome.calls
        self.records += len(outcome.records)
        self.judged += outcome.judged
        for finding in outcome.findings:
            if finding.exempt:
                self.exempt[finding.exempt] = self.exempt.get(finding.exempt, 0) + 1
        for transition, count in outcome.transitions.items():
            self.transitions[transition] = self.transitions.get(transition, 0) + count

    def add(self, other: "Tally") -> None:
        """Count what another stretch came to."""
        self.examples += other.examples
        self.simulated_seconds += other.simulated_seconds
        self.calls += other.calls
        self.records += other.records
        self.judged += other.judged
        for rule, count in other.exempt.items():
            self.exempt[rule] = self.exempt.get(rule, 0) + count
        for transition, count in other.transitions.items():
            self.transitions[transition] = self.transitions.get(transition, 0) + count

    @property
    def states(self) -> frozenset[tuple[str, str]]:
        """The distinct states that were reached: table and state."""
        return frozenset(
            (table, state) for table, source, target in self.transitions for state in (source, target)
        )


def broken_by(outcome: Outcome) -> Mapping[str, tuple[str, tuple[str, ...]]]:
    """The invariants that an outcome breaks, in the order of breaking, with text and rules."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for finding in outcome.violations:
        found.setdefault(finding.invariant, (finding.text, finding.rules))
    if outcome.verdict == "failed":
        found.setdefault(PROGRAM, (_last_line(outcome.failure.splitlines()), ()))
    return found


def _last_line(lines: Iterable[str]) -> str:
    kept = [line for line in lines if line.strip()]
    return kept[-1] if kept else "the program broke"
