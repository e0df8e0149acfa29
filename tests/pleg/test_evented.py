"""The evented PLEG and its fallback (POD-915, POD-916)."""

from contextlib import asynccontextmanager

import trio

from kubelet_emu.container.cache import PodCache
from kubelet_emu.container.runtime import RuntimePodStatus, RuntimeSandbox, SandboxState
from kubelet_emu.container.stamps import Stamps
from kubelet_emu.errors import PeerError
from kubelet_emu.pleg.evented import (
    EVENTED_RELIST_SECONDS,
    EVENTED_THRESHOLD_SECONDS,
    ContainerEvent,
    ContainerEventType,
    EventedPleg,
)
from kubelet_emu.pleg.generic import GenericPleg
from node_host.clock import NodeClock
from node_host.loop import run


class Node:
    """Runtime, stream and recorder in one."""

    def __init__(self):
        self.stamps = Stamps(NodeClock())
        self.cache = PodCache(refuse_stale=True)
        self.events, self.problems, self.lists, self.capacity = [], [], 0, 1000
        self.opened = 0
        self.fail = False
        self.send, self._receive = trio.open_memory_channel(100)
        self.generic = GenericPleg(
            runtime=self,
            cache=self.cache,
            stamps=self.stamps,
            recorder=self,
            deliver=self.deliver,
            period_seconds=EVENTED_RELIST_SECONDS,
            threshold_seconds=EVENTED_THRESHOLD_SECONDS,
        )
        self.pleg = EventedPleg(
            stream=self,
            generic=self.generic,
            cache=self.cache,
            stamps=self.stamps,
            recorder=self,
            deliver=self.deliver,
        )

    def decision(self, machine, pod, why, *, inputs, outcome):
        pass

    def fact(self, kind, **fields):
        self.problems.append(fields["problem"])

    def deliver(self, event):
        if len(self.events) >= self.capacity:
            return False
        self.events.append((str(event.type), event.container_id))
        return True

    async def get_pods(self, *, include_exited):
        self.lists += 1
        return ()

    @asynccontextmanager
    async def container_events(self):
        self.opened += 1
        if self.fail:
            raise PeerError("not implemented")
        yield self._receive

    def tell(self, event_type, container_id, *, at=None, status="given", ips=()):
        if status == "given":
            sandbox = RuntimeSandbox("sandbox", SandboxState.NOT_READY)
            status = RuntimePodStatus("u", "a", "ns", ips, sandboxes=(sandbox,))
        at = self.stamps.now() if at is None else at
        self.send.send_nowait(
            ContainerEvent(type=event_type, container_id=container_id, created_at_seconds=at, status=status)
        )


def simulate(scenario):
    async def main():
        node = Node()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.generic.run)
            nursery.start_soon(node.pleg.run)
            await trio.sleep(0.5)
            await scenario(node)
            nursery.cancel_scope.cancel()

    run(main, seed=0)


def test_POD_915_events():
    async def scenario(node):
        node.tell(ContainerEventType.CREATED, "c", ips=("10.0.0.1",))
        node.tell(ContainerEventType.STARTED, "c")
        node.tell(ContainerEventType.STOPPED, "c")
        node.tell(ContainerEventType.STARTED, "x", status=None)
        await trio.sleep(0.1)
        assert node.events == [("ContainerStarted", "c"), ("ContainerDied", "c")]
        assert node.cache.get("u").ips == ("10.0.0.1",)
        node.tell(ContainerEventType.DELETED, "c")
        node.tell(ContainerEventType.STARTED, "late", at=0.1)
        await trio.sleep(0.1)
        assert node.events[2:] == [("ContainerDied", "c"), ("ContainerRemoved", "c")]
        assert node.cache.get("u").name == "a"
        node.tell(ContainerEventType.DELETED, "sandbox")
        await trio.sleep(0.1)
        assert node.cache.get("u").name == ""
        assert node.lists == 1

    simulate(scenario)


def test_full_receiver():
    async def scenario(node):
        node.capacity = 1
        node.tell(ContainerEventType.DELETED, "c")
        await trio.sleep(0.1)
        assert node.pleg.discarded == 1

    simulate(scenario)


def test_the_cache_moves_on_every_five_seconds_POD_001():
    async def scenario(node):
        after = node.stamps.now()
        before = trio.current_time()
        await node.cache.get_newer_than("quiet", after)
        assert trio.current_time() - before == 4.5

    simulate(scenario)


def test_a_cached_error_does_not_hinder():
    async def scenario(node):
        node.cache.set("u", RuntimePodStatus("u"), PeerError("down"), node.stamps.now())
        node.tell(ContainerEventType.STARTED, "c")
        await trio.sleep(0.1)
        assert node.cache.get("u").name == "a"

    simulate(scenario)


def test_POD_916_the_fifth_failure_is_the_last():
    async def scenario(node):
        node.fail = True
        node.send.close()
        await trio.sleep(0.1)
        assert node.opened == 5
        assert not node.pleg.in_use
        assert len(node.problems) == 5
        assert node.problems[0] == "the stream of container events has ended"
        assert (node.generic.period_seconds, node.generic.threshold_seconds) == (1.0, 180.0)
        lists = node.lists
        await trio.sleep(10)
        assert node.lists == lists + 10

    simulate(scenario)
