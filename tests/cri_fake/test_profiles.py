# pyright: basic
"""Where containerd and CRI-O are seen to differ, each difference on its own."""

import pytest

from cri_fake.profile import CONTAINERD_1_6, CONTAINERD_2, CRI_O, PROFILES
from k8s_proto import runtime_v1_pb2 as cri
from node_host.faults import FaultPlan
from trio_grpc import StatusError
from trio_grpc.services.runtime_v1 import ImageServiceHandler, RuntimeServiceHandler

ALL = pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)


@ALL
def test_name_and_version_parse_CRI_100(drive, profile):
    async def body(rig):
        version = await rig.cri.Version(cri.VersionRequest(version="0.1.0"))
        assert (version.version, version.runtime_api_version) == ("0.1.0", "v1")
        assert version.runtime_name == profile.runtime_name
        assert [int(part) for part in version.runtime_version.removeprefix("v").split(".")]

    drive(body, profile=profile)


@ALL
def test_handlers_and_features_in_status_CRI_103(drive, profile):
    async def body(rig):
        status = await rig.cri.Status(cri.StatusRequest())
        old = profile is CONTAINERD_1_6
        assert [each.name for each in status.runtime_handlers] == ([] if old else list(profile.handlers))
        assert status.features.supplemental_groups_policy is not old
        await rig.cri.RunPodSandbox(cri.RunPodSandboxRequest(config=rig.pod_config(), runtime_handler="runc"))

    drive(body, profile=profile)


@ALL
def test_duplicate_sandbox_name_CRI_013(drive, profile):
    async def body(rig):
        first = await rig.run_pod()
        if profile is CRI_O:
            assert await rig.run_pod() == first
        else:
            name = "web_default_uid-web_0"
            assert await rig.refused(rig.run_pod()) == (
                "UNKNOWN",
                f'failed to reserve sandbox name "{name}": name "{name}" is reserved for "{first}"',
            )
        assert await rig.pods() == [first]

    drive(body, profile=profile)


@ALL
def test_duplicate_container_name_CRI_013(drive, profile):
    async def body(rig):
        sandbox = await rig.run_pod()
        first = await rig.create(sandbox)
        if profile is CRI_O:
            assert await rig.create(sandbox) == first
        else:
            code, text = await rig.refused(rig.create(sandbox))
            assert code == "UNKNOWN"
            assert text.endswith(f'is reserved for "{first}"')
        assert await rig.containers() == [first]

    drive(body, profile=profile)


@ALL
def test_name_of_a_sandbox_in_the_making_CRI_013(drive, profile):
    async def body(rig):
        import trio

        async with trio.open_nursery() as nursery:
            nursery.start_soon(rig.run_pod)
            await rig.clock.sleep(0.001)
            start = rig.clock.elapsed_seconds()
            request = cri.RunPodSandboxRequest(config=rig.pod_config())
            with pytest.raises(StatusError) as caught:
                await rig.cri.RunPodSandbox(request, timeout_seconds=20)
            waited = rig.clock.elapsed_seconds() - start
        if profile is CRI_O:
            assert caught.value.code.name == "DEADLINE_EXCEEDED"
            assert waited == pytest.approx(20)
        else:
            assert "is reserved for" in caught.value.details
            assert waited < 1
        assert len(await rig.pods()) == 1

    from cri_fake.latency import MeasuredLatency

    drive(body, profile=profile, latency=MeasuredLatency)


@ALL
def test_failed_start_CRI_042(drive, profile):
    async def body(rig):
        sandbox = await rig.run_pod()
        config = rig.container_config(script=None, command=["/no/such/file"])
        container = await rig.create(sandbox, config=config)
        assert (await rig.refused(rig.start(container)))[0] == "UNKNOWN"
        if profile is CRI_O:
            assert await rig.containers() == []
            assert (await rig.refused(rig.status(container)))[0] == "NOT_FOUND"
        else:
            status = await rig.status(container)
            assert (status.state, status.exit_code, status.reason) == (
                cri.CONTAINER_EXITED,
                128,
                "StartError",
            )
            assert status.started_at == 0
            await rig.remove(container)
        await rig.create(sandbox, config=config)

    drive(body, profile=profile)


