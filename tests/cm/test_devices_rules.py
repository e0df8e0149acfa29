# pyright: basic
"""Rules of DEV- that no table of known answers holds, each shown on a whole node.

Goal: what happens to devices at the edges (resize, restarts without health, errors at creation) is what a
kubelet does. Method: a node in virtual time, plugins that misbehave, the device manager's books and calls.
"""

import pytest

from devices.model import Device

GPU = "nvidia.com/gpu"
POLITE = "trap 'exit 0' TERM; sleep 3600 & wait"


def resize(node, cpu, container="a"):
    amounts = {"cpu": cpu}
    patch = {"spec": {"containers": [{"name": container, "resources": {"requests": amounts}}]}}
    node.store.patch("Pod", "default", "p", patch, subresource="resize")


def with_cpu(pod, cpu="100m"):
    for container in pod["spec"]["containers"]:
        container["resources"]["requests"] = {"cpu": cpu}
    return pod


def resizing(node):
    """The condition about a resize that waits, its reason and message; None without one."""
    for condition in node.pod("p").status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason, condition.message
    return None


def requested(node):
    return str(node.pod("p").status.container_statuses[0].resources.requests["cpu"])


UNHEALTHY = (
    "Allocate failed due to previously allocated devices are no longer healthy; cannot allocate unhealthy "
    f"devices {GPU}, which is unexpected"
)
AWAY = (
    f"Allocate failed due to no healthy devices present; cannot allocate unhealthy devices {GPU}, "
    "which is unexpected"
)
UNREGISTERED = f"Allocate failed due to cannot allocate unregistered device {GPU}, which is unexpected"


@pytest.mark.parametrize(
    ("trouble", "wait_seconds", "message"),
    [
        pytest.param("unhealthy", 1, UNHEALTHY, id="row-5"),
        pytest.param("away", 1, AWAY, id="row-4"),
        pytest.param("away", 320, UNREGISTERED, id="row-3"),
    ],
)
def test_dev_095_a_resize_waits_until_the_devices_are_well(
    on_node, plugin, gpu_pod, look, trouble, wait_seconds, message
):
    async def story(node):
        node.apply(with_cpu(gpu_pod(a=POLITE)))
        await node.advance(5)
        (held,) = look(node).held()
        if trouble == "unhealthy":
            node.set_device_health(GPU, held, "Unhealthy")
        else:
            node.fleet.plugins[0].stop()
        await node.advance(wait_seconds)
        resize(node, "200m")
        await node.advance(2)
        waiting = resizing(node), requested(node), look(node).events("ResizeDeferred")
        if trouble == "unhealthy":
            node.set_device_health(GPU, held, "Healthy")
        else:
            node.fleet.plugins[0].start()
        await node.advance(200)  # the next periodic try
        return (
            waiting,
            resizing(node),
            requested(node),
            look(node).calls("Allocate"),
            {held},
            look(node).held(),
        )

    (condition, cpu, events), after, granted, calls, before, held = on_node(story, plugin(2))
    assert condition == ("Deferred", message)
    assert cpu == "100m"
    assert len(events) == 1
    assert message in events[0]
    assert (after, granted) == (None, "200m")
    assert len(calls) == 1  # never again (DEV-110)
    assert held == before


