"""What a real kubelet 1.36.2 does although an invariant forbids it: named, each with its rule (pure).

Nothing is left out in silence: a finding that an entry explains stays in the outcome, marked with the rule.
"""

from collections.abc import Callable, Sequence

from attrs import frozen

from kubelet_emu.trace.schema import Record

__all__ = ["EXEMPTIONS", "Exemption", "exempt"]


@frozen(kw_only=True)
class Exemption:
    """An invariant that does not hold where ``explains(text, records)`` says that ``rule`` is at work.

    ``id`` names it, for the switch that lifts it.
    """

    id: str
    invariant: str
    rule: str
    text: str
    explains: Callable[[str, Sequence[Record]], bool]


EXEMPTIONS: tuple[Exemption, ...] = ()
"""All of them."""


def exempt(invariant: str, text: str, records: Sequence[Record], *, lifted: Sequence[str] = ()) -> str:
    """The rule that explains the finding, empty if none does; ``lifted`` exemptions explain nothing."""
    for one in EXEMPTIONS:
        if one.invariant == invariant and one.id not in lifted and one.explains(text, records):
            return one.rule
    return ""
