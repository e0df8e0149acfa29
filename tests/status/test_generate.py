"""One generation of a status: STA-1210, STA-1219 and the order of steps of STA-101."""

import pytest

from kubelet_emu.api.types import HostIP, PodCondition, PodIP, PodStatus
from kubelet_emu.gates import Gates
from kubelet_emu.prober.readiness import ProbeInput, fill_started_and_ready
from kubelet_emu.status.addresses import host_network_ips, sort_pod_ips
from kubelet_emu.status.generate import StatusInput, generate_status


class NoResults:
    def result(self, kind, container_id):
        return None


def fill(pod, status):
    given = ProbeInput(results=NoResults(), has_worker=lambda *_: False, kubelet_start_ns=0, gates=Gates())
    return fill_started_and_ready(given, pod, status).status


def generate(pod, runtime, **more):
    return generate_status(StatusInput(pod=pod, runtime=runtime, gates=Gates(), fill_probes=fill, **more))


def conditions_of(status):
    return {c.type: tuple(p for p in (c.status, c.reason) if p) for c in status.conditions}


DISRUPTED = PodCondition(type="DisruptionTarget", status="True", reason="TerminationByKubelet")


class TestGeneration:
    """STA-1210: pod with A and B, policy Always."""

    def old(self, make, **more):
        return PodStatus(container_statuses=(make.running("A"), make.running("B")), **more)

    def test_sta_1210_containers_lost_with_sandbox_alive(self, make):
        got = generate(
            make.pod(status=PodStatus()), make.runtime(), old=self.old(make, phase="Running")
        ).status
        assert got.phase == "Running"
        assert all(s.last_state.terminated.reason == "ContainerStatusUnknown" for s in got.container_statuses)

    def test_sta_1210_disruption_target_is_kept(self, make):
        old = self.old(make, phase="Running", conditions=(DISRUPTED,))
        pod = make.pod(status=PodStatus(), deleted=True)
        got = generate(pod, make.runtime(), old=old, pod_is_terminal=True).status
        shown = conditions_of(got)
        assert got.phase == "Failed"
        assert shown["Initialized"] == ("True",)
        assert shown["Ready"] == shown["ContainersReady"] == ("False", "PodFailed")
        assert shown["DisruptionTarget"] == ("True", "TerminationByKubelet")

    def test_sta_1210_api_says_succeeded(self, make):
        pod = make.pod(status=PodStatus(phase="Succeeded"))
        got = generate(pod, make.runtime(sandboxes=()), old=self.old(make, phase="Running")).status
        shown = conditions_of(got)
        assert got.phase == "Succeeded"
        assert shown["Initialized"] == ("True", "PodCompleted")
        assert shown["Ready"] == ("False", "PodCompleted")
        assert shown["PodReadyToStartContainers"] == ("False",)

    def test_sta_1210_cached_phase_and_texts_win(self, make):
        old = self.old(make, phase="Succeeded", reason="Test", message="text")
        got = generate(
            make.pod(status=PodStatus(phase="Running")), make.runtime(sandboxes=()), old=old
        ).status
        assert (got.phase, got.reason, got.message) == ("Succeeded", "Test", "text")

    def test_sta_1210_running_may_revert_to_pending(self, make):
        old = PodStatus(phase="Running", container_statuses=(make.waiting("A"), make.waiting("B")))
        got = generate(make.pod(status=PodStatus(phase="Running")), make.runtime(), old=old).status
        assert got.phase == "Pending"

    def test_sta_1210_reason_stays_with_the_phase(self, make):
        old = PodStatus(phase="Pending", reason="Test", message="text")
        pod = make.pod(status=PodStatus(phase="Pending"))
        got = generate(pod, make.runtime(make.record("B")), old=old).status
        assert (got.phase, got.reason) == ("Pending", "Test")
        got = generate(pod, make.runtime(make.record("A"), make.record("B")), old=old).status
        assert (got.phase, got.reason, got.message) == ("Running", None, None)

    def test_pod_1101_deadline_overrides(self, make):
        got = generate(make.pod(), make.runtime(make.record("A"), make.record("B")), deadline_exceeded=True)
        status = got.status
        assert (status.phase, status.reason) == ("Failed", "DeadlineExceeded")
        assert status.message == "Pod was active on the node longer than the specified deadline"
        assert conditions_of(status)["Ready"] == ("False", "PodFailed")

    def test_sta_101_step_7_keeps_the_deadlines_texts(self, make):
        pod = make.pod(status=PodStatus(phase="Succeeded"))
        got = generate(pod, make.runtime(), deadline_exceeded=True).status
        assert (got.phase, got.reason) == ("Succeeded", "DeadlineExceeded")


