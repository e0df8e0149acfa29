# pyright: basic, reportOptionalMemberAccess=false
"""The runtime as other programs meet it: a socket, plain grpcio, a process of its own."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner

from cri_fake.cli import main
from cri_fake.serving import CannotServe, ServeOptions, behaviours_from, serve_until_interrupted
from k8s_proto import runtime_v1_pb2 as cri

ROOT = Path(__file__).parents[2]
RUNTIME = "/runtime.v1.RuntimeService/"
IMAGE = "/runtime.v1.ImageService/"
LIMIT_SECONDS = 20


class Client:
    """grpcio without anything of ours but the messages."""

    def __init__(self, path: Path) -> None:
        options = [("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", 16 << 20)]
        self.channel = grpc.insecure_channel(f"unix://{path}", options=options)

    def __call__(
        self, method: str, request: Any, reply: Any, *, service: str = RUNTIME, timeout: float = 10
    ) -> Any:
        call = self.channel.unary_unary(
            service + method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply.FromString,
        )
        return call(request, timeout=timeout, wait_for_ready=True)

    def code(self, *call: Any, **options: Any) -> str:
        with pytest.raises(grpc.RpcError) as caught:
            self(*call, **options)
        return caught.value.code().name


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A ``cri-fake serve`` of its own for the tests here; gives its socket and its node folder."""
    folder = tmp_path_factory.mktemp("cri")
    node = folder / "node"
    node.mkdir()
    path = folder / "private" / "cri.sock"
    command = [sys.executable, "-m", "cri_fake.cli", "serve", "--socket", str(path), "--root", str(node)]
    command += ["--seed", "1", "--latency", "x0.1", "--exit", "told=88@0.2s"]
    environment = {"PYTHONPATH": f"{ROOT / 'proto'}:{ROOT}", "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith(f"serving CRI v1 on unix://{path}, node files in {node}, seed 1"), line
    yield path, node
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT_SECONDS) == 0
    assert process.stderr.read() == ""
    process.stderr.close()
    assert list(path.parent.iterdir()) == []


@pytest.fixture
def client(served):
    made = Client(served[0])
    yield made
    made.channel.close()


def pod_config(name: str) -> cri.PodSandboxConfig:
    config = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=name, namespace="default", uid=f"uid-{name}"),
        hostname=name,
        log_directory=f"/var/log/pods/{name}",
        labels={"io.kubernetes.pod.name": name},
    )
    config.linux.security_context.namespace_options.pid = cri.CONTAINER
    return config


def create(client: Client, sandbox: str, name: str, script: str, pod: str) -> str:
    config = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=name),
        image=cri.ImageSpec(image="busybox:1.36"),
        command=["sh", "-c", script],
        log_path=f"{name}/0.log",
    )
    config.linux.security_context.namespace_options.pid = cri.CONTAINER
    request = cri.CreateContainerRequest(
        pod_sandbox_id=sandbox, config=config, sandbox_config=pod_config(pod)
    )
    return client("CreateContainer", request, cri.CreateContainerResponse).container_id


def status(client: Client, container: str) -> cri.ContainerStatus:
    request = cri.ContainerStatusRequest(container_id=container)
    return client("ContainerStatus", request, cri.ContainerStatusResponse).status


def exited(client: Client, container: str) -> cri.ContainerStatus:
    give_up = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < give_up:
        found = status(client, container)
        if found.state == cri.CONTAINER_EXITED:
            return found
    raise AssertionError("did not exit")


def test_what_a_client_asks_first_CRI_003(client):
    assert client("Version", cri.VersionRequest(), cri.VersionResponse).version == "0.1.0"
    reply = client("ImageFsInfo", cri.ImageFsInfoRequest(), cri.ImageFsInfoResponse, service=IMAGE)
    assert reply.image_filesystems[0].HasField("used_bytes")


def test_a_pod_through_its_life(client, served):
    sandbox = client(
        "RunPodSandbox", cri.RunPodSandboxRequest(config=pod_config("life")), cri.RunPodSandboxResponse
    ).pod_sandbox_id
    container = create(client, sandbox, "main", "echo hello World; sleep 100", "life")
    told = create(client, sandbox, "told", "sleep 100", "life")
    for each in (container, told):
        client("StartContainer", cri.StartContainerRequest(container_id=each), cri.StartContainerResponse)
    request = cri.ExecSyncRequest(container_id=container, cmd=["echo", "-n", "hello"], timeout=10)
    assert client("ExecSync", request, cri.ExecSyncResponse).stdout == b"hello"
    log = served[1] / "var/log/pods/life/main/0.log"
    assert log.read_text().endswith(" stdout F hello World\n")
    assert exited(client, told).exit_code == 88
    client("StopContainer", cri.StopContainerRequest(container_id=container), cri.StopContainerResponse)
    assert status(client, container).exit_code == 137
    client(
        "RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox), cri.RemovePodSandboxResponse
    )
    listed = client("ListPodSandbox", cri.ListPodSandboxRequest(), cri.ListPodSandboxResponse)
    assert sandbox not in [each.id for each in listed.items]


