"""What people do not expect of a kubelet, found where it happens (pure).

Each finder looks at one moment, at the moments of the same pod before it, and at the pod's specification. A
surprise is told once for each container, not at every turn of a loop.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kubelet_emu.lab.explain.moments import Draft, Surprise
from kubelet_emu.lab.explain.reading import Instance, PodReading
from kubelet_emu.lab.invariants.rules import first_action, policy
from kubelet_emu.trace.schema import Record

__all__ = ["find_surprises"]

_RESET = "RestartingAllContainers"
_CONDITION = "AllContainersRestarting"
_LOOP_SECONDS = 60.0


def find_surprises(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Sequence[Surprise]:
    """The surprises of a moment; those already told of this pod are left out."""
    told = {(one.rule, one.text) for before in earlier for one in before.surprises}
    found: list[Surprise] = []
    for finder in _FINDERS:
        for surprise in finder(pod, draft, earlier):
            if (surprise.rule, surprise.text) not in told and surprise not in found:
                found.append(surprise)
    return found


def _snapshots(draft: Draft) -> Iterable[tuple[Record | None, Record]]:
    before = draft.before
    for snapshot in draft.snapshots:
        yield before, snapshot
        before = snapshot


def _condition(record: Record | None, name: str) -> str:
    return ((record["conditions"].get(name) if record is not None else None) or [""])[0]


def _starts(draft: Draft, pod: PodReading) -> Iterable[tuple[Instance, Instance | None]]:
    """Instances that this moment started, each with the one of the same container before it."""
    for text in draft.did:
        if text.startswith("started "):
            label = text.removeprefix("started ").partition(",")[0]
            for index, one in enumerate(pod.instances):
                if one.label == label and one.created >= draft.t - 1e-6:
                    before = [x for x in pod.instances[:index] if x.container == one.container]
                    yield one, before[-1] if before else None
                    break


def _outcome(draft: Draft) -> Mapping[str, Any]:
    return draft.plan["outcome"] if draft.plan is not None else {}


# -- restarts of the whole pod in place --


def _condition_stays(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Iterable[Surprise]:
    for before, after in _snapshots(draft):
        if _condition(before, _CONDITION) == "True" and _condition(after, _CONDITION) == "False":
            yield Surprise(
                "RST-126",
                f"{_CONDITION} does not vanish: it stays in the status as False. Wait for False, not for "
                "its absence.",
            )


def _last_state_137(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Iterable[Surprise]:
    for before, after in _snapshots(draft):
        for name, shown in after["containers"].items():
            was: Record = before["containers"].get(name, {}) if before is not None else {}
            if _last_reason(shown) != _RESET:
                continue
            if _last_reason(was) == _RESET and was.get("restartCount") == shown.get("restartCount"):
                continue
            ended = pod.last_end(name, after["t"])
            if ended is not None and ended.code is not None and ended.code != 137:
                yield Surprise(
                    "RST-146",
                    f"{name} had exited with {ended.code}, but its last state reads 137, {_RESET}: the "
                    "real code is gone.",
                )


def _last_reason(shown: Record) -> str:
    last: Record = shown.get("last") or {}
    return str(last.get("reason", ""))


def _no_backoff(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Iterable[Surprise]:
    if draft.kind != "reset":
        return
    resets = [one for one in earlier if one.kind == "reset"]
    if not resets or draft.t - resets[-1].t >= _LOOP_SECONDS:
        return
    # A reset that goes on in another sync is not another one: something has to have been started in between.
    if any(resets[-1].t < one.created < draft.t for one in pod.instances):
        yield Surprise(
            "RST-142",
            "The whole pod restarts again, and at once: restarts in place know no back-off, however often "
            "they come.",
        )


def _no_previous_logs(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Iterable[Surprise]:
    for _, before in _starts(draft, pod):
        reset = next((x for x in reversed(earlier) if x.kind == "reset"), None)
        if (
            before is not None
            and before.removed is not None
            and reset is not None
            and before.removed >= reset.t
        ):
            yield Surprise(
                "RST-152",
                f"kubectl logs --previous {pod.name} cannot work now: no last state names a container, "
                "though the old log files are still on the node.",
            )
            return


def _finished_runs_again(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Iterable[Surprise]:
    for one, before in _starts(draft, pod):
        if before is None or before.code is None or before.removed is None or before.stop_asked is not None:
            continue
        container = pod.container(one.container)
        kind = pod.kinds.get(one.container)
        for_good = not _restarts(pod, container, before.code)
        if kind == "regular" and for_good and not first_action(container, before.code):
            yield Surprise(
                "RST-024",
                f"{one.container} had ended with {before.code} for good, and runs again all the same: its "
                "instance is gone.",
            )


def _restarts(pod: PodReading, container: Mapping[str, Any], code: int) -> bool:
    if container.get("restartPolicy") and first_action(container, code):
        return True
    chosen = policy(pod.spec, container)
    return chosen == "Always" or (chosen == "OnFailure" and code != 0)


def _two_seconds(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Iterable[Surprise]:
    if draft.kind != "reset":
        return
    for entry in map(str, _outcome(draft).get("reset", ())):
        name = entry.removesuffix("!")
        if name == entry:
            continue
        if _has_prestop(pod, name):
            yield Surprise("RST-131", f"The preStop hook of {name} does not run in a restart in place.")
        grace = pod.spec.get("terminationGracePeriodSeconds")
        stopped = next(
            (x for x in pod.of(name) if x.stop_asked is not None and x.stop_asked >= draft.t), None
        )
        killed = stopped is not None and stopped.code == 137
        if killed and isinstance(grace, int) and grace > 2:
            yield Surprise(
                "RST-134",
                f"{name} got 2 seconds to end, not the {grace} of terminationGracePeriodSeconds, and was "
                "killed.",
            )


def _pending_again(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Iterable[Surprise]:
    for before, after in _snapshots(draft):
        fell = before is not None and before["phase"] == "Running" and after["phase"] == "Pending"
        if fell and _condition(after, "Initialized") == "True":
            yield Surprise(
                "RST-156",
                "The phase falls back from Running to Pending while init containers run; Initialized stays "
                "True.",
            )


def _ephemeral_left(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Iterable[Surprise]:
    if draft.kind != "reset":
        return
    for one in pod.instances:
        alive = one.created <= draft.t and (one.running_until is None or one.running_until > draft.t)
        if alive and pod.kinds.get(one.container) == "ephemeral":
            yield Surprise(
                "RST-135", f"The ephemeral container {one.container} is left alone by the restart in place."
            )


# -- rules and policies --


def _sidecar_rule(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Iterable[Surprise]:
    for one, before in _starts(draft, pod):
        if before is None or before.code is None or pod.kinds.get(one.container) != "sidecar":
            continue
        if first_action(pod.container(one.container), before.code) == "Restart":
            yield Surprise(
                "RST-027",
                f"The Restart rule of sidecar {one.container} changes nothing: a sidecar restarts after "
                "every exit.",
            )


def _init_rule_for_0(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Iterable[Surprise]:
    name = _exited(draft)
    if name is None or pod.kinds.get(name[0]) != "init" or name[1] != 0:
        return
    if first_action(pod.container(name[0]), 0) == "Restart":
        yield Surprise(
            "RST-028",
            f"{name[0]} has a Restart rule for 0, but an init container that exits with 0 is done.",
        )


def _shadowed(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Iterable[Surprise]:
    found = _exited(draft)
    if found is None:
        return
    container = pod.container(found[0])
    rules: Sequence[Mapping[str, Any]] = container.get("restartPolicyRules") or ()
    actions = [r.get("action") for r in rules if first_action({"restartPolicyRules": [r]}, found[1])]
    if len(set(actions)) > 1:
        yield Surprise(
            "RST-020",
            f"Two rules of {found[0]} match code {found[1]}; only the first one counts ({actions[0]}).",
        )


def _exited(draft: Draft) -> tuple[str, int] | None:
    """Container and code of a moment that tells of an exit."""
    if draft.kind != "exit":
        return None
    words = draft.title.rstrip(".").split()
    label, code = (
        words[0],
        next((word.strip("(),") for word in reversed(words) if word.strip("(),").isdigit()), ""),
    )
    return (label.partition("#")[0], int(code)) if code else None


def _rules_not_asked(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Iterable[Surprise]:
    outcome = _outcome(draft)
    for name in map(str, outcome.get("kill", ())):
        container = pod.container(name)
        if policy(pod.spec, container) == "Never" and container.get("restartPolicyRules"):
            yield Surprise(
                "RST-058",
                f"{name} is killed by a probe, and its exit-code rules are not asked yet: there is no code "
                "before it ends.",
            )
        probe: Mapping[str, Any] = container.get("livenessProbe") or {}
        if outcome.get("killPod") and probe.get("terminationGracePeriodSeconds") is not None:
            yield Surprise(
                "RST-061",
                f"The probe's own grace period of {name} is not used: nothing else runs, so the pod is "
                "killed as a whole.",
            )


def _backoff_after_success(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Iterable[Surprise]:
    for decision in draft.decisions:
        if decision["machine"] != "kuberuntime.backoff" or not decision["outcome"].get("wait"):
            continue
        name = str(decision["inputs"]["container"])
        ended = pod.last_end(name, draft.t)
        if ended is None or ended.code is None:
            continue
        if ended.code == 0:
            yield Surprise(
                "RST-111", f"{name} had exited with 0 and has to wait: back-off asks for no exit code."
            )
        elif first_action(pod.container(name), ended.code) == "Restart":
            yield Surprise(
                "RST-111", f"{name} restarts by a rule and has to wait: rules do not spare it the back-off."
            )


def _stuck(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Iterable[Surprise]:
    if draft.plan is not None and "RST-033" in draft.plan["rules"]:
        yield Surprise(
            "RST-033",
            "The pod may show Running for good from here on, with nothing running in it, until somebody "
            "deletes it.",
        )


def _never_in_new_sandbox(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Iterable[Surprise]:
    if not _outcome(draft).get("createSandbox"):
        return
    for one, before in _starts(draft, pod):
        container = pod.container(one.container)
        if before is None or before.code is None or pod.kinds.get(one.container) != "regular":
            continue
        if container.get("restartPolicy") == "Never" and not first_action(container, before.code):
            yield Surprise(
                "RST-034",
                f"{one.container} must never restart, but a new sandbox starts it again.",
            )


# -- hooks, kubelet --


def _has_prestop(pod: PodReading, name: str) -> bool:
    lifecycle: Mapping[str, Any] = pod.container(name).get("lifecycle") or {}
    return bool(lifecycle.get("preStop"))


def _no_prestop(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Iterable[Surprise]:
    found = _exited(draft)
    if found is None or "asked" in draft.title:
        return
    if _has_prestop(pod, found[0]):
        yield Surprise(
            "RST-101", f"{found[0]} ended by itself, so its preStop hook does not run: only a kill runs it."
        )


def _backoff_forgotten(pod: PodReading, draft: Draft, earlier: Sequence[Draft]) -> Iterable[Surprise]:
    back = draft.kind == "action" and draft.title.startswith("The kubelet is back")
    if back and any(span.start < draft.t for spans in pod.backoffs.values() for span in spans):
        yield Surprise("RST-119", "All back-off is forgotten: it was in the old kubelet's memory only.")


_Finder = Callable[[PodReading, Draft, Sequence[Draft]], Iterable[Surprise]]
_FINDERS: tuple[_Finder, ...] = (
    _condition_stays,
    _last_state_137,
    _no_backoff,
    _no_previous_logs,
    _finished_runs_again,
    _two_seconds,
    _pending_again,
    _ephemeral_left,
    _sidecar_rule,
    _init_rule_for_0,
    _shadowed,
    _rules_not_asked,
    _backoff_after_success,
    _stuck,
    _never_in_new_sandbox,
    _no_prestop,
    _backoff_forgotten,
)
