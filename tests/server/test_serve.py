"""``kubelet-emu serve`` as a process of its own: real time, real sockets, a clean end.

Slow by nature (a second or two): it waits for a node to come up. Everything a foreign tool would do is done
with the standard library and plain grpcio.
"""

import json
import os
import queue
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from k8s_proto import deviceplugin_v1beta1_pb2 as dp
from k8s_proto import podresources_v1_pb2 as pb

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 40.0

POD = """
apiVersion: v1
kind: Pod
metadata: {name: worker}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: train
    image: docker.io/library/busybox:1.36
    command: [sh, -c, "echo got $WIDGETS; sleep 600"]
    resources: {limits: {vendor.com/widget: 2}}
"""


class Served:
    def __init__(self, root, *arguments):
        self.root = root
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'proto'}{os.pathsep}{ROOT}"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kubelet_emu", "serve", "--root", str(root), "--port", "0", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines = []
        self._arrived = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.until("ready; stop with")
        self.url = next(line.split()[1] for line in self.lines if line.startswith("http "))

    def _read(self):
        for line in self.process.stdout:
            self._arrived.put(line.rstrip("\n"))
        self._arrived.put(None)

    def until(self, text):
        """Wait for a line of output."""
        while not self.lines or text not in self.lines[-1]:
            line = self._arrived.get(timeout=WAIT_SECONDS)
            assert line is not None, self.process.communicate()[1]
            self.lines.append(line)

    def get(self, path):
        try:
            with urllib.request.urlopen(self.url + path, timeout=WAIT_SECONDS) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(WAIT_SECONDS)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def serve(tmp_path_factory):
    running = []

    def start(*arguments, root=None):
        # A short path: sockets of plugins lie below it.
        root = root or tmp_path_factory.mktemp("n") / "r"
        node = Served(root, *arguments)
        running.append(node)
        return node

    yield start
    for node in running:
        node.close()


class PlainPlugin:
    """A device plugin as grpcio's own documentation would write it."""

    def __init__(self, folder, ids):
        self.calls = queue.Queue()
        self.lists = queue.Queue()
        self.folder = folder
        self.lists.put(dict.fromkeys(ids, "Healthy"))
        self._server = grpc.server(ThreadPoolExecutor(8))
        empty = dp.Empty.FromString
        handlers = {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(
                self._options, empty, dp.DevicePluginOptions.SerializeToString
            ),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                self._list, empty, dp.ListAndWatchResponse.SerializeToString
            ),
            "Allocate": grpc.unary_unary_rpc_method_handler(
                self._allocate, dp.AllocateRequest.FromString, dp.AllocateResponse.SerializeToString
            ),
            "PreStartContainer": grpc.unary_unary_rpc_method_handler(
                self._pre_start,
                dp.PreStartContainerRequest.FromString,
                dp.PreStartContainerResponse.SerializeToString,
            ),
        }
        self._server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers)]
        )
        self._server.add_insecure_port(f"unix:{folder}/plain.sock")
        self._server.start()

    def register(self, resource="vendor.com/widget", version="v1beta1"):
        options = [("grpc.default_authority", "localhost")]
        with grpc.insecure_channel(f"unix:{self.folder}/kubelet.sock", options=options) as channel:
            call = channel.unary_unary(
                "/v1beta1.Registration/Register", dp.RegisterRequest.SerializeToString, dp.Empty.FromString
            )
            request = dp.RegisterRequest(version=version, endpoint="plain.sock", resource_name=resource)
            call(request, timeout=WAIT_SECONDS)

    def _options(self, request, context):
        return dp.DevicePluginOptions(pre_start_required=True)

    def _list(self, request, context):
        while context.is_active():
            health = self.lists.get()
            if health is None:
                return
            yield dp.ListAndWatchResponse(
                devices=[dp.Device(ID=name, health=state) for name, state in health.items()]
            )

    def _allocate(self, request, context):
        ids = [list(each.devices_ids) for each in request.container_requests]
        self.calls.put(("Allocate", ids))
        answers = [dp.ContainerAllocateResponse(envs={"WIDGETS": ",".join(each)}) for each in ids]
        return dp.AllocateResponse(container_responses=answers)

    def _pre_start(self, request, context):
        self.calls.put(("PreStartContainer", sorted(request.devices_ids)))
        return dp.PreStartContainerResponse()

    def stop(self):
        self.lists.put(None)
        self._server.stop(None).wait()


