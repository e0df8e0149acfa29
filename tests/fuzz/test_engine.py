# pyright: basic, reportArgumentType=false
"""A number fixes an example; stretches add up; the simplifier leaves only what is needed."""

import pytest

from kubelet_emu.errors import CallerError
from kubelet_emu.fuzz.campaign import Campaign, Found, Tally, broken_by
from kubelet_emu.fuzz.corpus import Corpus
from kubelet_emu.fuzz.coverage import coverage_json, coverage_lines
from kubelet_emu.fuzz.engine import draw_cases, explore
from kubelet_emu.fuzz.hunt import Limits, hunt
from kubelet_emu.fuzz.report import failure_json, failure_lines, pytest_case
from kubelet_emu.fuzz.simpler import simplified
from kubelet_emu.sim import Case, run_case, steps
from kubelet_emu.sim.transitions import declared

CAMPAIGN = Campaign(seed=5, faults="light")


def a_case(**changes):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "initContainers": [{"name": "i", "image": "busybox", "command": ["sh", "-c", "sleep 1; exit 0"]}],
            "containers": [
                {
                    "name": "a",
                    "image": "busybox",
                    "command": ["sh", "-c", "sleep 3; exit 1"],
                    "livenessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 2},
                },
                {"name": "b", "image": "busybox", "command": ["sh", "-c", "sleep 600"]},
            ],
        },
    }
    plan = steps(["@1.5s crash kubelet", "@3s after 2 calls error StartContainer UNKNOWN x2"])
    return Case(**{"documents": (pod,), "plan": plan, "seed": 9, "schedule": "priority:2", **changes})


def test_a_number_fixes_an_example():
    alone = draw_cases(CAMPAIGN, 7, 1)[0]
    assert draw_cases(CAMPAIGN, 5, 4)[2] == alone
    assert draw_cases(CAMPAIGN, 8, 1)[0] != alone
    assert draw_cases(Campaign(seed=6), 7, 1)[0] != alone


def test_bugs_and_gates_do_not_change_what_is_drawn():
    plain = draw_cases(CAMPAIGN, 3, 1)[0]
    other = draw_cases(Campaign(seed=5, gates={"ContainerStopSignals": True}), 3, 1)[0]
    assert (plain.documents, plain.plan, plain.seed) == (other.documents, other.plan, other.seed)
    assert other.gates == {"ContainerStopSignals": True}


def test_stretches_add_up_whoever_runs_them():
    whole = explore(CAMPAIGN, 0, 6).tally
    parts = Tally()
    for first in (0, 2, 4):
        parts.add(explore(CAMPAIGN, first, 2).tally)
    assert parts == whole
    assert whole.examples == 6
    assert hunt(CAMPAIGN, Limits(examples=6)).tally == whole


@pytest.mark.slow
def test_processes_find_what_one_process_finds():
    """Two interpreters are started."""
    assert hunt(CAMPAIGN, Limits(examples=50), jobs=2).tally == hunt(CAMPAIGN, Limits(examples=50)).tally


def test_time_that_is_over_ends_a_stretch():
    assert explore(CAMPAIGN, 0, 5, until=0.0).tally.examples == 0


@pytest.mark.parametrize(("limits", "jobs"), [(Limits(examples=0), 1), (Limits(examples=1), 0)])
def test_limits_make_sense(limits, jobs):
    with pytest.raises(CallerError):
        hunt(CAMPAIGN, limits, jobs=jobs)


def test_the_simplifier_takes_out_everything_that_can_go():
    def fails(case):
        return any("crash kubelet" in step.text for step in case.plan) and any(
            one["name"] == "b" for one in case.pods[0]["spec"]["containers"]
        )

    simple = simplified(a_case(), fails)
    assert [str(step) for step in simple.plan] == ["@1s crash kubelet"]
    assert simple.pods[0]["spec"] == {
        "containers": [{"name": "b", "image": "busybox", "command": ["sh", "-c", "sleep 600"]}]
    }
    assert (simple.seed, simple.schedule, simple.duration_seconds) == (0, "uniform", 20.0)


def test_the_simplifier_leaves_a_case_that_nothing_may_be_taken_from():
    case = a_case()
    assert simplified(case, lambda other: False) == case


def test_a_failure_is_told_and_kept(tmp_path):
    case = a_case()
    outcome = run_case(case)
    assert broken_by(outcome) == {}
    found = Found(invariant="some-invariant", text="it broke", rules=("RST-022",), case=case, example=4)
    corpus = Corpus(tmp_path / "kept")
    assert list(corpus) == []
    path = corpus.keep(found)
    assert corpus.keep(found) == path
    assert [kept.case for kept in corpus] == [case]
    start = next(one["seq"] for one in outcome.records if one.get("m") == "StartContainer")
    lines = failure_lines(found, outcome.records, [start], str(path))
    assert "VIOLATED  some-invariant (RST-022)" in lines
    assert "StartContainer i#0" in next(line for line in lines if "►" in line)
    assert f"  kubelet-emu replay {path}" in lines
    assert failure_json(found, [start], str(path))["records"] == [start]


def test_the_pasted_test_runs_the_case():
    found = Found(invariant="some-invariant", text="it broke", case=a_case(duration_seconds=5.0))
    space = {}
    exec(pytest_case(found), space)
    space["test_some_invariant"]()


def test_a_corpus_of_rubbish_is_told(tmp_path):
    (tmp_path / "x.yaml").write_text("a: [")
    with pytest.raises(CallerError) as raised:
        list(Corpus(tmp_path))
    assert "is no YAML" in str(raised.value.problems[0])


def test_coverage_tells_what_was_never_reached():
    whole = declared()
    taken = dict.fromkeys(whole[1:], 1)
    table, source, target = whole[0]
    lines = coverage_lines(taken)
    assert lines[0].startswith(f"coverage of declared transitions: {len(whole) - 1} of {len(whole)} (")
    assert [line.split(maxsplit=1)[1] for line in lines if "never" in line] == [f"{source} → {target}"]
    assert coverage_json(taken)[table]["never"] == [f"{source} > {target}"]
    assert len(coverage_lines(taken, everything=True)) > len(whole)
