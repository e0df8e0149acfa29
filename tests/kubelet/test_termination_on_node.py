"""Deletion, deadlines and final statuses on a whole node (POD section 7, POD-1101, STA-)."""

from kubelet_emu.printers.pods import pod_row

NEVER = {"restartPolicy": "Never"}
POLITE = "trap 'exit 0' TERM; sleep 3600 & wait"
IGNORANT = "trap '' TERM; sleep 3600"


def pre_stop(script):
    return {"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", script]}}}}


def test_pod_516_a_shorter_second_delete_counts_from_the_next_attempt(on_node, busybox, seen):
    """Deleted with 25 s, again with 2 s while the hook of 8 s runs: StopContainer still has 17."""

    async def story(node):
        node.apply(busybox(a={"script": IGNORANT, **pre_stop("sleep 8.3")}))
        await node.advance(3)
        node.delete("p", grace_seconds=25)
        await node.advance(3)
        node.delete("p", grace_seconds=2)
        await node.advance(30)
        return node.pods(), seen(node)

    pods, look = on_node(story)
    assert pods == ()
    assert look.timeouts() == ["17"]


def test_pod_516_a_longer_second_delete_changes_nothing(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a={"script": POLITE, **pre_stop("sleep 5.3")}))
        await node.advance(3)
        node.delete("p", grace_seconds=10)
        await node.advance(1)
        before = node.store.get("Pod", "default", "p")
        node.delete("p", grace_seconds=40)
        after = node.store.get("Pod", "default", "p")
        await node.advance(15)
        return before == after, seen(node)

    same, look = on_node(story)
    assert same
    assert look.timeouts() == ["5"]


def test_pod_516_a_deletion_during_a_post_start_hook_waits_for_the_sync(on_node, busybox, seen):
    """The same sync still starts the containers after it, only to stop them with the deletion's grace."""

    async def story(node):
        hook = {"lifecycle": {"postStart": {"exec": {"command": ["sleep", "6"]}}}}
        node.apply(busybox(a={"script": POLITE, **hook}, b=POLITE))
        await node.advance(2)
        node.delete("p", grace_seconds=9)
        await node.advance(15)
        return node.pods(), seen(node)

    pods, look = on_node(story)
    assert pods == ()
    start = look.calls("StartContainer", of="b#0")[0]["t"]
    stop = look.calls("StopContainer", of="b#0")[0]
    assert 5.9 < start < 6.5
    assert stop["timeout"] == "9"
    assert stop["t"] - start < 1.5


def test_pod_522_a_forced_delete_stops_with_two_seconds_and_writes_no_status(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=IGNORANT))
        await node.advance(3)
        node.delete("p", grace_seconds=0)
        gone = node.pods()
        before = len(seen(node).snapshots())
        await node.advance(10)
        return gone, before, seen(node)

    gone, before, look = on_node(story)
    assert gone == ()
    assert look.timeouts() == ["2"]
    assert len(look.snapshots()) == before
    assert look.told("StopPodSandbox", of="p/sandbox")[:1] == ["StopPodSandbox sandbox#0"]


def test_pod_522_a_pre_stop_hook_gets_one_second_of_a_forced_delete(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox("short", a={"script": POLITE, **pre_stop("sleep 0.4")}))
        node.apply(busybox("long", a={"script": IGNORANT, **pre_stop("sleep 60")}))
        await node.advance(3)
        node.delete("short", grace_seconds=0)
        node.delete("long", grace_seconds=0)
        await node.advance(10)
        return {c["pod"]: c for c in seen(node).calls("StopContainer")}, seen(node)

    stops, look = on_node(story)
    assert 3.3 < stops["short"]["t"] < 3.6
    assert 3.9 < stops["long"]["t"] < 4.2
    assert {stop["timeout"] for stop in stops.values()} == {"2"}
    assert [event["pod"] for event in look.events("FailedPreStopHook")] == ["long"]


