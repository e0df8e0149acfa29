"""Conditions: STA-1211 to STA-1214, KA-Q, and the rules of section 5."""

import pytest
from attrs import evolve

from kubelet_emu.api.types import ContainerState, PodCondition, PodReadinessGate, PodStatus
from kubelet_emu.container.runtime import RuntimeSandbox, SandboxState
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime.restart_rules import should_all_containers_restart
from kubelet_emu.status import conditions

GATES = Gates()


def shown(condition):
    """Status, reason, message; empty texts left out."""
    return tuple(part for part in (condition.status, condition.reason, condition.message) if part)


class TestContainersReady:
    def ready_of(self, pod, statuses, phase="Running"):
        condition, why = conditions.containers_ready(pod, statuses, phase)
        assert why
        assert condition.observed_generation == 1
        return shown(condition)

    def test_sta_1211_no_list(self, make):
        assert self.ready_of(make.pod(), None) == ("False", "UnknownContainerStatuses")

    def test_sta_1211_empty_spec(self, make):
        assert self.ready_of(make.pod(containers=[]), []) == ("True",)

    def test_sta_1211_unknown(self, make):
        answer = ("False", "ContainersNotReady", "containers with unknown status: [1234]")
        assert self.ready_of(make.pod(containers=["1234"]), []) == answer

    def test_sta_1211_both(self, make):
        statuses = [make.running("1234", ready=True), make.running("5678")]
        answer = ("False", "ContainersNotReady", "containers with unready status: [5678]")
        assert self.ready_of(make.pod(containers=["1234", "5678"]), statuses) == answer
        message = "containers with unknown status: [a b], containers with unready status: [5678]"
        pod = make.pod(containers=["a", "b", "5678"])
        assert self.ready_of(pod, statuses)[2] == message

    def test_sta_1211_completed_and_failed(self, make):
        statuses = [make.terminated("1234", 0)]
        pod = make.pod(containers=["1234"])
        assert self.ready_of(pod, statuses, "Succeeded") == ("False", "PodCompleted")
        assert self.ready_of(pod, statuses, "Failed") == ("False", "PodFailed")

    def test_sta_1211_sidecar(self, make):
        pod = make.pod(containers=["c"], init=["plain", make.sidecar("restartable-init-1")])
        statuses = [make.running("c", ready=True)]
        answer = "containers with unknown status: [restartable-init-1]"
        assert self.ready_of(pod, statuses)[2] == answer


class TestReady:
    def ready_of(self, make, gates, given, statuses=(), containers=()):
        pod = make.pod(
            containers=containers, readiness_gates=tuple(PodReadinessGate(condition_type=g) for g in gates)
        )
        built = tuple(PodCondition(type=name, status=status) for name, status in given.items())
        condition, _ = conditions.pod_ready(pod, built, list(statuses), "Running")
        return shown(condition)

    missing = 'corresponding condition of pod readiness gate "gate{}" does not exist.'
    false = 'the status of pod readiness gate "gate{}" is not "True", but False'

    @pytest.mark.parametrize(
        ("gates", "given", "message"),
        [
            (["gate1"], {}, missing.format(1)),
            (["gate1"], {"gate1": "False"}, false.format(1)),
            (["gate1", "gate2"], {"gate1": "True"}, missing.format(2)),
            (["gate1", "gate2"], {"gate1": "True", "gate2": "False"}, false.format(2)),
            (["gate1", "gate2"], {"gate1": "False"}, f"{false.format(1)}, {missing.format(2)}"),
        ],
        ids=[
            "STA-1212-missing",
            "STA-1212-false",
            "STA-1212-second",
            "STA-1212-second-false",
            "STA-1212-two",
        ],
    )
    def test_gates_hold_back(self, make, gates, given, message):
        assert self.ready_of(make, gates, given) == ("False", "ReadinessGatesNotReady", message)

    def test_sta_1212_gates_open(self, make):
        assert self.ready_of(make, ["gate1"], {"gate1": "True"}) == ("True",)
        assert self.ready_of(make, [], {}) == ("True",)

    def test_sta_1212_containers_come_first(self, make):
        answer = ("False", "ContainersNotReady", "containers with unknown status: [c]")
        assert self.ready_of(make, ["gate1"], {"gate1": "True"}, containers=["c"]) == answer


