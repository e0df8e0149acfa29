"""Container statuses: STA-1207 to STA-1209 and the table KA-T, as the specification gives them."""

import pytest
from attrs import evolve

from kubelet_emu.api.types import ContainerStateTerminated
from kubelet_emu.gates import Gates
from kubelet_emu.status.container_statuses import ConvertInput, convert_container_statuses

GONE = "The container could not be located when the pod was deleted.  The container used to be Running"


def convert(make, pod, runtime, old=(), *, full=False, kind="regular", reasons=None):
    given = ConvertInput(
        pod=pod,
        runtime=runtime,
        reason_cache=lambda _uid, name: (reasons or {}).get(name),
        gates=Gates(),
        runtime_name="test",
        restarting_all=full,
    )
    containers = pod.spec.init_containers if kind == "init" else pod.spec.containers
    converted = convert_container_statuses(given, containers, old, kind=kind)
    return {status.name: status for status in converted.statuses}


def shape(status):
    """State, exit code or reason, last reason or code, restarts: what the tables show."""
    state, last = status.state, status.last_state.terminated
    if state.running is not None:
        now = "running"
    elif state.terminated is not None:
        now = f"terminated {state.terminated.exit_code}"
    else:
        assert state.waiting is not None
        now = f"waiting {state.waiting.reason or ''}".strip()
    before = f"{last.reason or ''} {last.exit_code}".strip() if last is not None else None
    return now, before, status.restart_count


UNKNOWN = ("waiting ContainerCreating", "ContainerStatusUnknown 137")
REMOVED = ("waiting RestartingAllContainers", "RestartingAllContainers 137")


class TestTableT:
    """Pod with containers A and B, policy Always, no init containers."""

    @pytest.fixture
    def pod(self, make):
        return make.pod("Always")

    def test_ka_t01_running_vanished_while_deleting(self, make):
        pod = make.pod("Always", deleted=True)
        got = convert(make, pod, make.runtime(), [make.running("A"), make.running("B")])
        assert {shape(s) for s in got.values()} == {(*UNKNOWN, 0)}
        assert got["A"].last_state.terminated.message == GONE

    def test_ka_t02_running_vanished_while_live(self, make, pod):
        got = convert(make, pod, make.runtime(), [make.running("A"), make.running("B")])
        assert {shape(s) for s in got.values()} == {(*UNKNOWN, 1)}

    def test_ka_t03_terminated_stays(self, make, pod):
        old = [make.terminated(name, -1, restart_count=5) for name in "AB"]
        got = convert(make, pod, make.runtime(), old)
        assert list(got.values()) == old

    def test_ka_t04_running_after_terminated_counts(self, make, pod):
        old = [make.terminated(name, -1, restart_count=5) for name in "AB"]
        got = convert(make, pod, make.runtime(make.record("A"), make.record("B")), old)
        assert {shape(s) for s in got.values()} == {("running", "-1", 6)}

    def test_ka_t05_trigger_seen(self, make, pod):
        old = [make.running("A"), make.running("B")]
        got = convert(
            make, pod, make.runtime(make.record("A"), make.record("B", "exited", 42)), old, full=True
        )
        assert [shape(got[name]) for name in "AB"] == [("running", None, 0), ("terminated 42", None, 0)]

    def test_ka_t06_one_removed(self, make, pod):
        old = [make.running("A"), make.terminated("B", 42)]
        got = convert(make, pod, make.runtime(make.record("A", "exited", 137)), old, full=True)
        assert shape(got["A"]) == ("terminated 137", None, 0)
        assert shape(got["B"]) == (*REMOVED, 1)

    @pytest.mark.parametrize("a", ["terminated", "running"], ids=["KA-T07", "KA-T08"])
    def test_all_removed(self, make, pod, a):
        old_a = make.terminated("A", 137) if a == "terminated" else make.running("A")
        got = convert(make, pod, make.runtime(), [old_a, make.terminated("B", 42)], full=True)
        assert {shape(s) for s in got.values()} == {(*REMOVED, 1)}
        message = "The container is removed because RestartAllContainers in place"
        assert got["A"].state.waiting.message == message
        assert got["A"].last_state.terminated == make.restarting

    def test_ka_t09_new_instance_keeps_count(self, make, pod):
        old = [make.removed("A", restart_count=1), make.terminated("B", 42)]
        got = convert(make, pod, make.runtime(make.record("A")), old, full=True)
        assert shape(got["A"]) == ("running", "RestartingAllContainers 137", 1)
        assert shape(got["B"]) == (*REMOVED, 1)

    @pytest.mark.parametrize("code", [0, 1], ids=["KA-T10-0", "KA-T10-1"])
    def test_count_never_drops(self, make, pod, code):
        old = [make.running("A", restart_count=1), make.terminated("B", 42)]
        got = convert(make, pod, make.runtime(make.record("A", "exited", code)), old, full=True)
        assert shape(got["A"]) == (f"terminated {code}", None, 1)
        assert shape(got["B"]) == (*REMOVED, 1)

    def test_ka_t11_lost_plain_init_counts_as_done(self, make):
        pod = make.pod("Always", init=["I"])
        got = convert(make, pod, make.runtime(make.record("A")), kind="init")
        assert got["I"].state.terminated == ContainerStateTerminated(
            exit_code=0,
            reason="Completed",
            message="Unable to get init container status from container runtime and pod has been"
            " initialized, treat it as exited normally",
        )

    def test_ka_t12_lost_sidecar_waits(self, make):
        pod = make.pod("Always", init=[make.sidecar("I")])
        got = convert(make, pod, make.runtime(make.record("A")), kind="init")
        assert shape(got["I"]) == ("waiting PodInitializing", None, 0)


