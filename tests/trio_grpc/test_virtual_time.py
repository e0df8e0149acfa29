"""Virtual time over sockets waits for messages and for nothing else; and what loads when."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from k8s_proto import runtime_v1_pb2 as cri
from node_host.loop import VirtualClock, current_virtual_clock, run
from trio_grpc import Code, MemoryChannel, MemoryServer, StatusError
from trio_grpc.services.runtime_v1 import RuntimeServiceClient, RuntimeServiceHandler
from trio_grpc.unix_wire import find_wire, open_wire

PROTO = Path(__file__).parents[2] / "proto"


def test_no_jump_while_messages_cross(lab):
    """A sleeper beside many calls must not wake before the last of them, for no time passes in them."""

    async def body(lab):
        async with lab.runtime() as (client, _), trio.open_nursery() as nursery:
            seen = []

            async def sleeper():
                await trio.sleep(0.001)
                seen.append("slept")

            async def caller():
                for _ in range(100):
                    await client.Version(cri.VersionRequest())
                seen.append("called")

            nursery.start_soon(sleeper)
            nursery.start_soon(caller)
        assert seen == ["called", "slept"]

    lab.run(body)


def test_nothing_is_held_after_any_end_of_a_call(lab):
    async def body(lab):
        clock = current_virtual_clock()
        async with lab.runtime() as (client, _):
            await client.Version(cri.VersionRequest())
            for timeout in (5.0, 0.001):
                with pytest.raises(StatusError):
                    await client.StopContainer(cri.StopContainerRequest(timeout=60), timeout_seconds=timeout)
            with trio.move_on_after(1):
                await client.StopContainer(cri.StopContainerRequest(timeout=60))
            with pytest.raises(StatusError):
                await client.StartContainer(cri.StartContainerRequest())
            for items in (0, 1, 2):
                async with client.GetContainerEvents(cri.GetEventsRequest()) as events:
                    for _ in range(items):
                        await anext(events)
            await trio.sleep(1)
            assert clock.holds == 0
        await trio.sleep(1)
        assert clock.holds == 0

    lab.run(body)


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_held_after_races_of_answer_and_cancel(lab, seed):
    async def body(lab):
        clock = current_virtual_clock()

        async def racer(client, number):
            with trio.move_on_after(number % 7):
                await client.StopContainer(cri.StopContainerRequest(timeout=number % 5))

        async with lab.runtime() as (client, _):
            async with trio.open_nursery() as nursery:
                for number in range(60):
                    nursery.start_soon(racer, client, number)
            await trio.sleep(1)
            assert clock.holds == 0

    lab.run(body, seed=seed)


def test_wire_counts():
    async def main():
        clock = current_virtual_clock()
        wire = open_wire(clock)
        wire.sent()
        wire.sent()
        assert clock.holds == 1
        wire.set_room(False)
        assert clock.holds == 0
        wire.set_room(True)
        wire.received()
        assert clock.holds == 1
        wire.received()
        assert clock.holds == 0
        assert find_wire(wire.number, clock) is wire
        assert find_wire(wire.number, VirtualClock()) is None
        wire.sent()
        wire.close()
        assert clock.holds == 0
        assert find_wire(wire.number, clock) is None

        wire = open_wire(clock)
        wire.sent()
        wire.attached = True
        wire.received()
        wire.abandon()
        assert clock.holds == 1
        wire.close()
        wire = open_wire(clock)
        wire.attached = wire.terminated = True
        wire.abandon()
        assert clock.holds == 0
        assert open_wire(None) is None

    run(main, seed=0)


CHANCES = """
import json, sys, trio
from k8s_proto import runtime_v1_pb2 as cri
from node_host.loop import run
from trio_grpc import MemoryChannel, MemoryServer
from trio_grpc.services.runtime_v1 import RuntimeServiceClient, RuntimeServiceHandler

class Runtime(RuntimeServiceHandler):
    async def ListContainers(self, request, call):
        await trio.sleep(len(request.filter.id) % 3)
        return cri.ListContainersResponse()

seen = []

class Hook:
    def started(self, record):
        seen.append(["start", record.number, record.request.SerializeToString(deterministic=True).hex()])
    def finished(self, record): seen.append(["end", record.number, record.end_seconds])
    def item(self, record, message): pass

async def main():
    server = MemoryServer()
    server.add(Runtime())
    async with server, MemoryChannel.to(server, hooks=[Hook()]) as channel:
        client = RuntimeServiceClient(channel)
        async with trio.open_nursery() as nursery:
            for number in range(20):
                labels = {f"{key}{number}": "v" for key in {"a", "b", "c", "d"}}
                filter = cri.ContainerFilter(id="x" * number, label_selector=labels)
                nursery.start_soon(client.ListContainers, cri.ListContainersRequest(filter=filter))

run(main, seed=int(sys.argv[1]))
print(json.dumps(seen))
"""


def in_process(hash_seed, seed):
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(PROTO)}
    command = [sys.executable, "-c", CHANCES, seed]
    return subprocess.run(
        command, env=environment, capture_output=True, check=True, text=True, timeout=60
    ).stdout


def test_one_seed_one_order_of_calls_across_processes():
    assert in_process(1, "5") == in_process(2, "5")
    assert in_process(1, "5") != in_process(1, "6")


def test_under_a_clock_that_is_not_ours():
    """Stock trio, with a cancel scope for the deadline."""

    class Slow(RuntimeServiceHandler):
        async def Version(self, request, call):
            await trio.sleep(0.05 if request.version == "slow" else 0)
            return cri.VersionResponse(version=request.version)

    async def main():
        server = MemoryServer()
        server.add(Slow())
        async with server, MemoryChannel.to(server) as channel:
            client = RuntimeServiceClient(channel)
            reply = await client.Version(cri.VersionRequest(version="a"), timeout_seconds=5.0)
            assert reply.version == "a"
            with pytest.raises(StatusError) as caught:
                await client.Version(cri.VersionRequest(version="slow"), timeout_seconds=0.01)
            assert caught.value.code is Code.DEADLINE_EXCEEDED

    trio.run(main)


def test_no_stale_deadline_moves_time():
    """A call that is over leaves no deadline behind for the clock to jump to."""

    async def main():
        class Quick(RuntimeServiceHandler):
            async def Version(self, request, call):
                return cri.VersionResponse()

        server = MemoryServer()
        server.add(Quick())
        token = trio.lowlevel.current_trio_token()
        async with server, MemoryChannel.to(server) as channel:
            await RuntimeServiceClient(channel).Version(cri.VersionRequest(), timeout_seconds=120.0)
            event = trio.Event()
            await trio.to_thread.run_sync(lambda: token.run_sync_soon(event.set))
            await event.wait()
            return trio.current_time()

    assert run(main, seed=0) == 0.0


def test_grpcio_is_loaded_by_the_first_socket_only():
    program = (
        "import sys, trio_grpc, trio_grpc.services.runtime_v1, node_host.files, node_host.net\n"
        "assert not {name for name in sys.modules if name.split('.')[0] in ('grpc', 'hypothesis', 'asyncio')}"
    )
    environment = {**os.environ, "PYTHONPATH": str(PROTO)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)
