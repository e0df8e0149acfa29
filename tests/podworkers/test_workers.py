"""Pod workers on trio: what runs, in which order (POD-1301, POD-1302, POD-518)."""

import random

import pytest
import trio
import trio.lowlevel
from attrs import evolve

from kubelet_emu.api.types import ObjectMeta, Pod, PodSpec, PodStatus
from kubelet_emu.container.cache import PodCache
from kubelet_emu.container.runtime import RunningPod, RuntimePodStatus
from kubelet_emu.container.stamps import Stamps
from kubelet_emu.errors import PeerError
from kubelet_emu.pod_update import UpdateType
from kubelet_emu.podworkers.record import KillOptions, SyncError, SyncOutcome, UpdatePodOptions
from kubelet_emu.podworkers.workers import EXCEEDED_GRACE_MESSAGE, KILL_TIMEOUT_ERROR, PodWorkers
from kubelet_emu.workqueue import WorkQueue
from node_host.clock import NodeClock
from node_host.loop import run

RUNNING = RunningPod("u1", "a", "ns")


def pod(uid="u1", *, phase=None, deletion_grace=None, grace=30):
    return Pod(
        metadata=ObjectMeta(
            name="a",
            namespace="ns",
            uid=uid,
            deletion_timestamp=None if deletion_grace is None else 1,
            deletion_grace_period_seconds=deletion_grace,
        ),
        spec=PodSpec(termination_grace_period_seconds=grace),
        status=PodStatus(phase=phase),
    )


class Recorder:
    def decision(self, machine, pod, why, *, inputs, outcome):
        pass

    def fact(self, kind, **fields):
        pass


class Syncer:
    """Logs what it is asked for. ``hold`` makes syncs wait for ``release``; errors are given by function."""

    def __init__(self):
        self.calls = []
        self.errors = {}
        self.terminal = False
        self.hold = False
        self.release = trio.Event()
        self.statuses = []

    async def _done(self, name):
        if self.hold:
            await self.release.wait()
        error = self.errors.get(name)
        if isinstance(error, PeerError):
            raise error
        return error

    async def sync_pod(self, update_type, pod, mirror_pod, status):
        self.calls.append(str(update_type))
        self.statuses.append(status)
        return SyncOutcome(self.terminal, await self._done("sync"))

    async def sync_terminating_pod(self, pod, status, grace_override_seconds, status_override):
        self.calls.append(f"kill({'' if grace_override_seconds is None else grace_override_seconds})")
        return await self._done("kill")

    async def sync_terminating_runtime_pod(self, running_pod):
        self.calls.append("runtime-kill")
        return await self._done("kill")

    async def sync_terminated_pod(self, pod, status):
        self.calls.append("terminated")
        return await self._done("terminated")


class Events:
    def __init__(self):
        self.seen = []

    def event(self, pod, event_type, reason, message, *, field_path=""):
        self.seen.append((event_type, reason, message))


class Node:
    def __init__(self, nursery):
        self.stamps = Stamps(NodeClock())
        self.cache = PodCache()
        self.queue = WorkQueue()
        self.syncer = Syncer()
        self.events = Events()
        self.workers = PodWorkers(
            nursery=nursery,
            stamps=self.stamps,
            rng=random.Random(7),
            cache=self.cache,
            work_queue=self.queue,
            syncer=self.syncer,
            recorder=Recorder(),
            events=self.events,
        )

    def ask(self, update_type, a_pod=None, *, running=None, kill=None):
        self.workers.update_pod(
            UpdatePodOptions(type=update_type, pod=a_pod, running_pod=running, kill_options=kill)
        )

    async def settle(self, relists=6):
        """Let the workers run, with a completed relist now and then."""
        for _ in range(relists):
            await trio.sleep(0.1)
            self.cache.update_time(self.stamps.now())
        await trio.sleep(0.1)

    def record(self, uid="u1"):
        return self.workers.record(uid)


def simulate(scenario):
    """Run ``scenario(node)`` in virtual time."""

    async def main():
        async with trio.open_nursery() as nursery:
            await scenario(Node(nursery))
            nursery.cancel_scope.cancel()

    run(main, seed=1)


def test_POD_1301_create():
    async def scenario(node):
        node.ask(UpdateType.CREATE, pod(), running=RUNNING)
        await node.settle()
        assert node.syncer.calls == ["create"]
        record = node.record()
        assert (record.started_at is not None, record.is_terminating, record.observed_runtime) == (
            True,
            False,
            False,
        )
        assert record.active.pod == pod()
        assert 60 <= node.queue.due_at("u1") - record.started_at <= 90

    simulate(scenario)


