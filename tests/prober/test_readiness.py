"""``started`` and ``ready``: PRB-34, STA-401 to STA-405."""

import pytest

from kubelet_emu.api.types import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    Probe,
)
from kubelet_emu.gates import Gates
from kubelet_emu.prober.readiness import ProbeInput, fill_started_and_ready
from kubelet_emu.prober.results import Results
from kubelet_emu.seams import ProbeKind, ProbeOutcome

SECOND = 1_000_000_000
START = 1_000_000 * SECOND


def entry(state="running", *, started=None, age=-100, name="c", ready=False):
    states = {
        "running": ContainerState(running=ContainerStateRunning(started_at=START - age * SECOND)),
        "waiting": ContainerState(waiting=ContainerStateWaiting()),
        "done": ContainerState(terminated=ContainerStateTerminated(exit_code=0)),
        "failed": ContainerState(terminated=ContainerStateTerminated(exit_code=1)),
    }
    return ContainerStatus(name=name, state=states[state], started=started, container_id="x://1", ready=ready)


def fill(status, *, workers=(), results=None, gates=None, init=None, probe=None, api_ready=False):
    store = Results(lambda _update: None)
    for kind, outcome in (results or {}).items():
        store.set(kind, "x://1", outcome, "uid")
    given = ProbeInput(
        results=store,
        has_worker=lambda _name, kind: kind in workers,
        kubelet_start_ns=START,
        gates=gates or Gates(),
    )
    container = Container(name="c", restart_policy=init, readiness_probe=probe)
    conditions = (PodCondition(type="Ready", status="True"),) if api_ready else ()
    spec = PodSpec(init_containers=(container,)) if init is not None else PodSpec(containers=(container,))
    pod = Pod(spec=spec, status=PodStatus(conditions=conditions))
    field = "init_container_statuses" if init is not None else "container_statuses"
    filled = fill_started_and_ready(given, pod, PodStatus(**{field: (status,)}))
    got = getattr(filled.status, field)[0]
    return got.started, got.ready, filled.pokes


READINESS, STARTUP = ProbeKind.READINESS, ProbeKind.STARTUP
SUCCESS, FAILURE, UNKNOWN = ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE, ProbeOutcome.UNKNOWN


@pytest.mark.parametrize("init", [None, "Always"], ids=["regular", "sidecar"])
class TestKnownAnswers:
    def test_prb_34_no_probe(self, init):
        assert fill(entry(), init=init) == (True, True, ())

    def test_prb_34_readiness(self, init):
        got = fill(entry(), workers=[READINESS], results={READINESS: SUCCESS}, init=init)
        assert got == (True, True, ())
        got = fill(entry(), workers=[READINESS], results={READINESS: FAILURE}, init=init)
        assert got == (True, False, ("c",))
        assert fill(entry(), workers=[READINESS], init=init) == (True, False, ("c",))

    def test_prb_34_startup(self, init):
        assert fill(entry(), workers=[STARTUP], init=init) == (False, False, ())
        got = fill(entry(), workers=[STARTUP], results={STARTUP: UNKNOWN}, init=init)
        assert got == (False, False, ())
        got = fill(entry(), workers=[STARTUP], results={STARTUP: SUCCESS}, init=init)
        assert got == (True, True, ())

    def test_prb_34_not_running(self, init):
        for state in ("waiting", "done", "failed"):
            assert fill(entry(state), init=init) == (False, False, ())

    def test_sta_401_carried_started(self, init):
        assert fill(entry(started=True), workers=[STARTUP], init=init)[0] is True
        on = Gates({"ChangeContainerStatusOnKubeletRestart": True})
        assert fill(entry(started=True), workers=[STARTUP], gates=on, init=init)[0] is False


def test_sta_404_plain_init():
    assert fill(entry("done"), init="Never") == (False, True, ())
    assert fill(entry("failed"), init="Never") == (False, False, ())
    assert fill(entry(), init="Never") == (True, False, ())


class TestKubeletRestart:
    """STA-405, PRB-11: a container that has run since 11 s before this kubelet."""

    probe = Probe()

    def test_no_result_and_api_ready(self):
        got = fill(entry(age=11), workers=[READINESS], probe=self.probe, api_ready=True)
        assert got == (True, True, ("c",))

    def test_no_result_and_api_not_ready(self):
        assert fill(entry(age=11), workers=[READINESS], probe=self.probe)[1] is False

    def test_a_result_counts(self):
        results = {READINESS: FAILURE}
        got = fill(entry(age=11), workers=[READINESS], results=results, probe=self.probe, api_ready=True)
        assert got[1] is False

    def test_young_container(self):
        assert fill(entry(age=10), workers=[READINESS], probe=self.probe, api_ready=True)[1] is False
        on = Gates({"ChangeContainerStatusOnKubeletRestart": True})
        got = fill(entry(age=11), workers=[READINESS], probe=self.probe, api_ready=True, gates=on)
        assert got[1] is False


def test_prb_29_results_publish_changes_only():
    seen = []
    store = Results(lambda update: seen.append((update.kind, update.container_id, update.outcome)))
    store.set(READINESS, "x://1", FAILURE, "uid")
    store.set(READINESS, "x://1", FAILURE, "uid")
    store.set(READINESS, "x://1", SUCCESS, "uid")
    store.remove(READINESS, "x://1")
    assert store.result(READINESS, "1") is None
    store.set(READINESS, "x://1", SUCCESS, "uid")
    assert store.result(READINESS, "1") is store.result(READINESS, "x://1") is SUCCESS
    assert [outcome for *_, outcome in seen] == [FAILURE, SUCCESS, SUCCESS]
