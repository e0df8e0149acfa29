# pyright: basic
"""A node whose runtime tells of its containers (gate EventedPLEG; POD-915, POD-916, CRI-143)."""

import pytest

from kubelet_emu.gates import Gates
from kubelet_emu.settings import KubeletSettings

GATED = KubeletSettings(gates=Gates({"EventedPLEG": True}))


def told_by_events(node):
    return [
        r["outcome"]["events"]
        for r in node.recorder.records
        if r["k"] == "decision" and r["machine"] == "pleg" and r["rules"][0].startswith("POD-915")
    ]


@pytest.mark.parametrize("latency", ["zero", "measured"])
def test_pod_915_a_container_that_exits_is_restarted_by_its_event(on_node, busybox, seen, latency):
    async def story(node):
        node.apply(busybox(a="sleep 5; exit 3"))
        await node.advance(60)
        return node.pod("p").status, seen(node), told_by_events(node), node.kubelet.pleg.relists

    status, look, told, relists = on_node(story, settings=GATED, latency=latency)
    starts = look.calls("StartContainer")
    ends = look.exits("a#0")
    assert starts[1]["t"] - ends[0]["t"] < 0.5, "an event comes at once, a relist after up to a second"
    assert status.container_statuses[0].restart_count >= 2
    assert any(kind.startswith("ContainerDied") for events in told for kind in events)
    assert relists == 1


def test_pod_915_nothing_is_told_by_events_without_the_gate(on_node, busybox):
    async def story(node):
        node.apply(busybox(a="sleep 5; exit 3"))
        await node.advance(20)
        return told_by_events(node), node.kubelet.pleg.relists

    told, relists = on_node(story)
    assert told == []
    assert relists > 15


def test_pod_915_deletion_of_a_pod_ends(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a="trap 'exit 0' TERM; sleep 3600 & wait", b="sleep 3600"))
        await node.advance(5)
        node.delete("p", grace_seconds=3)
        await node.advance(20)
        return [pod.metadata.name for pod in node.pods()]

    assert on_node(story, settings=GATED) == []


def test_pod_915_a_whole_restart_in_place(on_node, busybox, seen):
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}]
    watcher = {"script": "if [ -f /w/x ]; then sleep 3600; fi; touch /w/x; sleep 4; exit 88"}
    watcher |= {"restartPolicy": "Never", "restartPolicyRules": rules}
    mount = {"volumeMounts": [{"name": "w", "mountPath": "/w"}]}

    async def story(node):
        spec = {"volumes": [{"name": "w", "emptyDir": {}}], "restartPolicy": "Never"}
        node.apply(busybox(spec=spec, a="sleep 3600", b=watcher | mount))
        await node.advance(40)
        return node.pod("p").status

    status = on_node(story, settings=GATED)
    assert [(c.name, c.restart_count, c.ready) for c in status.container_statuses] == [
        ("a", 1, True),
        ("b", 1, True),
    ]


def test_pod_916_after_five_ends_of_the_stream_the_relist_of_each_second_is_back(on_node, busybox, seen):
    async def story(node):
        for _ in range(5):
            await node.advance(10)
            await node.restart_runtime(down_seconds=0.5)
        await node.advance(10)
        before = node.kubelet.pleg.relists
        await node.advance(10)
        again = node.kubelet.pleg.relists - before
        node.apply(busybox(a="sleep 5; exit 3"))
        await node.advance(10)
        return again, node.kubelet.pleg.period_seconds, seen(node)

    again, period, look = on_node(story, settings=GATED)
    assert period == 1.0
    assert again >= 9
    assert len(look.calls("StartContainer", of="a#1")) == 1
