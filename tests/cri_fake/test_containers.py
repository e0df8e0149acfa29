"""Containers over the wire: life, exit codes, stop and kill, refusals, logs, exec (CRI section 4)."""

import json

import pytest
import trio

from cri_fake.behaviours import Behaviour, Behaviours, LogLine, ReadinessStep, Target
from cri_fake.latency import MeasuredLatency, ZeroLatency
from cri_fake.observe import InstanceExited, InstanceStarted
from k8s_proto import runtime_v1_pb2 as cri

TRAP = "trap 'exit 0' TERM; sleep 600 & wait"


def test_life_of_a_container_CRI_040_CRI_043_CRI_202(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        container = await rig.create(sandbox, script="sleep 2; exit 7")
        status = await rig.status(container)
        assert status.state == cri.CONTAINER_CREATED
        assert (status.started_at, status.finished_at, status.reason) == (0, 0, "")
        assert not rig.files.exists(status.log_path)
        await rig.start(container)
        status = await rig.status(container)
        assert status.state == cri.CONTAINER_RUNNING
        assert status.started_at >= status.created_at > 0
        assert rig.files.exists(status.log_path)
        status = await rig.exited(container)
        assert (status.exit_code, status.reason) == (7, "Error")
        assert status.finished_at - status.started_at == pytest.approx(2e9, rel=0.05)
        await rig.remove(container)
        assert await rig.containers() == []
        code, text = await rig.refused(rig.status(container))
        assert code == "NOT_FOUND"
        assert text == f'an error occurred when try to find container "{container}": not found'

    drive(body)


def test_what_is_given_is_echoed_CRI_060(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        config = rig.container_config(
            annotations={"io.kubernetes.container.restartCount": "0"},
            mounts=[cri.Mount(container_path="/work", host_path="/vol/work", readonly=True)],
        )
        container = await rig.create(sandbox, config=config)
        status = await rig.status(container)
        assert status.metadata == config.metadata
        assert dict(status.labels) == dict(config.labels)
        assert dict(status.annotations) == dict(config.annotations)
        assert list(status.mounts) == list(config.mounts)
        assert status.log_path == "/var/log/pods/default_web_uid-web/main/0.log"
        assert status.image.image == "docker.io/library/busybox:1.36"
        assert status.image_ref == status.image_id
        assert status.image_id.startswith("sha256:")
        assert cri.Signal.Name(status.stop_signal) == "SIGNAL_SIGTERM"
        (item,) = (await rig.cri.ListContainers(cri.ListContainersRequest())).containers
        assert (item.image_id, item.pod_sandbox_id) == (status.image_id, sandbox)
        assert item.image.image == config.image.image

    drive(body)


def test_zero_exit_is_completed_CRI_045(drive):
    async def body(rig):
        status = await rig.exited(await rig.run(await rig.run_pod(), script="exit 0"))
        assert (status.exit_code, status.reason, status.message) == (0, "Completed", "")

    drive(body)


def test_stop_signal_then_kill_CRI_047(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        polite = await rig.run(sandbox, "polite", TRAP)
        stubborn = await rig.run(sandbox, "stubborn", "sleep 600")
        await rig.clock.sleep(1)
        before = rig.clock.elapsed_seconds()
        await rig.stop(polite, 30)
        assert rig.clock.elapsed_seconds() - before < 1
        assert (await rig.status(polite)).exit_code == 0
        before = rig.clock.elapsed_seconds()
        await rig.stop(stubborn, 2)
        assert rig.clock.elapsed_seconds() - before == pytest.approx(2, abs=0.1)
        status = await rig.status(stubborn)
        assert (status.exit_code, status.reason) == (137, "Error")
        exits = [(f.container, f.exit_code, f.signal) for f in rig.facts if isinstance(f, InstanceExited)]
        assert exits == [("polite", 0, 0), ("stubborn", 137, 9)]

    drive(body)


def test_timeout_zero_kills_at_once_CRI_047(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod(), script=TRAP)
        await rig.clock.sleep(1)
        await rig.stop(container, 0)
        assert (await rig.status(container)).exit_code == 137

    drive(body)


def test_earliest_deadline_of_parallel_stops_kills_CRI_048(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        before = rig.clock.elapsed_seconds()
        ends = []

        async def stop(timeout):
            await rig.stop(container, timeout)
            ends.append(rig.clock.elapsed_seconds() - before)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop, 30)
            nursery.start_soon(stop, 3)
        assert ends == pytest.approx([3, 3], abs=0.1)

    drive(body)


def test_stop_given_up_sends_no_kill_CRI_048(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        request = cri.StopContainerRequest(container_id=container, timeout=5)
        refusal = await rig.refused(rig.cri.StopContainer(request, timeout_seconds=1))
        assert refusal[0] == "DEADLINE_EXCEEDED"
        await rig.clock.sleep(30)
        assert (await rig.status(container)).state == cri.CONTAINER_RUNNING

    drive(body)


def test_stop_and_remove_are_idempotent_CRI_050_CRI_204(drive):
    async def body(rig):
        await rig.stop("f" * 64, 1)
        await rig.remove("f" * 64)
        container = await rig.create(await rig.run_pod())
        await rig.stop(container, 1)
        assert (await rig.status(container)).state == cri.CONTAINER_CREATED
        await rig.start(container)
        await rig.stop(container, 1)
        await rig.stop(container, 1)
        await rig.remove(container)
        await rig.remove(container)

    drive(body)


def test_remove_of_a_running_container_stops_it_and_keeps_the_log_CRI_051(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        container = await rig.run(sandbox, script="echo hello; sleep 600")
        await rig.clock.sleep(1)
        path = (await rig.status(container)).log_path
        await rig.remove(container)
        assert await rig.containers() == []
        assert rig.files.read(path).endswith(b" stdout F hello\n")
        assert (await rig.pod_status(sandbox)).state == cri.SANDBOX_READY

    drive(body)


def test_start_only_once_CRI_041(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod(), script="sleep 1")
        prefix = f'failed to set starting state for container "{container}": container is in CONTAINER_'
        assert await rig.refused(rig.start(container)) == ("UNKNOWN", prefix + "RUNNING state")
        await rig.exited(container)
        assert await rig.refused(rig.start(container)) == ("UNKNOWN", prefix + "EXITED state")
        code, text = await rig.refused(rig.start("f" * 64))
        assert (code, text.endswith("not found")) == ("NOT_FOUND", True)

    drive(body)


def test_two_starts_at_once_CRI_041_CRI_051(drive):
    async def body(rig):
        container = await rig.create(await rig.run_pod())
        outcomes = []

        async def call(what):
            try:
                await what(container)
                outcomes.append("ok")
            except Exception as problem:
                outcomes.append(problem.details.rpartition(": ")[2])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, rig.start)
            await rig.clock.sleep(0.005)
            nursery.start_soon(call, rig.start)
            nursery.start_soon(call, rig.remove)
        assert sorted(outcomes) == [
            "container is already in starting state",
            "container is in starting state, can't be removed",
            "ok",
        ]
        assert (await rig.status(container)).state == cri.CONTAINER_RUNNING

    drive(body, latency=MeasuredLatency)


def test_removal_in_progress_CRI_051(drive):
    async def body(rig):
        container = await rig.create(await rig.run_pod())
        outcomes = []

        async def remove():
            try:
                await rig.remove(container)
                outcomes.append("ok")
            except Exception as problem:
                outcomes.append(problem.details)

        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(remove)
        assert sorted(outcomes) == [
            f'failed to set removing state for container "{container}": '
            "container is already in removing state",
            "ok",
        ]

    drive(body, latency=MeasuredLatency)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        pytest.param(["nonesuch"], 'exec: "nonesuch": executable file not found in $PATH', id="CRI-042-path"),
        pytest.param(
            ["/no/such"], 'exec: "/no/such": stat /no/such: no such file or directory', id="CRI-042-file"
        ),
    ],
)
def test_failed_start_CRI_042(drive, argv, text):
    async def body(rig):
        config = rig.container_config(script=None)
        config.command.extend(argv)
        container = await rig.create(await rig.run_pod(), config=config)
        whole = (
            "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
            f"runc create failed: unable to start container process: {text}: unknown"
        )
        assert await rig.refused(rig.start(container)) == ("UNKNOWN", whole)
        status = await rig.status(container)
        assert status.state == cri.CONTAINER_EXITED
        assert (status.exit_code, status.reason, status.message) == (128, "StartError", whole)
        assert status.started_at == 0
        assert status.finished_at > 0

    drive(body)


def test_unknown_command_in_another_image_is_opaque(drive):
    async def body(rig):
        await rig.pull("example.com/team/trainer:v1")
        config = rig.container_config(script=None, image=cri.ImageSpec(image="example.com/team/trainer:v1"))
        config.command.append("train")
        container = await rig.create(await rig.run_pod(), config=config)
        await rig.start(container)
        await rig.clock.sleep(100)
        assert (await rig.status(container)).state == cri.CONTAINER_RUNNING
        await rig.stop(container, 5)
        assert (await rig.status(container)).exit_code == 143
        (started,) = [fact for fact in rig.facts if isinstance(fact, InstanceStarted)]
        assert started.opaque

    drive(body)


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        pytest.param(
            lambda r: setattr(r, "pod_sandbox_id", "f" * 64),
            "NOT_FOUND",
            "failed to find sandbox id",
            id="CRI-052-sandbox",
        ),
        pytest.param(
            lambda r: r.config.ClearField("metadata"),
            "UNKNOWN",
            "container config must include metadata",
            id="CRI-052-meta",
        ),
        pytest.param(
            lambda r: r.sandbox_config.ClearField("metadata"),
            "UNKNOWN",
            "sandbox config must include metadata",
            id="CRI-052-sandbox-meta",
        ),
        pytest.param(
            lambda r: setattr(r.config.image, "image", "gone:1"),
            "NOT_FOUND",
            'failed to resolve image "gone:1": not found',
            id="CRI-052-image",
        ),
        pytest.param(
            lambda r: setattr(r.config, "log_path", "../../../etc/passwd"),
            "INVALID_ARGUMENT",
            "leaves the log directory",
            id="CRI-125-log-path",
        ),
        pytest.param(
            lambda r: r.config.mounts.add(container_path="/x", host_path="/y", recursive_read_only=True),
            "UNKNOWN",
            "recursive_read_only needs readonly",
            id="CRI-055-recursive",
        ),
        pytest.param(
            lambda r: setattr(r.config.linux.security_context.run_as_group, "value", 5),
            "UNKNOWN",
            "user group is specified without user",
            id="CRI-055-group",
        ),
        pytest.param(
            lambda r: setattr(r.config.linux.security_context, "run_as_username", "nobodyknows"),
            "UNKNOWN",
            "unable to find user nobodyknows",
            id="CRI-055-user",
        ),
        pytest.param(
            lambda r: setattr(r.config.linux.security_context.namespace_options, "pid", cri.TARGET),
            "UNKNOWN",
            "invalid target container",
            id="CRI-056-target",
        ),
        pytest.param(
            lambda r: r.config.mounts.add(container_path="/x", image=cri.ImageSpec(image="busybox:1.36")),
            "UNKNOWN",
            "ImageVolumeMountFailed: image volumes must be read-only",
            id="CRI-154-readonly",
        ),
        pytest.param(
            lambda r: r.config.mounts.add(container_path="/x", host_path="relative"),
            "UNKNOWN",
            "is not absolute",
            id="CRI-054-relative",
        ),
    ],
)
def test_create_refused_and_nothing_left_CRI_207(drive, change, code, says):
    async def body(rig):
        sandbox = await rig.run_pod()
        request = cri.CreateContainerRequest(
            pod_sandbox_id=sandbox, config=rig.container_config(), sandbox_config=rig.pod_config()
        )
        change(request)
        found, text = await rig.refused(rig.cri.CreateContainer(request))
        assert found == code
        assert says in text
        assert await rig.containers() == []
        assert len(rig.runtime.world.container_names) == 0

    drive(body)


