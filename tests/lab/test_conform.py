"""Judging scenarios with a runner that is not a node: recordings and changed recordings stand in for runs."""

import copy
import json
from xml.etree import ElementTree

import pytest

from kubelet_emu.errors import CallerError, PeerError
from kubelet_emu.lab.conform import (
    Conformance,
    Outcome,
    RecordingVerdict,
    ScenarioSkipped,
    conform,
    judge,
    rules_fired,
    select,
)
from kubelet_emu.lab.conform_report import as_json, as_junit, as_table, explain, listing
from kubelet_emu.lab.scenarios import builtin_scenarios, load_recordings
from kubelet_emu.trace import Trace

BY_ID = {scenario.id: scenario for scenario in builtin_scenarios()}
ONE = BY_ID["restart-all-regular-exit"]


def recorded(scenario, seed):
    """A node that does what the real one did: run a with even seeds, run b with odd ones."""
    return load_recordings(scenario.id)[seed % 2]


def changed(edit):
    def run(scenario, seed):
        trace = recorded(scenario, seed)
        records = copy.deepcopy(list(trace.records))
        edit(records)
        return Trace(trace.header, tuple(records))

    return run


def longer_timeout(records):
    next(one for one in records if one.get("m") == "StopContainer")["timeout"] = "30"


def never_ready(records):
    for record in records:
        if record["k"] == "pod":
            record["conditions"].pop("Ready", None)


def test_a_node_that_does_what_was_recorded_is_in_order():
    scenarios = [
        BY_ID[name]
        for name in ("restart-all-regular-exit", "conditions-in-order", "init-serial-then-regular")
    ]
    told = []
    result = conform(scenarios, recorded, done=told.append)
    assert result.ok
    assert [report.recording for report in told] == [RecordingVerdict.MATCH] * 3
    assert [report.run for report in told] == ["a"] * 3


def test_the_seed_that_matched_is_named():
    def run(scenario, seed):
        return recorded(scenario, 1) if seed == 7 else changed(longer_timeout)(scenario, 0)

    report = judge(ONE, run, seeds=(3, 5, 7, 9))
    assert (report.recording, report.seed, report.seeds) == (RecordingVerdict.MATCH, 7, 4)
    assert report.difference is None


def test_every_seed_must_meet_the_expectations_though_one_matched():
    def run(scenario, seed):
        return recorded(scenario, 0) if seed == 0 else changed(never_ready)(scenario, 0)

    report = judge(ONE, run, seeds=(0, 1, 2))
    assert (report.expectations, report.recording, report.seed) == (Outcome.FAIL, RecordingVerdict.MATCH, 1)
    assert not report.ok


def test_a_difference_is_shown_for_the_attempt_that_went_along_longest():
    def run(scenario, seed):
        return changed((never_ready, longer_timeout)[seed])(scenario, 0)

    report = judge(ONE, run, seeds=(0, 1), against="recordings")
    assert report.recording is RecordingVerdict.DIFFER
    assert report.expectations is Outcome.NONE
    assert report.seed == 1
    assert report.difference.message == "timeout: 2 / 30"


def test_the_rules_in_play_are_those_decided_just_before():
    def with_decisions(records):
        longer_timeout(records)
        at = next(one for one in records if one.get("m") == "StopContainer")["t"]
        for t, rule in ((at - 5.0, "RST-001"), (at - 0.2, "RST-121(source)"), (at - 0.1, "RST-131")):
            decision = {"t": t, "k": "decision", "machine": "m", "pod": ONE.id, "rules": [rule]}
            records.append(decision | {"inputs": {}, "outcome": {}})

    report = judge(ONE, changed(with_decisions))
    assert report.rules == ("RST-121(source)", "RST-131")
    assert report.fired == ("RST-001", "RST-121", "RST-131")


def test_a_violated_invariant_fails_the_expectations():
    def falls(records):
        shown = [record for record in records if record["k"] == "pod"][-1]
        shown["containers"]["setup"]["restartCount"] = 0

    report = judge(ONE, changed(falls), against="expectations")
    assert report.expectations is Outcome.FAIL
    assert report.recording is RecordingVerdict.NONE
    assert any("counts-never-fall" in violation for violation in report.violations)


def test_a_run_that_fails_and_one_that_is_left_out():
    def broken(scenario, seed):
        raise PeerError("the runtime does not answer")

    def left_out(scenario, seed):
        raise ScenarioSkipped("needs devices")

    failed = judge(ONE, broken)
    assert (failed.expectations, failed.error) == (Outcome.FAIL, "the runtime does not answer")
    skipped = judge(ONE, left_out)
    assert (skipped.expectations, skipped.ok, skipped.skipped) == (Outcome.SKIPPED, True, "needs devices")


def test_recordings_of_ones_own(tmp_path):
    report = judge(ONE, recorded, recordings=tmp_path)
    assert report.recording is RecordingVerdict.NONE
    assert report.ok


# -- choosing --


