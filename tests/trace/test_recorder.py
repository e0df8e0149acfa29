"""The recorder: names for ids, polls counted, snapshots folded, order kept."""

import json

import pytest

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.trace import TraceRecorder, diff, dumps, read_lines, write_lines
from kubelet_emu.why import Why

SANDBOX, MAIN = "a" * 64, "b" * 64
UID = "11111111-2222-4333-8444-555555555555"


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Refused(Exception):
    def __init__(self, code, details):
        self.code, self.details = code, details


def pod(state, *, generation=1, **status):
    container = {
        "name": "main",
        "state": state,
        "restartCount": 0,
        "ready": "running" in state,
        "started": "running" in state,
        "containerID": f"containerd://{MAIN}",
        "image": "busybox:1.36",
    }
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": UID, "generation": generation},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": "Running", "qosClass": "BestEffort", "containerStatuses": [container], **status},
    }


@pytest.fixture
def recorder():
    recorder = TraceRecorder(Clock())
    sandbox = cri.RunPodSandboxRequest(
        config=cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="p", uid=UID, namespace="ns"))
    )
    recorder.cri_call(
        "RunPodSandbox", sandbox, cri.RunPodSandboxResponse(pod_sandbox_id=SANDBOX), None, 0.1, 0.2
    )
    create = cri.CreateContainerRequest(
        pod_sandbox_id=SANDBOX,
        config=cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name="main", attempt=2),
            image=cri.ImageSpec(image="sha256:1", user_specified_image="busybox:1.36"),
            log_path="main/2.log",
            envs=[cri.KeyValue(key="A", value=b"1")],
            mounts=[cri.Mount(container_path="/work", host_path="/var/work")],
        ),
    )
    recorder.cri_call(
        "CreateContainer", create, cri.CreateContainerResponse(container_id=MAIN), None, 0.2, 0.3
    )
    return recorder


def test_calls_are_named_and_carry_their_arguments(recorder):
    run, create = recorder.records
    assert run["sandbox"] == "p/sandbox#0"
    assert (run["t"], run["dt"]) == (0.1, 0.1)
    assert {key: create[key] for key in ("container", "attempt", "log_path", "pod", "sandbox", "image")} == {
        "container": "main#2",
        "attempt": 2,
        "log_path": "main/2.log",
        "pod": "p",
        "sandbox": "p/sandbox#0",
        "image": "busybox:1.36",
    }
    assert create["env"] == {"A": "1"}
    assert create["mounts"] == {"/work": "/var/work"}


def test_errors_keep_code_and_named_details(recorder):
    error = Refused("NOT_FOUND", f'container "{MAIN}" is not there')
    recorder.cri_call("RemoveContainer", cri.RemoveContainerRequest(container_id=MAIN), None, error, 1.0, 1.0)
    record = recorder.records[-1]
    assert (record["container"], record["code"]) == ("main#2", "NOT_FOUND")
    assert record["details"] == 'container "main#2" is not there'


def test_polls_are_recorded_when_their_answer_changes_and_counted_otherwise(recorder):
    question = cri.ContainerStatusRequest(container_id=MAIN)

    def answer(state):
        status = cri.ContainerStatus(id=MAIN, state=state, exit_code=3, annotations={"a": "1", "b": "2"})
        return cri.ContainerStatusResponse(status=status)

    states = [cri.CONTAINER_RUNNING] * 4 + [cri.CONTAINER_EXITED] * 3
    for state in states:
        recorder.cri_call("ContainerStatus", question, answer(state), None, 1.0, 1.0)
    recorder.cri_call("ImageFsInfo", cri.ImageFsInfoRequest(), cri.ImageFsInfoResponse(), None, 1.0, 1.0)
    records = [record for record in recorder.close().records if record.get("m") == "ContainerStatus"]
    assert [(r["k"], r.get("state"), r.get("exitCode")) for r in records] == [
        ("cri", "running", None),
        ("cri", "exited", 3),
        ("polls", None, None),
    ]
    assert (records[-1]["count"], records[-1]["unchanged"]) == (7, 5)
    assert recorder.close().records[-1]["m"] == "ImageFsInfo"


def test_a_repeated_error_of_a_poll_is_one_record(recorder):
    question = cri.ContainerStatusRequest(container_id="c" * 64)
    for _ in range(3):
        recorder.cri_call("ContainerStatus", question, None, Refused("NOT_FOUND", "gone"), 1.0, 1.0)
    assert [record["m"] for record in recorder.records].count("ContainerStatus") == 1


def test_equal_snapshots_are_folded_and_the_spec_comes_with_each_generation(recorder):
    recorder.pod_object(pod({"waiting": {"reason": "ContainerCreating"}}))
    recorder.pod_object(pod({"waiting": {"reason": "ContainerCreating"}}, startTime="2026-01-01T00:00:00Z"))
    recorder.pod_object(pod({"running": {}}, podIP="10.0.0.7"))
    recorder.pod_object(pod({"running": {}}, podIP="10.0.0.7", observedGeneration=2), deleted=True)
    snapshots = [record for record in recorder.records if record["k"] == "pod"]
    assert [record["containers"]["main"]["state"] for record in snapshots] == [
        "waiting",
        "running",
        "running",
    ]
    assert [("spec" in record, record["ip"]) for record in snapshots] == [
        (True, None),
        (False, "ip-1"),
        (False, "ip-1"),
    ]
    assert snapshots[1]["containers"]["main"]["id"] == "main#2"
    assert snapshots[-1]["deleted"] is True


