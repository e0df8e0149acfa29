"""Lifecycle hooks on a whole node (HOK-)."""

NEVER = {"restartPolicy": "Never"}


def hooks(**given):
    def handler(entry):
        return {"exec": {"command": ["sh", "-c", entry]}} if isinstance(entry, str) else entry

    return {"lifecycle": {key: handler(entry) for key, entry in given.items()}}


def test_hok_01_a_post_start_hook_ends_with_its_container(on_node, busybox, seen):
    """The hook fails, StopContainer goes to the exited container, the next one starts in the same sync."""

    async def story(node):
        first = {"script": "sleep 2; exit 0", **hooks(postStart="sleep 30")}
        node.apply(busybox(spec=NEVER, a=first, b="sleep 3600"))
        await node.advance(1)
        during = node.pod("p").status
        await node.advance(4)
        return during, seen(node)

    during, look = on_node(story)
    assert during.phase == "Pending"
    assert during.container_statuses[0].state.waiting.reason == "ContainerCreating"
    told = look.told("StartContainer", "StopContainer")
    assert told == ["StartContainer a#0", "StopContainer a#0/30", "StartContainer b#0"]
    start_b = look.calls("StartContainer", of="b#0")[0]["t"]
    assert 1.9 < start_b < 2.4
    assert look.messages("FailedPostStartHook", on="{a}") == ["PostStartHook failed"]
    assert look.messages("Killing") == ["FailedPostStartHook"]


def test_hok_02_a_failed_post_start_hook_shows_as_waiting_with_its_text(on_node, busybox, seen):
    async def story(node):
        first = {"script": "trap 'exit 0' TERM; sleep 3600 & wait", **hooks(postStart="echo oh; exit 7")}
        node.apply(busybox(a=first))
        await node.advance(12)
        return seen(node)

    look = on_node(story)
    waiting = next(c for c in look.containers("a") if c.get("reason") == "PostStartHookError")
    assert "PostStartHookError" in waiting["reason"]
    text = 'Exec lifecycle hook ([sh -c echo oh; exit 7]) for Container "a" in Pod "p_default('
    assert waiting["message"].startswith(text) or "<uid" in waiting["message"]
    assert look.messages("Killing")[0] == "FailedPostStartHook"


def test_hok_03_in_a_one_container_never_pod_it_fails_without_ever_having_run(on_node, busybox, seen):
    async def story(node):
        spec = {**NEVER, "terminationGracePeriodSeconds": 2}
        node.apply(busybox(spec=spec, a={"script": "trap '' TERM; sleep 3600", **hooks(postStart="false")}))
        await node.advance(10)
        return node.pod("p").status, seen(node)

    status, look = on_node(story)
    assert look.phases() == ["Pending", "Failed"]
    assert status.container_statuses[0].state.terminated.exit_code == 137


def test_hok_03_rules_see_the_code_of_the_kill(on_node, busybox, seen):
    async def story(node):
        rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [137]}}]
        spec = {
            **NEVER,
            "terminationGracePeriodSeconds": 2,
            "volumes": [{"name": "v", "emptyDir": {}}],
        }
        given = {
            "script": "trap '' TERM; sleep 3600",
            "restartPolicy": "Never",
            "restartPolicyRules": rules,
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            **hooks(postStart="[ -e /v/x ] || { touch /v/x; exit 1; }"),
        }
        node.apply(busybox(spec=spec, a=given, w="sleep 3600"))
        await node.advance(15)
        return node.pod("p").status, seen(node)

    status, look = on_node(story)
    assert ("True", "RestartAllContainersStarted") in [
        c[:2] for c in look.condition("AllContainersRestarting")
    ]
    assert status.container_statuses[1].restart_count == 1


def test_hok_12_a_container_that_exits_during_its_hook_leaves_all_of_the_grace(on_node, busybox, seen):
    async def story(node):
        polite = {"script": "sleep 8; exit 0", **hooks(preStop="sleep 20")}
        node.apply(busybox(spec={"terminationGracePeriodSeconds": 25}, a=polite))
        await node.advance(7.2)
        node.delete("p")
        await node.advance(10)
        return node.pods(), seen(node)

    pods, look = on_node(story)
    assert pods == ()
    assert look.messages("FailedPreStopHook") == ["PreStopHook failed"]
    assert look.timeouts() == ["25"]
    assert look.calls("StopContainer")[0]["t"] < 9.0


