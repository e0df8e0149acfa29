"""Registration over kubelet.sock and through the plugin watcher: every refusal in the kubelet's words."""

import pytest
import trio

from devices.model import Device, Model
from devices.plugin import DevicePlugin
from devices.setup import PluginSetup
from k8s_proto import deviceplugin_v1beta1_pb2 as dp
from k8s_proto import pluginregistration_v1_pb2 as reg
from kubelet_emu.cm.devicemanager.manager import DeviceManager, DeviceSeams, Quirks
from kubelet_emu.cm.devicemanager.plugin_handler import DevicePluginHandler
from kubelet_emu.cm.machine import MachineTopology
from kubelet_emu.cm.pluginmanager.manager import PluginManager
from kubelet_emu.cm.pluginmanager.plan import BackOff, Registered, failed, plan
from kubelet_emu.cm.sockets import DiskSocketFolders, memory_wires
from kubelet_emu.errors import PeerError
from node_host.clock import NodeClock
from node_host.files import MemoryFiles
from node_host.loop import run
from node_host.randoms import Randoms
from trio_grpc import Code, StatusError
from trio_grpc.services.deviceplugin_v1beta1 import DevicePluginHandler as PluginService
from trio_grpc.services.deviceplugin_v1beta1 import RegistrationClient
from trio_grpc.services.pluginregistration_v1 import RegistrationHandler

GPU = "example.com/gpu"
FOLDER = "/var/lib/kubelet/device-plugins"
REGISTRY = "/var/lib/kubelet/plugins_registry"


class Facts:
    def __init__(self):
        self.facts = []

    def decision(self, machine, pod, why, *, inputs, outcome):
        pass

    def fact(self, kind, **fields):
        self.facts.append((kind, fields))

    def notes(self):
        return [fields["text"] for kind, fields in self.facts if kind == "note"]


class Bench:
    """A device manager and a plugin manager of their own, in memory."""

    def __init__(self, nursery, quirks=None):
        self.nursery = nursery
        self.clock = NodeClock()
        self.files = MemoryFiles()
        self.transport, self.folders = memory_wires()
        self.recorder = Facts()
        self.quirks = quirks

    def manager(self):
        return DeviceManager(
            clock=self.clock,
            files=self.files,
            root_dir="/var/lib/kubelet",
            transport=self.transport,
            folders=self.folders,
            nursery=self.nursery,
            recorder=self.recorder,
            machine=MachineTopology(),
            seams=DeviceSeams(
                sources_ready=lambda: True,
                active_uids=tuple,
                was_running=lambda uid, name: False,
                hint=lambda uid, name: None,
                pods_changed=lambda uids: True,
            ),
            quirks=self.quirks,
        )

    async def start(self):
        self.devices = self.manager()
        await self.nursery.start(self.devices.run)

    async def watch(self):
        self.plugins = PluginManager(
            root_dir="/var/lib/kubelet",
            transport=self.transport,
            folders=self.folders,
            clock=self.clock,
            recorder=self.recorder,
            handlers={"DevicePlugin": DevicePluginHandler(self.devices.clients)},
        )
        self.nursery.start_soon(self.plugins.run)

    async def register(self, **fields):
        """What a plugin hears: empty, or the text of the refusal."""
        async with self.transport.channel(f"{FOLDER}/kubelet.sock") as channel:
            try:
                await RegistrationClient(channel).Register(dp.RegisterRequest(**fields))
            except StatusError as error:
                return error.details if error.code is Code.UNKNOWN else str(error)
        return ""

    def plugin(self, *ids, socket="gpu.sock"):
        model = Model(resource=GPU, devices=tuple(map(Device, ids)), socket=socket)
        return DevicePlugin(
            PluginSetup(model=model),
            transport=self.transport,
            clock=self.clock,
            rng=Randoms(1).stream("plugin"),
        )


@pytest.fixture
def bench():
    def tell(story, **options):
        async def main():
            async with trio.open_nursery() as nursery:
                made = Bench(nursery, **options)
                await made.start()
                result = await story(made)
                nursery.cancel_scope.cancel()
            return result

        return run(main, seed=0)

    return tell


