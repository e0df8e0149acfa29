"""The order of a sync and its ends, with every neighbour scripted (POD-601, POD-701, POD-703, POD-704)."""

from types import SimpleNamespace

import attrs
import pytest

from kubelet_emu.api.codec import pod_from_json
from kubelet_emu.api.defaults import default_pod
from kubelet_emu.container.runtime import (
    ContainerState,
    RunningContainer,
    RunningPod,
    RuntimeContainer,
    RuntimePodStatus,
    RuntimeSandbox,
    SandboxState,
    SyncAction,
    SyncPodResult,
    SyncResult,
)
from kubelet_emu.errors import PeerError
from kubelet_emu.gates import Gates
from kubelet_emu.pod_update import UpdateType
from kubelet_emu.podsync import PodSync, SyncSeams
from kubelet_emu.reason_cache import ReasonCache
from kubelet_emu.settings import KubeletSettings
from kubelet_emu.status.manager import StatusManager
from kubelet_emu.volumes.content import VolumeError
from kubelet_emu.volumes.manager import WaitInterrupted
from node_host.clock import NodeClock
from node_host.files import MemoryFiles
from node_host.loop import run

STARTED = SyncPodResult((SyncResult(SyncAction.START_CONTAINER, "a"),))


def make_pod(*, rules=False, **spec):
    container = {"name": "a", "image": "busybox:1"}
    if rules:
        exit_codes = {"operator": "In", "values": [42]}
        container |= {
            "restartPolicy": "Never",
            "restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": exit_codes}],
        }
    obj = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"containers": [container], **spec},
    }
    return default_pod(pod_from_json(obj))


def observed(*containers, sandbox=True):
    """What the runtime shows: ``(state, exit code)`` of instances of container a, newest first."""
    sandboxes = (RuntimeSandbox(id="sb", state=SandboxState.READY, ip="10.0.0.1"),)
    return RuntimePodStatus(
        uid="u",
        name="p",
        namespace="ns",
        ips=("10.0.0.1",) if sandbox else (),
        sandboxes=sandboxes if sandbox else (),
        containers=tuple(
            RuntimeContainer(id=f"c{number}", name="a", state=state, exit_code=code, sandbox_id="sb")
            for number, (state, code) in enumerate(containers)
        ),
    )


class Bench:
    """Notes what a sync asks for, in order; answers can be set."""

    def __init__(self):
        self.log = []
        self.events = []
        self.result = STARTED
        self.network = ""
        self.volume_error = None
        self.kill_error = None
        self.after_kill = observed((ContainerState.EXITED, 0))
        self.clock = NodeClock()
        self.files = MemoryFiles()
        self.status = StatusManager(
            clock=self.clock,
            api=None,
            pods=SimpleNamespace(
                pod_by_uid=lambda uid: None, mirror_pod_of=lambda pod: None, translate_uid=str
            ),
            could_have_running_containers=lambda uid: True,
            recorder=self,
            gates=Gates(),
        )
        self.reasons = ReasonCache()
        self.sync = PodSync(
            settings=KubeletSettings(),
            files=self.files,
            status=self.status,
            volumes=self,
            prober=self,
            allocation=self,
            fill_probes=lambda pod, status: status,
            runtime=self,
            reasons=self.reasons,
            events=self,
            recorder=self,
            has_api=True,
            seams=SyncSeams(
                network_error=lambda: self.network,
                deadline_exceeded=lambda pod: False,
                sync_cancelled=lambda uid: False,
                request_update=lambda options: self.log.append(f"update {options.type}"),
                request_relist=lambda uid, name, namespace: self.log.append("relist"),
                reconcile_mirror=None,
                resize_conditions=lambda pod: (),
                device_health=lambda pod: {},
                take_pull_secrets=self._note("pull secrets"),
                unprepare_resources=self._note("unprepare"),
            ),
        )

    def _note(self, text):
        async def note(*_):
            self.log.append(text)

        return note

    def phase(self):
        status = self.status.get_pod_status("u")
        return status.phase if status is not None else None

    # recorder, events
    def decision(self, *_, **__):
        pass

    def fact(self, *_, **__):
        pass

    def event(self, pod, event_type, reason, message, *, field_path=""):
        self.events.append((event_type, reason, message))

    # allocation
    def allocated(self, pod):
        return pod

    def note_progress(self, pod, status):
        self.log.append("progress")

    def note_result(self, pod, result):
        return any(r.action is SyncAction.RESIZE_POD_IN_PLACE and not r.error for r in result.results)

    def retry(self):
        self.log.append("retry resizes")

    # volumes
    async def wait_for_mount(self, pod, *, interrupted):
        self.log.append(f"volumes, phase {self.phase()}")
        if self.volume_error is not None:
            raise self.volume_error

    async def wait_for_unmount(self, pod):
        self.log.append("unmount")

    # prober
    def add_pod(self, pod):
        self.log.append("add probes")

    def stop_liveness_and_startup(self, pod):
        self.log.append("stop liveness")

    def remove_pod(self, pod):
        self.log.append("remove probes")

    # runtime
    async def sync_pod(self, pod, status, *, restart_all_containers):
        self.log.append(f"runtime sync, restart all {restart_all_containers}")
        return self.result

    async def kill_pod(self, pod, running, *, grace_override_seconds):
        self.log.append(f"kill {[c.name for c in running.containers]} grace {grace_override_seconds}")
        if self.kill_error is not None:
            raise self.kill_error

    async def get_pod_status(self, uid, name, namespace):
        self.log.append("read")
        return self.after_kill


