# pyright: basic, reportArgumentType=false, reportOptionalMemberAccess=false
"""The grammar of faults: what it means, what it refuses and with which words."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_host.faults import CODES, Fault, FaultPlan, FaultSyntaxError, Rule, Term, parse


def kinds(plan, method, count):
    return [fault and fault.kind for fault in (plan.next(method) for _ in range(count))]


def test_terms_are_used_up_one_after_the_other():
    plan = FaultPlan.parse("StartContainer: 2*off -> 1*error(UNAVAILABLE) -> 2*hang")
    assert kinds(plan, "StartContainer", 7) == [None, None, "error", "hang", "hang", None, None]
    assert plan.next("StopContainer") is None


def test_without_a_count_for_ever():
    plan = FaultPlan.parse("*:1*lost->duplicate")
    assert kinds(plan, "Any", 4) == ["lost", "duplicate", "duplicate", "duplicate"]


def test_the_first_rule_with_a_fault_wins_and_all_count():
    plan = FaultPlan.parse("A: 1*off -> 1*hang\n*: 3*delay(1)")
    assert kinds(plan, "A", 4) == ["delay", "hang", "delay", None]
    assert kinds(plan, "B", 1) == [None]


def test_all_actions():
    rules = parse(
        'A: 1*off->1*error(NOT_FOUND)->1*error(NOT_FOUND, "a (b); c -> d, e")->1*delay(0.25)->1*hang'
        "->1*lost->1*lost(INTERNAL, late)->1*duplicate->1*crash->crash(after)"
    )
    assert [term.fault for term in rules[0].terms] == [
        Fault(kind="off"),
        Fault(kind="error", code="NOT_FOUND"),
        Fault(kind="error", code="NOT_FOUND", details="a (b); c -> d, e"),
        Fault(kind="delay", seconds=0.25),
        Fault(kind="hang"),
        Fault(kind="lost"),
        Fault(kind="lost", code="INTERNAL", details="late"),
        Fault(kind="duplicate"),
        Fault(kind="crash"),
        Fault(kind="crash-after"),
    ]
    assert parse(str(rules[0])) == rules


def test_nothing_is_a_plan():
    assert parse("") == parse(" ;\n ; ") == ()
    assert FaultPlan().next("A") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hang", "no ':' after the method; write 'Method: action'"),
        (": hang", "'' is no method name; write a wire name such as StartContainer, or *"),
        ("Start Container: hang", "'Start Container' is no method name"),
        ("A:", "'' is no action; write one of off, error(CODE), delay(SECONDS)"),
        ("A: hang -> hang", "'hang' goes on for ever, so nothing may follow it; give it a count"),
        ("A: 1*hang -> ", "'' is no action"),
        ("A: 1*explode", "'explode' is no action; one of off, error(CODE), delay(SECONDS), hang"),
        ("A: error", "error takes a code and an optional text; write error(UNAVAILABLE)"),
        ("A: error()", "error takes a code and an optional text; write error(UNAVAILABLE)"),
        ("A: error(Unavailable)", "'Unavailable' is no gRPC code; one of CANCELLED, UNKNOWN"),
        ("A: error(OK)", "'OK' is no gRPC code"),
        ("A: delay", "delay takes seconds from 0 to 1000000000; write delay(0.5)"),
        ("A: delay(-1)", "delay takes seconds"),
        ("A: delay(nan)", "delay takes seconds"),
        ("A: delay(1, 2)", "delay takes seconds"),
        ("A: delay(soon)", "delay takes seconds"),
        ("A: delay(0.5..0.1)", "spread delay(0.1..0.5)"),
        ("A: delay(~)", "delay takes seconds"),
        ("A: delay(1+-x)", "delay takes seconds"),
        ("A: 0*hang", "'0' is no count; write a number from 1 to 1000000000"),
        ("A: -1*hang", "'-1' is no count"),
        ("A: x*hang", "'x' is no count"),
        ("A: 1.5*hang", "'1.5' is no count"),
        ("A: 99999999999*hang", "'99999999999' is no count"),
        ("A: hang(x)", "hang takes no argument; write hang"),
        ("A: crash(before)", "crash takes nothing or 'after'; write crash or crash(after)"),
        ("A: lost()", "lost takes a code and an optional text; write lost(UNAVAILABLE)"),
        ("A: error(ABORTED", "is no action"),
        ('A: error(ABORTED, "x)', "a double quote is not closed"),
        ("A: 1*2*hang", "is no action"),
    ],
)
def test_what_is_wrong_is_said(text, words):
    with pytest.raises(FaultSyntaxError) as caught:
        parse(text)
    assert words in str(caught.value)


def test_too_many_rules():
    with pytest.raises(FaultSyntaxError) as caught:
        parse("A: hang;" * 1001)
    assert str(caught.value) == "1001 rules are too many; at most 1000 are allowed"


TEXTS = st.text("abc ->;:(),*", max_size=8).map(str.strip)
CODED = st.builds(
    Fault,
    kind=st.sampled_from(["error", "lost"]),
    code=st.sampled_from(CODES),
    details=TEXTS,
)
PLAIN = st.sampled_from(["off", "hang", "lost", "duplicate", "crash", "crash-after"]).map(
    lambda kind: Fault(kind=kind)
)


def test_delays_are_spread_as_told():
    plan = FaultPlan.parse(
        "A: delay(0.1..0.5); B: delay(~0.2); C: delay(0.2+-0.05)", draw=random.Random(1).random
    )
    assert str(plan) == "A: delay(0.1..0.5); B: delay(~0.2); C: delay(0.2+-0.05)"
    drawn = {name: [plan.next(name).seconds for _ in range(2000)] for name in "ABC"}
    assert all(0.1 <= seconds < 0.5 for seconds in drawn["A"])
    assert len(set(drawn["A"])) > 1900
    for name, mean in (("A", 0.3), ("B", 0.2), ("C", 0.2)):
        assert sum(drawn[name]) / 2000 == pytest.approx(mean, rel=0.1)
    assert min(drawn["B"]) < 0.01
    assert max(drawn["B"]) > 0.8
    assert 0.0 <= min(drawn["C"]) < 0.1


def test_without_chance_a_spread_is_its_middle():
    plan = FaultPlan.parse("A: delay(1..3); B: delay(0.2+-9); C: delay(~1)")
    assert [plan.next(name).seconds for name in "ABC"] == [2.0, 0.2, pytest.approx(0.693, abs=0.001)]
    assert FaultPlan.parse("A: delay(0.1+-9)", draw=lambda: 0.4999).next("A").seconds == 0.0


def test_other_rules_count_from_their_beginning():
    plan = FaultPlan.parse("A: 1*off -> 1*hang")
    assert plan.next("A") is None
    plan.replace(parse("A: 1*off -> 1*lost; B: 1*lost"))
    assert kinds(plan, "A", 3) == [None, "lost", None]
    assert kinds(plan, "B", 2) == ["lost", None]


DELAYS = st.integers(0, 1000).map(lambda eighths: Fault(kind="delay", seconds=eighths / 8))
FAULTS = st.one_of(CODED, PLAIN, DELAYS)
TERMS = st.tuples(
    st.lists(st.builds(Term, FAULTS, st.integers(1, 10**9)), max_size=3),
    st.builds(Term, FAULTS, st.one_of(st.none(), st.integers(1, 10**9))),
).map(lambda both: (*both[0], both[1]))
RULES = st.builds(Rule, st.from_regex(r"\A(\*|[A-Z][a-zA-Z0-9_]{0,5})\Z"), TERMS)


@given(st.lists(RULES, max_size=4))
def test_what_is_printed_parses_to_the_same(rules):
    assert parse(str(FaultPlan(rules))) == tuple(rules)


@given(st.text('A:;->*()", 1errorhang\n', max_size=30))
def test_any_text_parses_or_is_refused(text):
    try:
        rules = parse(text)
    except FaultSyntaxError:
        return
    assert parse(str(FaultPlan(rules))) == rules
