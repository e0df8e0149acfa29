"""Steps of a probe worker: PRB-41, KA-P01 to KA-P03, and rules 2.2 to 2.4."""

import pytest
from attrs import evolve

from kubelet_emu.api.types import (
    Container,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Probe,
)
from kubelet_emu.gates import Gates
from kubelet_emu.prober.worker import (
    ResultChange,
    WorkerSpec,
    WorkerState,
    after_probe,
    before_probe,
    next_tick_seconds,
    start_delay_seconds,
)
from kubelet_emu.seams import ProbeKind, ProbeOutcome

SECOND = 1_000_000_000
NOW = 1_000_000 * SECOND
KINDS = list(ProbeKind)
SUCCESS, FAILURE, UNKNOWN = ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE, ProbeOutcome.UNKNOWN
INITIAL = {ProbeKind.LIVENESS: SUCCESS, ProbeKind.READINESS: FAILURE, ProbeKind.STARTUP: UNKNOWN}
OFF = Gates({"RestartAllContainersOnContainerExits": False, "ContainerRestartRules": False})


def rule(action, *codes):
    codes = ContainerRestartRuleOnExitCodes(operator="In", values=codes)
    return ContainerRestartRule(action=action, exit_codes=codes)


def a_spec(
    kind=ProbeKind.READINESS, *, policy="Always", own=None, rules=(), deleted=False, others=(), **probe
):
    container = Container(name="main", restart_policy=own, restart_policy_rules=rules)
    pod = Pod(
        metadata=ObjectMeta(name="pod", uid="uid", deletion_timestamp=NOW if deleted else None),
        spec=PodSpec(restart_policy=policy, containers=(container, *others)),
    )
    return WorkerSpec(pod=pod, container=container, kind=kind, probe=Probe(**probe))


def a_status(
    state="running", *, code=0, cid="test://1", name="main", started=True, age=1000, phase="Running"
):
    states = {
        "running": ContainerState(running=ContainerStateRunning(started_at=NOW - age * SECOND)),
        "terminated": ContainerState(terminated=ContainerStateTerminated(exit_code=code)),
        "waiting": ContainerState(waiting=ContainerStateWaiting(reason="X")),
    }
    entry = ContainerStatus(name=name, state=states[state], container_id=cid, started=started)
    return PodStatus(phase=phase, container_statuses=(entry,))


def step(spec, status, state=None, *, start=0, gates=None):
    return before_probe(
        spec,
        state or WorkerState(),
        status,
        now_ns=NOW,
        kubelet_start_ns=start,
        gates=gates or Gates(),
    )


def stored(taken):
    return [change.outcome for change in taken.changes]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"PRB-41-{kind}")
class TestKeeps:
    def test_no_status(self, kind):
        taken = step(a_spec(kind), None)
        assert (taken.keep, taken.probe, taken.changes) == (True, False, ())

    def test_another_container(self, kind):
        taken = step(a_spec(kind), a_status(name="other"))
        assert (taken.keep, taken.probe) == (True, False)

    def test_waiting(self, kind):
        assert step(a_spec(kind), a_status("waiting")).keep
        assert step(a_spec(kind), a_status("waiting", cid=None)).changes == ()

    def test_running(self, kind):
        taken = step(a_spec(kind), a_status(started=kind is not ProbeKind.STARTUP))
        assert (taken.keep, taken.probe) == (True, True)

    def test_pod_failed(self, kind):
        for phase in ("Failed", "Succeeded"):
            taken = step(a_spec(kind), a_status(phase=phase))
            assert (taken.keep, taken.changes) == (False, ())

    def test_pod_deleted(self, kind):
        taken = step(a_spec(kind, deleted=True), a_status(started=True))
        if kind is ProbeKind.READINESS:
            assert taken.keep
        else:
            assert not taken.keep
            assert stored(taken)[-1] is SUCCESS

    def test_waiting_with_an_id_fails(self, kind):
        taken = step(a_spec(kind), a_status("waiting"), WorkerState(container_id="test://1"))
        assert (taken.keep, stored(taken)) == (True, [FAILURE])

    def test_terminated_for_good_fails_and_ends(self, kind):
        taken = step(
            a_spec(kind, policy="Never"), a_status("terminated"), WorkerState(container_id="test://1")
        )
        assert (taken.keep, stored(taken)) == (False, [FAILURE])

    def test_initial_delay(self, kind):
        spec = a_spec(kind, initial_delay_seconds=10)
        taken = step(spec, a_status(age=9, started=kind is not ProbeKind.STARTUP), start=NOW - SECOND)
        assert (taken.keep, taken.probe, stored(taken)) == (True, False, [INITIAL[kind]])
        taken = step(spec, a_status(age=10, started=kind is not ProbeKind.STARTUP))
        assert taken.probe