@ALL
def test_second_start_CRI_041_CRI_070(drive, profile):
    async def body(rig):
        sandbox = await rig.run_pod()
        container = await rig.run(sandbox)
        code, text = await rig.refused(rig.start(container))
        assert code == "UNKNOWN"
        if profile is CRI_O:
            assert text == f"container {container} is not in created state: running"
        else:
            assert text.endswith("container is in CONTAINER_RUNNING state")

    drive(body, profile=profile)


@ALL
def test_exec_out_of_time_CRI_070(drive, profile):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        if profile is CRI_O:
            reply = await rig.exec(container, "sleep", "100", timeout=1)
            assert (reply.exit_code, reply.stderr, reply.stdout) == (-1, b"command timed out", b"")
        else:
            code, text = await rig.refused(rig.exec(container, "sleep", "100", timeout=1))
            assert code == "DEADLINE_EXCEEDED"
            assert text.endswith("timeout 1s exceeded: context deadline exceeded")
        assert (await rig.exec(container, "sh", "-c", "pgrep sleep | wc -l")).stdout == b"1\n"

    drive(body, profile=profile)


@ALL
def test_exec_in_a_stopped_container_CRI_070(drive, profile):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        await rig.stop(container)
        for call in (
            rig.exec(container, "true"),
            rig.cri.Exec(cri.ExecRequest(container_id=container, stdout=True, cmd=["true"])),
            rig.cri.Attach(cri.AttachRequest(container_id=container, stdout=True)),
        ):
            code, text = await rig.refused(call)
            if profile is CRI_O:
                assert code == "NOT_FOUND"
                assert "container is not created or running: " in text
            else:
                assert code == "UNKNOWN"
                assert text.endswith("container is in CONTAINER_EXITED state")

    drive(body, profile=profile)


@ALL
def test_codes_of_unknown_ids_CRI_070(drive, profile):
    async def body(rig):
        unknown = "f" * 64
        other = "UNKNOWN" if profile is CRI_O else "NOT_FOUND"
        for code, calls in (
            (
                "NOT_FOUND",
                [
                    rig.status(unknown),
                    rig.start(unknown),
                    rig.exec(unknown, "true"),
                    rig.cri.Exec(cri.ExecRequest(container_id=unknown, stdout=True)),
                    rig.cri.Attach(cri.AttachRequest(container_id=unknown, stdout=True)),
                    rig.cri.ContainerStats(cri.ContainerStatsRequest(container_id=unknown)),
                    rig.cri.UpdateContainerResources(
                        cri.UpdateContainerResourcesRequest(container_id=unknown)
                    ),
                    rig.pod_status(unknown),
                ],
            ),
            (
                other,
                [
                    rig.cri.ReopenContainerLog(cri.ReopenContainerLogRequest(container_id=unknown)),
                    rig.cri.PodSandboxStats(cri.PodSandboxStatsRequest(pod_sandbox_id=unknown)),
                    rig.cri.PortForward(cri.PortForwardRequest(pod_sandbox_id=unknown)),
                    rig.create(unknown),
                ],
            ),
        ):
            for call in calls:
                assert (await rig.refused(call))[0] == code
        await rig.stop(unknown)
        await rig.remove(unknown)
        await rig.stop_pod(unknown)
        await rig.remove_pod(unknown)

    drive(body, profile=profile)


@ALL
def test_containers_of_a_stopped_sandbox_CRI_023(drive, profile):
    async def body(rig):
        sandbox = await rig.run_pod()
        script = "trap 'echo bye; exit 3' TERM; while true; do sleep 0.1; done"
        polite = await rig.run(sandbox, "polite", script)
        stubborn = await rig.run(sandbox, "stubborn", "trap '' TERM; while true; do sleep 1; done")
        await rig.clock.sleep(0.5)
        start = rig.clock.elapsed_seconds()
        request = cri.StopPodSandboxRequest(pod_sandbox_id=sandbox)
        await rig.cri.StopPodSandbox(request, timeout_seconds=6)
        took = rig.clock.elapsed_seconds() - start
        codes = [(await rig.status(each)).exit_code for each in (polite, stubborn)]
        if profile is CRI_O:
            assert codes == [3, 137]
            assert took == pytest.approx(5, abs=0.5)
        else:
            assert codes == [137, 137]
            assert took < 0.5

    drive(body, profile=profile)


