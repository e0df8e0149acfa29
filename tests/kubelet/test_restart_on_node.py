"""Restarts as recorded on a real node, each statement told on a whole node (RST-)."""

NEVER = {"restartPolicy": "Never"}
POLITE = "trap 'exit 0' TERM; sleep 3600 & wait"
RESTART_137 = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [137]}}]


def liveness(**more):
    return {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1, **more}


def test_rst_033_a_never_pod_without_its_sandbox_stays_running_with_nothing_running(on_node, busybox, seen):
    """Also RST-089: an ephemeral container that is added then does not start."""

    async def story(node):
        worker = {"script": "sleep 3600", "restartPolicy": "Always"}
        node.apply(busybox(spec=NEVER, a=worker))
        await node.advance(5)
        await node.stop_sandbox("default", "p")
        await node.advance(100)
        debug = {"name": "dbg", "image": "docker.io/library/busybox:1.36", "command": ["sh", "-c", "sleep 9"]}
        patch = {"spec": {"ephemeralContainers": [debug]}}
        node.store.patch("Pod", "default", "p", patch, subresource="ephemeralcontainers")
        await node.advance(100)
        return node.pod("p").status, seen(node)

    status, look = on_node(story)
    assert status.phase == "Running"
    assert status.container_statuses[0].state.terminated.exit_code == 137
    assert status.ephemeral_container_statuses[0].state.waiting.reason == "ContainerCreating"
    assert len(look.calls("RunPodSandbox")) == 1
    assert len(look.calls("CreateContainer")) == 1
    assert len(look.calls("StopPodSandbox")) >= 3
    assert not look.events("SandboxChanged")


def test_rst_034_a_container_that_never_restarts_starts_again_in_a_new_sandbox(on_node, busybox, seen):
    async def story(node):
        node.apply(
            busybox(
                ok={"script": "sleep 1; exit 0", "restartPolicy": "Never"},
                bad={"script": "sleep 1; exit 3", "restartPolicy": "Never"},
                once={"script": "sleep 1; exit 0", "restartPolicy": "OnFailure"},
                keep="sleep 3600",
            )
        )
        await node.advance(5)
        await node.stop_sandbox("default", "p")
        await node.advance(10)
        return {c.name: c.restart_count for c in node.pod("p").status.container_statuses}, seen(node)

    counts, look = on_node(story)
    assert counts == {"ok": 1, "bad": 1, "once": 0, "keep": 1}
    assert len(look.calls("RunPodSandbox")) == 2


def test_rst_034_alone_it_ends_the_pod_first(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(bad={"script": "sleep 60; exit 3", "restartPolicy": "Never"}))
        await node.advance(5)
        await node.stop_sandbox("default", "p")
        await node.advance(10)
        return node.pod("p").status.phase, seen(node)

    phase, look = on_node(story)
    assert phase == "Failed"
    assert len(look.calls("RunPodSandbox")) == 1


def test_rst_059_a_rule_restarts_what_a_probe_killed_beside_a_running_container(on_node, busybox, seen):
    async def story(node):
        node.apply(
            busybox(
                spec={**NEVER, "terminationGracePeriodSeconds": 2},
                a={
                    "livenessProbe": liveness(),
                    "restartPolicy": "Never",
                    "restartPolicyRules": RESTART_137,
                },
                b="sleep 3600",
            )
        )
        await node.advance(8)
        return node.pod("p").status.container_statuses[0], seen(node)

    status, look = on_node(story)
    assert status.restart_count >= 1
    assert status.last_state.terminated.exit_code == 137
    assert look.messages("Killing")[0] == "Container a failed liveness probe"
    assert len(look.calls("RunPodSandbox")) == 1


def test_rst_059_alone_in_a_never_pod_it_is_stuck(on_node, busybox, seen):
    async def story(node):
        node.apply(
            busybox(
                spec={**NEVER, "terminationGracePeriodSeconds": 2},
                a={
                    "livenessProbe": liveness(),
                    "restartPolicy": "Never",
                    "restartPolicyRules": RESTART_137,
                },
            )
        )
        await node.advance(60)
        return node.pod("p").status, seen(node)

    status, look = on_node(story)
    assert status.phase == "Running"
    assert status.container_statuses[0].restart_count == 0
    assert status.container_statuses[0].state.terminated.exit_code == 137
    assert len(look.calls("CreateContainer")) == 1