def test_sta_501_order_of_conditions(make):
    foreign = PodCondition(type="example.com/gate", status="True")
    pod = make.pod(
        containers=[make.container("A", "Never", make.rule("RestartAllContainers", 1))],
        status=PodStatus(conditions=(foreign, PodCondition(type="Ready", status="True"))),
    )
    resize = (PodCondition(type="PodResizeInProgress", status="True"),)
    old = PodStatus(conditions=(DISRUPTED,))
    got = generate(pod, make.runtime(), old=old, resize_conditions=resize).status
    assert [c.type for c in got.conditions] == [
        "example.com/gate",
        "PodResizeInProgress",
        "DisruptionTarget",
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
        "AllContainersRestarting",
    ]
    got = generate(pod, make.runtime(), old=old, resize_conditions=resize, pod_is_terminal=True).status
    assert "PodResizeInProgress" not in conditions_of(got)


class TestWorkedExample:
    """The worked example of RST section 8.6, generation after generation."""

    def test_rst_156_full_restart(self, make):
        source = make.container("b", "Never", make.rule("RestartAllContainers", 42))
        pod = make.pod("Never", ["a", source], init=["i", make.sidecar("s")])
        done, sidecar = make.record("i", "exited", 0), make.record("s")

        before = generate(pod, make.runtime(done, sidecar, make.record("a"), make.record("b")))
        steps = [
            (make.runtime(done, sidecar, make.record("a"), make.record("b", "exited", 42)), "Running", True),
            (make.runtime(), "Running", False),
            (make.runtime(make.record("i", at=9)), "Pending", False),
            (make.runtime(make.record("i", "exited", 0, at=9)), "Running", False),
            (
                make.runtime(
                    make.record("i", "exited", 0, at=9),
                    *(make.record(name, at=9) for name in ("s", "a", "b")),
                ),
                "Running",
                False,
            ),
        ]
        old = before.status
        assert before.status.phase == "Running"
        for runtime, phase, restarting in steps:
            got = generate(pod, runtime, old=old)
            assert (got.status.phase, got.restart_all_containers) == (phase, restarting)
            assert conditions_of(got.status)["Initialized"] == ("True",)
            old = got.status
        entries = (*old.container_statuses, *old.init_container_statuses)
        assert {entry.restart_count for entry in entries} == {1}
        assert {entry.last_state.terminated.reason for entry in entries} == {"RestartingAllContainers"}


@pytest.mark.parametrize(
    ("node", "given", "expected"),
    [
        ((), ("::1:2", "10.0.0.1"), ("10.0.0.1", "::1:2")),
        (("fd01::1",), ("10.0.0.1", "fd02::2"), ("fd02::2", "10.0.0.1")),
        (("fd01::1",), ("10.0.0.1",), ("10.0.0.1",)),
        ((), ("10.0.0.1", "10.0.0.2", "10.0.0.3"), ("10.0.0.1",)),
        ((), ("010.000.000.001",), ("10.0.0.1",)),
        ((), ("10.0.0.1", "nonsense"), ()),
    ],
    ids=[
        "STA-1219-v4-first",
        "STA-1219-v6-first",
        "STA-1219-only",
        "STA-1219-first",
        "STA-1219-zeros",
        "STA-902",
    ],
)
def test_pod_ips(node, given, expected):
    assert sort_pod_ips(given, node) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), ("10.0.0.1", "fd01::1234")),
        (("192.168.0.1",), ("192.168.0.1", "fd01::1234")),
        (("192.168.0.1", "fd01::2345"), ("192.168.0.1", "fd01::2345")),
    ],
    ids=["STA-1219-host-none", "STA-1219-host-one", "STA-1219-host-both"],
)
def test_host_network_ips(given, expected):
    assert host_network_ips(given, ("10.0.0.1", "fd01::1234")) == expected


def test_sta_903_host_addresses(make):
    pod = make.pod(host_network=True)
    got = generate(pod, make.runtime(), host_ips=("192.0.2.1",)).status
    assert (got.host_ip, got.host_ips) == ("192.0.2.1", (HostIP(ip="192.0.2.1"),))
    assert (got.pod_ip, got.pod_ips) == ("192.0.2.1", (PodIP(ip="192.0.2.1"),))
    assert generate(pod, make.runtime()).status.host_ip is None
