"""Stopping containers: order, hooks, grace, floors (POD-1311, RST-100 to RST-105, HOK-11 to HOK-16)."""

import pytest

from kubelet_emu.api.types import Container, ExecAction, Lifecycle, LifecycleHandler, Probe, SleepAction
from kubelet_emu.errors import PeerError
from kubelet_emu.seams import ProbeKind, ProbeOutcome
from trio_grpc import Code, StatusError


def sidecar(name, **more):
    return Container(name=name, restart_policy="Always", **more)


def pre_stop(**handler):
    return Lifecycle(pre_stop=LifecycleHandler(**handler))


async def all_running(bench, pod):
    for _ in range(4):
        await bench.sync(pod)
    bench.take_calls()
    (running,) = await bench.runtime.get_pods(include_exited=False)
    return running


ORDERS = [
    pytest.param(1.25, 30, {"main": 0, "sc3": 1, "sc2": 2, "sc1": 3}, id="POD-1311-grace-30"),
    pytest.param(1.0, 2, {"main": 0, "sc3": 1, "sc2": 2, "sc1": 2}, id="POD-1311-grace-2"),
]


@pytest.mark.parametrize(("seconds", "grace", "waits"), ORDERS)
def test_sidecars_stop_last_to_first(on_bench, a_pod, seconds, grace, waits):
    async def body(bench):
        pod = a_pod(
            "main",
            init=[sidecar("sc1"), sidecar("sc2"), sidecar("sc3")],
            termination_grace_period_seconds=grace,
        )
        running = await all_running(bench, pod)
        bench.cri.stop_seconds = dict.fromkeys(waits, seconds)
        await bench.runtime.kill_pod(pod, running, grace_override_seconds=None)
        stops = [call.split()[1:] for call in bench.take_calls() if call.startswith("StopContainer")]
        assert {name.split("#")[0]: int(left) for name, left in stops} == {
            name: max(grace - wait, 2) for name, wait in waits.items()
        }

    on_bench(body)


def test_pod_718_hooks_of_all_containers_start_at_once(on_bench, a_pod):
    async def body(bench):
        bye = pre_stop(exec=ExecAction(command=("bye",)))
        pod = a_pod(Container(name="main", lifecycle=bye), init=[sidecar("side", lifecycle=bye)])
        running = await all_running(bench, pod)
        bench.cri.execs["bye"] = 1.5
        bench.cri.stop_seconds = {"main": 4}
        await bench.runtime.kill_pod(pod, running, grace_override_seconds=None)
        calls = bench.take_calls()
        assert sorted(calls[:2]) == ["ExecSync main#0 bye", "ExecSync side#0 bye"]
        # the hook took one whole second, the wait for main four
        assert calls[2:] == ["StopContainer main#0 29", "StopContainer side#0 25", "StopPodSandbox #0"]
        assert bench.clock.elapsed_seconds() == pytest.approx(5.5, abs=0.01)

    on_bench(body)


def test_hok_12_a_hook_that_overruns_is_left_running(on_bench, a_pod):
    async def body(bench):
        slow = pre_stop(exec=ExecAction(command=("slow",)))
        pod = a_pod(Container(name="main", lifecycle=slow), termination_grace_period_seconds=5)
        running = await all_running(bench, pod)
        bench.cri.execs["slow"] = 60
        await bench.runtime.kill_pod(pod, running, grace_override_seconds=None)
        assert bench.take_calls()[1] == "StopContainer main#0 2"
        assert bench.clock.elapsed_seconds() == pytest.approx(5, abs=0.01)

    on_bench(body)


def test_hok_13_a_failed_hook_is_told_and_the_kill_goes_on(on_bench, a_pod):
    async def body(bench):
        bad = pre_stop(exec=ExecAction(command=("bad",)))
        pod = a_pod(Container(name="main", lifecycle=bad), termination_grace_period_seconds=5)
        running = await all_running(bench, pod)
        bench.cri.execs["bad"] = StatusError(Code.UNKNOWN, "container is in CONTAINER_EXITED state")
        await bench.runtime.kill_pod(pod, running, grace_override_seconds=None)
        assert bench.take_calls()[1] == "StopContainer main#0 5"
        assert bench.events.texts()[-2:] == [
            "Killing: Stopping container main",
            "FailedPreStopHook: PreStopHook failed",
        ]

    on_bench(body)


@pytest.mark.parametrize("override", [pytest.param(v, id=f"RST-102-{v}") for v in (0, 1, 7)])
def test_the_floor_of_two_seconds_holds_after_overrides(on_bench, a_pod, override):
    async def body(bench):
        pod = a_pod(Container(name="main", lifecycle=pre_stop(sleep=SleepAction(seconds=1))))
        running = await all_running(bench, pod)
        await bench.runtime.kill_pod(pod, running, grace_override_seconds=override)
        # an override of 0 runs no hook, one second of hook is taken off the others
        assert bench.take_calls()[0] == f"StopContainer main#0 {max(override - 1, 2)}"
        assert bench.clock.elapsed_seconds() == pytest.approx(1 if override else 0, abs=0.01)

    on_bench(body)


def test_rst_061_a_probe_grace_counts_only_beside_a_running_container(on_bench, a_pod):
    probe = Probe(exec=ExecAction(command=("true",)), termination_grace_period_seconds=9)

    async def body(bench):
        shape = {"restart_policy": "Never", "termination_grace_period_seconds": 4}
        pod = a_pod(Container(name="main", liveness_probe=probe), "other", **shape)
        await all_running(bench, pod)
        bench.probes.results[ProbeKind.LIVENESS, bench.cri.by_name("main").id] = ProbeOutcome.FAILURE
        await bench.sync(pod)
        assert bench.take_calls() == ["StopContainer main#0 9"]
        assert bench.events.texts()[-1] == "Killing: Container main failed liveness probe"

    on_bench(body)


def test_pod_703_a_pod_without_spec_is_killed_plainly(on_bench, a_pod):
    async def body(bench):
        pod = a_pod(Container(name="main", lifecycle=pre_stop(sleep=SleepAction(seconds=1))))
        running = await all_running(bench, pod)
        await bench.runtime.kill_pod(None, running, grace_override_seconds=1)
        assert bench.take_calls() == ["StopContainer main#0 2", "StopPodSandbox #0"]

    on_bench(body)


def test_pod_712_a_container_without_spec_is_refused(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("main")
        running = await all_running(bench, pod)
        with pytest.raises(PeerError, match="failed to get containerSpec"):
            await bench.runtime.kill_pod(a_pod("other"), running, grace_override_seconds=None)

    on_bench(body)


def test_rst_105_the_deadline_of_a_stop_is_request_timeout_plus_grace(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("main", termination_grace_period_seconds=10)
        running = await all_running(bench, pod)
        bench.cri.stop_seconds = {"main": 10_000}
        with pytest.raises(PeerError, match="DeadlineExceeded"):
            await bench.runtime.kill_pod(pod, running, grace_override_seconds=None)
        assert bench.clock.elapsed_seconds() == pytest.approx(130, abs=0.01)

    on_bench(body)
