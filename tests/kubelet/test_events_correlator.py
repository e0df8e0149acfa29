"""EVT-02: repeats are counted, many similar events are combined, a flood is cut off."""

from kubelet_emu.events_correlator import AGGREGATE_PREFIX, Correlator, EventKey


def key(message="m", reason="R", uid="u", place=""):
    return EventKey(uid, place, "Normal", reason, message)


def observe(correlator, event, at=0.0):
    verdict = correlator.observe(event, now_seconds=at)
    if verdict.action == "create":
        correlator.created(verdict.key, f"name-{event.reason}-{event.message}")
    return verdict


def test_evt_02_a_repeat_raises_the_count():
    correlator = Correlator()
    assert observe(correlator, key()).action == "create"
    again = observe(correlator, key(), at=5.0)
    assert (again.action, again.count, again.name) == ("count", 2, "name-R-m")


def test_evt_02_another_place_is_another_event():
    correlator = Correlator()
    observe(correlator, key())
    assert observe(correlator, key(place="spec.containers{a}")).action == "create"


def test_evt_02_more_than_ten_similar_events_are_combined():
    correlator = Correlator()
    verdicts = [observe(correlator, key(f"m{number}"), at=float(number)) for number in range(13)]
    assert [v.action for v in verdicts] == ["create"] * 11 + ["count", "count"]
    assert verdicts[9].message == "m9"
    assert verdicts[10].message == AGGREGATE_PREFIX + "m10"
    assert verdicts[12].count == 3


def test_evt_02_combining_is_forgotten_after_ten_quiet_minutes():
    correlator = Correlator()
    for number in range(12):
        observe(correlator, key(f"m{number}"))
    assert observe(correlator, key("later"), at=601.0).message == "later"


def test_evt_02_the_spam_filter_lets_a_burst_of_25_through_and_one_more_each_five_minutes():
    correlator = Correlator()
    passed = [observe(correlator, key(), at=0.0).action for _ in range(30)]
    assert passed == ["create"] + ["count"] * 24 + ["drop"] * 5
    assert observe(correlator, key(), at=299.0).action == "drop"
    later = observe(correlator, key(), at=301.0)
    assert (later.action, later.count) == ("count", 32)
    assert observe(correlator, key(uid="other"), at=301.0).action == "create"


def test_the_tables_are_bounded():
    correlator = Correlator()
    for number in range(5000):
        correlator.observe(key(uid=f"u{number}"), now_seconds=0.0)
    assert len(correlator.seen) == len(correlator.buckets) == len(correlator.similar) == 4096