def test_hok_12_time_in_the_hook_comes_off_a_probes_own_grace(on_node, busybox, seen):
    async def story(node):
        probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
        given = {
            "script": "trap '' TERM; sleep 3600",
            "livenessProbe": {**probe, "terminationGracePeriodSeconds": 7},
            **hooks(preStop="sleep 3.2"),
        }
        node.apply(busybox(a=given, b="sleep 3600"))
        await node.advance(15)
        return seen(node)

    assert on_node(story).timeouts(of="a#0") == ["4"]


def test_hok_12_a_hook_that_outlives_the_grace_is_left_running(on_node, busybox, seen):
    async def story(node):
        given = {"script": "trap '' TERM; sleep 3600", **hooks(preStop="sleep 100")}
        node.apply(busybox(spec={"terminationGracePeriodSeconds": 4}, a=given))
        await node.advance(3)
        node.delete("p")
        await node.advance(12)
        return node.pods(), seen(node)

    pods, look = on_node(story)
    assert pods == ()
    assert look.timeouts() == ["2"]
    assert 3 + 3.9 < look.calls("StopContainer")[0]["t"] < 3 + 4.5
    failed = look.events("FailedPreStopHook")[0]  # its container has died under it
    assert failed["t"] >= look.exits("a#0")[0]["t"]


def test_hok_05_sleep_hooks_take_their_time(on_node, busybox, seen):
    async def story(node):
        given = {
            "script": "trap 'exit 0' TERM; sleep 3600 & wait",
            **hooks(postStart={"sleep": {"seconds": 3}}, preStop={"sleep": {"seconds": 4}}),
        }
        node.apply(busybox(a=given))
        await node.advance(5)
        node.delete("p")
        await node.advance(10)
        return seen(node)

    look = on_node(story)
    running = [snapshot["t"] for snapshot in look.snapshots() if snapshot["phase"] == "Running"]
    assert 2.9 < running[0] < 3.5
    stop = look.calls("StopContainer")[0]
    assert 8.9 < stop["t"] < 9.4
    assert stop["timeout"] == "26"


def test_hok_05_http_hooks_succeed_with_any_answer(on_node, busybox, seen):
    async def story(node):
        server = "mkdir /w; echo hi > /w/index.html; httpd -p 8080 -h /w; sleep 3600"
        hook = {"httpGet": {"path": "/none", "port": 8080}}
        node.apply(busybox("serving", a=server))
        await node.advance(2)
        ip = node.pod("serving").status.pod_ip
        given = {"script": "sleep 3600", **hooks(postStart={"httpGet": {**hook["httpGet"], "host": ip}})}
        refused = {"script": "sleep 3600", **hooks(postStart={"httpGet": {"path": "/", "port": 9}})}
        node.apply(busybox("asking", a=given))
        node.apply(busybox("refused", spec={"terminationGracePeriodSeconds": 2}, a=refused))
        await node.advance(6)
        return node.pod("asking").status.phase, seen(node).events("FailedPostStartHook")

    phase, failed = on_node(story)
    assert phase == "Running"
    assert {event["pod"] for event in failed} == {"refused"}


def test_hok_04_a_kubelet_restart_does_not_run_the_hook_again(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a={"script": "sleep 3600", **hooks(postStart="sleep 10")}))
        await node.advance(3)
        await node.restart_kubelet()
        await node.advance(30)
        return node.pod("p").status.phase, seen(node)

    phase, look = on_node(story)
    assert phase == "Running"
    assert len(look.calls("ExecSync")) == 1


def test_hok_14_a_container_that_ends_by_itself_has_no_pre_stop(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(spec=NEVER, a={"script": "sleep 1; exit 0", **hooks(preStop="true")}))
        await node.advance(6)
        return seen(node)

    assert not on_node(story).calls("ExecSync")


def test_hok_16_all_pre_stop_hooks_start_at_once_and_sidecars_stop_last(on_node, busybox, seen):
    async def story(node):
        ends = "trap 'sleep 2; exit 0' TERM; sleep 3600 & wait"
        side = {"script": ends, "restartPolicy": "Always", **hooks(preStop="true")}
        node.apply(busybox(init=[("s", side), ("u", side)], a={"script": ends, **hooks(preStop="true")}))
        await node.advance(5)
        node.delete("p")
        await node.advance(20)
        return seen(node)

    look = on_node(story)
    execs = [call["t"] for call in look.calls("ExecSync")]
    assert len(execs) == 3
    assert execs[-1] - execs[0] < 0.1
    stops = look.calls("StopContainer")
    assert [call["container"] for call in stops] == ["a#0", "u#0", "s#0"]
    assert [call["timeout"] for call in stops] == ["30", "28", "26"]
