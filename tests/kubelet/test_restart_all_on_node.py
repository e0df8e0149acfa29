"""Restarts of a whole pod in place as recorded on a real node (RST section 8), each told on a whole node."""

from itertools import pairwise

import pytest

from cri_fake.behaviours import Behaviours, PullBehaviour

NEVER = {"restartPolicy": "Never"}
IGNORANT = "trap '' TERM; sleep 3600"
CONDITION = "AllContainersRestarting"


def rules(*codes):
    return [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": list(codes)}}]


def trigger(script, *codes, **more):
    return {
        "script": script,
        "restartPolicy": "Never",
        "restartPolicyRules": rules(*(codes or (42,))),
        **more,
    }


def once(then, code=42):
    """A script that exits with ``code`` after ``then`` on its first run and stays on every later one."""
    return f"if [ -e /v/ran ]; then sleep 3600; fi; touch /v/ran; {then}; exit {code}"


KEPT = {"volumes": [{"name": "v", "emptyDir": {}}]}
MOUNT = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}


def test_rst_028_an_init_container_that_succeeds_with_a_listed_code_never_gets_further(
    on_node, busybox, seen
):
    async def story(node):
        node.apply(busybox(spec=NEVER, init=[("setup", trigger("sleep 2; exit 0", 0))], a="sleep 3600"))
        await node.advance(22)
        return node.pod("p").status, seen(node)

    status, look = on_node(story, latency="measured")
    starts = look.calls("StartContainer")
    assert 7 <= len(starts) <= 9
    assert status.init_container_statuses[0].restart_count == len(starts) - 1
    assert {record["container"].split("#")[0] for record in starts} == {"setup"}
    assert look.phases() == ["Pending"]
    assert [value[0] for value in look.condition("Initialized") if value] == ["False", "True"]
    assert not look.events("BackOff")


def test_rst_137_the_sandbox_goes_in_the_sync_of_the_trigger(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(spec={**NEVER, **KEPT}, t=trigger(once("sleep 3"), **MOUNT), w="sleep 3600"))
        await node.advance(3.6)
        await node.stop_sandbox("default", "p")
        await node.advance(6)
        return node.pod("p").status, seen(node)

    status, look = on_node(story)
    told = look.told("StopPodSandbox", "RunPodSandbox", "RemoveContainer", "StartContainer")[3:]
    assert told[:6] == [
        "StopPodSandbox sandbox#0",
        "RunPodSandbox sandbox#1",
        "RemoveContainer w#0",
        "RemoveContainer t#0",
        "StartContainer t#1",
        "StartContainer w#1",
    ]
    assert len(look.events("SandboxChanged")) == 1
    calls = look.calls("StopPodSandbox", "RunPodSandbox", "RemoveContainer", "StartContainer")[3:9]
    assert calls[-1]["t"] - calls[0]["t"] < 0.5
    assert [c.restart_count for c in status.container_statuses] == [1, 1]


