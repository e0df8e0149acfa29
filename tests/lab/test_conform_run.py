"""What a bench offers, how errors of a run are told, and which scenarios can share a node."""

import pytest
from attrs import evolve

from kubelet_emu.errors import CallerError, KubeletEmuError, PeerError
from kubelet_emu.lab.conform import Outcome
from kubelet_emu.lab.conform_run import Bench, Judging, conform_on, not_offered, single_error
from kubelet_emu.lab.node import NodeOptions
from kubelet_emu.lab.scenarios import builtin_scenarios
from kubelet_emu.lab.side_by_side import run_side_by_side, sharing

BY_ID = {scenario.id: scenario for scenario in builtin_scenarios()}
FOREIGN = Bench(transport="grpc", cri_endpoint="/run/other.sock")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("image-update-restarts-one-container", "needs second-image"),
        ("runtime-restart-keeps-containers", "needs restart-runtime"),
        ("restart-all-regular-exit", ""),
        ("ready-survives-kubelet-restart", ""),
    ],
)
def test_what_another_runtime_cannot_offer_is_named(name, reason):
    assert not_offered(BY_ID[name], FOREIGN).startswith(reason)
    assert bool(not_offered(BY_ID[name], FOREIGN)) == bool(reason)
    assert not_offered(BY_ID[name], Bench()) == ""


def test_a_second_image_that_is_there_is_used():
    bench = evolve(FOREIGN, offers=frozenset({"second-image"}))
    assert not_offered(BY_ID["image-update-restarts-one-container"], bench) == ""


def test_what_is_not_offered_is_left_out_without_a_connection():
    conformance = conform_on(FOREIGN, [BY_ID["runtime-restart-keeps-containers"]], Judging())
    assert conformance.ok
    assert conformance.reports[0].expectations is Outcome.SKIPPED


def test_a_runtime_that_is_not_there_is_an_error_of_each_scenario(tmp_path):
    bench = Bench(transport="grpc", cri_endpoint=str(tmp_path / "none.sock"))
    chosen = [BY_ID["restart-all-regular-exit"], BY_ID["init-serial-then-regular"]]
    conformance = conform_on(bench, chosen, Judging(against="expectations"))
    assert [report.expectations for report in conformance.reports] == [Outcome.FAIL] * 2
    assert all("no CRI v1 runtime answers" in report.error for report in conformance.reports)


def test_an_error_of_ours_is_found_in_any_depth_of_groups():
    inner = ExceptionGroup("a", [ValueError("x"), ExceptionGroup("b", [PeerError("the runtime is gone")])])
    with pytest.raises(PeerError, match="the runtime is gone"), single_error():
        raise ExceptionGroup("c", [inner])


def test_a_fault_is_told_with_its_place():
    with pytest.raises(KubeletEmuError) as caught, single_error():
        raise ExceptionGroup("a", [KeyError("x")])
    assert str(caught.value).startswith("a fault of kubelet-emu, please report it: KeyError: 'x'")


def test_an_interrupt_stays_one():
    with pytest.raises(KeyboardInterrupt), single_error():
        raise BaseExceptionGroup("a", [KeyboardInterrupt()])


def test_a_pod_that_the_api_refuses_fails_its_scenario_alone():
    scenario = BY_ID["restart-all-regular-exit"]
    bad = evolve(scenario, pod={**scenario.pod, "spec": {"containers": []}})
    conformance = conform_on(Bench(), [bad], Judging(seeds=(1,), search=()))
    assert conformance.reports[0].expectations is Outcome.FAIL
    assert "spec.containers: Required value" in conformance.reports[0].error


def test_scenarios_that_must_be_alone_are():
    groups = sharing(builtin_scenarios(), at_once=16)
    assert sum(map(len, groups)) == 72
    assert max(map(len, groups)) == 16
    for group in groups:
        if any("alone" in scenario.needs for scenario in group):
            assert len(group) == 1


def test_scenarios_with_one_pod_name_or_other_gates_do_not_share():
    one = BY_ID["init-serial-then-regular"]
    other = evolve(one, id="other")
    gated = evolve(BY_ID["init-restart-rule-in-never-pod"], gates={"ContainerStopSignals": True})
    assert [len(group) for group in sharing([one, other, gated])] == [1, 1, 1]


def test_each_part_of_a_shared_trace_stands_by_itself():
    names = ("restart-all-regular-exit", "admission-too-much-cpu", "init-serial-then-regular")
    parts = run_side_by_side([BY_ID[name] for name in names], NodeOptions(seed=1, transport="memory"))
    for name in names:
        records = parts[name].records
        assert parts[name].pods == (name,)
        created = next(record for record in records if record["k"] == "action")
        assert (created["do"], created["t"]) == ("create", 0.0)
        assert {record["pod"] for record in records if "pod" in record} == {name}
        assert {record["ip"] for record in records if record["k"] == "pod" and record.get("ip")} <= {"ip-1"}


def test_the_rate_makes_time_real():
    assert Bench().virtual
    assert not Bench(rate=10.0).virtual
    assert not FOREIGN.virtual


def test_a_run_in_real_time():
    """Takes a second: twelve seconds of a node, twelve times as fast."""
    bench = Bench(rate=12.0)
    conformance = conform_on(bench, [BY_ID["admission-wrong-os"]], Judging(seeds=(1,), search=()))
    assert conformance.ok
    assert conformance.reports[0].seconds >= 1.0


def test_recordings_that_cannot_be_read_are_the_callers_fault(tmp_path):
    (tmp_path / "admission-wrong-os.a.jsonl").write_text("nonsense\n")
    with pytest.raises(CallerError, match="not JSON"):
        conform_on(Bench(), [BY_ID["admission-wrong-os"]], Judging(recordings=tmp_path))