def test_pod_522_a_forced_delete_during_a_graceful_one_changes_nothing_on_the_node(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=IGNORANT))
        await node.advance(3)
        node.delete("p", grace_seconds=12)
        await node.advance(3)
        node.delete("p", grace_seconds=0)
        gone = node.pods()
        await node.advance(30)
        return gone, seen(node)

    gone, look = on_node(story)
    assert gone == ()
    assert look.timeouts() == ["12"]
    assert 14.9 < look.exits("a#0")[0]["t"] < 15.5


def test_pod_1102_the_deadline_strikes_up_to_a_second_early(on_node, busybox, seen):
    """startTime is cut to whole seconds: created 0.9 s after one, it strikes 6.1 to 7.1 s later."""

    async def story(node):
        await node.clock.sleep_until(4.9)
        node.apply(busybox(spec={"activeDeadlineSeconds": 7}, a=POLITE))
        await node.advance(20)
        return node.pod("p").status, seen(node)

    status, look = on_node(story)
    assert (status.phase, status.reason) == ("Failed", "DeadlineExceeded")
    assert status.message == "Pod was active on the node longer than the specified deadline"
    assert 6.09 < look.calls("StopContainer")[0]["t"] < 7.11
    assert look.messages("DeadlineExceeded")[0] == status.message
    assert status.container_statuses[0].state.terminated.exit_code == 0


def test_pod_1102_in_a_back_off_wait_there_is_nothing_to_stop(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(spec={"activeDeadlineSeconds": 18}, a="sleep 1; exit 3"))
        await node.advance(30)
        return node.pod("p").status, seen(node)

    status, look = on_node(story)
    assert (status.phase, status.reason) == ("Failed", "DeadlineExceeded")
    assert not look.calls("StopContainer")
    final = status.container_statuses[0]
    assert final.state.terminated.reason == "ContainerStatusUnknown"
    assert final.state.terminated.exit_code == 137
    assert final.last_state.terminated.exit_code == 3
    failed = next(s for s in look.snapshots() if s["phase"] == "Failed")
    assert failed["containers"]["a"]["reason"] in ("CrashLoopBackOff", "ContainerStatusUnknown")


def test_pod_1102_with_init_unfinished_the_rest_stays_waiting(on_node, busybox):
    async def story(node):
        node.apply(busybox(spec={"activeDeadlineSeconds": 4}, init=[("i", POLITE)], a=POLITE))
        await node.advance(15)
        return node.pod("p").status

    status = on_node(story)
    assert (status.phase, status.reason) == ("Failed", "DeadlineExceeded")
    assert status.init_container_statuses[0].state.terminated.exit_code == 0
    assert status.container_statuses[0].state.waiting.reason == "PodInitializing"


def test_sta_805_while_a_deadline_is_enforced_only_the_phase_is_held_back(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(spec={"activeDeadlineSeconds": 5, "terminationGracePeriodSeconds": 6}, a=IGNORANT))
        await node.advance(8)
        during = node.pod("p").status
        await node.advance(10)
        return during, node.pod("p").status

    during, after = on_node(story)
    assert (during.phase, during.reason) == ("Running", None)
    ready = {c.type: (c.status, c.reason) for c in during.conditions}
    assert ready["Ready"] == ("False", "PodFailed")
    assert (after.phase, after.reason) == ("Failed", "DeadlineExceeded")


def test_sta_805_the_same_picture_precedes_a_natural_end(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(spec=NEVER, a="sleep 2; exit 0"))
        await node.advance(8)
        return seen(node)

    look = on_node(story)
    held = [s for s in look.snapshots() if s["conditions"].get("Ready") == ["False", "PodCompleted"]]
    held = held or [
        s for s in look.snapshots() if s["conditions"].get("Ready", [""])[:2] == ["False", "PodCompleted"]
    ]
    assert held[0]["phase"] == "Running"
    assert held[-1]["phase"] == "Succeeded"


