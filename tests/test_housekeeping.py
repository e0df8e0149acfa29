"""Housekeeping passes (POD-1001, POD-1309) and what counts as an active pod (POD-308, POD-1322)."""

import random

import pytest
import trio
from attrs import evolve

from kubelet_emu.api.types import ObjectMeta, Pod, PodSpec, PodStatus
from kubelet_emu.cleanup import (
    CleanUpBackoff,
    CleanupInput,
    CleanUpPodDirs,
    CleanUpProbes,
    RemoveOrphanedStatuses,
    active_pods,
    plan_cleanup,
)
from kubelet_emu.container.cache import PodCache
from kubelet_emu.container.runtime import RunningPod
from kubelet_emu.container.stamps import Stamps
from kubelet_emu.errors import PeerError
from kubelet_emu.housekeeping import Housekeeper, HousekeepingSeams
from kubelet_emu.pod_manager import PodManager
from kubelet_emu.pod_update import UpdateType
from kubelet_emu.podworkers.record import KillOptions, SyncError, SyncOutcome, UpdatePodOptions
from kubelet_emu.podworkers.workers import PodWorkers
from kubelet_emu.workqueue import WorkQueue
from node_host.clock import NodeClock
from node_host.loop import run

RUNNING = RunningPod("u", "a", "ns")


def pod(uid="u", *, name="a", phase=None, deletion=None, static=False, grace=30, mirror=False):
    annotations = {}
    if static:
        annotations["kubernetes.io/config.source"] = "file"
    if mirror:
        annotations["kubernetes.io/config.mirror"] = "h"
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace="ns", uid=uid, deletion_timestamp=deletion, annotations=annotations
        ),
        spec=PodSpec(termination_grace_period_seconds=grace),
        status=PodStatus(phase=phase),
    )


class Node:
    """Everything that a pass touches; it is its own runtime, syncer, recorder and status manager."""

    def __init__(self, nursery):
        self.calls = []
        self.done = []
        self.running = ()
        self.list_error = None
        self.kill_error = None
        self.block = False
        self.phases = {}
        self.stamps = Stamps(NodeClock())
        self.cache = PodCache()
        self.pods = PodManager()
        self.workers = PodWorkers(
            nursery=nursery,
            stamps=self.stamps,
            rng=random.Random(1),
            cache=self.cache,
            work_queue=WorkQueue(),
            syncer=self,
            recorder=self,
            events=self,
        )
        self.housekeeper = Housekeeper(
            pods=self.pods,
            workers=self.workers,
            runtime=self,
            statuses=self,
            recorder=self,
            seams=HousekeepingSeams(
                cleanup_probes=lambda keep: self.done.append(("probes", tuple(keep))),
                remove_orphaned_statuses=lambda keep: self.done.append(("statuses", tuple(keep))),
                cleanup_pod_dirs=lambda keep: self.done.append(("dirs", tuple(keep))),
                delete_mirror=self._delete_mirror,
                collect_backoff=lambda: self.done.append(("backoff",)),
            ),
        )

    async def _delete_mirror(self, name):
        self.done.append(("mirror", name))

    def decision(self, machine, pod, why, *, inputs, outcome):
        pass

    def fact(self, kind, **fields):
        pass

    def event(self, pod, event_type, reason, message, *, field_path=""):
        pass

    def get_pod_status(self, uid):
        return PodStatus(phase=self.phases[uid]) if uid in self.phases else None

    async def get_pods(self, *, include_exited):
        assert not include_exited
        if self.list_error:
            raise self.list_error
        return self.running

    async def sync_pod(self, update_type, pod, mirror_pod, status):
        self.calls.append(str(update_type))
        return SyncOutcome()

    async def sync_terminating_pod(self, pod, status, grace_override_seconds, status_override):
        self.calls.append(f"kill({'' if grace_override_seconds is None else grace_override_seconds})")
        if self.block:
            await trio.sleep_forever()
        return self.kill_error

    async def sync_terminating_runtime_pod(self, running_pod):
        self.calls.append("runtime-kill")
        return self.kill_error

    async def sync_terminated_pod(self, pod, status):
        self.calls.append("terminated")

    def ask(self, update_type, a_pod, *, grace=None):
        kill = KillOptions(grace_override_seconds=grace) if grace is not None else None
        self.workers.update_pod(UpdatePodOptions(type=update_type, pod=a_pod, kill_options=kill))

    async def settle(self):
        for _ in range(6):
            await trio.sleep(0.1)
            self.cache.update_time(self.stamps.now())
        await trio.sleep(0.1)

    async def housekeep(self):
        """One pass; what it made the workers do."""
        self.calls.clear()
        assert await self.housekeeper.run_pass()
        await self.settle()
        return self.calls


