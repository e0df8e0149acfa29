"""How a server takes and gives back its path, and what real grpcio peers see of it."""

import os
import socket
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
import trio

from k8s_proto import deviceplugin_v1beta1_pb2 as plugin
from k8s_proto import runtime_v1_pb2 as cri
from node_host.loop import Pace
from trio_grpc import Code, StatusError, UnixChannel, UnixServer, UnixTransport
from trio_grpc.services.deviceplugin_v1beta1 import DevicePluginClient
from trio_grpc.services.runtime_v1 import RuntimeServiceClient, RuntimeServiceHandler

PROTO = Path(__file__).parents[2] / "proto"

OTHER_SERVER = """
import sys, trio
from node_host.loop import Pace, run
from trio_grpc import UnixServer

async def main():
    async with UnixServer(sys.argv[1]):
        print("up", flush=True)
        await trio.sleep_forever()

run(main, seed=0, pace=Pace.REAL)
"""


def start_other_server(path):
    environment = {**os.environ, "PYTHONPATH": str(PROTO)}
    command = [sys.executable, "-c", OTHER_SERVER, path]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout.readline() == "up\n"
    return process


def test_mode_and_nothing_left_behind(unix_lab, tmp_path):
    async def body(lab):
        async with lab.server():
            mode = os.stat(lab.path).st_mode
            assert stat.S_ISSOCK(mode)
            assert stat.S_IMODE(mode) == 0o600
            assert sorted(os.listdir(tmp_path)) == [".s.sock.lock", "s.sock"]
        assert os.listdir(tmp_path) == []

    unix_lab.run(body)


def test_a_live_server_in_another_process_keeps_its_path(unix_lab, tmp_path):
    process = start_other_server(unix_lab.path)
    try:

        async def body(lab):
            with pytest.raises(OSError, match="another server listens"):
                await lab.server().__aenter__()
            async with lab.channel() as channel:
                with pytest.raises(StatusError) as caught:
                    await RuntimeServiceClient(channel).Version(cri.VersionRequest())
                assert caught.value.code is Code.UNIMPLEMENTED

        unix_lab.run(body)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert os.path.exists(unix_lab.path)
    serve_once(unix_lab)
    assert os.listdir(tmp_path) == []


def serve_once(lab):
    async def body(lab):
        async with lab.runtime() as (client, _):
            assert (await client.Version(cri.VersionRequest(version="x"))).version == "x"

    lab.run(body)


def test_a_live_socket_without_our_lock_is_not_stolen(unix_lab, tmp_path):
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.bind(unix_lab.path)
        foreign.listen()

        async def body(lab):
            with pytest.raises(OSError, match="another server listens"):
                await lab.server().__aenter__()

        unix_lab.run(body)
        assert os.listdir(tmp_path) == ["s.sock"]


def test_a_busy_socket_is_alive_too(unix_lab):
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.bind(unix_lab.path)
        foreign.listen(0)
        clients = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        for client in clients:
            client.setblocking(False)
            client.connect_ex(unix_lab.path)

        async def body(lab):
            with pytest.raises(OSError, match="another server listens"):
                await lab.server().__aenter__()

        unix_lab.run(body)
        for client in clients:
            client.close()


def test_a_stale_socket_is_replaced(unix_lab, tmp_path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(unix_lab.path)
    serve_once(unix_lab)
    assert os.listdir(tmp_path) == []


def test_a_stale_lock_is_taken(unix_lab, tmp_path):
    (tmp_path / ".s.sock.lock").touch()
    serve_once(unix_lab)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["file", "dir"])
def test_what_is_no_socket_stays(unix_lab, tmp_path, kind):
    place = tmp_path / "s.sock"
    place.touch() if kind == "file" else place.mkdir()

    async def body(lab):
        with pytest.raises(FileExistsError, match="no socket"):
            await lab.server().__aenter__()

    unix_lab.run(body)
    assert os.listdir(tmp_path) == ["s.sock"]


def test_path_too_long():
    path = "/tmp/" + "x" * 103
    for make in (UnixServer, UnixChannel):
        with pytest.raises(OSError, match="at most 107 bytes, this one has 108"):
            make(path)


def test_a_path_of_107_bytes_serves(unix_lab, tmp_path):
    folder = tmp_path
    room = 107 - len(str(folder)) - 1
    unix_lab.path = str(folder / ("x" * room))
    serve_once(unix_lab)
    assert os.listdir(folder) == []


def test_missing_folder(unix_lab, tmp_path):
    unix_lab.path = str(tmp_path / "no" / "s.sock")

    async def body(lab):
        with pytest.raises(FileNotFoundError):
            await lab.server().__aenter__()

    unix_lab.run(body)


