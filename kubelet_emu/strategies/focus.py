"""What generated cases are about: for each focus, how likely each feature is, in percent (pure)."""

from collections.abc import Mapping

from attrs import frozen

from kubelet_emu.errors import CallerError, Problem

__all__ = ["FAULT_LEVELS", "FOCI", "Focus", "focus_named"]

FAULT_LEVELS = ("none", "light", "heavy")
"""How much goes wrong: only what users do; one or two usual faults; up to four of every kind."""


@frozen(kw_only=True)
class Focus:
    """Chances in percent that a pod or container has a feature, and what a plan prefers.

    ``plan`` multiplies the chance of kinds of steps (``kubelet_emu.strategies.plans.KINDS``).
    """

    text: str
    second_pod: int = 6
    second_container: int = 40
    init: int = 40
    sidecar: int = 40
    own_policy: int = 25
    rules: int = 30
    restart_all: int = 60
    """Of the rules, how many restart the whole pod."""
    liveness: int = 15
    readiness: int = 12
    startup: int = 25
    post_start: int = 7
    pre_stop: int = 10
    devices: int = 18
    volume: int = 20
    short_grace: int = 50
    deadline: int = 4
    resources: int = 8
    config: int = 5
    plan: Mapping[str, int] = {}


FOCI: Mapping[str, Focus] = {
    "all": Focus(text="everything, evenly"),
    "restart-all": Focus(
        text="restarts of the whole pod in place",
        rules=80,
        restart_all=95,
        own_policy=50,
        init=55,
        sidecar=50,
        volume=40,
        devices=25,
        plan={"crash kubelet": 2, "signal": 2},
    ),
    "restart-rules": Focus(
        text="policies and rules of single containers", own_policy=80, rules=80, restart_all=15
    ),
    "devices": Focus(
        text="device plugins: allocation, health, restarts",
        devices=90,
        second_pod=20,
        plan={"crash plugin": 4, "device": 4, "reboot": 2, "error plugin": 3},
    ),
    "termination": Focus(
        text="deletion, grace, hooks, deadlines",
        pre_stop=50,
        deadline=25,
        short_grace=80,
        plan={"delete": 10, "stop-sandbox": 2, "kill-sandbox": 2},
    ),
    "init": Focus(
        text="init containers and sidecars",
        init=85,
        sidecar=75,
        startup=50,
        plan={"kill-sandbox": 2, "reboot": 2},
    ),
    "probes": Focus(text="probes and what follows from them", liveness=60, readiness=45, startup=55),
    "kubelet-restart": Focus(
        text="kubelets that crash and come back", plan={"crash kubelet": 8, "reboot": 3, "crash runtime": 2}
    ),
    "volumes": Focus(text="volumes and configuration", volume=90, config=50),
}
"""Name of each focus."""


def focus_named(name: str) -> Focus:
    """The focus of that name. Raises ``CallerError`` with the known ones."""
    found = FOCI.get(name)
    if found is None:
        raise CallerError([Problem(f"there is no focus {name!r}", hint=f"known: {', '.join(FOCI)}")])
    return found
