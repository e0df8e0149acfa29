"""Restart policies and rules, read off a specification for the invariants' sake (pure).

Written apart from the kubelet's own decision code on purpose: it judges that code.
"""

from collections.abc import Mapping
from typing import Any, Literal

__all__ = ["may_restart", "never", "restart_all_matches", "run_once"]


def first_action(container: Mapping[str, Any], code: int) -> Literal["", "Restart", "RestartAllContainers"]:
    """Action of the first rule that matches the exit code; empty if none does (RST-020)."""
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes")
        if not codes:
            continue
        listed = code in (codes.get("values") or ())
        if (codes.get("operator") == "In" and listed) or (codes.get("operator") == "NotIn" and not listed):
            return rule.get("action", "")
    return ""


def policy(pod: Mapping[str, Any], container: Mapping[str, Any]) -> str:
    """The policy that counts for a container: its own, else the pod's."""
    return container.get("restartPolicy") or pod.get("restartPolicy") or "Always"


def may_restart(pod: Mapping[str, Any], container: Mapping[str, Any], code: int) -> bool:
    """Whether an exited container is restarted (RST-022)."""
    if container.get("restartPolicy") and first_action(container, code):
        return True
    chosen = policy(pod, container)
    return chosen == "Always" or (chosen == "OnFailure" and code != 0)


def restart_all_matches(container: Mapping[str, Any], code: int) -> bool:
    """Whether that exit code restarts the whole pod in place (RST-121)."""
    return first_action(container, code) == "RestartAllContainers"


def never(pod: Mapping[str, Any], container: Mapping[str, Any]) -> bool:
    """Whether the policy is Never; decides after a kill by a probe (RST-058)."""
    return policy(pod, container) == "Never"


def run_once(pod: Mapping[str, Any], container: Mapping[str, Any]) -> bool:
    """Whether a container that succeeded is left out of a new sandbox (RST-034)."""
    return policy(pod, container) == "OnFailure"
