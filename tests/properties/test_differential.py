# pyright: basic
"""Two runs of drawn pods that have to end alike: in place and fresh, with and without a crash, two wires."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubelet_emu.errors import CallerError
from kubelet_emu.sim import Case
from kubelet_emu.sim.properties import (
    crash_agrees,
    differences,
    restart_all_is_like_fresh,
    transports_agree,
    with_restart_all,
)

FEW = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
POLICIES = st.sampled_from(["Always", "OnFailure", "Never"])
PROBES = st.sampled_from([{}, {"startupProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1}}])


def container(name, command, **fields):
    return {"name": name, "image": "busybox:1.36", "command": ["sh", "-c", command], **fields}


@st.composite
def restful(draw):
    """Cases of one pod that comes to rest: what ends has ended for good, the rest runs on."""
    policy = draw(POLICIES)
    once = {"restartPolicy": draw(st.sampled_from(["Never", "OnFailure"]))}
    inits = []
    if draw(st.booleans()):
        inits.append(container("i", f"sleep {draw(st.integers(0, 2))}"))
    if draw(st.booleans()):
        inits.append(container("s", "sleep 600", restartPolicy="Always", **draw(PROBES)))
    regular = [container("a", "sleep 600", **draw(PROBES))]
    if draw(st.booleans()):
        regular.append(container("b", "exit 0", **once))
    spec = {"restartPolicy": policy, "initContainers": inits, "containers": regular}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    return Case(documents=(pod,), seed=draw(st.integers(0, 99)), duration_seconds=30.0)


@FEW
@given(restful())
def test_a_restart_in_place_ends_like_a_fresh_pod(case):
    assert restart_all_is_like_fresh(case, "a", at_seconds=15.0) == []


@FEW
@given(restful(), st.integers(0, 40))
def test_a_crash_of_the_kubelet_ends_like_none(case, quarters):
    assert crash_agrees(case, at_seconds=quarters / 4) == []


@pytest.mark.slow
@settings(FEW, max_examples=3)
@given(restful())
def test_sockets_and_memory_end_alike(case):
    """Slow: real sockets."""
    assert transports_agree(case) == []


def test_one_pod_over_both_wires():
    spec = {"containers": [container("a", "sleep 600")], "initContainers": [container("i", "exit 0")]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    assert transports_agree(Case(documents=(pod,), duration_seconds=10.0)) == []


def test_differences_are_told():
    one, other = {"p": {"phase": "Running", "a restartCount": 1}}, {"p": {"phase": "Failed"}, "q": {}}
    assert differences(one, other, allowed=lambda field: field.endswith("restartCount")) == [
        "p: phase is Running and Failed",
        "q is there in only one of the runs",
    ]


def test_a_bug_shows_as_a_difference():
    spec = {
        "initContainers": [
            container(
                "s",
                "sleep 600",
                restartPolicy="Always",
                startupProbe={"exec": {"command": ["true"]}, "periodSeconds": 1},
            )
        ],
        "containers": [container("a", "sleep 600")],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    case = Case(documents=(pod,), bugs=("counts-reset",))
    found = restart_all_is_like_fresh(case, "a", at_seconds=15.0)
    assert any("restartCount went from 0 to 0" in line for line in found)


def test_a_container_that_is_not_there_is_told():
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}
    with pytest.raises(CallerError, match="no container 'x'"):
        with_restart_all(Case(documents=(pod,)), "x")
