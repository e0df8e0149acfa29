"""Unary calls, the same over both transports."""

import pytest
import trio

from k8s_proto import runtime_v1_pb2 as cri
from trio_grpc import Code, Method, StatusError
from trio_grpc.services.runtime_v1 import RuntimeServiceHandler, RuntimeServiceMethods


async def status_of(call):
    with pytest.raises(StatusError) as caught:
        await call
    return caught.value.code, caught.value.details


def test_reply(lab):
    async def body(lab):
        async with lab.runtime() as (client, _):
            reply = await client.Version(cri.VersionRequest(version="v1"), timeout_seconds=120.0)
            assert reply == cri.VersionResponse(version="v1", runtime_name="lab")
            assert await client.Version(cri.VersionRequest()) == cri.VersionResponse(runtime_name="lab")

    lab.run(body)


def test_codes_and_details(lab):
    async def body(lab):
        async with lab.runtime() as (client, _):
            found = await status_of(client.StartContainer(cri.StartContainerRequest(container_id="x")))
            assert found == (Code.NOT_FOUND, "no container 'x': ünïcode")
            assert await status_of(client.RunPodSandbox(cri.RunPodSandboxRequest())) == (
                Code.FAILED_PRECONDITION,
                "from a nursery",
            )

    lab.run(body)
    assert [path for path, _ in lab.failures] == ["/runtime.v1.RuntimeService/RunPodSandbox"]


def test_every_code_crosses(lab):
    class Codes(RuntimeServiceHandler):
        async def StartContainer(self, request, call):
            raise StatusError(Code(int(request.container_id)), "d" * 100)

    async def body(lab):
        async with lab.runtime(Codes()) as (client, _):
            for code in Code:
                if code is not Code.OK:
                    request = cri.StartContainerRequest(container_id=str(int(code)))
                    assert await status_of(client.StartContainer(request)) == (code, "d" * 100)

    lab.run(body)


def test_exception_of_a_handler_is_unknown(lab):
    async def body(lab):
        async with lab.runtime() as (client, _):
            found = await status_of(client.RemoveContainer(cri.RemoveContainerRequest()))
            assert found == (Code.UNKNOWN, "Exception calling application: on purpose")
            assert (await client.Version(cri.VersionRequest(version="a"))).version == "a"

    lab.run(body)
    ((path, problem),) = lab.failures
    assert path == "/runtime.v1.RuntimeService/RemoveContainer"
    assert isinstance(problem, LookupError)


def test_wrong_reply_type_is_internal(lab):
    async def body(lab):
        async with lab.runtime() as (client, _):
            code, details = await status_of(client.ReopenContainerLog(cri.ReopenContainerLogRequest()))
            assert code is Code.INTERNAL
            assert "VersionResponse" in details

    lab.run(body)


def test_unimplemented(lab):
    async def body(lab):
        async with lab.runtime() as (client, _), lab.channel() as channel:
            found = await status_of(client.Attach(cri.AttachRequest()))
            assert found == (Code.UNIMPLEMENTED, "method Attach not implemented")
            method = Method("no.such.Service", "Nothing", cri.VersionRequest, cri.VersionResponse)
            found = await status_of(channel.unary(method, cri.VersionRequest()))
            assert found == (Code.UNIMPLEMENTED, "unknown method Nothing for service no.such.Service")

    lab.run(body)


def test_bytes_that_are_no_message(lab):
    """A message of another type whose first field holds what is no UTF-8 text."""

    async def body(lab):
        async with lab.server(Odd()), lab.channel() as channel:
            wrong = Method("runtime.v1.RuntimeService", "Version", cri.ExecSyncResponse, cri.VersionResponse)
            request = cri.ExecSyncResponse(stdout=b"\xff\xfe")
            code, details = await status_of(channel.unary(wrong, request))
            assert code is Code.INTERNAL
            assert "VersionRequest" in details

    class Odd(RuntimeServiceHandler):
        async def Version(self, request, call):
            return cri.VersionResponse()

    lab.run(body)


def test_size_limits(lab):
    async def body(lab):
        server = lab.server(lab_runtime(), max_receive_bytes=1000)
        async with server, lab.channel(max_receive_bytes=500) as channel:
            small = Method("runtime.v1.RuntimeService", "Exec", cri.ExecRequest, cri.ExecResponse)
            assert len((await channel.unary(small, cri.ExecRequest(container_id="490"))).url) == 490
            found = await status_of(channel.unary(small, cri.ExecRequest(container_id="600")))
            text = "grpc: received message larger than max (603 vs. 500)"
            assert found == (Code.RESOURCE_EXHAUSTED, text)
            big = cri.ExecRequest(container_id="1", cmd=["x" * 1100])
            found = await status_of(channel.unary(small, big))
            size = len(big.SerializeToString())
            text = f"grpc: received message larger than max ({size} vs. 1000)"
            assert found == (Code.RESOURCE_EXHAUSTED, text)

    def lab_runtime():
        class Sized(RuntimeServiceHandler):
            async def Exec(self, request, call):
                return cri.ExecResponse(url="u" * int(request.container_id))

        return Sized()

    lab.run(body)


