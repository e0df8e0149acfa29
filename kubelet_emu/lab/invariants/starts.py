"""Invariants about what may be started, and when (pure)."""

from collections.abc import Iterable

from kubelet_emu.bugs import OLD_INIT_COUNTS, STALE_CREATED
from kubelet_emu.lab.invariants.base import Exempt, Finding, Invariant
from kubelet_emu.lab.invariants.rules import may_restart, never, restart_all_matches, run_once
from kubelet_emu.lab.invariants.world import InstanceFacts, PodFacts, Step, StepKind

__all__ = [
    "InitInOrder",
    "NoStartAfterTermination",
    "OneRunningInstance",
    "RegularAfterInit",
    "ResetByTrigger",
    "RestartByRule",
    "forbidden_restart",
]


class OneRunningInstance(Invariant):
    name = "one-running-instance"
    rules = ("RST-023", "RST-057")
    text = "No container has two running instances."
    steps = (StepKind.START,)

    def check(self, step: Step) -> Iterable[str]:
        instance = step.instance
        assert instance is not None
        if instance.previous is not None and instance.previous.running:
            yield f"{instance.label} was started while {instance.previous.label} ran"


def _missing_before(pod: PodFacts, container: str) -> str:
    """Why an init container, or a regular one, may not be started yet; empty if it may."""
    for name, kind in pod.kinds.items():
        if name == container or kind in ("regular", "ephemeral"):
            return ""
        if kind == "init" and name not in pod.completed:
            return f"init container {name} had not succeeded"
        if kind == "sidecar" and name not in pod.begun:
            return f"sidecar {name} had not been started"
    return ""


def _too_early(pod: PodFacts, instance: InstanceFacts, missing: str) -> Finding:
    """What to say of a start before its time, exempt where leftovers of an earlier sandbox led to it."""
    message = f"{instance.label} was started, but {missing}"
    here = instance.sandbox
    for name, latest in pod.latest.items():
        older = latest.previous if latest is instance else latest
        if older is None or older.removed or older.sandbox == here:
            continue
        left = f"{message}; {older.label} is left from {older.sandbox}"
        if pod.kind(name) == "regular" and not older.started:
            return Exempt(left, "RST-045", STALE_CREATED)
        if pod.kind(name) == "init" and older.exit_code == 0:
            return Exempt(left, "RST-081", OLD_INIT_COUNTS)
    return message


class InitInOrder(Invariant):
    name = "init-in-order"
    rules = ("RST-046", "RST-050", "RST-051")
    text = (
        "Init containers and sidecars start in the order of the specification, plain ones one at a time and "
        "never beside regular containers, each after those before it have succeeded (sidecars: been started)."
    )
    steps = (StepKind.START,)

    def check(self, step: Step) -> Iterable[Finding]:
        pod, instance = step.pod, step.instance
        assert instance is not None
        kind = pod.kind(instance.container)
        if kind not in ("init", "sidecar"):
            return
        missing = _missing_before(pod, instance.container)
        if missing:
            yield _too_early(pod, instance, missing)
        if kind == "init":
            beside = [
                other.label
                for name, other in pod.latest.items()
                if other.running and other is not instance and pod.kind(name) in ("init", "regular")
            ]
            if beside:
                yield f"{instance.label} was started beside {', '.join(beside)}"


class RegularAfterInit(Invariant):
    name = "regular-after-init"
    rules = ("RST-042", "RST-045")
    text = (
        "A regular container starts only after every init container has succeeded and every sidecar has been "
        "started."
    )
    steps = (StepKind.START,)

    def check(self, step: Step) -> Iterable[Finding]:
        pod, instance = step.pod, step.instance
        assert instance is not None
        if pod.kind(instance.container) == "regular":
            missing = _missing_before(pod, instance.container)
            if missing:
                yield _too_early(pod, instance, missing)