FULL = rule("RestartAllContainers", 1)
ENDS = [
    ("KA-P01-OnFailure-1", {"own": "OnFailure"}, 1, True),
    ("KA-P01-Always-0", {"own": "Always"}, 0, True),
    ("KA-P01-Always-1", {"own": "Always"}, 1, True),
    ("KA-P01-rule", {"own": "Never", "rules": (rule("Restart", 1),)}, 1, True),
    ("KA-P01-full", {"own": "Never", "rules": (FULL,)}, 1, True),
    ("KA-P02-OnFailure-0", {"own": "OnFailure"}, 0, False),
    ("KA-P02-Never-0", {"own": "Never"}, 0, False),
    ("KA-P02-Never-1", {"own": "Never"}, 1, False),
    ("KA-P02-rule", {"own": "Never", "rules": (rule("Restart", 99),)}, 1, False),
]


@pytest.mark.parametrize(("how", "code", "keep"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS])
def test_worker_of_a_terminated_container(how, code, keep):
    assert step(a_spec(**how), a_status("terminated", code=code)).keep is keep


def test_ka_p03_another_containers_trigger():
    other = Container(name="other", restart_policy="Never", restart_policy_rules=(FULL,))
    spec = a_spec(own="Never", others=(other,))
    status = a_status("terminated")
    assert not step(spec, status).keep
    trigger = a_status("terminated", code=1, name="other", cid="test://2").container_statuses[0]
    status = evolve(status, container_statuses=(*status.container_statuses, trigger))
    assert step(spec, status).keep
    # RST-160: after the reset the container waits, without an id or with its old one.
    for cid in (None, "test://1"):
        waiting = a_status("waiting", cid=cid, phase="Pending")
        assert step(spec, waiting, WorkerState(container_id="test://1")).keep


def test_prb_13_without_rules():
    for policy, keep in (("Never", False), ("OnFailure", True), ("Always", True)):
        assert step(a_spec(policy=policy), a_status("terminated"), gates=OFF).keep is keep
    sidecar = evolve(a_spec(policy="Never", own="Always"), sidecar=True)
    assert step(sidecar, a_status("terminated"), gates=OFF).keep


class TestNewContainer:
    held = WorkerState(container_id="test://0", on_hold=True, last_outcome=FAILURE, run=2)

    def test_prb_09_new_id(self):
        spec = a_spec(ProbeKind.LIVENESS)
        taken = step(spec, a_status(age=5), self.held, start=NOW - SECOND)
        assert taken.changes == (ResultChange("test://0", None), ResultChange("test://1", SUCCESS))
        assert not taken.state.on_hold
        # A run may span two containers.
        assert (taken.state.last_outcome, taken.state.run) == (FAILURE, 2)
        assert taken.probe

    def test_prb_14_hold_lasts_as_long_as_the_container(self):
        spec = a_spec(ProbeKind.LIVENESS)
        taken = step(spec, a_status(), evolve(self.held, container_id="test://1"))
        assert (taken.keep, taken.probe, taken.changes) == (True, False, ())

    def test_prb_10_left_over_container(self):
        assert step(a_spec(), a_status(age=11), start=NOW).changes == ()
        assert stored(step(a_spec(), a_status(age=10), start=NOW)) == [FAILURE]
        on = Gates({"ChangeContainerStatusOnKubeletRestart": True})
        assert stored(step(a_spec(), a_status(age=11), start=NOW, gates=on)) == [FAILURE]

    def test_prb_10_started_sidecar(self):
        spec = evolve(a_spec(ProbeKind.STARTUP), sidecar=True)
        assert stored(step(spec, a_status(age=11), start=NOW)) == [SUCCESS]
        assert stored(step(spec, a_status(age=1), start=NOW)) == [SUCCESS, UNKNOWN]


