"""Grace periods and stop order: KA-G, POD-1310, POD-1311 (RST-100 to RST-104)."""

import pytest

from kubelet_emu.api.types import Container, ObjectMeta, Pod, PodSpec, Probe
from kubelet_emu.kuberuntime import grace
from kubelet_emu.kuberuntime.grace import KillReason

SHORT, MEDIUM, LONG = 10, 30, 60
UNKNOWN, LIVENESS, STARTUP = KillReason.UNKNOWN, KillReason.LIVENESS_PROBE, KillReason.STARTUP_PROBE


def probe(seconds):
    return None if seconds is None else Probe(termination_grace_period_seconds=seconds)


# pod grace, startup probe's, liveness probe's, reason, expected
ROWS = [
    ("KA-G01", None, None, None, UNKNOWN, 2),
    ("KA-G02", 60, 10, 30, UNKNOWN, 60),
    ("KA-G03", 60, None, 10, LIVENESS, 10),
    ("KA-G04-liveness", 10, None, 60, LIVENESS, 60),
    ("KA-G04-startup", 10, 60, None, STARTUP, 60),
    ("KA-G05-startup", 60, 10, 30, STARTUP, 10),
    ("KA-G05-liveness", 60, 10, 30, LIVENESS, 30),
    ("POD-1310-nothing", None, None, None, LIVENESS, 2),
    ("POD-1310-pod", LONG, None, None, LIVENESS, LONG),
    ("POD-1310-liveness", LONG, None, SHORT, LIVENESS, SHORT),
    ("POD-1310-startup", SHORT, LONG, None, STARTUP, LONG),
    ("POD-1310-other-reason", LONG, None, SHORT, UNKNOWN, LONG),
    ("POD-1310-all-startup", LONG, SHORT, MEDIUM, STARTUP, SHORT),
    ("POD-1310-all-liveness", LONG, SHORT, MEDIUM, LIVENESS, MEDIUM),
    ("POD-1310-all-other", LONG, SHORT, MEDIUM, UNKNOWN, LONG),
]


@pytest.mark.parametrize(
    ("pod_grace", "startup", "liveness", "reason", "expected"),
    [pytest.param(*row[1:], id=row[0]) for row in ROWS],
)
def test_base_grace(pod_grace, startup, liveness, reason, expected):
    pod = Pod(spec=PodSpec(termination_grace_period_seconds=pod_grace))
    container = Container(name="c", startup_probe=probe(startup), liveness_probe=probe(liveness))
    assert grace.base_grace(pod, container, reason).seconds == expected


def test_pod_713_deletion_beats_everything():
    pod = Pod(
        metadata=ObjectMeta(deletion_grace_period_seconds=7),
        spec=PodSpec(termination_grace_period_seconds=60),
    )
    container = Container(name="c", liveness_probe=probe(10))
    assert grace.base_grace(pod, container, LIVENESS).seconds == 7


def test_rst_101_only_whole_seconds_are_subtracted():
    assert grace.remaining_grace(30, 29.9) == 1


SIDECARS = Pod(
    spec=PodSpec(
        init_containers=(
            Container(name="plain"),
            Container(name="sc1", restart_policy="Always"),
            Container(name="sc2", restart_policy="Always"),
            Container(name="sc3", restart_policy="Always"),
        ),
        containers=(Container(name="main"),),
    )
)


def test_rst_104_a_sidecar_waits_for_the_mains_and_the_next_sidecar():
    waits = grace.termination_prerequisites(SIDECARS, {"main", "sc1", "sc2", "sc3"})
    assert waits == {"sc1": ("main", "sc2"), "sc2": ("main", "sc3"), "sc3": ("main",)}


def test_pod_717_what_does_not_run_counts_as_ended():
    assert grace.termination_prerequisites(SIDECARS, {"sc1", "sc3"}) == {"sc1": (), "sc3": ()}


def test_rst_104_no_order_without_sidecars():
    pod = Pod(spec=PodSpec(containers=(Container(name="a"), Container(name="b"))))
    assert grace.termination_prerequisites(pod, {"a", "b"}) == {}
