# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false
"""Many clients, many streams, clients that vanish, bad requests of every sort: nothing hangs or leaks."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from k8s_proto import runtime_v1_pb2 as cri
from tests.cri_fake.grpc_client import METHODS, Client, Served

STREAMS = 200
CLIENTS = 64
SETTLE_SECONDS = 30.0


@pytest.fixture(scope="module")
def served():
    with Served("--latency", "zero", "--seed", "1") as running:
        yield running


@pytest.fixture
def client(served):
    with Client(served.path) as made:
        yield made


def settled(measure, at_most):
    """Wait until a figure is down to what it may be; threads and sockets go a moment after their call."""
    give_up = time.monotonic() + SETTLE_SECONDS
    while measure() > at_most:
        assert time.monotonic() < give_up, (measure(), at_most)
        time.sleep(0.05)


def test_64_clients_at_once_leave_nothing(served):
    def life(number):
        with Client(served.path) as client:
            sandbox, config = client.pod(f"many-{number}")
            container = client.container(sandbox, config)
            assert client.ExecSync(container_id=container, cmd=["echo", "hi"], timeout=20).stdout == b"hi\n"
            assert sandbox in client.pods()
            client.StopPodSandbox(pod_sandbox_id=sandbox)
            client.RemovePodSandbox(pod_sandbox_id=sandbox)

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(life, range(CLIENTS)))
    before = served.descriptors()
    for _ in range(2):
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(life, range(CLIENTS)))
    settled(served.descriptors, before)
    with Client(served.path) as client:
        assert client.listed() == client.pods() == []


def test_200_open_streams_and_unary_alive(served, client):
    client.Version()
    before = served.descriptors()
    streams = [client.GetContainerEvents(deadline=60) for _ in range(STREAMS)]
    stop = threading.Event()

    def make_events():
        attempt = 0
        while not stop.is_set():
            attempt += 1
            sandbox, _ = client.pod("streams", attempt)
            client.RemovePodSandbox(pod_sandbox_id=sandbox)

    maker = threading.Thread(target=make_events)
    maker.start()
    try:
        assert all(next(stream).container_id for stream in streams)
        for _ in range(50):
            assert client.Version(deadline=10).version == "0.1.0"
    finally:
        stop.set()
        maker.join(60)
        for stream in streams:
            stream.cancel()
    assert not maker.is_alive()
    settled(served.descriptors, before)
    sandbox, _ = client.pod("after-streams")
    client.RemovePodSandbox(pod_sandbox_id=sandbox)


def test_clients_that_vanish_in_the_middle_of_a_stream_leave_nothing(served, client):
    client.Version()
    before, threads = served.descriptors(), served.threads()
    for _ in range(20):
        with Client(served.path) as gone:
            streams = [gone.GetContainerEvents(deadline=60) for _ in range(5)]
            gone.Version()
            del streams
    settled(served.descriptors, before + 1)
    settled(served.threads, threads)
    sandbox, _ = client.pod("after")
    client.RemovePodSandbox(pod_sandbox_id=sandbox)


def test_peers_that_speak_no_grpc_leave_nothing(served, client):
    client.Version()
    before = served.descriptors()
    for data in (
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100,
        b"\0" * 9,
    ):
        for _ in range(5):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
                peer.connect(str(served.path))
                peer.sendall(data)
    settled(served.descriptors, before + 1)
    assert client.Version().version == "0.1.0"


def test_calls_whose_time_is_over_leave_nothing_half_made(served, client):
    codes = set()
    for number in range(30):
        config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name=f"late-{number}", uid="u"))
        try:
            client.RunPodSandbox(config=config, deadline=0.001)
        except grpc.RpcError as error:
            codes.add(error.code().name)
    assert codes <= {"DEADLINE_EXCEEDED"}
    pods = client.pods()
    for sandbox in pods:
        client.RemovePodSandbox(pod_sandbox_id=sandbox)
    assert client.pods() == []


def test_messages_over_the_limit_are_refused_and_the_connection_lives(client):
    config = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name="big", uid="u"), annotations={"a": "x" * (16 << 20)}
    )
    code, text = client.refused("RunPodSandbox", config=config)
    assert code == "RESOURCE_EXHAUSTED"
    assert "larger than max" in text
    assert client.Version().version == "0.1.0"
    config.annotations["a"] = "x" * ((16 << 20) - 4096)
    sandbox = client.RunPodSandbox(config=config).pod_sandbox_id
    client.RemovePodSandbox(pod_sandbox_id=sandbox)


def test_names_and_labels_at_their_limits_and_odd_bytes(client):
    labels = {f"{'p' * 253}/{'n' * 63}": "v" * 63, "": "", "\u0000": "\uffff", "🦀" * 50: "\n\t"}
    config = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name="n" * 253, namespace="../..", uid="\u0001", attempt=2**32 - 1),
        labels=labels,
        annotations={"big": "a" * 262_144},
    )
    sandbox = client.RunPodSandbox(config=config).pod_sandbox_id
    status = client.PodSandboxStatus(pod_sandbox_id=sandbox, verbose=True).status
    assert status.metadata == config.metadata
    assert dict(status.labels) == labels
    wanted = cri.PodSandboxFilter(label_selector={"\u0000": "\uffff"})
    assert [each.id for each in client.ListPodSandbox(filter=wanted).items] == [sandbox]
    for odd in ("\u0000", "../../etc", "%s", "\n", "🦀", "-" * 70_000, "G" * 64):
        assert client.refused("PodSandboxStatus", pod_sandbox_id=odd)[0] == "NOT_FOUND"
        assert client.refused("ContainerStatus", container_id=odd)[0] == "NOT_FOUND"
        client.StopContainer(container_id=odd)
        client.RemoveImage(image=cri.ImageSpec(image=odd))
    assert client.refused("PodSandboxStatus", pod_sandbox_id="")[0] == "UNKNOWN"
    client.RemovePodSandbox(pod_sandbox_id=sandbox)


@pytest.mark.parametrize(
    "log_path", ["../../../../escaped", "/../escaped", "a/../../escaped", "link/escaped"]
)
def test_hostile_log_paths_do_not_escape(served, client, log_path):
    name = f"log{abs(hash(log_path))}"
    folder = f"/var/log/pods/{name}"
    real = served.node / folder.lstrip("/")
    real.mkdir(parents=True)
    (real / "link").symlink_to(served.folder)
    sandbox, config = client.pod(name, log_directory=folder)
    wanted = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="main"),
        image=cri.ImageSpec(image="busybox:1.36"),
        command=["echo", "hi"],
        log_path=log_path,
    )
    code = ""
    try:
        made = client.CreateContainer(pod_sandbox_id=sandbox, config=wanted, sandbox_config=config)
        client.StartContainer(container_id=made.container_id)
    except grpc.RpcError as error:
        code = error.code().name
    assert code in ("INVALID_ARGUMENT", "UNKNOWN", "")
    client.RemovePodSandbox(pod_sandbox_id=sandbox)
    escaped = [path for path in served.folder.rglob("escaped*") if real not in path.resolve().parents]
    assert escaped == []


def test_an_empty_request_to_every_method(client):
    codes = set()
    for name, (_, method) in METHODS.items():
        try:
            reply = getattr(client, name)(deadline=5 if name != "GetContainerEvents" else 0.2)
            if method.server_streaming:
                list(reply)
        except grpc.RpcError as error:
            codes.add(error.code().name)
    assert codes <= {"UNKNOWN", "NOT_FOUND", "INVALID_ARGUMENT", "UNIMPLEMENTED", "DEADLINE_EXCEEDED"}
    assert client.Version().version == "0.1.0"


def test_restart_of_the_daemon_under_load(served):
    from cri_fake.control.server import ask

    codes, stop = [], threading.Event()
    before, running = served.descriptors(), served.threads()

    def work(number):
        with Client(served.path) as client:
            attempt = 0
            while not stop.is_set():
                attempt += 1
                try:
                    sandbox, _ = client.pod(f"load-{number}", attempt)
                    client.RemovePodSandbox(pod_sandbox_id=sandbox)
                except grpc.RpcError as error:
                    codes.append(error.code().name)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        time.sleep(0.3)
        assert ask(f"{served.path}.ctl", "crash runtime down 200ms")["ok"]
    time.sleep(0.3)
    stop.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert set(codes) <= {"UNAVAILABLE", "CANCELLED"}
    settled(served.descriptors, before)
    settled(served.threads, running)
    with Client(served.path) as client:
        for sandbox in client.pods():
            client.RemovePodSandbox(pod_sandbox_id=sandbox)
        sandbox, _ = client.pod("load-0")
        assert client.pods() == [sandbox]
        client.RemovePodSandbox(pod_sandbox_id=sandbox)


@pytest.mark.slow
def test_1000_sandboxes_with_3_containers_each():
    """Slow: 3000 emulated processes. The figures are printed; the bounds leave room for a busy machine."""
    with Served("--latency", "zero", "--seed", "1") as served:
        with Client(served.path) as client:
            client.Version()
            idle_kib = served.memory_kib()
        start = time.monotonic()

        def some(numbers):
            with Client(served.path) as client:
                for number in numbers:
                    sandbox, config = client.pod(f"p{number}")
                    for name in "abc":
                        client.container(sandbox, config, name)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(some, [range(first, 1000, 8) for first in range(8)]))
        made_seconds = time.monotonic() - start
        full_kib = served.memory_kib()
        with Client(served.path) as client:
            start = time.monotonic()
            assert len(client.listed()) == 3000
            assert len(client.pods()) == 1000
            list_seconds = time.monotonic() - start
            start = time.monotonic()
            for sandbox in client.pods():
                client.RemovePodSandbox(pod_sandbox_id=sandbox)
            removed_seconds = time.monotonic() - start
            assert client.listed() == client.pods() == []
        threads = served.threads()
        print(
            f"\nmade in {made_seconds:.1f} s, {idle_kib / 1024:.0f} -> {full_kib / 1024:.0f} MiB "
            f"({(full_kib - idle_kib) / 1000:.0f} KiB a pod), listed in {list_seconds * 1000:.0f} ms, "
            f"removed in {removed_seconds:.1f} s, {served.cpu_seconds():.1f} s CPU, {threads} threads"
        )
        assert full_kib - idle_kib < 400 * 1024
