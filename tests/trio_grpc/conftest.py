"""One lab for both transports: a handler with a trick for every case, and bounded real time."""

import contextlib
import threading

import pytest
import trio

from k8s_proto import runtime_v1_pb2 as cri
from node_host.loop import Pace, run
from trio_grpc import Code, MemoryTransport, StatusError, UnixTransport
from trio_grpc.services.deviceplugin_v1beta1 import DevicePluginClient, DevicePluginHandler
from trio_grpc.services.runtime_v1 import ImageServiceHandler, RuntimeServiceClient, RuntimeServiceHandler

REAL_SECONDS = 30.0


class Runtime(RuntimeServiceHandler, ImageServiceHandler):
    """What a call does follows from its request; ``log`` tells what became of it."""

    def __init__(self):
        self.log = []

    async def Version(self, request, call):
        return cri.VersionResponse(version=request.version, runtime_name="lab")

    async def Status(self, request, call):
        self.log.append(("remaining", call.remaining_seconds()))
        return cri.StatusResponse()

    async def StopContainer(self, request, call):
        try:
            await trio.sleep(request.timeout)
        except trio.Cancelled:
            self.log.append(("cancelled", trio.current_time()))
            raise
        self.log.append(("stopped", trio.current_time()))
        return cri.StopContainerResponse()

    async def StartContainer(self, request, call):
        raise StatusError(Code.NOT_FOUND, f"no container {request.container_id!r}: ünïcode")

    async def RemoveContainer(self, request, call):
        raise LookupError("on purpose")

    async def RunPodSandbox(self, request, call):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._refuse)
        return cri.RunPodSandboxResponse()

    async def _refuse(self):
        raise StatusError(Code.FAILED_PRECONDITION, "from a nursery")

    async def ReopenContainerLog(self, request, call):
        return cri.VersionResponse()

    async def ListContainers(self, request, call):
        labels = dict(request.filter.label_selector)
        self.log.append(list(labels))
        return cri.ListContainersResponse(containers=[cri.Container(id="a", labels=labels)])

    async def Exec(self, request, call):
        return cri.ExecResponse(url="u" * int(request.container_id))

    async def GetContainerEvents(self, request, call):
        try:
            yield cri.ContainerEventResponse(container_id="first", created_at=1)
            await trio.sleep(5)
            yield cri.ContainerEventResponse(container_id="second", created_at=2)
            await trio.sleep_forever()
        finally:
            self.log.append(("stream over", trio.current_time()))


class Plugin(DevicePluginHandler):
    """Streams what it is told to."""

    def __init__(self, make):
        self._make = make

    async def ListAndWatch(self, request, call):
        async with contextlib.aclosing(self._make()) as items:
            async for item in items:
                yield item


class Lab:
    def __init__(self, kind, folder):
        self.kind = kind
        self.transport = MemoryTransport() if kind == "memory" else UnixTransport()
        self.path = f"{folder}/s.sock"
        self.failures = []

    def server(self, *handlers, path=None, **options):
        server = self.transport.server(
            path or self.path, on_failure=lambda *what: self.failures.append(what), **options
        )
        for handler in handlers:
            server.add(handler)
        return server

    def channel(self, path=None, **options):
        return self.transport.channel(path or self.path, **options)

    @contextlib.asynccontextmanager
    async def runtime(self, *handlers, **options):
        """A server with a runtime (or these handlers), and a client of it."""
        runtime = Runtime()
        async with self.server(*(handlers or (runtime,))), self.channel(**options) as channel:
            yield RuntimeServiceClient(channel), runtime

    @contextlib.asynccontextmanager
    async def plugin(self, make, **options):
        async with self.server(Plugin(make), **options), self.channel() as channel:
            yield DevicePluginClient(channel)

    def run(self, body, *, pace=Pace.VIRTUAL, seed=1):
        """Run ``body(lab)``; after half a minute of real time the test is cancelled and fails."""

        async def main():
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
def lab(request, tmp_path):
    return Lab(request.param, tmp_path)


@pytest.fixture
def unix_lab(tmp_path):
    return Lab("unix", tmp_path)


@pytest.fixture
def memory_lab(tmp_path):
    return Lab("memory", tmp_path)


@pytest.fixture
def make_plugin():
    return Plugin