def test_name_is_reserved_per_attempt_CRI_013(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        first = await rig.create(sandbox)
        name = "main_web_default_uid-web_0"
        assert await rig.refused(rig.create(sandbox)) == (
            "UNKNOWN",
            f'failed to reserve container name "{name}"; check if another CreateContainer request is in '
            f'progress: name "{name}" is reserved for "{first}"',
        )
        await rig.create(sandbox, attempt=1)
        await rig.remove(first)
        await rig.create(sandbox)

    drive(body)


def test_missing_host_path_becomes_a_folder_CRI_054(drive):
    async def body(rig):
        config = rig.container_config(mounts=[cri.Mount(container_path="/w", host_path="/vol/new")])
        await rig.create(await rig.run_pod(), config=config)
        assert rig.files.stat("/vol/new").kind == "dir"

    drive(body)


def test_lists_and_filters_CRI_080_CRI_081_CRI_083(drive):
    async def body(rig):
        one, two = await rig.run_pod("one"), await rig.run_pod("two")
        a = await rig.run(one, "a", pod="one")
        b = await rig.create(one, "b", pod="one")
        c = await rig.exited(await rig.run(two, "c", "exit 0", pod="two"))
        created = cri.ContainerStateValue(state=cri.CONTAINER_CREATED)
        assert await rig.containers() == [a, b, c.id]
        assert await rig.containers(state=created) == [b]
        assert await rig.containers(state=cri.ContainerStateValue(state=cri.CONTAINER_EXITED)) == [c.id]
        assert await rig.containers(pod_sandbox_id=one) == [a, b]
        assert await rig.containers(pod_sandbox_id=two[:12]) == [c.id]
        assert await rig.containers(id=b[:12]) == [b]
        assert await rig.containers(id="zz") == []
        assert await rig.containers(pod_sandbox_id="zz") == []
        assert await rig.containers(label_selector={"io.kubernetes.container.name": "a"}) == [a]
        assert await rig.containers(label_selector={"io.kubernetes.container.name": "a"}, state=created) == []

    drive(body)


def test_log_of_both_streams_CRI_125_CRI_126(drive):
    async def body(rig):
        status = await rig.exited(
            await rig.run(await rig.run_pod(), script="echo out; echo err >&2; echo -n end")
        )
        assert rig.log(status) == ["stdout F out", "stderr F err", "stdout P end"]

    drive(body)


def test_no_log_without_a_path_CRI_125(drive):
    async def body(rig):
        config = rig.container_config(script="echo out")
        config.log_path = ""
        container = await rig.create(await rig.run_pod(), config=config)
        await rig.start(container)
        status = await rig.exited(container)
        assert (status.log_path, status.exit_code) == ("", 0)

    drive(body)


def test_reopen_log_CRI_129(drive):
    async def body(rig):
        request = cri.ReopenContainerLogRequest(container_id="f" * 64)
        assert (await rig.refused(rig.cri.ReopenContainerLog(request)))[0] == "NOT_FOUND"
        request.container_id = await rig.create(await rig.run_pod())
        assert await rig.refused(rig.cri.ReopenContainerLog(request)) == (
            "UNKNOWN",
            "container is not running",
        )
        await rig.start(request.container_id)
        path = (await rig.status(request.container_id)).log_path
        rig.files.rename(path, path + ".old")
        await rig.cri.ReopenContainerLog(request)
        assert rig.files.exists(path)

    drive(body)


def test_update_resources_CRI_150_CRI_062(drive):
    async def body(rig):
        config = rig.container_config(
            linux=cri.LinuxContainerConfig(
                resources=cri.LinuxContainerResources(
                    cpu_shares=102, cpu_period=100000, memory_limit_in_bytes=1 << 26
                )
            )
        )
        container = await rig.create(await rig.run_pod(), config=config)
        request = cri.UpdateContainerResourcesRequest(
            container_id=container, linux=cri.LinuxContainerResources(cpu_shares=512, cpu_quota=50000)
        )
        await rig.cri.UpdateContainerResources(request)
        now = (await rig.status(container)).resources.linux
        assert (now.cpu_shares, now.cpu_quota, now.cpu_period) == (512, 50000, 100000)
        assert now.memory_limit_in_bytes == 1 << 26
        request.container_id = "f" * 64
        assert (await rig.refused(rig.cri.UpdateContainerResources(request)))[0] == "NOT_FOUND"

    drive(body)


def test_exec_sync_CRI_110(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        reply = await rig.exec(container, "echo", "-n", "hello")
        assert (reply.stdout, reply.stderr, reply.exit_code) == (b"hello", b"", 0)
        reply = await rig.exec(container, "sh", "-c", "echo oops >&2; exit 3")
        assert (reply.stdout, reply.stderr, reply.exit_code) == (b"", b"oops\n", 3)

    drive(body)


def test_exec_sync_timeout_CRI_110(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        before = rig.clock.elapsed_seconds()
        code, text = await rig.refused(rig.exec(container, "sleep", "4321", timeout=1))
        assert rig.clock.elapsed_seconds() - before == pytest.approx(1, abs=0.1)
        assert code == "DEADLINE_EXCEEDED"
        assert text == "failed to exec in container: timeout 1s exceeded: context deadline exceeded"
        live = rig.runtime._containers.live(container)
        await rig.clock.sleep(0.1)
        assert [proc.pid for proc in live.processes.processes.values() if "4321" in proc.argv] == []

    drive(body)


def test_exec_sync_refusals_CRI_070_CRI_110(drive):
    async def body(rig):
        prefix = "failed to exec in container: "
        unknown = "f" * 64
        assert await rig.refused(rig.exec(unknown, "true")) == (
            "NOT_FOUND",
            f'{prefix}failed to find container "{unknown}" in store: not found',
        )
        container = await rig.create(await rig.run_pod(), script="sleep 1")
        assert await rig.refused(rig.exec(container, "true")) == (
            "UNKNOWN",
            prefix + "container is in CONTAINER_CREATED state",
        )
        await rig.start(container)
        assert (await rig.refused(rig.exec(container)))[0] == "INVALID_ARGUMENT"
        code, text = await rig.refused(rig.exec(container, "nonesuch"))
        assert code == "UNKNOWN"
        assert text.startswith(prefix + 'failed to start exec "')
        assert text.endswith('exec: "nonesuch": executable file not found in $PATH: unknown')
        await rig.exited(container)
        assert (await rig.refused(rig.exec(container, "true")))[
            1
        ] == prefix + "container is in CONTAINER_EXITED state"

    drive(body)


def test_exec_output_is_limited_CRI_111(drive):
    async def body(rig):
        async def chatter(proc):
            for _ in range(20):
                await proc.write(b"x" * (1 << 20))
                await proc.write(b"y" * (1 << 20), fd=2)
            return 5

        rig.runtime._containers._programs = {"chatter": chatter}
        container = await rig.run(await rig.run_pod())
        reply = await rig.exec(container, "chatter")
        assert reply.exit_code == 5
        assert 15 << 20 < len(reply.stdout) + len(reply.stderr) < 16 << 20

    drive(body)


def test_id_prefixes_and_ambiguity_CRI_011(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        assert (await rig.status(container[:8])).id == container
        assert await rig.refused(rig.status("")) == ("UNKNOWN", "prefix can't be empty")

    drive(body)


def test_verbose_info_is_json_and_only_when_asked_CRI_061(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        container = await rig.run(sandbox)
        plain = await rig.cri.ContainerStatus(cri.ContainerStatusRequest(container_id=container))
        assert not plain.info
        verbose = await rig.cri.ContainerStatus(
            cri.ContainerStatusRequest(container_id=container, verbose=True)
        )
        info = json.loads(verbose.info["info"])
        assert info["sandboxID"] == sandbox
        assert info["config"]["command"][0] == "sh"
        assert info["pid"] > 0
        pod = await rig.cri.PodSandboxStatus(
            cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox, verbose=True)
        )
        assert json.loads(pod.info["info"])["netNamespaceClosed"] is False

    drive(body)


# What behaviours tell -------------------------------------------------------------------------------------


def told(**fields):
    return Behaviours({Target("main"): Behaviour(**fields)})


def test_told_exit_overrides_the_command(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        for attempt, script in enumerate(("sleep 600", "echo early; exit 0")):
            container = await rig.run(sandbox, script=script, attempt=attempt)
            status = await rig.exited(container)
            assert (status.exit_code, status.reason) == (88, "Error")
            assert status.finished_at - status.started_at == pytest.approx(5e9, rel=0.02)
        assert rig.log(status) == ["stdout F early"]

    drive(body, behaviours=told(run_for_seconds=5.0, exit_code=88))


def test_instances_count_from_zero_in_order_of_creation(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        codes = []
        for attempt in (0, 1, 2):
            codes.append(
                (await rig.exited(await rig.run(sandbox, script="exit 9", attempt=attempt))).exit_code
            )
        other = await rig.run(await rig.run_pod("other"), script="exit 9", pod="other")
        codes.append((await rig.exited(other)).exit_code)
        assert codes == [9, 88, 9, 9]
        assert [f.instance for f in rig.facts if isinstance(f, InstanceExited)] == [0, 1, 2, 0]

    drive(body, behaviours=Behaviours({Target("main", "web", 1): Behaviour(exit_code=88)}))


def test_told_oom_kill_CRI_045(drive):
    async def body(rig):
        status = await rig.exited(await rig.run(await rig.run_pod()))
        assert (status.exit_code, status.reason) == (137, "OOMKilled")
        (fact,) = [f for f in rig.facts if isinstance(f, InstanceExited)]
        assert (fact.oom_killed, fact.signal) == (True, 9)

    drive(body, behaviours=told(run_for_seconds=3.0, oom_kill=True))


def test_oom_kill_from_outside_CRI_045(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        rig.runtime.oom_kill("web", "main")
        status = await rig.exited(container)
        assert (status.exit_code, status.reason) == (137, "OOMKilled")

    drive(body)


def test_told_to_ignore_sigterm(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod(), script=TRAP)
        await rig.clock.sleep(1)
        before = rig.clock.elapsed_seconds()
        await rig.stop(container, 4)
        assert rig.clock.elapsed_seconds() - before == pytest.approx(4, abs=0.1)
        assert (await rig.status(container)).exit_code == 137

    drive(body, behaviours=told(ignore_sigterm=True))


def test_told_end_can_be_stopped_before(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        running = await rig.run(sandbox, script=TRAP)
        ended = await rig.run(sandbox, script="exit 0", attempt=1)
        await rig.clock.sleep(1)
        await rig.stop(running, 10)
        await rig.stop(ended, 10)
        assert rig.clock.elapsed_seconds() < 3
        assert (await rig.status(running)).exit_code == 0
        assert (await rig.status(ended)).exit_code == 143

    drive(body, behaviours=told(run_for_seconds=100.0, exit_code=5))


def test_told_start_failure_CRI_042(drive):
    async def body(rig):
        container = await rig.create(await rig.run_pod())
        code, text = await rig.refused(rig.start(container))
        assert code == "UNKNOWN"
        assert text.endswith("unable to start container process: no GPU: unknown")
        assert (await rig.status(container)).reason == "StartError"

    drive(body, behaviours=told(start_failure="no GPU"))


def test_told_log_lines(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod(), script="sleep 5")
        await rig.clock.sleep(1)
        assert rig.log(await rig.status(container)) == ["stdout F now"]
        status = await rig.exited(container)
        assert rig.log(status) == ["stdout F now", "stderr F later"]

    lines = (LogLine("now"), LogLine("later", 2.0, "stderr"), LogLine("never", 60.0))
    drive(body, behaviours=told(log_lines=lines))


def test_told_readiness_is_for_probes_only_CRI_113(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        codes = []
        for _ in range(3):
            codes.append((await rig.exec(container, "false", timeout=1)).exit_code)
            codes.append((await rig.exec(container, "false")).exit_code)
            await rig.clock.sleep(2)
        assert codes == [1, 1, 0, 1, 1, 1]

    steps = (ReadinessStep(1.0, True), ReadinessStep(3.0, False))
    drive(body, behaviours=told(readiness=steps))


def test_python_program_instead_of_the_command(drive):
    async def program(proc):
        await proc.write(f"{proc.argv[0]} on {proc.hostname}\n")
        await proc.sleep(3)
        return 42

    async def body(rig):
        container = await rig.run(await rig.run_pod())
        await rig.clock.sleep(1)
        assert (await rig.exec(container, "sh", "-c", "exit 6")).exit_code == 6
        status = await rig.exited(container)
        assert status.exit_code == 42
        assert rig.log(status) == ["stdout F sh on web"]

    drive(body, behaviours=told(program=program))


def test_same_seed_same_ids_and_times(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        status = await rig.exited(await rig.run(sandbox, script="sleep 1; exit 2"))
        return status.SerializeToString(deterministic=True), tuple(rig.facts)

    assert drive(body, latency=MeasuredLatency) == drive(body, latency=MeasuredLatency)
    assert drive(body, latency=MeasuredLatency) != drive(body, seed=2, latency=MeasuredLatency)


def test_the_log_directory_of_the_create_call_counts_CRI_125(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        config = rig.pod_config()
        config.log_directory = "/elsewhere/logs/"
        request = cri.CreateContainerRequest(
            pod_sandbox_id=sandbox, config=rig.container_config(script="echo x"), sandbox_config=config
        )
        container = (await rig.cri.CreateContainer(request)).container_id
        await rig.start(container)
        status = await rig.exited(container)
        assert status.log_path == "/elsewhere/logs/main/0.log"
        assert rig.log(status) == ["stdout F x"]

    drive(body)


@pytest.mark.parametrize("link", ["main", "main/0.log"])
def test_a_log_path_through_a_link_fails_the_start_CRI_125(drive, link):
    async def body(rig):
        rig.files.make_dirs("/secret")
        rig.files.write("/secret/0.log", b"kept")
        container = await rig.create(await rig.run_pod(), script="echo x")
        path = "/var/log/pods/default_web_uid-web/" + link
        rig.files.make_dirs(path.rpartition("/")[0])
        rig.files.symlink("/secret" if link == "main" else "/secret/0.log", path)
        code, text = await rig.refused(rig.start(container))
        assert (code, text.endswith("is a symbolic link")) == ("UNKNOWN", True)
        assert (await rig.status(container)).reason == "StartError"
        assert rig.files.read("/secret/0.log") == b"kept"

    drive(body)


class SlowToNotice(ZeroLatency):
    """Everything is immediate but that an exit shows."""

    def draw(self, method, variant=""):
        return 1.0 if method == "Exit" else 0.0


def test_an_end_shows_some_time_after_it_happened_CRI_192(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod(), script="exit 4")
        await rig.clock.sleep(0.5)
        assert (await rig.status(container)).state == cri.CONTAINER_RUNNING
        code, text = await rig.refused(rig.exec(container, "true"))
        assert (code, "cannot exec in a stopped container" in text) == ("UNKNOWN", True)
        await rig.stop(container, 30)
        assert rig.clock.elapsed_seconds() < 1.1
        status = await rig.status(container)
        assert (status.state, status.exit_code) == (cri.CONTAINER_EXITED, 4)
        assert rig.clock.now_ns() - status.finished_at == pytest.approx(1e9, rel=0.01)
        (fact,) = [fact for fact in rig.facts if isinstance(fact, InstanceExited)]
        assert fact.at_ns == status.finished_at

    drive(body, latency=SlowToNotice())
