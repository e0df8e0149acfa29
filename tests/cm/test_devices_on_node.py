"""Devices over the life of pods, plugins, kubelet and node (DEV sections 8 to 12)."""

from devices.model import Identity
from kubelet_emu.cm.devicemanager.manager import Quirks

POLITE = "trap 'exit 0' TERM; sleep 3600 & wait"
CRASHING = "sleep 2; exit 1"
GPU = "nvidia.com/gpu"
NO_HEALTHY = (
    "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices "
    f"{GPU}, which is unexpected"
)
NEVER = {"restartPolicy": "Never"}


# -- DEV-110: kubelet restarts --


def test_dev_110_a_running_container_keeps_its_devices_over_a_kubelet_restart(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(gpus=3, a=POLITE))
        await node.advance(5)
        before = look(node).held()
        await node.restart_kubelet(down_seconds=3)
        await node.advance(20)
        return before, look(node).held(), look(node), node.pod("p")

    before, after, seen, pod = on_node(story, plugin())
    assert before == after
    assert len(before) == 3
    assert len(seen.calls("Allocate")) == len(seen.calls("PreStartContainer")) == 1
    assert pod.status.phase == "Running"
    assert seen.plugin() == ["registered", "listed", "registered", "listed"]


def test_dev_110_a_running_container_needs_no_plugin_after_a_kubelet_restart(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(a=POLITE))
        await node.advance(5)
        node.fleet.plugins[0].stop()
        await node.advance(1)
        await node.restart_kubelet()
        await node.advance(30)
        return node.pod("p"), look(node).health(), look(node).held()

    pod, health, held = on_node(story, plugin())
    assert pod.status.phase == "Running"
    assert held == {"GPU-0"}
    assert health == {"GPU-0": "Healthy"}  # DEV-122: not listed, so not known to be unwell


def test_dev_112_a_pod_in_backoff_is_refused_while_its_plugin_is_away(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(a=CRASHING, b=POLITE))
        await node.advance(15)
        node.fleet.plugins[0].stop()
        await node.restart_kubelet()
        await node.advance(60)
        return node.pod("p").status, look(node).events("UnexpectedAdmissionError")

    status, events = on_node(story, plugin())
    assert events == [NO_HEALTHY]
    assert (status.phase, status.reason) == ("Failed", "UnexpectedAdmissionError")
    assert status.message == f"Pod was rejected: {NO_HEALTHY}"


def test_dev_112_with_all_exits_0_the_refused_pod_succeeds(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(init=[("i", "true")], a=POLITE, spec=NEVER))
        await node.advance(10)
        node.fleet.plugins[0].stop()
        await node.restart_kubelet()
        await node.advance(60)
        return node.pod("p").status, look(node).events("UnexpectedAdmissionError")

    status, events = on_node(story, plugin())
    assert events == [NO_HEALTHY]
    assert (status.phase, status.reason, status.message) == ("Succeeded", None, None)


def test_dev_112_a_plugin_that_watches_the_folder_wins_the_race(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(a=CRASHING, b=POLITE))
        await node.advance(15)
        await node.restart_kubelet(down_seconds=1)
        await node.advance(60)
        return node.pod("p").status, look(node)

    status, seen = on_node(story, plugin())
    assert status.phase == "Running"
    assert seen.events("UnexpectedAdmissionError") == []
    assert len(seen.calls("Allocate")) == 2
    assert set(seen.env()) == {"GPU-0"}


def test_dev_094_a_pod_that_has_ended_is_not_admitted_again(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(a="exit 0", spec=NEVER))
        await node.advance(10)
        node.fleet.plugins[0].stop()
        await node.restart_kubelet()
        await node.advance(20)
        return node.pod("p").status.phase, look(node).events("UnexpectedAdmissionError")

    assert on_node(story, plugin()) == ("Succeeded", [])


