"""EVT-11: the events of typical lives, in order and word for word; stop signals (HOK-18)."""

from kubelet_emu.gates import Gates
from kubelet_emu.settings import KubeletSettings

IMAGE = "docker.io/library/busybox:1.36"
POLITE = "trap 'exit 0' TERM; sleep 3600 & wait"
PRESENT = f'Container image "{IMAGE}" already present on machine and can be accessed by the pod'
START = [("Pulled", PRESENT), ("Created", "Container created"), ("Started", "Container started")]


def told(look, pod="p"):
    return [(e["reason"], e.get("raw", e["message"])) for e in look.events() if e["pod"] == pod]


def test_healthy_start_and_deletion(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=POLITE))
        await node.advance(4)
        node.delete("p")
        await node.advance(8)
        return seen(node)

    look = on_node(story)
    assert told(look) == [*START, ("Killing", "Stopping container a")]
    assert {e["type"] for e in look.events()} == {"Normal"}
    assert {e["on"] for e in look.events()} == {"spec.containers{a}"}


def test_bad_image(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a={"script": "true", "image": "127.0.0.1:1/none:1"}))
        await node.advance(16)
        return seen(node)

    found = told(on_node(story))
    assert [reason for reason, _ in found[:5]] == ["Pulling", "Failed", "Failed", "BackOff", "Failed"]
    assert found[0][1] == 'Pulling image "127.0.0.1:1/none:1"'
    assert found[1][1].startswith(
        'Failed to pull image "127.0.0.1:1/none:1": failed to pull and unpack image'
    )
    assert found[2:5] == [
        ("Failed", "Error: ErrImagePull"),
        ("BackOff", 'Back-off pulling image "127.0.0.1:1/none:1"'),
        ("Failed", "Error: ImagePullBackOff"),
    ]


def test_crash_loop_has_no_event_for_the_exit(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a="sleep 1; exit 1"))
        await node.advance(6)
        return seen(node), node.pod("p").metadata.uid

    look, uid = on_node(story)
    back_off = ("BackOff", f"Back-off restarting failed container a in pod p_default({uid})")
    assert told(look) == [*START, *START, back_off]
    assert look.events("BackOff")[0]["type"] == "Warning"


def test_liveness_failure(on_node, busybox, seen):
    async def story(node):
        probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 3}
        node.apply(busybox(a={"script": POLITE, "livenessProbe": probe}))
        await node.advance(3.9)
        return seen(node)

    unhealthy = ("Unhealthy", "Liveness probe failed: ")
    killing = ("Killing", "Container a failed liveness probe, will be restarted")
    assert told(on_node(story))[:10] == [*START, unhealthy, unhealthy, unhealthy, killing, *START]


def test_full_restart(on_node, busybox, seen):
    async def story(node):
        rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
        t = {"script": "sleep 4; exit 42", "restartPolicy": "Never", "restartPolicyRules": rules}
        node.apply(busybox(spec={"restartPolicy": "Never"}, a=POLITE, t=t))
        await node.advance(7)
        return seen(node)

    assert told(on_node(story)) == [*START, *START, ("Killing", "killing"), *START, *START]


def test_lost_sandbox(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=POLITE))
        await node.advance(3)
        await node.stop_sandbox("default", "p")
        await node.advance(4)
        return seen(node)

    changed = ("SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
    assert told(on_node(story)) == [*START, changed, *START]


def test_evt_02_a_long_crash_loop_raises_counts_and_is_cut_off_by_the_spam_filter(on_node, busybox, seen):
    async def story(node):
        scripts = {f"c{number}": "sleep 1; exit 1" for number in range(6)}
        node.apply(busybox(**scripts))
        await node.advance(400)
        return seen(node), node.kubelet.events.dropped

    look, dropped = on_node(story)
    assert dropped > 0
    normal = [e for e in look.events() if e["type"] == "Normal" and e["t"] < 100]
    assert len(normal) == 25
    assert max(e["count"] for e in look.events("Started")) >= 2


def signalled(on_node, busybox, *, gate, lifecycle):
    async def story(node):
        spec = {"os": {"name": "linux"}, "terminationGracePeriodSeconds": 5}
        script = "trap 'exit 11' USR1; trap 'exit 15' TERM; sleep 3600 & wait"
        node.apply(busybox(spec=spec, a={"script": script, "lifecycle": lifecycle}))
        await node.advance(3)
        shown = node.pod("p").status.container_statuses[0].stop_signal
        node.delete("p")
        await node.advance(8)
        ends = [r for r in node.recorder.records if r["k"] == "process" and r["do"] == "exit"]
        return shown, ends[0]["code"]

    gates = Gates({"ContainerStopSignals": True}) if gate else Gates()
    return on_node(story, settings=KubeletSettings(gates=gates))


def test_hok_18_19_a_stop_signal_of_the_containers_own(on_node, busybox):
    assert signalled(on_node, busybox, gate=True, lifecycle={"stopSignal": "SIGUSR1"}) == ("SIGUSR1", 11)


def test_hok_18_without_the_gate_the_field_is_dropped(on_node, busybox):
    assert signalled(on_node, busybox, gate=False, lifecycle={"stopSignal": "SIGUSR1"}) == (None, 15)


def test_the_images_stop_signal_is_used_where_nothing_else_is_said(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a={"image": "docker.io/library/nginx:1.27", "script": POLITE}))
        await node.advance(12)
        node.delete("p", grace_seconds=3)
        await node.advance(10)
        container = next(r for r in node.recorder.records if r["k"] == "process" and r["do"] == "exit")
        return container["code"]

    assert on_node(story) in (131, 137)
