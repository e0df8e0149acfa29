"""Calls that outlive their caller, as behind the recordings' proxy (POD-1204)."""

import pytest
import trio

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.lab.held import HeldCalls
from node_host.clock import NodeClock
from node_host.loop import run
from trio_grpc import Code, MemoryChannel, MemoryServer, MemorySockets, StatusError
from trio_grpc.services.runtime_v1 import RuntimeServiceClient, RuntimeServiceHandler


class Slow(RuntimeServiceHandler):
    """Takes five seconds to stop a container, and tells how that ended."""

    def __init__(self, clock):
        self.clock = clock
        self.ended = []

    async def StopContainer(self, request, call):
        try:
            await self.clock.sleep(5)
        except trio.Cancelled:
            self.ended.append("cut")
            raise
        self.ended.append("done")
        return cri.StopContainerResponse()

    async def RemoveContainer(self, request, call):
        raise StatusError(Code.NOT_FOUND, "no such container")

    async def GetContainerEvents(self, request, call):
        yield cri.ContainerEventResponse(container_id="c")


def with_wire(story, *, held=True):
    async def main():
        clock = NodeClock()
        sockets = MemorySockets()
        handler = Slow(clock)
        server = MemoryServer("s", sockets=sockets)
        server.add(handler)
        async with (
            trio.open_nursery() as nursery,
            server,
            MemoryChannel("s", sockets=sockets, clock=clock) as inner,
        ):
            channel = HeldCalls(inner, nursery) if held else inner
            result = await story(RuntimeServiceClient(channel), handler, clock)
            nursery.cancel_scope.cancel()
        return result

    return run(main, seed=0)


async def cut_short(client, handler, clock):
    with trio.move_on_after(1):
        await client.StopContainer(cri.StopContainerRequest(container_id="c"), timeout_seconds=60)
    gone_at = clock.elapsed_seconds()
    await clock.sleep(10)
    return gone_at, handler.ended


def test_pod_1204_a_call_goes_on_when_its_caller_dies():
    assert with_wire(cut_short) == (1.0, ["done"])


def test_without_it_the_call_is_cut():
    assert with_wire(cut_short, held=False) == (1.0, ["cut"])


def test_answers_errors_deadlines_and_streams_are_passed_on():
    async def story(client, handler, clock):
        reply = await client.StopContainer(cri.StopContainerRequest(container_id="c"), timeout_seconds=60)
        with pytest.raises(StatusError) as missing:
            await client.RemoveContainer(cri.RemoveContainerRequest(container_id="c"), timeout_seconds=60)
        with pytest.raises(StatusError) as late:
            await client.StopContainer(cri.StopContainerRequest(container_id="c"), timeout_seconds=2)
        async with client.GetContainerEvents(cri.GetEventsRequest()) as items:
            ids = [item.container_id async for item in items]
        return reply, missing.value.code, late.value.code, ids

    reply, missing, late, ids = with_wire(story)
    assert reply == cri.StopContainerResponse()
    assert (missing, late, ids) == (Code.NOT_FOUND, Code.DEADLINE_EXCEEDED, ["c"])
