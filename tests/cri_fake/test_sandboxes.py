"""Sandboxes over the wire: life, idempotence, addresses, names, refusals (CRI section 3)."""

import pytest
import trio

from cri_fake.observe import SandboxDied
from k8s_proto import runtime_v1_pb2 as cri


def test_life_of_a_sandbox_CRI_020_CRI_028_CRI_200(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        assert len(sandbox) == 64
        status = await rig.pod_status(sandbox)
        assert status.state == cri.SANDBOX_READY
        assert status.network.ip == "10.88.0.2"
        assert status.created_at > 0
        assert await rig.pods() == [sandbox]
        await rig.stop_pod(sandbox)
        status = await rig.pod_status(sandbox)
        assert status.state == cri.SANDBOX_NOTREADY
        assert status.HasField("network")
        assert status.network.ip == ""
        assert await rig.pods() == [sandbox]
        await rig.remove_pod(sandbox)
        assert await rig.pods() == []
        assert await rig.refused(rig.pod_status(sandbox)) == (
            "NOT_FOUND",
            "an error occurred when try to find sandbox: not found",
        )

    drive(body)


def test_everything_given_is_echoed_CRI_015_CRI_030(drive):
    async def body(rig):
        config = rig.pod_config(attempt=3)
        sandbox = await rig.run_pod(config=config)
        reply = await rig.cri.ListPodSandbox(cri.ListPodSandboxRequest())
        for seen in (await rig.pod_status(sandbox), reply.items[0]):
            assert seen.metadata == config.metadata
            assert dict(seen.labels) == dict(config.labels)
            assert dict(seen.annotations) == dict(config.annotations)
        status = await rig.pod_status(sandbox)
        assert status.linux.namespaces.options == config.linux.security_context.namespace_options

    drive(body)


def test_host_network_has_no_address_CRI_028_CRI_201(drive):
    async def body(rig):
        sandbox = await rig.run_pod(config=rig.host_network_config())
        status = await rig.pod_status(sandbox)
        assert (status.state, status.network.ip) == (cri.SANDBOX_READY, "")
        assert status.linux.namespaces.options.network == cri.NODE

    drive(body)


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        pytest.param(
            lambda r: r.config.ClearField("metadata"),
            "UNKNOWN",
            "sandbox config must include metadata",
            id="CRI-021-metadata",
        ),
        pytest.param(
            lambda r: setattr(r, "runtime_handler", "kata"),
            "UNKNOWN",
            'failed to get sandbox runtime: no runtime for "kata" is configured',
            id="CRI-021-handler",
        ),
        pytest.param(
            lambda r: setattr(
                r.config.linux.security_context.namespace_options.userns_options, "mode", cri.CONTAINER
            ),
            "UNKNOWN",
            "failed to generate user namespace options: unsupported user namespace mode: CONTAINER",
            id="CRI-153-mode",
        ),
        pytest.param(
            lambda r: setattr(
                r.config.linux.security_context.namespace_options.userns_options, "mode", cri.POD
            ),
            "UNKNOWN",
            "failed to generate user namespace options: only one uid mapping is supported, got 0",
            id="CRI-153-maps",
        ),
    ],
)
def test_refused_and_nothing_left_CRI_022_CRI_207(drive, change, code, text):
    async def body(rig):
        request = cri.RunPodSandboxRequest(config=rig.pod_config())
        change(request)
        assert await rig.refused(rig.cri.RunPodSandbox(request)) == (code, text)
        assert await rig.pods() == []
        assert len(rig.runtime.world.sandbox_names) == 0

    drive(body)


def test_name_is_reserved_until_removal_CRI_013_CRI_014(drive):
    async def body(rig):
        first = await rig.run_pod()
        name = "web_default_uid-web_0"
        refusal = (
            "UNKNOWN",
            f'failed to reserve sandbox name "{name}": name "{name}" is reserved for "{first}"',
        )
        assert await rig.refused(rig.run_pod()) == refusal
        await rig.stop_pod(first)
        assert await rig.refused(rig.run_pod()) == refusal
        second = await rig.run_pod(attempt=1)
        await rig.remove_pod(first)
        third = await rig.run_pod()
        assert await rig.pods() == [second, third]

    drive(body)


