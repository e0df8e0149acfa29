"""The plugin as a program, over both transports, against a bare kubelet."""

import pytest
import trio
from attrs import evolve

from devices.facts import PluginCall, PluginChanged
from devices.hooks import PluginHooks
from devices.model import Device, Identity, Model, Notices, Preference, Refused
from devices.nvidia import NvidiaOptions, nvidia_models
from devices.others import sample_model
from devices.setup import DeviceProblem, PluginSetup, Register
from k8s_proto import deviceplugin_v1beta1_pb2 as pb
from k8s_proto import pluginregistration_v1_pb2 as reg
from trio_grpc import Code, StatusError
from trio_grpc.services.pluginregistration_v1 import RegistrationClient


def widget(**changes):
    model = Model(
        resource="vendor.com/widget",
        devices=(Device("w0", (0,)), Device("w1", (1,))),
        socket="widget.sock",
        env="WIDGETS",
        pre_start=True,
        preference=Preference.LOWEST,
    )
    return evolve(model, **changes)


def setup(faults="", **changes):
    kinds = {key: changes.pop(key) for key in ("register", "restart_after_crash_seconds") if key in changes}
    return PluginSetup(model=widget(**changes), faults=faults, **kinds)


def allocate(*ids):
    return pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])


def test_registers_serves_and_reports_health(bench):
    async def body(bench):
        async with bench.kubelet().running() as kubelet:
            plugin = bench.plugin(setup())
            async with bench.living(plugin):
                await kubelet.until(lambda k: k.lists)
                (request,) = kubelet.registered
                assert (request.version, request.endpoint) == ("v1beta1", "widget.sock")
                assert request.resource_name == "vendor.com/widget"
                assert kubelet.options == [request.options]
                assert request.options.pre_start_required
                plugin.service.set_health("w1", "Unhealthy")
                await kubelet.until(lambda k: len(k.lists) == 2)
                plugin.service.set_health("w1", "Unhealthy")  # no change, no message
                plugin.service.set_health("w1", "Healthy")
                await kubelet.until(lambda k: len(k.lists) == 3)
                plugin.service.set_devices(())
                await kubelet.until(lambda k: len(k.lists) == 4)
                assert plugin.registered
            assert [each.get("w1") for each in kubelet.lists] == ["Healthy", "Unhealthy", "Healthy", None]

    bench.run(body)


def test_calls_are_answered_and_told(bench):
    async def body(bench):
        plugin = bench.plugin(setup())
        async with bench.living(plugin), bench.client(plugin) as client:
            asked = pb.ContainerPreferredAllocationRequest(
                available_deviceIDs=["w1", "w0"], must_include_deviceIDs=["w1"], allocation_size=2
            )
            preferred = await client.GetPreferredAllocation(
                pb.PreferredAllocationRequest(container_requests=[asked])
            )
            assert list(preferred.container_responses[0].deviceIDs) == ["w1", "w0"]
            reply = await client.Allocate(allocate("w1", "w0"))
            assert dict(reply.container_responses[0].envs) == {"WIDGETS": "w1,w0"}
            await client.PreStartContainer(pb.PreStartContainerRequest(devices_ids=["w1"]))
            with pytest.raises(StatusError) as refused:
                await client.Allocate(allocate("nope"))
            assert refused.value.code is Code.UNKNOWN
            assert str(refused.value) == "rpc error: code = Unknown desc = unknown device: nope"
        calls = [(fact.method, dict(fact.fields())) for fact in bench.facts if isinstance(fact, PluginCall)]
        assert calls == [
            ("GetPreferredAllocation", {"req": [{"avail": ["w1", "w0"], "must": ["w1"], "size": 2}]}),
            ("Allocate", {"ids": [["w1", "w0"]]}),
            ("PreStartContainer", {"ids": ["w1"]}),
            ("Allocate", {"ids": [["nope"]]}),
        ]

    bench.run(body)


def test_waits_for_the_kubelet_and_tries_again_when_refused(bench):
    async def body(bench):
        plugin = bench.plugin(setup())
        async with bench.living(plugin):
            await trio.sleep(3)
            kubelet = bench.kubelet()
            kubelet.refuse = 2
            async with kubelet.running():
                await kubelet.until(lambda k: k.lists)
        failures = [
            f for f in bench.facts if isinstance(f, PluginChanged) and f.change == "registration-failed"
        ]
        assert [fact.text for fact in failures] == ["rpc error: code = Unknown desc = not today"] * 2

    bench.run(body)