def test_dev_115_devices_of_a_pod_deleted_while_the_kubelet_was_down_are_free(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(gpus=2, a=POLITE))
        await node.advance(5)
        await node.stop_kubelet()
        node.delete("p", grace_seconds=0)
        await node.restart_kubelet()
        await node.advance(10)
        node.apply(gpu_pod("q", gpus=2, a=POLITE))
        await node.advance(10)
        return node.pod("q").status.phase, look(node).held(pod="q")

    assert on_node(story, plugin(2)) == ("Running", {"GPU-0", "GPU-1"})


# -- DEV-110: reboots and lost checkpoints --


def test_dev_110_after_a_reboot_with_the_plugin_back_first(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(gpus=2, a=POLITE))
        await node.advance(5)
        before = look(node).held()
        await node.reboot(down_seconds=20)
        await node.advance(20)
        return before, look(node).held(), node.pod("p").status.phase, look(node)

    before, after, phase, seen = on_node(story, plugin())
    assert (before, phase) == (after, "Running")
    assert len(seen.calls("Allocate")) == 1
    assert len(seen.calls("PreStartContainer")) == 2
    assert seen.env() == ["GPU-0,GPU-1"] * 2


def test_dev_110_after_a_reboot_with_the_plugin_not_back(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(a=POLITE))
        await node.advance(5)
        await node.reboot(down_seconds=20, plugins_after_seconds=30)
        await node.advance(60)
        return node.pod("p").status, look(node).events("UnexpectedAdmissionError")

    status, events = on_node(story, plugin())
    assert events == [NO_HEALTHY]
    assert (status.phase, status.reason) == ("Failed", "UnexpectedAdmissionError")


def test_dev_110_after_a_reboot_with_other_ids(on_node, plugin, gpu_pod):
    async def story(node):
        node.apply(gpu_pod(a=POLITE))
        await node.advance(5)
        await node.reboot(down_seconds=20)
        await node.advance(60)
        return node.pod("p").status

    status = on_node(story, plugin(identity=Identity.FRESH))
    assert status.phase == "Failed"
    assert "previously allocated devices are no longer healthy" in status.message


def test_dev_110_a_lost_checkpoint_makes_devices_look_free(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(a=POLITE))
        await node.advance(5)
        await node.stop_kubelet()
        manager = node.kubelet.containers.devices
        node.files.remove(f"{manager.folder}/kubelet_internal_checkpoint")
        await node.restart_kubelet()
        await node.advance(20)
        held = look(node).held()
        await node.exec("default", "p", "a", ["sh", "-c", "kill 1"])
        await node.advance(20)
        return held, node.pod("p").status, look(node).events("Failed")

    held, status, failed = on_node(story, plugin())
    assert held == set()
    waiting = status.container_statuses[0].state.waiting
    assert waiting is not None
    assert waiting.reason == "CreateContainerConfigError"
    assert waiting.message.startswith("no devices found allocated in local cache for pod ")
    assert failed[0].startswith("Error: no devices found allocated in local cache for pod ")


def test_dev_110_without_pre_start_a_lost_assignment_is_made_anew(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(a=POLITE))
        await node.advance(5)
        await node.stop_kubelet()
        node.files.remove("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint")
        await node.restart_kubelet()
        await node.advance(20)
        await node.exec("default", "p", "a", ["sh", "-c", "kill 1"])
        await node.advance(20)
        return look(node).held(), node.pod("p").status.phase, len(look(node).calls("Allocate"))

    assert on_node(story, plugin(pre_start=False)) == ({"GPU-0"}, "Running", 2)


def test_dev_085_a_damaged_checkpoint_is_as_good_as_none(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(a=POLITE))
        await node.advance(5)
        await node.stop_kubelet()
        path = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
        node.files.write(path, node.files.read(path).replace(b"GPU-0", b"GPU-9"))
        await node.restart_kubelet()
        await node.advance(20)
        notes = [r["text"] for r in node.recorder.records if r["k"] == "note" and r["about"] == "devices"]
        return look(node).held(), node.pod("p").status.phase, notes

    held, phase, notes = on_node(story, plugin())
    assert (held, phase) == (set(), "Running")
    assert notes == ["the checkpoint is not used: checkpoint is corrupted"]