class TestReasonCache:
    """STA-1208: policy OnFailure."""

    @pytest.fixture
    def pod(self, make):
        return make.pod("OnFailure", ["A"])

    def test_sta_1208_nothing_known(self, make, pod):
        assert shape(convert(make, pod, make.runtime())["A"]) == ("waiting ContainerCreating", None, 0)
        with_init = make.pod("OnFailure", ["A"], init=["I"])
        assert shape(convert(make, with_init, make.runtime())["A"]) == ("waiting PodInitializing", None, 0)

    def test_sta_1208_old_last_state_kept(self, make, pod):
        got = convert(make, pod, make.runtime(), [make.waiting_last("A", 3)])
        assert shape(got["A"]) == ("waiting ContainerCreating", "3", 0)

    @pytest.mark.parametrize(
        ("records", "reason", "expected"),
        [
            ([("running", 0), ("exited", 1)], None, ("running", "1")),
            ([("exited", 1), ("exited", 3)], None, ("terminated 1", "3")),
            ([("exited", 2), ("exited", 4)], "CrashLoopBackOff", ("waiting CrashLoopBackOff", "2")),
            ([("exited", 0), ("exited", 5)], "CrashLoopBackOff", ("terminated 0", "5")),
        ],
        ids=lambda value: f"STA-1208-{value}" if isinstance(value, list) else None,
    )
    def test_sta_1208_records(self, make, pod, records, reason, expected):
        newest_first = [
            make.record("A", state, code, at=10 - place) for place, (state, code) in enumerate(records)
        ]
        reasons = {"A": (reason, "text")} if reason else None
        got = convert(make, pod, make.runtime(*newest_first), reasons=reasons)
        assert shape(got["A"])[:2] == expected

    def test_sta_1208_unknown_after_running(self, make, pod):
        records = (make.record("A", "unknown", at=2), make.record("A", "running", at=1))
        got = convert(make, pod, make.runtime(*records), [make.running("A")])
        assert got["A"].state.terminated == ContainerStateTerminated(
            exit_code=137,
            reason="ContainerStatusUnknown",
            message="The container could not be located when the pod was terminated",
        )
        # STA-305: the second record's state is the last state whatever it is.
        assert got["A"].last_state.running is not None
        assert got["A"].restart_count == 1

    @pytest.mark.parametrize(
        ("policy", "succeed", "failed"),
        [
            ("Never", ("terminated 0", "2"), ("terminated 1", "3")),
            ("OnFailure", ("terminated 0", "2"), ("waiting X", "1")),
            ("Always", ("waiting X", "0"), ("waiting X", "1")),
        ],
        ids=["STA-1209-Never", "STA-1209-OnFailure", "STA-1209-Always"],
    )
    def test_policies(self, make, policy, succeed, failed):
        pod = make.pod(policy)
        records = self.records(make)
        got = convert(make, pod, records, reasons={"A": ("X", ""), "B": ("X", "")})
        assert (shape(got["A"])[:2], shape(got["B"])[:2]) == (succeed, failed)

    def test_sta_1209_as_init_containers(self, make):
        pod = make.pod("Always", ["C"], init=["A", "B"])
        records = self.records(make)
        got = convert(make, pod, records, reasons={"A": ("X", ""), "B": ("X", "")}, kind="init")
        assert [shape(got[name])[:2] for name in "AB"] == [("terminated 0", "2"), ("waiting X", "1")]

    def records(self, make):
        codes = {"A": (0, 2), "B": (1, 3)}
        return make.runtime(
            *(
                make.record(name, "exited", code, at=10 - place)
                for name, pair in codes.items()
                for place, code in enumerate(pair)
            )
        )


