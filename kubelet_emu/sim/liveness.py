"""What a node owes a pod once all faults have ended (pure).

Safety says what must never happen; this says what has to happen. ``owed`` compares a pod as the API shows it
with what the runtime really has of it (a ``PodView``) and names everything that the specification demands and
that is not there: a container that has to be started, a pod that has to go, a status that has to be told.
``Debts`` follows these over time: each has to be paid within its bound, and afterwards nothing may be owed.

What containers do of themselves is no debt: a program may run for ever, fail for ever, or never get ready.
Nor is what a manifest makes impossible (``excused``): an image that cannot be pulled, a command that cannot
be started.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from kubelet_emu.bugs import CREATED_NOT_STARTED
from kubelet_emu.lab.invariants.rules import may_restart, restart_all_matches, run_once

__all__ = ["SLACK_SECONDS", "Debt", "Debts", "InstanceView", "PodView", "owed"]

SLACK_SECONDS = 150.0
"""So long may a debt last: a lost PLEG event is made good by the next sync, up to 90 s later (POD-506), and a
call that was never answered ends after 2 minutes."""

IMAGE_BACK_OFF_SECONDS = 300.0
"""So long may the back-off of a pull last that failed before (IMG section 2)."""

SHORT_BACK_OFF_SECONDS = 20.0
"""A restart with a longer back-off is not waited for, so that runs stay short."""

TERMINAL = ("Failed", "Succeeded")
_IMPOSSIBLE = ("CreateContainerConfigError", "ErrImageNeverPull", "InvalidImageName")
"""The manifest asks for what there is not."""
_HELD_UP = ("ErrImagePull", "ImagePullBackOff")
_TOLD = ("status of ", "start-up of ", "readiness of ", "phase")
"""Debts that a status pays."""


@frozen(kw_only=True)
class InstanceView:
    """The newest instance of a container in the sandbox that the pod has now; seconds of the node's clock."""

    id: str
    state: str
    """CREATED, RUNNING, EXITED or UNKNOWN."""
    attempt: int = 0
    exit_code: int = 0
    started_seconds: float = 0.0
    finished_seconds: float = 0.0


@frozen(kw_only=True)
class PodView:
    """One pod: the API's object (None if it is gone), and what the runtime has of it."""

    name: str
    obj: Mapping[str, Any] | None
    ready_sandboxes: int = 0
    instances: Mapping[str, InstanceView] = field(factory=dict[str, InstanceView])
    earlier: Mapping[str, InstanceView] = field(factory=dict[str, InstanceView])
    """The newest instance in an older sandbox, by container."""
    running_elsewhere: tuple[str, ...] = ()
    """Running instances that are not among ``instances``: older ones, or in another sandbox."""


@frozen(kw_only=True)
class Debt:
    """Something owed. ``bound_seconds`` is how long it may stay so."""

    pod: str
    what: str
    text: str
    bound_seconds: float = SLACK_SECONDS
    about: str = ""
    """Id of the instance it is about: a later one is another debt."""
    rule: str = ""
    """The rule by which 1.36.2 does not pay it either."""
    bug: str = ""
    """Id in ``kubelet_emu.bugs`` that makes it count all the same."""


def owed(
    view: PodView,
    *,
    now_seconds: float,
    restart_all: bool = True,
    excused: Collection[str] = (),
) -> list[Debt]:
    """Everything that is owed to the pod now. ``excused`` are containers that cannot be started.

    ``restart_all``: whether rules that restart all containers are in force.
    """
    if view.obj is None:
        return _owed_to_gone(view)
    metadata, status = view.obj["metadata"], view.obj.get("status", {})
    if metadata.get("deletionTimestamp"):
        grace = float(metadata.get("deletionGracePeriodSeconds") or 0)
        return [_debt(view, "removal", "it is being deleted and still there", SLACK_SECONDS + grace)]
    if status.get("phase") in TERMINAL:
        return _still_running(view, "although the pod has ended")
    return _Living(view, now_seconds, restart_all, excused).debts()