def test_prb_15_startup_gates_the_others():
    assert step(a_spec(ProbeKind.STARTUP), a_status(started=True)).probe is False
    assert step(a_spec(ProbeKind.STARTUP), a_status(started=False)).probe is True
    for kind in (ProbeKind.LIVENESS, ProbeKind.READINESS):
        assert step(a_spec(kind), a_status(started=False)).probe is False
        assert step(a_spec(kind), a_status(started=None)).probe is False


class Run:
    """A worker that is fed outcomes, and the stored result after each."""

    def __init__(self, spec):
        self.spec = spec
        self.state = WorkerState(container_id="test://1")
        self.stored = INITIAL[spec.kind]

    def feed(self, *outcomes):
        seen = []
        for outcome in outcomes:
            taken = after_probe(self.spec, self.state, outcome)
            assert taken.keep
            self.state = taken.state
            for change in taken.changes:
                self.stored = change.outcome
            seen.append(self.stored)
        return seen


class TestThresholds:
    def test_prb_41_failure_threshold(self):
        run = Run(a_spec(ProbeKind.READINESS, failure_threshold=3))
        assert run.feed(SUCCESS, SUCCESS, SUCCESS) == [SUCCESS] * 3
        assert run.feed(FAILURE, FAILURE, FAILURE) == [SUCCESS, SUCCESS, FAILURE]

    def test_prb_41_success_threshold(self):
        run = Run(a_spec(ProbeKind.READINESS, success_threshold=3, failure_threshold=1))
        assert run.feed(SUCCESS, SUCCESS, SUCCESS) == [FAILURE, FAILURE, SUCCESS]
        assert run.feed(FAILURE) == [FAILURE]
        assert run.feed(SUCCESS, SUCCESS, SUCCESS) == [FAILURE, FAILURE, SUCCESS]

    def test_prb_41_startup(self):
        run = Run(a_spec(ProbeKind.STARTUP, failure_threshold=3))
        assert run.feed(FAILURE, FAILURE, FAILURE) == [UNKNOWN, UNKNOWN, FAILURE]
        assert (run.state.run, run.state.on_hold) == (0, True)
        run = Run(a_spec(ProbeKind.STARTUP))
        assert run.feed(SUCCESS) == [SUCCESS]
        assert run.state.on_hold

    def test_prb_41_liveness_on_hold(self):
        run = Run(a_spec(ProbeKind.LIVENESS, failure_threshold=1))
        assert run.feed(SUCCESS) == [SUCCESS]
        assert not run.state.on_hold
        assert run.feed(FAILURE) == [FAILURE]
        assert run.state.on_hold

    def test_prb_12_row_11_errors_change_nothing(self):
        run = Run(a_spec(ProbeKind.READINESS, failure_threshold=2))
        run.feed(FAILURE)
        before = run.state
        run.feed(None, None)
        assert run.state == before


class TestTimers:
    def test_prb_05_start_delay(self):
        spec = a_spec(period_seconds=10)
        assert start_delay_seconds(spec, kubelet_age_seconds=9.9, draw=0.25) == 2.5
        assert start_delay_seconds(spec, kubelet_age_seconds=10.0, draw=0.25) == 0.0

    @pytest.mark.parametrize(
        ("last", "now", "due"),
        [(0, 0, 2), (0, 1.9, 2), (0, 2, 2), (0, 3.5, 2), (0, 5, 4), (4, 5, 6)],
        ids=lambda value: f"PRB-05-{value}",
    )
    def test_ticks_keep_their_phase(self, last, now, due):
        assert next_tick_seconds(last, now, 2) == due
