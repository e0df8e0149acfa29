# pyright: basic
"""Bug mode: each bug has a case of few lines that shows it, and that shows nothing without it."""

import pytest
from attrs import evolve

from kubelet_emu.bugs import find_bug, known_bugs, known_fixes, list_bugs
from kubelet_emu.errors import CallerError
from kubelet_emu.lab.conform import Outcome
from kubelet_emu.lab.conform_run import Bench, Judging, conform_on
from kubelet_emu.lab.invariants import INVARIANTS
from kubelet_emu.lab.scenarios import builtin_scenarios
from kubelet_emu.settings import KubeletSettings
from kubelet_emu.sim import Case, run_case, steps

SLEEP = "sleep 3600"
TWICE = "test -f /data/x && sleep 3600; touch /data/x; sleep 3; exit"
"""Runs for ever the second time; the exit code of the first follows."""
SIDECAR = {"restartPolicy": "Always"}
GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
DATA = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
TRIGGER = {
    "restartPolicy": "Never",
    "restartPolicyRules": [
        {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    ],
    **DATA,
}


def container(name, command, **fields):
    return {"name": name, "image": "busybox", "command": ["sh", "-c", command], **fields}


def succeeds(**fields):
    return {"exec": {"command": ["true"]}, **fields}


def case(*containers, init=(), policy="Always", plan=(), **fields):
    mounted = any("volumeMounts" in one for one in (*init, *containers))
    spec = {
        "restartPolicy": policy,
        "terminationGracePeriodSeconds": 2,
        "initContainers": list(init),
        "containers": list(containers),
        "volumes": [{"name": "data", "emptyDir": {}}] if mounted else [],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    return Case(documents=(pod,), plan=steps(plan), **fields)


CASES = {
    "136910": case(
        container("main", "sleep 30; exit 1"),
        init=(container("side", SLEEP, **SIDECAR, startupProbe=succeeds(periodSeconds=1)),),
        plan=("@20s crash kubelet",),
    ),
    "126543": case(
        container("main", SLEEP),
        init=(container("setup", "exit 0"),),
        plan=("@0s error StartContainer UNKNOWN",),
    ),
    "137710": case(
        container("main", SLEEP),
        init=(container("one", "sleep 5"), container("two", "exit 0")),
        plan=("@15s stop-sandbox p",),
    ),
    "118559": case(
        container("main", SLEEP, **GPU),
        devices="l4x1",
        plan=("@10s crash plugin nvidia.com/gpu down 20s", "@12s crash kubelet"),
    ),
    "132826": case(
        container("main", SLEEP, startupProbe=succeeds()),
        init=(
            container("side", f"{TWICE} 1", **SIDECAR, **DATA, startupProbe=succeeds(initialDelaySeconds=4)),
        ),
        policy="Never",
        plan=("@0s after 1 StartContainer calls delay CreateContainer 12s",),
    ),
    "124345": case(
        container("main", SLEEP),
        init=(container("setup", "exit 0", **GPU),),
        devices="l4x1",
        plan=("@10s crash plugin nvidia.com/gpu down 20s", "@12s crash kubelet"),
    ),
    "90271": case(
        container("main", SLEEP),
        container("once", "exit 0"),
        policy="Never",
        plan=("@10s remove p/once",),
        duration_seconds=120,
    ),
    "123839": case(
        container("main", SLEEP),
        policy="Never",
        plan=(
            "@0s after 1 CreateContainer calls crash kubelet down 3s",
            "@0s after 1 CreateContainer calls stop-sandbox p",
        ),
    ),
    "140309": case(
        container("main", SLEEP),
        init=(container("setup", "sleep 5"),),
        plan=("@0s after 1 StartContainer calls error StartContainer UNKNOWN", "@10s stop-sandbox p"),
    ),
    "109537": case(
        container(
            "main",
            "trap 'exit 0' TERM; sleep 3600 & wait",
            livenessProbe={"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1},
        ),
        policy="OnFailure",
    ),
    "init-not-run": case(container("main", f"{TWICE} 42", **TRIGGER), init=(container("setup", "exit 0"),)),
    "trigger-kept": case(container("main", f"{TWICE} 42", **TRIGGER), container("other", SLEEP)),
    "sandbox-recreated": case(container("main", f"{TWICE} 42", **TRIGGER)),
    "devices-freed": case(container("main", f"{TWICE} 42", **TRIGGER, **GPU), devices="l4x1"),
    "counts-reset": case(container("main", f"{TWICE} 42", **TRIGGER)),
}
"""By id: at most three containers and three faults."""


def test_each_bug_has_a_case():
    assert list(CASES) == [bug.id for bug in list_bugs()]
    for given in CASES.values():
        spec = given.pods[0]["spec"]
        assert len(given.plan) <= 3
        assert len(spec["containers"]) + len(spec["initContainers"]) <= 3


@pytest.mark.parametrize("name", CASES)
def test_a_case_that_shows_the_bug(name):
    bug, given = find_bug(name), CASES[name]
    clean = run_case(given)
    assert clean.ok, clean.violations
    shown = run_case(evolve(given, bugs=(name,)))
    assert {one.invariant for one in shown.violations} <= set(bug.breaks)
    assert shown.verdict == "violated"
    exempt = {one.exempt for one in clean.findings}
    if bug.kind != "open":
        assert not exempt
        return
    assert exempt == set(bug.rules)
    fixed = run_case(evolve(given, bugs=(name,), fixes=(name,)))
    assert fixed.ok, fixed.violations
    assert not fixed.findings


def test_what_a_bug_breaks_is_there_to_be_broken():
    known = {invariant.name for invariant in INVARIANTS} | {"debts-paid"}
    assert all(set(bug.breaks) <= known for bug in list_bugs())


def test_a_bug_is_named_by_its_id_or_a_number_of_upstream():
    assert find_bug("137146").id == find_bug("#136910").id == "136910"
    assert known_bugs(["51142", "devices-freed"]) == {"90271", "devices-freed"}
    assert str(find_bug("90271")).startswith("90271 ")
    assert "#90271 #51142" in str(find_bug("90271"))


@pytest.mark.parametrize(
    ("ask", "name", "words"),
    [
        (known_bugs, "1", "there is no bug '1' (known are 136910"),
        (known_fixes, "devices-freed", "nothing to fix about devices-freed (fixes are there for 124345"),
    ],
)
def test_what_is_not_known_is_refused(ask, name, words):
    with pytest.raises(CallerError) as caught:
        ask([name])
    assert words in str(caught.value)


def test_nothing_is_removed_while_the_runtime_is_down():
    given = evolve(CASES["90271"], plan=steps(("@5s crash runtime down 10s", "@10s remove p/once")))
    outcome = run_case(given)
    assert outcome.ok, outcome.failure
    notes = [one["text"] for one in outcome.records if one["k"] == "note" and one.get("about") == "fault"]
    assert any("container once cannot be removed" in text for text in notes)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_most_scenarios_pass_with_a_bug_switched_on(name):
    """Slow: all scenarios, for each bug."""
    scenarios = builtin_scenarios()
    bench = Bench(settings=KubeletSettings(bugs=[name]))
    conformance = conform_on(bench, scenarios, Judging(seeds=(1,), search=(), against="expectations"))
    passed = sum(report.expectations is Outcome.PASS for report in conformance.reports)
    assert passed >= len(scenarios) * 3 / 4
