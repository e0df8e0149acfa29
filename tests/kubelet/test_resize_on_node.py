"""In-place resize on a whole node, as far as restarts hang on it (RST-065 to RST-070, NOD-70 to NOD-72)."""

import json

POLITE = "trap 'exit 0' TERM; sleep 3600 & wait"


def given(cpu="500m", memory="64Mi", script=POLITE, **more):
    amounts = {"cpu": cpu, "memory": memory}
    return {"script": script, "resources": {"requests": amounts, "limits": amounts}, **more}


def resize(node, pod="p", container="a", **amounts):
    patch = {
        "spec": {"containers": [{"name": container, "resources": {"requests": amounts, "limits": amounts}}]}
    }
    node.store.patch("Pod", "default", pod, patch, subresource="resize")


def shown(status):
    resources = status.container_statuses[0].resources
    return {name: str(value) for name, value in resources.limits.items()}


def conditions(status):
    return {c.type: (c.status, c.reason) for c in status.conditions if c.type.startswith("PodResize")}


def test_rst_065_without_a_policy_the_container_runs_on(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=given()))
        await node.advance(4)
        resize(node, cpu="800m", memory="128Mi")
        await node.advance(6)
        return node.pod("p").status, seen(node)

    status, look = on_node(story)
    assert status.container_statuses[0].restart_count == 0
    assert shown(status) == {"cpu": "800m", "memory": "128Mi"}
    assert str(status.container_statuses[0].allocated_resources["cpu"]) == "800m"
    assert conditions(status) == {}
    calls = look.told("UpdatePodSandboxResources", "UpdateContainerResources")
    assert calls.count("UpdateContainerResources a#0") == 2
    assert calls[0] == "UpdatePodSandboxResources sandbox#0"
    assert len(look.events("ResizeStarted")) == len(look.events("ResizeCompleted")) == 1
    text = look.messages("ResizeCompleted")[0].removeprefix("Pod resize completed: ")
    assert json.loads(text)["containers"][0]["resources"]["limits"] == {"cpu": "800m", "memory": "128Mi"}


def test_rst_065_a_policy_of_restart_restarts_that_container_only(on_node, busybox, seen):
    async def story(node):
        policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
        node.apply(busybox(a=given(resizePolicy=policy), b=given(cpu="100m")))
        await node.advance(4)
        resize(node, cpu="500m", memory="128Mi")
        await node.advance(6)
        first = [c.restart_count for c in node.pod("p").status.container_statuses]
        resize(node, cpu="800m", memory="128Mi")
        await node.advance(6)
        return first, node.pod("p").status, seen(node)

    first, status, look = on_node(story)
    assert first == [1, 0]
    assert [c.restart_count for c in status.container_statuses] == [1, 0]
    assert look.messages("Killing") == ["Container a resize requires restart"]
    assert shown(status) == {"cpu": "800m", "memory": "128Mi"}
    assert conditions(status) == {}


def test_nod_71_one_that_does_not_fit_now_waits_until_another_pod_goes(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=given()))
        node.apply(busybox("other", a=given(cpu="1")))
        await node.advance(4)
        resize(node, cpu="1500m", memory="64Mi")
        await node.advance(4)
        waiting = node.pod("p").status
        node.delete("other", grace_seconds=1)
        await node.advance(10)
        return waiting, node.pod("p").status, seen(node)

    waiting, status, look = on_node(story)
    assert conditions(waiting) == {"PodResizePending": ("True", "Deferred")}
    message = next(c.message for c in waiting.conditions if c.type == "PodResizePending")
    assert message == "Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000"
    assert shown(waiting) == {"cpu": "500m", "memory": "64Mi"}
    assert shown(status) == {"cpu": "1500m", "memory": "64Mi"}
    assert conditions(status) == {}
    assert look.messages("ResizeDeferred")[0].startswith('Pod resize Deferred: {"containers":[')


