"""The status manager over a small API: STA-1216, STA-1221 to STA-1223, and what it accepts."""

import pytest
from attrs import evolve

from kubelet_emu.api.codec import pod_from_json, pod_to_json
from kubelet_emu.api.types import PodCondition, PodStatus
from kubelet_emu.apiserver.patch import strategic_merge_patch
from kubelet_emu.errors import PeerError
from kubelet_emu.gates import Gates
from kubelet_emu.status import resize
from kubelet_emu.status.manager import StatusManager
from node_host.clock import NodeClock
from node_host.loop import run

EPOCH = 1_767_225_600_000_000_000


class Api:
    """An API of one pod, with a log of the calls."""

    def __init__(self, pod):
        self.pod = None if pod is None else pod_to_json(pod)
        self.calls = []
        self.fail = False

    async def get_pod(self, namespace, name):
        self.calls.append("get")
        if self.fail:
            raise PeerError("no route to the API")
        return self.pod

    async def patch_pod_status(self, namespace, name, uid, patch):
        self.calls.append("patch")
        assert patch["metadata"]["uid"] == uid == self.pod["metadata"]["uid"]
        self.pod = strategic_merge_patch(self.pod, patch)
        return self.pod

    async def delete_pod(self, namespace, name, uid, grace_seconds):
        assert grace_seconds == 0
        self.calls.append("delete")
        self.pod = None

    @property
    def status(self):
        return pod_from_json(self.pod).status


class Pods:
    """The pod manager: pods by uid, and the mirrors of static ones."""

    def __init__(self, *pods, mirrors=()):
        self.pods = {pod.metadata.uid: pod for pod in pods}
        self.mirrors = dict(mirrors)

    def pod_by_uid(self, uid):
        return self.pods.get(uid)

    def mirror_pod_of(self, pod):
        return self.mirrors.get(pod.metadata.uid)

    def translate_uid(self, uid):
        found = [static for static, mirror in self.mirrors.items() if mirror.metadata.uid == uid]
        return found[0] if found else uid


class Recorder:
    def __init__(self):
        self.records = []

    def decision(self, machine, pod, why, *, inputs, outcome):
        assert why
        self.records.append((machine, outcome))

    def fact(self, kind, **fields):
        self.records.append((kind, fields))


class World:
    def __init__(self, pod, *, api="same", mirrors=(), running=False):
        self.pod = pod
        self.clock = NodeClock()
        self.pods = Pods(pod, mirrors=mirrors)
        self.api = Api(pod if api == "same" else api)
        self.recorder = Recorder()
        self.manager = StatusManager(
            clock=self.clock,
            api=self.api,
            pods=self.pods,
            could_have_running_containers=lambda _uid: running,
            recorder=self.recorder,
            gates=Gates(),
        )

    async def batch(self, *, full=False):
        self.api.calls.clear()
        await self.manager.sync_batch(full=full)
        return self.api.calls

    def see(self):
        """The watch delivers what the API holds."""
        self.pod = pod_from_json(self.api.pod)
        self.pods.pods[self.pod.metadata.uid] = self.pod


@pytest.fixture
def pod(make):
    return make.pod(containers=["c"], status=PodStatus())


def test_sta_1216_set_and_repeat(make, pod):
    async def main():
        world = World(pod)
        status = PodStatus(phase="Running", container_statuses=(make.running("c"),))
        world.manager.set_pod_status(pod, status)
        assert await world.batch() == ["get", "patch"]
        assert world.api.status.phase == "Running"
        assert world.api.status.observed_generation == 1
        world.manager.set_pod_status(pod, status)
        assert await world.batch() == []
        world.see()
        # The API's copy, read back, is what the cache holds: nothing to reconcile.
        assert await world.batch(full=True) == []

    run(main, seed=1)


def test_sta_1216_last_of_three(make, pod):
    async def main():
        world = World(pod)
        for phase in ("Pending", "Running", "Failed"):
            world.manager.set_pod_status(pod, PodStatus(phase=phase))
        assert await world.batch() == ["get", "patch"]
        assert world.api.status.phase == "Failed"

    run(main, seed=1)


def test_sta_1216_gone_and_replaced(make, pod):
    async def main():
        world = World(pod, api=None)
        world.manager.set_pod_status(pod, PodStatus(phase="Running"))
        assert await world.batch() == ["get"]
        assert world.manager.get_pod_status("uid-1") is not None
        other = evolve(pod, metadata=evolve(pod.metadata, uid="uid-2"))
        world.api.pod = pod_to_json(other)
        assert await world.batch() == ["get"]
        assert world.manager.get_pod_status("uid-1") is None

    run(main, seed=1)