def test_codes_cross_the_wire_CRI_070(client):
    unknown = "f" * 64
    call = ("ContainerStatus", cri.ContainerStatusRequest(container_id=unknown), cri.ContainerStatusResponse)
    assert client.code(*call) == "NOT_FOUND"
    call = ("RunPodSandbox", cri.RunPodSandboxRequest(), cri.RunPodSandboxResponse)
    assert client.code(*call) == "UNKNOWN"
    call = ("Exec", cri.ExecRequest(stdout=True), cri.ExecResponse)
    assert client.code(*call) == "INVALID_ARGUMENT"
    call = ("PullImage", cri.PullImageRequest(image=cri.ImageSpec(image="a/b:1")), cri.PullImageResponse)
    assert client.code(*call, service=IMAGE, timeout=0.001) == "DEADLINE_EXCEEDED"


def test_odd_bytes_in_names_and_labels_at_their_limits(client):
    config = pod_config("odd")
    config.metadata.name = "ü" * 100 + "/../\n"
    config.labels["k" * 317] = "v" * 65536
    config.annotations["a"] = "\u0000\uffff" * 1000
    sandbox = client(
        "RunPodSandbox", cri.RunPodSandboxRequest(config=config), cri.RunPodSandboxResponse
    ).pod_sandbox_id
    request = cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox, verbose=True)
    found = client("PodSandboxStatus", request, cri.PodSandboxStatusResponse).status
    assert found.metadata == config.metadata
    assert found.labels == config.labels
    assert found.annotations == config.annotations
    client(
        "RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox), cri.RemovePodSandboxResponse
    )


def test_ctl_changes_a_running_runtime(client, served):
    def ctl(*words):
        return CliRunner().invoke(main, ["ctl", "--socket", str(served[0]), *words])

    assert '"daemon": "up"' in ctl("status").output
    told = ctl('Status: 1*error(UNAVAILABLE, "gone away")')
    assert told.exit_code == 0, told.output
    call = ("Status", cri.StatusRequest(), cri.StatusResponse)
    assert client.code(*call) == "UNAVAILABLE"
    assert len(client(*call).status.conditions) == 2
    assert ctl("faults", "clear").output == '{\n  "faults": ""\n}\n'
    wrong = ctl("disk", "half")
    assert (wrong.exit_code, wrong.output) == (1, "cri-fake: 'disk half': write disk full or ok\n")
    assert ctl("restart", "runtime", "down", "100ms").exit_code == 0
    assert client("Version", cri.VersionRequest(), cri.VersionResponse).version == "0.1.0"


def test_socket_is_private(served):
    path = served[0]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_folder_open_to_others_is_told(tmp_path):
    tmp_path.chmod(0o755)
    command = [sys.executable, "-m", "cri_fake.cli", "serve", "--socket", str(tmp_path / "cri.sock")]
    environment = {"PYTHONPATH": f"{ROOT / 'proto'}:{ROOT}", "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline().startswith("serving CRI v1")
        assert process.stderr.readline().startswith(f"--socket: {tmp_path} is open to others (mode bits 055)")
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_SECONDS) == 0
    assert (tmp_path.stat().st_mode & 0o777) == 0o755


def test_live_socket_is_not_taken(served):
    with pytest.raises(CannotServe, match="--socket"):
        serve_until_interrupted(ServeOptions(socket=str(served[0]), root=str(served[1])), say=print)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--latency", "fast"], "--latency: unknown latency 'fast'"),
        (["--exit", "trainer=1"], "--exit: 'trainer=1': write [POD/]NAME[#N]=CODE@TIME"),
        (["--root", "/no/such/folder"], "--root: /no/such/folder is not a folder: make it first"),
        (["--pod-cidr", "10.0.0.0/31"], "--pod-cidr: pod CIDR 10.0.0.0/31 has no room for a pod"),
        (["--behaviour", "/no/such/file"], "cannot read /no/such/file"),
        (["--script", "/no/such/file"], "cannot read /no/such/file"),
        (["--script", "/dev/null", "--faults", "Exec hang"], "--faults: rule 'Exec hang': no ':'"),
        (["--profile", "docker"], "--profile: 'docker' is not known: use one of containerd-2"),
    ],
)
def test_misuse_says_what_to_do(tmp_path, options, says):
    result = CliRunner().invoke(main, ["serve", "--socket", str(tmp_path / "cri.sock"), *options])
    assert result.exit_code == 2
    assert f"cri-fake: {says}" in result.output
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_path_too_long_is_a_clear_error(tmp_path):
    result = CliRunner().invoke(main, ["serve", "--socket", str(tmp_path / ("x" * 120))])
    assert result.exit_code == 2
    assert "at most 107 bytes" in result.output


def test_help_has_examples():
    result = CliRunner().invoke(main, ["serve", "--help"])
    assert result.exit_code == 0
    assert "cri-fake serve --socket" in result.output


def test_exit_wins_over_the_file():
    text = "containers: {a: {runFor: 5s, exitCode: 3, ignoreSigterm: true}}"
    options = ServeOptions(socket="s", behaviour_text=text, behaviour_file="b.yaml", exits=("a=4@1s",))
    found = behaviours_from(options).for_instance("p", "a", 0)
    assert (found.run_for_seconds, found.exit_code, found.ignore_sigterm) == (1.0, 4, True)
