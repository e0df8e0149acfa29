"""What a restarted kubelet, runtime or node knows and does (POD section 12, NOD-)."""

import pytest

POLITE = "trap 'exit 0' TERM; sleep 3600 & wait"
IGNORANT = "trap '' TERM; sleep 3600"


def needs_cpu(script, cpu="1500m"):
    return {"script": script, "resources": {"requests": {"cpu": cpu}}}


def crowded(on_node, busybox, seen, script):
    """Two pods run, the node has become too small for the younger one, the kubelet restarts."""

    async def story(node):
        node.apply(busybox("old", a=needs_cpu("sleep 3600", "1")))
        await node.advance(2)
        node.apply(busybox("young", spec={"restartPolicy": "Never"}, a=needs_cpu(script, "1")))
        await node.advance(5)
        patch = {"status": {"allocatable": {"cpu": "1500m"}, "capacity": {"cpu": "1500m"}}}
        node.store.patch("Node", "", node.settings.node_name, patch)
        before = len(seen(node).snapshots("young"))
        await node.restart_kubelet()
        restarted = node.clock.elapsed_seconds() - node.recorder.zero_seconds
        await node.advance(15)
        return before, restarted, node.pod("young").status, seen(node)

    return on_node(story)


def test_pod_1201_a_rejected_pod_is_killed_as_an_orphan_and_gets_its_statuses_back(on_node, busybox, seen):
    before, restarted, status, look = crowded(on_node, busybox, seen, IGNORANT)
    after = look.snapshots("young")[before:]
    first = after[0]
    assert (first["phase"], first["conditions"], first["containers"]) == ("Running", {}, {})
    stop = next(call for call in look.calls("StopContainer") if call["pod"] == "young")
    assert stop["timeout"] == "2"
    assert 0.0 < stop["t"] - restarted < 2.5
    back = next(s for s in after[1:] if s["containers"])
    assert back["phase"] == "Running"
    assert back["conditions"]["Ready"][1] == "PodFailed"
    assert (status.phase, status.reason) == ("Failed", "OutOfcpu")
    assert status.message.startswith(
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000"
    )
    assert status.container_statuses[0].state.terminated.exit_code == 137
    assert "Node didn't have enough resource: cpu" in look.messages("OutOfcpu")[0]


def test_pod_1201_with_nothing_but_zeros_it_has_succeeded(on_node, busybox, seen):
    _, _, status, _ = crowded(on_node, busybox, seen, POLITE)
    assert (status.phase, status.reason, status.message) == ("Succeeded", None, None)
    assert status.container_statuses[0].state.terminated.exit_code == 0


def test_sta_808_at_once_after_the_restart_conditions_and_addresses_are_gone(on_node, busybox, seen):
    before, _, _, look = crowded(on_node, busybox, seen, IGNORANT)
    first = look.snapshots("young")[before]
    assert not first.get("ip")


def test_pod_1204_a_deletion_counts_afresh_and_its_hook_runs_again(on_node, busybox, seen):
    async def story(node):
        hook = {"lifecycle": {"preStop": {"exec": {"command": ["sleep", "2"]}}}}
        node.apply(busybox(a={"script": IGNORANT, **hook}, b=POLITE))
        await node.advance(3)
        node.delete("p", grace_seconds=22)
        await node.advance(5)
        await node.restart_kubelet(down_seconds=2)
        await node.advance(40)
        return node.pods(), seen(node)

    pods, look = on_node(story)
    assert pods == ()
    stops = look.calls("StopContainer", of="a#0")
    assert [stop["timeout"] for stop in stops] == ["20", "20"]
    assert len(look.calls("ExecSync")) == 2
    assert len(look.calls("StopContainer", of="b#0")) == 1
    assert [event["count"] for event in look.events("Killing", on="{a}")] in ([1, 2], [1, 1])


def test_pod_1202_start_failures_and_back_off_are_forgotten(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a={"script": "true", "image": "127.0.0.1:1/none:1"}))
        await node.advance(25)
        pulls = len(seen(node).calls("PullImage"))
        await node.restart_kubelet()
        await node.advance(2)
        return pulls, len(seen(node).calls("PullImage")), node.pod("p").status.container_statuses[0]

    before, after, status = on_node(story)
    assert after == before + 1
    assert status.state.waiting.reason in ("ErrImagePull", "ContainerCreating")


