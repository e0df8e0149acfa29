"""A small scripted runtime, and a bench that runs the runtime manager against it in virtual time."""

import attrs
import pytest
import trio

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.api.defaults import default_pod
from kubelet_emu.api.types import Container, ObjectMeta, Pod, PodSpec
from kubelet_emu.kuberuntime.manager import KubeRuntime
from kubelet_emu.settings import KubeletSettings
from node_host.clock import NodeClock
from node_host.files import MemoryFiles
from node_host.loop import run
from node_host.net import MemoryNet
from node_host.randoms import Randoms, new_id
from trio_grpc import Code, MemoryChannel, MemoryServer, StatusError
from trio_grpc.services.runtime_v1 import (
    ImageServiceClient,
    ImageServiceHandler,
    RuntimeServiceClient,
    RuntimeServiceHandler,
)

IMAGE_ID = "sha256:" + "1" * 64


class ScriptedCri(RuntimeServiceHandler, ImageServiceHandler):
    """A runtime that keeps what it is told, and whose containers end when the test says so.

    ``calls`` is what changed something, as short texts; ``reads`` the rest. ``fail`` maps a method to the
    error it answers, ``stop_seconds`` a container name to how long it takes to stop, ``execs`` the output
    or error of a command by its first word.
    """

    def __init__(self, clock, files):
        self.clock = clock
        self.files = files
        self.rng = Randoms(7).stream("ids")
        self.sandboxes = {}
        self.containers = {}
        self.images = {"busybox": IMAGE_ID, "busybox:1.36": IMAGE_ID}
        self.calls = []
        self.reads = []
        self.fail = {}
        self.stop_seconds = {}
        self.execs = {}
        self.requests = []
        self.write_logs = True
        self._ticks = 0

    def _now(self):
        """Unique, growing times."""
        self._ticks += 1
        return self.clock.now_ns() + self._ticks

    def _note(self, method, text, *, read=False, request=None):
        (self.reads if read else self.calls).append(f"{method} {text}".strip())
        if request is not None:
            self.requests.append((method, request))
        if method in self.fail:
            raise self.fail[method]

    def name_of(self, container_id):
        found = self.containers.get(container_id)
        return "?" if found is None else f"{found.metadata.name}#{found.metadata.attempt}"

    def by_name(self, name, attempt=None):
        """The newest container of a name, or that attempt."""
        found = [
            c
            for c in self.containers.values()
            if c.metadata.name == name and attempt in (None, c.metadata.attempt)
        ]
        return max(found, key=lambda c: c.created_at) if found else None

    def exit(self, name, code=0, *, reason=""):
        """Let the newest container of a name end."""
        status = self.by_name(name)
        status.state = cri.CONTAINER_EXITED
        status.exit_code = code
        status.reason = reason or ("Completed" if code == 0 else "Error")
        status.finished_at = self.clock.now_ns()

    def states(self):
        """All containers as ``name#attempt`` and state, oldest first."""
        short = {
            cri.CONTAINER_CREATED: "created",
            cri.CONTAINER_RUNNING: "running",
            cri.CONTAINER_EXITED: "exited",
        }
        ordered = sorted(self.containers.values(), key=lambda c: c.created_at)
        return [f"{self.name_of(c.id)} {short[c.state]}" for c in ordered]

    async def RunPodSandbox(self, request, call):
        meta = request.config.metadata
        self._note("RunPodSandbox", f"{meta.name}#{meta.attempt}", request=request)
        sandbox_id = new_id(self.rng)
        status = cri.PodSandboxStatus(
            id=sandbox_id,
            metadata=meta,
            state=cri.SANDBOX_READY,
            created_at=self._now(),
            labels=request.config.labels,
        )
        status.network.ip = "10.0.0.9"
        status.linux.namespaces.options.CopyFrom(request.config.linux.security_context.namespace_options)
        self.sandboxes[sandbox_id] = status
        return cri.RunPodSandboxResponse(pod_sandbox_id=sandbox_id)

    async def StopPodSandbox(self, request, call):
        status = self.sandboxes.get(request.pod_sandbox_id)
        self._note("StopPodSandbox", f"#{status.metadata.attempt}" if status else "?")
        if status is not None:
            status.state = cri.SANDBOX_NOTREADY
            status.network.ip = ""
        return cri.StopPodSandboxResponse()

    async def RemovePodSandbox(self, request, call):
        status = self.sandboxes.pop(request.pod_sandbox_id, None)
        self._note("RemovePodSandbox", f"#{status.metadata.attempt}" if status else "?")
        return cri.RemovePodSandboxResponse()

    async def PodSandboxStatus(self, request, call):
        self._note("PodSandboxStatus", "", read=True)
        if request.pod_sandbox_id not in self.sandboxes:
            raise StatusError(Code.NOT_FOUND, "sandbox")
        return cri.PodSandboxStatusResponse(status=self.sandboxes[request.pod_sandbox_id])

    async def ListPodSandbox(self, request, call):
        self._note("ListPodSandbox", "", read=True)
        uid = request.filter.label_selector.get("io.kubernetes.pod.uid", "")
        reply = cri.ListPodSandboxResponse()
        for status in self.sandboxes.values():
            if uid in ("", status.metadata.uid):
                reply.items.add(
                    id=status.id, metadata=status.metadata, state=status.state, created_at=status.created_at
                )
        return reply

    async def CreateContainer(self, request, call):
        config = request.config
        meta = config.metadata
        self._note("CreateContainer", f"{meta.name}#{meta.attempt}", request=request)
        container_id = new_id(self.rng)
        self.containers[container_id] = cri.ContainerStatus(
            id=container_id,
            metadata=meta,
            state=cri.CONTAINER_CREATED,
            created_at=self._now(),
            image=config.image,
            image_ref=IMAGE_ID,
            image_id=IMAGE_ID,
            labels=config.labels,
            annotations=config.annotations,
            mounts=config.mounts,
            log_path=f"{request.sandbox_config.log_directory}/{config.log_path}",
        )
        self.sandbox_of = getattr(self, "sandbox_of", {})
        self.sandbox_of[container_id] = request.pod_sandbox_id
        return cri.CreateContainerResponse(container_id=container_id)

    async def StartContainer(self, request, call):
        self._note("StartContainer", self.name_of(request.container_id))
        status = self.containers[request.container_id]
        status.state = cri.CONTAINER_RUNNING
        status.started_at = self.clock.now_ns()
        if self.write_logs:
            self.files.write(status.log_path, b"")
        return cri.StartContainerResponse()

    async def StopContainer(self, request, call):
        name = self.name_of(request.container_id)
        self._note("StopContainer", f"{name} {request.timeout}")
        await self.clock.sleep(self.stop_seconds.get(name.split("#")[0], 0))
        status = self.containers.get(request.container_id)
        if status is not None and status.state == cri.CONTAINER_RUNNING:
            status.state = cri.CONTAINER_EXITED
            status.exit_code = 137
            status.reason = "Error"
            status.finished_at = self.clock.now_ns()
        return cri.StopContainerResponse()

    async def RemoveContainer(self, request, call):
        self._note("RemoveContainer", self.name_of(request.container_id))
        self.containers.pop(request.container_id, None)
        return cri.RemoveContainerResponse()

    async def ListContainers(self, request, call):
        self._note("ListContainers", "", read=True)
        uid = request.filter.label_selector.get("io.kubernetes.pod.uid", "")
        reply = cri.ListContainersResponse()
        for status in self.containers.values():
            if uid in ("", status.labels["io.kubernetes.pod.uid"]):
                reply.containers.add(
                    id=status.id,
                    pod_sandbox_id=self.sandbox_of[status.id],
                    metadata=status.metadata,
                    image=status.image,
                    state=status.state,
                    created_at=status.created_at,
                    labels=status.labels,
                    annotations=status.annotations,
                )
        return reply

    async def ContainerStatus(self, request, call):
        self._note("ContainerStatus", self.name_of(request.container_id), read=True)
        if request.container_id not in self.containers:
            raise StatusError(Code.NOT_FOUND, "container")
        return cri.ContainerStatusResponse(status=self.containers[request.container_id])

    async def ExecSync(self, request, call):
        self._note("ExecSync", f"{self.name_of(request.container_id)} {' '.join(request.cmd)}")
        answer = self.execs.get(request.cmd[0], b"")
        if isinstance(answer, (int, float)):
            await self.clock.sleep(answer)
            answer = b""
        if isinstance(answer, StatusError):
            raise answer
        if isinstance(answer, tuple):
            return cri.ExecSyncResponse(stdout=answer[1], exit_code=answer[0])
        return cri.ExecSyncResponse(stdout=answer)

    async def UpdateContainerResources(self, request, call):
        name = self.name_of(request.container_id)
        linux = request.linux
        self._note("UpdateContainerResources", f"{name} {linux.cpu_shares} {linux.memory_limit_in_bytes}")
        return cri.UpdateContainerResourcesResponse()

    async def UpdatePodSandboxResources(self, request, call):
        self._note("UpdatePodSandboxResources", f"{request.resources.cpu_shares}")
        return cri.UpdatePodSandboxResourcesResponse()

    async def ImageStatus(self, request, call):
        self._note("ImageStatus", request.image.image, read=True)
        image_id = self.images.get(request.image.image)
        if image_id is None:
            return cri.ImageStatusResponse()
        image = cri.Image(id=image_id, size=5)
        image.uid.value = 0
        return cri.ImageStatusResponse(image=image)

    async def PullImage(self, request, call):
        self._note("PullImage", request.image.image, request=request)
        await self.clock.sleep(1.5)
        self.images[request.image.image] = IMAGE_ID
        return cri.PullImageResponse(image_ref=IMAGE_ID)