def test_messages_up_to_16_mib_pass_by_default(lab):
    async def body(lab):
        async with lab.runtime() as (client, _):
            size = 16 * 1024 * 1024 - 100
            reply = await client.Exec(cri.ExecRequest(container_id=str(size)))
            assert len(reply.url) == size
            code, _ = await status_of(client.Exec(cri.ExecRequest(container_id=str(size + 200))))
            assert code is Code.RESOURCE_EXHAUSTED

    lab.run(body)


def test_maps_cross_in_one_order(lab):
    labels = {f"k{number}": "v" for number in (5, 3, 9, 1, 7)}

    async def body(lab):
        async with lab.runtime() as (client, runtime):
            for order in (sorted(labels), sorted(labels, reverse=True)):
                request = cri.ListContainersRequest()
                for key in order:
                    request.filter.label_selector[key] = labels[key]
                reply = await client.ListContainers(request)
                assert dict(reply.containers[0].labels) == labels
            assert runtime.log[0] == runtime.log[1]

    lab.run(body)


def test_deadline_in_virtual_time(lab):
    async def body(lab):
        async with lab.runtime() as (client, runtime):
            request = cri.StopContainerRequest(timeout=600)
            found = await status_of(client.StopContainer(request, timeout_seconds=120.0))
            assert found == (Code.DEADLINE_EXCEEDED, "context deadline exceeded")
            assert trio.current_time() == 120.0
            await trio.sleep(0.001)
            assert runtime.log == [("cancelled", 120.0)]

    lab.run(body)


def test_handler_sleeps_in_virtual_time(lab):
    async def body(lab):
        async with lab.runtime() as (client, runtime):
            await client.StopContainer(cri.StopContainerRequest(timeout=3600), timeout_seconds=3601.0)
            assert trio.current_time() == 3600.0
            assert runtime.log == [("stopped", 3600.0)]

    lab.run(body)


def test_many_calls_sleep_side_by_side(lab):
    async def body(lab):
        async with lab.runtime() as (client, runtime), trio.open_nursery() as nursery:
            for seconds in range(1, 31):
                nursery.start_soon(client.StopContainer, cri.StopContainerRequest(timeout=seconds))
        assert runtime.log == [("stopped", float(seconds)) for seconds in range(1, 31)]

    lab.run(body)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_no_time_is_no_call(lab, seconds):
    async def body(lab):
        async with lab.runtime() as (client, runtime):
            found = await status_of(client.Status(cri.StatusRequest(), timeout_seconds=seconds))
            assert found == (Code.DEADLINE_EXCEEDED, "context deadline exceeded")
            assert runtime.log == []

    lab.run(body)


def test_handler_learns_the_deadline(lab):
    async def body(lab):
        async with lab.runtime() as (client, runtime):
            await client.Status(cri.StatusRequest(), timeout_seconds=7.0)
            await client.Status(cri.StatusRequest())
            assert runtime.log == [("remaining", 7.0), ("remaining", float("inf"))]

    lab.run(body)


def test_caller_gives_up(lab):
    async def body(lab):
        async with lab.runtime() as (client, runtime):
            with trio.move_on_after(3) as scope:
                await client.StopContainer(cri.StopContainerRequest(timeout=600), timeout_seconds=120.0)
            assert scope.cancelled_caught
            assert trio.current_time() == 3.0
            await trio.sleep(1)
            assert runtime.log == [("cancelled", 3.0)]
            assert (await client.Version(cri.VersionRequest(version="on"))).version == "on"

    lab.run(body)


def test_cancelled_before_the_call(lab):
    async def body(lab):
        async with lab.runtime() as (client, runtime):
            with trio.CancelScope() as scope:
                scope.cancel()
                await client.Status(cri.StatusRequest())
            assert scope.cancelled_caught
            await trio.sleep(1)
            assert runtime.log in ([], [("remaining", float("inf"))])

    lab.run(body)


def test_nobody_listens(lab):
    async def body(lab):
        from trio_grpc.services.runtime_v1 import RuntimeServiceClient

        async with lab.channel() as channel:
            client = RuntimeServiceClient(channel)
            for _ in range(3):
                code, _ = await status_of(client.Version(cri.VersionRequest(), timeout_seconds=5.0))
                assert code is Code.UNAVAILABLE
            assert trio.current_time() == 0.0
            async with lab.server(Versions("late")):
                assert (await client.Version(cri.VersionRequest(), timeout_seconds=5.0)).version == "late"

    lab.run(body)


