"""``fake-devices`` as a process of its own, against a Registration server that plain grpcio serves here.

Nothing of this project is on the kubelet's side of these tests but the message classes.
"""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from k8s_proto import deviceplugin_v1beta1_pb2 as pb
from k8s_proto import dra_v1_pb2, dra_v1beta1_pb2
from k8s_proto import pluginregistration_v1_pb2 as reg

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 20.0


class PlainKubelet:
    """A Registration service as grpcio's own documentation would write it; dials back during Register."""

    def __init__(self, folder):
        self.folder = folder
        self.requests = queue.Queue()
        self.lists = queue.Queue()
        self._pool = ThreadPoolExecutor(8)
        self._server = grpc.server(self._pool)
        register = grpc.unary_unary_rpc_method_handler(
            self._register,
            request_deserializer=pb.RegisterRequest.FromString,
            response_serializer=pb.Empty.SerializeToString,
        )
        self._server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": register})]
        )
        self._server.add_insecure_port(f"unix:{folder}/kubelet.sock")
        self._server.start()

    def _register(self, request, context):
        channel = dial(f"{self.folder}/{request.endpoint}")
        options = call(channel, "GetDevicePluginOptions", pb.Empty(), pb.DevicePluginOptions)
        self.requests.put((request, options))
        threading.Thread(target=self._follow, args=[channel], daemon=True).start()
        return pb.Empty()

    def _follow(self, channel):
        watch = channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            request_serializer=pb.Empty.SerializeToString,
            response_deserializer=pb.ListAndWatchResponse.FromString,
        )
        with contextlib.suppress(grpc.RpcError):
            for item in watch(pb.Empty()):
                self.lists.put({device.ID: device.health for device in item.devices})

    def stop(self):
        self._server.stop(None).wait()
        self._pool.shutdown()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self.folder}/kubelet.sock")


def dial(path):
    return grpc.insecure_channel(f"unix:{path}", options=[("grpc.default_authority", "localhost")])


def call(channel, method, request, reply_type, service="v1beta1.DevicePlugin"):
    invoke = channel.unary_unary(
        f"/{service}/{method}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=reply_type.FromString,
    )
    return invoke(request, timeout=WAIT_SECONDS)


@pytest.fixture
def kubelet_dir():
    """A folder with a short path: sockets lie in it, and pytest's own folders are too long for them."""
    with tempfile.TemporaryDirectory(prefix="ke-") as name:
        folder = Path(name) / "kubelet"
        (folder / "device-plugins").mkdir(parents=True)
        yield folder


@pytest.fixture
def start(kubelet_dir):
    """Start ``fake-devices`` with these arguments; it is ended after the test."""
    running = []

    def launch(*arguments):
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'proto'}{os.pathsep}{ROOT}"}
        process = subprocess.Popen(
            [sys.executable, "-m", "devices.cli", *arguments],
            env=environment,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield lambda *arguments: launch("serve", *arguments, "--kubelet-dir", str(kubelet_dir))
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_plain_grpcio_kubelet_gets_gpus_health_and_answers(start, kubelet_dir):
    kubelet = PlainKubelet(kubelet_dir / "device-plugins")
    try:
        process = start("gpu", "--count", "4", "--numa-nodes", "2", "--fail", "#3@0.5s")
        request, options = kubelet.requests.get(timeout=WAIT_SECONDS)
        assert (request.version, request.resource_name) == ("v1beta1", "nvidia.com/gpu")
        assert request.options == options
        first = kubelet.lists.get(timeout=WAIT_SECONDS)
        assert len(first) == 4
        assert set(first.values()) == {"Healthy"}
        second = kubelet.lists.get(timeout=WAIT_SECONDS)
        assert list(second.values()) == ["Healthy"] * 3 + ["Unhealthy"]
        ids = list(first)[:2]
        with dial(f"{kubelet_dir}/device-plugins/{request.endpoint}") as channel:
            asked = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
            reply = call(channel, "Allocate", asked, pb.AllocateResponse)
            assert dict(reply.container_responses[0].envs) == {"NVIDIA_VISIBLE_DEVICES": ",".join(ids)}
            wrong = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=["x"])])
            with pytest.raises(grpc.RpcError) as refused:
                call(channel, "Allocate", wrong, pb.AllocateResponse)
            assert refused.value.code() is grpc.StatusCode.UNKNOWN
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_SECONDS) == 0
        left = os.listdir(kubelet_dir / "device-plugins")
        assert left == ["kubelet.sock"]
    finally:
        kubelet.stop()


def test_dev_013_registers_with_the_next_kubelet_too(start, kubelet_dir):
    folder = kubelet_dir / "device-plugins"
    start("generic", "--resource", "vendor.com/widget", "--count", "3")
    for _ in range(2):
        kubelet = PlainKubelet(folder)
        try:
            request, _ = kubelet.requests.get(timeout=WAIT_SECONDS)
            assert request.resource_name == "vendor.com/widget"
            assert list(kubelet.lists.get(timeout=WAIT_SECONDS)) == ["Dev-0", "Dev-1", "Dev-2"]
        finally:
            kubelet.stop()
            for path in folder.iterdir():
                if path.is_socket():
                    path.unlink()