def test_a_socket_that_another_server_made_since_is_left(unix_lab, tmp_path):
    async def body(lab):
        async with lab.server():
            os.unlink(lab.path)
            with socket.socket(socket.AF_UNIX) as foreign:
                foreign.bind(lab.path)
        assert os.listdir(tmp_path) == ["s.sock"]

    unix_lab.run(body)


def test_host_paths(tmp_path):
    transport = UnixTransport(lambda path: f"{tmp_path}{path}")
    (tmp_path / "run").mkdir()
    assert transport.server("/run/a.sock").path == f"{tmp_path}/run/a.sock"
    assert transport.channel("/run/a.sock").path == f"{tmp_path}/run/a.sock"


def test_a_grpcio_client_talks_to_our_server(unix_lab):
    """In another thread, with grpcio alone: replies, codes, deadline, cancelling, a stream."""
    results = {}

    def client(path):
        with grpc.insecure_channel(f"unix:{path}") as channel:
            service = "/runtime.v1.RuntimeService"

            def unary(name, reply):
                return channel.unary_unary(
                    f"{service}/{name}", lambda message: message.SerializeToString(), reply.FromString
                )

            version = unary("Version", cri.VersionResponse)
            results["reply"] = version(cri.VersionRequest(version="g"), timeout=10).version
            for name, call in (
                (
                    "code",
                    lambda: unary("StartContainer", cri.StartContainerResponse)(cri.StartContainerRequest()),
                ),
                ("unknown", lambda: unary("Nothing", cri.VersionResponse)(cri.VersionRequest())),
                (
                    "deadline",
                    lambda: unary("StopContainer", cri.StopContainerResponse)(
                        cri.StopContainerRequest(timeout=600), timeout=0.2
                    ),
                ),
            ):
                with pytest.raises(grpc.RpcError) as caught:
                    call()
                results[name] = caught.value.code()
            stop = unary("StopContainer", cri.StopContainerResponse)
            future = stop.future(cri.StopContainerRequest(timeout=600))
            threading.Timer(0.2, future.cancel).start()
            with pytest.raises(grpc.FutureCancelledError):
                future.result(timeout=10)
            events = channel.unary_stream(
                f"{service}/GetContainerEvents",
                lambda message: message.SerializeToString(),
                cri.ContainerEventResponse.FromString,
            )(cri.GetEventsRequest())
            results["event"] = next(events).container_id
            events.cancel()

    async def body(lab):
        async with lab.runtime() as (_, runtime):
            await trio.to_thread.run_sync(client, lab.path)
            with trio.fail_after(10):
                while len(runtime.log) < 3:
                    await trio.sleep(0.01)
            results["log"] = [what for what, _ in runtime.log]

    unix_lab.run(body, pace=Pace.REAL)
    assert results == {
        "reply": "g",
        "code": grpc.StatusCode.NOT_FOUND,
        "unknown": grpc.StatusCode.UNIMPLEMENTED,
        "deadline": grpc.StatusCode.DEADLINE_EXCEEDED,
        "event": "first",
        "log": ["cancelled", "cancelled", "stream over"],
    }


def test_handlers_learn_a_foreign_deadline(unix_lab):
    async def body(lab):
        def client():
            with grpc.insecure_channel(f"unix:{lab.path}") as channel:
                channel.unary_unary("/runtime.v1.RuntimeService/Status")(b"", timeout=20)

        async with lab.runtime() as (_, runtime):
            await trio.to_thread.run_sync(client)
            ((what, seconds),) = runtime.log
            assert what == "remaining"
            assert 10 < seconds < 25

    unix_lab.run(body, pace=Pace.REAL)


class PlainServer:
    """grpcio's own server, with plain functions on bytes."""

    def __init__(self, path, methods):
        self._server = grpc.server(ThreadPoolExecutor(4))
        handlers = {}
        for name, (streams, function) in methods.items():
            make = grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
            handlers[name] = make(function)
        for service in ("runtime.v1.RuntimeService", "v1beta1.DevicePlugin"):
            generic = grpc.method_handlers_generic_handler(service, handlers)
            self._server.add_generic_rpc_handlers((generic,))
        self._server.add_insecure_port(f"unix:{path}")

    def __enter__(self):
        self._server.start()

    def __exit__(self, *exc_info):
        self._server.stop(None).wait(5)