def eventually(ask, holds):
    end = time.monotonic() + WAIT_SECONDS
    while not holds(found := ask()):
        assert time.monotonic() < end, found
        time.sleep(0.1)
    return found


@pytest.mark.slow
def test_a_plain_grpcio_plugin_an_agent_and_a_static_pod(serve):
    node = serve()
    assert stat.S_IMODE(node.root.stat().st_mode) == 0o700
    # DEV-003: the folders of the kubelet.
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (node.root / "kubelet").iterdir()}
    assert [modes[name] for name in ("plugins", "plugins_registry", "pod-resources")] == [0o750] * 3
    assert modes["device-plugins"] == 0o755
    plugin = PlainPlugin(node.root / "kubelet" / "device-plugins", ["w0", "w1", "w2"])
    try:
        with pytest.raises(grpc.RpcError) as refused:
            plugin.register(version="v1alpha1")
        assert refused.value.details() == (
            'requested API version "v1alpha1" is not supported by kubelet. Supported version is ["v1beta1"]'
        )
        with pytest.raises(grpc.RpcError) as refused:
            plugin.register(resource="widget")
        assert refused.value.details() == 'the ResourceName "widget" is invalid'
        plugin.register()
        node.until("devices vendor.com/widget: 3 healthy, 0 unhealthy")
        (node.root / "manifests" / "worker.yaml").write_text(POD)
        name, ids = plugin.calls.get(timeout=WAIT_SECONDS)
        assert (name, len(ids), len(ids[0])) == ("Allocate", 1, 2)
        assert plugin.calls.get(timeout=WAIT_SECONDS) == ("PreStartContainer", sorted(ids[0]))
        _, log = eventually(
            lambda: node.get("/containerLogs/default/worker-node-1/train"), lambda found: found[0] == 200
        )
        assert log == f"got {','.join(ids[0])}\n"
        check_pod_resources(node, ids[0])
        plugin.lists.put({"w0": "Unhealthy", "w1": "Healthy", "w2": "Healthy"})
        node.until("devices vendor.com/widget: 2 healthy, 1 unhealthy")
        _, body = node.get("/metrics")
        # The refused request of a wrong version counts too (DEV-020).
        assert 'kubelet_device_plugin_registration_total{resource_name="vendor.com/widget"} 2.0' in body
        (node.root / "manifests" / "worker.yaml").unlink()
        node.until("pod worker-node-1 gone")
        plugin.stop()
        node.until("plugin vendor.com/widget lost")
    finally:
        plugin.stop()
    assert node.stop() == 0
    assert not [path for path in node.root.rglob("*") if path.is_socket()]


def check_pod_resources(node, ids):
    options = [("grpc.default_authority", "localhost")]
    path = f"unix:{node.root}/kubelet/pod-resources/kubelet.sock"
    with grpc.insecure_channel(path, options=options) as channel:
        call = channel.unary_unary(
            "/v1.PodResourcesLister/List",
            pb.ListPodResourcesRequest.SerializeToString,
            pb.ListPodResourcesResponse.FromString,
        )
        (pod,) = call(pb.ListPodResourcesRequest(), timeout=WAIT_SECONDS).pod_resources
    assert pod.name == "worker-node-1"
    assert sorted(each.device_ids[0] for each in pod.containers[0].devices) == sorted(ids)


@pytest.mark.slow
def test_devices_of_its_own_a_second_life_and_ctrl_c(serve):
    node = serve("--devices", "tpu-v5e-4", "--fail-device", "#1@1s")
    node.until("devices google.com/tpu: 3 healthy, 1 unhealthy")
    assert node.get("/healthz") == (200, "ok")
    assert json.loads(node.get("/configz")[1])["kubeletconfig"]["staticPodPath"] == "/manifests"
    assert node.stop(signal.SIGINT) == 130
    again = serve("--devices", "tpu-v5e-4", root=node.root)
    again.until("devices google.com/tpu: 4 healthy, 0 unhealthy")
    with subprocess.Popen(
        [sys.executable, "-m", "kubelet_emu", "serve", "--root", str(node.root), "--port", "0"],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'proto'}{os.pathsep}{ROOT}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as third:
        _, error = third.communicate(timeout=WAIT_SECONDS)
    assert third.returncode == 2
    assert "another server listens" in error
    assert "Traceback" not in error
    assert again.stop() == 0


