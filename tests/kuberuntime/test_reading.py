"""Reading pods back from the runtime (POD-904, POD-917 to POD-919, RST-196, RST-197)."""

import pytest

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.api.types import Container
from kubelet_emu.container.runtime import ContainerState, SandboxState
from kubelet_emu.kuberuntime.reading import running_pod_of, sandbox_ips, to_runtime_container
from trio_grpc import Code, StatusError


def test_pod_917_everything_newest_first(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("a", "b")
        await bench.sync(pod)
        bench.cri.exit("a", 3)
        await bench.sync(pod)
        status = await bench.status(pod)
        assert [(c.name, c.restart_count, c.state) for c in status.containers] == [
            ("a", 1, ContainerState.RUNNING),
            ("b", 0, ContainerState.RUNNING),
            ("a", 0, ContainerState.EXITED),
        ]
        assert status.latest("a").hash == status.instances("a")[1].hash != 0
        assert (status.ips, status.sandboxes[0].state) == (("10.0.0.9",), SandboxState.READY)
        assert [c.name for c in status.active] == ["a", "b", "a"]
        assert [c.name for c in running_pod_of(status).containers] == ["a", "b"]

    on_bench(body)


def test_pod_917_no_addresses_without_a_ready_sandbox(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("a")
        await bench.sync(pod)
        (sandbox,) = bench.cri.sandboxes.values()
        sandbox.state = cri.SANDBOX_NOTREADY
        status = await bench.status(pod)
        assert (status.ips, status.active) == ((), ())

    on_bench(body)


def test_pod_904_lists_carry_states_and_hashes(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("a")
        await bench.sync(pod)
        bench.cri.exit("a", 0)
        (listed,) = await bench.runtime.get_pods(include_exited=True)
        assert (listed.uid, listed.name, listed.namespace) == ("u", "p", "n")
        assert [c.state for c in listed.containers] == [ContainerState.EXITED]
        assert [s.state for s in listed.sandboxes] == [ContainerState.RUNNING]
        assert listed.containers[0].hash

    on_bench(body)


def test_cri_033_an_address_that_is_none_drops_all():
    status = cri.PodSandboxStatus()
    assert sandbox_ips(status) == ()
    status.network.ip = "10.0.0.1"
    status.network.additional_ips.add(ip="fd00::1")
    assert sandbox_ips(status) == ("10.0.0.1", "fd00::1")
    status.network.additional_ips.add(ip="nonsense")
    assert sandbox_ips(status) == ()


def test_cri_046_codes_and_reasons_count_only_after_the_exit():
    status = cri.ContainerStatus(
        state=cri.CONTAINER_RUNNING, exit_code=5, reason="x", message="y", finished_at=9, started_at=8
    )
    running = to_runtime_container(status, "sb")
    assert (running.exit_code, running.reason, running.message, running.finished_at_ns) == (0, "", "", 0)
    status.state = cri.CONTAINER_EXITED
    assert to_runtime_container(status, "sb").exit_code == 5


MESSAGES = [
    pytest.param("File", b"done", 0, "", "done", id="RST-196-file"),
    pytest.param("File", b"", 1, "", "", id="RST-196-empty"),
    pytest.param("FallbackToLogsOnError", b"", 1, "", "last words\n", id="RST-197-log"),
    pytest.param("FallbackToLogsOnError", b"x", 1, "oom", "oom: x", id="RST-198-both"),
    pytest.param("FallbackToLogsOnError", b"", 0, "", "", id="RST-197-success"),
    pytest.param("File", None, 1, "", "", id="RST-196-file-gone"),
]


@pytest.mark.parametrize(("policy", "written", "code", "runtime", "expected"), MESSAGES)
def test_termination_messages(on_bench, a_pod, policy, written, code, runtime, expected):
    async def body(bench):
        pod = a_pod(Container(name="a", termination_message_policy=policy))
        await bench.sync(pod)
        status = bench.cri.by_name("a")
        mount = next(m for m in status.mounts if m.container_path == "/dev/termination-log")
        assert mount.host_path.startswith("/var/lib/kubelet/pods/u/containers/a/")
        if written is None:
            bench.files.remove(mount.host_path)
        else:
            bench.files.write(mount.host_path, written)
        bench.files.append(status.log_path, b"2026-01-01T00:00:00Z stdout F last words\n")
        bench.cri.exit("a", code)
        status.message = runtime
        assert (await bench.status(pod)).latest("a").message == expected

    on_bench(body)


def test_rst_197_a_log_that_cannot_be_read_says_so(on_bench, a_pod):
    async def body(bench):
        pod = a_pod(Container(name="a", termination_message_policy="FallbackToLogsOnError"))
        await bench.sync(pod)
        bench.files.write(bench.cri.by_name("a").log_path, b"not a log\n")
        bench.cri.exit("a", 1)
        message = (await bench.status(pod)).latest("a").message
        assert message.startswith("Error on reading termination message from logs: ")

    on_bench(body)


def test_pod_917_a_sandbox_that_vanishes_is_left_out(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("a")
        await bench.sync(pod)
        bench.cri.fail = {"PodSandboxStatus": StatusError(Code.NOT_FOUND, "gone")}
        assert (await bench.status(pod)).sandboxes == ()

    on_bench(body)
