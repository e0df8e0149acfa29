"""One node, put together: API store, kubelet, runtime and the wire between them, in one trio run.

::

    async with Node(seed=1) as node:
        node.apply(pod)
        await node.advance(35)
        print(node.pod("worker").status.phase)

Time is the trio run's: under ``node_host.loop.run`` it is virtual and jumps, or real.
``kubelet_emu.lab.session`` offers the same without async.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import trio
from attrs import evolve, field, frozen
from attrs.validators import in_

from cri_fake.behaviours import Behaviours
from cri_fake.latency import LatencyModel, make_latency
from cri_fake.observe import RuntimeFact
from cri_fake.runtime import FakeRuntime
from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.api.codec import pod_from_json, pod_to_json
from kubelet_emu.api.types import Pod
from kubelet_emu.apiserver.client import LATENCY_SECONDS, ApiClient
from kubelet_emu.apiserver.pods import admit_create, admit_update
from kubelet_emu.apiserver.store import ApiStore
from kubelet_emu.cm.devicemanager.constants import KUBELET_SOCKET, PLUGIN_DIR
from kubelet_emu.cm.devicemanager.manager import Quirks
from kubelet_emu.errors import CallerError, PeerError, Problem
from kubelet_emu.kubelet import Kubelet
from kubelet_emu.lab.held import HeldCalls
from kubelet_emu.lab.host_paths import HostPathFiles, host_paths_of
from kubelet_emu.lab.invariants import Monitor
from kubelet_emu.lab.leftovers import SandboxesMade
from kubelet_emu.lab.node_wires import NodeSeams, make_wires
from kubelet_emu.lab.private_folder import make_private_folder
from kubelet_emu.lab.recording import CallRecorder, record_fact, record_store
from kubelet_emu.nodeobject import NodeShape
from kubelet_emu.settings import KubeletSettings
from kubelet_emu.trace.recorder import TraceRecorder
from kubelet_emu.trace.schema import Record, Trace
from kubelet_emu.volumes.plan import memory_volumes
from node_host.clock import DEFAULT_EPOCH_NS, NodeClock
from node_host.files import DiskFiles, Files, MemoryFiles
from node_host.net import MemoryNet, Net, PodNet
from node_host.randoms import Randoms, new_uid
from trio_grpc import Channel, MemoryChannel, MemoryServer, StatusError, UnixChannel, UnixServer
from trio_grpc.services.runtime_v1 import RuntimeServiceClient

if TYPE_CHECKING:  # a node without devices does not pay for their import
    from devices.dra import DraDriver, DraSetup
    from devices.fleet import DeviceFleet
    from devices.plugin import DevicePlugin
    from devices.setup import PluginSetup
    from kubelet_emu.lab.claims import ClaimKeeper

__all__ = ["Node", "NodeOptions", "NodeSeams", "Transport"]

Transport = Literal["memory", "grpc"]

READY_WAIT_SECONDS = 60.0
"""How long a starting node may take until its kubelet has seen the runtime."""

UP_FOR_SECONDS = 3600.0
"""A warmed-up node's kubelet counts as running for so long: pods meet an old kubelet, as in recordings."""

CREATE_SECONDS = (0.009, 0.013)
"""From sending a create request to the object in the store, on the recorded node."""

SOCKET_WAIT_SECONDS = 0.05
"""How often a starting plugin looks for the kubelet's socket."""

ACT_SECONDS = (0.005, 0.008)
"""The same for a delete or a patch."""

POD_CIDR = "10.88.0.0/16"


@frozen(kw_only=True)
class NodeOptions:
    """How a node is built. Same names as the options of the command line.

    ``latency`` is ``measured`` (delays like those of the recorded node, drawn from the seed) or ``zero``.
    ``cri_endpoint`` is the socket path of another runtime; ours is not started then. ``static`` runs the
    kubelet without an API server: pods are files. ``warm_up`` lets the node run for some seconds first.
    ``hold_calls`` keeps calls of a kubelet that dies open until they end, as the recordings' proxy did.
    ``devices`` are the plugins that run beside the kubelet; ``plugin_sockets`` has the kubelet's own socket
    for plugins on disk even without any (with transport ``grpc``). ``device_quirks`` switches documented
    oddities of the device manager off. ``seams`` are where a simulator gets between the parts.
    """

    seed: int = 0
    transport: Transport = field(default="grpc", validator=in_(("grpc", "memory")))
    latency: LatencyModel = "measured"
    settings: KubeletSettings = field(factory=KubeletSettings)
    shape: NodeShape = field(factory=NodeShape)
    behaviours: Behaviours | None = None
    static: bool = False
    cri_endpoint: str = ""
    real_network: bool = False
    real_host_paths: bool = False
    epoch_ns: int = DEFAULT_EPOCH_NS
    sink: Callable[[str], object] | None = None
    header: Mapping[str, Any] = field(factory=dict[str, Any])
    warm_up: bool = True
    hold_calls: bool = False
    devices: "tuple[PluginSetup, ...]" = ()
    drivers: "tuple[DraSetup, ...]" = ()
    plugin_sockets: bool = False
    device_quirks: Quirks = field(factory=Quirks)
    seams: NodeSeams = field(factory=NodeSeams)