# -- DEV-020 to DEV-024 --


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        pytest.param(
            {"version": "v1alpha1", "resource_name": GPU, "endpoint": "a.sock"},
            'requested API version "v1alpha1" is not supported by kubelet. Supported version is ["v1beta1"]',
            id="DEV-020-2",
        ),
        pytest.param(
            {"resource_name": "gpu"},
            'requested API version "" is not supported by kubelet. Supported version is ["v1beta1"]',
            id="DEV-020-2-none",
        ),
        *(
            pytest.param(
                {"version": "v1beta1", "resource_name": name, "endpoint": "a.sock"},
                f'the ResourceName "{name}" is invalid',
                id=f"DEV-022-{name}",
            )
            for name in ("", "gpu", "kubernetes.io/gpu", "requests.example.com/gpu", "example.com/", "a/b/c")
        ),
        pytest.param(
            {"version": "v1beta1", "resource_name": GPU, "endpoint": "nobody.sock"},
            "failed to dial device plugin: context deadline exceeded",
            id="DEV-020-4",
        ),
    ],
)
def test_refusals(bench, fields, error):
    async def story(made):
        heard = await made.register(**fields)
        return heard, made.devices.registration.counts, made.devices.state.endpoints

    heard, counts, endpoints = bench(story)
    assert heard == error
    assert counts == {fields["resource_name"]: 1}
    assert endpoints == {}


def test_dev_021_a_plugin_that_serves_after_it_registers_is_refused_after_10_s(bench):
    async def story(made):
        start = made.clock.elapsed_seconds()
        await made.register(version="v1beta1", resource_name=GPU, endpoint="late.sock")
        return made.clock.elapsed_seconds() - start

    assert bench(story) == pytest.approx(10.0)


def test_dev_021_a_plugin_that_serves_a_little_late_is_taken(bench):
    async def story(made):
        async def late():
            await trio.sleep(3)
            server = made.transport.server(f"{FOLDER}/late.sock")

            class Plain(PluginService):
                async def GetDevicePluginOptions(self, request, call):
                    return dp.DevicePluginOptions()

            server.add(Plain())
            async with server:
                await trio.sleep_forever()

        made.nursery.start_soon(late)
        return await made.register(version="v1beta1", resource_name=GPU, endpoint="late.sock")

    assert bench(story) == ""


def test_dev_020_5_options_that_fail(bench):
    async def story(made):
        server = made.transport.server(f"{FOLDER}/mute.sock")
        server.add(PluginService())
        async with server:
            return await made.register(version="v1beta1", resource_name=GPU, endpoint="mute.sock")

    assert bench(story).startswith(
        "failed to get device plugin options: rpc error: code = Unimplemented desc = "
    )


@pytest.mark.parametrize(
    ("endpoint", "path"),
    [
        ("a.sock", f"{FOLDER}/a.sock"),
        ("/a.sock", f"{FOLDER}/a.sock"),
        ("x/../a.sock", f"{FOLDER}/a.sock"),
        ("../a.sock", "/var/lib/kubelet/a.sock"),
    ],
)
def test_dev_024_where_an_endpoint_lies(endpoint, path):
    from kubelet_emu.cm.devicemanager.registration import endpoint_path

    assert endpoint_path(FOLDER, endpoint) == path


def test_dev_023_options_come_from_the_plugin_not_from_the_request(bench):
    async def story(made):
        server = made.transport.server(f"{FOLDER}/a.sock")

        class Asked(PluginService):
            async def GetDevicePluginOptions(self, request, call):
                return dp.DevicePluginOptions(get_preferred_allocation_available=True)

        server.add(Asked())
        async with server:
            options = dp.DevicePluginOptions(pre_start_required=True)
            await made.register(version="v1beta1", resource_name=GPU, endpoint="a.sock", options=options)
            endpoint = made.devices.state.endpoints[GPU]
            return endpoint.pre_start_required, endpoint.preferred_available

    assert bench(story) == (False, True)


def test_dev_012_the_folder_is_cleaned_of_sockets_at_start(bench):
    async def story(made):
        async with made.transport.server(f"{FOLDER}/old.sock"), made.transport.server(f"{FOLDER}/sub/x.sock"):
            made.files.write(f"{FOLDER}/note.txt", b"stays")
            await made.nursery.start(made.manager().run)
            return made.folders.list(FOLDER, recursive=True).keys(), made.files.exists(f"{FOLDER}/note.txt")

    sockets, note = bench(story)
    assert set(sockets) == {f"{FOLDER}/kubelet.sock", f"{FOLDER}/sub/x.sock"}
    assert note


