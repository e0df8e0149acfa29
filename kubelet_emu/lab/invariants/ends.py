"""Invariants about what an end leads to: of one container, of all of them, of the kubelet (pure)."""

from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from kubelet_emu.bugs import FINISHED_INIT_USED_DEVICE, KILLED_WITH_ZERO, REMOVED_RUNS_AGAIN
from kubelet_emu.lab.invariants.base import Exempt, Finding, Invariant
from kubelet_emu.lab.invariants.rules import run_once
from kubelet_emu.lab.invariants.starts import forbidden_restart
from kubelet_emu.lab.invariants.world import InstanceFacts, PodFacts, Step, StepKind

__all__ = [
    "RemovedStaysEnded",
    "ResetComplete",
    "RestartsCounted",
    "RunningStaysAdmitted",
    "SuccessIsItsOwn",
]


class ResetComplete(Invariant):
    name = "reset-complete"
    rules = ("RST-130", "RST-131")
    text = (
        "Once a restart of all containers has begun to remove them, none is made before every instance that "
        "was there, of init containers and of the trigger too, is gone."
    )
    steps = (StepKind.REMOVE, StepKind.CREATE)

    def __init__(self) -> None:
        self._victims: WeakKeyDictionary[PodFacts, list[InstanceFacts]] = WeakKeyDictionary()

    def check(self, step: Step) -> Iterable[Finding]:
        pod, instance = step.pod, step.instance
        assert instance is not None
        if pod.kind(instance.container) == "ephemeral":
            return
        if step.kind is StepKind.REMOVE:
            last = pod.latest.get(instance.container) is instance
            if last and pod.triggered and not pod.going and pod not in self._victims:
                self._victims[pod] = list(pod.alive.values())
            return
        left = [one.label for one in self._victims.pop(pod, ()) if not (one.removed or one.doubtful)]
        if left:
            yield f"{instance.label} was made in a restart of all containers, but {', '.join(left)} was left"


class RestartsCounted(Invariant):
    name = "restarts-counted"
    rules = ("RST-145", "RST-178", "RST-185")
    text = (
        "A container seen with another instance has a higher restart count; init containers at least as "
        "long as the pod has its first sandbox."
    )
    steps = (StepKind.SNAPSHOT,)

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[PodFacts, dict[str, tuple[InstanceFacts, int]]] = WeakKeyDictionary()
        """By container: the last instance that was seen to have run, and the count then."""

    def check(self, step: Step) -> Iterable[Finding]:
        seen = self._seen.setdefault(step.pod, {})
        for name, shown in step.record["containers"].items():
            instance = step.pod.by_label.get(shown.get("id", ""))
            if instance is None or shown["state"] == "waiting":
                continue
            before, count = seen.get(name, (instance, 0))
            # Init containers lose instances and logs with their sandbox, and count anew then (RST-186).
            counts = step.pod.kind(name) == "regular" or len(step.pod.sandboxes) < 2
            if before is not instance and counts and shown["restartCount"] <= count:
                change = f"restartCount of {name} went from {count} to {shown['restartCount']}"
                yield f"{instance.label} came after {before.label}, and {change}"
            seen[name] = instance, shown["restartCount"]


class RemovedStaysEnded(Invariant):
    name = "removed-stays-ended"
    rules = ("RST-022", "RST-028")
    text = (
        "A container that had ended for good, by policy and rules, does not run again because its instance "
        "was removed by something other than a restart of all containers or a new sandbox."
    )
    steps = (StepKind.START,)

    def check(self, step: Step) -> Iterable[Finding]:
        pod, instance = step.pod, step.instance
        assert instance is not None
        last = instance.previous
        if pod.spec is None or last is None or not last.removed or last.reset or not last.started:
            return
        if last.exit_code is None or instance.sandbox != last.sandbox:
            return
        reason = forbidden_restart(pod, instance, last)
        if reason:
            ended = f"{last.label}, which had exited with {last.exit_code}, was removed"
            yield Exempt(
                f"{instance.label} was started after {ended}: {reason}", "RST-024", REMOVED_RUNS_AGAIN
            )


class RunningStaysAdmitted(Invariant):
    name = "running-stays-admitted"
    rules = ("DEV-064", "DEV-110")
    text = "A kubelet that starts does not refuse a pod whose containers run for want of their devices."
    steps = (StepKind.ADMISSION,)

    def check(self, step: Step) -> Iterable[Finding]:
        pod = step.pod
        if step.record["outcome"].get("refused") != "UnexpectedAdmissionError":
            return
        running = [one.label for one in pod.latest.values() if one.running]
        if not running:
            return
        message = f"the pod was refused while {', '.join(running)} ran"
        idle = [
            name
            for name, container in pod.containers.items()
            if _uses_devices(container) and not (name in pod.latest and pod.latest[name].running)
        ]
        if idle:
            message += f"; {', '.join(idle)} did not"
            yield Exempt(message, "DEV-112", FINISHED_INIT_USED_DEVICE)
        elif pod.started_blind:
            yield Exempt(f"{message}; the runtime was away when the kubelet started", "DEV-113")
        else:
            yield message


def _uses_devices(container: Mapping[str, Any]) -> bool:
    resources: Mapping[str, Any] = container.get("resources") or {}
    limits: Mapping[str, Any] = resources.get("limits") or {}
    return any("/" in resource for resource in limits)


class SuccessIsItsOwn(Invariant):
    name = "success-is-its-own"
    rules = ("RST-058", "RST-173")
    text = (
        "A pod that nobody deletes has not succeeded by a container that is to be restarted on failure and "
        "that the kubelet itself had stopped."
    )
    steps = (StepKind.SNAPSHOT,)

    def check(self, step: Step) -> Iterable[Finding]:
        pod, record = step.pod, step.record
        before = pod.before["phase"] if pod.before is not None else ""
        if record["phase"] != "Succeeded" or before == "Succeeded" or pod.deleting or pod.spec is None:
            return
        for name, instance in pod.latest.items():
            once = pod.kind(name) == "regular" and run_once(pod.spec, pod.containers.get(name, {}))
            if not (once and instance.stop_asked and instance.exit_code == 0):
                continue
            message = f"{instance.label} was stopped and answered with 0; the pod counts as succeeded"
            if pod.refused:
                yield Exempt(message, "POD-1201")
            else:
                yield Exempt(message, "RST-021", KILLED_WITH_ZERO)