def test_conditions_show_reason_and_message_only_where_there_is_one(recorder):
    conditions = [
        {"type": "Initialized", "status": "True"},
        {"type": "Ready", "status": "False", "reason": "PodFailed"},
        {"type": "ContainersReady", "status": "False", "reason": "R", "message": "m"},
    ]
    recorder.pod_object(pod({"terminated": {"exitCode": 1, "reason": "Error"}}, conditions=conditions))
    assert recorder.records[-1]["conditions"] == {
        "Initialized": ["True"],
        "Ready": ["False", "PodFailed", ""],
        "ContainersReady": ["False", "R", "m"],
    }


def test_texts_name_pods_uids_addresses_and_ids(recorder):
    recorder.pod_object(pod({"running": {}}, podIP="10.0.0.7"))
    event = {
        "involvedObject": {"kind": "Pod", "name": "p", "uid": UID, "fieldPath": "spec.containers{main}"},
        "reason": "BackOff",
        "type": "Warning",
        "count": 2,
        "message": f"back-off in pod p_ns({UID}) at 10.0.0.7:80, not 10.0.0.71, {MAIN}",
    }
    recorder.event_object(event)
    record = recorder.records[-1]
    assert record["message"] == "back-off in pod p_<ns>(<uid:p>) at ip-1:80, not 10.0.0.71, main#2"
    assert (record["on"], record["count"], record["raw"]) == ("spec.containers{main}", 2, event["message"])


def test_a_call_that_began_earlier_comes_first_in_the_trace(recorder):
    begun = recorder.next_seq()
    recorder.fact("note", text="meanwhile")
    stop = cri.StopContainerRequest(container_id=MAIN, timeout=2)
    recorder.cri_call("StopContainer", stop, cri.StopContainerResponse(), None, 3.0, 5.0, begun=begun)
    stopped, note = recorder.trace().records[-2:]
    assert (stopped["m"], stopped["timeout"], note["k"]) == ("StopContainer", "2", "note")
    assert stopped["seq"] < note["seq"] < stopped["end"]


def test_what_is_written_is_what_is_read_back(recorder):
    lines = []
    again = TraceRecorder(lambda: 2.0, header={"seed": 3}, sink=lines.append)
    again.decision(
        "kuberuntime.actions", "p", [Why("RST-045", "main")], inputs={"a": 1}, outcome={"start": ["main"]}
    )
    again.action("delete", pod="p")
    trace = again.close()
    assert read_lines("".join(lines).splitlines()) == trace
    assert list(write_lines(trace)) == lines
    assert json.loads(lines[1])["rules"] == ["RST-045(main)"]
    assert trace.ordered


def test_what_came_before_the_first_pod_is_negative_and_written_with_its_header():
    lines, now = [], [0.005]
    recorder = TraceRecorder(lambda: now[0], header={"seed": 3}, sink=lines.append, zero_later=True)
    recorder.fact("checkpoint", do="missing")
    now[0] = 0.205
    assert lines == []
    recorder.start(zero_seconds=0.205, pods=["p"])
    recorder.action("create", pod="p")
    trace = recorder.close()
    assert [record["t"] for record in trace.records] == [-0.2, 0.0]
    assert list(write_lines(trace)) == lines
    assert trace.header["pods"] == ["p"]


def test_what_waits_for_the_zero_is_written_when_the_node_does_not_come_up():
    lines = []
    recorder = TraceRecorder(lambda: 0.5, sink=lines.append, zero_later=True)
    recorder.fact("checkpoint", do="missing")
    recorder.release()
    recorder.release()
    assert [json.loads(line)["k"] for line in lines] == ["header", "checkpoint"]
    assert json.loads(lines[1])["t"] == 0.5


def test_subscribers_see_each_record_and_memory_is_bounded():
    seen = []
    recorder = TraceRecorder(lambda: 0.0, records_max=2)
    recorder.subscribe(seen.append)
    for number in range(5):
        recorder.fact("note", number=number, t="not the clock's")
    assert [record["number"] for record in seen] == [0, 1, 2, 3, 4]
    assert (len(recorder.records), recorder.dropped) == (2, 3)
    assert seen[0]["t"] == 0.0


def test_diff_finds_the_first_record_that_differs():
    first, second = TraceRecorder(lambda: 0.0), TraceRecorder(lambda: 0.0)
    first.action("delete", pod="p")
    second.action("delete", pod="p")
    assert diff(first.trace(), second.trace()) is None
    first.fact("note", text="x")
    second.fact("note", text="y")
    found = diff(first.trace(), second.trace())
    assert (found.index, found.keys) == (1, ("text",))
    assert dumps(found.first) in str(found)
    second.fact("note", text="z")
    assert diff(second.trace(), first.trace()).index == 1
