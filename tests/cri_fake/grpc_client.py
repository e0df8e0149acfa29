# pyright: basic, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false, reportArgumentType=false
"""A CRI client of grpcio, with nothing of ours but the messages, and a runtime in a process of its own."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import grpc

from k8s_proto import runtime_v1_pb2 as cri

ROOT = Path(__file__).parents[2]
PROTO = cri.DESCRIPTOR
METHODS = {
    method.name: (f"/{service.full_name}/{method.name}", method)
    for service in PROTO.services_by_name.values()
    for method in service.methods
}
MAX_BYTES = 16 << 20
LIMIT_SECONDS = 60.0
BUSYBOX = "registry.k8s.io/e2e-test-images/busybox:1.29-2"


def _class(descriptor):
    return getattr(cri, descriptor.name)


class Client:
    """``client.Version()``, ``client.RunPodSandbox(config=…)``: the fields of the request by name;
    ``deadline`` is the call's own, in seconds.

    ``called`` counts the answers by method and code.
    """

    def __init__(self, path):
        options = [
            ("grpc.default_authority", "localhost"),
            ("grpc.max_receive_message_length", MAX_BYTES),
            ("grpc.max_send_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self.channel = grpc.insecure_channel(f"unix://{path}", options=options)
        self.called = {}
        self._stubs = {}
        self._lock = threading.Lock()

    def close(self):
        self.channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __getattr__(self, name):
        if name not in METHODS:
            raise AttributeError(name)

        def call(deadline=LIMIT_SECONDS, **fields):
            request = _class(METHODS[name][1].input_type)(**fields)
            return self.call(name, request, deadline)

        return call

    def call(self, name, request, deadline=LIMIT_SECONDS):
        """Call with a whole request; a stream is given as grpcio's own iterator."""
        path, method = METHODS[name]
        stub = self._stubs.get(name)
        if stub is None:
            make = self.channel.unary_stream if method.server_streaming else self.channel.unary_unary
            stub = self._stubs[name] = make(
                path,
                request_serializer=type(request).SerializeToString,
                response_deserializer=_class(method.output_type).FromString,
            )
        try:
            reply = stub(request, timeout=deadline, wait_for_ready=True)
        except grpc.RpcError as error:
            self._count(name, error.code().name)
            raise
        self._count(name, "OK")
        return reply

    def _count(self, name, code):
        with self._lock:
            self.called[name, code] = self.called.get((name, code), 0) + 1

    def refused(self, name, deadline=LIMIT_SECONDS, **fields):
        """Code and text of a call that has to fail."""
        try:
            reply = getattr(self, name)(deadline=deadline, **fields)
            if METHODS[name][1].server_streaming:
                list(reply)
        except grpc.RpcError as error:
            return error.code().name, error.details()
        raise AssertionError(f"{name} was answered")

    # What nearly every test does.

    def pod(self, name="web", attempt=0, **fields):
        config = pod_config(name, attempt, **fields)
        return self.RunPodSandbox(config=config).pod_sandbox_id, config

    def container(self, sandbox, config, name="main", command=("sleep", "3600"), start=True, **fields):
        image = fields.pop("image", cri.ImageSpec(image="busybox:1.36"))
        wanted = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name=name, attempt=fields.pop("attempt", 0)),
            image=image,
            command=command,
            **fields,
        )
        made = self.CreateContainer(pod_sandbox_id=sandbox, config=wanted, sandbox_config=config).container_id
        if start:
            self.StartContainer(container_id=made)
        return made

    def status(self, container):
        return self.ContainerStatus(container_id=container).status

    def until(self, container, state, seconds=LIMIT_SECONDS):
        """The status once the container is in that state."""
        give_up = time.monotonic() + seconds
        while True:
            found = self.status(container)
            if found.state == state:
                return found
            assert time.monotonic() < give_up, found
            time.sleep(0.02)

    def exited(self, container):
        return self.until(container, cri.CONTAINER_EXITED)

    def listed(self, **wanted):
        reply = self.ListContainers(filter=cri.ContainerFilter(**wanted))
        return [each.id for each in reply.containers]

    def pods(self, **wanted):
        return [each.id for each in self.ListPodSandbox(filter=cri.PodSandboxFilter(**wanted)).items]


def pod_config(name="web", attempt=0, **fields):
    given = {
        "metadata": cri.PodSandboxMetadata(name=name, namespace="ns", uid=f"uid-{name}", attempt=attempt),
        "hostname": name[:60],
        **fields,
    }
    return cri.PodSandboxConfig(**given)


class Served:
    """``cri-fake serve`` in a process of its own, in a folder of its own."""

    def __init__(self, *options, folder=None):
        self._made = None
        if folder is None:
            self._made = tempfile.TemporaryDirectory(prefix="ke-")
            folder = Path(self._made.name)
        self.folder = folder
        self.path = folder / "s" / "cri.sock"
        self.node = folder / "node"
        self.node.mkdir(exist_ok=True)
        self.options = options
        self.process = None

    def start(self):
        command = [sys.executable, "-m", "cri_fake.cli", "serve", "--socket", str(self.path)]
        if "--root" not in self.options and "--state" not in self.options:
            command += ["--root", str(self.node)]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'proto'}:{ROOT}"}
        self.process = subprocess.Popen(
            [*command, *self.options], env=environment, stderr=subprocess.PIPE, text=True
        )
        line = self.process.stderr.readline()
        assert line.startswith("serving CRI v1"), line + self.process.stderr.read()
        return self

    def __enter__(self):
        return self.start()

    def kill(self):
        """As a crash of the program."""
        self.process.kill()
        self.process.wait(LIMIT_SECONDS)
        self.process.stderr.close()

    def stop(self):
        """End it in good order; it must leave in silence."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(LIMIT_SECONDS) == 0
        said = self.process.stderr.read()
        self.process.stderr.close()
        assert said == ""

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            if kind is None:
                self.stop()
            else:
                self.kill()
        if self._made is not None:
            with contextlib.suppress(OSError):
                self._made.cleanup()

    # What the process holds.

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def _status(self, field):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1])
        raise AssertionError(field)

    def memory_kib(self):
        return self._status("VmRSS:")

    def cpu_seconds(self):
        parts = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