def test_sta_1216_static_pod(make, pod):
    async def main():
        static = evolve(
            pod, metadata=evolve(pod.metadata, annotations={"kubernetes.io/config.source": "file"})
        )
        mirror = evolve(
            pod,
            metadata=evolve(pod.metadata, uid="mirror", annotations={"kubernetes.io/config.mirror": "x"}),
        )
        world = World(static, api=mirror)
        world.manager.set_pod_status(static, PodStatus(phase="Running"))
        assert await world.batch() == []
        world.pods.mirrors["uid-1"] = mirror
        assert await world.batch() == ["get", "patch"]
        assert await world.batch() == []
        assert world.manager.get_pod_status("mirror") == world.manager.get_pod_status("uid-1")
        # A mirror is never deleted from here.
        deleted = evolve(mirror.metadata, deletion_timestamp=EPOCH)
        world.api.pod = pod_to_json(evolve(mirror, metadata=deleted))
        world.manager.terminate_pod(static)
        assert await world.batch() == ["get", "patch"]
        # A mirror that was replaced is only looked at.
        world.api.pod["metadata"]["uid"] = "another"
        world.manager.set_pod_status(static, PodStatus(phase="Pending"))
        assert await world.batch() == ["get"]

    run(main, seed=1)


def test_sta_1216_deletion(make):
    async def main():
        pod = make.pod(containers=["c"], status=PodStatus(), deleted=True)
        world = World(pod)
        world.manager.set_pod_status(pod, PodStatus(phase="Failed"))
        assert await world.batch() == ["get", "patch"]
        # STA-605: forced while deleting, so an equal status is looked at again but nothing is sent.
        world.manager.set_pod_status(pod, PodStatus(phase="Failed"))
        assert await world.batch() == ["get"]
        world.manager.terminate_pod(pod)
        assert await world.batch() == ["get", "delete"]
        assert world.manager.get_pod_status("uid-1") is None

    run(main, seed=1)


def test_sta_807_final_patch_and_delete_in_one_pass(make):
    async def main():
        pod = make.pod(containers=["c"], status=PodStatus(phase="Running"), deleted=True)
        world = World(pod)
        world.manager.terminate_pod(pod)
        assert await world.batch() == ["get", "patch", "delete"]

    run(main, seed=1)


def test_sta_802_terminal_phase_is_held_back(make):
    async def main():
        pod = make.pod("Never", ["c"], status=PodStatus(phase="Running"))
        world = World(pod, running=True)
        world.manager.set_pod_status(pod, PodStatus(phase="Failed", reason="Evicted"))
        await world.batch()
        assert (world.api.status.phase, world.api.status.reason) == ("Running", None)

    run(main, seed=1)


def test_sta_703_failed_write_is_tried_again(make, pod):
    async def main():
        world = World(pod)
        world.api.fail = True
        world.manager.set_pod_status(pod, PodStatus(phase="Running"))
        assert await world.batch() == ["get"]
        assert world.recorder.records[-1][0] == "status_write_failed"
        world.api.fail = False
        assert await world.batch() == ["get", "patch"]

    run(main, seed=1)


def test_sta_705_tampering_is_reverted(make, pod):
    async def main():
        world = World(pod)
        world.manager.set_pod_status(pod, PodStatus(phase="Running"))
        await world.batch()
        world.api.pod["status"]["phase"] = "Failed"
        world.see()
        assert await world.batch() == []
        assert await world.batch(full=True) == ["get", "patch"]
        assert world.api.status.phase == "Running"

    run(main, seed=1)


def test_sta_701_signal_and_full_batch(make, pod):
    async def main():
        import trio

        world = World(pod)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.manager.run)
            await world.clock.sleep(3)
            world.manager.set_pod_status(pod, PodStatus(phase="Running"))
            await world.clock.sleep(0.001)
            assert world.api.calls == ["get", "patch"]
            world.api.pod["status"]["phase"] = "Failed"
            world.see()
            await world.clock.sleep_until(9.99)
            assert world.api.status.phase == "Failed"
            await world.clock.sleep_until(10.01)
            assert world.api.status.phase == "Running"
            nursery.cancel_scope.cancel()

    run(main, seed=1)


def test_sta_609_standalone_never_writes(make, pod):
    async def main():
        world = World(pod)
        manager = StatusManager(
            clock=world.clock,
            api=None,
            pods=world.pods,
            could_have_running_containers=lambda _uid: True,
            recorder=world.recorder,
            gates=Gates(),
        )
        manager.set_pod_status(pod, PodStatus(phase="Running"))
        await manager.run()
        assert manager.get_pod_status("uid-1").phase == "Running"

    run(main, seed=1)


