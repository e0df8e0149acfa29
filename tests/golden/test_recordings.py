"""Every scenario against what a real kubelet was recorded doing, in memory."""

import pytest

from kubelet_emu.lab.conform import Outcome, RecordingVerdict, judge
from kubelet_emu.lab.conform_report import report_lines
from kubelet_emu.lab.conform_run import SEEDS, Bench
from kubelet_emu.lab.scenarios import builtin_scenarios, load_recordings

SCENARIOS = builtin_scenarios()
MEMORY = Bench(transport="memory")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.id)
def test_a_scenario_meets_its_expectations_and_matches_a_recording(scenario):
    report = judge(scenario, MEMORY.run, seeds=SEEDS[:1], search=SEEDS[1:])
    told = "\n".join(report_lines(report))
    assert report.expectations is Outcome.PASS, told
    assert report.recording is RecordingVerdict.MATCH, told


def test_each_scenario_has_two_recordings():
    assert len(SCENARIOS) == 72
    assert {scenario.id for scenario in SCENARIOS if len(load_recordings(scenario.id)) != 2} == set()


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.id)
def test_all_twenty_seeds_meet_the_expectations(scenario):
    """Slow: twenty runs of each scenario, which is what conformance is defined by."""
    report = judge(scenario, MEMORY.run, seeds=SEEDS, against="expectations")
    assert report.seeds == len(SEEDS)
    assert report.expectations is Outcome.PASS, "\n".join(report_lines(report))