def test_rst_059_alone_in_an_always_pod_it_comes_back_in_a_new_sandbox(on_node, busybox, seen):
    async def story(node):
        node.apply(
            busybox(
                spec={"terminationGracePeriodSeconds": 2},
                a={
                    "livenessProbe": liveness(initialDelaySeconds=3),
                    "restartPolicy": "Never",
                    "restartPolicyRules": RESTART_137,
                },
            )
        )
        await node.advance(8)
        return node.pod("p").status, seen(node)

    status, look = on_node(story)
    assert status.container_statuses[0].restart_count == 1
    assert len(look.calls("RunPodSandbox")) == 2
    assert look.messages("SandboxChanged") == ["Pod sandbox changed, it will be killed and re-created."]


def test_rst_061_a_probes_grace_counts_only_while_another_container_runs(on_node, busybox, seen):
    def pod(name, **others):
        killed = {"livenessProbe": liveness(terminationGracePeriodSeconds=9, failureThreshold=2)}
        return busybox(name, spec={**NEVER, "terminationGracePeriodSeconds": 4}, a=killed, **others)

    async def story(node):
        node.apply(pod("alone"))
        node.apply(pod("beside", b="sleep 3600"))
        await node.advance(15)
        stops = seen(node).calls("StopContainer")
        return {stop["pod"]: stop["timeout"] for stop in stops}, seen(node).messages("Killing")

    timeouts, killing = on_node(story)
    assert timeouts == {"alone": "4", "beside": "9"}
    assert sorted(killing) == ["Container a failed liveness probe", "Stopping container a"]


def test_rst_115_the_first_loss_of_a_sandbox_restarts_at_once_the_second_waits(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(init=[("setup", "true")], a="sleep 3600"))
        await node.advance(5)
        await node.stop_sandbox("default", "p")
        await node.advance(5)
        first = [record["t"] for record in seen(node).calls("StartContainer")]
        await node.stop_sandbox("default", "p")
        await node.advance(30)
        return first, seen(node)

    first, look = on_node(story)
    assert len(first) == 4
    assert first[-1] < 8.0
    assert [event["on"] for event in look.events("BackOff")][:2] == [
        "spec.initContainers{setup}",
        "spec.containers{a}",
    ]
    third = [record["t"] for record in look.calls("StartContainer", of="a#2")]
    assert 20.0 < third[0] < 27.0
    assert len(look.calls("RunPodSandbox")) == 3


def test_rst_115_a_back_off_from_before_the_loss_counts_in_the_new_sandbox(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(bad="sleep 1; exit 1", keep="sleep 3600"))
        await node.advance(20)  # two starts beyond the first: the entry stands at 20 s
        starts = len(seen(node).calls("StartContainer", of="bad#"))
        await node.stop_sandbox("default", "p")
        await node.advance(5)
        return starts, node.pod("p").status.container_statuses, seen(node)

    starts, (bad, keep), look = on_node(story)
    assert starts == 3
    assert bad.state.waiting.reason == "CrashLoopBackOff"
    assert keep.state.running is not None
    assert len(look.calls("StartContainer", of="bad#")) == 3


def test_rst_170_a_kubelet_restart_forgets_the_back_off(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a="sleep 1; exit 1"))
        await node.advance(20)  # in back-off of 20 s
        before = len(seen(node).calls("StartContainer"))
        await node.restart_kubelet()
        restarted = node.recorder.records[-1]["t"]
        await node.advance(40)
        starts = [record["t"] for record in seen(node).calls("StartContainer")]
        return before, restarted, starts

    before, restarted, starts = on_node(story)
    assert starts[before] - restarted < 3.0
    assert 10.0 < starts[before + 1] - starts[before] < 18.0


