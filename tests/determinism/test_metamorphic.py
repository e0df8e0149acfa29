"""Changes of a scenario that must change nothing but names and times."""

import copy
import re

import pytest
from attrs import evolve

from kubelet_emu.lab.compare import compare
from kubelet_emu.lab.node import NodeOptions
from kubelet_emu.lab.runner import run_scenario
from kubelet_emu.lab.scenarios import builtin_scenarios
from kubelet_emu.lab.side_by_side import run_side_by_side
from kubelet_emu.trace.ndjson import read_lines, write_lines

SCENARIOS = {one.id: one for one in builtin_scenarios() if one.area != "device"}
OPTIONS = NodeOptions(seed=3, transport="memory")


def told(comparison):
    shown = [one for one in comparison.differences if one.aspect != "gaps"]
    return "\n".join(f"{one.aspect} {one.strand}: {one.message}\n{one.side_by_side()}" for one in shown)


# -- names --


def named_lists(spec):
    return [spec.get("initContainers") or [], spec["containers"], spec.get("ephemeralContainers") or []]


def renamed(scenario):
    """The scenario with other names, which sort the other way round, and the way back."""
    pod = copy.deepcopy(dict(scenario.pod))
    extra = [action.ephemeral_container for action in scenario.actions if action.ephemeral_container]
    old = [one["name"] for names in named_lists(pod["spec"]) for one in names] + [
        one["name"] for one in extra
    ]
    new = {name: f"zq{len(old) - number}" for number, name in enumerate(sorted(old))}
    pod["metadata"]["name"] = "another-pod"
    for names in named_lists(pod["spec"]):
        for one in names:
            one["name"] = new[one["name"]]
    actions = []
    for action in scenario.actions:
        if action.ephemeral_container:
            one = dict(action.ephemeral_container)
            one["name"] = new[one["name"]]
            if one.get("targetContainerName"):
                one["targetContainerName"] = new[one["targetContainerName"]]
            action = evolve(action, ephemeral_container=one)
        actions.append(evolve(action, container=new.get(action.container, action.container)))
    back = {"another-pod": scenario.pod_name} | {other: name for name, other in new.items()}
    return evolve(scenario, pod=pod, actions=tuple(actions)), back


def with_names(trace, back):
    pattern = re.compile(r"(?<![a-z0-9-])(" + "|".join(back) + r")(?![a-z0-9-])")
    text = "".join(write_lines(trace))
    return read_lines(pattern.sub(lambda match: back[match[0]], text).splitlines())


@pytest.mark.parametrize(
    "name",
    [
        # Every third always; all of them where time is no matter.
        pytest.param(name, marks=[pytest.mark.slow] if number % 3 else [])
        for number, name in enumerate(SCENARIOS)
    ],
)
def test_other_names_change_nothing_but_names(name):
    scenario = SCENARIOS[name]
    other, back = renamed(scenario)
    first = run_scenario(scenario, OPTIONS)
    second = with_names(run_scenario(other, OPTIONS), back)
    comparison = compare(first, second)
    assert all(comparison.equal(aspect) for aspect in ("status", "calls", "events")), told(comparison)


# -- order --

SIDE_BY_SIDE = (
    "restart-all-regular-exit",
    "init-serial-then-regular",
    "sidecar-around-a-job",
    "readiness-follows-probe",
    "crashloop-delays-double",
)


def test_pods_in_another_order_do_what_they_did():
    scenarios = [SCENARIOS[name] for name in SIDE_BY_SIDE]
    alone = {one.id: run_scenario(one, OPTIONS) for one in scenarios}
    for order in (scenarios, scenarios[::-1], scenarios[2:] + scenarios[:2]):
        beside = run_side_by_side(order, OPTIONS)
        for name in SIDE_BY_SIDE:
            comparison = compare(alone[name], beside[name])
            assert all(comparison.equal(one) for one in ("status", "calls", "events")), told(comparison)


FOUR = {
    "steady": {"command": ["sh", "-c", "sleep 600"]},
    "crasher": {"command": ["sh", "-c", "sleep 1; exit 3"], "restartPolicy": "OnFailure"},
    "once": {"command": ["sh", "-c", "sleep 4; exit 0"], "restartPolicy": "OnFailure"},
    "failed": {"command": ["sh", "-c", "sleep 7; exit 9"], "restartPolicy": "Never"},
}


def one_pod(order, *, more=0.0):
    containers = [{"name": name, "image": "docker.io/library/busybox:1.36", **FOUR[name]} for name in order]
    return evolve(
        SCENARIOS["restart-always-after-success"],
        pod={
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "several"},
            "spec": {"restartPolicy": "Always", "containers": containers},
        },
        run_for_seconds=40.0 + more,
        actions=(),
        expect=(),
    )


def history(trace, container):
    """What a container went through, without times: its states as snapshots show them, and its events."""
    states = []
    for record in trace.of_kind("pod"):
        shown = record["containers"].get(container)
        if shown is not None:
            keys = ("state", "reason", "exitCode", "last", "restartCount", "ready", "started", "id")
            state = {key: shown.get(key) for key in keys}
            if not states or states[-1] != state:
                states.append(state)
    about = f"spec.containers{{{container}}}"
    events = [(one["reason"], one["count"]) for one in trace.of_kind("event") if one.get("on") == about]
    return states, events


@pytest.mark.parametrize(
    "order", [("crasher", "once", "failed", "steady"), ("failed", "crasher", "steady", "once")]
)
def test_containers_in_another_order_do_what_they_did(order):
    first = run_scenario(one_pod(tuple(FOUR)), OPTIONS)
    second = run_scenario(one_pod(order), OPTIONS)
    for name in FOUR:
        assert history(first, name) == history(second, name), name


# -- times --

SHIFTED = (
    "restart-all-regular-exit",
    "restart-all-sidecar-exit",
    "restart-all-init-exit",
    "init-serial-then-regular",
    "sidecar-crash-restarts-in-never-pod",
    "restart-never-mixed-exit-codes",
    "rule-restart-on-listed-code",
)


@pytest.mark.parametrize("name", SHIFTED)
@pytest.mark.parametrize("more", [1, 3])
def test_longer_sleeps_change_nothing_but_times(name, more):
    """Every sleep of every container takes that much longer; the order of what ends first stays."""
    scenario = SCENARIOS[name]

    def longer(script):
        return re.sub(r"sleep (\d+)", lambda match: f"sleep {int(match[1]) + more}", script)

    pod = copy.deepcopy(dict(scenario.pod))
    for names in named_lists(pod["spec"]):
        for one in names:
            one["command"] = [longer(word) for word in one.get("command", [])]
    other = evolve(scenario, pod=pod, run_for_seconds=scenario.run_for_seconds + 12.0 * more)
    comparison = compare(
        run_scenario(evolve(scenario, run_for_seconds=scenario.run_for_seconds + 12.0), OPTIONS),
        run_scenario(other, OPTIONS),
    )
    assert all(comparison.equal(one) for one in ("status", "calls", "events")), told(comparison)
