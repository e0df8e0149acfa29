"""The other way back: what a controller does where pods cannot be restarted in place.

The same pods run on the same node with the same seed, but without the rules that restart a whole pod. When
the API shows the exit that such a rule waits for, the pod is deleted, and created again once it is gone.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from cri_fake.latency import MEASURED
from kubelet_emu.apiserver.client import LATENCY_SECONDS
from kubelet_emu.lab.invariants import Verdict
from kubelet_emu.lab.node import CREATE_SECONDS, Node
from kubelet_emu.lab.report.text import seconds_text
from kubelet_emu.lab.report.ways import RESTART_ALL, Trigger
from kubelet_emu.lab.run import RunOptions, innermost
from kubelet_emu.trace.schema import Record, Trace
from node_host.loop import run as run_loop

__all__ = ["Recreated", "assumptions", "run_recreated", "without_restart_all"]

EXIT_WITHIN_SECONDS = 1800.0
"""How long the exit is waited for."""
BACK_WITHIN_SECONDS = 900.0
"""How long the pod may take to end, and its successor to become ready."""

_CALLS = ("RunPodSandbox", "StopPodSandbox", "CreateContainer", "StartContainer", "StopContainer")

Object = Mapping[str, Any]


@frozen
class Recreated:
    """What came of it: the trace up to the new pod's readiness, and the verdicts on it."""

    trace: Trace
    invariants: tuple[Verdict, ...]
    ready: bool
    """Whether the new pod became ready in time."""


def without_restart_all(pod: Object) -> Object:
    """The pod without its rules that restart all containers."""
    spec: dict[str, Any] = dict(pod["spec"])
    for key in ("initContainers", "containers"):
        if spec.get(key):
            spec[key] = [_without(container) for container in spec[key]]
    return {**pod, "spec": spec}


def _without(container: Object) -> Object:
    rules: Sequence[Object] = container.get("restartPolicyRules") or ()
    others = [rule for rule in rules if rule.get("action") != RESTART_ALL]
    rest = {key: value for key, value in container.items() if key != "restartPolicyRules"}
    return {**rest, "restartPolicyRules": others} if others else rest


def run_recreated(
    pods: Sequence[Object],
    options: RunOptions,
    trigger: Trigger,
    *,
    objects: Iterable[Object] = (),
    after_seconds: float = 0.0,
) -> Recreated:
    """Run the pods up to the exit, then delete the pod of the trigger and create it again.

    ``after_seconds`` is what a controller and a scheduler take from the end of the old pod to the new one on
    this node. Raises ``CallerError`` for pods the API refuses.
    """
    node_options = evolve(options.node, sink=None)
    given = [without_restart_all(pod) if _name(pod) == trigger.pod else pod for pod in pods]

    async def main() -> Recreated:
        async with Node(node_options) as node:
            for obj in objects:
                node.apply_object(obj)
            for number, pod in enumerate(given):
                if number:
                    await node.delay_action()
                node.apply(pod)
            ready = await _delete_and_create(node, given, trigger, after_seconds)
            node.recorder.action("end")
        return Recreated(node.trace, node.monitor.verdicts(), ready)

    try:
        return run_loop(main, seed=node_options.seed, pace=options.pace, rate=options.rate)
    except BaseExceptionGroup as group:
        raise innermost(group) from group


async def _delete_and_create(
    node: Node, given: Sequence[Object], trigger: Trigger, after_seconds: float
) -> bool:
    (pod,) = (one for one in given if _name(one) == trigger.pod)
    metadata: Object = pod["metadata"]
    namespace = str(metadata.get("namespace") or "default")

    def is_it(record: Record) -> bool:
        return record["k"] == "pod" and record["pod"] == trigger.pod

    def shows_the_exit(record: Record) -> bool:
        return is_it(record) and _shows(record, trigger)

    if not await node.advance_until(shows_the_exit, within_seconds=EXIT_WITHIN_SECONDS):
        return False
    await node.delay_action()
    node.delete(trigger.pod, namespace=namespace)
    gone = await node.advance_until(
        lambda record: is_it(record) and bool(record.get("deleted")), within_seconds=BACK_WITHIN_SECONDS
    )
    if not gone:
        return False
    await node.advance(after_seconds)
    await node.delay_action()
    node.apply(pod)
    return await node.advance_until(
        lambda record: is_it(record) and record["conditions"].get("Ready", [""])[0] == "True",
        within_seconds=BACK_WITHIN_SECONDS,
    )


def _shows(record: Record, trigger: Trigger) -> bool:
    containers: Mapping[str, Object] = record.get("containers") or {}
    shown: Object = containers.get(trigger.container) or {}
    last: Object = shown.get("last") or {}
    ended = shown.get("state") == "terminated" and shown.get("exitCode") == trigger.code
    return ended or last.get("exitCode") == trigger.code


def _name(pod: Object) -> str:
    return str(pod.get("metadata", {}).get("name", ""))


def assumptions(options: RunOptions, after_seconds: float) -> str:
    """The latencies behind both ways, in words."""
    if options.node.latency == "zero":
        calls = "calls of the runtime and the API take no time"
    else:
        medians = ", ".join(f"{name} {_millis(MEASURED[name].at(0.5))}" for name in _CALLS)
        low, high = LATENCY_SECONDS
        create = _millis(sum(CREATE_SECONDS) / 2)
        calls = (
            f"runtime calls as measured on a node with containerd 1.6 (medians: {medians}), API requests of "
            f"{_millis(low)} to {_millis(high)} ({create} to create a pod)"
        )
    return (
        f"{calls}; images are on the node; a controller that deletes the pod the moment the API shows the "
        f"exit, and {seconds_text(after_seconds)} for it and the scheduler until the next pod is on the same "
        "node (--recreate-after)."
    )


def _millis(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
