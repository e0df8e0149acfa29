"""The fake runtime, assembled: one object with both services, its processes, and what a person may do to it.

::

    async with FakeRuntime(clock=clock, randoms=randoms, files=files, net=net) as runtime:
        for handler in runtime.handlers:
            server.add(handler)

The daemon and the containers have separate lives, as with containerd and its shims: ``crash`` cuts every
open call and answers Unavailable until ``restart``; processes live on meanwhile and their exits are known
afterwards. Nothing is asked of the operating system: clock, chance, files and network are handed in.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from random import Random
from types import TracebackType
from typing import Any, Self

import trio
from google.protobuf.message import Message

from cri_fake.behaviours import Behaviours
from cri_fake.catalogue import PRELOADED, Catalogue
from cri_fake.containers import ContainerOps
from cri_fake.disk import Disk
from cri_fake.events import EventHub
from cri_fake.execs import ExecOps
from cri_fake.hostports import HostPorts
from cri_fake.image_service import ImageService
from cri_fake.latency import ZERO, Latency, SlowedLatency, ToldLatency
from cri_fake.lists import Reader
from cri_fake.network import DEFAULT_POD_CIDR, Ipam
from cri_fake.observe import DaemonChanged, Observer, RuntimeFact
from cri_fake.process import Program
from cri_fake.profile import CONTAINERD_2, Profile
from cri_fake.pulls import ImageOps
from cri_fake.sandboxes import SandboxOps
from cri_fake.service import RuntimeService
from cri_fake.signals import SIGKILL
from cri_fake.state.journal import Journal
from cri_fake.state.keeping import answering_durably, keep, restore
from cri_fake.store.containers import Container, WireState
from cri_fake.store.faults import Refused, not_found
from cri_fake.store.sandboxes import Sandbox
from cri_fake.streams import StreamOps
from cri_fake.world import World, ignore_move
from node_host.clock import NodeClock
from node_host.faults import Draw, FaultPlan
from node_host.files import Files
from node_host.net import Net
from node_host.randoms import Randoms
from trio_grpc import Call, Handler, Method, Server
from trio_grpc.method import unknown_path
from trio_grpc.server_faults import ServerFaults, with_faults
from trio_grpc.wrapping import wrapped

__all__ = ["DEFAULT_HOST_IP", "FakeRuntime"]

DEFAULT_HOST_IP = "192.0.2.10"
RESTART_SECONDS = 1.0
"""How long the daemon is down after a fault has killed it."""


def _ignore(_: RuntimeFact) -> None:
    return


def _without(handler: Handler, missing: frozenset[str]) -> Handler:
    """The handler of a runtime whose CRI is older: some methods are unknown to it."""

    def wrap(method: Method[Any, Any], serve: Callable[..., Any]) -> Callable[..., Any]:
        if method.name not in missing:
            return serve

        async def refuse(request: Message, call: Call) -> Message:
            raise unknown_path(method.path)

        async def refuse_stream(request: Message, call: Call) -> AsyncIterator[Message]:
            raise unknown_path(method.path)
            yield request

        return refuse_stream if method.streaming else refuse

    return wrapped(handler, wrap)


class FakeRuntime:
    """A CRI v1 runtime in this process. Use it as an async context manager: it owns all container processes.

    ``observer`` is told of process starts and exits, ``moved`` of steps of its tables; ``programs`` are
    Python programs by name or path;
    ``pod_cidr`` is one range or two of different families, ``host_ip`` the address of host-network pods;
    ``preloaded`` are images present from the start; ``faults`` are injected into the calls that are served.
    ``state`` keeps everything over the end of the program; ids must then come from a source (``ids``) that
    does not begin anew each time.
    Exec, attach and port-forward are served over HTTP at ``stream_address``, on ``net``, from the first such
    call on; port 0 is any.
    """

    def __init__(
        self,
        *,
        clock: NodeClock,
        randoms: Randoms,
        files: Files,
        net: Net,
        behaviours: Behaviours | None = None,
        latency: Latency = ZERO,
        pod_cidr: str = DEFAULT_POD_CIDR,
        observer: Observer = _ignore,
        profile: Profile = CONTAINERD_2,
        catalogue: Catalogue | None = None,
        preloaded: tuple[str, ...] = PRELOADED,
        programs: Mapping[str, Program] | None = None,
        host_ip: str = DEFAULT_HOST_IP,
        faults: FaultPlan | None = None,
        state: Journal | None = None,
        ids: Random | None = None,
        moved: Callable[[str, str, str], object] = ignore_move,
        stream_address: tuple[str, int] = ("127.0.0.1", 0),
    ) -> None:
        self._latency = latency
        self._world = World(
            clock=clock,
            disk=Disk(files),
            net=net,
            ids=ids or randoms.stream("cri_fake.ids"),
            latency=latency,
            profile=profile,
            observer=observer,
            behaviours=behaviours or Behaviours(),
            catalogue=catalogue or Catalogue(),
            ipam=Ipam(pod_cidr),
            hub=EventHub(clock.elapsed_seconds),
            host_ip=host_ip,
            moved=moved,
            hostports=HostPorts(net),
        )
        self._containers = ContainerOps(self._world, programs or {}, randoms.stream("cri_fake.processes"))
        self._sandboxes = SandboxOps(
            self._world,
            kill=self._containers.kill,
            stop=self._containers.stop,
            remove=self._containers.remove,
            forget=self._containers.forget_pod,
        )
        self._images = ImageOps(self._world)
        self._state = state
        if state is None or state.fresh:
            self._images.preload(preloaded)
        if state is not None:
            restore(self._world, state)
            keep(self._world, state)
        reader = Reader(self._world, self._sandboxes, self._containers)
        execs = ExecOps(self._world, self._containers)
        host, port = stream_address
        self._streams = StreamOps(self._world, self._containers, execs, host=host, port=port)
        self._service = RuntimeService(
            self._world, self._sandboxes, self._containers, execs, self._streams, reader
        )
        self._image_service = ImageService(self._world, self._images)
        self._handlers: tuple[Handler, ...] = (self._service, self._image_service)
        if profile.missing_methods:
            self._handlers = tuple(_without(handler, profile.missing_methods) for handler in self._handlers)
        if state is not None:
            self._handlers = tuple(answering_durably(handler, state) for handler in self._handlers)
        self._faults: ServerFaults | None = None
        if faults is not None:
            self._faults = ServerFaults(faults, self._crash_soon)
            self._handlers = tuple(with_faults(handler, self._faults) for handler in self._handlers)
        self._stack: AsyncExitStack | None = None
        self._nursery: trio.Nursery | None = None
        self._up = trio.Event()
        self._up.set()
        self._down = trio.Event()
        self._closed = trio.Event()
        self._closed.set()
        self._listening = trio.Event()
        self._served = False

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """What a server serves: the runtime service and the image service."""
        return self._handlers

    @property
    def world(self) -> World:
        """Stores, names, addresses and knobs, for tests and tools to look at."""
        return self._world

    async def __aenter__(self) -> Self:
        assert self._stack is None, "a FakeRuntime is entered once"
        self._stack = AsyncExitStack()
        nursery = await self._stack.enter_async_context(trio.open_nursery())
        self._containers.adopt(nursery)
        self._nursery = nursery
        self._stack.callback(self._world.hostports.close_all)
        for sandbox in self._world.sandboxes.values:
            self._open_again(sandbox)
        self._stack.callback(self._containers.adopt, None)
        self._stack.callback(self._streams.close)
        self._stack.callback(nursery.cancel_scope.cancel)
        if self._state is not None:
            nursery.start_soon(self._state.keep_up)
        return self

    def _open_again(self, sandbox: Sandbox) -> None:
        """Host ports of a sandbox that was found again; one that somebody else has by now stays closed."""
        with suppress(Refused):
            self._world.hostports.open(sandbox)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        assert self._stack is not None
        return await self._stack.__aexit__(kind, error, trace)

    # The daemon --------------------------------------------------------------------------------------------

    @property
    def daemon_up(self) -> bool:
        return self._up.is_set()

    async def serve(
        self,
        make_server: Callable[[], Server],
        *,
        task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve both services until cancelled; ``crash`` closes the server, ``restart`` makes a new one.

        Use ``await nursery.start(runtime.serve, make_server)``: it reports once the socket is there.
        """
        reported = False
        self._served = True
        while True:
            await self._up.wait()
            server = make_server()
            for handler in self.handlers:
                server.add(handler)
            closed = self._closed = trio.Event()
            try:
                async with server:
                    self._listening.set()
                    if not reported:
                        task_status.started()
                        reported = True
                    await self._down.wait()
            finally:
                self._listening = trio.Event()
                closed.set()

    async def crash(self, *, lose_processes: bool = False) -> None:
        """End the daemon: calls in flight are cut, the socket goes, containers run on. Twice is once.

        With ``lose_processes`` the processes are gone too, and nobody knows how they ended: their containers
        are UNKNOWN from then on (CRI-045).
        """
        if lose_processes:
            self._containers.lose_track()
        if not self._up.is_set():
            return
        self._up = trio.Event()
        self._service.up = self._image_service.up = False
        self._world.observer(DaemonChanged(up=False, at_ns=self._world.clock.now_ns()))
        self._down.set()
        self._streams.close()
        await self._closed.wait()

    def _crash_soon(self) -> None:
        """A call is told to kill the daemon: it is started again after a moment, as by systemd."""
        if self._nursery is not None and self.daemon_up:
            self._nursery.start_soon(partial(self.restart, down_seconds=RESTART_SECONDS))

    async def restart(self, *, down_seconds: float = 0.0, lose_processes: bool = False) -> None:
        """Bring the daemon back after ``down_seconds``; ends it first if it still runs (see ``crash``).

        Returns once the socket is there again, if ``serve`` is in charge of one.
        """
        await self.crash(lose_processes=lose_processes)
        await self._world.clock.sleep(down_seconds)
        self._down = trio.Event()
        self._service.up = self._image_service.up = True
        self._world.observer(DaemonChanged(up=True, at_ns=self._world.clock.now_ns()))
        self._up.set()
        if self._served:
            await self._listening.wait()

    @property
    def faults(self) -> FaultPlan | None:
        """The plan of faults, if there is to be one; its rules can be replaced at any time."""
        return self._faults.plan if self._faults is not None else None

    async def power_off(self, *, forget: bool = False) -> None:
        """Take the whole node down: the daemon, all processes, all sandboxes. ``restart`` brings it back.

        What lay on disk is known afterwards: sandboxes NOTREADY, containers EXITED with 255 (CRI-O: -1).
        With ``forget`` nothing is, as where the runtime keeps its state in memory.
        """
        await self.crash()
        await self._containers.lose_all()
        world = self._world
        for sandbox in tuple(world.sandboxes.values):
            self._sandboxes.process_died(sandbox.id, behind=False)
            if forget:
                self._sandboxes.forget(sandbox.id)

    # What a person may do ----------------------------------------------------------------------------------

    def bind_images(self, pod: str, images: Mapping[str, str]) -> None:
        """Say which image each container of a pod uses; pull behaviours given by container need it."""
        self._images.bind(pod, dict(images))

    def add_behaviours(self, behaviours: Behaviours) -> None:
        """Tell more behaviours from now on; they apply to instances that start later."""
        self._world.behaviours = self._world.behaviours.merged_with(behaviours)

    def set_network_ready(self, ready: bool) -> None:
        """Make the network (not) ready: Status says so, pod-network sandboxes fail meanwhile (CRI-101)."""
        self._world.network_ready = ready

    def set_registry_up(self, up: bool) -> None:
        """Make the image registry reachable or not; what is on the node stays usable."""
        self._world.registry_up = up

    def set_pace(self, factor: float) -> None:
        """Let every step that takes time take ``factor`` times as long as at first; 1 is as at first."""
        self._world.latency = self._latency if factor == 1.0 else SlowedLatency(self._latency, factor)

    def told_latencies(self, draw: Draw) -> ToldLatency:
        """Where times of single methods can be told; ``draw`` is the chance of those that are spread."""
        if not isinstance(self._latency, ToldLatency):
            self._latency = self._world.latency = ToldLatency(self._latency, draw)
        return self._latency

    def ready_sandbox(self, pod: str, namespace: str | None = None) -> Sandbox:
        """The newest READY sandbox of a pod.

        Raises:
            Refused: there is none.
        """
        for sandbox in reversed(self._world.sandboxes.values):
            if sandbox.name == pod and sandbox.ready and namespace in (None, sandbox.namespace):
                return sandbox
        raise not_found(f'READY sandbox of pod "{pod}"')

    async def stop_sandbox_behind(self, pod: str, namespace: str | None = None) -> None:
        """Stop a pod's sandbox as ``crictl stopp`` would, behind the kubelet's back.

        Raises:
            Refused: the pod has no READY sandbox.
        """
        await self._sandboxes.stop(self.ready_sandbox(pod, namespace).id)

    def kill_sandbox_process(self, pod: str, namespace: str | None = None) -> None:
        """End a sandbox's own process: it turns NOTREADY, its containers and network stay.

        Raises:
            Refused: the pod has no READY sandbox.
        """
        self._sandboxes.process_died(self.ready_sandbox(pod, namespace).id)

    def running_container(self, pod: str, name: str, namespace: str | None = None) -> Container:
        """The newest RUNNING container of that name in a pod.

        Raises:
            Refused: there is none.
        """
        for container in reversed(self._world.containers.values):
            sandbox = self._world.sandboxes.get(container.sandbox_id)
            if container.name != name or container.state is not WireState.RUNNING or sandbox is None:
                continue
            if sandbox.name == pod and namespace in (None, sandbox.namespace):
                return container
        raise not_found(f'running container "{name}" of pod "{pod}"')

    def signal_container(self, pod: str, name: str, signum: int = SIGKILL) -> None:
        """Send a signal to a container's main process, past CRI.

        Raises:
            Refused: no such container runs.
        """
        live = self._containers.live(self.running_container(pod, name).id)
        if live is None:
            raise Refused(not_found("").kind, f'container "{name}" of pod "{pod}" has just exited')
        live.send_signal(signum, may_ignore=False)

    def oom_kill(self, pod: str, name: str) -> None:
        """Kill a container as the kernel does when its memory runs out: 137, OOMKilled (CRI-045).

        Raises:
            Refused: no such container runs.
        """
        live = self._containers.live(self.running_container(pod, name).id)
        if live is not None:
            live.oom_kill()