# -- DEV-043, DEV-104, DEV-191: plugins come and go --


def test_dev_043_a_plugin_that_is_gone_leaves_its_capacity_for_five_minutes(on_node, plugin, look):
    async def story(node):
        found = [look(node).amounts()]
        node.fleet.plugins[0].stop()
        await node.advance(11)
        found.append(look(node).amounts())
        await node.advance(285)
        found.append(look(node).amounts())
        await node.advance(20)
        found.append(look(node).amounts())
        node.fleet.plugins[0].start()
        await node.advance(11)
        return [*found, look(node).amounts()], look(node).plugin()

    amounts, plugin_facts = on_node(story, plugin(2))
    assert amounts == [("2", "2"), ("2", "0"), ("2", "0"), ("0", "0"), ("2", "2")]
    assert plugin_facts[-4:] == ["lost", "expired", "registered", "listed"]


def test_dev_104_without_its_plugin_a_container_that_needs_pre_start_waits(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(a=CRASHING))
        await node.advance(1.5)
        node.fleet.plugins[0].stop()
        await node.advance(14)
        gone = node.pod("p").status.container_statuses[0].state.waiting
        node.fleet.plugins[0].start()
        await node.advance(120)
        return gone, look(node)

    gone, seen = on_node(story, plugin())
    assert gone.reason == "CreateContainerConfigError"
    assert gone.message.startswith("device plugin PreStartContainer rpc failed with err: endpoint ")
    assert gone.message.endswith(" has been stopped")
    assert set(seen.env()) == {"GPU-0"}
    assert len(seen.env()) > 1
    assert len(seen.calls("Allocate")) == 1


def test_dev_104_without_pre_start_the_cache_is_enough(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(a=CRASHING))
        await node.advance(1.5)
        node.fleet.plugins[0].stop()
        await node.advance(20)
        return look(node).env()

    found = on_node(story, plugin(pre_start=False))
    assert len(found) > 1
    assert set(found) == {"GPU-0"}


def test_dev_104_after_expiry_the_endpoint_is_missing(on_node, plugin, gpu_pod):
    async def story(node):
        node.apply(gpu_pod(a=POLITE))
        await node.advance(5)
        node.fleet.plugins[0].stop()
        await node.advance(320)
        await node.exec("default", "p", "a", ["sh", "-c", "kill 1"])
        await node.advance(20)
        return node.pod("p").status.container_statuses[0].state.waiting

    waiting = on_node(story, plugin())
    assert waiting.message == f"endpoint not found in cache for a registered resource: {GPU}"


def test_dev_191_options_that_fail_keep_the_resource_out(on_node, plugin, look):
    async def story(node):
        await node.advance(100)
        return look(node).amounts(), look(node).plugin()

    setup = plugin(2, faults='GetDevicePluginOptions: error(UNKNOWN, "broken")', retry_seconds=1000.0)
    amounts, facts = on_node(story, setup, warm_up=False)
    assert amounts == (None, None)
    assert facts == ["refused"]


def test_dev_191_a_list_that_fails_at_once(on_node, plugin, look):
    async def story(node):
        await node.advance(30)
        return look(node).amounts(), look(node).plugin()

    setup = plugin(2, faults='ListAndWatch: error(UNKNOWN, "broken")')
    amounts, facts = on_node(story, setup, warm_up=False)
    assert amounts == ("0", "0")
    assert facts == ["registered", "failed", "lost"]


def test_dev_191_health_up_and_down(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(a=POLITE))
        found = []
        for health in ("Healthy", "Unhealthy", "Healthy", "Unhealthy"):
            node.set_device_health(GPU, "GPU-0", health)
            await node.advance(11)
            found.append((*look(node).amounts(), look(node).health()["GPU-0"]))
        assert node.pod("p").status.phase == "Running"
        node.delete("p")
        await node.advance(60)
        return [*found, look(node).amounts()]

    assert on_node(story, plugin(1)) == [
        ("1", "1", "Healthy"),
        ("1", "0", "Unhealthy"),
        ("1", "1", "Healthy"),
        ("1", "0", "Unhealthy"),
        ("1", "0"),
    ]