def test_nod_72_one_that_never_fits_is_infeasible(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=given()))
        await node.advance(4)
        resize(node, cpu="9", memory="64Mi")
        await node.advance(4)
        first = node.pod("p").status
        resize(node, cpu="500m", memory="64Mi")
        await node.advance(4)
        return first, node.pod("p").status, seen(node)

    first, after, look = on_node(story)
    assert conditions(first) == {"PodResizePending": ("True", "Infeasible")}
    message = next(c.message for c in first.conditions if c.type == "PodResizePending")
    assert message == "Node didn't have enough capacity: cpu, requested: 9000, capacity: 2000"
    assert conditions(after) == {}
    assert len(look.events("ResizeInfeasible")) == 1
    assert not look.calls("UpdateContainerResources")


def test_rst_070_a_container_that_restarts_gets_what_the_pod_was_promised(on_node, busybox, seen):
    """With a resize that has to wait, a restart still takes the old amounts."""

    async def story(node):
        node.apply(busybox(a=given(script="sleep 8; exit 1")))
        await node.advance(4)
        resize(node, cpu="9", memory="64Mi")
        await node.advance(8)
        return node.pod("p").status

    status = on_node(story)
    assert status.container_statuses[0].restart_count == 1
    assert shown(status) == {"cpu": "500m", "memory": "64Mi"}


def test_pod_1202_promises_outlive_the_kubelet(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=given()))
        await node.advance(4)
        resize(node, cpu="9", memory="64Mi")
        await node.advance(4)
        await node.restart_kubelet()
        await node.advance(6)
        return node.pod("p").status, seen(node)

    status, look = on_node(story)
    assert status.phase == "Running"
    assert conditions(status) == {"PodResizePending": ("True", "Infeasible")}
    assert shown(status) == {"cpu": "500m", "memory": "64Mi"}
    assert not look.calls("UpdateContainerResources")


def test_a_resize_granted_while_the_kubelet_was_away(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=given()))
        await node.advance(4)
        await node.stop_kubelet()
        resize(node, cpu="800m", memory="64Mi")
        await node.restart_kubelet()
        await node.advance(8)
        return node.pod("p").status

    status = on_node(story)
    assert shown(status) == {"cpu": "800m", "memory": "64Mi"}
    assert status.container_statuses[0].restart_count == 0


def test_pod_401_admission_counts_what_pods_were_promised(on_node, busybox):
    async def story(node):
        node.apply(busybox(a=given()))
        await node.advance(4)
        resize(node, cpu="9", memory="64Mi")
        await node.advance(3)
        node.apply(busybox("next", a=given(cpu="1400m")))
        await node.advance(4)
        return node.pod("next").status.phase

    assert on_node(story) == "Running"


def test_the_records_of_pods_that_are_gone_go_too(on_node, busybox):
    async def story(node):
        node.apply(busybox(a=given()))
        await node.advance(4)
        texts = [node.files.read(f"/var/lib/kubelet/{name}_pods_state") for name in ("allocated", "actuated")]
        uid = node.pod("p").metadata.uid.encode()
        node.delete("p")
        await node.advance(10)
        after = [node.files.read(f"/var/lib/kubelet/{name}_pods_state") for name in ("allocated", "actuated")]
        return [uid in text for text in texts], [uid in text for text in after]

    assert on_node(story) == ([True, True], [False, False])


def test_files_that_cannot_be_read_count_as_empty(on_node, busybox):
    async def story(node):
        node.apply(busybox(a=given()))
        await node.advance(4)
        await node.stop_kubelet()
        node.files.write("/var/lib/kubelet/allocated_pods_state", b"{ broken")
        node.files.write("/var/lib/kubelet/actuated_pods_state", b'{"entries": {"x": 1}}')
        await node.restart_kubelet()
        await node.advance(5)
        return node.pod("p").status

    status = on_node(story)
    assert status.phase == "Running"
    assert status.container_statuses[0].restart_count == 0
