"""Rows, ages and tables against the samples of a real kubectl and the known answers STA-1220, STA-1109."""

import re
from pathlib import Path

import pytest
import yaml
from attrs import evolve

from kubelet_emu.api.times import parse_rfc3339
from kubelet_emu.api.types import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Event,
    EventSource,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from kubelet_emu.printers.durations import age, human_duration
from kubelet_emu.printers.events import EVENT_COLUMNS, describe_events, event_row
from kubelet_emu.printers.nodes import NODE_COLUMNS, node_row
from kubelet_emu.printers.pods import POD_COLUMNS, POD_WIDE_COLUMNS, RowCondition, pod_row
from kubelet_emu.printers.tables import TableWriter

DATA = Path(__file__).parent / "data"
SECOND = 1_000_000_000
NOW = 1_900_000_000 * SECOND
MINUTE, HOUR, DAY = 60, 3600, 86_400
YEAR = 365 * DAY


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1.5, "0s"),
        (-0.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + MINUTE, "3h1m"),
        (8 * HOUR, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + HOUR, "2d1h"),
        (8 * DAY, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + DAY, "2y1d"),
        (8 * YEAR, "8y"),
    ],
    ids=lambda value: f"STA-1109-{value}",
)
def test_human_duration(seconds, text):
    assert human_duration(int(seconds * SECOND)) == text


def test_sta_1109_no_time():
    assert age(None, NOW) == "<unknown>"


def ago(seconds):
    return NOW - seconds * SECOND


