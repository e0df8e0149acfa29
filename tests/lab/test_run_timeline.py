# pyright: basic, reportArgumentType=false
"""The picture of a pod's life: what it shows, that it fits, and how it looks.

Goal: a person reads off what happened. Method: pictures of stored and hand-made traces against texts
kept beside them (UPDATE_SNAPSHOTS=1 writes them anew: read the difference), and properties over drawn ones.
"""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet_emu.lab.report.axis import Stretch, bands
from kubelet_emu.lab.report.lanes import pod_lanes
from kubelet_emu.lab.report.text import plain, seconds_text
from kubelet_emu.lab.report.timeline import ASCII, UNICODE, timeline
from kubelet_emu.lab.report.why import why_lines
from kubelet_emu.trace.ndjson import read_lines
from kubelet_emu.trace.schema import Trace

HERE = Path(__file__).parent


def snapshot(name, text):
    """Compare with the stored text of that name."""
    path = HERE / "data" / f"{name}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(text + "\n", encoding="utf-8")
    assert text + "\n" == path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def ml_worker():
    with (HERE / "data" / "ml-worker.ndjson").open(encoding="utf-8") as lines:
        return read_lines(lines)


class TraceMaker:
    """Makes the records of one pod, in order, with as little as a timeline needs."""

    def __init__(self, pod="p", **containers):
        self.pod = pod
        self.records = []
        self.containers = containers or {"main": "regular"}
        self.add("action", 0.0, do="create", object={"spec": self.spec()})
        self.show(0.0, "Pending")

    def spec(self):
        init = [
            {"name": name, "image": "i", **({"restartPolicy": "Always"} if kind == "sidecar" else {})}
            for name, kind in self.containers.items()
            if kind in ("init", "sidecar")
        ]
        regular = [{"name": n, "image": f"i-{n}"} for n, kind in self.containers.items() if kind == "regular"]
        return {"initContainers": init, "containers": regular}

    def add(self, kind, t, **fields):
        self.records.append({"t": t, "k": kind, "seq": len(self.records) + 1, "pod": self.pod, **fields})
        return self

    def call(self, t, method, dt=0.01, **fields):
        return self.add("cri", t, m=method, dt=dt, end=len(self.records) + 1, **fields)

    def show(self, t, phase, ready="False", **states):
        shown = {
            name: {
                "kind": "regular" if kind == "regular" else "init",
                "state": "waiting",
                "restartCount": 0,
                "ready": False,
                **states.get(name, {}),
            }
            for name, kind in self.containers.items()
        }
        return self.add("pod", t, phase=phase, conditions={"Ready": [ready]}, containers=shown)

    def start(self, t, name, attempt=0):
        label = f"{name}#{attempt}"
        self.call(t, "CreateContainer", container=label, name=name, attempt=attempt)
        self.call(t + 0.02, "StartContainer", container=label)
        return self.add("process", t + 0.03, do="start", container=label, instance=attempt)

    def exit(self, t, name, code, attempt=0, **more):
        return self.add(
            "process", t, do="exit", container=f"{name}#{attempt}", instance=attempt, code=code, **more
        )

    def wait(self, t, name, delay):
        return self.add(
            "decision",
            t,
            machine="kuberuntime.backoff",
            rules=[f"RST-112({name})"],
            inputs={"container": name},
            outcome={"wait": True, "delaySeconds": delay},
        )

    def end(self, t):
        return Trace({"k": "header"}, (*self.add("action", t, do="end").records,))


def crash_loop(times):
    made = TraceMaker().call(0.1, "RunPodSandbox", sandbox="p/sandbox#0")
    t, delay = 0.3, 10.0
    for attempt in range(times):
        made.start(t, "main", attempt)
        made.exit(t + 1.0, "main", 3, attempt)
        if attempt:
            made.wait(t + 1.5, "main", delay)
            t += 1.0 + delay
            delay = min(delay * 2, 300.0)
        else:
            t += 1.5
    return made.end(t + 1.0)


def drawn(trace, width=100, glyphs=UNICODE):
    return "\n".join(plain(timeline(trace, trace.pods[0], width=width, glyphs=glyphs)))


# -- how it looks --


@pytest.mark.parametrize("width", [70, 100, 140])
def test_restart_in_place_looks_so(ml_worker, width):
    snapshot(f"timeline-ml-worker-{width}", drawn(ml_worker, width))


def test_without_unicode_it_looks_so(ml_worker):
    text = drawn(ml_worker, 100, ASCII)
    assert text.isascii()
    snapshot("timeline-ml-worker-ascii", text)


def test_crash_loop_looks_so():
    snapshot("timeline-crash-loop", drawn(crash_loop(4), 80))


def test_long_crash_loop_leaves_the_middle_out():
    text = drawn(crash_loop(60), 80)
    assert "left out: more of the same" in text
    assert len(text.splitlines()) < 60


def test_story_of_a_restart_in_place_reads_so(ml_worker):
    snapshot("why-ml-worker", "\n".join(plain(why_lines(ml_worker, "ml-worker", 110))))


# -- what it shows --


def lane(trace, name):
    return next(lane for lane in pod_lanes(trace, trace.pods[0]).lanes if lane.name == name)


def test_a_stopped_container_shows_the_stop_and_its_code():
    made = TraceMaker().start(1.0, "main")
    made.call(5.0, "StopContainer", dt=2.0, container="main#0", timeout="2")
    made.exit(7.0, "main", 137, signal=9)
    found = lane(made.end(8.0), "main").segments
    assert [(s.what, s.start, s.end) for s in found if s.what != "waiting"] == [
        ("running", 1.03, 5.0),
        ("stopping", 5.0, 7.0),
    ]
    assert found[-1].code == 137


