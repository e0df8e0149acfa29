"""What a pod's restarts will be like, and what of it will surprise: read from its manifest, and tried out.

``lint_pod`` is the whole of it. ``checks`` reads, ``trials`` runs, ``report`` writes down.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kubelet_emu.gates import Gates
from kubelet_emu.lab.lint.checks import behaviours, static_findings
from kubelet_emu.lab.lint.finding import CHECKS, Behaviour, Finding, Severity

__all__ = ["CHECKS", "Behaviour", "Finding", "Severity", "behaviours", "lint_pod"]

_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


def lint_pod(
    pod: Mapping[str, Any],
    *,
    gates: Gates | None = None,
    objects: Sequence[Mapping[str, Any]] = (),
    trial: bool = True,
) -> list[Finding]:
    ""
    """All that is found in a pod, worst first. ``objects`` are what it refers to, ``trial`` runs it."""
    chosen = gates or Gates()
    found = static_findings(pod, chosen)
    if trial and not any(one.check == "rules-without-gate" for one in found):
        from kubelet_emu.lab.lint.trials import trial_findings

        found += trial_findings(pod, objects, chosen)
    said = {(one.check, one.path): one for one in reversed(found)}
    kept = [one for one in found if said[one.check, one.path] is one]
    return sorted(kept, key=lambda one: _ORDER[one.severity])