class TestKnownRows:
    """STA-1220: READY, STATUS, RESTARTS."""

    def state(self, text):
        """``R`` running, ``X`` waiting, ``T0`` or ``T1 podCrash`` terminated, ``-`` none."""
        if text == "R":
            return ContainerState(running=ContainerStateRunning())
        if text == "-":
            return ContainerState()
        if text.startswith("T") and text[1:2].isdigit():
            code, _, reason = text[1:].partition(" ")
            end = ContainerStateTerminated(exit_code=int(code), reason=reason or None)
            return ContainerState(terminated=end)
        return ContainerState(waiting=ContainerStateWaiting(reason=text))

    def status(self, name, text, *, restarts=0, ready=False, started=None, last=None):
        end = ContainerStateTerminated(finished_at=ago(last)) if last is not None else None
        return ContainerStatus(
            name=name,
            state=self.state(text),
            last_state=ContainerState(terminated=end),
            ready=ready,
            restart_count=restarts,
            started=started,
        )

    def row(self, mains, init=(), *, phase="Running", sidecars=False, conditions=(), deleted=False, **status):
        def made(prefix, entries):
            return tuple(
                self.status(f"{prefix}{n}", text, **dict(more)) for n, (text, more) in enumerate(entries)
            )

        policy = "Always" if sidecars else None
        pod = Pod(
            metadata=ObjectMeta(name="test", deletion_timestamp=NOW if deleted else None),
            spec=PodSpec(
                containers=tuple(Container(name=f"m{n}") for n in range(len(mains))),
                init_containers=tuple(
                    Container(name=f"i{n}", restart_policy=policy) for n in range(len(init))
                ),
            ),
            status=PodStatus(
                phase=phase,
                conditions=tuple(conditions),
                container_statuses=made("m", mains),
                init_container_statuses=made("i", init),
                **status,
            ),
        )
        got = pod_row(pod, NOW)
        return got.ready, got.status, got.restarts

    R3 = {"restarts": 3}
    UP = {"restarts": 3, "ready": True}
    READY = PodCondition(type="Ready", status="True")
    DONE = PodCondition(type="Initialized", status="True")

    def test_sta_1220_plain(self):
        assert self.row([("R", self.UP), ("-", self.R3)], phase="P") == ("1/2", "P", "6")
        assert self.row([("R", self.UP), ("X", self.R3)], phase="P") == ("1/2", "X", "6")
        assert self.row([("X", self.R3), ("T1 Y", self.R3)], phase="P") == ("0/2", "X", "6")
        assert self.row([("R", self.UP), ("-", self.R3)], phase="P", reason="R") == ("1/2", "R", "6")

    def test_sta_1220_not_ready(self):
        mains = [("T0 Completed", self.R3), ("R", self.UP)]
        assert self.row(mains) == ("1/2", "NotReady", "6")
        assert self.row(mains, conditions=[self.READY]) == ("1/2", "Running", "6")

    def test_sta_1220_init(self):
        assert self.row([("PodInitializing", {})], [("R", {"restarts": 3, "last": 10})]) == (
            "0/1",
            "Init:0/1",
            "3 (10s ago)",
        )
        init = [("T0", {"restarts": 2, "last": 120}), ("R", {"restarts": 3, "last": 10})]
        assert self.row([("PodInitializing", {})], init) == ("0/1", "Init:1/2", "5 (10s ago)")
        main = [("R", {"restarts": 4, "last": 20})]
        assert self.row(main, [("T0", {"restarts": 2})]) == ("0/1", "Running", "4 (20s ago)")

    def test_sta_1220_ages(self):
        mains = [
            ("R", {"restarts": 6, "ready": True, "last": 5 * DAY}),
            ("R", {"restarts": 3, "ready": True, "last": 20 * DAY}),
        ]
        assert self.row(mains) == ("2/2", "Running", "9 (5d ago)")

    def test_sta_1220_gated_and_deleting(self):
        gated = PodCondition(type="PodScheduled", status="False", reason="SchedulingGated")
        assert self.row([("-", {}), ("-", {})], phase="Pending", conditions=[gated])[:2] == (
            "0/2",
            "SchedulingGated",
        )
        done = [("T0 Completed", {})]
        assert self.row(done, phase="Succeeded", deleted=True) == ("0/1", "Completed", "0")
        assert self.row([("-", {})], phase="Running", deleted=True) == ("0/1", "Terminating", "0")
        assert self.row([("-", {})], phase="Pending", deleted=True) == ("0/1", "Terminating", "0")
        assert self.row([("-", {})], deleted=True, reason="NodeLost")[1] == "Unknown"

    def test_sta_1220_failed(self):
        crash, up = ("T1 podCrash", {}), ("R", {"ready": True})
        assert self.row([crash, up], phase="Failed") == ("1/2", "podCrash", "0")
        assert self.row([up, crash], phase="Failed") == ("1/2", "podCrash", "0")
        assert self.row([up, crash, ("T0", {})], phase="Failed") == ("1/3", "podCrash", "0")

    def test_sta_1220_sidecars(self):
        waiting, late = ("PodInitializing", {}), {"restarts": 3, "last": 10}
        init = [("R", {**late, "started": False}), waiting]
        assert self.row([waiting], init, phase="Pending", sidecars=True) == (
            "0/3",
            "Init:0/2",
            "3 (10s ago)",
        )
        init = [("R", {**late, "started": True}), ("R", {"started": False})]
        assert self.row([waiting], init, phase="Pending", sidecars=True) == (
            "0/3",
            "Init:1/2",
            "3 (10s ago)",
        )
        init = [("R", {**late, "started": True}), ("R", {"started": True})]
        main = ("R", {"restarts": 4, "ready": True})
        assert self.row([main], init, sidecars=True, conditions=[self.DONE]) == (
            "1/3",
            "Running",
            "7 (10s ago)",
        )
        init = [("T137 Error", late), ("T137 Error", {})]
        main = ("T0 Completed", {"restarts": 4})
        assert self.row([main], init, phase="Succeeded", sidecars=True, conditions=[self.DONE]) == (
            "0/3",
            "Completed",
            "7 (10s ago)",
        )

    def test_sta_1106_crash_looping_sidecar(self):
        up = ("R", {"ready": True})
        for text, shown in (("T1 Error", "Init:Error"), ("CrashLoopBackOff", "Init:CrashLoopBackOff")):
            got = self.row([up], [(text, {})], sidecars=True, conditions=[self.DONE])
            assert got[:2] == ("1/2", shown)

    def test_sta_1103_codes_and_signals(self):
        assert self.row([("T3", {})])[1] == "ExitCode:3"
        assert self.row([("PodInitializing", {})], [("T3", {})])[1] == "Init:ExitCode:3"


