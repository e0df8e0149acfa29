# pyright: basic
"""Syncs against a scripted runtime: KA-SP, KA-SY, call table RST-093, back-off, events (RST section 5)."""

import attrs
import pytest

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import (
    Container,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    EphemeralContainer,
    ExecAction,
    Lifecycle,
    LifecycleHandler,
    PodDNSConfig,
    ResourceRequirements,
    SleepAction,
)
from kubelet_emu.container.runtime import SyncAction
from kubelet_emu.errors import PeerError
from kubelet_emu.seams import ProbeKind, ProbeOutcome
from kubelet_emu.settings import KubeletSettings
from trio_grpc import Code, StatusError

RULE = ContainerRestartRule(
    action="RestartAllContainers", exit_codes=ContainerRestartRuleOnExitCodes(operator="In", values=(42,))
)


def source(name="foo2"):
    return Container(name=name, restart_policy="Always", restart_policy_rules=(RULE,))


def hook(**more):
    return LifecycleHandler(**more)


def test_ka_sp1_to_sp4_a_restart_in_place(on_bench, a_pod):
    async def body(bench):
        bench.cri.write_logs = False
        pod = a_pod("foo1", source(), init=["init1"])
        await bench.sync(pod)
        assert bench.cri.states() == ["init1#0 running"]
        bench.cri.exit("init1", 0)
        await bench.sync(pod)
        assert bench.cri.states() == ["init1#0 exited", "foo1#0 running", "foo2#0 running"]
        bench.cri.exit("foo2", 42)
        sandboxes = list(bench.cri.sandboxes)
        bench.take_calls()
        result = await bench.sync(pod, restart_all=True)
        assert bench.take_calls() == [
            "StopContainer foo1#0 2",
            "RemoveContainer foo1#0",
            "RemoveContainer init1#0",
            "RemoveContainer foo2#0",
        ]
        assert bench.cri.states() == []
        assert list(bench.cri.sandboxes) == sandboxes
        removed = [r.target for r in result.results if r.action is SyncAction.REMOVE_CONTAINER]
        assert (removed, result.error) == (["foo1", "init1", "foo2"], "")
        again = await bench.sync(pod)
        assert bench.cri.states() == ["init1#0 running"]
        # KA-SP5: without a removal nothing asks for another pass
        assert all(r.action is not SyncAction.REMOVE_CONTAINER for r in again.results)

    on_bench(body)


def test_rst_185_with_logs_the_count_goes_on_after_a_restart_in_place(on_bench, a_pod):
    async def body(bench):
        pod = a_pod(source())
        await bench.sync(pod)
        bench.cri.exit("foo2", 42)
        await bench.sync(pod, restart_all=True)
        await bench.sync(pod)
        assert bench.cri.states() == ["foo2#1 running"]
        assert bench.files.exists("/var/log/pods/n_p_u/foo2/0.log")
        assert len(bench.files.list("/var/log/containers")) == 2

    on_bench(body)


