"""Merging into the API's status, transitions, termination: STA-1215, STA-1217, STA-1218, STA-602."""

import pytest
from attrs import evolve

from kubelet_emu.api.codec import status_to_json
from kubelet_emu.api.types import ContainerState, PodCondition, PodStatus
from kubelet_emu.apiserver.patch import strategic_merge_patch
from kubelet_emu.gates import Gates
from kubelet_emu.status.merge import merge_status
from kubelet_emu.status.patch import is_empty_patch, status_patch
from kubelet_emu.status.transitions import check_transition, terminate_status

API = PodStatus(
    phase="Running",
    conditions=(
        PodCondition(type="Ready", status="True"),
        PodCondition(type="PodScheduled", status="True"),
    ),
    message="Message",
)


def disruption(reason):
    return PodCondition(type="DisruptionTarget", status="True", reason=reason)


X, Y = disruption("X"), disruption("Y")
FOREIGN = PodCondition(type="example.com/foreign", status="True")


def with_conditions(status, *conditions, **more):
    types = {condition.type for condition in conditions}
    kept = tuple(condition for condition in status.conditions if condition.type not in types)
    return evolve(status, conditions=(*kept, *conditions), **more)


MERGES = {
    "none": (API, API, False, ("Running", None, "True")),
    "failed-and-disrupted": (API, with_conditions(API, Y, phase="Failed"), False, ("Failed", "Y", "False")),
    "held-back": (API, with_conditions(API, Y, phase="Failed"), True, ("Running", None, "True")),
    "api-disruption-kept": (with_conditions(API, X), API, False, ("Running", "X", "True")),
    "replaced": (
        with_conditions(API, X),
        with_conditions(API, Y, phase="Failed"),
        False,
        ("Failed", "Y", "False"),
    ),
    "not-terminal": (with_conditions(API, X), with_conditions(API, Y), False, ("Running", "X", "True")),
    "held-back-keeps-x": (
        with_conditions(API, X),
        with_conditions(API, Y, phase="Failed"),
        True,
        ("Running", "X", "True"),
    ),
}


@pytest.mark.parametrize("name", MERGES, ids=[f"STA-1215-{name}" for name in MERGES])
def test_merge(name):
    api, wanted, could_run, (phase, disrupted, ready) = MERGES[name]
    got = merge_status(api, wanted, could_have_running_containers=could_run, now_ns=1).status
    by_type = {condition.type: condition for condition in got.conditions}
    assert got.phase == phase
    assert (by_type["DisruptionTarget"].reason if "DisruptionTarget" in by_type else None) == disrupted
    assert by_type["Ready"].status == ready
    if phase == "Failed":
        for name in ("Ready", "ContainersReady"):
            assert (by_type[name].status, by_type[name].reason) == ("False", "PodFailed")


def test_sta_1215_ready_false_goes_out():
    wanted = with_conditions(API, PodCondition(type="Ready", status="False"))
    got = merge_status(API, wanted, could_have_running_containers=False, now_ns=1).status
    assert {c.type: c.status for c in got.conditions}["Ready"] == "False"


def test_sta_1215_foreign_condition_is_the_apis():
    wanted = with_conditions(API, evolve(FOREIGN, status="False"))
    got = merge_status(with_conditions(API, FOREIGN), wanted, could_have_running_containers=False, now_ns=1)
    assert FOREIGN in got.status.conditions


def test_sta_1215_eviction_texts():
    wanted = evolve(API, phase="Failed", reason="Evicted", message="was evicted")
    got = merge_status(API, wanted, could_have_running_containers=False, now_ns=1).status
    assert (got.phase, got.reason, got.message) == ("Failed", "Evicted", "was evicted")
    api = evolve(API, reason="Unknown", message="unknown")
    got = merge_status(api, wanted, could_have_running_containers=True, now_ns=1).status
    assert (got.phase, got.reason, got.message) == ("Running", "Unknown", "unknown")