def test_dev_095_healthy_devices_are_no_obstacle(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(with_cpu(gpu_pod(a=POLITE)))
        await node.advance(5)
        resize(node, "200m")
        await node.advance(5)
        return resizing(node), requested(node), len(look(node).calls("Allocate"))

    assert on_node(story, plugin(2)) == (None, "200m", 1)


# -- lists and endpoints --


LISTS = {
    "empty": ((), "Failed", AWAY),
    "one of none healthy": ((Device("a", health="Unhealthy"),), "Failed", AWAY),
    "ten thousand": (tuple(Device(f"D{n}") for n in range(10_000)), "Running", 3),
    "an id twice": ((Device("a"), Device("a"), Device("b"), Device("c")), "Running", 3),
    "an id twice, and short of others": (
        (Device("a"), Device("a"), Device("b")),
        "Failed",
        f"Allocate failed due to requested number of devices unavailable for {GPU}. "
        "Requested: 3, Available: 2, which is unexpected",
    ),
    "an id healthy and not": (
        (Device("a"), Device("a", health="Unhealthy"), Device("b"), Device("c")),
        "Running",
        3,
    ),
}


@pytest.mark.parametrize("case", LISTS)
def test_dev_024_041_what_a_list_means_for_admission(on_node, plugin, gpu_pod, look, case):
    devices, phase, expected = LISTS[case]

    async def story(node):
        node.fleet.plugins[0].service.set_devices(devices)
        await node.advance(11)
        node.apply(gpu_pod(gpus=3, a=POLITE))
        await node.advance(5)
        status = node.pod("p").status
        return status.phase, status.message, look(node).held()

    found, message, held = on_node(story, plugin(2))
    assert found == phase
    if phase == "Failed":
        assert message == f"Pod was rejected: {expected}"
        assert held == set()
    else:
        assert len(held) == expected
        assert held <= {device.id for device in devices}


def test_dev_041_a_list_without_an_allocated_device_leaves_it_to_its_pod(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(gpus=2, a=POLITE))
        await node.advance(5)
        held = look(node).held()
        node.fleet.plugins[0].service.set_devices(())
        await node.advance(11)
        empty = look(node).amounts()
        node.fleet.plugins[0].service.set_devices(tuple(Device(f"GPU-{n}") for n in range(3)))
        await node.advance(1)
        node.apply(gpu_pod("q", gpus=2, a=POLITE))
        await node.advance(5)
        return held, empty, look(node).held(), node.pod("q").status.message

    before, empty, after, message = on_node(story, plugin(2))
    assert empty == ("0", "0")
    assert before == after == {"GPU-0", "GPU-1"}
    assert message.endswith("Requested: 2, Available: 1, which is unexpected")


@pytest.mark.parametrize("fault", ["Allocate: hang", "GetPreferredAllocation: hang"])
def test_dev_069_a_call_that_hangs_stops_all_admissions_for_good(on_node, plugin, gpu_pod, look, fault):
    """There is no deadline: an hour later the next pod still waits, and what runs already goes on."""

    async def story(node):
        node.apply(gpu_pod("before", gpus=None, a=POLITE))
        await node.advance(5)
        node.apply(gpu_pod(a=POLITE))
        await node.advance(1)
        node.apply(gpu_pod("after", gpus=None, a=POLITE))
        await node.advance(3600)
        phases = [node.pod(name).status.phase for name in ("before", "p", "after")]
        node.fleet.plugins[0].crash()
        await node.advance(5)
        return phases, [node.pod(name).status.phase for name in ("before", "p", "after")]

    hung, freed = on_node(story, plugin(2, faults=fault))
    assert hung == ["Running", "Pending", "Pending"]
    assert freed == ["Running", "Failed", "Running"]  # the call fails with its plugin, and admission goes on


def test_dev_067_a_preference_that_cannot_be_asked_fails_the_pod(on_node, plugin, gpu_pod):
    async def story(node):
        node.apply(gpu_pod(a=POLITE))
        await node.advance(5)
        return node.pod("p").status

    status = on_node(story, plugin(2, faults='GetPreferredAllocation: error(INTERNAL, "no idea")'))
    assert status.reason == "UnexpectedAdmissionError"
    assert status.message == (
        "Pod was rejected: Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: "
        "rpc error: code = Internal desc = no idea, which is unexpected"
    )


def test_dev_042_045_046_a_plugin_that_is_gone_is_not_called(on_node, plugin, gpu_pod, look):
    """Its resource stays known for five minutes; a stopped endpoint gets no call, no list is asked for."""

    async def story(node):
        await node.advance(1)
        node.fleet.plugins[0].stop()
        await node.advance(20)
        node.apply(gpu_pod(a=POLITE))
        await node.advance(5)
        state = node.kubelet.containers.devices.state
        known = state.is_plugin_resource(GPU), state.endpoints[GPU].stopped
        return known, node.pod("p").status.message, look(node).calls("Allocate"), look(node).plugin()

    known, message, calls, facts = on_node(story, plugin(2))
    assert known == (True, True)
    assert message == f"Pod was rejected: {AWAY}"
    assert calls == []
    assert facts == ["registered", "listed", "failed", "lost"]


def test_dev_027_between_register_and_the_first_list(on_node, plugin, gpu_pod, look):
    """What was known of a resource before counts until its plugin lists again."""

    async def story(node):
        await node.advance(1)
        before = look(node).amounts()
        await node.fleet.plugins[0].restart(down_seconds=20)
        await node.advance(0.5)
        return before, look(node).plugin(), look(node).amounts()

    before, facts, between = on_node(story, plugin(2, faults="ListAndWatch: 1*off -> 1*delay(600)"))
    assert before == ("2", "2")
    assert facts == ["registered", "listed", "failed", "lost", "registered"]
    assert between == ("2", "0")


# -- books --


def read_checkpoint(node):
    import json

    path = f"{node.settings.root_dir}/device-plugins/kubelet_internal_checkpoint"
    return json.loads(node.files.read(path))["Data"]


def test_dev_062_082_when_the_checkpoint_is_written(on_node, plugin, gpu_pod):
    """With each list and each allocation; not when a pod goes or a plugin does."""

    async def story(node):
        await node.advance(1)
        listed = read_checkpoint(node)
        node.apply(gpu_pod(gpus=2, a=POLITE))
        await node.advance(5)
        allocated = read_checkpoint(node)
        node.delete("p")
        await node.advance(60)
        deleted = read_checkpoint(node)
        node.set_device_health(GPU, "GPU-1", "Unhealthy")
        await node.advance(1)
        return listed, allocated, deleted, read_checkpoint(node)

    listed, allocated, deleted, after = on_node(story, plugin(2))
    assert listed == {"PodDeviceEntries": None, "RegisteredDevices": {GPU: ["GPU-0", "GPU-1"]}}
    (entry,) = allocated["PodDeviceEntries"]
    assert (entry["ContainerName"], entry["ResourceName"]) == ("a", GPU)
    assert entry["DeviceIDs"] == {"-1": ["GPU-0", "GPU-1"]}
    assert deleted == allocated
    assert after["RegisteredDevices"] == {GPU: ["GPU-0"]}


def test_dev_090_092_allocation_comes_before_the_fit(on_node, plugin, gpu_pod, look):
    """A pod refused for CPU has caused an Allocate; its devices are free again for the next one."""

    async def story(node):
        node.apply(with_cpu(gpu_pod(gpus=2, a=POLITE), cpu="100"))
        await node.advance(5)
        refused = node.pod("p").status
        node.apply(gpu_pod("q", gpus=2, a=POLITE))
        await node.advance(5)
        return refused, look(node).calls("Allocate"), node.pod("q").status.phase, look(node).held(pod="q")

    refused, calls, phase, held = on_node(story, plugin(2))
    assert (refused.phase, refused.reason) == ("Failed", "OutOfcpu")
    assert len(calls) == 2
    assert (phase, held) == ("Running", {"GPU-0", "GPU-1"})


def test_dev_113_without_a_runtime_at_start_every_container_depends_on_its_plugin(
    on_node, plugin, gpu_pod, look
):
    """Recorded is only who RUNS at the start: a container in back-off does not count (row 2 of DEV-064)."""

    async def story(node):
        node.apply(gpu_pod(a=POLITE, b=("exit 1", None)))
        await node.advance(5)
        node.fleet.plugins[0].stop()
        await node.restart_kubelet()
        await node.advance(10)
        return node.pod("p").status.phase, look(node).held()

    phase, held = on_node(story, plugin(2))
    assert (phase, held) == ("Running", {"GPU-0"})


# -- creation of containers --


def test_dev_101_103_a_pre_start_that_fails_holds_the_container_up(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(a=POLITE))
        await node.advance(2)
        (status,) = node.pod("p").status.container_statuses
        first = status.state.waiting.reason, status.state.waiting.message
        await node.advance(60)
        return (
            first,
            look(node).events("Failed"),
            node.pod("p").status.phase,
            look(node).calls("PreStartContainer"),
        )

    setup = plugin(2, faults='PreStartContainer: 2*error(INTERNAL, "cannot reset")')
    (reason, message), events, phase, calls = on_node(story, setup)
    text = (
        "device plugin PreStartContainer rpc failed with err: rpc error: code = Internal desc = cannot reset"
    )
    assert (reason, message) == ("CreateContainerConfigError", text)
    assert f"Error: {text}" in events
    assert phase == "Running"
    assert len(calls) == 3  # two that failed, one before the container was created


def test_dev_101_103_a_pre_start_is_given_up_after_30_s(on_node, plugin, gpu_pod):
    async def story(node):
        node.apply(gpu_pod(a=POLITE))
        await node.advance(29)
        (before,) = node.pod("p").status.container_statuses
        await node.advance(6)
        (after,) = node.pod("p").status.container_statuses
        return before.state.waiting.reason, after.state.waiting

    before, after = on_node(story, plugin(2, faults="PreStartContainer: 1*hang"))
    assert before == "ContainerCreating"
    assert after is None or after.reason == "CreateContainerConfigError"


def test_dev_107_cdi_names_pass_as_they_are(on_node, gpu_pod, look):
    from devices.load import load_devices

    async def story(node):
        node.apply(gpu_pod(gpus=2, a=POLITE))
        await node.advance(5)
        (created,) = (r for r in node.recorder.records if r["k"] == "cri" and r["m"] == "CreateContainer")
        return created["devices"], look(node).held()

    names, held = on_node(story, *load_devices("h100x8-cdi"))
    assert len(held) == 2
    assert set(names) == {f"k8s.device-plugin.nvidia.com/gpu={one}" for one in held}


def test_dev_111_114_a_restart_in_place_calls_no_plugin_but_for_pre_start(on_node, plugin, gpu_pod, look):
    pod = gpu_pod(gpus=2, a="sleep 5; exit 88", b=(POLITE, 1))
    pod["spec"]["restartPolicy"] = "Never"
    pod["spec"]["containers"][0]["restartPolicy"] = "Never"
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}
    pod["spec"]["containers"][0]["restartPolicyRules"] = [rule]

    async def story(node):
        node.apply(pod)
        await node.advance(4)
        before = look(node).held("a"), look(node).held("b")
        await node.advance(6)
        return (
            before,
            (look(node).held("a"), look(node).held("b")),
            {method: look(node).calls(method) for method in ("Allocate", "PreStartContainer")},
        )

    before, after, calls = on_node(story, plugin(4))
    assert before == after
    assert len(calls["Allocate"]) == 2
    assert len(calls["PreStartContainer"]) == 4  # each container twice
    assert sorted(map(sorted, calls["PreStartContainer"])) == sorted(
        map(sorted, [before[0], before[0], before[1], before[1]])
    )


