"""The generic PLEG against a runtime that lists what it is told to (POD-904 to POD-914)."""

import pytest
import trio

from kubelet_emu.container.cache import PodCache
from kubelet_emu.container.runtime import (
    ContainerState,
    RunningContainer,
    RunningPod,
    RuntimeContainer,
    RuntimePodStatus,
    RuntimeSandbox,
    SandboxState,
)
from kubelet_emu.container.stamps import BEFORE_ALL, Stamps
from kubelet_emu.errors import PeerError
from kubelet_emu.pleg.generic import EVENT_CAPACITY, RELIST_REQUESTS_MAX, GenericPleg
from node_host.clock import NodeClock
from node_host.loop import run

R, E, U = ContainerState.RUNNING, ContainerState.EXITED, ContainerState.UNKNOWN


class Recorder:
    def __init__(self):
        self.facts = []

    def decision(self, machine, pod, why, *, inputs, outcome):
        pass

    def fact(self, kind, **fields):
        self.facts.append(fields)


class FakeRuntime:
    def __init__(self):
        self.pods = {}
        self.ips = {}
        self.sandboxes = {}
        self.lists = 0
        self.inspected = []
        self.list_error = None
        self.status_errors = {}

    async def get_pods(self, *, include_exited):
        assert include_exited
        self.lists += 1
        if self.list_error:
            raise self.list_error
        return tuple(
            RunningPod(
                uid,
                f"{uid}-name",
                "ns",
                tuple(RunningContainer(f"{uid}/{name}", name, s) for name, s in sorted(containers.items())),
            )
            for uid, containers in sorted(self.pods.items())
        )

    async def get_pod_status(self, uid, name, namespace):
        self.inspected.append(uid)
        if uid in self.status_errors:
            raise self.status_errors[uid]
        return RuntimePodStatus(
            uid,
            name,
            namespace,
            ips=self.ips.get(uid, ()),
            containers=tuple(
                RuntimeContainer(f"{uid}/{n}", n, s) for n, s in sorted(self.pods.get(uid, {}).items())
            ),
            sandboxes=self.sandboxes.get(uid, ()),
        )


class Node:
    def __init__(self, **options):
        self.clock = NodeClock()
        self.stamps = Stamps(self.clock)
        self.runtime = FakeRuntime()
        self.cache = PodCache()
        self.recorder = Recorder()
        self.events = []
        self.capacity = EVENT_CAPACITY
        self.pleg = GenericPleg(
            runtime=self.runtime,
            cache=self.cache,
            stamps=self.stamps,
            recorder=self.recorder,
            deliver=self._deliver,
            **options,
        )

    def _deliver(self, event):
        if len(self.events) >= self.capacity:
            return False
        self.events.append(event)
        return True

    def taken(self):
        events = [(e.pod_uid, str(e.type), e.container_id.partition("/")[2]) for e in self.events]
        self.events.clear()
        return events

    async def newer(self, uid, after=BEFORE_ALL):
        with trio.move_on_after(0.001):
            return await self.cache.get_newer_than(uid, after)
        return None


def simulate(scenario, **options):
    async def main():
        await scenario(Node(**options))

    run(main, seed=3)


def test_POD_1312_relisting():
    async def scenario(node):
        node.runtime.pods = {"A": {"c1": E, "c2": R, "c3": U}, "B": {"c1": E}}
        await node.pleg.relist()
        assert sorted(node.taken()) == [
            ("A", "ContainerDied", "c1"),
            ("A", "ContainerStarted", "c2"),
            ("B", "ContainerDied", "c1"),
        ]
        await node.pleg.relist()
        assert node.taken() == []
        assert node.runtime.inspected == ["A", "B"]
        node.runtime.pods = {"A": {"c2": E, "c3": R}, "B": {"c4": R}}
        await node.pleg.relist()
        assert sorted(node.taken()) == [
            ("A", "ContainerDied", "c2"),
            ("A", "ContainerRemoved", "c1"),
            ("A", "ContainerStarted", "c3"),
            ("B", "ContainerRemoved", "c1"),
            ("B", "ContainerStarted", "c4"),
        ]

    simulate(scenario)


def test_POD_1312_vanishing_containers_and_POD_909_pods():
    async def scenario(node):
        node.runtime.pods = {"A": {"c1": R, "c2": E}}
        await node.pleg.relist()
        node.taken()
        node.runtime.pods = {}
        await node.pleg.relist()
        assert node.taken() == [
            ("A", "ContainerDied", "c1"),
            ("A", "ContainerRemoved", "c1"),
            ("A", "ContainerRemoved", "c2"),
        ]
        assert node.cache.get("A") == RuntimePodStatus("A")
        await node.pleg.relist()
        assert node.taken() == []

    simulate(scenario)


def test_POD_1313_reinspection():
    async def scenario(node):
        node.runtime.pods = {"A": {"c1": R}}
        node.runtime.status_errors["A"] = error = PeerError("no")
        await node.pleg.relist()
        assert node.taken() == []
        with pytest.raises(PeerError) as cached:
            node.cache.get("A")
        assert cached.value is error
        await node.pleg.relist()
        assert node.runtime.inspected == ["A", "A"]
        del node.runtime.status_errors["A"]
        await node.pleg.relist()
        assert node.taken() == [("A", "ContainerStarted", "c1")]
        await node.pleg.relist()
        assert node.runtime.inspected == ["A"] * 3

        node.pleg.request_reinspect("A")
        await node.pleg.relist()
        assert node.taken() == [("A", "PodSync", "")]
        await node.pleg.relist()
        assert node.taken() == []

    simulate(scenario)