class TestTerminate:
    def shape(self, status):
        end = status.state.terminated
        if end is None:
            return "W" if status.state.waiting is not None else "-"
        return "U" if end.reason == "ContainerStatusUnknown" else f"T{end.exit_code}"

    def entry(self, make, name, text):
        if text == "W":
            return make.waiting(name)
        if text == "R":
            return make.running(name)
        if text[0] == "T":
            return make.terminated(name, int(text[1:]))
        last = make.end(int(text[-1]))
        state = make.waiting(name).state if text[0] == "W" else ContainerState()
        return evolve(make.waiting(name, last=last), state=state)

    ROWS = [
        ("", "WT2", "", "U"),
        ("", "W", "", "U"),
        ("W", "W", "U", "W"),
        ("W W", "W", "U W", "W"),
        ("W W T1 W", "W", "U U T1 W", "W"),
        ("W W T1", "W", "U U T1", "W"),
        ("W W T0", "W", "U U T0", "U"),
        ("W W WT0", "W", "U U U", "U"),
        ("W", "R", "U", "U"),
        ("W", "T0", "U", "T0"),
        ("W", "-T0", "U", "U"),
    ]

    @pytest.mark.parametrize("row", ROWS, ids=[f"STA-1217-{row[0]}-{row[1]}" for row in ROWS])
    def test_default_states(self, make, row):
        init, regular, init_after, regular_after = (part.split() for part in row)
        names = [f"i{n}" for n in range(len(init))]
        status = PodStatus(
            phase="Running",
            init_container_statuses=tuple(map(lambda n, t: self.entry(make, n, t), names, init)),
            container_statuses=(self.entry(make, "m", regular[0]),),
        )
        pod = make.pod("OnFailure", ["m"], init=names, status=status)
        got, why = terminate_status(pod, status)
        assert why
        assert [self.shape(s) for s in got.init_container_statuses] == init_after
        assert [self.shape(s) for s in got.container_statuses] == regular_after
        if regular[0] == "WT2":
            assert got.container_statuses[0].last_state.terminated.exit_code == 2
        for entry in (*got.init_container_statuses, *got.container_statuses):
            if self.shape(entry) == "U":
                end = entry.state.terminated
                assert end.message == "The container could not be located when the pod was terminated"
                assert end.exit_code == 137

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("Pending", "Failed"),
            ("Running", "Failed"),
            ("Unknown", "Failed"),
            ("odd", "Failed"),
            ("Failed", "Failed"),
            ("Succeeded", "Succeeded"),
        ],
        ids=lambda value: f"STA-1218-{value}",
    )
    def test_phase(self, make, before, after):
        assert terminate_status(make.pod(), PodStatus(phase=before))[0].phase == after

    def test_sta_607_static_phase_stays(self, make):
        pod = make.pod(meta={"annotations": {"kubernetes.io/config.source": "file"}})
        assert terminate_status(pod, PodStatus(phase="Running"))[0].phase == "Running"


class TestTransition:
    """STA-602, RST-011 and KA-V06, KA-V07 in the kubelet's own guard."""

    def legal(self, make, pod, code, *, init=False):
        name = "i" if init else "c"
        field = "init_container_statuses" if init else "container_statuses"
        old = PodStatus(**{field: (make.terminated(name, code),)})
        new = PodStatus(**{field: (make.running(name),)})
        verdict = check_transition(pod, old, new, Gates())
        assert verdict.why
        assert verdict.legal is not bool(verdict.problem)
        return verdict.legal

    def test_ka_v06_allowed(self, make):
        assert self.legal(make, make.pod("Always", ["c"]), 0)
        assert self.legal(make, make.pod("OnFailure", ["c"]), 1)
        assert self.legal(make, make.pod("Never", [make.container("c", "Always")]), 0)
        by_rule = make.container("c", "Never", make.rule("Restart", 42))
        assert self.legal(make, make.pod("Never", [by_rule]), 42)
        other = make.container("o", "Never", make.rule("RestartAllContainers", 9))
        assert self.legal(make, make.pod("Never", ["c", other]), 0)
        assert self.legal(make, make.pod("Never", ["c"], init=[make.sidecar("i")]), 1, init=True)

    def test_ka_v07_refused(self, make):
        assert not self.legal(make, make.pod("OnFailure", ["c"]), 0)
        assert not self.legal(make, make.pod("Never", ["c"]), 0)
        by_rule = make.container("c", "Never", make.rule("Restart", 42))
        assert not self.legal(make, make.pod("Never", [by_rule]), 1)
        assert not self.legal(make, make.pod("Never", ["c"], init=["i"]), 0, init=True)


class TestPatch:
    def test_sta_704_round_trip(self, make):
        old = PodStatus(
            phase="Pending",
            reason="Old",
            conditions=(FOREIGN, PodCondition(type="Ready", status="False", reason="R", message="m")),
        )
        new = PodStatus(
            phase="Running",
            pod_ip="10.0.0.1",
            conditions=(
                PodCondition(type="Initialized", status="True"),
                PodCondition(type="Ready", status="True", last_transition_time=10**18),
            ),
            container_statuses=(make.running("a", ready=True),),
        )
        patch = status_patch("u", status_to_json(old), status_to_json(new))
        assert patch["metadata"] == {"uid": "u"}
        body = patch["status"]
        assert body["reason"] is None
        assert {"$patch": "delete", "type": "example.com/foreign"} in body["conditions"]
        order = [entry["type"] for entry in body["$setElementOrder/conditions"]]
        assert order == ["Initialized", "Ready"]
        applied = strategic_merge_patch({"status": status_to_json(old)}, {"status": body})
        assert applied["status"] == status_to_json(new)

    def test_sta_704_nothing_to_say(self):
        status = status_to_json(API)
        assert is_empty_patch(status_patch("u", status, dict(status)))