def test_dev_122_a_device_that_vanishes_counts_as_healthy_at_the_next_sync(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(a=POLITE))
        await node.advance(5)
        node.set_device_health(GPU, "GPU-0", "Unhealthy")
        await node.advance(5)
        first = look(node).health()
        service = node.fleet.plugins[0].service
        service.set_devices(service.model.devices[1:])
        await node.advance(1)
        second = look(node).health()
        await node.advance(120)
        return first, second, look(node).health(), look(node).held()

    first, second, third, held = on_node(story, plugin())
    assert first == second == {"GPU-0": "Unhealthy"}
    assert third == {"GPU-0": "Healthy"}
    assert held == {"GPU-0"}


# -- admission --


def test_dev_093_a_resource_that_never_was_is_not_missed(on_node, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(a=POLITE))
        await node.advance(5)
        return node.pod("p").status.phase, look(node).env()

    assert on_node(story) == ("Running", [None])


def test_dev_093_a_resource_that_is_gone_for_good_does_not_fit(on_node, plugin, gpu_pod):
    async def story(node):
        node.fleet.plugins[0].stop()
        await node.advance(330)
        node.apply(gpu_pod(a=POLITE))
        await node.advance(5)
        return node.pod("p").status

    status = on_node(story, plugin(2))
    assert (status.phase, status.reason) == ("Failed", f"OutOf{GPU}")
    assert status.message == (
        f"Pod was rejected: Node didn't have enough resource: {GPU}, requested: 1, used: 0, capacity: 0"
    )


def test_dev_065_a_limit_of_0_asks_nothing_of_the_plugin(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(gpus=0, a=POLITE))
        await node.advance(5)
        return node.pod("p").status.phase, look(node).calls("Allocate"), look(node).health()

    assert on_node(story, plugin(2)) == ("Running", [], {})


def test_dev_065_a_limit_of_0_still_needs_a_healthy_device(on_node, plugin, gpu_pod):
    async def story(node):
        node.set_device_health(GPU, "GPU-0", "Unhealthy")
        await node.advance(1)
        node.apply(gpu_pod(gpus=0, a=POLITE))
        await node.advance(5)
        return node.pod("p").status.message

    assert on_node(story, plugin(1)) == f"Pod was rejected: {NO_HEALTHY}"


def test_dev_071_two_pods_never_share(on_node, plugin, gpu_pod, look):
    async def story(node):
        for name in "pqr":
            node.apply(gpu_pod(name, gpus=3, a=POLITE))
        await node.advance(10)
        node.delete("p")
        await node.advance(60)
        node.apply(gpu_pod("s", gpus=3, a=POLITE))
        await node.advance(10)
        return [node.pod(name).status.phase for name in "qrs"], [look(node).held(pod=name) for name in "qrs"]

    phases, held = on_node(story, plugin(8))
    assert phases == ["Running", "Failed", "Running"]
    assert not held[0] & held[2]
    assert (len(held[0]), held[1], len(held[2])) == (3, set(), 3)


def test_dev_072_init_containers_lend_their_devices(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(init=[("i", ("true", 2))], a=POLITE, b=POLITE))
        await node.advance(10)
        return [look(node).held(name) for name in "iab"], node.pod("p").status.phase

    (init, first, second), phase = on_node(story, plugin(2))
    assert phase == "Running"
    assert init == first | second
    assert not first & second


def test_dev_069_a_plugin_that_hangs_in_allocate_holds_up_every_admission(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(a=POLITE))
        await node.advance(1)
        node.apply(gpu_pod("q", gpus=None, a=POLITE))
        await node.advance(60)
        return [node.pod(name).status.phase for name in "pq"], len(look(node).calls("Allocate"))

    assert on_node(story, plugin(2, faults="Allocate: hang")) == (["Pending", "Pending"], 1)


