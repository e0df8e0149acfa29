"""Running pods to their end: when a run stops, what it gives back, that it is the same each time.

Goal: each way to end, each part of the result. Method: whole runs over the in-memory wire, without latencies.
"""

import json

import pytest

from kubelet_emu.errors import CallerError
from kubelet_emu.gates import Gates
from kubelet_emu.lab.expectations import containers_in, read_expectations
from kubelet_emu.lab.log_lines import parse_log
from kubelet_emu.lab.node import NodeOptions
from kubelet_emu.lab.run import RunListener, RunOptions, as_document, opaque_processes, run
from kubelet_emu.lab.until import parse_until
from kubelet_emu.settings import KubeletSettings
from kubelet_emu.trace.ndjson import write_lines

IMAGE = "busybox:1.36"


def pod(name="p", *commands, restart="Never", **spec):
    """A pod with a container c0, c1 … for each shell command."""
    containers = [
        {"name": f"c{i}", "image": IMAGE, "command": ["sh", "-c", command]}
        for i, command in enumerate(commands)
    ]
    spec = {"restartPolicy": restart, "terminationGracePeriodSeconds": 1, "containers": containers, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def ran(*pods, until="settled", max_seconds=None, expect=(), objects=(), listener=None, **node):
    names = {p["metadata"]["name"]: [c["name"] for c in p["spec"]["containers"]] for p in pods}
    options = RunOptions(
        node=NodeOptions(**{"seed": 1, "transport": "memory", "latency": "zero", **node}),
        until=parse_until(until),
        max_seconds=max_seconds,
        expectations=read_expectations(expect, names),
    )
    return run(pods, options, objects=objects, listener=listener)


# -- when it ends --


def test_settles_soon_after_every_pod_has_ended():
    result = ran(pod("p", "sleep 5"))
    assert result.ending.kind == "settled"
    assert 5 < result.ending.quiet_since_seconds < 12
    assert result.ending.at_seconds < 40
    assert result.ok


def test_settles_when_nothing_is_due_for_ten_minutes():
    result = ran(pod("p", "sleep 100000"))
    assert result.ending.kind == "settled"
    assert result.pods[0]["status"]["phase"] == "Running"
    assert result.ending.at_seconds == pytest.approx(result.ending.quiet_since_seconds + 600, abs=1)


def test_what_is_due_within_ten_minutes_is_waited_for():
    result = ran(pod("p", "sleep 590; exit 3"))
    assert result.pods[0]["status"]["phase"] == "Failed"


def test_a_crash_loop_does_not_settle():
    result = ran(pod("p", "exit 1", restart="Always"), max_seconds=700.0)
    assert result.ending.kind == "max-time"
    assert result.ending.at_seconds == pytest.approx(700)
    assert not result.ok


@pytest.mark.parametrize(
    ("until", "kind", "before"),
    [
        ("7s", "time", 7.5),
        ("Running", "reached", 5),
        ("Ready", "reached", 5),
        ("Ready=False", "reached", 5),
        ("Succeeded", "reached", 40),
        ("condition=Initialized", "reached", 5),
    ],
)
def test_ends_when_what_was_asked_for_has_come(until, kind, before):
    result = ran(pod("p", "sleep 20"), until=until)
    assert result.ending.kind == kind
    assert result.ending.at_seconds < before
    assert result.ok


def test_a_phase_has_to_hold_for_every_pod():
    result = ran(pod("p", "sleep 5"), pod("q", "sleep 50"), until="Succeeded")
    assert result.ending.kind == "reached"
    assert result.ending.at_seconds > 50


def test_a_phase_that_cannot_come_any_more_ends_the_run():
    result = ran(pod("p", "exit 1"), until="Succeeded")
    assert result.ending.kind == "unreachable"
    assert result.ending.at_seconds < 60
    assert not result.ok


def test_a_long_duration_raises_the_limit():
    assert RunOptions(until=parse_until("2h")).limit_seconds == 7200
    assert RunOptions(until=parse_until("35s")).limit_seconds == 1800
    assert RunOptions(until=parse_until("2h"), max_seconds=60.0).limit_seconds == 60


def test_a_pod_refused_by_the_kubelet_ends_the_run():
    wants = {"requests": {"cpu": "64"}}
    given = pod("p", "sleep 5")
    given["spec"]["containers"][0]["resources"] = wants
    result = ran(given)
    assert result.pods[0]["status"]["phase"] == "Failed"
    assert result.pods[0]["status"]["reason"] == "OutOfcpu"


# -- what it gives back --


def test_checks_and_invariants_are_judged():
    result = ran(pod("p", "exit 3"), expect=["final c0.exitCode = 3", "final phase = Running"])
    assert [check.result.ok for check in result.checks] == [True, False]
    assert [check.result.check for check in result.failed_checks] == ["final phase = Running"]
    assert len(result.invariants) > 10
    assert not result.violated
    assert not result.ok


def test_logs_are_those_of_the_instances_that_are_still_there():
    """The first instance's container goes with the second's start, and its log with it (RST-096)."""
    result = ran(pod("p", "echo one; echo two >&2; exit 1", restart="OnFailure"), until="8s")
    assert [(log.container, log.number) for log in result.logs] == [("c0", 1)]
    assert [(line.stream, line.text) for line in result.logs[0].lines] == [
        ("stdout", "one"),
        ("stderr", "two"),
    ]


def test_config_maps_are_there_before_the_pods():
    given = pod("p", "cat /config/greeting", volumes=[{"name": "c", "configMap": {"name": "words"}}])
    given["spec"]["containers"][0]["volumeMounts"] = [{"name": "c", "mountPath": "/config"}]
    words = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words", "namespace": "default"}}
    result = ran(given, objects=[{**words, "data": {"greeting": "hello"}}])
    assert [line.text for log in result.logs for line in log.lines] == ["hello"]


def test_opaque_programs_are_told():
    given = pod("p", "true")
    given["spec"]["containers"][0] |= {"image": "example.com/trainer:1", "command": ["python", "train.py"]}
    result = ran(given, until="20s")
    assert opaque_processes(result.trace.records) == {("p", "c0"): ("python", "train.py")}


def test_several_pods_are_a_list():
    result = ran(pod("p", "true"), pod("q", "true"))
    assert as_document(result.pods)["kind"] == "List"
    assert as_document(result.pods[:1])["kind"] == "Pod"
    json.dumps(as_document(result.pods))


def test_events_are_objects():
    result = ran(pod("p", "true"))
    assert {"Pulled", "Created", "Started"} <= {event["reason"] for event in result.events}


def test_pods_refused_by_the_api_are_told_all_at_once():
    with pytest.raises(CallerError) as raised:
        ran(pod("p", "true", restart="Sometimes"), pod("q", "true", restart="Seldom"))
    assert len(raised.value.problems) == 2


# -- static pods --


def test_static_pods_need_no_api():
    settings = KubeletSettings(static_pod_path="/etc/kubernetes/manifests")
    result = ran(pod("p", "sleep 5"), static=True, settings=settings)
    assert result.ending.kind == "settled"
    (found,) = result.pods
    assert found["metadata"]["name"] == "p-node-1"
    assert found["status"]["phase"] == "Succeeded"
    assert [record["phase"] for record in result.trace.records if record["k"] == "pod"][-1] == "Succeeded"
    assert not result.violated


# -- sameness --


class Watching(RunListener):
    wants_pulse = True

    def __init__(self):
        self.seen = []
        self.pulses = 0

    def pod(self, obj, *, now_ns, deleted):
        self.seen.append((obj["status"].get("phase"), deleted))

    def pulse(self, simulated_seconds, wall_seconds):
        self.pulses += 1


def test_being_watched_changes_nothing():
    given = pod("p", "sleep 3; exit 1", restart="OnFailure")
    watcher = Watching()
    watched = ran(given, until="60s", latency="measured", listener=watcher)
    alone = ran(given, until="60s", latency="measured")
    assert list(write_lines(watched.trace)) == list(write_lines(alone.trace))
    assert watcher.seen[0] == ("Pending", False)
    assert watcher.pulses > 0


class Stopping(RunListener):
    def pod(self, obj, *, now_ns, deleted):
        self.stop = obj["status"].get("phase") == "Running"

    def stop_wanted(self):
        return self.stop


def test_a_listener_can_end_the_run():
    result = ran(pod("p", "sleep 50"), listener=Stopping())
    assert result.ending.kind == "interrupted"
    assert result.ending.at_seconds < 10
    assert not result.ok


# -- expectations --


def test_a_check_is_for_the_pods_that_have_its_containers():
    found = read_expectations(
        ["final main.ready = true", "final phase = Running", "b: keep sandbox"],
        {"a": ["main"], "b": ["main", "side"], "c": ["side"]},
    )
    assert [each.pods for each in found] == [("a", "b"), ("a", "b", "c"), ("b",)]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("final nobody.ready = true", "no container 'nobody'"),
        ("z: keep sandbox", "no pod 'z'"),
        ("final phase ! Running", "column"),
    ],
)
def test_a_check_that_cannot_hold_is_refused(text, part):
    with pytest.raises(CallerError, match=part):
        read_expectations([text], {"a": ["main"]})


def test_containers_are_found_everywhere_in_a_check():
    from kubelet_emu.lab.checks_grammar import parse_check

    text = "order exited(a#0) < started(b#1) < when(c.ready = true)"
    assert containers_in(parse_check(text)) == {"a", "b", "c"}


# -- logs --


def test_parts_of_a_long_line_are_joined():
    text = (
        "2026-01-01T00:00:00Z stdout P first \n2026-01-01T00:00:01Z stderr F other\n"
        "2026-01-01T00:00:02Z stdout F second\nno log line\n2026-01-01T00:00:03Z stdout P open"
    )
    assert [(line.stream, line.text) for line in parse_log(text)] == [
        ("stderr", "other"),
        ("stdout", "first second"),
        ("stdout", "open"),
    ]


def test_gates_reach_the_node():
    gates = Gates({"RestartAllContainersOnContainerExits": False})
    result = ran(pod("p", "true"), settings=KubeletSettings(gates=gates))
    assert result.ok
