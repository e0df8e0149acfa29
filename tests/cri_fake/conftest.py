"""A runtime on an in-memory channel, with the calls that tests make all the time."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from cri_fake.latency import ZERO
from cri_fake.runtime import FakeRuntime
from k8s_proto import runtime_v1_pb2 as cri
from node_host.clock import NodeClock
from node_host.files import MemoryFiles
from node_host.loop import run
from node_host.net import MemoryNet
from node_host.randoms import Randoms
from trio_grpc import MemoryChannel, MemoryServer, MemorySockets, StatusError
from trio_grpc.services.runtime_v1 import ImageServiceClient, RuntimeServiceClient

SOCKET = "/run/cri-fake.sock"
BUSYBOX = "docker.io/library/busybox:1.36"


class Rig:
    """One runtime with clients. ``cri`` and ``images`` are the typed clients, ``facts`` what was observed."""

    def __init__(
        self, runtime: FakeRuntime, channel: MemoryChannel, clock: NodeClock, files: MemoryFiles
    ) -> None:
        self.runtime = runtime
        self.clock = clock
        self.files = files
        self.cri = RuntimeServiceClient(channel)
        self.images = ImageServiceClient(channel)
        self.facts: list[Any] = []

    def pod_config(self, pod: str = "web", attempt: int = 0, **fields: Any) -> cri.PodSandboxConfig:
        config = cri.PodSandboxConfig(
            metadata=cri.PodSandboxMetadata(name=pod, namespace="default", uid=f"uid-{pod}", attempt=attempt),
            hostname=pod,
            log_directory=f"/var/log/pods/default_{pod}_uid-{pod}",
            labels={"io.kubernetes.pod.uid": f"uid-{pod}", "io.kubernetes.pod.name": pod},
            annotations={"kubernetes.io/config.source": "api"},
            **fields,
        )
        config.linux.security_context.namespace_options.pid = cri.CONTAINER
        return config

    def host_network_config(self, pod: str = "web") -> cri.PodSandboxConfig:
        config = self.pod_config(pod)
        config.linux.security_context.namespace_options.network = cri.NODE
        return config

    async def run_pod(
        self, pod: str = "web", attempt: int = 0, config: cri.PodSandboxConfig | None = None
    ) -> str:
        request = cri.RunPodSandboxRequest(config=config or self.pod_config(pod, attempt))
        return (await self.cri.RunPodSandbox(request)).pod_sandbox_id

    def container_config(
        self, name: str = "main", script: str | None = "sleep 600", attempt: int = 0, **fields: Any
    ) -> cri.ContainerConfig:
        config = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name=name, attempt=attempt),
            image=cri.ImageSpec(image=BUSYBOX, user_specified_image=BUSYBOX),
            log_path=f"{name}/{attempt}.log",
            labels={"io.kubernetes.container.name": name},
            command=["sh", "-c", script] if script is not None else [],
        )
        config.linux.security_context.namespace_options.pid = cri.CONTAINER
        config.MergeFrom(cri.ContainerConfig(**fields))
        return config

    async def create(
        self,
        sandbox: str,
        name: str = "main",
        script: str | None = "sleep 600",
        *,
        pod: str = "web",
        attempt: int = 0,
        config: cri.ContainerConfig | None = None,
    ) -> str:
        request = cri.CreateContainerRequest(
            pod_sandbox_id=sandbox,
            config=config or self.container_config(name, script, attempt),
            sandbox_config=self.pod_config(pod),
        )
        return (await self.cri.CreateContainer(request)).container_id

    async def start(self, container: str) -> None:
        await self.cri.StartContainer(cri.StartContainerRequest(container_id=container))

    async def run(self, sandbox: str, name: str = "main", script: str = "sleep 600", **options: Any) -> str:
        container = await self.create(sandbox, name, script, **options)
        await self.start(container)
        return container

    async def stop(self, container: str, timeout: int = 0) -> None:
        await self.cri.StopContainer(cri.StopContainerRequest(container_id=container, timeout=timeout))

    async def remove(self, container: str) -> None:
        await self.cri.RemoveContainer(cri.RemoveContainerRequest(container_id=container))

    async def stop_pod(self, sandbox: str) -> None:
        await self.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))

    async def remove_pod(self, sandbox: str) -> None:
        await self.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))

    async def status(self, container: str) -> cri.ContainerStatus:
        reply = await self.cri.ContainerStatus(cri.ContainerStatusRequest(container_id=container))
        return reply.status

    async def pod_status(self, sandbox: str) -> cri.PodSandboxStatus:
        reply = await self.cri.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox))
        return reply.status

    async def containers(self, **wanted: Any) -> list[str]:
        request = cri.ListContainersRequest(filter=cri.ContainerFilter(**wanted))
        return [each.id for each in (await self.cri.ListContainers(request)).containers]

    async def pods(self, **wanted: Any) -> list[str]:
        request = cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(**wanted))
        return [each.id for each in (await self.cri.ListPodSandbox(request)).items]

    async def exec(self, container: str, *cmd: str, timeout: int = 0) -> cri.ExecSyncResponse:
        return await self.cri.ExecSync(cri.ExecSyncRequest(container_id=container, cmd=cmd, timeout=timeout))

    async def pull(self, image: str, pod: str = "web") -> str:
        request = cri.PullImageRequest(image=cri.ImageSpec(image=image), sandbox_config=self.pod_config(pod))
        return (await self.images.PullImage(request)).image_ref

    async def exited(self, container: str) -> cri.ContainerStatus:
        """Wait for the exit, as a relist would see it."""
        while True:
            status = await self.status(container)
            if status.state == cri.CONTAINER_EXITED:
                return status
            await self.clock.sleep(0.05)

    def log(self, container_status: cri.ContainerStatus) -> list[str]:
        """Log lines without their timestamps."""
        text = self.files.read(container_status.log_path).decode()
        return [line.partition(" ")[2] for line in text.splitlines()]

    async def refused(self, call: Awaitable[Any]) -> tuple[str, str]:
        """Code and text that a call is refused with."""
        with pytest.raises(StatusError) as caught:
            await call
        return caught.value.code.name, caught.value.details


Body = Callable[[Rig], Awaitable[Any]]


def _drive(body: Body, *, seed: int = 1, latency: Any = ZERO, **options: Any) -> Any:
    async def main() -> Any:
        clock = NodeClock()
        files = MemoryFiles(now_ns=clock.now_ns)
        facts: list[Any] = []
        randoms = Randoms(seed)
        source = latency(randoms.stream) if callable(latency) else latency
        sockets = MemorySockets()
        with trio.fail_after(600):
            async with trio.open_nursery() as nursery:
                runtime = FakeRuntime(
                    clock=clock,
                    randoms=randoms,
                    files=files,
                    net=MemoryNet(nursery),
                    latency=source,
                    observer=facts.append,
                    **options,
                )
                async with runtime:
                    await nursery.start(runtime.serve, lambda: MemoryServer(SOCKET, sockets=sockets))
                    async with MemoryChannel(SOCKET, sockets=sockets) as channel:
                        rig = Rig(runtime, channel, clock, files)
                        rig.facts = facts
                        result = await body(rig)
                    nursery.cancel_scope.cancel()
        return result

    return run(main, seed=seed)


@pytest.fixture
def drive() -> Callable[..., Any]:
    """``drive(body, seed=1, **options of FakeRuntime)`` runs ``await body(rig)`` in virtual time."""
    return _drive


@pytest.fixture(scope="session")
def drive_once() -> Callable[..., Any]:
    """The same for property tests, each example of which makes its own runtime."""
    return _drive