@pytest.mark.parametrize("notices", [Notices.KUBELET_SOCKET, Notices.OWN_SOCKET])
def test_dev_013_registers_again_after_a_kubelet_restart(bench, notices):
    async def body(bench):
        plugin = bench.plugin(setup(notices=notices))
        async with bench.living(plugin):
            async with bench.kubelet().running() as first:
                await first.until(lambda k: k.lists)
            await trio.sleep(2)
            self_removed = plugin.socket_path
            if bench.kind == "unix":
                (bench.folder / "device-plugins" / "widget.sock").unlink()
            else:
                sockets = bench.transport.sockets
                sockets.unbind(self_removed, sockets.find(self_removed))
            async with bench.kubelet().running() as second:
                await second.until(lambda k: k.lists)
                assert len(second.registered) == 1

    bench.run(body)


def test_a_plugin_that_does_not_notice_stays_lost(memory_bench):
    async def body(bench):
        plugin = bench.plugin(setup(notices=Notices.NEVER))
        async with bench.living(plugin):
            async with bench.kubelet().running() as first:
                await first.until(lambda k: k.lists)
            async with bench.kubelet().running() as second:
                await trio.sleep(600)
                assert not second.registered

    memory_bench.run(body)


def test_restart_by_hand_ends_the_list_and_begins_anew(bench):
    async def body(bench):
        plugin = bench.plugin(setup())
        async with bench.kubelet().running() as kubelet, bench.living(plugin):
            await kubelet.until(lambda k: k.lists)
            await plugin.restart(down_seconds=7)
            await kubelet.until(lambda k: len(k.lists) == 2)
            assert kubelet.ends[0].code is Code.UNAVAILABLE

    bench.run(body)


def test_crash_comes_back_after_the_time_given_or_never(bench):
    async def body(bench):
        plugin = bench.plugin(setup("Allocate: 1*crash", restart_after_crash_seconds=5.0))
        async with bench.kubelet().running() as kubelet, bench.living(plugin):
            await kubelet.until(lambda k: k.lists)
            async with bench.client(plugin) as client:
                with pytest.raises(StatusError) as gone:
                    await client.Allocate(allocate("w0"))
                assert gone.value.code is Code.UNAVAILABLE
            start = trio.current_time()
            await kubelet.until(lambda k: len(k.lists) == 2)
            assert trio.current_time() - start == pytest.approx(5.0, abs=0.5)

    bench.run(body)


def test_a_dead_plugin_stays_dead_until_started(memory_bench):
    async def body(bench):
        plugin = bench.plugin(setup(restart_after_crash_seconds=None))
        async with bench.kubelet().running() as kubelet, bench.living(plugin):
            await kubelet.until(lambda k: k.lists)
            plugin.crash()
            await trio.sleep(3600)
            assert len(kubelet.registered) == 1
            plugin.start()
            await kubelet.until(lambda k: len(k.lists) == 2)

    memory_bench.run(body)


