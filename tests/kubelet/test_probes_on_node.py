"""Probes of every kind on a whole node (PRB-)."""

from itertools import pairwise

import pytest

POLITE = "trap 'exit 0' TERM; sleep 3600 & wait"
SERVE = "mkdir /w; echo hi > /w/index.html; httpd -p 8080 -h /w; "


def exec_probe(*command, **more):
    return {"exec": {"command": list(command)}, "periodSeconds": 1, **more}


def test_prb_16_the_initial_delay_counts_from_a_start_cut_to_whole_seconds(on_node, busybox, seen):
    def first_after(seed):
        async def story(node):
            probe = exec_probe("true", initialDelaySeconds=3)
            node.apply(busybox(a={"script": POLITE, "livenessProbe": probe}))
            await node.advance(8)
            look = seen(node)
            return look.calls("ExecSync")[0]["t"] - look.calls("StartContainer")[0]["t"]

        return on_node(story, seed=seed, latency="measured")

    delays = [first_after(seed) for seed in range(6)]
    assert all(1.99 < delay < 4.1 for delay in delays)
    assert min(delays) < 3.0


def test_prb_04_a_container_that_restarts_in_the_ordinary_way_keeps_its_worker(on_node, busybox, seen):
    async def story(node):
        probe = exec_probe("true")
        a = {"script": "sleep 3; exit 1", "readinessProbe": probe}
        node.apply(busybox(a=a, b={"script": POLITE, "readinessProbe": probe}))
        await node.advance(12)
        return seen(node)

    look = on_node(story)
    assert look.calls("ExecSync", of="a#0")
    assert look.calls("ExecSync", of="a#1")


def test_prb_41_thresholds_count_in_a_row(on_node, busybox, seen):
    async def story(node):
        script = "touch /ok; sleep 5; rm /ok; sleep 1.5; touch /ok; sleep 3; rm /ok; sleep 3600"
        probe = exec_probe("cat", "/ok", failureThreshold=3, successThreshold=2)
        node.apply(busybox(a={"script": script, "readinessProbe": probe}))
        await node.advance(20)
        return seen(node)

    look = on_node(story)
    ready = [(c["t"], c["ready"]) for c in look.containers("a") if c["state"] == "running"]
    changes = [
        (round(at), value) for (at, value), (_, old) in zip(ready[1:], ready, strict=False) if value != old
    ]
    assert [value for _, value in changes] == [True, False]
    assert 1 <= changes[0][0] <= 3
    assert 11 <= changes[1][0] <= 14


def test_prb_37_readiness_never_kills_liveness_restarts(on_node, busybox, seen):
    async def story(node):
        a = {"script": POLITE, "readinessProbe": exec_probe("false")}
        b = {
            "script": POLITE,
            "livenessProbe": exec_probe("sh", "-c", "echo bad; exit 3", failureThreshold=2),
        }
        node.apply(busybox(a=a, b=b))
        await node.advance(6)
        return node.pod("p").status.container_statuses, seen(node)

    (a, b), look = on_node(story)
    assert (a.restart_count, a.ready) == (0, False)
    assert b.restart_count >= 1
    assert look.messages("Unhealthy", on="{a}")[0] == "Readiness probe failed: "
    assert look.messages("Unhealthy", on="{b}")[0] == "Liveness probe failed: bad\n"
    assert look.messages("Killing", on="{b}")[0] == "Container b failed liveness probe, will be restarted"


def test_prb_26_a_command_that_takes_too_long_has_failed(on_node, busybox, seen):
    async def story(node):
        probe = exec_probe("sleep", "5", timeoutSeconds=2, periodSeconds=4)
        node.apply(busybox(a={"script": POLITE, "readinessProbe": probe}))
        await node.advance(6)
        return seen(node).messages("Unhealthy")

    assert on_node(story)[0] == 'Readiness probe failed: command timed out: "sleep 5" timed out after 2s'


def test_prb_25_variables_in_a_command_come_from_literal_values_only(on_node, busybox, seen):
    async def story(node):
        env = [
            {"name": "A", "value": "script"},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ]
        probe = exec_probe("echo", "$(A)", "$(B)")
        node.apply(busybox(a={"script": POLITE, "env": env, "livenessProbe": probe}))
        await node.advance(3)
        return seen(node).calls("ExecSync")[0]["cmd"]

    assert on_node(story) == ["echo", "script", "$(B)"]


@pytest.mark.parametrize("kind", ["http", "http-named-port", "tcp"])
def test_prb_20_network_probes_reach_the_pods_own_address(on_node, busybox, seen, kind):
    async def story(node):
        handler = {
            "http": {"httpGet": {"path": "/index.html", "port": 8080}},
            "http-named-port": {"httpGet": {"path": "/", "port": "web"}},
            "tcp": {"tcpSocket": {"port": 8080}},
        }[kind]
        a = {
            "script": "sleep 3; " + SERVE + POLITE,
            "ports": [{"name": "web", "containerPort": 8080}],
            "readinessProbe": {**handler, "periodSeconds": 1},
        }
        node.apply(busybox(a=a))
        await node.advance(8)
        return node.pod("p").status.container_statuses[0].ready, seen(node)

    ready, look = on_node(story)
    assert ready is True
    text = look.messages("Unhealthy")[0]
    assert "connect: connection refused" in text
    assert text.startswith("Readiness probe failed: ")


