"""The collection pass against a scripted runtime (POD-1005 to POD-1009, LOG-07, CRI-071)."""

import pytest

from kubelet_emu.errors import PeerError
from trio_grpc import Code, StatusError


class Pods:
    """Which pods are gone for good."""

    def __init__(self, *gone):
        self.gone = gone

    def is_termination_requested(self, uid):
        return False

    def should_content_be_removed(self, uid):
        return uid in self.gone


async def ended(bench, a_pod):
    """A pod with two dead instances in a dead sandbox."""
    pod = a_pod("a")
    await bench.sync(pod)
    bench.cri.exit("a", 1)
    await bench.sync(pod)
    bench.cri.exit("a", 1)
    (sandbox,) = bench.cri.sandboxes.values()
    sandbox.state = 1
    await bench.clock.sleep(1)
    bench.take_calls()
    bench.cri.reads.clear()


def test_pod_1005_a_living_pod_keeps_one_dead_instance(on_bench, a_pod):
    async def body(bench):
        await ended(bench, a_pod)
        await bench.runtime.garbage_collect(all_sources_ready=True)
        assert bench.take_calls() == ["RemoveContainer a#0"]
        assert bench.cri.reads == [
            "ListContainers",
            "ContainerStatus a#0",
            "ContainerStatus a#0",
            "ListContainers",
            "ListPodSandbox",
        ]
        assert bench.files.list("/var/log/pods/n_p_u/a") == ["1.log"]

    on_bench(body)


def test_pod_1006_a_gone_pod_loses_everything(on_bench, a_pod):
    async def body(bench):
        await ended(bench, a_pod)
        await bench.runtime.garbage_collect(all_sources_ready=True)
        assert bench.take_calls() == [
            "RemoveContainer a#0",
            "RemoveContainer a#1",
            "StopPodSandbox #0",
            "RemovePodSandbox #0",
        ]
        assert bench.files.list("/var/log/pods") == []
        assert bench.files.list("/var/log/containers") == []

    on_bench(body, pods=Pods("u"))


def test_pod_1005_nothing_of_a_gone_pod_goes_while_sources_are_not_ready(on_bench, a_pod):
    async def body(bench):
        await ended(bench, a_pod)
        await bench.runtime.garbage_collect(all_sources_ready=False)
        assert bench.take_calls() == ["RemoveContainer a#0"]
        assert bench.files.exists("/var/log/pods/n_p_u")

    on_bench(body, pods=Pods("u"))


def test_cri_071_a_sandbox_that_cannot_be_stopped_is_not_removed(on_bench, a_pod):
    async def body(bench):
        await ended(bench, a_pod)
        bench.cri.fail = {"StopPodSandbox": StatusError(Code.NOT_FOUND, "gone")}
        await bench.runtime.garbage_collect(all_sources_ready=True)
        assert bench.take_calls()[-1] == "StopPodSandbox #0"
        assert bench.recorder.facts[-1][0] == "removal-failed"

    on_bench(body, pods=Pods("u"))


def test_pod_1005_an_unknown_instance_is_killed_from_its_own_notes(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("a", termination_grace_period_seconds=7)
        await bench.sync(pod)
        bench.cri.by_name("a").state = 3
        await bench.clock.sleep(1)
        bench.take_calls()
        await bench.runtime.garbage_collect(all_sources_ready=True)
        assert bench.take_calls()[:2] == ["StopContainer a#0 7", "RemoveContainer a#0"]
        assert bench.events.seen[-1] == (
            "Normal",
            "Killing",
            "Container is in unknown state, try killing it before removal",
            "spec.containers{a}",
        )

    on_bench(body, pods=Pods("u"))


def test_log_07_links_stay_after_a_restart_in_place_until_their_target_is_gone(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("a")
        await bench.sync(pod)
        bench.cri.exit("a", 1)
        await bench.sync(pod, restart_all=True)
        assert len(bench.files.list("/var/log/containers")) == 1
        await bench.runtime.garbage_collect(all_sources_ready=True)
        assert len(bench.files.list("/var/log/containers")) == 1
        bench.files.remove("/var/log/pods/n_p_u/a/0.log")
        await bench.runtime.garbage_collect(all_sources_ready=True)
        assert bench.files.list("/var/log/containers") == []

    on_bench(body)


def test_pod_1009_a_link_of_a_living_container_stays(on_bench, a_pod):
    async def body(bench):
        await bench.sync(a_pod("a"))
        bench.files.remove("/var/log/pods/n_p_u/a/0.log")
        await bench.runtime.garbage_collect(all_sources_ready=True)
        assert len(bench.files.list("/var/log/containers")) == 1

    on_bench(body)


def test_a_runtime_that_cannot_be_listed_fails_the_pass(on_bench):
    async def body(bench):
        bench.cri.fail = {"ListContainers": StatusError(Code.UNAVAILABLE, "down")}
        with pytest.raises(PeerError, match="Unavailable"):
            await bench.runtime.garbage_collect(all_sources_ready=True)

    on_bench(body)


def test_pod_1007_a_gone_pods_dead_containers_all_go(on_bench, a_pod):
    async def body(bench):
        await ended(bench, a_pod)
        status = await bench.status(a_pod("a"))
        died = status.latest("a").id
        assert len(bench.runtime.dead_containers(status, died, content_removable=True)) == 2
        assert len(bench.runtime.dead_containers(status, died, content_removable=False)) == 1

    on_bench(body)