class NoStartAfterTermination(Invariant):
    name = "no-start-after-termination"
    rules = ("POD-502", "POD-516")
    text = "Once a pod's termination is acknowledged, no sandbox and no container of it is made or started."
    steps = (StepKind.SANDBOX_RUN, StepKind.CREATE, StepKind.START)

    def check(self, step: Step) -> Iterable[str]:
        since, record = step.pod.acknowledgement, step.record
        if since is None or step.pod.only_guessed:
            return
        # A call in flight at that moment is not cancelled (POD-516).
        began, then = record.get("seq", -1), since.get("end", since.get("seq", -1))
        before = began < then if began >= 0 else record["t"] < since["t"]
        if not before:
            what = record.get("container") or record.get("sandbox")
            yield f"{record['m']} of {what} although the pod's termination was acknowledged"


class RestartByRule(Invariant):
    name = "restart-by-rule"
    rules = ("RST-022", "RST-024", "RST-027", "RST-028", "RST-034", "RST-058")
    text = (
        "A container is started again only if its policy, its rules or a change of its definition say so, if "
        "its last instance is gone (RST-024), or in a new sandbox (RST-034)."
    )
    steps = (StepKind.START,)

    def check(self, step: Step) -> Iterable[str]:
        pod, instance = step.pod, step.instance
        assert instance is not None
        last = instance.previous
        if (
            pod.spec is None
            or last is None
            or last.removed
            or last.doubtful
            or not last.started
            or last.exit_code is None
        ):
            return
        reason = forbidden_restart(pod, instance, last)
        if reason:
            exited = f"{last.label} had exited with {last.exit_code}"
            yield f"{instance.label} was started after {exited}: {reason}"


def forbidden_restart(pod: PodFacts, instance: InstanceFacts, last: InstanceFacts) -> str:
    """Why the start is not allowed; empty if it is."""
    assert pod.spec is not None
    assert last.exit_code is not None
    kind = pod.kind(instance.container)
    spec = pod.containers.get(instance.container, {})
    if kind == "ephemeral":
        return "ephemeral containers run once"
    if kind in ("", "sidecar"):
        return ""
    if instance.sandbox != last.sandbox:
        # What was to be started in the new sandbox was decided before the old one was stopped (RST-034).
        ended = kind == "regular" and last.exit_code == 0 and not last.stop_asked
        once = ended and run_once(pod.spec, spec)
        return "it had succeeded and runs once, also in a new sandbox" if once else ""
    if instance.image != last.image:
        return ""
    if last.stop_asked and not never(pod.spec, spec):
        return ""
    if kind == "init" and last.exit_code == 0 and last.exit_reason != "OOMKilled":
        return "the init container had succeeded"
    return "" if may_restart(pod.spec, spec, last.exit_code) else "neither policy nor rules restart it"


class ResetByTrigger(Invariant):
    name = "reset-by-trigger"
    rules = ("RST-121", "RST-128", "RST-130")
    text = (
        "The last instance of a regular container of a living pod is removed only after a container exited "
        "with a code whose rule restarts all containers."
    )
    steps = (StepKind.EXIT, StepKind.REMOVE)

    def check(self, step: Step) -> Iterable[str]:
        pod, instance = step.pod, step.instance
        assert instance is not None
        if step.record["k"] == "action":
            return  # somebody else did it
        if step.kind is StepKind.EXIT:
            spec = pod.containers.get(instance.container, {})
            ephemeral = pod.kind(instance.container) == "ephemeral"
            if not ephemeral and restart_all_matches(spec, instance.exit_code or 0):
                pod.triggered = True
            return
        ready = pod.sandbox is not None and pod.sandbox.ready
        last = pod.latest.get(instance.container) is instance and instance.container not in pod.perhaps_made
        regular = pod.kind(instance.container) == "regular"
        if regular and last and ready and not pod.going and not pod.triggered:
            yield f"{instance.label}, the last instance, was removed from a living pod without a trigger"