def test_prb_23_a_bad_status_fails(on_node, busybox, seen):
    async def story(node):
        probe = {"httpGet": {"path": "/none", "port": 8080}, "periodSeconds": 1}
        node.apply(busybox(a={"script": SERVE + POLITE, "readinessProbe": probe}))
        await node.advance(4)
        return seen(node).messages("Unhealthy")

    assert "Readiness probe failed: HTTP probe failed with statuscode: 404" in on_node(story)


def test_prb_28_a_server_that_speaks_no_grpc_fails(on_node, busybox, seen):
    async def story(node):
        probe = {"grpc": {"port": 9000}, "periodSeconds": 1}
        node.apply(busybox(a={"script": POLITE, "readinessProbe": probe}))
        await node.advance(4)
        return seen(node).messages("Unhealthy")

    text = on_node(story)[0]
    assert text.startswith('Readiness probe failed: timeout: failed to connect service "')
    assert "within 1s" in text


def test_prb_12_nothing_is_probed_before_the_startup_probe_succeeded(on_node, busybox, seen):
    """PRB-50, PRB-14: and the startup probe is not run again after it."""

    async def story(node):
        a = {
            "script": "sleep 4; touch /up; " + POLITE,
            "startupProbe": exec_probe("cat", "/up", failureThreshold=30),
            "livenessProbe": exec_probe("echo", "live"),
            "readinessProbe": exec_probe("echo", "ready"),
        }
        node.apply(busybox(a=a))
        await node.advance(12)
        return seen(node)

    look = on_node(story)
    commands = [(call["cmd"][-1], call["t"]) for call in look.calls("ExecSync")]
    started = max(at for word, at in commands if word == "/up")
    assert started < 7
    assert all(at >= started for word, at in commands if word != "/up")
    assert {word for word, at in commands if at > started} == {"live", "ready"}


def test_prb_35_a_startup_probe_that_fails_kills(on_node, busybox, seen):
    async def story(node):
        probe = exec_probe("false", failureThreshold=3, terminationGracePeriodSeconds=3)
        node.apply(busybox(a={"script": "trap '' TERM; sleep 3600", "startupProbe": probe}))
        await node.advance(9)
        return seen(node)

    look = on_node(story)
    assert look.messages("Killing")[0] == "Container a failed startup probe, will be restarted"
    assert look.timeouts()[0] == "3"


def test_prb_35_sidecars_have_their_own_words(on_node, busybox, seen):
    async def story(node):
        side = {
            "script": POLITE,
            "restartPolicy": "Always",
            "livenessProbe": exec_probe("false", failureThreshold=2),
        }
        node.apply(busybox(init=[("s", side)], a=POLITE))
        await node.advance(8)
        return seen(node)

    look = on_node(story)
    assert look.messages("Killing")[0] == "Init container s failed liveness probe"
    assert look.calls("StartContainer", of="s#1")
    assert len(look.calls("StartContainer", of="a#")) == 1


def test_prb_40_the_startup_gate_holds_again_after_a_full_restart(on_node, busybox, seen):
    async def story(node):
        rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
        side = {
            "script": POLITE,
            "restartPolicy": "Always",
            "startupProbe": exec_probe("true", initialDelaySeconds=3),
        }
        trigger = {"script": "sleep 4; exit 42", "restartPolicy": "Never", "restartPolicyRules": rules}
        node.apply(busybox(spec={"restartPolicy": "Never"}, init=[("s", side)], t=trigger))
        await node.advance(16)
        return seen(node)

    look = on_node(story)
    sides = [call["t"] for call in look.calls("StartContainer", of="s#")]
    mains = [call["t"] for call in look.calls("StartContainer", of="t#")]
    for side, main in zip(sides[:2], mains[:2], strict=True):
        assert 2.0 < main - side < 5.0


def test_prb_06_readiness_is_tried_at_once_when_a_status_finds_it_unready(on_node, busybox, seen):
    async def story(node):
        probe = {"exec": {"command": ["cat", "/up"]}, "periodSeconds": 30}
        node.apply(busybox(a={"script": "touch /up; " + POLITE, "readinessProbe": probe}))
        await node.advance(5)
        return seen(node)

    look = on_node(story)
    assert look.containers("a")[-1]["ready"] is True


def test_prb_08_readiness_goes_on_while_terminating_liveness_does_not(on_node, busybox, seen):
    async def story(node):
        a = {
            "script": "trap 'sleep 6; exit 0' TERM; sleep 3600 & wait",
            "readinessProbe": exec_probe("echo", "r"),
            "livenessProbe": exec_probe("echo", "l"),
        }
        node.apply(busybox(a=a))
        await node.advance(3.5)
        node.delete("p")
        await node.advance(20)
        return [(call["cmd"][-1], call["t"]) for call in seen(node).calls("ExecSync")]

    calls = on_node(story)
    assert {word for word, at in calls if at > 3.6} == {"r"}
    assert len([at for word, at in calls if word == "r" and at > 3.6]) >= 4


def test_probe_periods_are_kept(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a={"script": POLITE, "livenessProbe": exec_probe("true", periodSeconds=7)}))
        await node.advance(60)
        return [call["t"] for call in seen(node).calls("ExecSync")]

    at = on_node(story)
    assert all(abs((second - first) - 7) < 0.05 for first, second in pairwise(at))