def test_pod_1202_restart_counts_come_from_the_runtime_and_the_logs(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a="sleep 1; exit 1", b="sleep 3600"))
        await node.advance(15)
        before = node.pod("p").status.container_statuses[0].restart_count
        await node.restart_kubelet()
        await node.advance(3)
        return before, node.pod("p").status.container_statuses

    before, (crashing, running) = on_node(story)
    assert crashing.restart_count in (before, before + 1)
    assert running.restart_count == 0


def test_pod_1203_a_terminal_pod_stays_terminal_and_starts_nothing(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(spec={"restartPolicy": "Never"}, a="sleep 1; exit 3"))
        await node.advance(6)
        await node.restart_kubelet()
        await node.advance(70)
        return node.pod("p").status.phase, seen(node)

    phase, look = on_node(story)
    assert phase == "Failed"
    assert len(look.calls("StartContainer")) == 1
    assert look.phases() == ["Pending", "Running", "Failed"]


def test_pod_1205_a_pod_deleted_by_force_while_the_kubelet_is_away_is_killed_as_an_orphan(
    on_node, busybox, seen
):
    async def story(node):
        hook = {"lifecycle": {"preStop": {"exec": {"command": ["sleep", "9"]}}}}
        node.apply(busybox(a={"script": IGNORANT, **hook}))
        await node.advance(3)
        await node.stop_kubelet()
        node.delete("p", grace_seconds=0)
        await node.restart_kubelet()
        back = node.clock.elapsed_seconds() - node.recorder.zero_seconds
        await node.advance(70)
        return (
            back,
            node.files.exists("/var/lib/kubelet/pods") and node.files.list("/var/lib/kubelet/pods"),
            seen(node),
        )

    back, left, look = on_node(story)
    assert look.timeouts() == ["2"]
    assert look.calls("StopContainer")[0]["t"] - back < 4.5
    assert not look.calls("ExecSync")
    assert not left
    assert look.told("RemovePodSandbox") == ["RemovePodSandbox sandbox#0"]


def test_pod_1207_an_unchanged_container_runs_on(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=POLITE))
        await node.advance(4)
        ids = node.pod("p").status.container_statuses[0].container_id
        for _ in range(3):
            await node.restart_kubelet(down_seconds=1.5)
            await node.advance(2.3)
        return ids, node.pod("p").status.container_statuses[0], seen(node)

    before, status, look = on_node(story)
    assert status.container_id == before
    assert status.ready is True
    assert len(look.calls("StartContainer")) == 1
    assert not look.calls("StopContainer")


def test_an_image_changed_while_the_kubelet_was_away_restarts_the_container(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=POLITE, b=POLITE))
        await node.advance(4)
        await node.stop_kubelet()
        patch = {"spec": {"containers": [{"name": "a", "image": "docker.io/library/busybox:1.35"}]}}
        node.store.patch("Pod", "default", "p", patch)
        await node.restart_kubelet()
        await node.advance(5)
        return [c.restart_count for c in node.pod("p").status.container_statuses], seen(node)

    counts, look = on_node(story)
    assert counts == [1, 0]
    assert look.messages("Killing") == ["Container a definition changed, will be restarted"]


def test_a_kubelet_that_dies_at_any_moment_ends_in_the_same_place(on_node, busybox, seen):
    """Cut the kubelet at each of many moments of a pod's start; the pod comes up with each instance once."""

    def cut_at(moment):
        async def story(node):
            node.apply(busybox(init=[("i", "sleep 1")], a=POLITE, b=POLITE))
            await node.advance(moment)
            await node.restart_kubelet(down_seconds=0.7)
            await node.advance(40)
            status = node.pod("p").status
            return status.phase, [c.restart_count for c in status.container_statuses]

        return on_node(story, latency="measured", seed=round(moment * 1000))

    for step in range(12):
        assert cut_at(0.02 + 0.15 * step) == ("Running", [0, 0]), step


