# pyright: basic
"""Rules of probes, hooks and their events that are about who takes part and when (PRB-, HOK-, EVT-)."""

import pytest

from kubelet_emu.apiserver.errors import ApiError

POLITE = "trap 'exit 0' TERM; sleep 3600 & wait"
NEVER = {"restartPolicy": "Never"}
RULES = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}]


def probe(*command, **more):
    return {"exec": {"command": list(command)}, "periodSeconds": 1, **more}


def test_prb_01_defaults_of_a_probe(on_node, busybox):
    async def story(node):
        pod = node.apply(busybox(a={"livenessProbe": {"httpGet": {"port": 80}}}))
        return pod.spec.containers[0].liveness_probe

    found = on_node(story)
    assert (found.timeout_seconds, found.period_seconds) == (1, 10)
    assert (found.success_threshold, found.failure_threshold) == (1, 3)
    assert (found.http_get.path, found.http_get.scheme) == ("/", "HTTP")
    assert found.termination_grace_period_seconds is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"livenessProbe": probe("true", successThreshold=2)}, "successThreshold"),
        ({"startupProbe": probe("true", successThreshold=2)}, "successThreshold"),
        ({"readinessProbe": probe("true", terminationGracePeriodSeconds=3)}, "terminationGracePeriodSeconds"),
        ({"livenessProbe": {"periodSeconds": 1}}, "handler"),
    ],
    ids=["liveness-success", "startup-success", "readiness-grace", "no-handler"],
)
def test_prb_01_what_a_probe_may_not_say(on_node, busybox, given, told):
    async def story(node):
        with pytest.raises(ApiError, match=told):
            node.apply(busybox(a=given))
        return node.pods()

    assert on_node(story) == ()


def test_prb_02_a_plain_init_container_may_not_be_probed_a_sidecar_is(on_node, busybox, seen):
    async def story(node):
        with pytest.raises(ApiError, match="livenessProbe"):
            node.apply(
                busybox("q", init=[("i", {"script": "true", "livenessProbe": probe("true")})], a=POLITE)
            )
        side = {"script": POLITE, "restartPolicy": "Always", "livenessProbe": probe("true")}
        node.apply(busybox(init=[("s", side)], a=POLITE))
        await node.advance(6)
        return {call["container"] for call in seen(node).calls("ExecSync")}

    assert on_node(story) == {"s#0"}


def test_prb_03_prb_38_a_worker_keeps_the_probe_that_it_began_with(on_node, busybox, seen):
    async def story(node):
        a = {"script": POLITE, "readinessProbe": probe("true")}
        node.apply(busybox(a=a))
        await node.advance(4)
        change = {"spec": {"containers": [{"name": "a", "image": "docker.io/library/busybox:1.35"}]}}
        node.store.patch("Pod", "default", "p", change)
        await node.advance(8)
        look = seen(node)
        return look.calls("ExecSync", of="a#0"), look.calls("ExecSync", of="a#1"), look.containers("a")[-1]

    first, second, shown = on_node(story)
    assert first
    assert second
    assert second[0]["cmd"] == first[0]["cmd"]
    assert shown["ready"] is True


def test_prb_30_prb_33_readiness_is_reported_without_waiting_for_a_sync(on_node, busybox, seen):
    async def story(node):
        script = "sleep 5; touch /ok; sleep 5; rm /ok; sleep 3600"
        ready = probe("cat", "/ok", failureThreshold=1)
        node.apply(busybox(a={"script": script, "readinessProbe": ready}))
        await node.advance(20)
        return [(round(c["t"]), c["ready"]) for c in seen(node).containers("a") if c["state"] == "running"]

    shown = on_node(story)
    changes = [one for one, old in zip(shown[1:], shown, strict=False) if one[1] != old[1]]
    assert [value for _, value in changes] == [True, False]
    assert 5 <= changes[0][0] <= 7
    assert 10 <= changes[1][0] <= 12


def test_prb_31_a_container_with_a_startup_probe_has_not_started_before_it_succeeds(on_node, busybox, seen):
    async def story(node):
        startup = probe("cat", "/ok", failureThreshold=30)
        a = {"script": "sleep 4; touch /ok; sleep 3600", "startupProbe": startup}
        node.apply(busybox(a=a, b=POLITE))
        await node.advance(10)
        look = seen(node)
        return [
            [(c["started"], c["ready"]) for c in look.containers(name) if c["state"] == "running"]
            for name in "ab"
        ]

    with_probe, without = on_node(story)
    assert with_probe[0] == (False, False)
    assert with_probe[-1] == (True, True)
    assert without == [(True, True)]


