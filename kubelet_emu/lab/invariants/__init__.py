"""The invariants: what must hold in every run, whatever happens, computed from the trace alone (pure).

``Monitor`` takes records as they are made and tells what they break; ``check_trace`` judges a whole trace or
recording. Each invariant has a name, the rules it stands for and a sentence; ``docs/invariants.md`` lists
them.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from attrs import frozen

from kubelet_emu.lab.invariants.base import Exempt, Finding, Invariant, Violation
from kubelet_emu.lab.invariants.devices import (
    AllocateOnce,
    DeviceBooks,
    DevicesCounted,
    DevicesDisjoint,
    PreStartAtCreate,
)
from kubelet_emu.lab.invariants.ends import (
    RemovedStaysEnded,
    ResetComplete,
    RestartsCounted,
    RunningStaysAdmitted,
    SuccessIsItsOwn,
)
from kubelet_emu.lab.invariants.kept import (
    AddressesUnique,
    CountsNeverFall,
    DevicesExclusive,
    DevicesKept,
    IdentityKept,
    OneReadySandbox,
    SandboxKept,
    TerminalIsFinal,
    VolumesKept,
)
from kubelet_emu.lab.invariants.recordings import completed
from kubelet_emu.lab.invariants.starts import (
    InitInOrder,
    NoStartAfterTermination,
    OneRunningInstance,
    RegularAfterInit,
    ResetByTrigger,
    RestartByRule,
)
from kubelet_emu.lab.invariants.world import Step, StepKind, World
from kubelet_emu.trace.schema import Record, Trace

__all__ = ["INVARIANTS", "Invariant", "Monitor", "Verdict", "Violation", "check_trace"]

INVARIANTS: tuple[type[Invariant], ...] = (
    OneReadySandbox,
    SandboxKept,
    IdentityKept,
    AddressesUnique,
    VolumesKept,
    DevicesKept,
    DevicesExclusive,
    DevicesDisjoint,
    DevicesCounted,
    AllocateOnce,
    PreStartAtCreate,
    DeviceBooks,
    OneRunningInstance,
    InitInOrder,
    RegularAfterInit,
    NoStartAfterTermination,
    CountsNeverFall,
    TerminalIsFinal,
    RestartByRule,
    ResetByTrigger,
    ResetComplete,
    RestartsCounted,
    RemovedStaysEnded,
    RunningStaysAdmitted,
    SuccessIsItsOwn,
)
VIOLATIONS_MAX = 1_000


@frozen
class Verdict:
    """One invariant's result over a run: how many steps it judged, and what it found."""

    name: str
    rules: tuple[str, ...]
    text: str
    judged: int
    violations: tuple[Violation, ...]

    @property
    def holds(self) -> bool:
        return not self.violations


class Monitor:
    """All invariants over one run. Feed it every record; it costs a few look-ups a record.

    ``lifted`` are ids of bugs whose exemptions do not count: what they explain is a violation.
    """

    def __init__(
        self, invariants: Iterable[type[Invariant]] = INVARIANTS, *, lifted: Collection[str] = ()
    ) -> None:
        self.violations: list[Violation] = []
        self.exempted: list[Violation] = []
        """What breaks an invariant as 1.36.2 does, each with its rule."""
        self._lifted = lifted
        self._world = World()
        self._invariants = [invariant() for invariant in invariants]
        self._judged = dict.fromkeys((invariant.name for invariant in self._invariants), 0)
        self._by_step: dict[StepKind, list[Invariant]] = {
            kind: [one for one in self._invariants if kind in one.steps] for kind in StepKind
        }

    def feed(self, record: Record) -> list[Violation]:
        """Take one record in; returns what it breaks (usually nothing)."""
        found: list[Violation] = []
        for step in self._world.feed(record):
            for invariant in self._by_step[step.kind]:
                self._judged[invariant.name] += 1
                for finding in invariant.check(step):
                    violation = self._violation(invariant, step, finding)
                    if not violation.exempt:
                        found.append(violation)
                    elif len(self.exempted) < VIOLATIONS_MAX:
                        self.exempted.append(violation)
        if found and len(self.violations) < VIOLATIONS_MAX:
            self.violations += found
        return found

    def _violation(self, invariant: Invariant, step: Step, finding: Finding) -> Violation:
        message, rule = finding, ""
        if isinstance(finding, Exempt):
            message = finding.message
            rule = finding.rule if finding.bug not in self._lifted else ""
        return Violation(invariant.name, invariant.rules, step.pod.name, str(message), step.record, rule)

    def verdicts(self) -> tuple[Verdict, ...]:
        """The result so far, one entry an invariant."""
        return tuple(
            Verdict(
                one.name,
                one.rules,
                one.text,
                self._judged[one.name],
                tuple(violation for violation in self.violations if violation.invariant == one.name),
            )
            for one in self._invariants
        )


def check_trace(trace: Trace, *, objects: Mapping[str, Mapping[str, Any]] | None = None) -> Monitor:
    """Judge a whole trace. A recording of a real node needs its pods' objects, by name, in ``objects``."""
    monitor = Monitor()
    for record in completed(trace, objects or {}):
        monitor.feed(record)
    return monitor