def test_runtime_restart_pods_go_on_and_are_seen_again(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a="sleep 12; exit 1", b=POLITE))
        await node.advance(5)
        await node.runtime.crash()
        await node.advance(10)
        during = node.pod("p").status
        await node.runtime.restart()
        await node.advance(10)
        return during, node.pod("p").status

    during, after = on_node(story)
    assert during.container_statuses[0].state.running is not None
    assert after.container_statuses[0].restart_count == 1
    assert after.container_statuses[1].restart_count == 0


def test_pod_101_a_runtime_that_is_away_for_long_stalls_the_loop(on_node, busybox, seen):
    async def story(node):
        await node.runtime.crash()
        await node.advance(60)
        node.apply(busybox(a=POLITE))
        await node.advance(20)
        during = node.pod("p").status, node.kubelet.runtime_problem()
        await node.runtime.restart()
        await node.advance(15)
        return during, node.pod("p").status

    (status, problem), after = on_node(story)
    assert status.phase == "Pending"
    assert not status.conditions
    assert problem == "container runtime is down"
    assert after.phase == "Running"


@pytest.mark.parametrize("step", range(8))
def test_a_deletion_ends_whenever_the_kubelet_dies(on_node, busybox, seen, step):
    async def story(node):
        hook = {"lifecycle": {"preStop": {"exec": {"command": ["sleep", "1"]}}}}
        slow = "trap 'sleep 1; exit 0' TERM; sleep 3600 & wait"
        side = {"script": slow, "restartPolicy": "Always"}
        node.apply(busybox(init=[("s", side)], a={"script": slow, **hook}))
        await node.advance(4)
        node.delete("p", grace_seconds=12)
        await node.advance(0.05 + 0.6 * step)
        await node.restart_kubelet(down_seconds=0.5)
        await node.advance(60)
        return node.pods(), seen(node)

    pods, look = on_node(story, latency="measured", seed=step)
    assert pods == ()
    assert look.phases()[-1] == "Succeeded"
    assert len(look.calls("CreateContainer")) == 2


@pytest.mark.parametrize("step", range(8))
def test_a_lost_sandbox_is_made_anew_whenever_the_kubelet_dies(on_node, busybox, seen, step):
    async def story(node):
        node.apply(busybox(init=[("i", "sleep 1")], a=POLITE))
        await node.advance(5)
        await node.stop_sandbox("default", "p")
        await node.advance(0.1 + 0.4 * step)
        await node.restart_kubelet(down_seconds=0.5)
        await node.advance(45)
        return node.pod("p").status, seen(node)

    status, look = on_node(story, latency="measured", seed=step)
    assert status.phase == "Running"
    assert status.container_statuses[0].restart_count == 1
    assert len(look.calls("RunPodSandbox")) == 2


@pytest.mark.parametrize("step", range(6))
def test_a_finished_pod_is_reported_whenever_the_kubelet_dies(on_node, busybox, seen, step):
    async def story(node):
        side = {"script": POLITE, "restartPolicy": "Always"}
        node.apply(busybox(spec={"restartPolicy": "Never"}, init=[("s", side)], a="sleep 3; exit 3"))
        await node.advance(3.0 + 0.4 * step)
        await node.restart_kubelet(down_seconds=0.5)
        await node.advance(60)
        return node.pod("p").status, seen(node)

    status, look = on_node(story, latency="measured", seed=step)
    assert status.phase == "Failed"
    assert status.container_statuses[0].state.terminated.exit_code == 3
    assert len(look.calls("StartContainer", of="a#")) == 1


def test_nod_26_a_runtime_away_during_a_deletion(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a="trap '' TERM; sleep 3600"))
        await node.advance(4)
        node.delete("p", grace_seconds=6)
        await node.advance(2)
        await node.runtime.restart(down_seconds=3)
        await node.advance(60)
        return node.pods(), seen(node)

    pods, look = on_node(story)
    assert pods == ()
    assert look.messages("FailedKillPod")[0].startswith("error killing pod: ")
    assert len(look.calls("StopContainer")) == 2