class TestFaults:
    """The shared grammar on the serving side; each fault with what its caller sees."""

    @pytest.mark.parametrize(
        ("faults", "code", "details"),
        [
            ('Allocate: 1*error(RESOURCE_EXHAUSTED, "busy")', Code.RESOURCE_EXHAUSTED, "busy"),
            ("Allocate: 1*lost(DATA_LOSS)", Code.DATA_LOSS, ""),
            ("Allocate: 1*hang", Code.DEADLINE_EXCEEDED, "context deadline exceeded"),
            ("Allocate: 1*lost", Code.DEADLINE_EXCEEDED, "context deadline exceeded"),
            ("Allocate: 1*delay(99)", Code.DEADLINE_EXCEEDED, "context deadline exceeded"),
        ],
    )
    def test_unary(self, bench, faults, code, details):
        async def body(bench):
            plugin = bench.plugin(setup(faults))
            async with bench.living(plugin), bench.client(plugin) as client:
                with pytest.raises(StatusError) as failed:
                    await client.Allocate(allocate("w0"), timeout_seconds=10)
                assert (failed.value.code, failed.value.details) == (code, details)
                await client.Allocate(allocate("w0"), timeout_seconds=10)

        bench.run(body)

    def test_count_before_the_fault(self, memory_bench):
        async def body(bench):
            plugin = bench.plugin(setup("Allocate: 2*off -> 1*error(ABORTED)"))
            async with bench.living(plugin), bench.client(plugin) as client:
                await client.Allocate(allocate("w0"))
                await client.Allocate(allocate("w0"))
                with pytest.raises(StatusError):
                    await client.Allocate(allocate("w0"))
                await client.Allocate(allocate("w0"))

        memory_bench.run(body)

    @pytest.mark.parametrize(
        ("faults", "lists", "code"),
        [
            ('ListAndWatch: 1*error(UNKNOWN, "no")', 0, Code.UNKNOWN),
            ("ListAndWatch: 1*lost(UNAVAILABLE)", 1, Code.UNAVAILABLE),
            ("ListAndWatch: 1*crash", 0, Code.UNAVAILABLE),
            ("ListAndWatch: 1*crash(after)", 1, Code.UNAVAILABLE),
        ],
    )
    def test_list(self, bench, faults, lists, code):
        async def body(bench):
            plugin = bench.plugin(setup(faults, restart_after_crash_seconds=None))
            async with bench.kubelet().running() as kubelet, bench.living(plugin):
                await kubelet.until(lambda k: k.ends)
                assert (len(kubelet.lists), kubelet.ends[0].code) == (lists, code)

        bench.run(body)

    def test_duplicate_list_is_sent_twice(self, memory_bench):
        async def body(bench):
            plugin = bench.plugin(setup("ListAndWatch: 1*duplicate"))
            async with bench.kubelet().running() as kubelet, bench.living(plugin):
                await kubelet.until(lambda k: len(k.lists) == 2)
                assert kubelet.lists[0] == kubelet.lists[1]

        memory_bench.run(body)

    def test_registration_too(self, memory_bench):
        async def body(bench):
            plugin = bench.plugin(setup("Register: 1*error(UNAVAILABLE) -> 1*lost(UNKNOWN)"))
            async with bench.kubelet().running() as kubelet, bench.living(plugin):
                await plugin.wait_registered()
                # The first never reached the kubelet, of the second only the answer was lost.
                assert len(kubelet.registered) == 2

        memory_bench.run(body)

    def test_end_of_the_list_without_an_error(self, bench):
        async def body(bench):
            plugin = bench.plugin(setup())
            async with bench.kubelet().running() as kubelet, bench.living(plugin):
                await kubelet.until(lambda k: k.lists)
                plugin.service.end_streams()
                await kubelet.until(lambda k: k.ends)
                assert kubelet.ends == [None]

        bench.run(body)


class TestHooks:
    def test_dev_18h_each_call_counted_and_changed(self, bench):
        class Hooks(PluginHooks):
            def __init__(self):
                self.counts = []

            async def options(self, call, model):
                return evolve(model, pre_start=False)

            async def devices(self, call, devices):
                return (*devices, Device("extra"))

            async def prefer(self, call, available, must, size, answer):
                return ("w1",)

            async def allocate(self, call, ids, answer):
                self.counts.append(call.count)
                await trio.sleep(1)
                if call.count == 1:
                    raise Refused("the fabric manager is not up", "UNAVAILABLE")
                return evolve(answer, envs={**answer.envs, "FABRIC": "up"})

            async def pre_start(self, call, ids):
                raise LookupError("a fault of the hook")

        async def body(bench):
            hooks = Hooks()
            plugin = bench.plugin(setup(), hooks=hooks)
            async with bench.living(plugin), bench.client(plugin) as client:
                assert not (await client.GetDevicePluginOptions(pb.Empty())).pre_start_required
                async with client.ListAndWatch(pb.Empty()) as items:
                    async for item in items:
                        assert [device.ID for device in item.devices] == ["w0", "w1", "extra"]
                        break
                reply = await client.Allocate(allocate("w0"))
                assert dict(reply.container_responses[0].envs) == {"WIDGETS": "w0", "FABRIC": "up"}
                with pytest.raises(StatusError) as refused:
                    await client.Allocate(allocate("w0"))
                assert refused.value.code is Code.UNAVAILABLE
                assert hooks.counts == [0, 1]
                with pytest.raises(StatusError) as broken:
                    await client.PreStartContainer(pb.PreStartContainerRequest(devices_ids=["w0"]))
                assert broken.value.code is Code.UNKNOWN

        bench.run(body)


