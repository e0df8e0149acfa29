"""Every rule that a decision, an invariant or a check can name, with one sentence on what it says (pure).

The ids are those of the specification that the code follows; a reader of a trace meets them as ``RST-045`` or
``RST-045(main)``. A test finds each id that occurs in the code and is missing here.
"""

import re
from collections.abc import Mapping

from attrs import frozen

from kubelet_emu.rules.lifecycle import LIFECYCLE
from kubelet_emu.rules.parts import DEVICES, IMAGES_AND_PROBES, RUNTIME
from kubelet_emu.rules.restart import RESTART
from kubelet_emu.rules.status import STATUS

__all__ = ["AREAS", "RULES", "RULE_ID", "Fired", "parse_fired", "sentence"]

RULE_ID = re.compile(r"[A-Z]{2,5}-\d+[0-9A-Za-z]*(?:\.\d+)?")
"""How a rule id looks."""

AREAS: Mapping[str, str] = {
    "RST": "restarts",
    "STA": "status of a pod",
    "POD": "life of a pod on its node",
    "IMG": "images",
    "PRB": "probes",
    "DEV": "devices",
    "CRI": "runtime",
}
"""What the letters of a rule id stand for."""

RULES: Mapping[str, str] = {**RESTART, **STATUS, **LIFECYCLE, **IMAGES_AND_PROBES, **DEVICES, **RUNTIME}
"""Rule id to its sentence."""


@frozen
class Fired:
    """One rule as a decision's record names it, taken apart again: the id, and what it was applied to."""

    rule: str
    about: str = ""

    @property
    def sentence(self) -> str:
        """What the rule says."""
        return sentence(self.rule)


def sentence(rule: str) -> str:
    """What a rule says, in one sentence; empty for an id that is not known."""
    return RULES.get(rule, "")


def parse_fired(text: str) -> Fired:
    """Take ``RST-045(main)`` apart; any other text is an id without a subject."""
    rule, bracket, rest = text.partition("(")
    return Fired(rule, rest.removesuffix(")")) if bracket else Fired(text)