@pytest.mark.parametrize(
    ("quirks", "capacity"),
    [(Quirks(), (1, 0)), (Quirks(dev_026_old_stream_closes_new=False), (1, 1))],
    ids=["DEV-026", "DEV-026-off"],
)
def test_dev_026_an_old_plugin_that_ends(bench, quirks, capacity):
    async def story(made):
        old, new = made.plugin("a", "b", socket="old.sock"), made.plugin("c", socket="new.sock")
        await made.nursery.start(old.run)
        await old.wait_registered()
        await made.nursery.start(new.run)
        await new.wait_registered()
        await trio.sleep(1)
        old.stop()
        await trio.sleep(1)
        found = made.devices.capacity()
        return found.capacity[GPU], found.allocatable[GPU]

    assert bench(story, quirks=quirks) == capacity


def test_dev_052_an_empty_folder_resets_the_node(bench):
    async def story(made):
        fresh = Bench(made.nursery)
        first = fresh.manager().should_reset_capacity()
        fresh.files.make_dirs(FOLDER)
        fresh.files.write(f"{FOLDER}/.hidden", b"")
        second = fresh.manager().should_reset_capacity()
        async with fresh.transport.server(f"{FOLDER}/stale.sock"):
            third = fresh.manager().should_reset_capacity()
        fresh.files.write(f"{FOLDER}/kubelet_internal_checkpoint", b"")
        return first, second, third, fresh.manager().should_reset_capacity()

    assert bench(story) == (True, True, False, False)


# -- DEV-030 to DEV-034 --


class Watched(RegistrationHandler):
    """A registration socket; ``heard`` are the verdicts it was sent."""

    def __init__(self, info, *, notify=True):
        self.info = info
        self.heard = []
        self._notify = notify

    async def GetInfo(self, request, call):
        if self.info is None:
            raise StatusError(Code.INTERNAL, "no info")
        return self.info

    async def NotifyRegistrationStatus(self, request, call):
        if not self._notify:
            raise StatusError(Code.INTERNAL, "deaf")
        self.heard.append((request.plugin_registered, request.error))
        return reg.RegistrationStatusResponse()


class Devices(PluginService):
    async def GetDevicePluginOptions(self, request, call):
        return dp.DevicePluginOptions()

    async def ListAndWatch(self, request, call):
        yield dp.ListAndWatchResponse(devices=[dp.Device(ID="a", health="Healthy")])
        await trio.sleep_forever()


def info(**fields):
    return reg.PluginInfo(
        **{"type": "DevicePlugin", "name": GPU, "supported_versions": ["v1beta1"], **fields}
    )


PATH = f"{REGISTRY}/gpu-reg.sock"


async def through_watcher(made, handler, *, serve=True, seconds=3.0):
    await made.watch()
    server = made.transport.server(PATH)
    server.add(handler)
    if serve:
        server.add(Devices())
    async with server:
        await trio.sleep(seconds)
        found = made.devices.capacity().capacity.get(GPU)
    return handler.heard, made.recorder.notes(), found


@pytest.mark.parametrize(
    ("given", "error"),
    [
        pytest.param(
            info(type="Other"),
            f"RegisterPlugin error -- no handler registered for plugin type: Other at socket {PATH}",
            id="DEV-031-type",
        ),
        pytest.param(
            info(supported_versions=["v1", "v1alpha1"]),
            "RegisterPlugin error -- plugin validation failed with err: manager version, v1beta1, "
            "is not among plugin supported versions [v1 v1alpha1]",
            id="DEV-032-version",
        ),
        pytest.param(
            info(name="gpu"),
            "RegisterPlugin error -- plugin validation failed with err: invalid name of device plugin "
            'socket: the ResourceName "gpu" is invalid',
            id="DEV-032-name",
        ),
        pytest.param(
            info(endpoint="/nowhere.sock"),
            "RegisterPlugin error -- plugin registration failed with err: "
            "failed to dial device plugin: context deadline exceeded",
            id="DEV-031-register",
        ),
    ],
)
def test_dev_031_refusals_are_sent_to_the_plugin(bench, given, error):
    heard, notes, _ = bench(lambda made: through_watcher(made, Watched(given), seconds=11.5))
    assert heard[0] == (False, error)
    assert notes[0] == error


def test_dev_031_a_plugin_without_info(bench):
    _, notes, _ = bench(lambda made: through_watcher(made, Watched(None)))
    assert notes[0] == (
        "RegisterPlugin error -- failed to get plugin info using RPC GetInfo "
        f"at socket {PATH}, err: rpc error: code = Internal desc = no info"
    )
    # Tried again after 0.5 s, 1 s and 2 s, at the next look of each second: at 1 s, 2 s and 4 s.
    assert len(notes) == 3