def test_sta_209_deleted_in_back_off_a_container_counts_by_its_last_exit(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox("fails", a="sleep 1; exit 3"))
        node.apply(busybox("ends", a="sleep 1; exit 0"))
        await node.advance(20)
        node.delete("fails")
        node.delete("ends")
        await node.advance(10)
        return node.pods(), seen(node)

    pods, look = on_node(story)
    assert pods == ()
    assert look.phases("fails")[-1] == "Failed"
    assert look.phases("ends")[-1] == "Succeeded"
    assert look.containers("a", pod="fails")[-1]["state"] == "terminated"
    assert look.containers("a", pod="fails")[-1]["exitCode"] == 3


def test_sta_209_deleted_before_anything_started_it_ends_failed(on_node, busybox, seen):
    async def story(node):
        given = {"script": "true", "image": "127.0.0.1:1/none:1"}
        node.apply(busybox(a=given))
        await node.advance(5)
        node.delete("p")
        await node.advance(10)
        return node.pods(), seen(node)

    pods, look = on_node(story)
    assert pods == ()
    assert look.phases() == ["Pending", "Failed"]
    final = look.snapshots()[-1]
    assert final["conditions"]["Ready"][1] == "ContainersNotReady"
    assert final["containers"]["a"]["reason"] == "ContainerStatusUnknown"


def test_sta_402_a_startup_probe_holds_started_back_again_after_a_restart(on_node, busybox, seen):
    async def story(node):
        probe = {"exec": {"command": ["true"]}, "periodSeconds": 2, "initialDelaySeconds": 3}
        node.apply(busybox(a={"script": "sleep 8; exit 1", "startupProbe": probe}))
        await node.advance(14)
        return seen(node)

    look = on_node(story)
    started = [(c["id"], c["started"]) for c in look.containers("a") if c["state"] == "running"]
    assert list(dict.fromkeys(started)) == [("a#0", False), ("a#0", True), ("a#1", False), ("a#1", True)]
    assert [c["started"] for c in look.containers("a") if c["state"] == "terminated"] == [False]


def test_sta_402_over_a_kubelet_restart_started_and_ready_stay(on_node, busybox, seen):
    async def story(node):
        script = "touch /up; sleep 5; rm /up; sleep 3600"
        probe = {"exec": {"command": ["cat", "/up"]}, "periodSeconds": 1, "failureThreshold": 2}
        node.apply(busybox(a={"script": script, "startupProbe": probe}))
        await node.advance(20)
        execs = len(seen(node).calls("ExecSync"))
        await node.restart_kubelet()
        await node.advance(30)
        return node.pod("p").status.container_statuses[0], execs, seen(node)

    status, execs, look = on_node(story)
    assert (status.started, status.ready, status.restart_count) == (True, True, 0)
    assert len(look.calls("ExecSync")) == execs
    assert [c["ready"] for c in look.containers("a")] == [False, False, False, True]


def test_sta_1106_a_crash_looping_sidecar_prints_init_error(on_node, busybox):
    """Shown nearly all the time, as the waiting state reaches the API late."""

    async def story(node):
        side = {"script": "sleep 1; exit 3", "restartPolicy": "Always"}
        node.apply(busybox(init=[("s", side)], a="sleep 3600"))
        await node.advance(9)
        return pod_row(node.pod("p"), node.clock.now_ns()), node.pod("p").status.phase

    row, phase = on_node(story)
    assert (row.status, row.ready, phase) == ("Init:Error", "1/2", "Running")


def test_sta_808_a_rejected_pod_keeps_only_a_few_fields(on_node, busybox):
    """One that had run before gets more: see ``test_kubelet_restart_on_node``."""

    async def story(node):
        pod = busybox(spec={"os": {"name": "windows"}}, a="sleep 3600")
        node.apply(pod)
        await node.advance(5)
        return node.store.get("Pod", "default", "p")["status"]

    status = on_node(story)
    assert sorted(status) == ["message", "observedGeneration", "phase", "qosClass", "reason", "startTime"]
    assert status["phase"] == "Failed"