def on_bench(story):
    async def main():
        return await story(Bench())

    return run(main, seed=0)


def synced(bench, pod=None, status=None):
    return bench.sync.sync_pod(UpdateType.SYNC, pod or make_pod(), None, status or observed())


def test_pod_601_the_steps_of_a_sync_in_order():
    async def story(bench):
        outcome = await synced(bench)
        return outcome, bench.log, bench.files.exists("/var/lib/kubelet/pods/u/plugins")

    outcome, log, made = on_bench(story)
    assert outcome.error is None
    assert not outcome.is_terminal
    assert log == [
        "progress",
        "volumes, phase Pending",  # POD-602: the status is stored before anything is done
        "pull secrets",
        "add probes",
        "runtime sync, restart all False",
        "relist",
    ]
    assert made


def test_pod_601_3_a_pod_that_has_ended_does_nothing_more():
    async def story(bench):
        outcome = await synced(bench, make_pod(restartPolicy="Never"), observed((ContainerState.EXITED, 3)))
        return outcome.is_terminal, bench.phase(), bench.log

    assert on_bench(story) == (True, "Failed", ["progress"])


def test_pod_601_5_without_a_network():
    async def story(bench):
        bench.network = "cni is not there"
        refused = await synced(bench)
        own = bench.log[:]
        host = await synced(bench, make_pod(hostNetwork=True))
        return str(refused.error), own, bench.events, host.error

    error, log, events, host = on_bench(story)
    assert error == "network is not ready: cni is not there"
    assert log == ["progress"]
    assert events == [("Warning", "NetworkNotReady", error)]
    assert host is None


def test_pod_601_9_a_disk_that_takes_no_folder():
    async def story(bench):
        bench.files.make_dirs("/var/lib/kubelet")
        bench.files.write("/var/lib/kubelet/pods", b"a file in the way")
        outcome = await synced(bench)
        return str(outcome.error), bench.events

    error, events = on_bench(story)
    assert error.startswith("error making pod data directories: ")
    assert events == [("Warning", "Failed", error)]


@pytest.mark.parametrize("interrupted", [True, False])
def test_vol_06_an_interrupted_wait_is_not_told(interrupted):
    async def story(bench):
        kind = WaitInterrupted if interrupted else VolumeError
        bench.volume_error = kind("unmounted volumes=[v]")
        outcome = await synced(bench)
        return str(outcome.error), bench.events, "add probes" in bench.log

    text = "unmounted volumes=[v]"
    told = [] if interrupted else [("Warning", "FailedMount", f"Unable to attach or mount volumes: {text}")]
    assert on_bench(story) == (text, told, False)


def test_pod_610_start_failures_go_into_the_reason_cache_and_back_as_the_error():
    async def story(bench):
        failed = SyncResult(
            SyncAction.START_CONTAINER, "a", error="CrashLoopBackOff", message="m", backoff_until_seconds=7.0
        )
        bench.result = SyncPodResult((failed,))
        outcome = await synced(bench)
        return outcome.error, bench.reasons.get("u", "a"), bench.log[-1]

    error, reason, last = on_bench(story)
    assert error.text == 'failed to "StartContainer" for "a" with CrashLoopBackOff: "m"'
    assert error.backoff_until_seconds == 7.0
    assert reason == ("CrashLoopBackOff", "m")
    assert last.startswith("runtime sync")


def test_a_sync_that_did_nothing_asks_for_no_relist():
    async def story(bench):
        bench.result = SyncPodResult(())
        await synced(bench)
        return bench.log[-1]

    assert on_bench(story).startswith("runtime sync")