def _debt(view: PodView, what: str, text: str, bound_seconds: float = SLACK_SECONDS, about: str = "") -> Debt:
    return Debt(pod=view.name, what=what, text=text, bound_seconds=bound_seconds, about=about)


def _owed_to_gone(view: PodView) -> list[Debt]:
    found = _still_running(view, "although the pod is gone")
    if view.ready_sandboxes:
        found.append(_debt(view, "sandbox", "its sandbox is READY although the pod is gone"))
    return found


def _still_running(view: PodView, why: str) -> list[Debt]:
    names = [name for name, one in view.instances.items() if one.state == "RUNNING"]
    return [
        _debt(view, f"end of {name}", f"{name} runs {why}")
        for name in dict.fromkeys((*names, *view.running_elsewhere))
    ]


class _Living:
    """What is owed to a pod that is neither ended nor being deleted."""

    def __init__(
        self, view: PodView, now_seconds: float, restart_all: bool, excused: Collection[str]
    ) -> None:
        assert view.obj is not None
        self._view = view
        self._now = now_seconds
        self._restart_all = restart_all
        self._excused = excused
        self._spec: Mapping[str, Any] = view.obj["spec"]
        status = view.obj.get("status", {})
        self._shown: dict[str, Mapping[str, Any]] = {
            one["name"]: one
            for key in ("initContainerStatuses", "containerStatuses")
            for one in status.get(key) or ()
        }
        self._inits: Sequence[Mapping[str, Any]] = self._spec.get("initContainers") or ()
        self._regulars: Sequence[Mapping[str, Any]] = self._spec.get("containers") or ()
        self._once = {one["name"] for one in self._regulars if run_once(self._spec, one)}

    def debts(self) -> list[Debt]:
        """All of them."""
        debts = self._all()
        if not self._status_is_stuck():
            return debts
        return [
            evolve(debt, rule="STA-602") if debt.what.startswith(_TOLD) and not debt.rule else debt
            for debt in debts
        ]

    def _status_is_stuck(self) -> bool:
        """Whether no status of the pod is taken any more: one of its containers ended for good, was removed
        behind the kubelet's back and was made anew, and that transition is illegal (STA-602).
        """
        if self._spec.get("restartPolicy", "Always") == "Always":
            return False
        if any(
            rule.get("action") == "RestartAllContainers"
            for one in (*self._inits, *self._regulars)
            for rule in one.get("restartPolicyRules") or ()
        ):
            return False
        for container in (*self._inits, *self._regulars):
            shown = self._shown.get(container["name"], {})
            ended = shown.get("state", {}).get("terminated")
            instance = self._instance(container["name"])
            if ended is None or instance is None or _is_sidecar(container) or _names(shown, instance):
                continue
            if not may_restart(self._spec, container, int(ended.get("exitCode", 0))):
                return True
        return False

    def _all(self) -> list[Debt]:
        view = self._view
        found = [
            _debt(view, f"end of {name}", f"an old instance of {name} runs")
            for name in view.running_elsewhere
        ]
        trigger = self._trigger()
        if trigger:
            return [*found, self._restart_of_all(trigger)]
        if self._finished():
            return [*found, _debt(view, "phase", "nothing of it will run again and its phase is not final")]
        if view.ready_sandboxes != 1:
            return [*found, self._sandbox()]
        waiting, more = self._owed_to_inits()
        found += more
        if not waiting:
            for container in self._regulars:
                found += self._owed_to(container)
        return found

    def _sandbox(self) -> Debt:
        """A pod under policy Never does not get another sandbox once a container was made (RST-033)."""
        view = self._view
        debt = _debt(view, "sandbox", f"it has {view.ready_sandboxes} READY sandboxes")
        made = {**view.earlier, **view.instances}
        if self._spec.get("restartPolicy") != "Never" or view.ready_sandboxes or not made:
            return debt
        unstarted = any(instance.state == "CREATED" for instance in made.values())
        return evolve(debt, rule="RST-033", bug=CREATED_NOT_STARTED if unstarted else "")

    def _restart_of_all(self, name: str) -> Debt:
        """A restart of all waits for the back-off of the container that asked for it."""
        instance = self._instance(name)
        assert instance is not None, "the one that asked for it"
        bound = _back_off_seconds(instance.attempt) + SLACK_SECONDS
        return _debt(self._view, "restart of all", f"{name} has asked for a restart of all", bound)

    def _trigger(self) -> str:
        """A container whose exit restarts the whole pod in place, empty for none (RST-121)."""
        for container in (*self._inits, *self._regulars) if self._restart_all else ():
            instance = self._instance(container["name"])
            if instance is None or instance.state != "EXITED":
                continue
            if restart_all_matches(container, instance.exit_code):
                return str(container["name"])
        return ""

    def _finished(self) -> bool:
        """Whether nothing of the pod will run again (POD-512, STS phase)."""
        if not self._begun():
            return any(self._failed(one) for one in self._inits)
        return all(self._over(one) for one in self._regulars)

    def _begun(self) -> bool:
        """Whether initialisation is over: a regular container has been made (RST-042)."""
        return any(one["name"] in self._view.instances for one in self._regulars)

    def _instance(self, name: str) -> InstanceView | None:
        """The instance that counts: one that runs once and has succeeded counts over sandboxes (RST-034)."""
        found = self._view.instances.get(name)
        if found is None and name in self._once:
            earlier = self._view.earlier.get(name)
            if earlier is not None and earlier.state == "EXITED" and earlier.exit_code == 0:
                return earlier
        return found

    def _failed(self, init: Mapping[str, Any]) -> bool:
        instance = self._instance(init["name"])
        if instance is None or _is_sidecar(init) or instance.state != "EXITED":
            return False
        return instance.exit_code != 0 and not may_restart(self._spec, init, instance.exit_code)

    def _over(self, container: Mapping[str, Any]) -> bool:
        instance = self._instance(container["name"])
        if instance is None:
            return self._told_over(container)
        return instance.state == "EXITED" and not may_restart(self._spec, container, instance.exit_code)

    def _told_over(self, container: Mapping[str, Any]) -> bool:
        """Whether the status tells of an end for good; that it is started again is allowed (RST-024)."""
        end = self._shown.get(container["name"], {}).get("state", {}).get("terminated")
        return end is not None and not may_restart(self._spec, container, int(end.get("exitCode", 0)))

    def _owed_to_inits(self) -> tuple[bool, list[Debt]]:
        """Whether later containers have to wait, and what is owed to those they wait for."""
        begun, found = self._begun(), list[Debt]()
        for init in self._inits:
            name = init["name"]
            instance = self._instance(name)
            if not _is_sidecar(init):
                done = instance is not None and instance.state == "EXITED" and instance.exit_code == 0
                if begun or done:
                    continue
                return True, [*found, *self._owed_to(init)]
            found += self._owed_to(init)
            if instance is None or instance.state != "RUNNING":
                return not begun, found
            if not begun and not self._shown.get(name, {}).get("started"):
                return True, found
        return False, found

    def _owed_to(self, container: Mapping[str, Any]) -> list[Debt]:
        """A container whose turn it is: that it runs, is told of, or is started again."""
        name = container["name"]
        instance = self._instance(name)
        if name in self._excused:
            return []
        if instance is None:
            return [] if self._told_over(container) else self._start(name, "has not been created")
        if instance.state == "RUNNING":
            return self._told(container, instance)
        if instance.state != "EXITED":
            return self._start(name, f"is {instance.state}")
        if not _is_sidecar(container) and not may_restart(self._spec, container, instance.exit_code):
            return self._told_end(name, instance)
        delay = _back_off_seconds(instance.attempt)
        if delay > SHORT_BACK_OFF_SECONDS and self._now < instance.finished_seconds + 1.5 * delay:
            return []  # not worth waiting for
        return self._start(name, f"exited with {instance.exit_code} and has to be started again")

    def _start(self, name: str, why: str) -> list[Debt]:
        waiting = self._shown.get(name, {}).get("state", {}).get("waiting", {})
        if waiting.get("reason") in _IMPOSSIBLE:
            return []
        held_up = IMAGE_BACK_OFF_SECONDS if waiting.get("reason") in _HELD_UP else 0.0
        instance = self._instance(name)
        about = instance.id if instance is not None else ""
        return [_debt(self._view, f"start of {name}", f"{name} {why}", SLACK_SECONDS + held_up, about)]

    def _told(self, container: Mapping[str, Any], instance: InstanceView) -> list[Debt]:
        """The status of a running container says that it runs, is started, and ready if nothing judges it."""
        name = container["name"]
        shown = self._shown.get(name, {})
        if "running" not in shown.get("state", {}) or not _names(shown, instance):
            return [_debt(self._view, f"status of {name}", f"{name} runs and the status does not say so")]
        probe = container.get("startupProbe")
        if not shown.get("started"):
            bound = SLACK_SECONDS + (_probe_seconds(probe) if probe else 0.0)
            bound -= min(self._now - instance.started_seconds, SLACK_SECONDS)
            text = f"{name} runs and is neither taken for started nor killed"
            return [_debt(self._view, f"start-up of {name}", text, max(bound, 1.0), instance.id)]
        if not shown.get("ready") and not container.get("readinessProbe"):
            return [_debt(self._view, f"readiness of {name}", f"{name} runs and is not ready")]
        return []

    def _told_end(self, name: str, instance: InstanceView) -> list[Debt]:
        state = self._shown.get(name, {}).get("state", {})
        if state.get("terminated", {}).get("exitCode") != instance.exit_code:
            return [
                _debt(self._view, f"status of {name}", f"{name} has exited and the status does not say so")
            ]
        return []