def simulate(scenario):
    async def main():
        async with trio.open_nursery() as nursery:
            await scenario(Node(nursery))
            nursery.cancel_scope.cancel()

    run(main, seed=2)


def test_POD_1309_runtime_orphan():
    async def scenario(node):
        node.running = (RUNNING,)
        assert await node.housekeep() == ["runtime-kill"]
        assert node.workers.record("u") is None

    simulate(scenario)


def test_POD_1309_orphan_whose_kill_failed_is_killed_again_with_its_grace():
    async def scenario(node):
        node.kill_error = SyncError("busy")
        node.ask(UpdateType.CREATE, pod())
        await node.settle()
        node.ask(UpdateType.KILL, pod(), grace=2)
        await node.settle()
        node.running = (RUNNING,)
        node.kill_error = None
        assert await node.housekeep() == ["kill(2)", "terminated"]

    simulate(scenario)


def test_POD_1309_runtime_orphan_that_resists():
    async def scenario(node):
        node.running = (RUNNING,)
        node.kill_error = SyncError("busy")
        assert await node.housekeep() == ["runtime-kill"]
        assert await node.housekeep() == ["runtime-kill"]

    simulate(scenario)


@pytest.mark.parametrize(
    ("given", "status_phase", "calls"),
    [
        pytest.param(pod(), None, ["create"], id="POD-1309-pod"),
        pytest.param(pod(phase="Failed"), None, [], id="POD-1309-terminal"),
        pytest.param(pod(), "Failed", [], id="POD-1309-rejected"),
    ],
)
def test_configured_pods_without_a_worker(given, status_phase, calls):
    async def scenario(node):
        node.pods.put(given)
        if status_phase:
            node.phases["u"] = status_phase
        assert await node.housekeep() == calls

    simulate(scenario)


def test_POD_1309_a_worker_that_terminates_is_left_alone():
    async def scenario(node):
        deleting = pod(deletion=1)
        node.pods.put(deleting)
        node.block = True
        node.ask(UpdateType.CREATE, pod())
        await node.settle()
        node.ask(UpdateType.UPDATE, deleting)
        await node.settle()
        node.running = (RUNNING,)
        assert await node.housekeep() == []

    simulate(scenario)


def waiting(node):
    """A static pod that waits for the name which another one holds."""
    node.pods.put(pod("first", static=True))
    node.ask(UpdateType.CREATE, pod("first", static=True))
    node.ask(UpdateType.CREATE, pod(static=True))


@pytest.mark.parametrize(
    ("running", "configured", "calls", "kept"),
    [
        pytest.param((RUNNING,), False, ["runtime-kill"], False, id="POD-1309-waiting-with-containers"),
        pytest.param((), False, [], False, id="POD-1309-waiting"),
        pytest.param((), True, [], True, id="POD-1309-waiting-and-configured"),
    ],
)
def test_static_pods_that_wait(running, configured, calls, kept):
    async def scenario(node):
        waiting(node)
        await node.settle()
        if configured:
            node.pods.put(pod(static=True))
        node.running = running
        assert await node.housekeep() == calls
        record = node.workers.record("u")
        assert (record is not None) is kept
        if kept:
            assert record.pending is not None

    simulate(scenario)


def test_POD_1309_a_reused_uid_waits_for_the_kill():
    async def scenario(node):
        node.kill_error = SyncError("busy")
        node.ask(UpdateType.CREATE, pod(static=True))
        await node.settle()
        node.ask(UpdateType.KILL, pod(static=True))
        await node.settle()
        changed = pod(static=True, grace=9)
        node.pods.put(changed)
        node.ask(UpdateType.CREATE, changed)
        node.running = (RUNNING,)
        assert await node.housekeep() == []
        assert node.workers.record("u").restart_requested

    simulate(scenario)