class Events:
    """Keeps events as ``reason: message`` texts, with their place."""

    def __init__(self):
        self.seen = []

    def event(self, pod, event_type, reason, message, *, field_path=""):
        self.seen.append((event_type, reason, message, field_path))

    def texts(self):
        return [f"{reason}: {message}" for _, reason, message, _ in self.seen]

    def reasons(self):
        return [reason for _, reason, _, _ in self.seen]


class Decisions:
    """Keeps decisions and facts."""

    def __init__(self):
        self.decisions = []
        self.facts = []

    def decision(self, machine, pod, why, *, inputs, outcome):
        self.decisions.append((machine, pod, tuple(map(str, why)), inputs, outcome))

    def fact(self, kind, **fields):
        self.facts.append((kind, fields))


class Probes:
    def __init__(self):
        self.results = {}

    def result(self, kind, container_id):
        return self.results.get((kind, container_id))


@attrs.define
class Bench:
    """A runtime manager on a scripted runtime."""

    cri: ScriptedCri
    runtime: KubeRuntime
    clock: NodeClock
    files: MemoryFiles
    net: MemoryNet
    events: Events
    recorder: Decisions
    probes: Probes

    async def status(self, pod):
        meta = pod.metadata
        return await self.runtime.get_pod_status(meta.uid, meta.name, meta.namespace)

    async def sync(self, pod, *, restart_all=False):
        """One sync from a fresh status; returns its result."""
        status = await self.status(pod)
        return await self.runtime.sync_pod(pod, status, restart_all_containers=restart_all)

    def take_calls(self):
        calls, self.cri.calls = self.cri.calls, []
        return calls