def _back_off_seconds(attempt: int) -> float:
    """The longest back-off before the next instance after that one (RST-111)."""
    return min(10.0 * 2.0 ** min(attempt, 10), 300.0)


def _is_sidecar(container: Mapping[str, Any]) -> bool:
    return container.get("restartPolicy") == "Always"


def _names(shown: Mapping[str, Any], instance: InstanceView) -> bool:
    return str(shown.get("containerID", "")).endswith(instance.id)


def _probe_seconds(probe: Mapping[str, Any]) -> float:
    """After so long a start-up probe has either succeeded or had its container killed."""
    period = float(probe.get("periodSeconds") or 10)
    timeout = float(probe.get("timeoutSeconds") or 1)
    rounds = int(probe.get("failureThreshold") or 3) + 1
    return float(probe.get("initialDelaySeconds") or 0) + rounds * (period + timeout)


@define(eq=False)
class Debts:
    """Follows debts over time, from the moment at which all faults had ended."""

    _since: dict[tuple[str, str, str], float] = field(factory=dict[tuple[str, str, str], float])
    overdue: list[Debt] = field(factory=list[Debt])
    """Those that were not paid in time, each once."""

    def take(self, debts: Iterable[Debt], *, now_seconds: float) -> bool:
        """What is owed now. Returns whether it is worth waiting: something is owed and not yet overdue."""
        present: dict[tuple[str, str, str], float] = {}
        waiting = False
        for debt in debts:
            key = (debt.pod, debt.what, debt.about)
            since = present[key] = self._since.get(key, now_seconds)
            if now_seconds - since >= debt.bound_seconds:
                if all((one.pod, one.what) != (debt.pod, debt.what) for one in self.overdue):
                    self.overdue.append(debt)
            else:
                waiting = True
        self._since = present
        return waiting

    def oldest_since(self) -> float:
        """Since when the oldest debt is there, in seconds of the node's clock; inf if nothing is owed."""
        return min(self._since.values(), default=math.inf)