def test_POD_1309_a_reused_uid_starts_again_in_the_same_pass():
    async def scenario(node):
        node.ask(UpdateType.CREATE, pod(static=True))
        await node.settle()
        node.ask(UpdateType.KILL, pod(static=True))
        changed = pod(static=True, grace=9)
        node.pods.put(changed)
        node.ask(UpdateType.CREATE, changed)
        await node.settle()
        assert node.workers.record("u").finished
        assert await node.housekeep() == ["create"]
        assert node.workers.record("u").active.pod == changed

    simulate(scenario)


def test_POD_1309_a_started_pod_that_is_configured_no_more():
    async def scenario(node):
        node.ask(UpdateType.CREATE, pod())
        await node.settle()
        assert await node.housekeep() == ["kill()", "terminated"]

    simulate(scenario)


def test_POD_409_a_rejected_pod_that_is_deleted():
    async def scenario(node):
        node.pods.put(pod(phase="Failed", deletion=1))
        assert await node.housekeep() == ["terminated"]

    simulate(scenario)


def test_a_runtime_that_cannot_be_listed_ends_the_pass():
    async def scenario(node):
        node.list_error = PeerError("down")
        assert not await node.housekeeper.run_pass()
        assert node.done == []
        assert node.workers.synced

    simulate(scenario)


def test_POD_1001_order_and_POD_804_mirrors():
    async def scenario(node):
        node.pods.put(pod("m", name="gone", mirror=True))
        node.pods.put(pod())
        node.running = (RunningPod("r", "r", "ns"),)
        await node.housekeep()
        assert node.done == [
            ("probes", ()),
            ("statuses", ("u", "m")),
            ("dirs", ("u", "r")),
            ("mirror", "gone_ns"),
            ("backoff",),
        ]

    simulate(scenario)


def never(uid):
    return False


def test_a_mirror_stays_while_its_static_pod_terminates_POD_804():
    plan = plan_cleanup(
        CleanupInput(
            pods=(),
            mirrors=(),
            orphaned_mirror_names=("a_ns",),
            known={},
            running=(),
            known_terminated=never,
            termination_requested=never,
            status_phase=lambda uid: None,
            mirror_terminating=lambda name: name == "a_ns",
            mirror_of=lambda pod: None,
        )
    )
    assert plan.effects == (
        CleanUpProbes(()),
        RemoveOrphanedStatuses(()),
        CleanUpPodDirs(()),
        CleanUpBackoff(),
    )


@pytest.mark.parametrize(
    ("given", "status_phase", "terminated", "requested", "active"),
    [
        (pod(phase="Failed"), None, False, False, False),
        (pod(phase="Succeeded"), None, False, False, False),
        (pod(phase="Running", deletion=1), None, False, False, True),
        (pod(phase="Pending"), None, False, False, True),
        (pod(phase="Running"), None, False, False, True),
        (pod(phase="Running"), "Failed", False, False, False),
        (pod(phase="Running"), None, True, True, False),
        (pod(phase="Failed"), None, False, True, True),
    ],
    ids=[f"POD-1322-{number}" for number in range(8)],
)
def test_active_pods(given, status_phase, terminated, requested, active):
    found = active_pods(
        [given],
        known_terminated=lambda uid: terminated,
        termination_requested=lambda uid: requested,
        status_phase=lambda uid: status_phase,
    )
    assert found == ((given,) if active else ())


def test_a_pod_that_is_a_mirror_gets_no_worker():
    plan = plan_cleanup(
        CleanupInput(
            pods=(pod(mirror=True), evolve(pod(), metadata=ObjectMeta(name="b", namespace="ns", uid="b"))),
            mirrors=(),
            orphaned_mirror_names=(),
            known={},
            running=(),
            known_terminated=never,
            termination_requested=never,
            status_phase=lambda uid: None,
            mirror_terminating=never,
            mirror_of=lambda pod: None,
        )
    )
    updates = [effect.options.pod.metadata.uid for effect in plan.effects if hasattr(effect, "options")]
    assert updates == ["b"]