JOB = """
apiVersion: v1
kind: Pod
metadata: {name: job}
spec:
  restartPolicy: Never
  resourceClaims: [{name: nic, resourceClaimTemplateName: nics}]
  containers:
  - name: main
    image: docker.io/library/busybox:1.36
    command: [sh, -c, "echo $NVIDIA_VISIBLE_DEVICES; sleep 600"]
    resources: {limits: {nvidia.com/gpu: 2}, claims: [{name: nic}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: nics}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: nic.vendor.com}}]}}}
"""


@pytest.mark.slow
def test_pods_of_manifests_with_devices_and_claims(serve, tmp_path):
    """One process: it has to come up before anything can be asked."""
    manifest = tmp_path / "job.yaml"
    manifest.write_text(JOB)
    given = ["--devices", "h100x8-2numa", "--dra-driver", "nic.vendor.com=2,CDI=vendor.com/nic"]
    node = serve(str(manifest), *given)
    _, log = eventually(lambda: node.get("/containerLogs/default/job/main"), lambda found: found[0] == 200)
    assert log.count("GPU-") == 2
    (pod,) = json.loads(node.get("/pods")[1])["items"]
    shown = {
        entry["name"]: len(entry["resources"])
        for entry in pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"]
    }
    assert shown == {"nvidia.com/gpu": 2, "claim:nic": 1}
    assert 'dra_resource_claims_in_use{driver_name="nic.vendor.com"} 1.0' in node.get("/metrics")[1]
    assert node.stop() == 0


@pytest.mark.slow
def test_another_runtime(serve, tmp_path_factory):
    socket = tmp_path_factory.mktemp("c") / "cri.sock"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'proto'}{os.pathsep}{ROOT}"}
    runtime = subprocess.Popen(
        [sys.executable, "-m", "cri_fake.cli", "serve", "--socket", str(socket), "--root", "/"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert "serving CRI v1" in runtime.stderr.readline()
        node = serve("--cri-endpoint", f"unix://{socket}")
        script = "echo hello; sleep 600"
        pod = POD.replace("echo got $WIDGETS; sleep 600", script).replace("vendor.com/widget: 2", "")
        (node.root / "manifests" / "worker.yaml").write_text(pod)
        path = "/containerLogs/default/worker-node-1/train"
        eventually(lambda: node.get(path), lambda found: found == (200, "hello\n"))
        assert node.stop() == 0
    finally:
        runtime.terminate()
        runtime.communicate()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--devices", "nosuch"], "no preset 'nosuch'"),
        (["--fail-device", "#1@3s"], "--fail-device needs --devices"),
        (["--devices", "a100x8", "--fail-device", "#9@3s"], "no device '#9'"),
        (["--devices", "a100x8", "--fail-device", "#1"], "write ID@TIME"),
        (["--cri-endpoint", "unix:///nowhere.sock"], "nowhere.sock"),
        (["--root", "/" + "x" * 80], "more than 60 bytes"),
        (["--root", "/proc/self"], "holds other things"),
        (["--gate", "Nope=true"], "Nope"),
        (["--trace", "/nowhere/t"], "--trace"),
    ],
)
def test_misuse(tmp_path_factory, capsys, monkeypatch, arguments, says):
    from kubelet_emu.cli import main as entry

    given = arguments if "--root" in arguments else [*arguments, "--root", str(tmp_path_factory.mktemp("m"))]
    monkeypatch.setattr(sys, "argv", ["kubelet-emu", "serve", "--port", "0", *given])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error


@pytest.fixture
def short_folder():
    """A folder whose path is short: sockets lie below it, and pytest's own folders are long."""
    with tempfile.TemporaryDirectory(prefix="ke-") as name:
        yield Path(name)


def test_a_temporary_folder_goes_in_the_end(short_folder):
    tmp_path = short_folder
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'proto'}{os.pathsep}{ROOT}", "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-m", "kubelet_emu", "serve", "--port", "0", "-q"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stdout:
            if line.startswith("ready"):
                break
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_SECONDS) == 0
    assert not list(tmp_path.iterdir())
