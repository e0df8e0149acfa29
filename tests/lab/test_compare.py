"""The comparison, judged itself: the real node's two runs, and recordings with one thing changed."""

import copy

import pytest

from kubelet_emu.lab.compare import compare
from kubelet_emu.lab.scenarios import builtin_scenarios, load_recordings
from kubelet_emu.trace import Trace

SCENARIOS = builtin_scenarios()
MUTATED = (
    "restart-all-regular-exit",
    "crashloop-delays-double",
    "liveness-failure-restarts",
    "sidecars-stop-in-reverse-order",
    "delete-kill-after-grace",
    "init-failure-retries-in-always-pod",
    "poststart-failure-kills-and-retries",
    "image-pull-failure-is-local",
)
PLACES_MAX = 12


@pytest.fixture(scope="module")
def pairs():
    return {
        scenario.id: (runs, compare(*runs))
        for scenario in SCENARIOS
        for runs in [load_recordings(scenario.id)]
    }


def differing(pairs, aspect):
    return sorted(name for name, (_, result) in pairs.items() if not result.equal(aspect))


def test_a_run_matches_itself(pairs):
    for (first, second), _ in pairs.values():
        assert compare(first, first).matches
        assert compare(second, second).matches


def test_two_runs_of_the_real_node_differ_as_real_nodes_do(pairs):
    assert sum(result.matches for _, result in pairs.values()) == 61
    assert differing(pairs, "status") == [
        "image-pull-failure-is-local",
        "sidecar-startup-probe-gates-next",
        "startup-probe-holds-back-liveness",
    ]
    assert differing(pairs, "calls") == [
        "delete-kill-after-grace",
        "delete-while-initialising",
        "image-pull-failure-is-local",
        "prestop-before-stop-signal",
        "readiness-during-termination",
        "restart-all-after-whole-pod-kill",
        "restart-all-liveness-kill-code",
        "sidecar-error-exit-does-not-fail-pod",
    ]
    assert differing(pairs, "events") == ["image-pull-failure-is-local"]
    assert differing(pairs, "gaps") == ["sidecar-readiness-counts"]
    assert differing(pairs, "devices") == []


# -- mutations --


def every(kind, *, where=lambda record: True):
    """Places to mutate: records of a kind that satisfy ``where``, well before the end of the run."""

    def places(records):
        end = records[-1]["t"]
        return [
            index
            for index, record in enumerate(records)
            if record["k"] == kind and record["t"] < end - 4 and where(record)
        ]

    return places


def container_with(key):
    return lambda record: any(key in shown for shown in record["containers"].values())


def change(key, value):
    def mutate(records, index):
        records[index][key] = value(records[index].get(key)) if callable(value) else value

    return mutate


def change_container(key, value):
    def mutate(records, index):
        shown = next(one for one in records[index]["containers"].values() if key in one)
        shown[key] = value(shown[key])

    return mutate


def change_last(key, value):
    def mutate(records, index):
        shown = next(one for one in records[index]["containers"].values() if "last" in one)
        shown["last"][key] = value

    return mutate


def change_condition(position, value):
    def mutate(records, index):
        conditions = records[index]["conditions"]
        name = next(name for name, parts in conditions.items() if len(parts) > position)
        conditions[name][position] = value

    return mutate


def has_condition(position):
    return lambda record: any(len(parts) > position for parts in record["conditions"].values())


def drop(records, index):
    del records[index]


def repeat(records, index):
    records.insert(index + 1, copy.deepcopy(records[index]) | {"t": records[index]["t"] + 0.1})


def flicker(records, index):
    """The snapshot before this one comes back for a moment."""
    earlier = [record for record in records[:index] if record["k"] == "pod"]
    records.insert(index + 1, copy.deepcopy(earlier[-1]) | {"t": records[index]["t"] + 0.001})
    records.insert(index + 2, copy.deepcopy(records[index]) | {"t": records[index]["t"] + 0.002})


def swap_with_next(same):
    def mutate(records, index):
        other = next(
            later
            for later in range(index + 1, len(records))
            if records[later]["k"] == records[index]["k"] and same(records[index], records[later])
        )
        first, second = records[index], records[other]
        for key in ("t", "dt"):
            if key in first:
                first[key], second[key] = second[key], first[key]
        records[index], records[other] = second, first

    return mutate


def delay_the_rest(records, index):
    for record in records[index:]:
        record["t"] = round(record["t"] + 2.0, 3)


def delay_alone(records, index):
    records[index]["t"] = round(records[index]["t"] + 2.0, 3)