class Loader(yaml.SafeLoader):
    """YAML without times: they stay text, as in JSON."""

    yaml_implicit_resolvers = {
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def test_sample_pod_row():
    obj = yaml.load((DATA / "get-ml-worker.yaml").read_text(), Loader)
    now = parse_rfc3339("2026-11-30T20:03:57Z")
    row = pod_row(obj, now)
    last = [line for line in (DATA / "get-w-wide.txt").read_text().splitlines() if "ml-worker" in line][-1]
    assert row.wide_cells == tuple(re.split(r"\s{2,}", last))
    assert row.completed is None


@pytest.mark.parametrize(
    ("name", "columns"), [("get-w.txt", POD_COLUMNS), ("get-w-wide.txt", POD_WIDE_COLUMNS)]
)
def test_watch_lays_out_as_kubectl_does(name, columns):
    lines = (DATA / name).read_text().splitlines()
    writer = TableWriter(columns)
    written = []
    for line in lines[1:]:
        written += writer.write([re.split(r"\s{2,}", line)])
    assert written == lines


def test_nodes_table():
    lines = (DATA / "get-nodes.txt").read_text().splitlines()
    node = {
        "metadata": {"name": "node-a", "creationTimestamp": "2026-11-30T18:04:25Z"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.36.2"},
            "addresses": [{"type": "InternalIP", "address": "192.0.2.2"}],
        },
    }
    row = node_row(node, parse_rfc3339("2026-11-30T20:04:14Z"))
    assert list(TableWriter(NODE_COLUMNS).write([row.cells])) == lines
    assert row.wide_cells[5:7] == ("192.0.2.2", "<none>")


def sample_events(text, name):
    """Events rebuilt from the Events section of a describe sample, all seen from NOW."""
    found = []
    for line in text.split("Events:\n")[1].splitlines()[2:]:
        kind, reason, interval, source, message = re.split(r"\s{2,}", line.strip(), maxsplit=4)
        ages = [int(part) for part in re.findall(r"(\d+)s", interval)]
        count = re.search(r"\(x(\d+)", interval)
        path, _, words = message.partition(": ")
        found.append(
            Event(
                involved_object=ObjectReference(kind="Pod", name=name, field_path=path),
                type=kind,
                reason=reason,
                message=words,
                count=int(count[1]) if count else 1,
                first_timestamp=ago(ages[-1]),
                last_timestamp=ago(ages[0]),
                source=EventSource(component=source),
            )
        )
    return found


@pytest.mark.parametrize(
    "name", ["describe-crasher", "describe-once", "describe-ml-worker-after-full-restart"]
)
def test_describe_events(name):
    text = (DATA / f"{name}.txt").read_text()
    lines = describe_events(sample_events(text, "x"), NOW)
    assert list(lines) == ["Events:", *text.split("Events:\n")[1].rstrip("\n").splitlines()]


def test_describe_no_events():
    assert describe_events([], NOW) == ("Events:  <none>",)


def test_get_events():
    lines = (DATA / "get-events.txt").read_text().splitlines()
    rows = []
    for line in lines[1:]:
        seen, kind, reason, target, message = re.split(r"\s{2,}", line, maxsplit=4)
        event = Event(
            involved_object=ObjectReference(kind="Pod", name=target.partition("/")[2]),
            type=kind,
            reason=reason,
            message=message + "\n",
            last_timestamp=ago(int(seen[:-1])),
        )
        rows.append(event_row(event, NOW))
    assert list(TableWriter(EVENT_COLUMNS).write(rows)) == lines


def test_sta_1110_row_condition():
    pod = Pod(metadata=ObjectMeta(name="p"), status=PodStatus(phase="Succeeded"))
    completed = RowCondition("Succeeded", "The pod has completed successfully.")
    assert pod_row(pod, NOW).completed == completed
    failed = evolve(pod, status=PodStatus(phase="Failed"))
    assert pod_row(failed, NOW).completed == RowCondition("Failed", "The pod failed.")