def test_stop_and_remove_are_idempotent_CRI_024_CRI_025_CRI_204(drive):
    async def body(rig):
        await rig.stop_pod("f" * 64)
        await rig.remove_pod("f" * 64)
        sandbox = await rig.run_pod()
        await rig.stop_pod(sandbox)
        await rig.stop_pod(sandbox)
        await rig.remove_pod(sandbox)
        await rig.remove_pod(sandbox)

    drive(body)


def test_parallel_stops_all_succeed_CRI_204(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        await rig.run(sandbox)
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(rig.stop_pod, sandbox)
        assert (await rig.pod_status(sandbox)).state == cri.SANDBOX_NOTREADY

    drive(body)


def test_stop_kills_containers_and_leaves_the_others_CRI_023(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        running = await rig.run(sandbox, "running")
        created = await rig.create(sandbox, "created")
        ended = await rig.run(sandbox, "ended", "exit 3")
        await rig.exited(ended)
        before = rig.clock.elapsed_seconds()
        await rig.stop_pod(sandbox)
        assert rig.clock.elapsed_seconds() - before < 1
        states = [(await rig.status(c)) for c in (running, created, ended)]
        assert [s.state for s in states] == [
            cri.CONTAINER_EXITED,
            cri.CONTAINER_CREATED,
            cri.CONTAINER_EXITED,
        ]
        assert [s.exit_code for s in states] == [137, 0, 3]

    drive(body)


def test_remove_takes_running_containers_along_CRI_171_CRI_203(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        other = await rig.run_pod("other")
        await rig.run(sandbox)
        kept = await rig.run(other, pod="other")
        await rig.remove_pod(sandbox)
        assert await rig.containers() == [kept]
        assert await rig.pods() == [other]
        assert len(rig.runtime.world.container_names) == 1

    drive(body)


def test_address_stays_over_container_restarts_and_is_freed_by_stop_CRI_032_CRI_201(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        address = (await rig.pod_status(sandbox)).network.ip
        for attempt in range(3):
            await rig.exited(await rig.run(sandbox, script="exit 1", attempt=attempt))
            assert (await rig.pod_status(sandbox)).network.ip == address
        ipam = rig.runtime.world.ipam
        assert ipam.holder(address) == sandbox
        await rig.stop_pod(sandbox)
        assert ipam.holder(address) is None

    drive(body)


def test_exhausted_range_is_an_error_and_leaves_nothing_CRI_207(drive):
    async def body(rig):
        await rig.run_pod("one")
        code, text = await rig.refused(rig.run_pod("two"))
        assert code == "UNKNOWN"
        assert text.startswith("failed to setup network for sandbox ")
        assert text.endswith("no IP addresses available in range set: 10.88.0.1-10.88.0.2")
        assert len(await rig.pods()) == 1
        await rig.run_pod("host", config=rig.host_network_config("host"))

    drive(body, pod_cidr="10.88.0.0/30")


def test_dual_stack_CRI_033(drive):
    async def body(rig):
        status = await rig.pod_status(await rig.run_pod())
        assert status.network.ip == "10.88.0.2"
        assert [each.ip for each in status.network.additional_ips] == ["fd00:88::2"]

    drive(body, pod_cidr="10.88.0.0/24,fd00:88::/64")


def test_network_not_ready_CRI_101(drive):
    async def body(rig):
        rig.runtime.set_network_ready(False)
        reply = await rig.cri.Status(cri.StatusRequest())
        assert [(c.type, c.status, c.reason) for c in reply.status.conditions] == [
            ("RuntimeReady", True, ""),
            ("NetworkReady", False, "NetworkPluginNotReady"),
        ]
        _, text = await rig.refused(rig.run_pod())
        assert text.endswith(": cni plugin not initialized")
        await rig.run_pod(config=rig.host_network_config())
        rig.runtime.set_network_ready(True)
        await rig.run_pod("later")

    drive(body)


def test_deadline_leaves_nothing_and_the_name_is_free_CRI_005(drive):
    async def body(rig):
        request = cri.RunPodSandboxRequest(config=rig.pod_config())
        refusal = await rig.refused(rig.cri.RunPodSandbox(request, timeout_seconds=0.01))
        assert refusal[0] == "DEADLINE_EXCEEDED"
        await rig.clock.sleep(1)
        assert await rig.pods() == []
        world = rig.runtime.world
        assert (len(world.sandbox_names), world.ipam.holder("10.88.0.2")) == (0, None)
        await rig.run_pod()

    from cri_fake.latency import MeasuredLatency

    drive(body, latency=MeasuredLatency)


def test_dead_sandbox_keeps_network_and_containers_CRI_026(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        container = await rig.run(sandbox)
        created = await rig.create(sandbox, "created")
        rig.runtime.kill_sandbox_process("web")
        status = await rig.pod_status(sandbox)
        assert (status.state, status.network.ip) == (cri.SANDBOX_NOTREADY, "10.88.0.2")
        assert (await rig.status(container)).state == cri.CONTAINER_RUNNING
        text = f'sandbox container "{sandbox}" is not running'
        assert await rig.refused(rig.create(sandbox, "new")) == ("UNKNOWN", text)
        assert await rig.refused(rig.start(created)) == ("UNKNOWN", text)
        assert (await rig.status(created)).reason == "StartError"
        assert [type(fact) for fact in rig.facts if isinstance(fact, SandboxDied)] == [SandboxDied]

    drive(body)


def test_stopped_behind_the_kubelets_back(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        container = await rig.run(sandbox)
        await rig.runtime.stop_sandbox_behind("web", "default")
        assert (await rig.pod_status(sandbox)).state == cri.SANDBOX_NOTREADY
        assert (await rig.status(container)).exit_code == 137

    drive(body)


def test_created_at_rises_strictly_CRI_016(drive):
    async def body(rig):
        sandboxes = [await rig.run_pod(f"pod{n}") for n in range(5)]
        containers = [await rig.create(sandboxes[0], f"c{n}", pod="pod0") for n in range(5)]
        stamps = [(await rig.pod_status(s)).created_at for s in sandboxes]
        stamps += [(await rig.status(c)).created_at for c in containers]
        assert stamps == sorted(set(stamps))

    drive(body)


def test_lists_and_filters_CRI_080_CRI_081_CRI_082(drive):
    async def body(rig):
        one = await rig.run_pod("one")
        two = await rig.run_pod("two")
        await rig.stop_pod(two)
        ready = cri.PodSandboxStateValue(state=cri.SANDBOX_READY)
        not_ready = cri.PodSandboxStateValue(state=cri.SANDBOX_NOTREADY)
        assert await rig.pods() == [one, two]
        assert await rig.pods(state=ready) == [one]
        assert await rig.pods(state=not_ready) == [two]
        assert await rig.pods(id=two) == [two]
        assert await rig.pods(id=two[:10]) == [two]
        assert await rig.pods(id="nope") == []
        assert await rig.pods(label_selector={"io.kubernetes.pod.uid": "uid-one"}) == [one]
        assert await rig.pods(label_selector={"io.kubernetes.pod.uid": "uid"}) == []
        assert await rig.pods(id=two, state=ready) == []

    drive(body)


def test_update_resources_CRI_151(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        request = cri.UpdatePodSandboxResourcesRequest(
            pod_sandbox_id=sandbox, resources=cri.LinuxContainerResources(cpu_shares=512)
        )
        await rig.cri.UpdatePodSandboxResources(request)
        verbose = cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox, verbose=True)
        assert '"cpu_shares": "512"' in (await rig.cri.PodSandboxStatus(verbose)).info["info"]
        request.pod_sandbox_id = "f" * 64
        assert (await rig.refused(rig.cri.UpdatePodSandboxResources(request)))[0] == "NOT_FOUND"

    drive(body)