def work(record):
    return record["m"] in ("RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "PullImage")


def not_a_repeat(record):
    return work(record) and not record.get("code")


def settled(record):
    """No container waits for a retry, whose time is jittered."""
    starting = (None, "ContainerCreating", "PodInitializing", "RestartingAllContainers")
    return all(
        shown["state"] != "waiting" or shown.get("reason") in starting
        for shown in record["containers"].values()
    )


def later_snapshot(record):
    return record["t"] > 1 and bool(record["containers"])


def stop_with_timeout(record):
    return record["m"] == "StopContainer"


def in_one_sequence(first, second):
    if second["m"] == "RemoveContainer":
        return first["m"] == "StopContainer" and first["container"] == second["container"]
    return work(second) and second["m"] != first["m"]


def calm(places):
    """Only in runs in which nothing is ever retried."""

    def found(records):
        retried = not all(settled(record) for record in records if record["k"] == "pod")
        return [] if retried else places(records)

    return found


def drop_three(records, index):
    same = [
        later
        for later in range(index, len(records))
        if all(records[later].get(key) == records[index].get(key) for key in ("k", "m", "container", "cmd"))
    ]
    for later in reversed(same[:3]):
        del records[later]


MUTATIONS = {
    "snapshot dropped": (every("pod", where=later_snapshot), drop),
    "snapshot flickers": (every("pod", where=later_snapshot), flicker),
    "snapshots swapped": (every("pod", where=later_snapshot), swap_with_next(lambda a, b: True)),
    "phase": (every("pod", where=later_snapshot), change("phase", "Unknown")),
    "reason of the pod": (every("pod", where=later_snapshot), change("reason", "Evicted")),
    "quality of service": (every("pod", where=later_snapshot), change("qosClass", "Guaranteed")),
    "address": (every("pod", where=later_snapshot), change("ip", "ip-9")),
    "deletion": (every("pod", where=later_snapshot), change("deleting", 77)),
    "observed generation": (every("pod", where=later_snapshot), change("observedGeneration", 7)),
    "status of a condition": (every("pod", where=has_condition(0)), change_condition(0, "Unknown")),
    "reason of a condition": (every("pod", where=has_condition(1)), change_condition(1, "Other")),
    "message of a condition": (every("pod", where=has_condition(2)), change_condition(2, "other")),
    "state of a container": (
        every("pod", where=later_snapshot),
        change_container("state", lambda old: "running" if old == "waiting" else "waiting"),
    ),
    "reason of a container": (
        every("pod", where=container_with("reason")),
        change_container("reason", lambda old: old + "X"),
    ),
    "message of a container": (
        every("pod", where=container_with("message")),
        change_container("message", lambda old: old + "."),
    ),
    "exit code": (
        every("pod", where=container_with("exitCode")),
        change_container("exitCode", lambda old: old + 1),
    ),
    "restart count": (
        every("pod", where=container_with("restartCount")),
        change_container("restartCount", lambda old: old + 1),
    ),
    "ready": (every("pod", where=container_with("ready")), change_container("ready", lambda old: not old)),
    "started": (
        every("pod", where=container_with("started")),
        change_container("started", lambda old: not old),
    ),
    "container id": (every("pod", where=container_with("id")), change_container("id", lambda old: old + "9")),
    "reason of the last state": (every("pod", where=container_with("last")), change_last("reason", "Error2")),
    "exit code of the last state": (every("pod", where=container_with("last")), change_last("exitCode", 99)),
    "call dropped": (every("cri", where=work), drop),
    "call repeated": (every("cri", where=not_a_repeat), repeat),
    "calls swapped": (every("cri", where=not_a_repeat), swap_with_next(in_one_sequence)),
    "stop timeout": (every("cri", where=stop_with_timeout), change("timeout", "31")),
    "attempt": (every("cri", where=lambda r: "attempt" in r), change("attempt", lambda old: old + 1)),
    "log path": (every("cri", where=lambda r: "log_path" in r), change("log_path", "other/0.log")),
    "command of an exec": (every("cri", where=lambda r: "cmd" in r), change("cmd", ["true"])),
    "container of a call": (every("cri", where=lambda r: "container" in r), change("container", "other#0")),
    "failure of a call": (every("cri", where=not_a_repeat), change("code", "INTERNAL")),
    "three probes dropped": (every("cri", where=lambda r: r["m"] == "ExecSync"), drop_three),
    "event dropped": (every("event"), drop),
    "event repeated": (every("event"), repeat),
    "events of one object swapped": (
        every("event"),
        swap_with_next(lambda a, b: a["on"] == b["on"] and a["message"] != b["message"]),
    ),
    "count of an event": (every("event"), change("count", lambda old: old + 1)),
    "text of an event": (every("event"), change("message", lambda old: old + "!")),
    "reason of an event": (every("event"), change("reason", "Other")),
    "type of an event": (every("event"), change("type", "Odd")),
    "object of an event": (every("event"), change("on", "spec.containers{other}")),
    "one snapshot two seconds late": (calm(every("pod", where=later_snapshot)), delay_alone),
    "one event two seconds late": (every("event", where=lambda r: r["reason"] == "Killing"), delay_alone),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_recording_with_one_thing_changed_differs(name):
    places, mutate = MUTATIONS[name]
    tried = 0
    for scenario in MUTATED:
        recording = load_recordings(scenario)[0]
        for index in places(list(recording.records))[:PLACES_MAX]:
            records = copy.deepcopy(list(recording.records))
            try:
                mutate(records, index)
            except StopIteration:  # no neighbour to swap with
                continue
            tried += 1
            result = compare(recording, Trace(recording.header, tuple(records)))
            assert not result.matches, (scenario, recording.records[index])
    assert tried >= 3


@pytest.mark.parametrize("scenario", [one.id for one in SCENARIOS if one.area in ("restart-all", "sidecar")])
def test_two_seconds_more_before_a_call_differ(scenario):
    recording = load_recordings(scenario)[0]
    for index, record in enumerate(recording.records):
        if record["k"] != "cri" or (record["m"] != "RemoveContainer" and record["m"] != "StopContainer"):
            continue
        if record.get("code") or record["t"] > recording.records[-1]["t"] - 6:
            continue
        records = copy.deepcopy(list(recording.records))
        delay_the_rest(records, index)
        assert not compare(recording, Trace(recording.header, tuple(records))).matches


# -- what is left open on purpose --


def one_call(t, method, *, dt=0.001, **fields):
    return {"t": t, "k": "cri", "m": method, "dt": dt, **fields}


def waiting(t, reason):
    shown = {"kind": "regular", "state": "waiting", "reason": reason, "restartCount": 0, "ready": False}
    return {
        "t": t,
        "k": "pod",
        "pod": "p",
        "phase": "Running",
        "conditions": {},
        "containers": {"main": shown},
    }


def run(*records, end=60.0):
    header = {"k": "header", "format": 1, "pods": ["p"]}
    return Trace(header, (*records, {"t": end, "k": "action", "do": "end"}))


def test_a_retry_may_come_between_its_delay_and_one_and_a_half_times_it():
    def retried(t, reason="CrashLoopBackOff"):
        start = one_call(t, "StartContainer", container="main#1")
        return run(one_call(1.0, "StartContainer", container="main#0"), waiting(1.5, reason), start)

    assert compare(retried(11.0), retried(16.0)).matches
    assert compare(retried(16.0), retried(11.0)).matches
    assert not compare(retried(11.0), retried(18.0)).matches
    assert not compare(retried(11.0, "ContainerCreating"), retried(13.0, "ContainerCreating")).matches


def test_stops_side_by_side_have_no_order_and_stops_one_after_the_other_have():
    def stops(first, second, *, dt):
        stop = [
            one_call(t, "StopContainer", container=f"{name}#0", timeout="2", dt=dt)
            for t, name in ((1.0, first), (1.05, second))
        ]
        return run(*stop)

    assert compare(stops("a", "b", dt=1.0), stops("b", "a", dt=1.0)).matches
    assert not compare(stops("a", "b", dt=0.01), stops("b", "a", dt=0.01)).matches


def test_removal_of_what_was_replaced_has_no_place_among_the_work():
    made = [
        one_call(1.0, "CreateContainer", container="a#0"),
        one_call(2.0, "CreateContainer", container="a#1"),
    ]
    first = run(*made, one_call(2.1, "RemoveContainer", container="a#0"), one_call(2.2, "StartContainer"))
    second = run(*made, one_call(2.1, "StartContainer"), one_call(2.2, "RemoveContainer", container="a#0"))
    assert compare(first, second).matches
    assert not compare(first, run(*made, one_call(2.1, "StartContainer"))).matches


def test_what_happens_just_before_the_end_may_be_missing():
    def probes(*times):
        return run(
            *(one_call(t, "ExecSync", container="a#0", cmd=["true"], timeout="1") for t in times), end=10.0
        )

    assert compare(probes(1.0, 9.0), probes(1.0)).matches
    assert not compare(probes(1.0, 8.0), probes(1.0)).matches


def test_the_order_of_devices_is_free():
    def allocated(*ids):
        return run({"t": 1.0, "k": "device", "method": "Allocate", "resource": "gpu", "ids": [list(ids)]})

    assert compare(allocated("0", "1"), allocated("1", "0")).matches
    assert not compare(allocated("0", "1"), allocated("0", "2")).matches


# -- what a person sees --


def test_a_difference_shows_both_sequences_from_a_little_before_where_they_part():
    recording = load_recordings("restart-all-regular-exit")[0]
    records = copy.deepcopy(list(recording.records))
    index = next(i for i, one in enumerate(records) if one.get("m") == "StopContainer")
    records[index]["timeout"] = "30"
    result = compare(recording, Trace(recording.header, tuple(records)))
    difference = result.first
    assert (difference.aspect, difference.strand) == ("calls", "work")
    assert difference.message == "timeout: 2 / 30"
    assert difference.t == (records[index]["t"], records[index]["t"])
    text = difference.side_by_side(width=60)
    marked = [line for line in text.splitlines() if line.startswith("  ≠")]
    assert len(marked) == 1
    assert "timeout 2 " in marked[0]
    assert "timeout 30" in marked[0]
    assert difference.before == 3
    assert len(difference.left) == 7


def test_an_ended_sequence_is_told_from_a_different_one():
    result = compare(run(one_call(1.0, "StartContainer", container="a#0")), run())
    assert result.first.message == "only the first run has: StartContainer a#0"
    assert result.first.t == (1.0, None)