def test_dev_031_a_plugin_that_cannot_be_told_is_taken_back(bench):
    _, notes, _ = bench(lambda made: through_watcher(made, Watched(info(), notify=False), seconds=1.5))
    assert notes[0].startswith(
        f"RegisterPlugin error -- failed to send registration status at socket {PATH}, err: "
    )


def test_dev_033_a_plugin_is_taken_and_let_go_with_its_socket(bench):
    async def story(made):
        heard, notes, capacity = await through_watcher(made, Watched(info()))
        await trio.sleep(1.5)
        return heard, notes, capacity, made.devices.state.endpoints[GPU].stopped, made.plugins.registered

    assert bench(story) == ([(True, "")], [], 1, True, {})


# -- the plan (DEV-030, DEV-034) --


def known(identity):
    return Registered(identity=identity, plugin_type="DevicePlugin", name=GPU, endpoint="/e")


def test_dev_030_a_socket_made_anew_is_let_go_then_taken():
    steps = plan({"/a": "2"}, {"/a": known("1")}, backoffs={}, now_seconds=0.0)
    assert (steps.unregister, steps.register) == (("/a",), ())
    steps = plan({"/a": "2"}, {}, backoffs={}, now_seconds=0.0)
    assert (steps.unregister, steps.register) == ((), ("/a",))


def test_dev_034_operations_on_one_socket_never_overlap():
    busy = {"/a": None}.keys()
    steps = plan({"/a": "1", "/b": "1"}, {}, busy=busy, backoffs={}, now_seconds=0.0)
    assert steps.register == ("/b",)


def test_dev_001_the_back_off_of_a_socket():
    pauses, one = [], None
    for _ in range(10):
        one = failed(one, 100.0)
        pauses.append(one.pause_seconds)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 122.0, 122.0]
    waiting = {"/a": BackOff(4.0, 104.0)}
    assert plan({"/a": "1"}, {}, backoffs=waiting, now_seconds=103.9).register == ()
    assert plan({"/a": "1"}, {}, backoffs=waiting, now_seconds=104.0).register == ("/a",)


# -- sockets on disk --


def test_sockets_on_disk(tmp_path):
    import socket

    folders = DiskSocketFolders(lambda path: str(tmp_path) + path)
    folders.make("/plugins/sub")
    (tmp_path / "plugins" / "file").write_text("")
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two:
        one.bind(f"{tmp_path}/plugins/a.sock")
        one.listen()
        two.bind(f"{tmp_path}/plugins/sub/b.sock")
        hidden = socket.socket(socket.AF_UNIX)
        hidden.bind(f"{tmp_path}/plugins/.c.sock")
        hidden.close()
        assert list(folders.list("/plugins")) == ["/plugins/a.sock"]
        assert list(folders.list("/plugins", recursive=True)) == ["/plugins/a.sock", "/plugins/sub/b.sock"]
        assert folders.accepts("/plugins/a.sock")
        assert not folders.accepts("/plugins/sub/b.sock")  # bound, but nobody listens
        assert not folders.accepts("/plugins/none.sock")
        folders.remove("/plugins/a.sock")
    assert folders.list("/plugins") == {}
    assert folders.list("/elsewhere") == {}
    with pytest.raises(OSError, match="none"):
        folders.remove("/plugins/none.sock")


def test_dev_011_a_start_that_fails_ends_the_kubelet(bench):
    async def story(made):
        class Stuck:
            def make(self, folder):
                pass

            def list(self, folder, *, recursive=False):
                return {"/x": "1", "/y": "1"}

            def accepts(self, path):
                return False

            def remove(self, path):
                tried.append(path)
                raise PermissionError(13, "not allowed", path)

        tried = []
        manager = made.manager()
        manager._folders = Stuck()
        try:
            await made.nursery.start(manager.run)
        except PermissionError:
            return tried
        raise AssertionError("it started")

    assert bench(story) == ["/x", "/y"]


def test_validation_is_the_same_for_all(bench):
    async def story(made):
        handler = DevicePluginHandler(made.devices.clients)
        handler.validate(GPU, "/e", ["v1beta1"])
        with pytest.raises(PeerError):
            handler.validate(GPU, "/e", [])

    bench(story)