class TestUpdate:
    def world(self, make, *statuses, **more):
        pod = make.pod(containers=["c1", "c2"], status=PodStatus())
        world = World(pod)
        if statuses:
            world.manager.set_pod_status(pod, PodStatus(phase="Running", container_statuses=statuses, **more))
        return world

    def condition(self, world, name):
        status = world.manager.get_pod_status("uid-1")
        return next(c for c in status.conditions if c.type == name)

    def test_sta_1222_readiness_by_container_id(self, make):
        async def main():
            world = self.world(make)
            world.manager.set_container_readiness("uid-1", "x://1", True)
            assert world.manager.get_pod_status("uid-1") is None
            entries = [make.running(f"c{n}", container_id=f"x://{n}", ready=False) for n in (1, 2)]
            world = self.world(make, *entries)
            await world.batch()
            world.manager.set_container_readiness("uid-1", "x://1", False)
            assert await world.batch() == []
            world.manager.set_container_readiness("uid-1", "x://1", True)
            assert await world.batch() == ["get", "patch"]
            assert self.condition(world, "Ready").status == "False"
            world.manager.set_container_readiness("uid-1", "x://2", True)
            assert await world.batch() == ["get", "patch"]
            assert self.condition(world, "Ready").status == "True"
            world.manager.set_container_readiness("uid-1", "x://9", True)
            assert await world.batch() == []

        run(main, seed=1)

    def test_sta_406_startup(self, make):
        async def main():
            world = self.world(make, make.running("c1", container_id="x://1", started=False))
            world.manager.set_container_startup("uid-1", "x://1", True)
            assert world.manager.get_pod_status("uid-1").container_statuses[0].started is True

        run(main, seed=1)

    def test_sta_1223_times(self, make):
        async def main():
            world = self.world(make)
            ready = PodCondition(type="Ready", status="False")
            await world.clock.sleep(2.5)
            world.manager.set_pod_status(world.pod, PodStatus(phase="Pending", conditions=(ready,)))
            second = EPOCH + 2_000_000_000
            assert self.condition(world, "Ready").last_transition_time == second
            await world.clock.sleep(3)
            same = evolve(ready, message="another")
            world.manager.set_pod_status(world.pod, PodStatus(phase="Pending", conditions=(same,)))
            assert self.condition(world, "Ready").last_transition_time == second
            changed = PodStatus(phase="Running", conditions=(evolve(ready, status="True"),))
            world.manager.set_pod_status(world.pod, changed)
            assert self.condition(world, "Ready").last_transition_time == EPOCH + 5_000_000_000
            assert world.manager.get_pod_status("uid-1").start_time == second

        run(main, seed=1)

    def test_sta_105_sandbox_ready(self, make):
        async def main():
            world = self.world(make, make.waiting("c1"))
            world.manager.set_pod_ready_to_start_containers(world.pod)
            assert self.condition(world, "PodReadyToStartContainers").status == "True"

        run(main, seed=1)

    def test_sta_602_illegal_update_is_dropped(self, make):
        async def main():
            pod = make.pod("Never", ["c"], status=PodStatus())
            world = World(pod)
            world.manager.set_pod_status(pod, PodStatus(container_statuses=(make.terminated("c", 0),)))
            before = world.manager.get_pod_status("uid-1")
            world.manager.set_pod_status(pod, PodStatus(container_statuses=(make.running("c"),)))
            assert world.manager.get_pod_status("uid-1") == before
            assert world.recorder.records[-1][1]["problem"] == (
                "terminated container c attempted illegal transition to non-terminated state"
            )

        run(main, seed=1)

    def test_sta_315_messages_share_the_room(self, make):
        async def main():
            entry = make.terminated("c1", 1)
            end = evolve(entry.state.terminated, message="é" * 12288)
            world = self.world(make, evolve(entry, state=evolve(entry.state, terminated=end)))
            stored = world.manager.get_pod_status("uid-1").container_statuses[0].state.terminated
            assert len(stored.message.encode()) == 12288 // 2

        run(main, seed=1)

    def test_sta_610_orphans(self, make):
        async def main():
            world = self.world(make, make.running("c1"))
            world.manager.remove_orphaned_statuses(["uid-1"])
            assert world.manager.get_pod_status("uid-1") is not None
            world.manager.remove_orphaned_statuses([])
            assert world.manager.get_pod_status("uid-1") is None

        run(main, seed=1)


def test_sta_1221_resize_conditions():
    state, now = resize.ResizeConditions(), 10**18

    def in_progress(reason, message, generation):
        return resize.set_in_progress(
            state, reason=reason, message=message, generation=generation, now_ns=now
        )

    def pending(reason, message, generation):
        return resize.set_pending(state, reason=reason, message=message, generation=generation, now_ns=now)

    state, changed = in_progress("some-reason", "some-message", 1)
    assert changed
    state, changed = in_progress("", "", 1)
    assert not changed
    assert (state.in_progress.reason, state.in_progress.message) == ("some-reason", "some-message")
    state, changed = in_progress("", "", 2)
    assert not changed
    assert state.in_progress.observed_generation == 1
    state = resize.ResizeConditions()
    state, changed = in_progress("", "", 2)
    assert changed
    assert (state.in_progress.observed_generation, state.in_progress.reason) == (2, None)
    state, changed = pending("some-reason", "some-message", 1)
    assert changed
    assert [c.type for c in state.listed] == ["PodResizePending", "PodResizeInProgress"]
    assert state.pending.reason == "Deferred"
    state, changed = pending("Deferred", "new message", 1)
    assert not changed
    assert state.pending.message == "new message"
    state, changed = pending("Infeasible", "new message", 3)
    assert changed
    assert (state.pending.reason, state.pending.observed_generation) == ("Infeasible", 3)
