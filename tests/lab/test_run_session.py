"""The node from plain Python: apply, let time pass, look, and leave nothing behind."""

import gc
import threading

import pytest

import kubelet_emu
from kubelet_emu.api.codec import pod_from_json
from kubelet_emu.errors import CallerError
from kubelet_emu.lab.session import Session
from kubelet_emu.trace.ndjson import write_lines

POD = {
    "metadata": {"name": "p"},
    "spec": {
        "restartPolicy": "Always",
        "containers": [{"name": "c", "image": "busybox", "command": ["sh", "-c", "sleep 5; exit 1"]}],
    },
}


@pytest.fixture
def node():
    with Session(seed=1, transport="memory", latency="zero") as session:
        yield session


def test_the_package_offers_it():
    assert kubelet_emu.Session is Session
    assert {"Node", "Session", "run"} <= set(dir(kubelet_emu))
    with pytest.raises(AttributeError, match="nothing"):
        _ = kubelet_emu.nothing


def test_pods_come_as_json_as_values_as_text_and_as_files(node, tmp_path):
    assert node.apply(POD).metadata.uid
    other = {**POD, "metadata": {"name": "q"}}
    assert node.apply(pod_from_json({"apiVersion": "v1", "kind": "Pod", **other})).metadata.name == "q"
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: r}\nspec:\n  containers: [{name: c, image: busybox}]\n"
    )
    assert [pod.metadata.name for pod in node.apply(text)] == ["r"]
    (tmp_path / "s.yaml").write_text(text.replace("r}", "s}"))
    assert [pod.metadata.name for pod in node.apply(tmp_path / "s.yaml")] == ["s"]
    assert [pod.metadata.name for pod in node.pods()] == ["p", "q", "r", "s"]


def test_time_passes_only_when_told(node):
    node.apply(POD)
    before = node.now
    assert node.now == before
    node.advance("2s")
    node.advance(1)
    assert node.now == pytest.approx(before + 3)


@pytest.mark.parametrize(
    "until",
    ["Running", "Ready", "final c.restartCount = 1", "c.last.exitCode = 1", "count event(BackOff) >= 1"],
)
def test_advances_until_something_holds(node, until):
    node.apply(POD)
    assert node.advance(until=until)
    assert node.now < 40


def test_says_when_it_did_not_hold_in_time(node):
    node.apply(POD)
    assert not node.advance("20s", until="Succeeded")
    assert node.now == pytest.approx(20, abs=0.1)


def test_steps_from_record_to_record(node):
    node.apply(POD)
    first, second = node.step(), node.step()
    assert first["seq"] != second["seq"]
    assert {"k", "t"} <= set(second)


def test_tells_ends_of_containers(node):
    node.tell("c#0=9@2s")
    node.apply(POD)
    node.advance(until="c.last.exitCode = 9", within=30)
    assert node.check("instance c#0 exitCode = 9").ok
    with pytest.raises(CallerError, match="CODE@TIME"):
        node.tell("c")


def test_runs_commands_and_reads_logs(node):
    node.apply(
        {**POD, "spec": {"containers": [{"name": "c", "image": "busybox", "command": ["sleep", "60"]}]}}
    )
    node.advance(until="Ready")
    assert node.exec("p", "c", ["echo", "hello"])[:2] == (0, b"hello\n")
    assert [log.container for log in node.logs()] == ["c"]


def test_deletes_pods(node):
    node.apply(POD)
    node.advance(until="Ready")
    node.delete("p", grace_seconds=1)
    node.advance("20s")
    assert node.pods() == ()
    with pytest.raises(CallerError, match="not found"):
        node.delete("p")
    with pytest.raises(KeyError):
        node.pod("p")


def test_restarts_daemons(node):
    node.apply(POD)
    node.advance(until="Ready")
    node.restart_runtime(down="1s")
    node.restart_kubelet(down="2s")
    node.advance("30s")
    assert all(verdict.holds for verdict in node.invariants)
    assert "p" in node.timeline() or "pod" in node.timeline()


def test_bad_input_names_its_place(node):
    with pytest.raises(CallerError, match="<text>:3"):
        node.apply("kind: Pod\napiVersion: v1\nmetadata: {nam: x}\n")
    with pytest.raises(CallerError, match="cannot understand"):
        node.advance(until="one day")
    with pytest.raises(CallerError, match="how long"):
        node.advance()
    with pytest.raises(CallerError, match="duration"):
        node.advance("soon")
    assert node.apply(POD).metadata.name == "p"


def test_the_same_seed_gives_the_same_trace():
    traces = []
    for _ in range(2):
        with Session(seed=3, transport="memory") as session:
            session.apply(POD)
            session.advance("10s")
            session.advance(until="c.restartCount = 2")
            traces.append(list(write_lines(session.trace)))
    assert traces[0] == traces[1]


def node_threads():
    return [thread for thread in threading.enumerate() if thread.name == "kubelet-emu node"]


def test_nothing_stays_behind():
    session = Session(seed=1, transport="memory")
    session.apply(POD)
    assert len(node_threads()) == 1
    session.close()
    session.close()
    assert not node_threads()
    with pytest.raises(CallerError, match="closed"):
        session.pods()


def test_a_forgotten_session_ends():
    session = Session(seed=1, transport="memory")
    session.apply(POD)
    del session
    gc.collect()
    assert not node_threads()


def test_an_exception_in_the_block_ends_it():
    def use():
        with Session(seed=1, transport="memory") as session:
            session.apply(POD)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        use()
    assert not node_threads()


def test_a_runtime_that_is_not_there_is_told(tmp_path):
    session = Session(cri_endpoint=f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(CallerError, match="no CRI v1 runtime answers"):
        session.pods()
    assert not node_threads()


def test_unknown_transport_is_refused():
    with pytest.raises(ValueError, match="transport"), Session(transport="carrier pigeon"):
        pass