def test_prb_36_a_probes_own_grace_counts_for_its_kill_only(on_node, busybox, seen):
    async def story(node):
        spec = {"terminationGracePeriodSeconds": 20}
        a = {"script": POLITE, "livenessProbe": probe("false", failureThreshold=1)}
        a["livenessProbe"]["terminationGracePeriodSeconds"] = 7
        node.apply(busybox(spec=spec, a=a))
        await node.advance(3)
        node.delete("p")
        await node.advance(3)
        return seen(node).timeouts()

    timeouts = on_node(story)
    assert timeouts[0] == "7"
    assert timeouts[-1] == "20"


def test_prb_51_nothing_is_probed_between_a_liveness_failure_and_the_next_instance(on_node, busybox, seen):
    async def story(node):
        spec = {"terminationGracePeriodSeconds": 5}
        a = {"script": "trap '' TERM; sleep 3600", "livenessProbe": probe("false", failureThreshold=2)}
        node.apply(busybox(spec=spec, a=a))
        await node.advance(12)
        return [c["t"] for c in seen(node).calls("ExecSync", of="a#0")], seen(node).calls("StopContainer")

    at, stops = on_node(story)
    assert len(at) == 2
    assert stops[0]["t"] >= at[-1]


def test_hok_06_a_hooks_command_is_taken_as_written(on_node, busybox, seen):
    async def story(node):
        hook = {"lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", "echo $(A) > /out; false"]}}}}
        node.apply(busybox(a={"script": POLITE, "env": [{"name": "A", "value": "x"}], **hook}))
        await node.advance(6)
        return seen(node)

    look = on_node(story)
    assert look.calls("ExecSync")[0]["cmd"] == ["sh", "-c", "echo $(A) > /out; false"]
    texts = [c["message"] for c in look.containers("a") if c.get("reason") == "PostStartHookError"]
    assert texts[0].startswith(
        'Exec lifecycle hook ([sh -c echo $(A) > /out; false]) for Container "a" in Pod "p_'
    )


@pytest.mark.parametrize(("seconds", "fine"), [(0, True), (30, True), (31, False), (-1, False)])
def test_hok_09_a_sleep_is_at_most_the_grace_period(on_node, busybox, seconds, fine):
    async def story(node):
        hook = {"lifecycle": {"preStop": {"sleep": {"seconds": seconds}}}}
        try:
            node.apply(busybox(a={"script": POLITE, **hook}))
        except ApiError:
            return False
        return True

    assert on_node(story) is fine


def test_hok_15_hok_50_a_full_restart_kills_within_two_seconds_and_without_hook(on_node, busybox, seen):
    async def story(node):
        hook = {"lifecycle": {"preStop": {"exec": {"command": ["touch", "/hook"]}}}}
        trigger = {"script": "sleep 3; exit 88", "restartPolicy": "Never", "restartPolicyRules": RULES}
        node.apply(busybox(spec=NEVER, a={"script": "trap '' TERM; sleep 3600", **hook}, b=trigger))
        await node.advance(8)
        look = seen(node)
        return look.timeouts(of="a#0"), look.messages("Killing"), look.calls("ExecSync")

    timeouts, texts, hooks = on_node(story)
    assert timeouts == ["2"]
    assert texts == ["killing"]
    assert hooks == []


def test_hok_50_every_stop_leaves_two_seconds_at_least(on_node, busybox, seen):
    async def story(node):
        hook = {"lifecycle": {"preStop": {"sleep": {"seconds": 3}}}}
        node.apply(busybox(spec={"terminationGracePeriodSeconds": 3}, a={"script": POLITE, **hook}))
        node.apply(busybox("q", a=POLITE))
        await node.advance(3)
        node.delete("p")
        node.delete("q", grace_seconds=0)
        await node.advance(9)
        return seen(node).timeouts()

    timeouts = on_node(story)
    assert timeouts
    assert all(int(one) >= 2 for one in timeouts)


def test_evt_05_the_id_of_a_container_is_told_as_its_name(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a={"command": ["/none"]}))
        await node.advance(3)
        look = seen(node)
        ids = [s.container_id or "" for s in node.pod("p").status.container_statuses]
        return look.messages("Failed", on="{a}"), [one.rpartition("/")[2] for one in ids]

    texts, ids = on_node(story)
    assert texts
    assert all(one not in text for text in texts for one in ids if one)
