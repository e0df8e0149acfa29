"""What lint finds, and what it says of a container's behaviour (pure)."""

from enum import StrEnum

from attrs import frozen

__all__ = ["CHECKS", "Behaviour", "Finding", "Severity"]


class Severity(StrEnum):
    """How bad it is: an error cannot be meant, a warning will surprise, a note is worth to know."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@frozen(kw_only=True)
class Finding:
    ""

    """One thing that will surprise. ``path`` is the place in the object; file and line come later."""

    check: str
    rule: str
    severity: Severity
    path: str
    text: str
    fix: str
    file: str = ""
    line: int = 0
    pod: str = ""


@frozen
class Behaviour:
    """What one container does when it exits, in one sentence."""

    pod: str
    container: str
    kind: str
    text: str


CHECKS = {
    "code-that-cannot-occur": "a rule lists an exit code outside 0 to 255",
    "rule-never-matches": "a restart rule can match no exit code that reaches it",
    "rule-without-effect": "a restart rule changes nothing, because the container restarts anyway",
    "sidecar-rule-without-effect": "a Restart rule on a sidecar, which restarts after every exit",
    "init-rule-for-success": "a Restart rule for code 0 on an init container, which is done with 0",
    "init-loops": "an init container restarts the whole pod each time it succeeds",
    "any-failure-restarts-all": "a rule restarts the whole pod for nearly every exit code, without back-off",
    "loops-without-back-off": "in the trial run the pod restarted in place again and again",
    "rules-without-gate": "the node does not know RestartAllContainers",
    "prestop-not-run": "a preStop hook that a restart in place, or a grace period of 0, leaves out",
    "prestop-outlasts-grace": "a preStop hook that waits for the whole grace period or longer",
    "grace-not-used": "a grace period that does not count when the whole pod restarts in place",
    "probe-grace-not-used": "a probe's own grace period that is not used",
    "probe-kill-is-final": "a failed probe ends a container for good, and its exit-code rules do not help",
    "probe-kills-again": "in the trial run a probe killed the same container again and again",
    "init-not-reentrant": "an init container fails when it runs a second time on the same volumes",
    "init-failure-is-final": "an init container whose failure ends a pod that would restart otherwise",
    "backs-off-after-success": "in the trial run a container waited in back-off after it had exited with 0",
}
"""Every check by name, with what it looks for."""
