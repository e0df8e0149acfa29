"""Many plugins at once, in virtual time. The kubelet's side of such storms is tested with the kubelet."""

import pytest
import trio
from attrs import evolve

from devices.fleet import DeviceFleet
from devices.hooks import PluginHooks
from devices.load import with_failures
from devices.model import Device, Model
from devices.presets import preset
from devices.setup import DeviceProblem, PluginSetup
from node_host.randoms import Randoms


def many(count):
    """``count`` plugins of eight devices, each for a resource of its own."""
    model = preset("a100x8")[0].model
    return [
        PluginSetup(model=evolve(model, resource=f"node-{n}.vendor.com/gpu", socket=f"p{n}.sock"))
        for n in range(count)
    ]


def fleet(bench, setups, **options):
    return DeviceFleet(
        setups,
        transport=bench.transport,
        clock=bench.clock,
        randoms=Randoms(1),
        places=bench.places,
        observer=bench.facts.append,
        **options,
    )


def test_a_hundred_plugins_over_three_kubelets(memory_bench):
    async def body(bench):
        found = fleet(bench, many(100))
        async with trio.open_nursery() as nursery:
            await nursery.start(found.run)
            for _ in range(3):
                async with bench.kubelet().running() as kubelet:
                    await kubelet.until(lambda k: len(k.lists) == 100)
                    assert len({request.resource_name for request in kubelet.registered}) == 100
                    assert all(len(listed) == 8 for listed in kubelet.lists)
            nursery.cancel_scope.cancel()
        assert bench.clock.elapsed_seconds() < 3

    memory_bench.run(body)


def test_health_that_flaps_every_10_ms(memory_bench):
    async def body(bench):
        found = fleet(bench, many(1))
        async with trio.open_nursery() as nursery, bench.kubelet().running() as kubelet:
            await nursery.start(found.run)
            await kubelet.until(lambda k: k.lists)
            for turn in range(1000):
                found.set_health("#0", ("Unhealthy", "Healthy")[turn % 2])
                await trio.sleep(0.01)
            assert len(kubelet.lists) == 1001
            assert kubelet.lists[-1] == kubelet.lists[0]
            nursery.cancel_scope.cancel()

    memory_bench.run(body)


def test_a_kubelet_that_reads_slowly_gets_the_latest_list(memory_bench):
    async def body(bench):
        (setup,) = many(1)
        plugin = bench.plugin(setup)
        async with bench.living(plugin), bench.client(plugin) as client:
            from k8s_proto import deviceplugin_v1beta1_pb2 as pb

            async with client.ListAndWatch(pb.Empty()) as items:
                device = plugin.service.model.devices[0].id
                for turn in range(501):
                    plugin.service.set_health(device, ("Unhealthy", "Healthy")[turn % 2])
                    await trio.sleep(0.01)
                seen = 0
                with trio.move_on_after(5):
                    async for item in items:
                        seen += 1
                        last = item.devices[0].health
                # What the window does not hold is folded into one list: the newest.
                assert seen < 50
                assert last == "Unhealthy"

    memory_bench.run(body)


@pytest.mark.parametrize("count", [0, 10_000])
def test_lists_of_any_length(bench, count):
    model = Model(
        resource="v.com/w", devices=tuple(Device(f"d{n}", (n % 8,)) for n in range(count)), socket="w.sock"
    )

    async def body(bench):
        async with bench.kubelet().running() as kubelet, bench.living(bench.plugin(PluginSetup(model=model))):
            await kubelet.until(lambda k: k.lists)
            assert len(kubelet.lists[0]) == count

    bench.run(body)


def test_repeated_ids_are_sent_as_they_are(memory_bench):
    twice = Model(resource="v.com/w", devices=(Device("d"), Device("d", None, "Unhealthy")), socket="w.sock")

    async def body(bench):
        plugin = bench.plugin(PluginSetup(model=twice))
        async with bench.living(plugin), bench.client(plugin) as client:
            from k8s_proto import deviceplugin_v1beta1_pb2 as pb

            async with client.ListAndWatch(pb.Empty()) as items:
                async for item in items:
                    assert [each.health for each in item.devices] == ["Healthy", "Unhealthy"]
                    break

    memory_bench.run(body)


def test_health_over_time_hooks_and_names(memory_bench):
    class Hooks(PluginHooks):
        async def devices(self, call, devices):
            return devices[:1]

    async def body(bench):
        setups = with_failures([*preset("a100x8"), *preset("tpu-v5e-4")], ["#0@5s-9s"])
        found = fleet(bench, setups, hooks={"google.com/tpu": Hooks()})
        async with trio.open_nursery() as nursery, bench.kubelet().running() as kubelet:
            await nursery.start(found.run)
            await found.wait_registered()
            await trio.sleep(1)
            assert sorted(map(len, kubelet.lists)) == [1, 8]
            await trio.sleep(20)
            assert [sum(h == "Unhealthy" for h in listed.values()) for listed in kubelet.lists[2:]] == [1, 0]
            assert found.plugin("google.com/tpu").registered
            with pytest.raises(DeviceProblem, match=r"there are nvidia.com/gpu, google.com/tpu"):
                found.plugin("nope")
            nursery.cancel_scope.cancel()

    memory_bench.run(body)