def test_dev_068_an_allocate_that_fails_gives_the_devices_back(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(gpus=2, a=POLITE))
        await node.advance(5)
        first = node.pod("p").status.message
        node.apply(gpu_pod("q", gpus=2, a=POLITE))
        await node.advance(5)
        return first, node.pod("q").status.phase

    setup = plugin(2, faults='Allocate: 1*error(INTERNAL, "no driver")')
    assert on_node(story, setup) == (
        "Pod was rejected: Allocate failed due to rpc error: code = Internal desc = no driver, "
        "which is unexpected",
        "Running",
    )


# -- registration --


def test_dev_026_the_end_of_an_old_plugin_closes_the_new_one(on_node, plugin, look):
    """Two plugins for one resource that overlap: when the first stops, the second is cut off too."""

    async def story(node):
        first = node.fleet.plugins[0]
        await node.advance(5)
        first.stop()
        await node.advance(20)
        return look(node).amounts(), look(node).plugin()

    new = plugin(1, ids=("NEW-0",))
    from attrs import evolve

    new = evolve(new, model=evolve(new.model, socket="new.sock"))
    amounts, facts = on_node(story, plugin(2), new)
    assert amounts == ("1", "0")
    assert facts.count("lost") == 1


def test_dev_033_a_plugin_that_the_watcher_finds(on_node, plugin, gpu_pod, look):
    async def story(node):
        await node.advance(3)
        node.apply(gpu_pod(a=POLITE))
        await node.advance(5)
        await node.restart_kubelet(down_seconds=1)
        await node.advance(10)
        node.fleet.plugins[0].stop()
        await node.advance(12)
        return node.pod("p").status.phase, look(node).amounts(), look(node).plugin()

    phase, amounts, facts = on_node(story, plugin(2, register="watcher"))
    assert (phase, amounts) == ("Running", ("2", "0"))
    assert facts == ["registered", "listed", "registered", "listed", "failed", "lost"]


def test_dev_192_lists_of_any_kind(on_node, plugin, look):
    """An empty list, a long one, repeated ids."""
    from devices.model import Device

    async def story(node):
        service = node.fleet.plugins[0].service
        found = []
        for devices in (
            (),
            tuple(Device(f"D{n}") for n in range(10_000)),
            (Device("a"), Device("a"), Device("b")),
            (Device("a"), Device("a", health="Unhealthy")),
        ):
            service.set_devices(devices)
            await node.advance(11)
            found.append(look(node).amounts())
        return found

    assert on_node(story, plugin(2)) == [("0", "0"), ("10000", "10000"), ("2", "2"), ("2", "1")]


# -- DEV-204: the same stories with an oddity switched off --


def test_dev_065_off_a_limit_of_0_needs_nothing(on_node, plugin, gpu_pod):
    async def story(node):
        node.set_device_health(GPU, "GPU-0", "Unhealthy")
        await node.advance(1)
        node.apply(gpu_pod(gpus=0, a=POLITE))
        await node.advance(5)
        return node.pod("p").status.phase

    quirks = Quirks(dev_065_zero_limit_needs_health=False)
    assert on_node(story, plugin(1), device_quirks=quirks) == "Running"


def test_dev_112_off_a_pod_with_a_running_container_stays(on_node, plugin, gpu_pod):
    async def story(node):
        node.apply(gpu_pod(init=[("i", "true")], a=POLITE))
        await node.advance(10)
        node.fleet.plugins[0].stop()
        await node.restart_kubelet()
        await node.advance(30)
        return node.pod("p").status.phase

    quirks = Quirks(dev_112_other_containers_are_checked=False)
    assert on_node(story, plugin(), device_quirks=quirks) == "Running"


def test_dev_121_off_a_vanished_device_is_unknown(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(a=POLITE))
        await node.advance(5)
        service = node.fleet.plugins[0].service
        service.set_devices(service.model.devices[1:])
        await node.advance(120)
        return look(node).health()

    quirks = Quirks(dev_121_vanished_is_healthy=False)
    assert on_node(story, plugin(), device_quirks=quirks) == {"GPU-0": "Unknown"}