def test_POD_1301_create_of_the_same_uid_while_terminating():
    async def scenario(node):
        node.ask(UpdateType.CREATE, pod())
        await node.settle()
        node.ask(UpdateType.KILL, pod())
        node.ask(UpdateType.CREATE, pod(grace=5))
        await node.settle()
        record = node.record()
        assert node.syncer.calls == ["create", "kill(30)", "terminated"]
        assert (record.restart_requested, record.finished, record.grace_seconds) == (True, True, 30)
        known = node.workers.sync_known_pods([pod(grace=5)])
        assert known == {}
        assert node.record() is None

    simulate(scenario)


def test_POD_1301_deletion():
    async def scenario(node):
        node.ask(UpdateType.CREATE, pod())
        await node.settle()
        node.ask(UpdateType.UPDATE, pod(deletion_grace=15))
        await node.settle()
        record = node.record()
        assert node.syncer.calls == ["create", "kill(15)", "terminated"]
        assert (record.finished, record.deleted, record.grace_seconds) == (True, True, 15)

    simulate(scenario)


def test_POD_1301_eviction():
    async def scenario(node):
        node.ask(UpdateType.CREATE, pod())
        await node.settle()
        node.ask(UpdateType.KILL, pod(), kill=KillOptions(evict=True))
        assert node.workers.content_should_be_removed("u1")
        await node.settle()
        record = node.record()
        assert (record.finished, record.evicted, record.deleted, record.grace_seconds) == (
            True,
            True,
            False,
            30,
        )

    simulate(scenario)


def test_POD_1301_terminal_phase_with_a_cache_error():
    async def scenario(node):
        node.cache.set("u1", RuntimePodStatus("u1"), PeerError("down"), node.stamps.now())
        node.ask(UpdateType.CREATE, pod(phase="Succeeded"))
        record = node.record()
        assert (record.is_terminating, record.terminated_at, record.grace_seconds) == (True, None, 30)
        await trio.sleep(0.1)
        assert node.events.seen == [("Warning", "FailedSync", "error determining status: down")]
        assert 10 <= node.queue.due_at("u1") <= 15.1

    simulate(scenario)


def test_POD_1301_terminal_phase_and_nothing_in_the_runtime():
    async def scenario(node):
        node.ask(UpdateType.CREATE, pod(phase="Succeeded"))
        record = node.record()
        assert record.terminated_at is not None
        assert (record.finished, record.started_terminating, record.restart_requested) == (False, True, False)
        await node.settle()
        assert node.syncer.calls == ["terminated"]
        assert node.record().finished

    simulate(scenario)


def test_POD_1301_runtime_pod():
    async def scenario(node):
        node.ask(UpdateType.CREATE, running=RUNNING)
        assert node.record() is None
        node.ask(UpdateType.KILL, running=RUNNING, kill=KillOptions(grace_override_seconds=1))
        record = node.record()
        assert (record.deleted, record.observed_runtime, record.grace_seconds) == (True, True, 1)
        assert not node.workers.is_known_terminated("u1")
        await node.settle()
        assert node.syncer.calls == ["runtime-kill"]
        assert node.record() is None

    simulate(scenario)


def test_POD_1301_runtime_kill_of_a_terminated_pod_is_ignored():
    async def scenario(node):
        node.syncer.errors["terminated"] = SyncError("still mounted")
        node.ask(UpdateType.KILL, pod())
        await node.settle()
        node.ask(UpdateType.KILL, running=RUNNING)
        await node.settle()
        assert node.syncer.calls == ["kill(30)", "terminated"]
        assert node.record().observed_runtime

    simulate(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_POD_1302_a_kill_is_never_forgotten(seed):
    async def scenario(node):
        node.ask(UpdateType.CREATE, pod())
        for _ in range(seed):
            await trio.lowlevel.checkpoint()
        node.ask(UpdateType.KILL, pod())
        node.ask(UpdateType.UPDATE, pod())
        await node.settle()
        assert node.syncer.calls in (["create", "kill(30)", "terminated"], ["kill(30)", "terminated"])

    simulate(scenario)


def test_POD_903_the_next_sync_waits_for_a_newer_observation():
    async def scenario(node):
        node.cache.update_time(node.stamps.now())
        node.ask(UpdateType.CREATE, pod())
        await trio.sleep(0.1)
        assert node.syncer.calls == ["create"]
        node.ask(UpdateType.SYNC, pod())
        await trio.sleep(10)
        assert node.syncer.calls == ["create"]
        node.cache.update_time(node.stamps.now())
        await trio.lowlevel.checkpoint()
        await trio.sleep(0.1)
        assert node.syncer.calls == ["create", "sync"]

    simulate(scenario)


def test_POD_515_an_update_during_a_sync_starts_at_once_and_POD_516_cancels():
    async def scenario(node):
        node.syncer.hold = True
        node.ask(UpdateType.CREATE, pod())
        await node.settle(1)
        cancel = node.workers.cancel_event("u1")
        assert not cancel.is_set()
        node.ask(UpdateType.KILL, pod())
        assert cancel.is_set()
        assert node.workers.termination_requested("u1")
        assert not node.workers.containers_should_be_terminating("u1")
        node.syncer.hold = False
        node.syncer.release.set()
        await node.settle()
        assert node.syncer.calls == ["create", "kill(30)", "terminated"]
        assert node.workers.cancel_event("u1") is not cancel

    simulate(scenario)


def test_a_peer_error_that_escapes_counts_as_a_failed_sync():
    async def scenario(node):
        node.syncer.errors["sync"] = PeerError("gone")
        node.ask(UpdateType.CREATE, pod())
        await node.settle()
        assert 10 <= node.queue.due_at("u1") <= 15.2
        node.syncer.errors["kill"] = PeerError("gone")
        node.ask(UpdateType.KILL, pod())
        await node.settle()
        assert node.record().state == "terminating"
        del node.syncer.errors["kill"]
        node.ask(UpdateType.SYNC, pod())
        await node.settle()
        assert node.record().finished

    simulate(scenario)


def test_POD_518_kill_pod_now_waits_for_the_end():
    async def scenario(node):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.settle)
            assert await node.workers.kill_pod_now(pod(), evict=True, grace_override_seconds=2) == ""
        assert node.syncer.calls[:1] == ["kill(2)"]
        assert node.events.seen == []

    simulate(scenario)


