"""Steps that run inside others: the order of everything stays what the loop would have made of it."""

import threading
import time
from collections.abc import Awaitable, Callable

import pytest
import trio

from k8s_proto import runtime_v1_pb2 as cri
from node_host.loop import current_virtual_clock, run
from node_host.steps import PASSES_LEFT_OUT_MAX
from trio_grpc import Call, Code, MemoryTransport, Server, StatusError
from trio_grpc.services.runtime_v1 import RuntimeServiceClient, RuntimeServiceHandler

PATH = "/run/steps.sock"


class Passes(trio.abc.Instrument):
    """Counts the passes of the loop."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


class Runtime(RuntimeServiceHandler):
    """Answers at once, after a while, or by way of another call; writes down who asked what when."""

    def __init__(self, log: list[object], transport: MemoryTransport) -> None:
        self._log = log
        self._transport = transport
        self.on_call: Callable[[str], object] = lambda version: None

    async def Version(self, request: cri.VersionRequest, call: Call) -> cri.VersionResponse:
        self._log.append(("served", request.version, trio.current_time()))
        self.on_call(request.version)
        if request.version.endswith("slow"):
            await trio.sleep(0.5)
        if request.version.endswith("nested"):
            async with self._transport.channel(PATH) as channel:
                inner = cri.VersionRequest(version=request.version.removesuffix("nested") + "inner")
                await RuntimeServiceClient(channel).Version(inner)
        if request.version.endswith("refused"):
            raise StatusError(Code.NOT_FOUND, "no")
        return cri.VersionResponse(version=request.version)


def interleaved(seed: int, *, short: bool) -> list[object]:
    """What happens, in order, when some tasks call, sleep and give up at moments that coincide."""

    async def main() -> list[object]:
        log: list[object] = []
        clock = current_virtual_clock()
        assert clock is not None
        if not short:
            clock.shortcut = None
        transport = MemoryTransport()
        server = transport.server(PATH)
        server.add(Runtime(log, transport))

        async def caller(name: str, client: RuntimeServiceClient) -> None:
            for number, kind in enumerate(("fast", "slow", "nested", "refused", "fast", "slow")):
                text = f"{name}-{number}-{kind}"
                with trio.move_on_after(0.25 if number == 5 else 100.0):
                    try:
                        timeout = None if number % 2 else 30.0
                        await client.Version(cri.VersionRequest(version=text), timeout_seconds=timeout)
                    except StatusError as problem:
                        text += problem.code.name
                log.append((text, trio.current_time()))
                if number % 3 == 1:
                    await trio.sleep(0.5)

        async with server, transport.channel(PATH) as channel, trio.open_nursery() as nursery:
            client = RuntimeServiceClient(channel)
            nursery.start_soon(caller, "first", client)
            await trio.sleep(0.7)
            for name in "ab":
                nursery.start_soon(caller, name, client)
        return log

    return run(main, seed=seed)


@pytest.mark.parametrize("seed", range(12))
def test_order_is_the_same_with_and_without(seed: int) -> None:
    assert interleaved(seed, short=True) == interleaved(seed, short=False)


Body = Callable[[RuntimeServiceClient, Runtime, Server], Awaitable[None]]


async def with_client(body: Body) -> None:
    """Run ``body(client, handler, server)`` over the transport in memory."""
    transport = MemoryTransport()
    server = transport.server(PATH)
    handler = Runtime([], transport)
    server.add(handler)
    async with server, transport.channel(PATH) as channel:
        await body(RuntimeServiceClient(channel), handler, server)


def test_a_call_without_company_takes_no_pass() -> None:
    async def body(client: RuntimeServiceClient, handler: Runtime, server: Server) -> None:
        passes = Passes()
        await client.Version(cri.VersionRequest(version="warm"))
        trio.lowlevel.add_instrument(passes)
        for _ in range(50):
            await client.Version(cri.VersionRequest(version="x"), timeout_seconds=5.0)
        assert passes.count == 0
        for _ in range(4 * PASSES_LEFT_OUT_MAX):
            await client.Version(cri.VersionRequest(version="x"))
        assert passes.count > 2
        trio.lowlevel.remove_instrument(passes)

    run(with_client, body, seed=1)


def test_a_task_that_calls_on_and_on_lets_others_in() -> None:
    """A message of another thread is heard although the calls never wait."""

    async def body(client: RuntimeServiceClient, handler: Runtime, server: Server) -> None:
        heard: list[int] = []
        token = trio.lowlevel.current_trio_token()
        thread = threading.Thread(target=token.run_sync_soon, args=(heard.append, 1))
        thread.start()
        limit = time.monotonic() + 20.0
        while not heard:
            await client.Version(cri.VersionRequest(version="x"))
            assert time.monotonic() < limit
        thread.join()

    run(with_client, body, seed=1)


@pytest.mark.parametrize("version", ["now", "slow"])
def test_a_handler_that_cancels_its_caller(version: str) -> None:
    async def body(client: RuntimeServiceClient, handler: Runtime, server: Server) -> None:
        with trio.CancelScope() as scope:
            handler.on_call = lambda _: scope.cancel()
            await client.Version(cri.VersionRequest(version=version))
        assert scope.cancelled_caught

    run(with_client, body, seed=1)


def test_a_caller_that_is_cancelled_already_waits_for_nothing() -> None:
    async def body(client: RuntimeServiceClient, handler: Runtime, server: Server) -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await client.Version(cri.VersionRequest(version="slow"))
        assert scope.cancelled_caught
        assert trio.current_time() == 0.0

    run(with_client, body, seed=1)


def test_a_server_that_closes_while_it_answers() -> None:
    async def body(client: RuntimeServiceClient, handler: Runtime, server: Server) -> None:
        handler.on_call = lambda _: server.close()
        with pytest.raises(StatusError) as caught:
            await client.Version(cri.VersionRequest(version="x"))
        assert caught.value.code is Code.UNAVAILABLE

    run(with_client, body, seed=1)


def test_an_instrument_of_tasks_sees_every_step() -> None:
    """Where somebody watches the steps of tasks, each goes through the loop."""

    class Steps(trio.abc.Instrument):
        seen = 0

        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            Steps.seen += 1

    async def body(client: RuntimeServiceClient, handler: Runtime, server: Server) -> None:
        trio.lowlevel.add_instrument(Steps())
        for _ in range(5):
            await client.Version(cri.VersionRequest(version="x"))
        assert Steps.seen >= 10

    run(with_client, body, seed=1)