class TestInitialized:
    def init_of(self, pod, statuses, phase="Running", old=None, gates=GATES):
        condition, _ = conditions.initialized(pod, old or PodStatus(), statuses, phase, gates)
        return shown(condition)

    def test_sta_1213_no_init_containers(self, make):
        assert self.init_of(make.pod(), None) == ("True",)

    def test_sta_1213_nothing_known(self, make):
        pod = make.pod(init=["1234"])
        assert self.init_of(pod, [])[:2] == ("False", "ContainersNotInitialized")
        assert self.init_of(make.pod(init=["1234", "5678"]), None) == ("False", "UnknownContainerStatuses")

    def test_sta_1213_plain(self, make):
        pod = make.pod(init=["1234", "5678"])
        done = [make.terminated(name, 0, ready=True) for name in ("1234", "5678")]
        assert self.init_of(pod, done) == ("True",)
        unknown = "containers with unknown status: [5678]"
        assert self.init_of(pod, done[:1]) == ("False", "ContainersNotInitialized", unknown)
        incomplete = "containers with incomplete status: [5678]"
        assert self.init_of(pod, [done[0], make.running("5678")])[2] == incomplete
        assert self.init_of(pod, [make.running("1234")])[2] == (
            "containers with unknown status: [5678], containers with incomplete status: [1234]"
        )

    def test_sta_1213_succeeded(self, make):
        pod = make.pod(init=["1234"])
        assert self.init_of(pod, [make.terminated("1234", 0)], "Succeeded") == ("True", "PodCompleted")

    def test_sta_1213_sidecar(self, make):
        pod = make.pod(containers=["main"], init=[make.sidecar("s")])
        assert self.init_of(pod, [make.running("s", started=False)])[0] == "False"
        assert self.init_of(pod, [make.running("s", started=True)]) == ("True",)
        assert self.init_of(pod, [make.running("s", started=False), make.running("main")]) == ("True",)

    def test_sta_1213_regular_container_proves_it(self, make):
        pod = make.pod(containers=["main"], init=["i"])
        assert self.init_of(pod, [make.waiting("i"), make.terminated("main", 1)]) == ("True",)
        # STA-506: a last state alone proves nothing.
        assert self.init_of(pod, [make.waiting("i"), make.waiting_last("main", 1)])[0] == "False"

    def test_sta_506_latch(self, make):
        pod = make.pod(containers=["main"], init=["i"])
        old = PodStatus(conditions=(PodCondition(type="Initialized", status="True"),))
        assert self.init_of(pod, [make.waiting("i")], old=old) == ("True",)
        gates = Gates({"RestartAllContainersOnContainerExits": False})
        assert self.init_of(pod, [make.waiting("i")], old=old, gates=gates)[0] == "False"


@pytest.mark.parametrize(
    ("sandboxes", "expected"),
    [
        ([], "False"),
        ([(SandboxState.NOT_READY, "10.0.0.1")], "False"),
        ([(SandboxState.READY, "")], "False"),
        ([(SandboxState.READY, "10.0.0.1")], "True"),
    ],
    ids=["STA-1214-none", "STA-1214-notready", "STA-1214-no-ip", "STA-1214-ready"],
)
def test_ready_to_start_containers(make, sandboxes, expected):
    entries = [RuntimeSandbox(id=f"s{n}", state=state, ip=ip) for n, (state, ip) in enumerate(sandboxes)]
    condition, _ = conditions.ready_to_start_containers(make.pod(), make.runtime(sandboxes=entries))
    assert shown(condition) == (expected,)


class TestAllContainersRestarting:
    started = ("True", "RestartAllContainersStarted", "container exited with restart policy rule")

    def condition_of(self, make, records, phase, *, old_true=False):
        trigger = make.container("trigger", "Never", make.rule("RestartAllContainers", 42))
        pod = make.pod("Never", ["container1", trigger])
        conditions_before = (PodCondition(type="AllContainersRestarting", status="True"),) if old_true else ()
        runtime = make.runtime(*records)
        full = should_all_containers_restart(pod, runtime, PodStatus(conditions=conditions_before)).yes
        made = conditions.all_containers_restarting(pod, runtime, phase, restarting_all=full)
        assert made is not None
        assert made[0].observed_generation is None
        return shown(made[0])

    def test_ka_q01_nothing(self, make):
        assert self.condition_of(make, [], "Pending") == ("False",)

    @pytest.mark.parametrize("old_true", [False, True])
    def test_ka_q02_q03_terminal(self, make, old_true):
        records = [make.record("trigger", "exited", 42)]
        assert self.condition_of(make, records, "Failed", old_true=old_true) == ("False", "PodFailed")
        assert self.condition_of(make, records, "Succeeded", old_true=old_true) == ("False", "PodCompleted")

    def test_ka_q04_trigger(self, make):
        assert self.condition_of(make, [make.record("trigger", "exited", 42)], "Running") == self.started

    def test_ka_q05_records_left(self, make):
        records = [make.record("trigger", "exited", 42), make.record("container1", "exited", 137)]
        assert self.condition_of(make, records, "Running", old_true=True) == self.started

    def test_ka_q06_all_gone(self, make):
        assert self.condition_of(make, [], "Pending", old_true=True) == ("False",)

    def test_sta_509_absent_without_rule(self, make):
        pod = make.pod()
        assert (
            conditions.all_containers_restarting(pod, make.runtime(), "Running", restarting_all=False) is None
        )


def test_container_without_any_state_counts_as_not_started(make):
    pod = make.pod(containers=["main"], init=["i"])
    bare = evolve(make.waiting("main"), state=ContainerState())
    condition, _ = conditions.initialized(pod, PodStatus(), [make.waiting("i"), bare], "Pending", GATES)
    assert condition.status == "False"