def test_rst_133_ka_sp5_a_reset_that_removed_something_queues_one_more_sync():
    async def story(bench):
        pod = make_pod(rules=True, restartPolicy="Never")
        trigger = observed((ContainerState.EXITED, 42))
        bench.result = SyncPodResult((SyncResult(SyncAction.REMOVE_CONTAINER, "a"),))
        await synced(bench, pod, trigger)
        first = bench.log[:]
        bench.log.clear()
        bench.result = SyncPodResult(())
        await synced(bench, pod, trigger)
        return first, bench.log

    first, second = on_bench(story)
    assert "runtime sync, restart all True" in first
    assert "update update" in first
    assert "update update" not in second


def test_rst_133_an_error_among_the_removals_queues_nothing():
    async def story(bench):
        bench.result = SyncPodResult(
            (
                SyncResult(SyncAction.REMOVE_CONTAINER, "a"),
                SyncResult(SyncAction.REMOVE_CONTAINER, "b", error="RemoveContainerError", message="m"),
            )
        )
        pod = make_pod(rules=True, restartPolicy="Never")
        outcome = await synced(bench, pod, observed((ContainerState.EXITED, 42)))
        return outcome.error is not None, "update update" in bench.log

    assert on_bench(story) == (True, False)


def test_a_resize_that_was_carried_out_is_looked_at_again():
    async def story(bench):
        bench.result = SyncPodResult((SyncResult(SyncAction.RESIZE_POD_IN_PLACE, "u"),))
        await synced(bench, status=observed((ContainerState.RUNNING, 0)))
        return bench.log[-2:]

    assert on_bench(story) == ["update update", "relist"]


def terminating(bench, pod=None, override=None, grace=None):
    running = observed((ContainerState.RUNNING, 0))
    return bench.sync.sync_terminating_pod(pod or make_pod(), running, grace, override)


def test_pod_701_the_steps_of_termination_in_order():
    async def story(bench):
        error = await terminating(bench, grace=9)
        return error, bench.log, bench.phase()

    error, log, phase = on_bench(story)
    assert error is None
    assert log == ["stop liveness", "kill ['a'] grace 9", "remove probes", "read", "unprepare"]
    assert phase == "Succeeded"


def test_pod_701_1_the_override_holds_for_the_first_status_only():
    async def story(bench):
        def override(status):
            return attrs.evolve(status, phase="Failed", reason="Evicted")

        bench.kill_error = PeerError("busy")
        await terminating(bench, override=override)
        first = bench.status.get_pod_status("u")
        bench.kill_error = None
        await terminating(bench)
        return first.phase, first.reason, bench.phase()

    first, reason, last = on_bench(story)
    assert (first, reason) == ("Failed", "Evicted")
    assert last == "Succeeded"  # POD-1104: judged anew by the exit codes


def test_pod_701_3_a_kill_that_fails_is_told_and_tried_again():
    async def story(bench):
        bench.kill_error = PeerError("busy")
        error = await terminating(bench)
        return str(error), bench.events, bench.log[-1]

    error, events, last = on_bench(story)
    assert error == "error killing terminating pod: busy"
    assert events == [("Warning", "FailedKillPod", "error killing pod: busy")]
    assert last.startswith("kill")


def test_pod_701_6_a_container_that_still_runs_after_the_kill():
    async def story(bench):
        bench.after_kill = observed((ContainerState.RUNNING, 0))
        return str(await terminating(bench))

    assert on_bench(story) == ("detected running containers after a successful KillPod, CRI violation: [c0]")


def test_pod_701_5_the_addresses_from_before_the_stop_are_kept():
    async def story(bench):
        bench.after_kill = observed((ContainerState.EXITED, 0), sandbox=False)
        await terminating(bench)
        return bench.status.get_pod_status("u").pod_ip

    assert on_bench(story) == "10.0.0.1"


def orphan():
    return RunningPod(
        uid="u",
        name="p",
        namespace="ns",
        containers=(RunningContainer(id="c", name="a", image="x", state=ContainerState.RUNNING),),
        sandboxes=(),
    )


def test_pod_703_an_orphan_is_killed_with_one_second_and_without_a_status():
    async def story(bench):
        error = await bench.sync.sync_terminating_runtime_pod(orphan())
        return error, bench.log, bench.phase()

    assert on_bench(story) == (None, ["kill ['a'] grace 1"], None)


def test_pod_703_a_failure_is_told():
    async def story(bench):
        bench.kill_error = PeerError("busy")
        error = await bench.sync.sync_terminating_runtime_pod(orphan())
        return str(error), bench.events

    error, events = on_bench(story)
    assert error == "error killing runtime pod: busy"
    assert events == [("Warning", "FailedKillPod", "error killing pod: busy")]


def test_pod_704_the_last_step_unmounts_and_makes_the_status_final():
    async def story(bench):
        error = await bench.sync.sync_terminated_pod(make_pod(), observed())
        return error, bench.log, bench.phase()

    assert on_bench(story) == (None, ["retry resizes", "unmount"], "Failed")