def test_scenarios_are_chosen_by_area_id_rule_and_path(tmp_path):
    assert len(select(())) == 72
    assert {scenario.area for scenario in select(["backoff"])} == {"backoff"}
    assert [scenario.id for scenario in select([ONE.id, ONE.id])] == [ONE.id]
    assert [one.id for one in select(["RST-121"], rules={ONE.id: ["RST-121"]})] == [ONE.id]
    text = (
        "id: mine\nrunFor: 1\npod: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {}}\nexpect: []\n"
    )
    (tmp_path / "mine.yaml").write_text(text)
    assert next(scenario.id for scenario in select([str(tmp_path), "restart"])) == "mine"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("crashloop", "did you mean crashloop-delays-double?"),
        ("nothing-like-it", "areas are restart, restart-all"),
        ("RST-999", "no scenario is known to exercise rule RST-999"),
    ],
)
def test_words_that_name_nothing(word, expected):
    with pytest.raises(CallerError) as caught:
        select([word])
    assert expected in str(caught.value)


def test_rules_fired_leave_out_what_they_were_applied_to():
    decision = {
        "t": 0.0,
        "k": "decision",
        "machine": "m",
        "pod": "p",
        "rules": ["RST-1(a)", "RST-1(b)", "RST-2"],
    }
    assert rules_fired(Trace({"k": "header"}, (decision,))) == {"RST-1", "RST-2"}


# -- reports --


@pytest.fixture(scope="module")
def mixed():
    def run(scenario, seed):
        if scenario.area == "device":
            raise ScenarioSkipped("needs devices")
        if scenario.id == "init-serial-then-regular":
            raise PeerError("no < runtime\x00")
        return changed(longer_timeout)(scenario, seed) if scenario is ONE else recorded(scenario, seed)

    names = (ONE.id, "restart-all-init-exit", "init-serial-then-regular", "device-shortage-rejects-pod")
    return conform([BY_ID[name] for name in names], run)


def test_json_has_the_documented_shape(mixed):
    document = json.loads(as_json(mixed))
    assert document["summary"]["ok"] is False
    assert document["summary"]["scenarios"] == 4
    assert document["summary"]["expectations"] == {"pass": 2, "fail": 1, "skipped": 1, "none": 0}
    assert document["summary"]["recordings"] == {"match": 1, "differ": 2, "none": 1}
    assert document["summary"]["areas"]["restart-all"]["scenarios"] == 2
    first = document["scenarios"][0]
    assert list(first) == [
        "id",
        "area",
        "expectations",
        "recording",
        "seed",
        "seeds",
        "run",
        "checks",
        "violations",
        "difference",
    ]
    assert first["recording"] == "differ"
    assert first["difference"]["message"] == "timeout: 2 / 30"
    assert first["checks"][0] == {
        "check": "final phase = Running",
        "verdict": "pass",
        "found": first["checks"][0]["found"],
        "t": first["checks"][0]["t"],
    }
    assert document["scenarios"][2]["error"] == "no < runtime\x00"
    assert document["scenarios"][3]["skipped"] == "needs devices"


def test_the_table_counts_by_area_and_shows_what_is_wrong(mixed):
    lines = as_table(mixed).splitlines()
    assert lines[0].split() == ["AREA", "SCENARIOS", "MET", "NOT", "MET", "SKIPPED", "MATCH", "DIFFER"]
    assert lines[1].split() == ["restart-all", "2", "2", "0", "0", "1", "1"]
    assert lines[4].split() == ["all", "4", "2", "1", "1", "1", "2"]
    text = "\n".join(lines)
    assert "restart-all-regular-exit: expectations met, recording a not matched (seed 0)" in text
    assert "timeout: 2 / 30" in text
    assert "  ≠ " in text
    assert "device-shortage-rejects-pod: skipped: needs devices" in text


def test_junit_is_xml_that_ci_systems_read(mixed):
    root = ElementTree.fromstring(as_junit(mixed))
    assert root.attrib | {"time": ""} == {
        "name": "kubelet-emu conform",
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
        "time": "",
    }
    cases = {case.attrib["name"]: case for case in root.iter("testcase")}
    assert cases["restart-all-init-exit"].find("failure") is None
    assert "timeout: 2 / 30" in cases[ONE.id].find("failure").text
    assert cases["init-serial-then-regular"].find("error").attrib["message"]
    assert cases["device-shortage-rejects-pod"].find("skipped").attrib["message"] == "needs devices"


def test_an_empty_report_is_a_report():
    empty = Conformance(())
    assert empty.ok
    assert as_table(empty).splitlines()[1].split()[:2] == ["all", "0"]
    assert ElementTree.fromstring(as_junit(empty)).attrib["tests"] == "0"


def test_a_scenario_explained_with_and_without_a_run():
    scenario = BY_ID["ephemeral-runs-once"]
    text = explain(scenario)
    assert "What is done:" in text
    assert "5 s  add-ephemeral-container" in text
    assert "  · final phase = Running" in text
    judged = explain(scenario, judge(scenario, recorded))
    assert "  ✓ final phase = Running" in judged
    assert "ephemeral-runs-once: expectations met, recording a matched (seed 0)" in judged


def test_a_listing():
    lines = listing(select(["init"])).splitlines()
    assert len(lines) == 6
    assert all(line.startswith("init  ") for line in lines)