# -- health --


def test_dev_19d_120_123_health_by_device_and_nothing_else(on_node, plugin, gpu_pod, look):
    """Regular containers show it, init containers do not; readiness and restarts are as before."""

    async def story(node):
        node.apply(gpu_pod(gpus=2, init=[("i", "true")], a=POLITE))
        await node.advance(6)
        node.set_device_health(GPU, "GPU-1", "Unhealthy")
        await node.advance(3)
        return look(node).health(), node.pod("p").status

    health, status = on_node(story, plugin(2))
    assert health == {"GPU-0": "Healthy", "GPU-1": "Unhealthy"}
    assert status.init_container_statuses[0].allocated_resources_status == ()
    (shown,) = status.container_statuses
    assert (shown.ready, shown.restart_count, status.phase) == (True, 0, "Running")


def test_dev_19d_with_the_gate_off_no_pod_is_queued(on_node, plugin, gpu_pod, look):
    from kubelet_emu.gates import Gates
    from kubelet_emu.settings import KubeletSettings

    async def story(node):
        node.apply(gpu_pod(gpus=2, a=POLITE))
        await node.advance(5)
        syncs = len([r for r in node.recorder.records if r["k"] == "requeue"])
        node.set_device_health(GPU, "GPU-1", "Unhealthy")
        await node.advance(3)
        return look(node).health(), len([r for r in node.recorder.records if r["k"] == "requeue"]) - syncs

    settings = KubeletSettings(gates=Gates({"ResourceHealthStatus": False}))
    assert on_node(story, plugin(2), settings=settings) == ({}, 0)


def test_dev_123_a_pod_that_never_started_shows_its_devices(on_node, plugin, gpu_pod, look):
    pod = gpu_pod(gpus=1, a=POLITE)
    pod["spec"]["containers"][0]["image"] = "example.com/none:1"
    pod["spec"]["containers"][0]["imagePullPolicy"] = "Never"

    async def story(node):
        node.apply(pod)
        await node.advance(5)
        return look(node).health(), node.pod("p").status.phase

    assert on_node(story, plugin(2)) == ({"GPU-0": "Healthy"}, "Pending")