@pytest.mark.parametrize(("grace", "seconds"), [(None, 45), (2, 10), (9, 13)])
def test_POD_518_kill_pod_now_gives_up(grace, seconds):
    async def scenario(node):
        node.syncer.hold = True
        start = trio.current_time()
        error = await node.workers.kill_pod_now(pod(), grace_override_seconds=grace)
        assert error == KILL_TIMEOUT_ERROR
        assert trio.current_time() - start == seconds
        assert node.events.seen == [("Warning", "ExceededGracePeriod", EXCEEDED_GRACE_MESSAGE)]

    simulate(scenario)


def test_POD_506_and_POD_1308_queries():
    async def scenario(node):
        workers = node.workers

        def answers():
            return (
                workers.is_known_terminated("u1"),
                workers.could_have_running_containers("u1"),
                workers.should_be_finished("u1"),
                workers.termination_requested("u1"),
                workers.containers_should_be_terminating("u1"),
                workers.runtime_should_be_removed("u1"),
                workers.content_should_be_removed("u1"),
            )

        assert answers() == (False, True, False, False, False, False, False)
        workers.sync_known_pods([])
        assert answers() == (False, False, True, False, True, True, True)
        node.ask(UpdateType.CREATE, pod())
        await node.settle()
        assert answers() == (False, True, False, False, False, False, False)
        node.ask(UpdateType.KILL, pod())
        await node.settle()
        assert answers() == (True, False, True, True, True, True, False)
        node.workers.sync_known_pods([pod()])
        assert node.record() is not None

    simulate(scenario)


def test_POD_510_a_static_pod_waits_for_its_name():
    async def scenario(node):
        def static(uid):
            base = pod(uid)
            annotations = {"kubernetes.io/config.source": "file"}
            return evolve(base, metadata=evolve(base.metadata, annotations=annotations))

        node.ask(UpdateType.CREATE, static("old"))
        await node.settle()
        node.ask(UpdateType.CREATE, static("new"))
        await node.settle()
        assert node.syncer.calls == ["create"]
        assert 10 <= node.queue.due_at("new") <= 17
        node.syncer.hold = True
        node.ask(UpdateType.KILL, static("old"))
        await node.settle()
        assert node.workers.is_pod_for_mirror_terminating("a_ns")
        node.syncer.hold = False
        node.syncer.release.set()
        await node.settle()
        assert not node.workers.is_pod_for_mirror_terminating("a_ns")
        node.ask(UpdateType.SYNC, static("new"))
        await node.settle()
        assert node.syncer.calls == ["create", "kill(30)", "terminated", "sync"]

    simulate(scenario)


def test_POD_519_an_orphan_that_waits_for_its_name_is_removed_without_a_sync():
    async def scenario(node):
        def static(uid):
            base = pod(uid)
            annotations = {"kubernetes.io/config.source": "file"}
            return evolve(base, metadata=evolve(base.metadata, annotations=annotations))

        node.ask(UpdateType.CREATE, static("old"))
        await node.settle()
        node.ask(UpdateType.CREATE, static("new"))
        await node.settle()
        known = node.workers.sync_known_pods([static("old")])
        assert list(known) == ["old"]
        await node.settle()
        assert node.syncer.calls == ["create"]

    simulate(scenario)