class Node:
    """A running node. Use as an async context manager inside a trio run.

    Raises ``PeerError`` on entering if the runtime cannot be reached, ``CallerError`` for options that do not
    go together.
    """

    def __init__(self, options: NodeOptions | None = None, /, **changes: Any) -> None:
        self.options = evolve(options or NodeOptions(), **changes)
        self._stack = AsyncExitStack()
        self._kubelet_scope: trio.CancelScope | None = None
        self._kubelet_done = trio.Event()
        self._created = False
        self._zero_seconds: float | None = None
        self.fleet: DeviceFleet | None = None

    # -- life --

    async def __aenter__(self) -> Self:
        options = self.options
        self.clock = NodeClock(epoch_ns=options.epoch_ns)
        self.randoms = Randoms(options.seed)
        self._act_rng = self.randoms.stream("lab.act")
        self._boot_id = new_uid(self.randoms.stream("lab.boot"))
        try:
            await self._assemble(options)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if error is None:
            self.recorder.close()
        return await self._stack.__aexit__(kind, error, trace)

    async def _assemble(self, options: NodeOptions) -> None:
        header = {
            "kubernetes": "v1.36.2",
            "seed": options.seed,
            "transport": options.transport,
            **options.header,
        }
        self.recorder = TraceRecorder(
            self.clock.elapsed_seconds, header=header, sink=options.sink, zero_later=True
        )
        self._stack.callback(self.recorder.release)
        self.monitor = Monitor(lifted=options.settings.bugs)
        self.recorder.subscribe(self._watch_invariants)
        self.folder = ""
        if options.transport == "grpc" or options.cri_endpoint:
            self.folder = make_private_folder()
            self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.settings = self._settings(options)
        self.files: Files = DiskFiles("/") if options.cri_endpoint else MemoryFiles()
        if options.real_host_paths and not options.cri_endpoint:
            own = (self.settings.root_dir, self.settings.pod_logs_dir, self.settings.container_logs_dir)
            self.files = HostPathFiles(self.files, DiskFiles("/"), kept=own)
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
            latency_seconds=LATENCY_SECONDS if options.latency == "measured" else (0.0, 0.0),
        )
        self._nursery = await self._stack.enter_async_context(trio.open_nursery())
        self._stack.callback(self._nursery.cancel_scope.cancel)
        real_network = options.real_network or bool(options.cri_endpoint)
        self.net: Net = PodNet(self._nursery) if real_network else MemoryNet(self._nursery)
        self.calls = CallRecorder(self.recorder)
        self.runtime: FakeRuntime | None = None
        await self._connect(options)
        self.plugin_wires = make_wires(
            self.folder,
            on_disk=bool(self.folder) and bool(options.devices or options.drivers or options.plugin_sockets),
            rooted=bool(options.cri_endpoint),
            seams=options.seams,
        )
        self._stack.push_async_callback(self._end_kubelet)
        await self._start_kubelet(up_for_seconds=UP_FOR_SECONDS if options.warm_up else 0.0)
        await self.add_devices(options.devices)
        await self._start_drivers(options)
        if options.warm_up:
            # Where a pod's creation falls between the kubelet's ticks is chance; here the seed's.
            await self.clock.sleep(self.randoms.stream("lab.phase").uniform(2.0, 4.0))

    def _settings(self, options: NodeOptions) -> KubeletSettings:
        if not options.cri_endpoint:
            return options.settings
        return evolve(
            options.settings,
            root_dir=f"{self.folder}/kubelet",
            pod_logs_dir=f"{self.folder}/pods",
            container_logs_dir=f"{self.folder}/containers",
            host_paths_root="" if options.real_host_paths else f"{self.folder}/host",
        )

    async def _connect(self, options: NodeOptions) -> None:
        if options.cri_endpoint:
            path = options.cri_endpoint.removeprefix("unix://")
            self._open: Callable[..., Channel] = partial(UnixChannel, path, clock=self.clock)
        else:
            runtime = FakeRuntime(
                clock=self.clock,
                randoms=self.randoms,
                files=self.files,
                net=self.net,
                behaviours=options.behaviours,
                latency=make_latency(options.latency, self.randoms.stream),
                pod_cidr=POD_CIDR,
                observer=self._observe,
                moved=self.recorder.moved,
                host_ip=options.settings.node_ips[0],
            )
            self.runtime = await self._stack.enter_async_context(runtime)
            await self._serve(options, runtime)
        made = SandboxesMade()
        given = dict(options.seams.channel_options("cri.sock"))
        hooks = [self.calls, made, *given.pop("hooks", ())]
        self.channel = await self._stack.enter_async_context(self._open(hooks=hooks, **given))
        self._person = await self._stack.enter_async_context(self._open())
        self._runtime_client = RuntimeServiceClient(self._person)
        if options.cri_endpoint:
            await self._probe(options.cri_endpoint)
            self._stack.push_async_callback(self._leave_nothing, made)

    async def _serve(self, options: NodeOptions, runtime: FakeRuntime) -> None:
        if options.transport == "memory":
            from trio_grpc import MemorySockets

            sockets = MemorySockets()
            self._open = partial(MemoryChannel, "cri.sock", sockets=sockets, clock=self.clock)

            def make() -> MemoryServer | UnixServer:
                return MemoryServer("cri.sock", sockets=sockets)

        else:
            path = f"{self.folder}/cri.sock"
            self._open = partial(UnixChannel, path, clock=self.clock)

            def make() -> MemoryServer | UnixServer:
                return UnixServer(path)

        await self._nursery.start(runtime.serve, make)

    async def _start_drivers(self, options: NodeOptions) -> None:
        """Run DRA drivers, and what gives their devices to claims."""
        self.drivers: dict[str, DraDriver] = {}
        self._claims: ClaimKeeper | None = None
        if not options.drivers:
            return
        from devices import dra
        from devices.places import Places
        from kubelet_emu.lab import claims

        keeper = self._claims = claims.ClaimKeeper(
            self.store,
            options.drivers,
            rng=self.randoms.stream("lab.claims"),
            note=lambda text: self.recorder.fact("note", about="claims", text=text),
        )
        for setup in options.drivers:
            driver = dra.DraDriver(
                setup,
                transport=self.plugin_wires.transport,
                clock=self.clock,
                places=Places.below(self.settings.root_dir),
                lookup=keeper.lookup(setup.driver),
            )
            self.drivers[setup.driver] = driver
            await self._nursery.start(driver.run)
        if options.warm_up:
            with trio.move_on_after(READY_WAIT_SECONDS):
                while not all(driver.registered for driver in self.drivers.values()):
                    await self.clock.sleep(0.1)

    def _shape(self) -> NodeShape:
        if not self.options.devices:
            return self.options.shape
        from kubelet_emu.lab.node_devices import shape_with

        return shape_with(self.options.shape, self.options.devices)

    def _listed(self, resource: str) -> bool:
        return resource in self.kubelet.containers.devices.state.healthy

    async def _probe(self, endpoint: str) -> None:
        """Say at once, and clearly, when nobody answers at the endpoint."""
        try:
            await self._runtime_client.Version(cri.VersionRequest(version="0.1.0"), timeout_seconds=10.0)
        except StatusError as error:
            raise CallerError(
                [
                    Problem(
                        f"no CRI v1 runtime answers at {endpoint}: {error.details}",
                        hint="check that it runs and that you may open its socket",
                    )
                ]
            ) from error

    async def _leave_nothing(self, made: SandboxesMade) -> None:
        """Take our pods out of a runtime that is not ours; ours goes as a whole."""
        with trio.CancelScope(shield=True):
            await self.stop_kubelet()
            await made.remove_all(self._runtime_client)

    # -- the kubelet --

    async def _start_kubelet(self, *, up_for_seconds: float = 0.0) -> None:
        self.kubelet = Kubelet(
            settings=self.settings,
            shape=self._shape(),
            clock=self.clock,
            randoms=self.randoms,
            files=self.files,
            net=self.net,
            channel=HeldCalls(self.channel, self._nursery) if self.options.hold_calls else self.channel,
            api=None if self.options.static else self.api,
            recorder=self.recorder,
            up_for_seconds=up_for_seconds,
            plugins=self.plugin_wires,
            quirks=self.options.device_quirks,
            boot_id=self._boot_id,
            pleg_gate=self.options.seams.pleg,
        )
        scope = trio.CancelScope()
        done = trio.Event()
        self._kubelet_scope, self._kubelet_done = scope, done

        async def run(kubelet: Kubelet) -> None:
            try:
                with scope:
                    await kubelet.run()
            finally:
                kubelet.ready.set()  # nobody need wait for one that is gone
                done.set()

        self._nursery.start_soon(run, self.kubelet)
        with trio.move_on_after(READY_WAIT_SECONDS):
            await self.kubelet.ready.wait()
            return
        raise PeerError(f"the kubelet did not get ready: {self.kubelet.runtime_problem()}")

    def kill_kubelet(self) -> None:
        """Have the kubelet do nothing more from here on; ``stop_kubelet`` or ``restart_kubelet`` follow."""
        if self._kubelet_scope is not None:
            self._kubelet_scope.cancel()

    async def stop_kubelet(self) -> None:
        """End the kubelet at once, as a crash would; containers run on."""
        if self._kubelet_scope is not None:
            self._kubelet_scope.cancel()
            await self._kubelet_done.wait()
            self._kubelet_scope = None

    async def _end_kubelet(self) -> None:
        """The kubelet goes before the runtime, so that it does nothing about the runtime's going."""
        with trio.CancelScope(shield=True):
            await self.stop_kubelet()

    async def restart_kubelet(self, *, down_seconds: float = 0.0) -> None:
        """End the kubelet, wait, start a new one that knows nothing but what lies on disk, in CRI and API."""
        await self.stop_kubelet()
        await self.clock.sleep(down_seconds)
        await self._start_kubelet()

    async def reboot(
        self, *, down_seconds: float = 10.0, forget: bool = False, plugins_after_seconds: float = 0.0
    ) -> None:
        """Lose the power and come up again ``down_seconds`` later, without processes and memory volumes.

        The runtime then knows of its sandboxes, NOTREADY, and of its containers, EXITED with 255; with
        ``forget`` it knows nothing. Device plugins come back ``plugins_after_seconds`` after kubelet.sock.
        Raises ``CallerError`` for a runtime that is not ours.
        """
        runtime = self._ours()
        self.recorder.action("reboot-node", forget=forget)
        memory = memory_volumes(self.kubelet.pods.pods(), root_dir=self.settings.root_dir)
        await self.stop_kubelet()
        plugins = self.fleet.plugins if self.fleet is not None else ()
        for plugin in plugins:
            plugin.stop()
        await runtime.power_off(forget=forget)
        for path in filter(self.files.exists, memory):
            self.files.remove_tree(path)
        self._boot_id = new_uid(self.randoms.stream("lab.boot"))
        await runtime.restart(down_seconds=down_seconds)

        async def bring_back() -> None:
            # Plugins are pods: the kubelet is there first, and removes what it finds in its folder (DEV-012).
            socket = f"{self.settings.root_dir}/{PLUGIN_DIR}/{KUBELET_SOCKET}"
            while not self.plugin_wires.folders.accepts(socket):
                await self.clock.sleep(SOCKET_WAIT_SECONDS)
            await self.clock.sleep(plugins_after_seconds)
            for plugin in plugins:
                plugin.start()

        if plugins:
            self._nursery.start_soon(bring_back)
        await self._start_kubelet()

    # -- what a person does --

    def begin(self, zero_seconds: float) -> None:
        """Call a time of the clock 0: that of the trace and of all that is to happen to devices."""
        self._zero_seconds = zero_seconds
        self.recorder.start(zero_seconds=zero_seconds)
        if self.fleet is not None:
            self.fleet.begin(zero_seconds)

    async def add_devices(self, setups: "Sequence[PluginSetup]") -> None:
        """Run plugins beside the kubelet; a warmed-up node has their devices in its status afterwards.

        Raises ``CallerError`` for plugins that cannot be made, and on a node that has plugins already.
        """
        if not setups:
            return
        if self.fleet is not None:
            raise CallerError([Problem("the node has device plugins already")])
        from kubelet_emu.lab.node_devices import make_fleet

        self.fleet = make_fleet(setups, self.plugin_wires, self.settings.root_dir, self.clock, self.randoms)
        if self._zero_seconds is not None:
            self.fleet.begin(self._zero_seconds)
        await self._nursery.start(self.fleet.run)
        if self.options.warm_up:
            with trio.move_on_after(READY_WAIT_SECONDS):
                await self.fleet.wait_registered()
                while not all(self._listed(plugin.resource) for plugin in self.fleet.plugins):
                    await self.clock.sleep(0.01)
            if not self.options.static:
                await self.kubelet.reporter.report()

    def apply(self, pod: Pod | Mapping[str, Any]) -> Pod:
        """Create a pod on this node, as ``kubectl apply`` does; gives it back as stored.

        Raises ``ApiError`` 409 for a name in use and 422, with all problems, for what does not validate.
        """
        given = pod_to_json(pod) if isinstance(pod, Pod) else dict(pod)
        spec = {**given.get("spec", {}), "nodeName": self.settings.node_name}
        if not self._created:
            self._created = True
            # Time 0 is when the request set out, as in the recordings; the object exists a little later.
            self.begin(self.clock.elapsed_seconds() - self._request_seconds())
        obj = {**given, "spec": spec}
        metadata = {"namespace": "default", **given.get("metadata", {})}
        self.recorder.action("create", pod=metadata.get("name"), object={**obj, "metadata": metadata})
        if isinstance(self.files, HostPathFiles):
            self.files.allow(host_paths_of(obj))
        create = self._claims.create_pod if self._claims is not None else partial(self.store.create, "Pod")
        return pod_from_json(create({**obj, "metadata": metadata}))

    def apply_object(self, obj: Mapping[str, Any]) -> None:
        """Create another object that a pod refers to: a ConfigMap, a Secret …"""
        self.store.create(str(obj["kind"]), obj)

    async def delay_action(self) -> None:
        """Take the time that a request of a person takes to reach the API server."""
        if self.options.latency != "zero":
            await self.clock.sleep(self._act_rng.uniform(*ACT_SECONDS))

    def delete(self, name: str, *, namespace: str = "default", grace_seconds: int | None = None) -> None:
        """Delete a pod, as ``kubectl delete`` does."""
        self.recorder.action("delete", pod=name)
        self.store.delete("Pod", namespace, name, grace_seconds=grace_seconds)

    async def restart_runtime(
        self, *, down_seconds: float = 1.0, forget: bool = False, lose_processes: bool = False
    ) -> None:
        """Restart the runtime's daemon; containers run on. With ``forget`` they die and nothing is known of
        them; with ``lose_processes`` they die and are UNKNOWN. Raises ``CallerError`` for a runtime not ours.
        """
        runtime = self._ours()
        if forget:
            self.recorder.action("restart-runtime", forget=True)
            await runtime.power_off(forget=True)
        await runtime.restart(down_seconds=down_seconds, lose_processes=lose_processes)

    async def stop_sandbox(self, namespace: str, pod: str) -> None:
        """Stop a pod's sandbox behind the kubelet's back, through CRI."""
        for sandbox in await self._sandboxes(namespace, pod):
            await self._runtime_client.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))

    def plugin(self, resource: str) -> "DevicePlugin":
        """The plugin of a resource. Raises ``CallerError`` if there is none."""
        from devices.setup import DeviceProblem

        try:
            return self._fleet(resource).plugin(resource)
        except DeviceProblem as error:
            raise CallerError([Problem(text, place) for place, text in error.problems]) from None

    def set_health(self, device: str, health: str) -> None:
        """The same as ``set_device_health`` for a device named as for ``--fail-device``."""
        from devices.setup import DeviceProblem

        try:
            self._fleet(device).set_health(device, health)
        except DeviceProblem as error:
            raise CallerError([Problem(text, place) for place, text in error.problems]) from None

    def _fleet(self, asked: str) -> "DeviceFleet":
        if self.fleet is None:
            raise CallerError([Problem(f"{asked!r} cannot be reached: the node has no devices")])
        return self.fleet

    async def remove_container(self, namespace: str, pod: str, container: str) -> None:
        """Remove the last instance of a container behind the kubelet's back, as ``crictl rm`` does.

        Raises ``PeerError`` if there is none that has ended, or the runtime does not answer.
        """
        try:
            found = await self._container(namespace, pod, container, state=cri.CONTAINER_EXITED)
            await self._runtime_client.RemoveContainer(cri.RemoveContainerRequest(container_id=found))
        except StatusError as error:
            raise PeerError(f"container {container} cannot be removed: {error.details}") from error
        self.recorder.action("remove-container", pod=pod, container=self.recorder.names.label(found))

    def set_device_health(self, resource: str, device: str, health: str) -> None:
        """Have a plugin report a health for a device. Raises ``CallerError`` for one that is not there."""
        from devices.setup import DeviceProblem

        try:
            if self.fleet is None:
                raise DeviceProblem(f"no plugin serves {resource!r}: the node has no devices")
            self.fleet.plugin(resource).service.set_health(device, health)
        except DeviceProblem as error:
            raise CallerError([Problem(text, place) for place, text in error.problems]) from None

    async def exec(
        self, namespace: str, pod: str, container: str, command: Sequence[str], *, timeout_seconds: int = 60
    ) -> tuple[int, bytes, bytes]:
        """Run a command in a running container: exit code, standard output and error."""
        found = await self._container(namespace, pod, container)
        reply = await self._runtime_client.ExecSync(
            cri.ExecSyncRequest(container_id=found, cmd=list(command), timeout=timeout_seconds)
        )
        return reply.exit_code, reply.stdout, reply.stderr

    # -- time --

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        await self.clock.sleep(seconds)

    async def advance_until(self, holds: Callable[[Record], bool], *, within_seconds: float = 3600.0) -> bool:
        """Let time pass until a record of the trace satisfies ``holds``; False if none did in time."""
        found = trio.Event()

        def look(record: Record) -> None:
            if not found.is_set() and holds(record):
                found.set()

        with self.recorder.listening(look), trio.move_on_after(within_seconds):
            await found.wait()
        return found.is_set()

    async def step(self) -> Record:
        """Let time pass until the next record of the trace, and give it back."""
        before = len(self.recorder.records)
        await self.advance_until(lambda _: True)
        return self.recorder.records[before]

    # -- inspection --

    def pod(self, name: str, namespace: str = "default") -> Pod:
        """The pod as the API has it. Raises ``KeyError`` if there is none."""
        found = self.store.get("Pod", namespace, name)
        if found is None:
            raise KeyError(f"no pod {namespace}/{name}")
        return pod_from_json(found)

    def pods(self) -> tuple[Pod, ...]:
        """All pods, by namespace and name."""
        return tuple(pod_from_json(obj) for obj in self.store.list("Pod"))

    def events(self) -> Sequence[Mapping[str, Any]]:
        """All events as API objects."""
        return self.store.list("Event")

    @property
    def trace(self) -> Trace:
        """Everything recorded so far."""
        return self.recorder.trace()

    # -- internals --

    def _request_seconds(self) -> float:
        """How long the request that creates a pod takes at the API server."""
        if self.options.latency == "zero":
            return 0.0
        return self.randoms.stream("lab.create").uniform(*CREATE_SECONDS)

    def _ours(self) -> FakeRuntime:
        if self.runtime is None:
            raise CallerError(
                [Problem("this needs the built-in runtime", hint="leave --cri-endpoint away for it")]
            )
        return self.runtime

    async def _sandboxes(self, namespace: str, pod: str) -> list[str]:
        wanted = cri.PodSandboxFilter(
            label_selector={"io.kubernetes.pod.name": pod, "io.kubernetes.pod.namespace": namespace},
            state=cri.PodSandboxStateValue(state=cri.SANDBOX_READY),
        )
        reply = await self._runtime_client.ListPodSandbox(cri.ListPodSandboxRequest(filter=wanted))
        return [item.id for item in reply.items]

    async def _container(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        state: "cri.ContainerState.ValueType" = cri.CONTAINER_RUNNING,
    ) -> str:
        wanted = cri.ContainerFilter(
            label_selector={
                "io.kubernetes.pod.name": pod,
                "io.kubernetes.pod.namespace": namespace,
                "io.kubernetes.container.name": container,
            },
            state=cri.ContainerStateValue(state=state),
        )
        reply = await self._runtime_client.ListContainers(cri.ListContainersRequest(filter=wanted))
        if not reply.containers:
            wanted_state = "running" if state == cri.CONTAINER_RUNNING else "there as an ended one"
            raise PeerError(f"container {container} of pod {namespace}/{pod} is not {wanted_state}")
        return max(reply.containers, key=lambda item: item.created_at).id

    def _observe(self, fact: RuntimeFact) -> None:
        record_fact(self.recorder, fact)

    def _watch_invariants(self, record: Record) -> None:
        for violation in self.monitor.feed(record):
            self.recorder.invariant(
                violation.invariant,
                pod=violation.pod,
                rules=violation.rules,
                message=violation.message,
                evidence=[violation.record["seq"]],
            )
