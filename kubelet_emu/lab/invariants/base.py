"""What an invariant is: a named predicate over steps of a trace, and what its violation says (pure)."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, TypeAlias

from attrs import frozen

from kubelet_emu.lab.invariants.world import Step, StepKind
from kubelet_emu.trace.schema import Record

__all__ = ["Exempt", "Finding", "Invariant", "Violation"]


@frozen
class Exempt:
    """What is wrong with a step although Kubernetes 1.36.2 does it too, by ``rule``.

    ``bug`` is the id in ``kubelet_emu.bugs`` that lifts the exemption, empty if nothing does.
    """

    message: str
    rule: str
    bug: str = ""


Finding: TypeAlias = str | Exempt


class Invariant(ABC):
    """One predicate. Instances keep what they have seen; use each for one trace only."""

    name: ClassVar[str]
    rules: ClassVar[tuple[str, ...]]
    text: ClassVar[str]
    steps: ClassVar[tuple[StepKind, ...]]
    """Steps that can break it."""

    @abstractmethod
    def check(self, step: Step) -> Iterable[Finding]:
        """What is wrong with this step; nothing if it is in order."""


@frozen
class Violation:
    """An invariant that did not hold. ``record`` is the one that proves it; its ``t`` is when."""

    invariant: str
    rules: tuple[str, ...]
    pod: str
    message: str
    record: Record
    exempt: str = ""
    """The rule by which 1.36.2 does it too; then it counts for nothing."""

    @property
    def evidence(self) -> tuple[int, ...]:
        """The ``seq`` of the record that proves it; empty in a recording, whose records have none."""
        return (self.record["seq"],) if "seq" in self.record else ()

    def __str__(self) -> str:
        rules, at = ", ".join(self.rules), self.record["t"]
        return f"{self.invariant} ({rules}), pod {self.pod}, {at:.3f} s: {self.message}"