def test_dev_031_through_the_watcher_folder(start, kubelet_dir):
    process = start("tpu", "--register", "watcher")
    path = None
    while path is None:
        line = process.stderr.readline()
        assert line, "ended early"
        path = line.partition("serving ")[2].strip() or None
    assert path.startswith(f"{kubelet_dir}/plugins_registry/tpu-")
    with dial(path) as channel:
        info = call(
            channel, "GetInfo", reg.InfoRequest(), reg.PluginInfo, service="pluginregistration.Registration"
        )
    assert (info.type, info.name) == ("DevicePlugin", "google.com/tpu")


def test_sighup_reads_the_profile_again(start, kubelet_dir, tmp_path):
    profile = tmp_path / "profile.yaml"
    profile.write_text("{resource: v.com/a, count: 1}")
    kubelet = PlainKubelet(kubelet_dir / "device-plugins")
    try:
        process = start(str(profile))
        assert kubelet.requests.get(timeout=WAIT_SECONDS)[0].resource_name == "v.com/a"
        profile.write_text("{resource: v.com/b, count: many}")
        process.send_signal(signal.SIGHUP)
        while "going on as before" not in process.stderr.readline():
            assert process.poll() is None
        profile.write_text("{resource: v.com/b, count: 1}")
        process.send_signal(signal.SIGHUP)
        assert kubelet.requests.get(timeout=WAIT_SECONDS)[0].resource_name == "v.com/b"
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 130
    finally:
        kubelet.stop()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nosuch"], "there is no preset 'nosuch'"),
        (["a100x8", "--count", "3"], "--count, --resource and --numa-nodes go with"),
        (["gpu", "--faults", "Allocate: boom"], "--faults"),
        (["gpu", "--fail", "#9@1s"], "no device '#9'"),
        (["gpu", "--fail", "#1"], "write ID@TIME"),
        (["generic"], "resource is missing"),
        (["tpu", "--count", "3"], "a TPU host has"),
        (["tpu", "--numa-nodes", "2"], "--numa-nodes"),
    ],
)
def test_misuse_is_told_without_a_traceback(capsys, arguments, says):
    from devices.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["serve", *arguments])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error


def test_presets_are_listed(capsys):
    from devices.cli import main

    with pytest.raises(SystemExit):
        main(["presets"])
    assert "nvidia.com/gpu x 8" in capsys.readouterr().out


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_dra_driver_for_a_plain_grpcio_kubelet(kubelet_dir, version):
    """One process, real time: the driver is found, prepares, is asked again, and gives back."""
    messages = dra_v1_pb2 if version == "v1" else dra_v1beta1_pb2
    service = f"k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'proto'}{os.pathsep}{ROOT}"}
    command = [
        "dra",
        "gpu.vendor.com",
        "--count",
        "1",
        "--cdi",
        "vendor.com/gpu",
        "--versions",
        f"{version}.DRAPlugin",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "devices.cli", *command, "--kubelet-dir", str(kubelet_dir)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert "serving" in process.stderr.readline()
        with dial(f"{kubelet_dir}/plugins_registry/gpu.vendor.com-reg.sock") as channel:
            registration = "pluginregistration.Registration"
            info = call(channel, "GetInfo", reg.InfoRequest(), reg.PluginInfo, service=registration)
        assert (info.type, info.name) == ("DRAPlugin", "gpu.vendor.com")
        assert list(info.supported_versions) == [f"{version}.DRAPlugin"]
        claims = [messages.Claim(namespace="default", uid=f"u{n}", name=f"c{n}") for n in range(2)]
        with dial(info.endpoint) as channel:
            asked = messages.NodePrepareResourcesRequest(claims=claims)
            for _ in range(2):
                reply = call(
                    channel,
                    "NodePrepareResources",
                    asked,
                    messages.NodePrepareResourcesResponse,
                    service=service,
                )
                (device,) = reply.claims["u0"].devices
                assert list(device.cdi_device_ids) == ["vendor.com/gpu=device-0"]
                assert reply.claims["u1"].error == "no device is left for claim default/c1"
            given_back = messages.NodeUnprepareResourcesRequest(claims=claims)
            reply = call(
                channel,
                "NodeUnprepareResources",
                given_back,
                messages.NodeUnprepareResourcesResponse,
                service=service,
            )
            assert {uid: answer.error for uid, answer in reply.claims.items()} == {"u0": "", "u1": ""}
        process.terminate()
        assert process.wait(WAIT_SECONDS) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["gpu"], "no name of a driver"),
        (["gpu.vendor.com", "--versions", "v9"], "--versions: v9"),
        (["gpu.vendor.com", "--versions", ","], "--versions: none"),
        (["gpu.vendor.com", "--faults", "x"], "--faults"),
    ],
)
def test_misuse_of_a_dra_driver(capsys, arguments, says):
    from devices.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["dra", *arguments])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err
