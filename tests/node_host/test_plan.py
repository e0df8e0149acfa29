# pyright: basic
"""The lines of a plan: what they mean, their one normal form, and what is refused with which words."""

import pytest

from node_host.faults import Fault, FaultSyntaxError, Rule, Term
from node_host.plan import (
    ApiFault,
    ClockJump,
    Crash,
    DeviceHealth,
    PlegFault,
    Reboot,
    RegistryDown,
    SlowProcesses,
    Trigger,
    UserAction,
    WireFault,
    parse_deed,
    parse_line,
    seconds_text,
)


def wire(method, fault, count=1):
    return WireFault(rule=Rule(method, (Term(fault, count),)))


KNOWN = {
    "error StartContainer UNAVAILABLE x2": wire("StartContainer", Fault(kind="error", code="UNAVAILABLE"), 2),
    'error * UNKNOWN "gone away"': wire("*", Fault(kind="error", code="UNKNOWN", details="gone away")),
    "delay ListContainers 3s": wire("ListContainers", Fault(kind="delay", seconds=3.0)),
    "hang Allocate 5s": wire("Allocate", Fault(kind="hang", seconds=5.0)),
    "lose-reply CreateContainer 30s": wire("CreateContainer", Fault(kind="lost", seconds=30.0)),
    "lose-reply CreateContainer UNKNOWN": wire("CreateContainer", Fault(kind="lost", code="UNKNOWN")),
    "duplicate StartContainer": wire("StartContainer", Fault(kind="duplicate")),
    "crash kubelet": Crash(peer="kubelet", down_seconds=0.0),
    "crash kubelet down 5s": Crash(peer="kubelet", down_seconds=5.0),
    "crash runtime": Crash(peer="runtime", down_seconds=1.0),
    "crash runtime lose-state": Crash(peer="runtime", down_seconds=1.0, lose_state=True),
    "crash runtime lose-processes": Crash(peer="runtime", down_seconds=1.0, lose_processes=True),
    "restart plugin nvidia.com/gpu": Crash(
        peer="plugin", resource="nvidia.com/gpu", down_seconds=1.0, graceful=True
    ),
    "reboot node lose-state down 3s": Reboot(down_seconds=3.0, lose_state=True),
    "late-pleg 4s x2": PlegFault(count=2, late_seconds=4.0),
    "miss-pleg": PlegFault(),
    "api away 20s": ApiFault(kind="away", seconds=20.0),
    "api stale 0.25s": ApiFault(kind="stale", seconds=0.25),
    "api conflict x3": ApiFault(kind="conflict", count=3),
    "registry down 30s": RegistryDown(seconds=30.0),
    "clock -30s": ClockJump(seconds=-30.0),
    "slow processes x4 20s": SlowProcesses(factor=4.0, seconds=20.0),
    "device nvidia.com/gpu#1 unhealthy": DeviceHealth(device="nvidia.com/gpu#1", health="unhealthy"),
    "delete pod a grace 5": UserAction(do="delete", pod="a", grace_seconds=5),
    "image a/main busybox:2": UserAction(do="image", pod="a", container="main", value="busybox:2"),
    "ephemeral a dbg": UserAction(do="ephemeral", pod="a", container="dbg"),
    "resize a/main cpu=1 memory=5Mi": UserAction(
        do="resize", pod="a", container="main", resources={"cpu": "1", "memory": "5Mi"}
    ),
    "remove a/main": UserAction(do="remove", pod="a", container="main"),
    "signal a/main 9": UserAction(do="signal", pod="a", container="main", value="9"),
    "oom a/main": UserAction(do="oom", pod="a", container="main"),
    "stop-sandbox a": UserAction(do="stop-sandbox", pod="a"),
}


@pytest.mark.parametrize(("text", "deed"), KNOWN.items())
def test_each_deed_is_read_and_written_back(text, deed):
    assert parse_deed(text) == deed
    assert str(deed) == text


def test_a_line_has_a_time_and_may_have_a_trigger():
    crash = KNOWN["crash kubelet"]
    assert parse_line("@1m30s crash kubelet") == (90.0, None, crash)
    trigger = Trigger(count=3, unit="calls", method="CreateContainer")
    assert parse_line("@0.5 after 3 CreateContainer calls crash kubelet") == (0.5, trigger, crash)
    assert parse_line("@0s after 7 records crash kubelet")[1] == Trigger(count=7, unit="records")
    assert str(trigger) == "after 3 CreateContainer calls"


def test_a_step_may_hold_a_rule_of_the_wires():
    deed = parse_deed("StartContainer: 2*off->1*crash(after)")
    assert isinstance(deed, WireFault)
    assert str(deed) == "StartContainer: 2*off -> 1*crash(after)"
    assert parse_deed("StartContainer: 2*error(UNAVAILABLE)") == KNOWN["error StartContainer UNAVAILABLE x2"]


def test_other_ways_to_write_the_same():
    assert parse_deed("crash runtime keep-state") == KNOWN["crash runtime"]
    assert parse_deed("lose-reply CreateContainer") == KNOWN["lose-reply CreateContainer 30s"]
    assert seconds_text(0.0) == "0s"
    assert seconds_text(90.0) == "90s"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("crash kubelet", "does not say when; write such as '@5s crash kubelet'"),
        ("@soon crash kubelet", "'soon' is no duration; write such as 4s, 1m30s, 250ms"),
        ("@1s", "nothing happens in ''"),
        ("@1s explode", "'explode' is nothing that can happen; one of error, delay"),
        ("@1s crash node", "'node' is no peer; one of kubelet, runtime, plugin"),
        ("@1s crash plugin", "resource is missing"),
        ("@1s error StartContainer GONE", "'GONE' is no gRPC code; one of CANCELLED"),
        ("@1s crash kubelet now", "'now' is more than fits here"),
        ("@1s after x calls crash kubelet", "'x' is no count; write such as 'after 3 calls'"),
        ("@1s after 3 crash kubelet", "write 'after N calls', 'after N METHOD calls' or 'after N records'"),
        ("@1s slow processes 4 20s", "'4' is no factor; write such as x4"),
        ("@1s clock 30s", "'30s' is no jump; write such as +30s or -30s"),
        ("@1s image main busybox", "'main' is no container; write POD/CONTAINER"),
        ("@1s resize a/m disk=1", "'disk=1' is no amount; write such as cpu=500m"),
        ("@1s A: hang; B: hang", "a step has one rule"),
        ("@100000s crash kubelet", "too long"),
    ],
)
def test_what_is_wrong_is_said(text, words):
    with pytest.raises(FaultSyntaxError) as caught:
        parse_line(text)
    assert words in str(caught.value)