def test_an_instance_that_failed_to_start_shows_as_that():
    made = TraceMaker().call(1.0, "CreateContainer", container="main#0", name="main", attempt=0)
    made.call(1.1, "StartContainer", dt=0.2, container="main#0", code="UNKNOWN", details="no such file")
    found = lane(made.end(3.0), "main").segments[-1]
    assert (found.what, found.code) == ("failed", 128)
    assert "✗128" in drawn(made.end(3.0))


def test_readiness_shows_only_once_the_api_shows_it():
    made = TraceMaker().start(1.0, "main")
    made.show(4.0, "Running", "True", main={"state": "running", "ready": True, "id": "main#0"})
    found = [s for s in lane(made.end(9.0), "main").segments if s.what in ("running", "ready")]
    assert [(s.what, s.start) for s in found] == [("running", 1.03), ("ready", 4.0)]
    assert found[-1].open


def test_a_foreign_runtime_tells_ends_through_its_answers():
    """Without records of processes the answers of the runtime give the times."""
    made = TraceMaker().call(1.0, "CreateContainer", container="main#0", name="main", attempt=0)
    made.call(1.1, "StartContainer", dt=0.1, container="main#0")
    made.call(
        6.0, "ContainerStatus", container="main#0", state="exited", exitCode=4, reason="Error", poll=True
    )
    found = lane(made.end(9.0), "main").segments[-1]
    assert (found.start, found.end, found.code) == (pytest.approx(1.2), 6.0, 4)


def test_a_pull_shows_on_the_container_that_needs_it():
    made = TraceMaker(one="regular", two="regular").start(0.5, "one")
    made.call(1.0, "PullImage", dt=3.0, image="i-two")
    assert [s.what for s in lane(made.end(5.0), "two").segments] == ["waiting", "pulling"]


def test_devices_have_a_lane_with_their_health():
    def held(**health):
        shown = [{"resourceID": device, "health": word} for device, word in health.items()]
        return {"allocatedResourcesStatus": [{"name": "v.com/gpu", "resources": shown}]}

    made = TraceMaker().add(
        "decision",
        0.5,
        machine="devicemanager",
        inputs={"container": "main", "resource": "v.com/gpu"},
        outcome={"devices": ["a", "b"]},
    )
    made.start(1.0, "main")
    made.show(2.0, "Running", main=held(a="Healthy", b="Healthy"))
    made.show(4.0, "Running", main=held(a="Healthy", b="Unhealthy"))
    made.show(6.0, "Running", main=held(a="Healthy", b="Healthy"))
    made.show(8.0, "Succeeded", main=held(a="Healthy", b="Healthy"))
    found = lane(made.end(9.0), "v.com/gpu").segments
    assert [(s.what, s.begins, s.start, s.end) for s in found] == [
        ("devices", "2", 0.5, 4.0),
        ("devices-unhealthy", "1 of 2", 4.0, 6.0),
        ("devices", "2", 6.0, 8.0),
    ]
    assert [each.name for each in pod_lanes(made.end(9.0), "p").lanes] == [
        "pod",
        "sandbox",
        "v.com/gpu",
        "main",
    ]
    assert "2≡≡" in drawn(made.end(9.0))
    assert "1 of 2" in drawn(made.end(9.0))


def test_an_action_from_outside_is_marked():
    made = TraceMaker().start(1.0, "main").add("action", 5.0, do="delete")
    assert "▼delete" in drawn(made.end(9.0))


def test_only_the_pods_own_records_count():
    one, two = TraceMaker("one").start(1.0, "main"), TraceMaker("two").start(2.0, "main")
    both = Trace({"k": "header", "pods": ["one", "two"]}, (*one.end(9.0).records, *two.end(9.0).records))
    assert len([s for s in pod_lanes(both, "two").lanes[2].segments if s.what == "running"]) == 1


# -- that it fits --


@pytest.mark.parametrize("count", [2, 7, 20])
@pytest.mark.parametrize("width", [60, 100, 200])
def test_many_containers_fit(count, width):
    names = {f"container-{i}": "sidecar" if i % 3 == 0 else "regular" for i in range(count)}
    made = TraceMaker(**names)
    for i, name in enumerate(names):
        made.start(1.0 + i, name)
        made.exit(30.0 + 2 * i, name, i % 3)
    lines = plain(timeline(made.end(99.0), "p", width=width))
    assert max(map(len, lines)) <= width
    for name in names:
        assert any(line.startswith(name) for line in lines)
    text = "\n".join(lines)
    assert text.count("✓0") + text.count("✗1") + text.count("✗2") >= count


moments = st.floats(0, 5000).map(lambda seconds: round(seconds, 2))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(moments, moments, st.integers(1, 12)), min_size=1, max_size=40), st.integers(20, 200)
)
def test_every_stretch_gets_its_room(pairs, width):
    """No band is wider than allowed, time never runs backwards, what has to stay apart does."""
    stretches = [Stretch(min(a, b), max(a, b), size, apart=True) for a, b, size in pairs if a != b]
    axis = bands([0.0, 5000.0], stretches, width)
    assert axis[0].start == 0.0
    assert axis[-1].end == 5000.0
    for band in axis:
        assert band.width <= width
        assert list(band.columns) == sorted(set(band.columns))
    for stretch in stretches:
        assert sum(band.column(stretch.end) - band.column(stretch.start) for band in axis) >= min(
            stretch.width, width
        )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.04, "0s"),
        (3.44, "3.4s"),
        (3.0, "3s"),
        (99.96, "100s"),
        (599.4, "599s"),
        (750, "12m30s"),
        (7500, "2h05m"),
    ],
)
def test_times_are_short(seconds, text):
    assert seconds_text(seconds) == text
