"""Admission, preemption and rejected pods on a whole node (POD section 4, NOD-30 to NOD-40)."""

from itertools import pairwise

import pytest

from kubelet_emu.nodeobject import NodeShape

POLITE = "trap 'exit 0' TERM; sleep 3600 & wait"
CRITICAL = {"priority": 2_000_000_000, "priorityClassName": "system-node-critical"}


def cpu(amount, script=POLITE):
    return {"script": script, "resources": {"requests": {"cpu": amount}}}


REFUSALS = {
    "OutOfcpu": (
        {"containers_cpu": "9"},
        "Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 2000",
    ),
    "PodOSNotSupported": (
        {"os": {"name": "windows"}},
        "Failed to admit pod as the OS field doesn't match node OS",
    ),
    "NodeAffinity": (
        {"nodeSelector": {"disk": "ssd"}},
        "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    ),
    "SysctlForbidden": (
        {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
        'forbidden sysctl: "kernel.msgmax" not allowlisted',
    ),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_pod_401_407_a_refused_pod_fails_with_reason_and_event(on_node, busybox, seen, reason):
    spec, text = REFUSALS[reason]

    async def story(node):
        given = dict(spec)
        amount = given.pop("containers_cpu", None)
        node.apply(busybox(spec=given, a=cpu(amount) if amount else POLITE))
        await node.advance(5)
        return node.pod("p").status, seen(node)

    status, look = on_node(story)
    assert (status.phase, status.reason, status.message) == ("Failed", reason, f"Pod was rejected: {text}")
    assert status.start_time is not None
    assert status.container_statuses == ()
    assert [(e["type"], e["message"]) for e in look.events(reason)] == [("Warning", text)]
    assert not look.calls("RunPodSandbox")


def test_pod_401_host_ports_and_pod_count(on_node, busybox, seen):
    async def story(node):
        port = {"script": POLITE, "ports": [{"containerPort": 80, "hostPort": 8080}]}
        node.apply(busybox("one", a=port))
        node.apply(busybox("two", a=port))
        await node.advance(3)
        node.apply(busybox("three", a=POLITE))
        await node.advance(3)
        return {pod.metadata.name: (pod.status.phase, pod.status.reason) for pod in node.pods()}

    found = on_node(story, shape=NodeShape(pods=1))
    assert found["one"] == ("Running", None)
    assert found["two"] == ("Failed", "OutOfpods")
    assert found["three"] == ("Failed", "OutOfpods")
    found = on_node(story)
    assert found["two"] == ("Failed", "NodePorts")
    assert found["three"] == ("Running", None)


def test_pod_409_a_rejected_pod_can_be_deleted(on_node, busybox):
    async def story(node):
        node.apply(busybox(a=cpu("9")))
        await node.advance(5)
        pod = node.pod("p")
        patch = {"metadata": {"finalizers": ["example.com/wait"]}}
        node.store.patch("Pod", "default", "p", patch)
        node.delete("p")
        await node.advance(10)
        return pod.status.phase, [p.metadata.deletion_timestamp is not None for p in node.pods()]

    assert on_node(story) == ("Failed", [True])


def test_pod_408_a_rejected_pod_stays_rejected_over_a_kubelet_restart(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=cpu("9")))
        await node.advance(5)
        patch = {"status": {"allocatable": {"cpu": "64"}, "capacity": {"cpu": "64"}}}
        node.store.patch("Node", "", node.settings.node_name, patch)
        await node.restart_kubelet()
        await node.advance(70)
        return node.pod("p").status, seen(node)

    status, look = on_node(story)
    assert (status.phase, status.reason) == ("Failed", "OutOfcpu")
    assert not look.calls("RunPodSandbox")


def test_pod_308_a_finished_pod_makes_room(on_node, busybox):
    async def story(node):
        node.apply(busybox("done", spec={"restartPolicy": "Never"}, a=cpu("1500m", "sleep 2")))
        await node.advance(6)
        node.apply(busybox("next", a=cpu("1500m")))
        await node.advance(4)
        return node.pod("done").status.phase, node.pod("next").status.phase

    assert on_node(story) == ("Succeeded", "Running")


def test_pod_308_a_terminating_pod_still_counts(on_node, busybox):
    async def story(node):
        node.apply(busybox("going", a=cpu("1500m", "trap '' TERM; sleep 3600")))
        await node.advance(3)
        node.delete("going", grace_seconds=20)
        await node.advance(2)
        node.apply(busybox("next", a=cpu("1500m")))
        await node.advance(4)
        return node.pod("next").status.reason

    assert on_node(story) == "OutOfcpu"


def test_pod_404_405_a_critical_pod_takes_the_place_of_another(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox("small", a=cpu("100m")))
        node.apply(busybox("victim", a=cpu("1700m", "trap 'sleep 2; exit 1' TERM; sleep 3600 & wait")))
        await node.advance(3)
        node.apply(busybox("critical", spec=CRITICAL, a=cpu("1")))
        await node.advance(15)
        return {pod.metadata.name: pod.status for pod in node.pods()}, seen(node)

    statuses, look = on_node(story)
    assert statuses["critical"].phase == "Running"
    assert statuses["small"].phase == "Running"
    victim = statuses["victim"]
    assert (victim.phase, victim.reason) == ("Failed", "Preempting")
    assert victim.message == "Preempted in order to admit critical pod"
    target = next(c for c in victim.conditions if c.type == "DisruptionTarget")
    assert (target.status, target.reason) == ("True", "TerminationByKubelet")
    assert look.messages("Preempting") == ["Preempted in order to admit critical pod"]
    stop = next(call for call in look.calls("StopContainer") if call["pod"] == "victim")
    start = next(call for call in look.calls("RunPodSandbox") if call["pod"] == "critical")
    assert start["t"] >= stop["t"] + stop["dt"]


def test_pod_404_without_anyone_to_preempt_a_critical_pod_is_refused(on_node, busybox):
    async def story(node):
        node.apply(busybox(spec=CRITICAL, a=cpu("9")))
        await node.advance(5)
        return node.pod("p").status

    status = on_node(story)
    assert (status.phase, status.reason) == ("Failed", "UnexpectedAdmissionError")
    assert "preemption: error finding a set of pods to preempt" in status.message


def test_host_network_pods_have_the_nodes_address(on_node, busybox):
    async def story(node):
        node.apply(busybox(spec={"hostNetwork": True}, a=POLITE))
        await node.advance(4)
        return node.pod("p").status

    status = on_node(story)
    assert status.pod_ip == status.host_ip == "192.0.2.10"
    assert [entry.ip for entry in status.pod_ips] == ["192.0.2.10"]


def test_pod_601_without_a_network_only_host_network_pods_start(on_node, busybox, seen):
    async def story(node):
        node.runtime.set_network_ready(False)
        await node.advance(6)
        node.apply(busybox("own", a=POLITE))
        node.apply(busybox("host", spec={"hostNetwork": True}, a=POLITE))
        await node.advance(10)
        during = node.pod("own").status.phase, node.pod("host").status.phase
        node.runtime.set_network_ready(True)
        await node.advance(10)
        return during, node.pod("own").status.phase, seen(node)

    during, after, look = on_node(story)
    assert during == ("Pending", "Running")
    assert after == "Running"
    text = (
        "network is not ready: container runtime network not ready: NetworkReady=false "
        "reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"
    )
    assert set(look.messages("NetworkNotReady")) == {text}
    at = [event["t"] for event in look.events("NetworkNotReady")]
    assert all(0.9 < b - a < 3.1 for a, b in pairwise(at))
