"""The rest of the runtime service: version, status, stats, metrics, events, the daemon's life."""

import json

import pytest
import trio

from cri_fake.latency import MeasuredLatency
from cri_fake.observe import DaemonChanged, InstanceExited
from k8s_proto import runtime_v1_pb2 as cri
from trio_grpc import StatusError


def test_version_CRI_100(drive):
    async def body(rig):
        for asked in ("", "0.1.0", "v1"):
            reply = await rig.cri.Version(cri.VersionRequest(version=asked))
            assert (reply.version, reply.runtime_api_version) == ("0.1.0", "v1")
            assert reply.runtime_name == "containerd"
            assert reply.runtime_version

    drive(body)


def test_status_CRI_101_CRI_103_CRI_104(drive):
    async def body(rig):
        reply = await rig.cri.Status(cri.StatusRequest())
        assert {(c.type, c.status) for c in reply.status.conditions} == {
            ("RuntimeReady", True),
            ("NetworkReady", True),
        }
        names = [handler.name for handler in reply.runtime_handlers]
        assert "" in names
        assert len(names) == len(set(names))
        assert reply.features.supplemental_groups_policy
        assert not reply.info
        verbose = await rig.cri.Status(cri.StatusRequest(verbose=True))
        assert json.loads(verbose.info["config"])["podCIDR"] == "10.88.0.0/16"
        for value in verbose.info.values():
            assert not value.startswith("{") or json.loads(value)

    drive(body)


def test_runtime_config_is_cgroupfs_CRI_105(drive):
    async def body(rig):
        reply = await rig.cri.RuntimeConfig(cri.RuntimeConfigRequest())
        assert reply.linux.cgroup_driver == cri.CGROUPFS

    drive(body)


def test_update_runtime_config_is_for_new_sandboxes_CRI_106(drive):
    async def body(rig):
        first = await rig.run_pod("first")
        await rig.cri.UpdateRuntimeConfig(cri.UpdateRuntimeConfigRequest())
        network = cri.NetworkConfig(pod_cidr="10.99.0.0/24,fd00::/64")
        request = cri.UpdateRuntimeConfigRequest(runtime_config=cri.RuntimeConfig(network_config=network))
        await rig.cri.UpdateRuntimeConfig(request)
        assert (await rig.pod_status(first)).network.ip == "10.88.0.2"
        second = await rig.pod_status(await rig.run_pod("second"))
        assert (second.network.ip, second.network.additional_ips[0].ip) == ("10.99.0.2", "fd00::2")

    drive(body)


@pytest.mark.parametrize(
    ("call", "code", "text"),
    [
        pytest.param(
            lambda rig, c: rig.cri.Exec(cri.ExecRequest(container_id=c)),
            "INVALID_ARGUMENT",
            "one of stdin, stdout, or stderr must be set",
            id="CRI-070-no-stream",
        ),
        pytest.param(
            lambda rig, c: rig.cri.Exec(cri.ExecRequest(container_id=c, tty=True, stderr=True)),
            "INVALID_ARGUMENT",
            "tty and stderr cannot both be true",
            id="CRI-070-tty",
        ),
        pytest.param(
            lambda rig, c: rig.cri.Exec(cri.ExecRequest(stdout=True)),
            "INVALID_ARGUMENT",
            "missing required container_id",
            id="CRI-070-no-id",
        ),
        pytest.param(
            lambda rig, c: rig.cri.Attach(cri.AttachRequest(container_id="f" * 64, stdout=True)),
            "NOT_FOUND",
            "not found",
            id="CRI-070-attach",
        ),
        pytest.param(
            lambda rig, c: rig.cri.PortForward(cri.PortForwardRequest(pod_sandbox_id="f" * 64)),
            "NOT_FOUND",
            "not found",
            id="CRI-070-port-forward",
        ),
        pytest.param(
            lambda rig, c: rig.cri.CheckpointPod(cri.CheckpointPodRequest()),
            "UNIMPLEMENTED",
            "",
            id="CRI-156-checkpoint-pod",
        ),
        pytest.param(
            lambda rig, c: rig.cri.RestorePod(cri.RestorePodRequest()),
            "UNIMPLEMENTED",
            "",
            id="CRI-156-restore-pod",
        ),
    ],
)
def test_what_is_not_served_says_so_CRI_007(drive, call, code, text):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        found, details = await rig.refused(call(rig, container))
        assert found == code
        assert text in details

    drive(body)


# Stats and metrics -------------------------------------------------------------------------------------


