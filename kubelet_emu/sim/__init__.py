"""The simulator: one seed, every interleaving, every fault; a case in, an outcome out.

::

    case = Case(documents=(pod,), plan=steps(["@5s crash kubelet"]), seed=7)
    outcome = run_case(case)
    assert not outcome.violations

Names are imported when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubelet_emu.sim.case import Case, Step, case_from_json, case_to_json, case_to_yaml
    from kubelet_emu.sim.determinism import check_determinism
    from kubelet_emu.sim.outcome import Finding, Outcome
    from kubelet_emu.sim.runner import Reseed, node_options, run_case, steps

__all__ = [
    "Case",
    "Finding",
    "Outcome",
    "Reseed",
    "Step",
    "case_from_json",
    "case_to_json",
    "case_to_yaml",
    "check_determinism",
    "node_options",
    "run_case",
    "steps",
]

_HOMES = {
    "Case": "case",
    "Finding": "outcome",
    "Outcome": "outcome",
    "Reseed": "runner",
    "Step": "case",
    "case_from_json": "case",
    "case_to_json": "case",
    "case_to_yaml": "case",
    "check_determinism": "determinism",
    "node_options": "runner",
    "run_case": "runner",
    "steps": "runner",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