def test_POD_1313_reinspection_of_a_pod_that_is_gone():
    async def scenario(node):
        node.cache.set("A", RuntimePodStatus("A", name="old"), None, node.stamps.now())
        node.pleg.request_reinspect("A")
        await node.pleg.relist()
        assert node.taken() == [("A", "PodSync", "")]
        assert node.cache.get("A").name == ""

    simulate(scenario)


def test_POD_910_a_full_receiver_loses_events_that_are_not_repeated():
    async def scenario(node):
        node.capacity = 1
        node.runtime.pods = {"A": {"c1": R, "c2": R}}
        await node.pleg.relist()
        assert node.taken() == [("A", "ContainerStarted", "c1")]
        assert node.pleg.discarded == 1
        await node.pleg.relist()
        assert node.taken() == []

    simulate(scenario)


def test_POD_904_a_failed_list_moves_no_time_and_POD_912_health():
    async def scenario(node):
        node.runtime.list_error = PeerError("down")
        assert not await node.pleg.relist()
        assert node.pleg.problem(node.clock.elapsed_seconds()) == "pleg has yet to be successful"
        assert await node.newer("A") is None
        node.runtime.list_error = None
        assert await node.pleg.relist()
        assert await node.newer("A") == RuntimePodStatus("A")
        await trio.sleep(180)
        assert node.pleg.problem(node.clock.elapsed_seconds()) == ""
        await trio.sleep(1.5)
        assert (
            node.pleg.problem(node.clock.elapsed_seconds())
            == "pleg was last seen active 3m1.5s ago; threshold is 3m0s"
        )

    simulate(scenario)


def test_POD_911_ips_outlive_the_sandbox():
    async def scenario(node):
        node.runtime.pods = {"A": {"c1": R}}
        node.runtime.ips["A"] = ("10.0.0.1",)
        await node.pleg.relist()
        node.runtime.ips.clear()
        node.runtime.sandboxes["A"] = (RuntimeSandbox("s", SandboxState.NOT_READY),)
        node.runtime.pods = {"A": {"c1": E}}
        await node.pleg.relist()
        assert node.cache.get("A").ips == ("10.0.0.1",)

    simulate(scenario)


def test_POD_1314_a_single_request_unblocks_only_its_pod():
    async def scenario(node):
        node.runtime.pods = {"p1": {"c": R}, "p2": {"c": R}}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.pleg.run)
            await trio.sleep(0.5)
            node.taken()
            after = node.stamps.now()
            node.runtime.pods = {"p1": {"c": E}, "p2": {"c": E}}
            node.pleg.request_relist("p1", "p1-name", "ns")
            assert await node.newer("p1", after) is not None
            assert node.taken() == [("p1", "ContainerDied", "c")]
            assert await node.newer("p2", after) is None
            assert node.runtime.lists == 1
            await trio.sleep(1)
            assert node.runtime.lists == 2
            assert node.taken() == [("p2", "ContainerDied", "c")]
            nursery.cancel_scope.cancel()

    simulate(scenario)


def test_POD_1314_the_global_relist_goes_first_and_makes_older_requests_void():
    async def scenario(node):
        node.runtime.pods = {"p1": {"c": R}}
        await node.pleg.relist()
        node.runtime.inspected.clear()
        after = node.stamps.now()
        node.pleg.request_relist("p1", "p1-name", "ns")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.pleg.run)
            assert await node.newer("p1", after) is not None
            nursery.cancel_scope.cancel()
        assert node.runtime.inspected == []
        assert node.runtime.lists == 2

    simulate(scenario)


def test_POD_913_unknown_pods_and_errors_are_left_to_the_global_relist():
    async def scenario(node):
        node.runtime.status_errors["bad"] = PeerError("no")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.pleg.run)
            await trio.sleep(0.5)
            after = node.stamps.now()
            node.pleg.request_relist("bad", "bad", "ns")
            node.pleg.request_relist("nobody", "nobody", "ns")
            assert await node.newer("bad", after) is None
            assert await node.newer("nobody", after) is None
            nursery.cancel_scope.cancel()
        assert node.taken() == []
        assert node.recorder.facts == [{"podUID": "bad", "problem": "unable to retrieve pod: no"}]

    simulate(scenario)


def test_requests_are_bounded_and_can_be_switched_off():
    async def scenario(node):
        for number in range(RELIST_REQUESTS_MAX + 5):
            node.pleg.request_relist(f"p{number}", "p", "ns")
        assert node.pleg.discarded == 5

    simulate(scenario)

    async def off(node):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.pleg.run)
            await trio.sleep(0.5)
            node.pleg.request_relist("p", "p", "ns")
            await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
        assert node.runtime.inspected == []

    simulate(off, on_demand=False)


def test_POD_904_relists_come_one_period_after_the_last_has_finished():
    async def scenario(node):
        with trio.move_on_after(1000.5):
            await node.pleg.run()
        assert node.pleg.relists == 1001
        assert node.runtime.inspected == []

    simulate(scenario)