def test_container_stats_rise_CRI_130_CRI_131(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        container = await rig.run(sandbox)
        created = await rig.create(sandbox, "created")
        request = cri.ContainerStatsRequest(container_id=container)
        samples = []
        for _ in range(3):
            samples.append((await rig.cri.ContainerStats(request)).stats)
            samples.append((await rig.cri.ContainerStats(request)).stats)
            await rig.clock.sleep(1)
        stamps = [sample.cpu.timestamp for sample in samples]
        usage = [sample.cpu.usage_core_nano_seconds.value for sample in samples]
        assert stamps == sorted(set(stamps))
        assert usage == sorted(usage)
        assert usage[-1] > usage[0]
        sample = samples[0]
        assert sample.attributes.id == container
        assert sample.attributes.metadata.name == "main"
        assert sample.memory.working_set_bytes.value > 0
        assert sample.memory.timestamp > 0
        assert sample.writable_layer.used_bytes.value > 0
        listed = await rig.cri.ListContainerStats(cri.ListContainerStatsRequest())
        assert [each.attributes.id for each in listed.stats] == [container]
        request.container_id = created
        assert (await rig.refused(rig.cri.ContainerStats(request)))[0] == "UNKNOWN"
        request.container_id = "f" * 64
        assert (await rig.refused(rig.cri.ContainerStats(request)))[0] == "NOT_FOUND"

    drive(body)


def test_container_stats_filters_CRI_085(drive):
    async def body(rig):
        one, two = await rig.run_pod("one"), await rig.run_pod("two")
        a = await rig.run(one, "a", pod="one")
        b = await rig.run(two, "b", pod="two")

        async def stats(**wanted):
            request = cri.ListContainerStatsRequest(filter=cri.ContainerStatsFilter(**wanted))
            return [each.attributes.id for each in (await rig.cri.ListContainerStats(request)).stats]

        assert await stats() == [a, b]
        assert await stats(id=a[:12]) == [a]
        assert await stats(pod_sandbox_id=two) == [b]
        assert await stats(label_selector={"io.kubernetes.container.name": "a"}) == [a]
        assert await stats(id="zz") == []

    drive(body)


def test_pod_stats_CRI_132_CRI_211(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        stopped = await rig.run_pod("stopped")
        await rig.stop_pod(stopped)
        await rig.run(sandbox)
        reply = await rig.cri.PodSandboxStats(cri.PodSandboxStatsRequest(pod_sandbox_id=sandbox))
        linux = reply.stats.linux
        assert linux.process.process_count.value == 2
        assert linux.network.default_interface.name == "eth0"
        assert len(linux.containers) == 1
        assert linux.memory.working_set_bytes.value > linux.containers[0].memory.working_set_bytes.value
        listed = await rig.cri.ListPodSandboxStats(cri.ListPodSandboxStatsRequest())
        assert [each.attributes.id for each in listed.stats] == [sandbox]
        for asked, code in ((stopped, "UNKNOWN"), ("f" * 64, "NOT_FOUND")):
            request = cri.PodSandboxStatsRequest(pod_sandbox_id=asked)
            assert (await rig.refused(rig.cri.PodSandboxStats(request)))[0] == code

    drive(body)


def test_every_metric_has_its_descriptor_and_its_labels_CRI_134(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        described = await rig.cri.ListMetricDescriptors(cri.ListMetricDescriptorsRequest())
        keys = {each.name: list(each.label_keys) for each in described.descriptors}
        assert all(each.help and each.label_keys for each in described.descriptors)
        assert len(keys) == len(described.descriptors) > 50
        (pod,) = (await rig.cri.ListPodSandboxMetrics(cri.ListPodSandboxMetricsRequest())).pod_metrics
        (own,) = pod.container_metrics
        assert own.container_id == container
        seen = {}
        for metric in (*pod.metrics, *own.metrics):
            assert len(metric.label_values) == len(keys[metric.name])
            assert metric.HasField("value")
            seen[metric.name] = True
        assert set(seen) == set(keys)

    drive(body)


# Streaming lists and events ----------------------------------------------------------------------------


def test_streamed_lists_equal_plain_ones_CRI_086(drive):
    async def body(rig):
        async with rig.cri.StreamContainers(cri.StreamContainersRequest()) as items:
            assert [item async for item in items] == []
        sandboxes = [await rig.run_pod(f"pod{n}") for n in range(3)]
        container = await rig.run(sandboxes[0], pod="pod0")
        async with rig.cri.StreamPodSandboxes(cri.StreamPodSandboxesRequest()) as items:
            assert [each.id async for item in items for each in item.pod_sandboxes] == sandboxes
        async with rig.cri.StreamContainers(cri.StreamContainersRequest()) as items:
            assert [each.id async for item in items for each in item.containers] == [container]
        async with rig.cri.StreamContainerStats(cri.StreamContainerStatsRequest()) as items:
            assert [each.attributes.id async for item in items for each in item.container_stats] == [
                container
            ]
        async with rig.cri.StreamPodSandboxStats(cri.StreamPodSandboxStatsRequest()) as items:
            assert len([each async for item in items for each in item.pod_sandbox_stats]) == 3
        async with rig.cri.StreamPodSandboxMetrics(cri.StreamPodSandboxMetricsRequest()) as items:
            assert len([each async for item in items for each in item.pod_sandbox_metrics]) == 3
        async with rig.images.StreamImages(cri.StreamImagesRequest()) as items:
            assert len([each async for item in items for each in item.images]) == 3

    drive(body)


def test_events_of_a_pod_in_order_CRI_141_CRI_142(drive):
    async def body(rig):
        seen = []
        subscribed = trio.Event()

        async def watch():
            async with rig.cri.GetContainerEvents(cri.GetEventsRequest()) as items:
                subscribed.set()
                async for item in items:
                    seen.append(item)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await subscribed.wait()
            sandbox = await rig.run_pod()
            container = await rig.run(sandbox)
            await rig.remove_pod(sandbox)
            await rig.clock.sleep(1)
            nursery.cancel_scope.cancel()
        name = {sandbox: "pod", container: "main"}
        kinds = [(name[e.container_id], cri.ContainerEventType.Name(e.container_event_type)) for e in seen]
        assert [(who, kind.split("_")[1]) for who, kind in kinds] == [
            ("pod", "CREATED"),
            ("pod", "STARTED"),
            ("main", "CREATED"),
            ("main", "STARTED"),
            ("main", "STOPPED"),
            ("pod", "STOPPED"),
            ("main", "DELETED"),
            ("pod", "DELETED"),
        ]
        stamps = [event.created_at for event in seen]
        assert stamps == sorted(set(stamps))
        assert all(event.pod_sandbox_status.metadata.name == "web" for event in seen)
        assert [len(event.containers_statuses) for event in seen] == [0, 0, 1, 1, 1, 1, 0, 0]
        assert seen[4].containers_statuses[0].state == cri.CONTAINER_EXITED

    drive(body)


def test_events_are_kept_while_nobody_listens_CRI_140(drive):
    async def body(rig):
        await rig.run_pod("old")
        await rig.clock.sleep(400)
        await rig.run_pod("new")
        got = []
        async with rig.cri.GetContainerEvents(cri.GetEventsRequest()) as items:
            async for item in items:
                got.append(item.pod_sandbox_status.metadata.name)
                if len(got) == 2:
                    break
        assert got == ["new", "new"]

    drive(body)


# The daemon --------------------------------------------------------------------------------------------


def test_containers_survive_a_restart_of_the_daemon(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        container = await rig.run(sandbox)
        late = await rig.run(sandbox, "late", "sleep 5; exit 1")
        before = await rig.status(container)
        await rig.runtime.crash()
        assert not rig.runtime.daemon_up
        assert (await rig.refused(rig.status(container)))[0] == "UNAVAILABLE"
        await rig.clock.sleep(10)
        await rig.runtime.restart()
        assert await rig.status(container) == before
        status = await rig.status(late)
        assert (status.state, status.exit_code) == (cri.CONTAINER_EXITED, 1)
        assert status.finished_at - status.started_at == pytest.approx(5e9, rel=0.05)
        assert (await rig.pod_status(sandbox)).network.ip == "10.88.0.2"
        assert [f.up for f in rig.facts if isinstance(f, DaemonChanged)] == [False, True]
        assert len([f for f in rig.facts if isinstance(f, InstanceExited)]) == 1

    drive(body)


def test_a_crash_cuts_calls_and_leaves_nothing_half_made_CRI_022(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        container = await rig.create(sandbox)
        codes = []

        async def call(coroutine):
            try:
                await coroutine
            except StatusError as problem:
                codes.append(problem.code.name)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, rig.run_pod("half"))
            nursery.start_soon(call, rig.create(sandbox, "half"))
            nursery.start_soon(call, rig.start(container))
            await rig.clock.sleep(0.002)
            await rig.runtime.restart(down_seconds=1)
        assert codes == ["UNAVAILABLE"] * 3
        assert await rig.pods() == [sandbox]
        assert await rig.containers() == [container]
        assert (await rig.status(container)).state == cri.CONTAINER_CREATED
        await rig.run_pod("half")
        await rig.create(sandbox, "half")
        await rig.start(container)

    drive(body, latency=MeasuredLatency)


def test_crash_and_restart_twice_are_once(drive):
    async def body(rig):
        await rig.runtime.crash()
        await rig.runtime.crash()
        await rig.runtime.restart(down_seconds=2)
        await rig.runtime.restart()
        assert (await rig.cri.Version(cri.VersionRequest())).version == "0.1.0"
        assert rig.runtime.daemon_up

    drive(body)