class Versions(RuntimeServiceHandler):
    def __init__(self, version):
        self.version = version

    async def Version(self, request, call):
        return cri.VersionResponse(version=self.version)


def test_peer_goes_and_comes_back(lab):
    async def body(lab):
        from trio_grpc.services.runtime_v1 import RuntimeServiceClient

        async with lab.channel() as channel:
            client = RuntimeServiceClient(channel)
            for number in range(3):
                async with lab.server(Versions(str(number))):
                    assert (await client.Version(cri.VersionRequest())).version == str(number)
                code, _ = await status_of(client.Version(cri.VersionRequest()))
                assert code is Code.UNAVAILABLE

    lab.run(body)


def test_peer_goes_during_a_call(lab):
    async def body(lab):
        async with lab.channel() as channel, trio.open_nursery() as nursery:
            from trio_grpc.services.runtime_v1 import RuntimeServiceClient

            seen = []

            async def call():
                client = RuntimeServiceClient(channel)
                request = cri.StopContainerRequest(timeout=600)
                seen.append(await status_of(client.StopContainer(request, timeout_seconds=700.0)))

            from contextlib import AsyncExitStack

            async with AsyncExitStack() as stack:
                server = await stack.enter_async_context(lab.server(_Sleepy()))
                nursery.start_soon(call)
                await trio.sleep(2)
                server.close()
                server.close()
                assert not server.listening
                await trio.sleep(1)
                assert [code for code, _ in seen] == [Code.UNAVAILABLE]
            assert trio.current_time() == 3.0

    lab.run(body)


class _Sleepy(RuntimeServiceHandler):
    async def StopContainer(self, request, call):
        await trio.sleep_forever()


def test_server_is_left_with_calls_open(lab):
    async def body(lab):
        async with lab.channel() as channel, trio.open_nursery() as nursery:
            seen = []

            async def call():
                method = RuntimeServiceMethods.StopContainer
                seen.append(await status_of(channel.unary(method, cri.StopContainerRequest())))

            async with lab.server(_Sleepy()):
                for _ in range(5):
                    nursery.start_soon(call)
                await trio.sleep(1)
        assert [code for code, _ in seen] == [Code.UNAVAILABLE] * 5

    lab.run(body)


def test_error_of_the_body_passes_the_server_unwrapped(lab):
    async def body(lab):
        with pytest.raises(KeyError):
            async with lab.server(_Sleepy()), lab.channel():
                raise KeyError("mine")

    lab.run(body)


def test_closed_channel(lab):
    async def body(lab):
        async with lab.server(_Sleepy()), trio.open_nursery() as nursery:
            channel = lab.channel()
            method = RuntimeServiceMethods.StopContainer
            seen = []

            async def call():
                seen.append(await status_of(channel.unary(method, cri.StopContainerRequest())))

            nursery.start_soon(call)
            await trio.sleep(1)
            await channel.aclose()
            await trio.sleep(1)
            found = (Code.CANCELLED, "grpc: the client connection is closing")
            assert seen == [found]
            assert await status_of(channel.unary(method, cri.StopContainerRequest())) == found

    lab.run(body)


def test_32_at_once(lab):
    async def body(lab):
        async with lab.runtime() as (client, _), trio.open_nursery() as nursery:
            seen = []

            async def call(number):
                seen.append((await client.Version(cri.VersionRequest(version=str(number)))).version)

            for number in range(32):
                nursery.start_soon(call, number)
        assert sorted(seen, key=int) == [str(number) for number in range(32)]

    lab.run(body)


def test_a_method_is_served_once(lab):
    async def body(lab):
        server = lab.server(Versions("a"))
        with pytest.raises(ValueError, match="already served"):
            server.add(Versions("b"))
        with pytest.raises(TypeError, match="no generated handler"):
            server.add(object())

    lab.run(body)


def test_a_path_has_one_server(lab):
    async def body(lab):
        async with lab.server(Versions("a")), lab.channel() as channel:
            with pytest.raises(OSError, match="another server listens"):
                async with lab.server(Versions("b")):
                    raise AssertionError
            reply = await channel.unary(RuntimeServiceMethods.Version, cri.VersionRequest())
            assert reply.version == "a"

    lab.run(body)


def test_a_server_is_entered_once_at_a_time(lab):
    async def body(lab):
        server = lab.server(Versions("a"))
        async with server:
            assert lab.transport.listening(lab.path)
            with pytest.raises(RuntimeError, match="already listening"):
                await server.__aenter__()
        assert not lab.transport.listening(lab.path)
        async with server, lab.channel() as channel:
            reply = await channel.unary(RuntimeServiceMethods.Version, cri.VersionRequest())
            assert reply.version == "a"

    lab.run(body)
