"""A node in real time, all of it below one folder, that stays up until it is stopped.

What lies where, below ``root``::

    manifests/                          static pods; a file that comes, changes or goes is seen at once
    cri.sock                            our runtime (not with another one)
    kubelet/device-plugins/kubelet.sock where device plugins register
    kubelet/plugins_registry/           where plugins put sockets to be found
    kubelet/pod-resources/kubelet.sock  the PodResources API
    kubelet/pods, logs/                 volumes and logs of pods

With our runtime the folder is the node's whole file system: a path in a manifest or in a plugin's answer lies
below it. With another runtime paths are those of the machine, the kubelet's own still below the folder.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

import trio
from attrs import evolve, field, frozen

from cri_fake.behaviours import Behaviours
from cri_fake.latency import LatencyModel, make_latency
from cri_fake.observe import RuntimeFact
from cri_fake.runtime import FakeRuntime
from devices.dra import DraDriver, DraSetup
from devices.fleet import DeviceFleet
from devices.places import Places
from devices.setup import PluginSetup
from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.apiserver.client import ApiClient
from kubelet_emu.apiserver.pods import admit_create, admit_update
from kubelet_emu.apiserver.store import ApiStore
from kubelet_emu.cm.manager import PluginWires
from kubelet_emu.cm.sockets import unix_wires
from kubelet_emu.errors import CallerError, PeerError, Problem
from kubelet_emu.kubelet import Kubelet
from kubelet_emu.lab.claims import ClaimKeeper
from kubelet_emu.lab.invariants import Monitor
from kubelet_emu.lab.leftovers import SandboxesMade
from kubelet_emu.lab.recording import CallRecorder, record_fact, record_store
from kubelet_emu.nodeobject import NodeShape
from kubelet_emu.server.configz import configz
from kubelet_emu.server.endpoints import Endpoints
from kubelet_emu.server.http import HttpServer
from kubelet_emu.server.metrics import CallTallies, NodeMetrics
from kubelet_emu.server.podresources import serve_pod_resources
from kubelet_emu.server.tallies import Tallies
from kubelet_emu.server.view import KubeletView
from kubelet_emu.settings import KubeletSettings
from kubelet_emu.trace.recorder import TraceRecorder
from kubelet_emu.trace.schema import Record
from node_host.clock import DEFAULT_EPOCH_NS, NodeClock
from node_host.files import DiskFiles, Files
from node_host.net import LoopbackNet
from node_host.randoms import Randoms
from trio_grpc import Channel, StatusError, UnixChannel, UnixServer
from trio_grpc.services.runtime_v1 import RuntimeServiceClient

__all__ = ["DEFAULT_POD_CIDR", "DEFAULT_PORT", "MAX_ROOT_BYTES", "ServedNode", "ServedOptions", "make_root"]

DEFAULT_PORT = 10255
"""The kubelet's read-only port (NOD-80)."""

DEFAULT_POD_CIDR = "127.64.0.0/16"
"""Addresses that every Linux machine can listen on, so that probes and people reach a pod."""

MAX_ROOT_BYTES = 60
"""Below a longer folder a plugin's socket may not fit into the 107 bytes of a socket's path."""

READY_WAIT_SECONDS = 60.0
PLUGIN_POLL_SECONDS = 0.05
WATCH_SECONDS = 0.5
MAX_MANIFESTS = 10_000


@frozen(kw_only=True)
class ServedOptions:
    """How the node is built. ``root`` is an absolute path that ``make_root`` has made.

    ``pods`` are created in the API once all plugins have registered, after the ``objects`` they refer to.

    ``port`` 0 takes a free one. ``cri_endpoint`` is the socket of another runtime, empty for ours.
    ``manifests`` is a folder as the node sees it.
    """

    root: str
    port: int = DEFAULT_PORT
    seed: int = 0
    settings: KubeletSettings = field(factory=KubeletSettings)
    shape: NodeShape = field(factory=NodeShape)
    latency: LatencyModel = "measured"
    behaviours: Behaviours | None = None
    pod_cidr: str = DEFAULT_POD_CIDR
    cri_endpoint: str = ""
    devices: tuple[PluginSetup, ...] = ()
    drivers: tuple[DraSetup, ...] = ()
    objects: tuple[Mapping[str, Any], ...] = ()
    pods: tuple[Mapping[str, Any], ...] = ()
    epoch_ns: int = DEFAULT_EPOCH_NS
    sink: Callable[[str], object] | None = None
    listener: Callable[[Record], None] | None = None