def test_rst_186_only_the_first_init_container_keeps_its_attempt_over_a_sandbox_loss(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(init=[("one", "sleep 1"), ("two", "sleep 1")], a="sleep 3600"))
        await node.advance(5)
        await node.stop_sandbox("default", "p")
        await node.advance(10)
        created = seen(node).calls("CreateContainer")[3:]
        counts = {c.name: c.restart_count for c in node.pod("p").status.init_container_statuses}
        return {record["name"]: record["attempt"] for record in created}, counts

    attempts, counts = on_node(story)
    assert attempts == {"one": 1, "two": 0, "a": 1}
    assert counts == {"one": 1, "two": 1}


def test_rst_186_caught_by_its_back_off_the_first_init_container_starts_from_nothing(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(init=[("one", "true")], a="sleep 3600"))
        await node.advance(5)
        await node.stop_sandbox("default", "p")
        await node.advance(5)
        await node.stop_sandbox("default", "p")
        await node.advance(30)
        created = [r for r in seen(node).calls("CreateContainer") if r["name"] == "one"]
        return [record["attempt"] for record in created], node.pod("p").status.init_container_statuses[0]

    attempts, status = on_node(story)
    assert attempts == [0, 1, 0]
    assert status.restart_count == 1


def test_rst_201_a_sidecars_trigger_is_lost_with_the_pod(on_node, busybox, seen):
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]

    async def story(node):
        trigger = {"script": "sleep 3; exit 42", "restartPolicy": "Always", "restartPolicyRules": rules}
        node.apply(busybox(spec=NEVER, init=[("s", trigger)], main="sleep 3; exit 0"))
        await node.advance(20)
        return node.pod("p").status.phase, seen(node)

    phase, look = on_node(story)
    assert phase == "Succeeded"
    assert len(look.calls("CreateContainer")) == 2


def test_rst_201_unless_another_sidecar_still_runs(on_node, busybox, seen):
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]

    async def story(node):
        trigger = {"script": "sleep 2.99; exit 42", "restartPolicy": "Always", "restartPolicyRules": rules}
        other = {"script": "sleep 3600", "restartPolicy": "Always"}
        node.apply(busybox(spec=NEVER, init=[("o", other), ("s", trigger)], main="sleep 3; exit 0"))
        await node.advance(9)
        return node.pod("p").status, seen(node)

    _, look = on_node(story)
    stopped = look.told("StopContainer", "RemoveContainer")[:4]
    assert stopped == [
        "RemoveContainer main#0",
        "StopContainer o#0/2",
        "RemoveContainer o#0",
        "RemoveContainer s#0",
    ]
    assert look.told("StartContainer")[3:6] == [
        "StartContainer o#1",
        "StartContainer s#1",
        "StartContainer main#1",
    ]


def test_rst_201_a_sidecar_stopped_at_the_end_triggers_nothing(on_node, busybox, seen):
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]

    async def story(node):
        def sidecar(script):
            return {"script": script, "restartPolicy": "Always", "restartPolicyRules": rules}

        ends = "trap 'exit 42' TERM; sleep 3600 & wait"
        node.apply(
            busybox(spec=NEVER, init=[("x", sidecar(ends)), ("y", sidecar(ends))], main="sleep 2; exit 0")
        )
        await node.advance(30)
        return node.pod("p").status.phase, seen(node)

    phase, look = on_node(story)
    assert phase == "Succeeded"
    assert len(look.calls("CreateContainer")) == 3
    assert ("True", "RestartAllContainersStarted") not in [
        c[:2] for c in look.condition("AllContainersRestarting")
    ]


def test_pod_1008_one_dead_instance_remains_beside_the_current_one(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a="sleep 1; exit 1"))
        await node.advance(60)
        return seen(node)

    look = on_node(story)
    removed = look.calls("RemoveContainer")
    assert [record["container"] for record in removed] == ["a#0", "a#1", "a#2"]
    told = [event["t"] for event in look.events("BackOff")]
    assert all(abs(record["t"] - at) < 0.1 for record, at in zip(removed, told, strict=True))
