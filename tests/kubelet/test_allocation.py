"""NOD-70 to NOD-72: promises of resources, and how a resize is judged; the file that outlives the kubelet."""

import json

import pytest

from kubelet_emu.allocation import ResourceRecords
from kubelet_emu.allocation_rules import (
    judge_resize,
    resize_differs,
    resize_in_progress,
    resize_order,
    resize_summary,
    with_resources,
)
from kubelet_emu.api.codec import from_json, pod_from_json
from kubelet_emu.api.types import Node
from kubelet_emu.container.runtime import ContainerState, RuntimeContainer, RuntimePodStatus
from kubelet_emu.kuberuntime.actions import ActuatedView
from kubelet_emu.nodeobject import NodeShape, node_object
from kubelet_emu.settings import KubeletSettings
from node_host.files import MemoryFiles

NODE = from_json(
    Node, node_object(KubeletSettings(), NodeShape(cpu="2", memory="1Gi"), ready_since="2026-01-01T00:00:00Z")
)


def pod(name="p", cpu="500m", memory="64Mi", *, limits=True, **more):
    amounts = {"cpu": cpu, "memory": memory}
    resources = {"requests": amounts, **({"limits": amounts} if limits else {})}
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "generation": 2,
        **more.pop("metadata", {}),
    }
    return pod_from_json(
        {"metadata": metadata, "spec": {"containers": [{"name": "a", "resources": resources}], **more}}
    )


def promise(of):
    return ActuatedView(containers={c.name: c.resources for c in of.spec.containers})


def test_nod_70_a_pod_runs_with_what_it_was_promised():
    wanted, had = pod(cpu="1"), pod(cpu="500m")
    assert with_resources(wanted, promise(had)).spec.containers == had.spec.containers
    assert with_resources(wanted, ActuatedView()) is wanted
    assert with_resources(wanted, promise(wanted)) is wanted


def test_only_cpu_and_memory_make_a_resize():
    assert not resize_differs(pod(), promise(pod()))
    assert resize_differs(pod(cpu="1"), promise(pod()))
    assert resize_differs(pod(memory="65Mi"), promise(pod()))
    assert not resize_differs(pod(cpu="0.5"), promise(pod(cpu="500m")))
    assert not resize_differs(pod(cpu="1"), ActuatedView())


@pytest.mark.parametrize(
    ("state", "progress"), [(ContainerState.RUNNING, True), (ContainerState.EXITED, False)]
)
def test_pod_601_a_resize_is_under_way_while_a_running_container_has_other_amounts(state, progress):
    status = RuntimePodStatus(uid="u", containers=(RuntimeContainer(id="c", name="a", state=state),))
    assert resize_in_progress(pod(cpu="1"), status, promise(pod())) is progress
    assert not resize_in_progress(pod(), status, promise(pod()))


def test_nod_72_answers():
    assert judge_resize(pod(cpu="1500m"), [pod("o", cpu="500m")], NODE).reason == ""
    deferred = judge_resize(pod(cpu="1600m"), [pod("o", cpu="500m")], NODE)
    assert (deferred.reason, deferred.message) == (
        "Deferred",
        "Node didn't have enough resource: cpu, requested: 1600, used: 500, capacity: 2000",
    )
    never = judge_resize(pod(cpu="3"), [], NODE)
    assert (never.reason, never.message) == (
        "Infeasible",
        "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000",
    )
    both = judge_resize(pod(cpu="3", memory="2Gi"), [], NODE)
    assert (
        both.message
        == "Node didn't have enough capacity: memory, requested: 2147483648, capacity: 1073741824"
    )
    static = pod(metadata={"annotations": {"kubernetes.io/config.source": "file"}})
    assert judge_resize(static, [], NODE).reason == "Infeasible"


def test_nod_71_the_order_of_what_waits():
    small = promise(pod(cpu="500m"))
    shrinking = pod("shrinking", cpu="100m")
    first, late = pod("first", cpu="1"), pod("late", cpu="1")
    important = pod("important", cpu="1", priority=1000)
    burstable = pod("burstable", cpu="1", limits=False)
    found = resize_order(
        [
            (late, small, 9),
            (first, small, 1),
            (burstable, small, 0),
            (important, small, 8),
            (shrinking, promise(pod(cpu="500m")), 7),
        ]
    )
    assert [each.metadata.name for each in found] == ["shrinking", "important", "first", "late", "burstable"]


def test_the_json_of_events():
    found = json.loads(resize_summary(pod(), error="too much"))
    amounts = {"cpu": "500m", "memory": "64Mi"}
    assert found == {
        "containers": [{"name": "a", "resources": {"limits": amounts, "requests": amounts}}],
        "generation": 2,
        "error": "too much",
    }


class TestRecords:
    PATH = "/var/lib/kubelet/allocated_pods_state"

    def test_what_one_kubelet_wrote_the_next_one_reads(self):
        files = MemoryFiles()
        first = ResourceRecords(files, self.PATH)
        first.set_pod(pod())
        first.set_pod(pod("q", cpu="1"))
        first.set_container("uid-p", "a", pod(cpu="2").spec.containers[0].resources)
        first.set_pod_level("uid-q", pod(cpu="3").spec.containers[0].resources)
        second = ResourceRecords(files, self.PATH)
        assert second.view("uid-p") == first.view("uid-p")
        assert second.view("uid-q") == first.view("uid-q")
        assert "uid-p" in second
        assert "other" not in second
        assert second.view("other") == ActuatedView()

    def test_forgetting_and_keeping(self):
        files = MemoryFiles()
        records = ResourceRecords(files, self.PATH)
        for name in ("a", "b", "c"):
            records.set_pod(pod(name))
        records.forget("uid-a")
        records.keep({"uid-b"})
        assert ["uid-a" in records, "uid-b" in records, "uid-c" in records] == [False, True, False]
        assert b"uid-c" not in files.read(self.PATH)

    @pytest.mark.parametrize(
        "text",
        [b"", b"[]", b"{", b'{"entries": []}', b'{"entries": {"u": 5}}', b'{"entries": {"u": {}}}', b"\xff"],
    )
    def test_a_file_that_cannot_be_read_counts_as_empty(self, text):
        files = MemoryFiles()
        files.make_dirs("/var/lib/kubelet")
        files.write(self.PATH, text)
        records = ResourceRecords(files, self.PATH)
        assert "u" not in records
        records.set_pod(pod())
        assert "uid-p" in ResourceRecords(files, self.PATH)
