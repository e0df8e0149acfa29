"""Differential properties: two runs that have to end alike, but for what the rules allow to differ.

Each takes a case and gives back the differences, as lines of text; none means that the property holds. Pods
are compared as the API shows them at the end, without times, ids and resource versions (``end_of``). The pods
have to come to rest within the case's duration: a container that is in its back-off at the end has no end to
compare.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from attrs import evolve

from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.lab.node import Node
from kubelet_emu.sim.case import Case, Step
from kubelet_emu.sim.runner import node_options, run_case
from node_host.loop import run

__all__ = [
    "crash_agrees",
    "differences",
    "end_of",
    "restart_all_is_like_fresh",
    "transports_agree",
    "with_restart_all",
]

KILLED = 137
"""Exit code of a process that was killed, for which a restart of all containers is asked."""
QUIET_SECONDS = 20.0
"""A pod has so long to come to rest after what disturbed it."""

End = Mapping[str, Mapping[str, Any]]
"""By pod, then by ``phase``, ``condition NAME`` or ``CONTAINER FIELD``."""


def end_of(pods: Sequence[Mapping[str, Any]]) -> End:
    """What of the pods' status may be compared between runs: no times, ids, addresses or versions."""
    return {str(pod["metadata"]["name"]): _pod_end(pod.get("status", {})) for pod in pods}


def _pod_end(status: Mapping[str, Any]) -> Mapping[str, Any]:
    found: dict[str, Any] = {key: status.get(key) for key in ("phase", "reason", "message", "qosClass")}
    for condition in status.get("conditions") or ():
        shown = [condition.get(key) for key in ("status", "reason", "message")]
        found[f"condition {condition['type']}"] = shown
    for key in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for one in status.get(key) or ():
            for field, value in _container_end(one).items():
                found[f"{one['name']} {field}"] = value
    return found


def _container_end(status: Mapping[str, Any]) -> Mapping[str, Any]:
    devices = [
        [resource.get("name"), sorted(str(one.get("resourceID")) for one in resource.get("resources", ()))]
        for resource in status.get("allocatedResourcesStatus") or ()
    ]
    last = _state(status.get("lastState") or {})
    return {
        "state": _state(status.get("state") or {}),
        "lastState": last,
        "restartCount": status.get("restartCount", 0),
        "ready": bool(status.get("ready")),
        "started": bool(status.get("started")),
        "image": status.get("image"),
        "devices": devices,
    }


def _state(state: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    for kind, more in state.items():
        return [kind, more.get("reason"), more.get("exitCode")]
    return []


def differences(one: End, other: End, *, allowed: Callable[[str], bool] = lambda field: False) -> list[str]:
    """What differs between two ends, a line each; ``allowed`` says of which fields it may."""
    found: list[str] = []
    for pod in sorted({*one, *other}):
        if pod not in one or pod not in other:
            found.append(f"{pod} is there in only one of the runs")
            continue
        first, second = one[pod], other[pod]
        for field in sorted({*first, *second}):
            if first.get(field) != second.get(field) and not allowed(field):
                found.append(f"{pod}: {field} is {first.get(field)} and {second.get(field)}")
    return found


# -- a restart of all containers, and a fresh pod --


def with_restart_all(case: Case, container: str) -> Case:
    """The case with a rule that restarts all when that container of the first pod is killed (137).

    Raises ``CallerError`` if there is no such container.
    """
    pod = copy.deepcopy(dict(case.pods[0]))
    spec = pod["spec"]
    listed = [*spec["containers"], *(spec.get("initContainers") or ())]
    chosen = next((one for one in listed if one["name"] == container), None)
    if chosen is None:
        raise CallerError([Problem(f"the pod has no container {container!r}", path="documents")])
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [KILLED]}}
    chosen.setdefault("restartPolicy", spec.get("restartPolicy", "Always"))
    chosen["restartPolicyRules"] = [rule, *chosen.get("restartPolicyRules", ())]
    documents = [pod if one is case.pods[0] else one for one in case.documents]
    return evolve(case, documents=tuple(documents))


def restart_all_is_like_fresh(case: Case, container: str, *, at_seconds: float) -> list[str]:
    """Whether a pod that was restarted in place ends like one that was not.

    ``container`` of the first pod is killed ``at_seconds`` after the start, which restarts all. What may
    differ: restart counts are higher by one, and last states tell of the restart (RST-145, RST-146).
    """
    ruled = with_restart_all(case, container)
    name = ruled.pods[0]["metadata"]["name"]
    kill = Step(at_seconds=at_seconds, text=f"signal {name}/{container} 9")
    longer = max(case.duration_seconds, at_seconds + QUIET_SECONDS)
    fresh = run_case(evolve(ruled, plan=(), duration_seconds=longer))
    restarted = run_case(evolve(ruled, plan=(kill,), duration_seconds=longer))
    found = [*map(str, fresh.violations), *map(str, restarted.violations)]
    one, other = end_of(fresh.pods), end_of(restarted.pods)
    counts = [
        f"{name}: {field} went from {value} to {other[name].get(field)}"
        for field, value in one.get(name, {}).items()
        if field.endswith(" restartCount") and name in other and other[name].get(field) != value + 1
    ]
    return [*found, *differences(one, other, allowed=_told_of_restart), *counts]


def _told_of_restart(field: str) -> bool:
    return field.endswith((" restartCount", " lastState"))


# -- a crash of the kubelet --


def crash_agrees(case: Case, *, at_seconds: float, down_seconds: float = 1.0) -> list[str]:
    """Whether the pods end alike with and without a crash of the kubelet.

    What may differ by POD-1202: a container that was being started or had just ended may have been started
    once more, which shows in its count and last state; reasons of failed starts are forgotten, and so is
    what the message of a waiting container told of its back-off.
    """
    crash = Step(at_seconds=at_seconds, text=f"crash kubelet down {down_seconds:g}s")
    longer = max(case.duration_seconds, at_seconds + down_seconds + QUIET_SECONDS)
    calm = run_case(evolve(case, plan=(), duration_seconds=longer))
    crashed = run_case(evolve(case, plan=(crash,), duration_seconds=longer))
    found = [*map(str, calm.violations), *map(str, crashed.violations)]
    one, other = end_of(calm.pods), end_of(crashed.pods)
    fewer = [
        f"{pod}: {field} fell from {value} to {other[pod].get(field)}"
        for pod, fields in one.items()
        for field, value in fields.items()
        if field.endswith(" restartCount") and pod in other and other[pod].get(field, 0) < value
    ]
    return [*found, *differences(one, other, allowed=_told_of_restart), *fewer]


# -- transports --


def transports_agree(case: Case) -> list[str]:
    """Whether the pods end alike over gRPC sockets and in memory. The case's plan is left out: faults on
    sockets are real ones.
    """
    return differences(_end_over(case, "memory"), _end_over(case, "grpc"))


def _end_over(case: Case, transport: Literal["memory", "grpc"]) -> End:
    options = evolve(node_options(evolve(case, plan=())), transport=transport)

    async def go() -> End:
        async with Node(options) as node:
            for one in case.documents:
                if one.get("kind", "Pod") == "Pod":
                    node.apply(one)
                else:
                    node.apply_object(one)
            await node.advance(case.duration_seconds)
            return end_of(node.store.list("Pod"))

    return run(go, seed=case.seed)