@pytest.mark.parametrize("pace", [Pace.REAL, Pace.VIRTUAL])
def test_our_client_talks_to_a_grpcio_server(unix_lab, pace):
    def refuse(request, context):
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now")

    def stream(request, context):
        for name in "abc":
            yield plugin.ListAndWatchResponse(devices=[plugin.Device(ID=name)]).SerializeToString()

    methods = {
        "Version": (False, lambda request, context: request),
        "StartContainer": (False, refuse),
        "ListAndWatch": (True, stream),
    }

    async def body(lab):
        with PlainServer(lab.path, methods):
            async with lab.channel() as channel:
                client = RuntimeServiceClient(channel)
                reply = await client.Version(cri.VersionRequest(version="p"), timeout_seconds=60.0)
                assert reply.version == "p"
                for call, code, details in (
                    (client.StartContainer(cri.StartContainerRequest()), Code.FAILED_PRECONDITION, "not now"),
                    (client.Status(cri.StatusRequest()), Code.UNIMPLEMENTED, "Method not found!"),
                ):
                    with pytest.raises(StatusError) as caught:
                        await call
                    assert (caught.value.code, caught.value.details) == (code, details)
                async with DevicePluginClient(channel).ListAndWatch(plugin.Empty()) as items:
                    assert [item.devices[0].ID async for item in items] == ["a", "b", "c"]
                if pace is Pace.VIRTUAL:
                    assert trio.current_time() == 0.0
        async with lab.channel() as channel:
            with pytest.raises(StatusError) as caught:
                await RuntimeServiceClient(channel).Version(cri.VersionRequest())
            assert caught.value.code is Code.UNAVAILABLE

    unix_lab.run(body, pace=pace)


def test_a_foreign_server_dies_during_a_call(unix_lab):
    process = start_other_server(unix_lab.path)

    async def body(lab):
        async with lab.channel() as channel:
            client = RuntimeServiceClient(channel)
            with pytest.raises(StatusError) as caught:
                await client.Version(cri.VersionRequest())
            assert caught.value.code is Code.UNIMPLEMENTED
            process.kill()
            process.wait()
            with pytest.raises(StatusError) as caught:
                await client.Version(cri.VersionRequest(), timeout_seconds=20.0)
            assert caught.value.code is Code.UNAVAILABLE

    try:
        unix_lab.run(body, pace=Pace.REAL)
    finally:
        process.stdout.close()


def test_too_many_unary_calls_are_refused(unix_lab):
    class Sleepy(RuntimeServiceHandler):
        async def StopContainer(self, request, call):
            await trio.sleep(request.timeout)
            return cri.StopContainerResponse()

    async def body(lab):
        server = lab.server(Sleepy(), max_unary_calls=3, max_streams=1)
        async with server, lab.channel() as channel, trio.open_nursery() as nursery:
            client = RuntimeServiceClient(channel)
            for _ in range(4):
                nursery.start_soon(client.StopContainer, cri.StopContainerRequest(timeout=100))
            await trio.sleep(1)
            with pytest.raises(StatusError) as caught:
                await client.StopContainer(cri.StopContainerRequest(timeout=1))
            assert caught.value.code is Code.RESOURCE_EXHAUSTED
        assert trio.current_time() == 100.0

    unix_lab.run(body)


class Closed:
    """A grpcio channel whose blocking callables show nothing of their insides."""

    def __init__(self, channel):
        self._real = channel

    def unary_unary(self, path):
        return lambda request, metadata: self._real.unary_unary(path)(request, metadata=metadata)

    def unary_stream(self, path):
        return self._real.unary_stream(path)


@pytest.mark.parametrize("closed", [False, True])
def test_blocking_calls_can_be_cancelled_whatever_grpcio_shows(tmp_path, closed):
    from trio_grpc.unix_client import _Blocking

    release = threading.Event()

    def slow(request, context):
        release.wait(10)
        return request

    def refuse(request, context):
        context.abort(grpc.StatusCode.ABORTED, "no")

    service = "/runtime.v1.RuntimeService"
    methods = {
        "Version": (False, lambda request, context: request),
        "Status": (False, refuse),
        "Exec": (False, slow),
    }
    options = [("SingleThreadedUnaryStream", 1)]
    path = f"{tmp_path}/s"
    with PlainServer(path, methods), grpc.insecure_channel(f"unix:{path}", options=options) as channel:
        seen = Closed(channel) if closed else channel
        blocking = _Blocking(seen, f"{service}/Version")
        for _ in range(2):
            assert blocking.call(b"abc", None) == b"abc"
            blocking.cancel()  # it is over: nothing happens
            blocking.reset()
        before = _Blocking(seen, f"{service}/Exec")
        before.cancel()
        with pytest.raises(grpc.RpcError) as caught:
            before.call(b"abc", None)
        assert caught.value.code() is grpc.StatusCode.CANCELLED
        with pytest.raises(grpc.RpcError) as caught:
            _Blocking(seen, f"{service}/Status").call(b"", None)
        assert caught.value.code() is grpc.StatusCode.ABORTED
        blocking = _Blocking(seen, f"{service}/Exec")
        threading.Timer(0.1, blocking.cancel).start()
        with pytest.raises(grpc.RpcError) as caught:
            blocking.call(b"", None)
        assert caught.value.code() is grpc.StatusCode.CANCELLED
        release.set()