@ALL
def test_events_CRI_140(drive, profile):
    async def body(rig):
        kinds, code = [], ""
        try:
            async with rig.cri.GetContainerEvents(cri.GetEventsRequest(), timeout_seconds=5) as events:
                await rig.run_pod()
                async for event in events:
                    kinds.append(event.container_event_type)
                    if len(kinds) == 2:
                        break
        except StatusError as error:
            code = error.code.name
        assert code == ("UNIMPLEMENTED" if profile is CONTAINERD_1_6 else "")
        assert kinds == ([0, 1] if profile is CONTAINERD_2 else [])

    drive(body, profile=profile)


@ALL
def test_pod_status_with_time_and_containers_CRI_144(drive, profile):
    async def body(rig):
        sandbox = await rig.run_pod()
        container = await rig.run(sandbox)
        reply = await rig.cri.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox))
        if profile is CRI_O:
            assert reply.timestamp > 0
            assert [each.id for each in reply.containers_statuses] == [container]
            assert reply.containers_statuses[0] == await rig.status(container)
        else:
            assert reply.timestamp == 0
            assert not reply.containers_statuses

    drive(body, profile=profile)


@ALL
def test_labels_that_the_runtime_adds_CRI_015(drive, profile):
    async def body(rig):
        sandbox = await rig.run_pod()
        asked = dict(rig.pod_config().labels)
        shown = dict((await rig.pod_status(sandbox)).labels)
        (item,) = (await rig.cri.ListPodSandbox(cri.ListPodSandboxRequest())).items
        assert dict(item.labels) == shown
        added = {"io.kubernetes.container.name": "POD"} if profile is CRI_O else {}
        assert shown == {**asked, **added}

    drive(body, profile=profile)


@ALL
def test_an_end_that_nobody_saw_CRI_045(drive, profile):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        await rig.runtime.power_off()
        await rig.runtime.restart()
        status = await rig.status(container)
        expected = (-1, "Error") if profile is CRI_O else (255, "Unknown")
        assert (status.exit_code, status.reason) == expected

    drive(body, profile=profile)


@ALL
def test_fields_that_came_later_CRI_060_CRI_062_CRI_063(drive, profile):
    async def body(rig):
        config = rig.container_config()
        config.linux.resources.cpu_shares = 100
        container = await rig.create(await rig.run_pod(), config=config)
        status = await rig.status(container)
        (item,) = (await rig.cri.ListContainers(cri.ListContainersRequest())).containers
        assert item.image_ref
        present = profile is not CONTAINERD_1_6
        assert bool(status.image_id) is bool(item.image_id) is present
        assert status.HasField("resources") is status.HasField("user") is present
        assert bool(status.stop_signal) is present

    drive(body, profile=profile)


@ALL
def test_methods_of_an_older_contract_CRI_007(drive, profile):
    methods = [*RuntimeServiceHandler.SERVICE.methods, *ImageServiceHandler.SERVICE.methods]
    assert profile.missing_methods <= {method.name for method in methods}

    async def call(rig, method):
        if not method.streaming:
            return await rig.cri._channel.unary(method, method.request_type())
        async with rig.cri._channel.stream(method, method.request_type()) as stream:
            return [item async for item in stream]

    async def body(rig):
        for method in methods:
            if method.name not in profile.missing_methods:
                continue
            with pytest.raises(StatusError) as caught:
                await call(rig, method)
            assert caught.value.code.name == "UNIMPLEMENTED"
            assert caught.value.details == f"unknown method {method.name} for service {method.service}"

    drive(body, profile=profile, faults=FaultPlan())