def make_root(path: str) -> str:
    """The folder, made with mode 0700, as an absolute path. Raises ``CallerError`` for an unfit one."""
    root = os.path.abspath(path)
    if len(os.fsencode(root)) > MAX_ROOT_BYTES:
        hint = "sockets of plugins lie below it, and a socket's path has at most 107 bytes"
        raise CallerError([Problem(f"--root: {root} has more than {MAX_ROOT_BYTES} bytes", hint=hint)])
    try:
        os.makedirs(root, mode=0o700, exist_ok=True)
        names = os.listdir(root)
        if names and "kubelet" not in names:
            hint = "name a new folder, or one that a node was served in before"
            raise CallerError([Problem(f"--root: {root} holds other things", hint=hint)])
        os.chmod(root, 0o700)
    except OSError as error:
        raise CallerError(
            [Problem(f"--root: {root}: {error.strerror}", hint="name another folder")]
        ) from None
    return root


class ServedNode:
    """The node. Use as an async context manager inside a trio run of real pace.

    Raises ``CallerError`` for an address or socket in use, ``PeerError`` if the runtime cannot be reached.
    """

    def __init__(self, options: ServedOptions) -> None:
        self.options = options
        self._ours = not options.cri_endpoint
        self._stack = AsyncExitStack()
        self._view: KubeletView | None = None
        base = "" if self._ours else options.root
        self.settings = evolve(
            options.settings,
            root_dir=f"{base}/kubelet",
            pod_logs_dir=f"{base}/logs/pods",
            container_logs_dir=f"{base}/logs/containers",
            static_pod_path=f"{base}/manifests",
            host_paths_root="" if self._ours else f"{options.root}/host",
            **({"node_ips": ("127.0.0.1",)} if self._ours else {}),
        )

    # -- life --

    async def __aenter__(self) -> Self:
        options = self.options
        self.clock = NodeClock(epoch_ns=options.epoch_ns)
        self.randoms = Randoms(options.seed)
        try:
            await self._assemble(options)
        except OSError as error:
            await self._stack.aclose()
            hint = "is another node served there?"
            raise CallerError([Problem(f"cannot serve below {options.root}: {error}", hint=hint)]) from None
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self.recorder.close()
        return await self._stack.__aexit__(kind, error, trace)

    def host_path(self, path: str) -> str:
        """Where a path of the node lies on this machine."""
        return self.options.root + path if self._ours else path

    async def _assemble(self, options: ServedOptions) -> None:
        self.files: Files = DiskFiles(options.root if self._ours else "/")
        for folder in ("device-plugins", "plugins", "plugins_registry", "pod-resources"):
            mode = 0o755 if folder == "device-plugins" else 0o750
            self.files.make_dirs(f"{self.settings.root_dir}/{folder}", mode=mode)
        for folder in (self.settings.static_pod_path, self.settings.pod_logs_dir):
            self.files.make_dirs(folder)
        self._record(options)
        self._nursery = await self._stack.enter_async_context(trio.open_nursery())
        self._stack.callback(self._nursery.cancel_scope.cancel)
        self.net = LoopbackNet(self._nursery)
        self.tallies = Tallies()
        self.recorder.subscribe(self.tallies.record)
        await self._connect(options)
        self.wires = PluginWires(*unix_wires(self.host_path))
        await self._start_kubelet(options)
        await self._serve_view(options)
        await self._start_devices(options)
        await self._start_drivers(options)
        await self._create(options)
        self._nursery.start_soon(self._watch_manifests)

    def _record(self, options: ServedOptions) -> None:
        header = {"kubernetes": "v1.36.2", "seed": options.seed, "transport": "grpc"}
        self.recorder = TraceRecorder(
            self.clock.elapsed_seconds, header=header, sink=options.sink, records_max=0
        )
        self.monitor = Monitor()
        self.recorder.subscribe(self._watch_invariants)
        if options.listener is not None:
            self.recorder.subscribe(options.listener)
        self.store = ApiStore(
            now_ns=self.clock.now_ns,
            rng=self.randoms.stream("api.ids"),
            admit_create=lambda obj: admit_create(obj, gates=self.settings.gates),
            admit_update=lambda old, new, sub: admit_update(old, new, sub, gates=self.settings.gates),
        )
        record_store(self.store, self.recorder)
        self.api = ApiClient(
            self.store,
            clock=self.clock,
            rng=self.randoms.stream("api.latency"),
            latency_seconds=(0.0, 0.0),
        )

    # -- the runtime --

    async def _connect(self, options: ServedOptions) -> None:
        path = options.cri_endpoint.removeprefix("unix://") or f"{options.root}/cri.sock"
        if self._ours:
            runtime = FakeRuntime(
                clock=self.clock,
                randoms=self.randoms,
                files=self.files,
                net=self.net,
                behaviours=options.behaviours,
                latency=make_latency(options.latency, self.randoms.stream),
                pod_cidr=options.pod_cidr,
                observer=self._observe,
                host_ip=self.settings.node_ips[0],
            )
            await self._stack.enter_async_context(runtime)
            await self._nursery.start(runtime.serve, lambda: UnixServer(path))
        made = SandboxesMade()
        calls = CallTallies(self.tallies, self._container_type)
        hooks = [CallRecorder(self.recorder), calls, made]
        self.channel: Channel = await self._stack.enter_async_context(
            UnixChannel(path, clock=self.clock, hooks=hooks)
        )
        if not self._ours:
            person = await self._stack.enter_async_context(UnixChannel(path, clock=self.clock))
            client = RuntimeServiceClient(person)
            await self._probe(client, options.cri_endpoint)
            self._stack.push_async_callback(self._leave_nothing, client, made)

    async def _probe(self, client: RuntimeServiceClient, endpoint: str) -> None:
        try:
            await client.Version(cri.VersionRequest(version="0.1.0"), timeout_seconds=10.0)
        except StatusError as error:
            hint = "check that it runs and that you may open its socket"
            text = f"no CRI v1 runtime answers at {endpoint}: {error.details}"
            raise CallerError([Problem(text, hint=hint)]) from error

    async def _leave_nothing(self, client: RuntimeServiceClient, made: SandboxesMade) -> None:
        """Take our pods out of a runtime that is not ours."""
        with trio.CancelScope(shield=True):
            self._kubelet_scope.cancel()
            await self._kubelet_done.wait()
            await made.remove_all(client)

    # -- the kubelet and what stands beside it --

    async def _start_kubelet(self, options: ServedOptions) -> None:
        self.kubelet = Kubelet(
            settings=self.settings,
            shape=options.shape,
            clock=self.clock,
            randoms=self.randoms,
            files=self.files,
            net=self.net,
            channel=self.channel,
            api=self.api,
            recorder=self.recorder,
            plugins=self.wires,
        )
        self._kubelet_scope = trio.CancelScope()
        self._kubelet_done = trio.Event()
        self._nursery.start_soon(self._run_kubelet)
        with trio.move_on_after(READY_WAIT_SECONDS):
            await self.kubelet.ready.wait()
            self.kubelet.pleg.observer = self._relisted
            return
        raise PeerError(f"the kubelet did not get ready: {self.kubelet.runtime_problem()}")

    def _relisted(self, begun_seconds: float) -> None:
        self.tallies.relisted(begun_seconds, self.clock.elapsed_seconds())

    async def _run_kubelet(self) -> None:
        try:
            with self._kubelet_scope:
                await self.kubelet.run()
        finally:
            self._kubelet_done.set()

    async def _serve_view(self, options: ServedOptions) -> None:
        view = self._view = KubeletView(self.kubelet, self.clock)
        endpoints = Endpoints(
            view,
            metrics=NodeMetrics(self.tallies, view.state),
            tallies=self.tallies,
            config=self._configz,
            files=self.files,
            clock=self.clock,
        )
        server = HttpServer(endpoints, clock=self.clock, on_failure=self._http_failed)
        listening = server.listen(self.net, "127.0.0.1", options.port)
        self._stack.callback(listening.close)
        self.port = listening.port

        async def pod_resources(*, task_status: "trio.TaskStatus[None]") -> None:
            await serve_pod_resources(
                view,
                transport=self.wires.transport,
                root_dir=self.settings.root_dir,
                clock=self.clock,
                counted=self._count_pod_resources,
                task_status=task_status,
            )

        await self._nursery.start(pod_resources)

    def _configz(self) -> Mapping[str, Any]:
        endpoint = self.options.cri_endpoint or f"unix://{self.options.root}/cri.sock"
        return configz(self.settings, http_port=self.port, runtime_endpoint=endpoint)

    def _http_failed(self, path: str, problem: Exception) -> None:
        text = f"{path}: {type(problem).__name__}: {problem}"
        self.recorder.fact("note", about="http server", text=text)

    def _count_pod_resources(self, call: str, failed: bool) -> None:
        self.tallies.pod_resources.add("v1")
        self.tallies.pod_resources_by_call.add(f"requests_{call}", "v1")
        if failed:
            self.tallies.pod_resources_by_call.add(f"errors_{call}", "v1")

    async def _start_devices(self, options: ServedOptions) -> None:
        self.fleet = DeviceFleet(
            options.devices,
            transport=self.wires.transport,
            clock=self.clock,
            randoms=self.randoms,
            places=Places.below(self.settings.root_dir),
        )
        await self._nursery.start(self.fleet.run)

    async def _start_drivers(self, options: ServedOptions) -> None:
        self._claims = ClaimKeeper(
            self.store,
            options.drivers,
            rng=self.randoms.stream("server.claims"),
            note=lambda text: self.recorder.fact("note", about="claims", text=text),
        )
        self._drivers: list[DraDriver] = []
        for setup in options.drivers:
            driver = DraDriver(
                setup,
                transport=self.wires.transport,
                clock=self.clock,
                places=Places.below(self.settings.root_dir),
                lookup=self._claims.lookup(setup.driver),
            )
            self._drivers.append(driver)
            await self._nursery.start(driver.run)

    async def _create(self, options: ServedOptions) -> None:
        """Create what was given, on a node whose devices are there. Raises ``ApiError``."""
        if not options.pods:
            return
        with trio.move_on_after(READY_WAIT_SECONDS):
            await self.fleet.wait_registered()
            while not all(self._listed(plugin.resource) for plugin in self.fleet.plugins):
                await self.clock.sleep(PLUGIN_POLL_SECONDS)
            while not all(driver.registered for driver in self._drivers):
                await self.clock.sleep(PLUGIN_POLL_SECONDS)
        for obj in options.objects:
            self.store.create(str(obj["kind"]), obj)
        for pod in options.pods:
            metadata = {"namespace": "default", **pod.get("metadata", {})}
            spec = {**pod.get("spec", {}), "nodeName": self.settings.node_name}
            self._claims.create_pod({**pod, "metadata": metadata, "spec": spec})

    def _listed(self, resource: str) -> bool:
        return resource in self.kubelet.containers.devices.state.healthy

    async def _watch_manifests(self) -> None:
        """Tell the file source of each change, as inotify would (POD-209)."""
        seen = self._look_at_manifests()
        while True:
            await self.clock.sleep(WATCH_SECONDS)
            now = self._look_at_manifests()
            for path in sorted({*seen, *now}):
                if seen.get(path) != now.get(path):
                    self.kubelet.file_source.changed(path)
            seen = now

    def _look_at_manifests(self) -> dict[str, tuple[int, int]]:
        folder = self.settings.static_pod_path
        found: dict[str, tuple[int, int]] = {}
        try:
            for name in self.files.list(folder)[:MAX_MANIFESTS]:
                status = self.files.stat(f"{folder}/{name}")
                found[f"{folder}/{name}"] = (status.mtime_ns, status.size)
        except OSError:
            pass  # the folder or a file went while we looked: the next look sees what is there
        return found

    # -- what is told --

    def _container_type(self, uid: str, name: str) -> str:
        return "container" if self._view is None else self._view.container_type(uid, name)

    def _observe(self, fact: RuntimeFact) -> None:
        record_fact(self.recorder, fact)

    def _watch_invariants(self, record: Record) -> None:
        for broken in self.monitor.feed(record):
            self.recorder.invariant(
                broken.invariant,
                pod=broken.pod,
                rules=broken.rules,
                message=broken.message,
                evidence=list(broken.evidence),
            )