async def _with_bench(body, settings, seams):
    clock, files = NodeClock(), MemoryFiles()
    fake, events, recorder, probes = ScriptedCri(clock, files), Events(), Decisions(), Probes()
    server = MemoryServer()
    server.add(fake)
    channel = MemoryChannel(server.path, sockets=server.sockets, clock=clock)
    async with server, channel, trio.open_nursery() as nursery:
        net = MemoryNet(nursery)
        runtime = KubeRuntime(
            runtime=RuntimeServiceClient(channel),
            images=ImageServiceClient(channel),
            nursery=nursery,
            clock=clock,
            rng=Randoms(1).stream("kuberuntime"),
            files=files,
            net=net,
            events=events,
            recorder=recorder,
            probes=probes,
            settings=settings,
            **seams,
        )
        await body(Bench(fake, runtime, clock, files, net, events, recorder, probes))
        nursery.cancel_scope.cancel()


@pytest.fixture
def on_bench():
    """Run an async function of one bench; keyword arguments are seams of the manager, or ``settings``."""

    def go(body, *, settings=None, **seams):
        run(_with_bench, body, settings or KubeletSettings(), seams, seed=1)

    return go


@pytest.fixture
def a_pod():
    """Builds a defaulted pod from containers; lists of names are busybox containers."""

    def container(item):
        made = Container(name=item) if isinstance(item, str) else item
        return made if made.image else attrs.evolve(made, image="busybox:1.36")

    def build(*regular, init=(), named=("p", "n", "u"), **spec):
        name, namespace, uid = named
        given = Pod(
            metadata=ObjectMeta(name=name, namespace=namespace, uid=uid),
            spec=PodSpec(
                containers=tuple(map(container, regular)),
                init_containers=tuple(map(container, init)),
                **spec,
            ),
        )
        return default_pod(given)

    return build
