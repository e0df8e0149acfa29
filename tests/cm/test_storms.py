# pyright: basic, reportIncompatibleMethodOverride=false
"""Many plugins at once, and plugins that misbehave in time."""

POLITE = "trap 'exit 0' TERM; sleep 3600 & wait"
GPU = "nvidia.com/gpu"


def test_a_hundred_plugins_register_again_after_a_kubelet_restart(on_node, plugin, look):
    """A hundred nodes' worth of devices, eight each."""
    setups = [plugin(8, resource=f"vendor-{n}.com/gpu") for n in range(100)]

    async def story(node):
        await node.restart_kubelet(down_seconds=1)
        await node.advance(15)
        return [look(node).amounts(each.model.resource) for each in setups], [
            look(node).plugin(each.model.resource) for each in setups
        ]

    amounts, facts = on_node(story, *setups)
    assert amounts == [("8", "8")] * 100
    assert facts == [["registered", "listed"] * 2] * 100


def test_health_that_flaps_every_10_ms(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(gpus=8, a=POLITE))
        await node.advance(5)
        for step in range(1000):
            health = "Unhealthy" if step % 2 == 0 else "Healthy"
            node.set_device_health(GPU, f"GPU-{step // 2 % 8}", health)
            await node.advance(0.01)
        node.set_device_health(GPU, "GPU-3", "Unhealthy")
        await node.advance(15)
        dropped = [r for r in node.recorder.records if r["k"] == "note" and "queue is full" in r["text"]]
        return look(node).health(), look(node).amounts(), node.pod("p").status, dropped

    health, amounts, status, dropped = on_node(story, plugin(8))
    assert health == {f"GPU-{n}": "Unhealthy" if n == 3 else "Healthy" for n in range(8)}
    assert amounts == ("8", "7")
    assert status.container_statuses[0].restart_count == 0
    assert dropped == []


def test_dev_122_updates_past_the_hundredth_are_dropped(on_node, plugin, gpu_pod, look):
    """While an admission hangs the sync loop takes nothing, and the queue fills up (DEV-069)."""

    async def story(node):
        node.apply(gpu_pod(a=POLITE))
        await node.advance(5)
        node.apply(gpu_pod("q", a=POLITE))
        await node.advance(1)
        for step in range(105):
            node.set_device_health(GPU, "GPU-0", "Unhealthy" if step % 2 == 0 else "Healthy")
            await node.advance(0.01)
        notes = [
            r["text"] for r in node.recorder.records if r["k"] == "note" and r["about"].startswith("devices")
        ]
        return notes, node.kubelet.containers.devices.state.unhealthy[GPU]

    notes, unhealthy = on_node(story, plugin(8, faults="Allocate: 1*off -> hang"))
    assert notes == ["device update queue is full, pod updates are discarded"] * 5
    assert unhealthy == {"GPU-0"}


def test_a_plugin_that_dies_between_register_and_the_first_list(on_node, plugin, gpu_pod, look):
    """The resource stays unknown, so a pod runs without it, until the plugin is back (DEV-043)."""

    async def story(node):
        await node.advance(0.5)
        node.apply(gpu_pod(a=POLITE))
        await node.advance(15)
        first = node.pod("p").status.phase, look(node).env(), look(node).plugin()
        return first, look(node).amounts()

    from attrs import evolve

    setup = evolve(plugin(2, faults="ListAndWatch: 1*crash"), restart_after_crash_seconds=5.0)
    (phase, env, facts), amounts = on_node(story, setup, warm_up=False)
    assert (phase, env) == ("Running", [None])
    assert facts == ["registered", "failed", "lost", "registered", "listed"]
    assert amounts == ("2", "2")


def test_a_plugin_that_comes_and_goes_all_the_time_keeps_its_pods(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(gpus=2, a=POLITE))
        await node.advance(5)
        for _ in range(50):
            node.fleet.plugins[0].crash()
            await node.advance(2)
        await node.advance(12)
        return look(node).held(), look(node).amounts(), node.pod("p").status

    held, amounts, status = on_node(story, plugin(4))
    assert held == {"GPU-0", "GPU-1"}
    assert amounts == ("4", "4")
    assert status.container_statuses[0].restart_count == 0


class NotText:
    """Serialises to a list whose second id is no UTF-8, which no message class would do."""

    def SerializeToString(self, *, deterministic):
        from k8s_proto import deviceplugin_v1beta1_pb2 as dp

        listed = dp.ListAndWatchResponse(
            devices=[dp.Device(ID=one, health="Healthy") for one in ("D0", "D1")]
        )
        return listed.SerializeToString(deterministic=deterministic).replace(b"D1", b"\xff\xfe")


def test_ids_that_are_no_utf_8_end_the_list_and_leave_the_resource_unknown(on_node, gpu_pod, look):
    """The kubelet cannot read the message: the stream is over, the node offers none, and a pod does not fit
    (DEV-043, DEV-093).
    """
    import trio

    from k8s_proto import deviceplugin_v1beta1_pb2 as dp
    from trio_grpc.services.deviceplugin_v1beta1 import DevicePluginHandler, RegistrationClient

    class Plugin(DevicePluginHandler):
        lists = 0

        async def GetDevicePluginOptions(self, request, call):
            return dp.DevicePluginOptions()

        async def ListAndWatch(self, request, call):
            Plugin.lists += 1
            yield NotText()
            await trio.sleep_forever()

    async def story(node):
        folder = f"{node.settings.root_dir}/device-plugins"
        transport = node.plugin_wires.transport
        server = transport.server(f"{folder}/odd.sock")
        server.add(Plugin())
        async with server, transport.channel(f"{folder}/kubelet.sock") as channel:
            request = dp.RegisterRequest(version="v1beta1", resource_name=GPU, endpoint="odd.sock")
            await RegistrationClient(channel).Register(request)
            await node.advance(15)
            node.apply(gpu_pod(a=POLITE))
            await node.advance(5)
        return look(node).plugin(), look(node).amounts(), node.pod("p").status, look(node).held()

    facts, amounts, status, held = on_node(story)
    assert facts == ["registered", "failed", "lost"]
    assert Plugin.lists == 1
    assert amounts == ("0", "0")
    assert (status.phase, status.reason, held) == ("Failed", f"OutOf{GPU}", set())