class TestHealth:
    def test_dev_185_xids_and_restart(self, memory_bench):
        (model,) = nvidia_models(NvidiaOptions(count=2, sharing="time-slicing", replicas=2))
        gpu = model.physical(model.devices[0].id)

        async def body(bench):
            plugin = bench.plugin(PluginSetup(model=model))
            async with bench.kubelet().running() as kubelet, bench.living(plugin):
                await kubelet.until(lambda k: k.lists)
                assert not plugin.service.report_fault(gpu, 31)  # the application's own fault
                assert plugin.service.report_fault(gpu, 79)
                await kubelet.until(lambda k: len(k.lists) == 2)
                sick = [name for name, health in kubelet.lists[-1].items() if health == "Unhealthy"]
                assert sick == [f"{gpu}::0", f"{gpu}::1"]
                assert not plugin.service.recover(f"{gpu}::0")
                await plugin.restart()
                await kubelet.until(lambda k: len(k.lists) == 3)
                assert set(kubelet.lists[-1].values()) == {"Healthy"}

        memory_bench.run(body)

    def test_an_unknown_device(self, memory_bench):
        async def body(bench):
            with pytest.raises(DeviceProblem, match="no device"):
                bench.plugin(setup()).service.set_health("w9", "Unhealthy")

        memory_bench.run(body)


@pytest.mark.parametrize("identity", list(Identity))
def test_dev_18i_ids_over_a_restart(memory_bench, identity):
    async def body(bench):
        plugin = bench.plugin(setup(identity=identity))
        async with bench.kubelet().running() as kubelet, bench.living(plugin):
            await kubelet.until(lambda k: k.lists)
            await plugin.restart()
            await kubelet.until(lambda k: len(k.lists) == 2)
            first, second = map(set, kubelet.lists)
            assert (first == second) == (identity is Identity.STABLE)
            assert first == second or not first & second

    memory_bench.run(body)


def test_dev_180_a_socket_named_after_the_time(memory_bench):
    async def body(bench):
        plugin = bench.plugin(PluginSetup(model=sample_model()))
        async with bench.kubelet().running() as kubelet, bench.living(plugin):
            await plugin.wait_registered()
            first = plugin.socket_path
            await plugin.restart(down_seconds=3)
            assert first != plugin.socket_path
            assert [request.endpoint for request in kubelet.registered] == ["dp.1767225600", "dp.1767225603"]

    memory_bench.run(body)


class TestWatcher:
    def test_dev_031_says_who_it_is_and_hears_the_verdict(self, bench):
        async def body(bench):
            plugin = bench.plugin(setup(register=Register.WATCHER))
            async with bench.living(plugin):
                assert plugin.socket_path == f"{bench.places.registry}/widget.sock"
                async with bench.transport.channel(plugin.socket_path) as channel:
                    client = RegistrationClient(channel)
                    info = await client.GetInfo(reg.InfoRequest(), timeout_seconds=1)
                    assert (info.type, info.name) == ("DevicePlugin", "vendor.com/widget")
                    assert (info.endpoint, list(info.supported_versions)) == ("", ["v1beta1"])
                    await client.NotifyRegistrationStatus(reg.RegistrationStatus(error="bad name"))
                    assert not plugin.registered
                    await client.NotifyRegistrationStatus(reg.RegistrationStatus(plugin_registered=True))
                    assert plugin.registered
                async with bench.client(plugin) as client:
                    await client.Allocate(allocate("w0"))

        bench.run(body)


def test_a_taken_socket_is_told_and_tried_again(memory_bench):
    async def body(bench):
        first, second = bench.plugin(setup()), bench.plugin(setup())
        async with bench.kubelet().running() as kubelet, bench.living(first, second):
            await first.wait_registered()
            assert any(
                "another server listens" in f.text for f in bench.facts if isinstance(f, PluginChanged)
            )
            first.stop()
            await second.wait_registered()
            assert len(kubelet.registered) == 2

    memory_bench.run(body)


def test_the_same_seed_gives_the_same_life(tmp_path, memory_bench):
    def life():
        log = []

        async def body(bench):
            bench.facts.clear()
            plugin = bench.plugin(setup(preference=Preference.NONE))
            async with bench.living(plugin):
                for _ in range(3):
                    async with bench.kubelet().running() as kubelet:
                        await kubelet.until(lambda k: k.lists)
                        log.append(bench.clock.elapsed_seconds())

        memory_bench.run(body)
        return log

    assert life() == life()
