# pyright: basic, reportArgumentType=false
"""What is generated is valid, follows the grammar, and is rich enough to reach what matters."""

import json
from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from kubelet_emu.api.check import check_input
from kubelet_emu.api.manifests import load_text
from kubelet_emu.errors import CallerError
from kubelet_emu.fuzz.campaign import Campaign
from kubelet_emu.fuzz.engine import draw_cases
from kubelet_emu.sim import run_case
from kubelet_emu.strategies import FAULT_LEVELS, FOCI, cases, containers, plans, pods

FEW = settings(
    max_examples=40,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)


def problems(manifest):
    return check_input(load_text(json.dumps(manifest))).problems


@pytest.mark.parametrize("focus", FOCI)
def test_every_pod_is_valid(focus):
    @FEW
    @given(pods(focus=focus))
    def check(pod):
        assert problems(pod) == ()

    check()


@pytest.mark.parametrize("kind", ["regular", "init", "sidecar"])
def test_a_container_of_each_kind_is_valid_in_a_pod(kind):
    @FEW
    @given(containers(name="x", kind=kind))
    def check(container):
        plain = {"name": "a", "image": "busybox"}
        regular = [container] if kind == "regular" else [plain]
        spec = {"containers": regular, "volumes": [{"name": "v", "emptyDir": {}}]}
        if kind != "regular":
            spec["initContainers"] = [container]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        assert problems(pod) == ()

    check()


@pytest.mark.parametrize("faults", FAULT_LEVELS)
def test_plans_are_in_order_and_name_what_is_there(faults):
    @FEW
    @given(st.data())
    def check(data):
        pod = data.draw(pods())
        plan = data.draw(plans([pod], faults=faults, devices=True))
        assert [step.at_seconds for step in plan] == sorted(step.at_seconds for step in plan)
        assert all(" q" not in step.text for step in plan)

    check()


def test_nothing_but_users_act_without_faults():
    drawn = draw_cases(Campaign(seed=3, faults="none"), 0, 60)
    kinds = {step.text.split()[0] for case in drawn for step in case.plan if step.trigger is None}
    assert kinds
    assert kinds <= {"delete", "signal", "image", "ephemeral", "resize"}


def test_the_situations_of_known_bugs_are_common():
    """Each of these has to come up often enough that thousands of examples cannot miss its bug."""
    seen = Counter()
    for case in draw_cases(Campaign(seed=1), 0, 400):
        text = [str(step.deed) for step in case.plan]
        specs = [pod["spec"] for pod in case.pods]
        sidecars = [
            one
            for spec in specs
            for one in spec.get("initContainers", ())
            if one.get("restartPolicy") == "Always"
        ]
        inits = [
            one
            for spec in specs
            for one in spec.get("initContainers", ())
            if one.get("restartPolicy") != "Always"
        ]
        restart = any(deed.startswith("crash kubelet") for deed in text)
        seen["kubelet restart beside a probed sidecar"] += restart and any(
            "startupProbe" in s for s in sidecars
        )
        seen["reboot with init containers"] += bool(inits) and any(deed.startswith("reboot") for deed in text)
        seen["error between create and start"] += any(
            deed.startswith("error StartContainer") for deed in text
        )
        seen["kubelet dies after a create"] += any(
            "CreateContainer calls crash kubelet" in step.text for step in case.plan
        )
        seen["devices of init containers and a restart"] += restart and any(
            "resources" in one for one in inits
        )
        seen["liveness under OnFailure"] += any(
            spec.get("restartPolicy") == "OnFailure" and "livenessProbe" in one
            for spec in specs
            for one in spec["containers"]
        )
        seen["restart of all with init containers"] += bool(inits) and "RestartAllContainers" in json.dumps(
            specs
        )
    assert min(seen.values()) >= 2, seen


def test_the_simplest_pod_is_four_lines_of_spec():
    simplest = find(pods(), lambda pod: True)
    assert simplest["spec"] == {
        "containers": [{"name": "a", "image": "busybox:1.36", "command": ["sh", "-c", "sleep 600"]}]
    }


def test_a_case_shrinks_to_what_is_asked_for():
    found = find(
        cases(faults="heavy"),
        lambda case: (
            any(step.text.startswith("crash kubelet") for step in case.plan)
            and any("initContainers" in pod["spec"] for pod in case.pods)
        ),
        settings=settings(max_examples=2_000, database=None, suppress_health_check=list(HealthCheck)),
        random=Random(0),
    )
    assert [str(step) for step in found.plan] == ["@0s crash kubelet"]
    assert len(found.pods) == 1
    assert len(found.pods[0]["spec"]["initContainers"]) == 1
    assert found.schedule == "uniform"


@pytest.mark.parametrize("ask", [lambda: pods(focus="nothing"), lambda: cases(faults="many")])
def test_unknown_names_are_told_with_the_known_ones(ask):
    with pytest.raises(CallerError) as raised:
        ask()
    assert "known: " in raised.value.problems[0].hint


def test_without_faults_no_invariant_breaks():
    for case in draw_cases(Campaign(seed=2, faults="none"), 0, 12):
        outcome = run_case(case)
        assert outcome.ok, outcome.violations