def test_rst_142_a_full_restart_neither_waits_for_a_back_off_nor_clears_it(on_node, busybox, seen):
    async def story(node):
        first_two_fail = "n=$(ls /v | wc -l); touch /v/$n; "
        crash = {
            "script": first_two_fail + "if [ $n -eq 2 ]; then sleep 3600; fi; sleep 1; exit 1",
            "restartPolicy": "Always",
            **MOUNT,
        }
        script = "[ -e /v/0 ] && [ -e /w/t ] && sleep 3600; touch /w/t; sleep 6; exit 42"
        two = [{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/w"}]
        spec = {**NEVER, "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]}
        node.apply(busybox(spec=spec, c=crash, t=trigger(script, volumeMounts=two)))
        await node.advance(60)
        return seen(node)

    look = on_node(story)
    starts = [record["t"] for record in look.calls("StartContainer", of="c#")]
    back_off = [event["t"] for event in look.events("BackOff")]
    reset = look.calls("RemoveContainer", of="t#0")[0]["t"]
    # Exits at 1 and 3; the third start would wait until 13, but the reset at 6 brings it at once.
    assert back_off[0] < reset
    assert starts[2] - reset < 1.0
    assert len(look.calls("StartContainer", of="t#")) == 2


def test_rst_142_after_the_reset_the_old_delay_counts_on(on_node, busybox, seen):
    async def story(node):
        crash = {"script": "sleep 1; exit 1", "restartPolicy": "Always"}
        node.apply(busybox(spec={**NEVER, **KEPT}, c=crash, t=trigger(once("sleep 7"), **MOUNT)))
        await node.advance(70)
        return seen(node)

    look = on_node(story)
    starts = [record["t"] for record in look.calls("StartContainer", of="c#")]
    reset = look.calls("RemoveContainer", of="t#0")[0]["t"]
    assert 6.0 < reset < 9.0
    after = [at for at in starts if at >= reset]
    assert after[0] - reset < 1.0
    waits = [b - a for a, b in pairwise(after)]
    assert 10.0 < waits[0] < 18.0
    assert 20.0 < waits[1] < 33.0


def test_rst_147_a_trigger_that_waits_keeps_its_counts(on_node, busybox, seen):
    """Killed after a failed postStart hook it is Waiting PostStartHookError when the reset comes."""

    async def story(node):
        hook = {"postStart": {"exec": {"command": ["sh", "-c", "[ -e /v/ran ] || { touch /v/ran; false; }"]}}}
        given = trigger("sleep 3600", 137, lifecycle=hook, **MOUNT)
        spec = {**NEVER, **KEPT, "terminationGracePeriodSeconds": 2}
        node.apply(busybox(spec=spec, t=given, w="sleep 3600"))
        await node.advance(20)
        return node.pod("p").status.container_statuses[0], seen(node)

    status, look = on_node(story)
    assert status.restart_count == 1
    waiting = [c for c in look.containers("t") if c.get("reason") == "PostStartHookError"]
    assert waiting[0]["last"]["exitCode"] == 137
    assert waiting[0]["last"]["reason"] == "Error"
    assert status.last_state.terminated.reason == "Error"
    assert status.last_state.terminated.exit_code == 137
    removed = [c for c in look.containers("w") if c.get("reason") == "RestartingAllContainers"]
    assert removed[0]["restartCount"] == 1


def test_rst_149_what_had_ended_keeps_the_rest_of_its_status_for_one_generation(on_node, busybox, seen):
    async def story(node):
        init = [("setup", "true")]
        node.apply(
            busybox(spec={**NEVER, **KEPT}, init=init, t=trigger(once("sleep 2"), **MOUNT), w="sleep 3600")
        )
        await node.advance(12)
        return seen(node)

    look = on_node(story)

    def removed(name):
        return next(c for c in look.containers(name) if c.get("reason") == "RestartingAllContainers")

    assert removed("setup")["ready"] is True
    assert removed("setup")["id"] == "setup#0"
    assert removed("setup")["started"] is False
    assert removed("t")["id"] == "t#0"
    assert removed("t")["last"] == {
        "reason": "RestartingAllContainers",
        "exitCode": 137,
        "message": "The container is removed because RestartAllContainers in place",
    }
    assert not removed("w").get("id")
    assert not removed("w").get("imageID")
    assert removed("w")["started"] is False
    assert removed("w")["ready"] is False


def test_rst_152_the_last_state_names_no_container_though_both_logs_are_there(on_node, busybox, seen):
    async def story(node):
        script = "echo one; " + once("sleep 2")
        node.apply(busybox(spec={**NEVER, **KEPT}, t=trigger(script, **MOUNT)))
        await node.advance(8)
        pod = node.pod("p")
        folder = f"/var/log/pods/default_p_{pod.metadata.uid}/t"
        return pod.status.container_statuses[0].last_state.terminated, node.files.list(folder)

    last, logs = on_node(story)
    assert last.reason == "RestartingAllContainers"
    assert not last.container_id
    assert logs == ["0.log", "1.log"]


def failing_readiness():
    return {"readinessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1}}


def finished_and_probed(on_node, busybox, *, first):
    """A container that had finished, with a readiness probe that always fails, after a full restart."""

    async def story(node):
        finished = {"script": "[ -e /v/ran ] && sleep 3600; sleep 2; exit 0", **failing_readiness(), **MOUNT}
        running = {"script": "sleep 3600", **failing_readiness()}
        script = "[ -e /v/ran ] && sleep 3600; sleep 6; touch /v/ran; exit 42"
        t = trigger(script, **MOUNT)
        order = {"f": finished, "r": running, "t": t} if first else {"r": running, "f": finished, "t": t}
        node.apply(busybox(spec={**NEVER, **KEPT}, **order))
        await node.advance(20)
        return {c.name: c for c in node.pod("p").status.container_statuses}["f"]

    return on_node(story)


def test_rst_161_prb_04_a_probe_that_had_ended_stays_away_behind_one_that_lives(on_node, busybox):
    status = finished_and_probed(on_node, busybox, first=False)
    assert status.state.running is not None
    assert status.restart_count == 1
    assert status.ready is True


def test_rst_161_prb_04_it_comes_back_where_the_container_stands_first(on_node, busybox):
    status = finished_and_probed(on_node, busybox, first=True)
    assert status.state.running is not None
    assert status.ready is False


def test_rst_164_a_victims_own_code_starts_no_second_restart(on_node, busybox, seen):
    async def story(node):
        victim = trigger(IGNORANT, 137)
        node.apply(busybox(spec={**NEVER, **KEPT}, t=trigger(once("sleep 2"), **MOUNT), v=victim))
        await node.advance(25)
        return node.pod("p").status.container_statuses, seen(node)

    statuses, look = on_node(story)
    assert [status.restart_count for status in statuses] == [1, 1]
    assert len(look.calls("RemoveContainer")) == 2
    assert [end["code"] for end in look.exits("v#0")] == [137]


def test_rst_167_a_listed_code_on_deletion_restarts_nothing(on_node, busybox, seen):
    async def story(node):
        ends = trigger("trap 'exit 42' TERM; sleep 3600 & wait")
        node.apply(busybox(spec=NEVER, t=ends, w="trap 'sleep 3; exit 0' TERM; sleep 3600 & wait"))
        await node.advance(5)
        node.delete("p", grace_seconds=10)
        await node.advance(20)
        return node.pods(), seen(node)

    pods, look = on_node(story)
    assert pods == ()
    assert len(look.calls("CreateContainer")) == 2
    assert {value[0] for value in look.condition(CONDITION) if value} == {"False"}
    assert look.phases()[-1] == "Failed"


def test_rst_168_a_deletion_during_a_reset_waits_for_its_list(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(spec=NEVER, t=trigger("sleep 2; exit 42"), x=IGNORANT, y=IGNORANT))
        await node.advance(4)
        node.delete("p", grace_seconds=20)
        await node.advance(20)
        return node.pods(), seen(node)

    pods, look = on_node(story)
    assert pods == ()
    told = look.told("StopContainer", "RemoveContainer", "StopPodSandbox")[:6]
    assert told == [
        "StopContainer x#0/2",
        "RemoveContainer x#0",
        "StopContainer y#0/2",
        "RemoveContainer y#0",
        "RemoveContainer t#0",
        "StopPodSandbox sandbox#0",
    ]
    assert len(look.calls("CreateContainer")) == 3
    assert look.phases()[-1] == "Failed"
    final = look.containers("x")[-1]
    assert (final["reason"], final["exitCode"], final["restartCount"]) == ("ContainerStatusUnknown", 137, 1)
    assert final["last"]["reason"] == "RestartingAllContainers"
    way = [c.get("reason") for c in look.containers("x")]
    assert way[-3:] == ["RestartingAllContainers", "ContainerCreating", "ContainerStatusUnknown"]


def test_rst_168_sta_209_deleted_between_reset_and_start_there_is_nothing_to_stop(on_node, busybox, seen):
    """A slow image pull holds phase 2 up; the pod is deleted meanwhile and ends Failed."""
    image = "registry.example/slow:1"

    async def story(node):
        first = {"script": "true", "image": image, "imagePullPolicy": "Always"}
        spec = {**NEVER, "imagePullSecrets": []}
        node.apply(busybox(spec=spec, init=[("i", first)], t=trigger("sleep 2; exit 42"), w="sleep 3600"))
        await node.advance(9.5)
        removed = seen(node).told("RemoveContainer")
        node.delete("p", grace_seconds=20)
        await node.advance(40)
        return removed, node.pods(), seen(node)

    pulls = {image: PullBehaviour(duration_seconds=3.0)}
    removed, pods, look = on_node(story, behaviours=Behaviours(images=pulls))
    assert "RemoveContainer t#0" in removed
    assert pods == ()
    assert look.phases()[-1] == "Failed"
    final = look.containers("w")[-1]
    assert (final["state"], final["reason"], final["exitCode"]) == (
        "terminated",
        "ContainerStatusUnknown",
        137,
    )
    assert final["last"]["reason"] == "RestartingAllContainers"
    assert final["restartCount"] == 1
    assert not [
        call for call in look.calls("StopContainer") if call["t"] > 9.5 and call["container"] != "i#1"
    ]


def ends_alike(on_node, busybox, moment):
    """Cut the kubelet off at one moment of a full restart; what the pod comes to afterwards."""

    async def story(node):
        side = {"script": "trap 'exit 0' TERM; sleep 3600 & wait", "restartPolicy": "Always"}
        pod = busybox(
            spec={**NEVER, **KEPT},
            init=[("i", "sleep 0.3"), ("s", side)],
            t=trigger(once("sleep 2"), **MOUNT),
            w=IGNORANT,
        )
        node.apply(pod)
        await node.advance(moment)
        await node.restart_kubelet(down_seconds=0.4)
        await node.advance(50)
        status = node.pod("p").status
        statuses = (*status.init_container_statuses, *status.container_statuses)
        return status.phase, {c.name: c.restart_count for c in statuses}

    return on_node(story, latency="measured", seed=round(moment * 100))


@pytest.mark.parametrize("step", range(14))
def test_rst_170_ka_z06_a_kubelet_restart_at_any_moment_loses_no_full_restart(on_node, busybox, step):
    phase, counts = ends_alike(on_node, busybox, 2.6 + 0.35 * step)
    assert phase == "Running"
    assert set(counts.values()) == {1}
