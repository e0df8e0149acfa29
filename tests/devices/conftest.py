"""A bare kubelet for plugins: it takes registrations, asks for options, follows the list."""

import contextlib
import threading

import pytest
import trio

from devices.places import Places
from devices.plugin import DevicePlugin
from k8s_proto import deviceplugin_v1beta1_pb2 as pb
from node_host.clock import NodeClock
from node_host.loop import Pace, run
from node_host.randoms import Randoms
from trio_grpc import Code, MemoryTransport, StatusError, UnixTransport
from trio_grpc.services.deviceplugin_v1beta1 import DevicePluginClient, RegistrationHandler

REAL_SECONDS = 30.0


class BareKubelet(RegistrationHandler):
    """One kubelet process. ``lists`` are the health maps that came in, in order."""

    def __init__(self, bench):
        self._bench = bench
        self.registered = []
        self.options = []
        self.lists = []
        self.ends = []
        self.refuse = 0
        self._nursery = None
        self._channels = contextlib.AsyncExitStack()
        self._changed = trio.Event()

    async def Register(self, request, call):
        if self.refuse:
            self.refuse -= 1
            raise StatusError(Code.UNKNOWN, "not today")
        path = f"{self._bench.places.device_plugins}/{request.endpoint}"
        channel = await self._channels.enter_async_context(self._bench.transport.channel(path))
        client = DevicePluginClient(channel)
        self.options.append(await client.GetDevicePluginOptions(pb.Empty()))
        self.registered.append(request)
        self._nursery.start_soon(self._follow, client)
        self._tell()
        return pb.Empty()

    async def _follow(self, client):
        try:
            async with client.ListAndWatch(pb.Empty()) as items:
                async for item in items:
                    self.lists.append({device.ID: device.health for device in item.devices})
                    self._tell()
            self.ends.append(None)
        except StatusError as error:
            self.ends.append(error)
        self._tell()

    def _tell(self):
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def until(self, holds):
        """Wait until this holds, looked at after each registration, list and end of a list."""
        with trio.fail_after(600):
            while not holds(self):
                await self._changed.wait()

    @contextlib.asynccontextmanager
    async def running(self):
        bench = self._bench
        server = bench.transport.server(bench.places.kubelet_socket)
        server.add(self)
        async with trio.open_nursery() as self._nursery, server, self._channels:
            yield self
            self._nursery.cancel_scope.cancel()


class Bench:
    """A folder of sockets, one clock, plugins and kubelets that come and go."""

    def __init__(self, kind, folder):
        self.kind = kind
        self.folder = folder
        self.transport = MemoryTransport() if kind == "memory" else UnixTransport()
        self.places = Places.below(str(folder))
        self.facts = []
        if kind == "unix":
            for path in (self.places.device_plugins, self.places.registry):
                (folder / path.rpartition("/")[2]).mkdir()

    def kubelet(self):
        return BareKubelet(self)

    def plugin(self, setup, *, hooks=None, notice_seconds=(0.2, 0.6)):
        return DevicePlugin(
            setup,
            transport=self.transport,
            clock=self.clock,
            rng=Randoms(1).stream("plugin"),
            places=self.places,
            hooks=hooks,
            observer=self.facts.append,
            notice_seconds=notice_seconds,
        )

    @contextlib.asynccontextmanager
    async def living(self, *plugins):
        async with trio.open_nursery() as nursery:
            for plugin in plugins:
                await nursery.start(plugin.run)
            yield plugins[0]
            nursery.cancel_scope.cancel()

    @contextlib.asynccontextmanager
    async def client(self, plugin):
        async with self.transport.channel(plugin.socket_path) as channel:
            yield DevicePluginClient(channel)

    def run(self, body, *, pace=Pace.VIRTUAL, seed=1):
        """Run ``body(bench)``; after half a minute of real time the test is cancelled and fails."""

        async def main():
            self.clock = NodeClock()
            token = trio.lowlevel.current_trio_token()
            with trio.CancelScope() as scope:
                timer = threading.Timer(REAL_SECONDS, token.run_sync_soon, args=(scope.cancel,))
                timer.daemon = True
                timer.start()
                try:
                    await body(self)
                finally:
                    timer.cancel()
            assert not scope.cancelled_caught, "took too long in real time"

        run(main, seed=seed, pace=pace)


@pytest.fixture(params=["memory", "unix"])
def bench(request, tmp_path):
    return Bench(request.param, tmp_path)


@pytest.fixture
def memory_bench(tmp_path):
    return Bench("memory", tmp_path)
