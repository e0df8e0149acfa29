"""Back-off: known answers KA-B and the sequence of RST-114 (RST-110 to RST-119, IMG-14)."""

import pytest

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import Container, ObjectMeta, Pod, ResourceRequirements
from kubelet_emu.errors import CallerError
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime import backoff
from kubelet_emu.kuberuntime.backoff import BackOffLimits, BackOffTable

S = 1_000_000_000


def test_ka_b01_a_running_container_is_not_held_back():
    decision = BackOffTable().check_start("k", None, 5 * S)
    assert (decision.in_backoff, decision.entry) == (False, None)


def test_ka_b02_the_first_exit_is_not_held_back():
    table = BackOffTable(BackOffLimits(initial_ns=1 * S))
    decision = table.check_start("k", 100 * S, 100 * S)
    assert not decision.in_backoff
    assert table.entries["k"].delay_ns == 1 * S


def test_ka_b03_an_exit_right_after_a_counted_start_waits_until_exit_plus_delay():
    table = BackOffTable(BackOffLimits(initial_ns=1 * S))
    table.check_start("k", 100 * S, 100 * S)
    decision = table.check_start("k", 101 * S, 101 * S)
    assert decision.in_backoff
    assert decision.until_ns == 102 * S


def pod(**more):
    return Pod(metadata=ObjectMeta(name="p", namespace="n", uid="u", **more))


def box(**more):
    return Container(**({"name": "c", "image": "i"} | more))


def test_ka_b04_other_pod_fields_do_not_matter():
    assert backoff.backoff_key(pod(labels={"a": "b"}), box(command=("x",))) == backoff.backoff_key(
        pod(), box()
    )


KEYS = [
    pytest.param(pod(), box(name="d"), id="KA-B05-container"),
    pytest.param(Pod(metadata=ObjectMeta(name="q", namespace="n", uid="u")), box(), id="KA-B05-pod"),
    pytest.param(Pod(metadata=ObjectMeta(name="p", namespace="m", uid="u")), box(), id="KA-B05-namespace"),
    pytest.param(pod(), box(image="j"), id="KA-B05-image"),
    pytest.param(
        pod(),
        box(resources=ResourceRequirements(requests={"cpu": Quantity.parse("1")})),
        id="KA-B05-resources",
    ),
]


@pytest.mark.parametrize(("other_pod", "other_container"), KEYS)
def test_fields_of_the_key(other_pod, other_container):
    assert backoff.backoff_key(other_pod, other_container) != backoff.backoff_key(pod(), box())


REDUCED = {"ReduceDefaultCrashLoopBackOffDecay": True}
LIMITS = [
    pytest.param(2.0, {}, 2, 2, id="KA-B06"),
    pytest.param(2.0, REDUCED, 2, 1, id="KA-B07"),
    pytest.param(10.0, REDUCED, 10, 1, id="KA-B08-10"),
    pytest.param(300.0, REDUCED, 300, 1, id="KA-B08-300"),
    pytest.param(11.0, {}, 11, 10, id="KA-B09-11"),
    pytest.param(300.0, {}, 300, 10, id="KA-B09-300"),
    pytest.param(300.0, REDUCED | {"KubeletCrashLoopBackOffMax": False}, 60, 1, id="RST-110-reduced-alone"),
]


@pytest.mark.parametrize(("cap", "gates", "cap_seconds", "initial_seconds"), LIMITS)
def test_limits(cap, gates, cap_seconds, initial_seconds):
    limits = backoff.crash_loop_limits(cap, Gates(gates))
    assert (limits.cap_ns, limits.initial_ns) == (cap_seconds * S, initial_seconds * S)


@pytest.mark.parametrize("cap", [pytest.param(v, id=f"KA-B10-{v}") for v in (0.0, 0.999, 300.9, 301.0)])
def test_invalid_caps(cap):
    with pytest.raises(CallerError):
        backoff.crash_loop_limits(cap, Gates())


def test_rst_114_waits_double_up_to_the_cap():
    table = BackOffTable()
    now = 0
    waits = []
    for _ in range(8):
        exited = now
        while table.check_start("k", exited, now).in_backoff:
            now += S
        waits.append((now - exited) // S)
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]


def test_rst_112_an_entry_expires_only_after_more_than_ten_minutes():
    table = BackOffTable()
    table.check_start("k", 0, 0)
    assert table.check_start("k", 600 * S, 600 * S).in_backoff
    assert not table.check_start("k", 601 * S, 601 * S).in_backoff
    assert table.entries["k"].delay_ns == 10 * S


def test_rst_119_collection_drops_old_entries():
    table = BackOffTable()
    table.check_start("old", 0, 0)
    table.check_start("new", 500 * S, 500 * S)
    assert table.collect(601 * S) == ("old",)
    assert list(table.entries) == ["new"]


def test_img_14_a_pull_key_waits_from_its_last_failure():
    table = BackOffTable(backoff.image_pull_limits())
    assert not table.waiting("k", 0)
    table.failed("k", 0)
    assert table.waiting("k", 9 * S)
    assert not table.waiting("k", 10 * S)
    table.failed("k", 10 * S)
    assert table.waiting("k", 29 * S)
    assert not table.waiting("k", 30 * S)


def test_rst_117_texts():
    text = backoff.backoff_status_text(80 * S, pod(), "c")
    assert text == "back-off 1m20s restarting failed container=c pod=p_n(u)"
    assert backoff.backoff_event_text(pod(), "c") == "Back-off restarting failed container c in pod p_n(u)"
