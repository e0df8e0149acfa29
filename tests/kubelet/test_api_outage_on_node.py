"""A node whose API server goes away, conflicts, or is written to by others (STA section 7, NOD-26)."""

import trio

POLITE = "trap 'exit 0' TERM; sleep 3600 & wait"
NEVER = {"restartPolicy": "Never"}


def test_pods_go_on_and_catch_up_when_the_api_is_back(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a="sleep 4; exit 1", b=POLITE))
        await node.advance(2)
        node.api.available = False
        await node.advance(40)
        during = node.pod("p").status
        node.api.available = True
        await node.advance(20)
        return during, node.pod("p").status, seen(node)

    during, after, look = on_node(story)
    assert during.container_statuses[0].restart_count == 0
    assert after.container_statuses[0].restart_count >= 2
    assert len(look.calls("StartContainer", of="a#")) >= 3


def test_a_pod_that_ends_meanwhile_is_reported_later(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(spec=NEVER, a="sleep 4; exit 3"))
        await node.advance(2)
        node.api.available = False
        await node.advance(30)
        node.api.available = True
        await node.advance(20)
        return node.pod("p").status, seen(node)

    status, look = on_node(story)
    assert status.phase == "Failed"
    assert status.container_statuses[0].state.terminated.exit_code == 3
    assert look.phases() == ["Pending", "Running", "Failed"]


def test_a_pod_deleted_meanwhile_is_stopped_once_the_watch_is_back(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=POLITE))
        await node.advance(3)
        node.api.available = False
        await node.advance(5)
        node.delete("p")
        await node.advance(10)
        node.api.available = True
        await node.advance(60)
        return node.pods(), seen(node)

    pods, look = on_node(story)
    assert pods == ()
    assert look.timeouts() == ["30"]


def test_pod_522_one_that_vanished_unseen_is_stopped_with_its_own_grace(on_node, busybox, seen):
    """A kubelet that never saw the change to grace 0 kills with the grace of the specification."""

    async def story(node):
        node.apply(busybox(spec={"terminationGracePeriodSeconds": 7}, a=POLITE))
        await node.advance(3)
        node.api.available = False
        await node.advance(2)
        node.delete("p", grace_seconds=0)
        node.api.available = True
        await node.advance(60)
        return seen(node)

    assert on_node(story).timeouts() == ["7"]


def test_evt_03_events_are_kept_and_sent_again(on_node, busybox, seen):
    async def story(node):
        await node.advance(1)
        node.apply(busybox(a="sleep 2; exit 1", b=POLITE))
        await node.advance(1)
        node.api.available = False
        await node.advance(25)
        before = len(node.events())
        node.api.available = True
        await node.advance(60)
        return before, seen(node)

    before, look = on_node(story)
    assert before == len({(e["reason"], e["on"]) for e in look.events() if e["t"] <= 1})
    assert look.events("BackOff")


def test_sta_705_tampering_with_the_status_is_reverted(on_node, busybox):
    async def story(node):
        node.apply(busybox(a=POLITE))
        await node.advance(4)
        patch = {"status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}}
        node.store.patch("Pod", "default", "p", patch, subresource="status")
        await node.advance(12)
        status = node.pod("p").status
        return status.phase, {c.type: c.status for c in status.conditions}["Ready"]

    assert on_node(story) == ("Running", "True")


def test_sta_502_conditions_of_others_are_kept(on_node, busybox):
    async def story(node):
        node.apply(busybox(a="sleep 4; exit 1"))
        await node.advance(2)
        patch = {"status": {"conditions": [{"type": "example.com/Mine", "status": "True"}]}}
        node.store.patch("Pod", "default", "p", patch, subresource="status")
        await node.advance(15)
        return {c.type: c.status for c in node.pod("p").status.conditions}.get("example.com/Mine")

    assert on_node(story) == "True"


def test_sta_504_readiness_gates_are_followed(on_node, busybox):
    async def story(node):
        spec = {"readinessGates": [{"conditionType": "example.com/Mine"}]}
        node.apply(busybox(spec=spec, a=POLITE))
        await node.advance(4)
        before = next(c for c in node.pod("p").status.conditions if c.type == "Ready")
        patch = {"status": {"conditions": [{"type": "example.com/Mine", "status": "True"}]}}
        node.store.patch("Pod", "default", "p", patch, subresource="status")
        await node.advance(4)
        after = next(c for c in node.pod("p").status.conditions if c.type == "Ready")
        return before, after

    before, after = on_node(story)
    assert (before.status, before.reason) == ("False", "ReadinessGatesNotReady")
    assert (
        before.message == 'corresponding condition of pod readiness gate "example.com/Mine" does not exist.'
    )
    assert after.status == "True"


def test_sta_703_a_pod_replaced_under_its_name_gets_no_status_of_the_old_one(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(spec=NEVER, a="trap 'sleep 2; exit 3' TERM; sleep 3600 & wait"))
        await node.advance(3)
        first = node.pod("p").metadata.uid
        node.delete("p", grace_seconds=0)
        node.apply(busybox(a=POLITE))
        await node.advance(15)
        return first, node.pod("p"), seen(node)

    first, pod, look = on_node(story)
    assert pod.metadata.uid != first
    assert pod.status.phase == "Running"
    assert pod.status.container_statuses[0].restart_count == 0
    assert len(look.calls("RunPodSandbox")) == 2


def test_a_missing_object_during_an_outage_keeps_the_pod_waiting(on_node, busybox):
    async def story(node):
        env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]
        node.apply_object(
            {"kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}, "data": {"k": "v"}}
        )
        node.apply(busybox(a={"script": "sleep 2; exit 1", "env": env}))
        await node.advance(1)
        node.api.available = False
        await node.advance(30)
        node.api.available = True
        await node.advance(40)
        return node.pod("p").status

    status = on_node(story)
    assert status.phase == "Running"
    assert status.container_statuses[0].restart_count >= 2


def test_the_kubelet_starts_without_the_api_and_registers_later(on_node, busybox):
    async def story(node):
        node.apply(busybox(a=POLITE))
        await node.advance(3)
        await node.stop_kubelet()
        node.api.available = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.restart_kubelet)
            await node.advance(15)
            node.api.available = True
        await node.advance(60)
        return node.pod("p").status

    status = on_node(story)
    assert status.phase == "Running"
    assert status.container_statuses[0].restart_count == 0


def test_an_object_that_was_never_read_cannot_be_had_while_the_api_is_away(on_node, busybox, seen):
    async def story(node):
        node.apply_object(
            {"kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}, "data": {"k": "v"}}
        )
        env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]
        node.apply(busybox("env", init=[("i", "sleep 2")], a={"script": POLITE, "env": env}))
        await node.advance(1)
        node.api.available = False
        await node.advance(15)
        node.api.available = True
        await node.advance(30)
        return node.pod("env").status.phase, seen(node).messages("Failed")

    phase, failed = on_node(story)
    assert phase == "Running"
    assert failed[0] == "Error: failed to sync configmap cache: timed out waiting for the condition"