def test_ka_sy1_a_stopped_sandbox_is_made_anew(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("foo1", "foo2", init=["init1"])
        await bench.sync(pod)
        bench.cri.exit("init1", 0)
        await bench.sync(pod)
        (sandbox,) = bench.cri.sandboxes.values()
        sandbox.state = 1
        bench.take_calls()
        bench.cri.reads.clear()
        await bench.sync(pod)
        calls = bench.take_calls()
        assert sorted(calls[:2]) == ["StopContainer foo1#0 30", "StopContainer foo2#0 30"]
        assert calls[2:] == [
            "StopPodSandbox #0",
            "RemoveContainer init1#0",
            "RunPodSandbox p#1",
            "CreateContainer init1#1",
            "StartContainer init1#1",
        ]
        assert bench.cri.states() == ["foo1#0 exited", "foo2#0 exited", "init1#1 running"]
        # two reads of the purged instance before it goes, and the read back of the new sandbox
        assert bench.cri.reads.count("ContainerStatus init1#0") == 3
        assert bench.events.texts()[-1] == "Started: Container started"
        assert (
            "SandboxChanged: Pod sandbox changed, it will be killed and re-created." in bench.events.texts()
        )

    on_bench(body)


def test_ka_sy2_prune_keeps_the_newest_ended_instance_of_each_init(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("main", init=["init1"])
        for code in (1, 1, 1):
            await bench.sync(pod)
            bench.cri.exit("init1", code)
            await bench.clock.sleep(1000)
        assert bench.cri.states() == ["init1#1 exited", "init1#2 exited"]
        await bench.sync(pod)
        assert bench.cri.states() == ["init1#2 exited", "init1#3 running"]

    on_bench(body)


def test_ka_sy3_a_killed_pod_keeps_its_dead_containers_and_its_sandbox(on_bench, a_pod):
    async def body(bench):
        pod = a_pod(
            "foo1", "foo2", ephemeral_containers=(EphemeralContainer(name="e", image="busybox:1.36"),)
        )
        await bench.sync(pod)
        await bench.sync(pod)
        (running,) = await bench.runtime.get_pods(include_exited=False)
        await bench.runtime.kill_pod(pod, running, grace_override_seconds=None)
        assert bench.cri.states() == ["foo1#0 exited", "foo2#0 exited", "e#0 exited"]
        assert [s.state for s in bench.cri.sandboxes.values()] == [1]

    on_bench(body)


def test_ka_sy4_not_found_is_stopped(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("foo1")
        await bench.sync(pod)
        (running,) = await bench.runtime.get_pods(include_exited=False)
        bench.cri.fail = {
            "StopContainer": StatusError(Code.NOT_FOUND, "gone"),
            "StopPodSandbox": StatusError(Code.NOT_FOUND, "gone"),
        }
        await bench.runtime.kill_pod(pod, running, grace_override_seconds=None)

    on_bench(body)


def test_pod_711_other_kill_failures_are_told_and_the_sandbox_is_stopped_all_the_same(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("foo1")
        await bench.sync(pod)
        (running,) = await bench.runtime.get_pods(include_exited=False)
        bench.cri.fail = {"StopContainer": StatusError(Code.UNKNOWN, "boom")}
        with pytest.raises(PeerError) as error:
            await bench.runtime.kill_pod(pod, running, grace_override_seconds=None)
        assert str(error.value) == (
            'failed to "KillContainer" for "foo1" with KillContainerError: '
            '"rpc error: code = Unknown desc = boom"'
        )
        assert bench.take_calls()[-1] == "StopPodSandbox #0"

    on_bench(body)


def test_ka_sy5_a_container_that_vanishes_while_being_read_is_left_out(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("foo1")
        await bench.sync(pod)
        bench.cri.fail = {"ContainerStatus": StatusError(Code.NOT_FOUND, "gone")}
        assert (await bench.status(pod)).containers == ()
        bench.cri.fail = {"ContainerStatus": StatusError(Code.UNAVAILABLE, "down")}
        with pytest.raises(PeerError):
            await bench.status(pod)

    on_bench(body)


class Terminating:
    def __init__(self, yes):
        self.yes = yes

    def is_termination_requested(self, uid):
        return self.yes

    def should_content_be_removed(self, uid):
        return False


@pytest.mark.parametrize("terminating", [pytest.param(True, id="KA-SY6"), pytest.param(False, id="RST-085")])
def test_a_sandbox_that_cannot_be_made(on_bench, a_pod, terminating):
    async def body(bench):
        bench.cri.fail = {"RunPodSandbox": StatusError(Code.UNKNOWN, "no network")}
        result = await bench.sync(a_pod("foo1"))
        if terminating:
            assert (result.error, bench.events.seen) == ("", [])
            return
        text = 'Failed to create sandbox for pod "p_n(u)": rpc error: code = Unknown desc = no network'
        assert (
            result.error == f'failed to "CreatePodSandbox" for "p_n(u)" with CreatePodSandboxError: "{text}"'
        )
        assert bench.events.texts() == [
            "FailedCreatePodSandBox: Failed to create pod sandbox: "
            "rpc error: code = Unknown desc = no network"
        ]

    on_bench(body, pods=Terminating(terminating))


def test_ka_sy7_a_failing_sandbox_ready_callback_does_not_matter(on_bench, a_pod):
    async def ready(pod):
        raise PeerError("no")

    async def body(bench):
        result = await bench.sync(a_pod("foo1"))
        assert result.error == ""
        assert bench.cri.states() == ["foo1#0 running"]

    on_bench(body, on_sandbox_ready=ready)


def test_ka_sy8_claims_that_cannot_be_prepared_end_the_sync(on_bench, a_pod):
    told = []

    class Claims:
        async def prepare(self, pod):
            raise PeerError("no driver")

    async def ready(pod):
        told.append(pod)

    async def body(bench):
        result = await bench.sync(a_pod("foo1"))
        assert (result.error, told, bench.cri.calls) == ("", [], [])
        assert bench.events.texts() == [
            "FailedPrepareDynamicResources: Failed to prepare dynamic resources: no driver"
        ]

    on_bench(body, dynamic=Claims(), on_sandbox_ready=ready)


def test_rst_093_first_start_without_init(on_bench, a_pod):
    async def body(bench):
        await bench.sync(a_pod("a", "b"))
        assert bench.take_calls() == [
            "RunPodSandbox p#0",
            "CreateContainer a#0",
            "StartContainer a#0",
            "CreateContainer b#0",
            "StartContainer b#0",
        ]
        # policy IfNotPresent: presence, then the image's user
        assert bench.cri.reads == [
            "ListPodSandbox",
            "ListContainers",
            "PodSandboxStatus",
            *["ImageStatus busybox:1.36"] * 4,
        ]
        start = [
            'Pulled: Container image "busybox:1.36" already present on machine '
            "and can be accessed by the pod",
            "Created: Container created",
            "Started: Container started",
        ]
        assert bench.events.texts() == start * 2
        assert bench.events.seen[0][3] == "spec.containers{a}"

    on_bench(body)


def test_rst_093_policy_always_pulls_each_time(on_bench, a_pod):
    async def body(bench):
        await bench.sync(a_pod(Container(name="a", image="busybox")))
        assert bench.take_calls()[1:3] == ["PullImage busybox:latest", "CreateContainer a#0"]
        assert bench.cri.reads[-2:] == ["ImageStatus busybox:latest", "ImageStatus busybox"]
        assert bench.events.texts()[:2] == [
            'Pulling: Pulling image "busybox"',
            'Pulled: Successfully pulled image "busybox" in 1.5s (1.5s including waiting). '
            "Image size: 5 bytes.",
        ]

    on_bench(body)


def test_rst_093_liveness_restart_in_one_sync(on_bench, a_pod):
    async def body(bench):
        stop = hook(exec=ExecAction(command=("bye",)))
        pod = a_pod(Container(name="a", lifecycle=Lifecycle(pre_stop=stop)), "b")
        await bench.sync(pod)
        bench.take_calls()
        bench.probes.results[ProbeKind.LIVENESS, bench.cri.by_name("a").id] = ProbeOutcome.FAILURE
        await bench.sync(pod)
        assert bench.take_calls() == [
            "ExecSync a#0 bye",
            "StopContainer a#0 30",
            "CreateContainer a#1",
            "StartContainer a#1",
        ]
        assert "Killing: Container a failed liveness probe, will be restarted" in bench.events.texts()

    on_bench(body)


def test_rst_093_pod_end_leaves_removal_to_collection(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("main", init=[Container(name="side", restart_policy="Always")], restart_policy="Never")
        await bench.sync(pod)
        await bench.sync(pod)
        bench.cri.exit("main", 0)
        bench.take_calls()
        await bench.sync(pod)
        assert bench.take_calls() == ["StopContainer side#0 30", "StopPodSandbox #0"]
        assert bench.events.texts()[-1] == "Killing: Stopping container side"

    on_bench(body)


def test_rst_093_single_restart_and_removal_of_older_instances(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("a")
        await bench.sync(pod)
        bench.cri.exit("a", 1)
        bench.take_calls()
        await bench.sync(pod)
        assert bench.take_calls() == ["CreateContainer a#1", "StartContainer a#1"]
        bench.cri.exit("a", 1)
        status = await bench.status(pod)
        died = status.latest("a").id
        (older,) = bench.runtime.dead_containers(status, died, content_removable=False)
        bench.cri.reads.clear()
        await bench.runtime.delete_container(older)
        assert bench.cri.reads == ["ContainerStatus a#0"] * 2
        assert bench.take_calls() == ["RemoveContainer a#0"]
        assert not bench.files.exists("/var/log/pods/n_p_u/a/0.log")
        assert bench.files.exists("/var/log/pods/n_p_u/a/1.log")

    on_bench(body)


def test_rst_111_second_quick_crash_waits(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("a")
        await bench.sync(pod)
        bench.cri.exit("a", 1)
        assert (await bench.sync(pod)).error == ""
        bench.cri.exit("a", 1)
        result = await bench.sync(pod)
        (failed,) = result.failed
        assert failed.error == "CrashLoopBackOff"
        assert failed.message == "back-off 10s restarting failed container=a pod=p_n(u)"
        assert failed.backoff_until_seconds == pytest.approx(bench.clock.elapsed_seconds() + 10)
        expected = ("Warning", "BackOff", "Back-off restarting failed container a in pod p_n(u)")
        assert bench.events.seen[-1] == (*expected, "spec.containers{a}")
        await bench.clock.sleep(10)
        assert (await bench.sync(pod)).error == ""
        assert bench.cri.by_name("a").metadata.attempt == 2

    on_bench(body)


def test_rst_142_a_restart_in_place_knows_no_back_off(on_bench, a_pod):
    async def body(bench):
        pod = a_pod(source())
        for _ in range(4):
            assert (await bench.sync(pod)).error == ""
            bench.cri.exit("foo2", 42)
            await bench.sync(pod, restart_all=True)
        assert bench.runtime.backoff.entries == {}

    on_bench(body)


def test_rst_131_an_error_ends_the_reset_and_the_next_sync_goes_on(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("foo1", source())
        await bench.sync(pod)
        bench.cri.exit("foo2", 42)
        bench.cri.fail = {"RemoveContainer": StatusError(Code.UNKNOWN, "busy")}
        result = await bench.sync(pod, restart_all=True)
        assert [r.error for r in result.results] == ["", "RemoveContainerError"]
        bench.cri.fail = {}
        bench.take_calls()
        await bench.sync(pod, restart_all=True)
        assert bench.take_calls() == ["RemoveContainer foo1#0", "RemoveContainer foo2#0"]

    on_bench(body)


def test_rst_134_a_reset_runs_no_pre_stop(on_bench, a_pod):
    async def body(bench):
        stop = Lifecycle(pre_stop=hook(exec=ExecAction(command=("bye",))))
        pod = a_pod(Container(name="foo1", lifecycle=stop), source(), termination_grace_period_seconds=50)
        await bench.sync(pod)
        bench.cri.exit("foo2", 42)
        bench.take_calls()
        await bench.sync(pod, restart_all=True)
        assert bench.take_calls()[0] == "StopContainer foo1#0 2"
        assert bench.events.texts()[-1] == "Killing: killing"

    on_bench(body)


FAILURES = [
    pytest.param("CreateContainer", "CreateContainerError", ["Failed: Error: boom"], id="create"),
    pytest.param(
        "StartContainer",
        "RunContainerError",
        ["Created: Container created", "Failed: Error: boom"],
        id="start",
    ),
]


@pytest.mark.parametrize(("method", "reason", "events"), FAILURES)
def test_img_40_runtime_failures_of_a_start(on_bench, a_pod, method, reason, events):
    async def body(bench):
        bench.cri.fail = {method: StatusError(Code.INTERNAL, "boom")}
        result = await bench.sync(a_pod("a"))
        assert [(r.error, r.message) for r in result.failed] == [(reason, "boom")]
        assert bench.events.texts()[1:] == events

    on_bench(body)


def test_img_45_a_failing_init_ends_the_sync_a_failing_sidecar_does_not(on_bench, a_pod):
    async def body(bench):
        bad = Container(name="bad", image="absent", image_pull_policy="Never", restart_policy="Always")
        pod = a_pod("main", init=[bad, Container(name="two", restart_policy="Always")])
        result = await bench.sync(pod)
        assert [r.error for r in result.failed] == ["ErrImageNeverPull"]
        assert bench.events.texts()[-2:] == [
            'ErrImageNeverPull: Container image "absent" is not present with pull policy of Never',
            "Failed: Error: ErrImageNeverPull",
        ]

    on_bench(body)


def test_hok_02_a_failed_post_start_kills_with_grace_and_pre_stop(on_bench, a_pod):
    async def body(bench):
        life = Lifecycle(
            post_start=hook(exec=ExecAction(command=("ls", "-a"))),
            pre_stop=hook(sleep=SleepAction(seconds=3)),
        )
        bench.cri.execs["ls"] = (2, b"out")
        pod = a_pod(Container(name="a", lifecycle=life), "b", termination_grace_period_seconds=9)
        result = await bench.sync(pod)
        (failed,) = result.failed
        assert failed.error == "PostStartHookError"
        assert failed.message == (
            'Exec lifecycle hook ([ls -a]) for Container "a" in Pod "p_n(u)" failed - '
            "error: command 'ls -a' exited with 2: , message: \"out\""
        )
        assert bench.take_calls()[2:] == [
            "StartContainer a#0",
            "ExecSync a#0 ls -a",
            "StopContainer a#0 6",
            "CreateContainer b#0",
            "StartContainer b#0",
        ]
        assert bench.events.texts()[3:5] == [
            "FailedPostStartHook: PostStartHook failed",
            "Killing: FailedPostStartHook",
        ]

    on_bench(body)


def test_rst_065_resize_in_place(on_bench, a_pod):
    def sized(cpu):
        return Container(
            name="a",
            image="busybox:1.36",
            resources=ResourceRequirements(requests={"cpu": Quantity.parse(cpu)}),
        )

    async def body(bench):
        pod = a_pod(sized("1"))
        await bench.sync(pod)
        bench.take_calls()
        bigger = attrs.evolve(pod, spec=attrs.evolve(pod.spec, containers=a_pod(sized("2")).spec.containers))
        result = await bench.sync(bigger)
        assert bench.take_calls() == ["UpdatePodSandboxResources 2048", "UpdateContainerResources a#0 2048 0"]
        assert result.error == ""
        await bench.sync(bigger)
        assert bench.take_calls() == []

    on_bench(body)


def test_every_sync_records_its_decision(on_bench, a_pod):
    async def body(bench):
        await bench.sync(a_pod("a"))
        machine, pod, why, inputs, outcome = bench.recorder.decisions[0]
        assert (machine, pod) == ("kuberuntime.actions", "p")
        assert "RST-030(none)" in why
        assert inputs == {"containers": {}, "sandboxes": [], "restartAll": False}
        assert outcome == {"killPod": True, "createSandbox": True, "regular": [0]}

    on_bench(body)


def test_evt_10_a_missing_cluster_dns_is_told_at_each_sync(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("a")
        await bench.sync(pod)
        await bench.sync(pod)
        assert bench.events.reasons().count("MissingClusterDNS") == 2

    on_bench(body, settings=KubeletSettings(cluster_dns=()))


def test_evt_10_what_does_not_fit_into_resolv_conf_is_told(on_bench, a_pod):
    searches = tuple(f"s{number}.example" for number in range(33))
    given = PodDNSConfig(nameservers=("1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"), searches=searches)

    async def body(bench):
        await bench.sync(a_pod("a", dns_policy="None", dns_config=given))
        assert [text for text in bench.events.texts() if text.startswith("DNSConfigForming")] == [
            "DNSConfigForming: Search Line limits were exceeded, some search paths have been omitted, "
            f"the applied search line is: {' '.join(searches[:32])}",
            "DNSConfigForming: Nameserver limits were exceeded, some nameservers have been omitted, "
            "the applied nameserver line is: 1.1.1.1 2.2.2.2 3.3.3.3",
        ]
        request = next(r for m, r in bench.cri.requests if m == "RunPodSandbox")
        assert len(request.config.dns_config.servers) == 3
        assert len(request.config.dns_config.searches) == 32

    on_bench(body)


def test_evt_10_a_search_line_holds_2048_characters(on_bench, a_pod):
    searches = (*(str(number) * 200 for number in range(1, 10)), "x" * 300)
    given = PodDNSConfig(nameservers=("1.1.1.1",), searches=searches)

    async def body(bench):
        await bench.sync(a_pod("a", dns_policy="None", dns_config=given))
        request = next(r for m, r in bench.cri.requests if m == "RunPodSandbox")
        assert tuple(request.config.dns_config.searches) == searches[:9]
        assert bench.events.reasons().count("DNSConfigForming") == 1

    on_bench(body)


def test_a_quiet_sync_calls_nothing_and_still_asks_for_a_relist(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("a")
        await bench.sync(pod)
        bench.take_calls()
        status = await bench.status(pod)
        bench.cri.reads.clear()
        result = await bench.runtime.sync_pod(pod, status, restart_all_containers=False)
        assert (bench.take_calls(), bench.cri.reads) == ([], [])
        # POD-601: any result without an error leads to a relist
        assert [r.action for r in result.results] == [SyncAction.CONFIG_POD_SANDBOX]

    on_bench(body)
