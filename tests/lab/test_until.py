"""When a run ends: every form of ``--until``, and what cannot be understood."""

import pytest

from kubelet_emu.errors import CallerError
from kubelet_emu.lab.until import (
    SETTLED,
    UntilCondition,
    UntilDuration,
    UntilPhase,
    has_ended,
    is_visible_change,
    parse_until,
    pods_satisfy,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("settled", SETTLED),
        (" 35s ", UntilDuration(35.0)),
        ("2m30s", UntilDuration(150.0)),
        ("1.5", UntilDuration(1.5)),
        ("Succeeded", UntilPhase("Succeeded")),
        ("Ready", UntilCondition("Ready", "True")),
        ("Ready=false", UntilCondition("Ready", "False")),
        ("condition=AllContainersRestarting=True", UntilCondition("AllContainersRestarting", "True")),
    ],
)
def test_forms(text, found):
    assert parse_until(text) == found


@pytest.mark.parametrize("text", ["", "ready", "succeeded", "35 parsecs", "Ready=maybe", "Re$dy", "5x"])
def test_what_cannot_be_understood_is_told_with_its_place(text):
    with pytest.raises(CallerError) as caught:
        parse_until(text)
    assert caught.value.problems[0].path == "--until"


def pod(phase, **conditions):
    listed = [{"type": key, "status": value} for key, value in conditions.items()]
    return {"status": {"phase": phase, "conditions": listed}}


def test_every_pod_has_to_be_as_asked():
    until = UntilPhase("Running")
    assert pods_satisfy(until, [pod("Running"), pod("Running")])
    assert not pods_satisfy(until, [pod("Running"), pod("Pending")])
    assert not pods_satisfy(until, [])
    assert not pods_satisfy(until, [{}])


def test_conditions():
    until = UntilCondition("Ready", "True")
    assert pods_satisfy(until, [pod("Running", Ready="True")])
    assert not pods_satisfy(until, [pod("Running", Ready="False")])
    assert not pods_satisfy(until, [pod("Running")])
    assert not pods_satisfy(until, [{"status": {"phase": "Running"}}])


def test_times_and_quiet_are_not_judged_by_pods():
    assert not pods_satisfy(SETTLED, [pod("Running")])
    assert not pods_satisfy(UntilDuration(1.0), [pod("Running")])


@pytest.mark.parametrize(
    ("record", "visible"),
    [
        ({"k": "pod"}, True),
        ({"k": "event", "reason": "Started"}, True),
        ({"k": "event", "reason": "Unhealthy"}, False),
        ({"k": "event", "reason": "ProbeWarning"}, False),
        ({"k": "cri", "m": "StartContainer"}, False),
        ({"k": "decision"}, False),
    ],
)
def test_what_a_person_at_the_api_sees(record, visible):
    assert is_visible_change(record) is visible


def test_rst_174_a_terminal_phase_is_never_left():
    assert has_ended(pod("Succeeded"))
    assert has_ended(pod("Failed"))
    assert not has_ended(pod("Running"))
    assert not has_ended({})