def test_sta_301_order_and_strangers(make):
    pod = make.pod("Always", ["b", "a"], init=["z", "y"])
    runtime = make.runtime(make.record("a"), make.record("stranger"))
    assert list(convert(make, pod, runtime)) == ["a", "b"]
    assert list(convert(make, pod, runtime, kind="init")) == ["z", "y"]


def test_sta_306_created_waits_without_reason(make):
    got = convert(make, make.pod(containers=["A"]), make.runtime(make.record("A", "created")))
    assert shape(got["A"]) == ("waiting", None, 0)
    assert got["A"].container_id == "test://A-1"


def test_sta_307_image_and_ids(make):
    entry = make.record("A", image="docker.io/x:1", image_ref="sha256:ref", image_id="sha256:id")
    got = convert(make, make.pod(containers=["A"]), make.runtime(entry))["A"]
    assert (got.image, got.image_id, got.container_id) == ("docker.io/x:1", "sha256:ref", "test://A-1")


def test_sta_312_deletion_uncovers_the_real_state(make):
    pod = make.pod("Always", ["A"], deleted=True)
    records = make.runtime(make.record("A", "exited", 7))
    got = convert(make, pod, records, [make.waiting_last("A", 7)], reasons={"A": ("CrashLoopBackOff", "")})
    assert shape(got["A"])[0] == "terminated 7"


def test_sta_402_started_is_carried_while_running(make):
    pod = make.pod(containers=["A"])
    old = [make.running("A", started=True)]
    assert convert(make, pod, make.runtime(make.record("A")), old)["A"].started is True
    assert convert(make, pod, make.runtime(make.record("A", "exited", 1)), old)["A"].started is None


class TestRestartAll:
    def test_rst_147_waiting_is_left_alone(self, make):
        pod = make.pod(containers=["A"])
        old = [make.waiting("A", "PostStartHookError", last=make.end(137), restart_count=2)]
        got = convert(make, pod, make.runtime(), old, full=True)
        assert shape(got["A"]) == ("waiting ContainerCreating", "137", 2)
        got = convert(make, pod, make.runtime(), old, full=True, reasons={"A": ("CrashLoopBackOff", "m")})
        assert shape(got["A"]) == ("waiting CrashLoopBackOff", "137", 2)

    def test_rst_148_one_generation_only(self, make):
        pod = make.pod(containers=["A"], init=["I"])
        first = convert(make, pod, make.runtime(), [make.running("A")], full=True)
        second = convert(make, pod, make.runtime(), list(first.values()), full=True)
        assert shape(second["A"]) == ("waiting PodInitializing", "RestartingAllContainers 137", 1)

    def test_rst_149_terminated_keeps_the_rest_of_its_status(self, make):
        pod = make.pod(containers=["A"], init=["I"])
        done = make.terminated("I", 0, container_id="test://x", image="img", ready=True)
        got = convert(make, pod, make.runtime(), [done], full=True, kind="init")["I"]
        assert (got.container_id, got.image, got.ready) == ("test://x", "img", True)
        was_running = evolve(make.running("A"), container_id="test://y", image_id="sha")
        got = convert(make, pod, make.runtime(), [was_running], full=True)["A"]
        assert (got.container_id, got.image_id) == (None, "")

    def test_rst_177_unknown_during_a_restart(self, make):
        pod = make.pod(containers=["A"])
        records = make.runtime(make.record("A", "unknown"))
        got = convert(make, pod, records, [make.running("A", restart_count=2)], full=True)["A"]
        assert got.state.terminated.reason == "RestartingAllContainers"
        assert got.restart_count == 3
