"""``docs/fidelity.md`` and the lists behind it say what is so."""

from pathlib import Path

import pytest

from kubelet_emu.lab.fidelity import coverage, evidence_of, fired_text, page, run_all
from kubelet_emu.lab.rules import DATA, RULE, Changes, Remark, changes_by_rule, fired_in, remarks, rule_ids

PAGE = Path(__file__).parents[2] / "docs" / "fidelity.md"
AGAIN = "run: python -m kubelet_emu.lab.fidelity"


@pytest.fixture(scope="module")
def runs():
    """All scenarios, once more than the recordings need: takes seconds."""
    return run_all()


def test_what_fires_is_what_is_listed(runs):
    assert fired_text(runs[1].reports) == (DATA / "fired.json").read_text(encoding="utf-8"), AGAIN


def test_the_page_is_what_would_be_generated_now(runs):
    assert page(runs[0], evidence_of(runs[1].reports)) == PAGE.read_text(encoding="utf-8"), AGAIN


def test_every_rule_is_covered_or_out_of_reach_for_a_reason(runs):
    found = coverage(evidence_of(runs[1].reports))
    assert len(found) == sum(map(len, rule_ids().values())) == 310
    unexplained = [
        rule
        for rule, one in found.items()
        if not one.covered and (rule not in remarks() or remarks()[rule].carried_by)
    ]
    assert unexplained == []


def test_the_lists_name_rules_that_are():
    known = {rule for ids in rule_ids().values() for rule in ids}
    assert all(RULE.match(rule) for rule in known)
    assert set(remarks()) <= known
    assert {other for one in remarks().values() for other in one.carried_by} <= known
    assert len(fired_in()) == 72


def test_a_rule_is_covered_by_what_carries_it():
    from kubelet_emu.lab.fidelity import Evidence

    evidence = Evidence(
        ids={"page": ("A-1", "A-2", "A-3", "A-4", "A-5")},
        fired={"scenario": ("A-1",)},
        changes={"A-2": Changes(3, 1, ("m.f",)), "A-3": Changes(2, 0, ("m.g",))},
        remarks={"A-4": Remark("the same", ("A-1", "A-2")), "A-5": Remark("nobody reaches it")},
    )
    found = coverage(evidence)
    assert [rule for rule, one in found.items() if one.covered] == ["A-1", "A-2", "A-4"]
    assert found["A-1"].by == "fires in scenario"
    assert found["A-2"].by == "tests see 1 of 3 changes of m.f"
    assert found["A-5"].by == "nobody reaches it"


def test_changes_are_counted_by_rule():
    for changes in changes_by_rule().values():
        assert 0 <= changes.seen <= changes.made
