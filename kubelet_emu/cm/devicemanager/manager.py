"""The device manager: registration, lists, allocation and options over the pure parts beside it.

Mirrors ``pkg/kubelet/cm/devicemanager/manager.go``. ``state`` keeps the books, ``choosing`` picks devices,
``hints`` speaks to the topology manager, ``checkpoint`` writes files; here is what waits and calls.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import trio
from attrs import frozen

from k8s_proto import deviceplugin_v1beta1_pb2 as dp
from kubelet_emu.api.types import Container, Pod, ResourceHealth, ResourceStatus
from kubelet_emu.cm.devicemanager import hints
from kubelet_emu.cm.devicemanager.checkpoint import checkpoint_of, decode, encode, restore
from kubelet_emu.cm.devicemanager.choosing import Choice, Preference, Request, choose, without_choice
from kubelet_emu.cm.devicemanager.constants import CHECKPOINT_NAME, KUBELET_SOCKET, PLUGIN_DIR
from kubelet_emu.cm.devicemanager.plugin_client import PluginClient
from kubelet_emu.cm.devicemanager.registration import Clients, RegistrationService
from kubelet_emu.cm.devicemanager.run_options import merge_options
from kubelet_emu.cm.devicemanager.state import Capacity, Device, DeviceState, Endpoint
from kubelet_emu.cm.dra.claims import extended_resources
from kubelet_emu.cm.machine import MachineTopology
from kubelet_emu.cm.sockets import SocketFolders
from kubelet_emu.cm.topologymanager.hints import Hint, ProviderHints
from kubelet_emu.errors import PeerError
from kubelet_emu.kuberuntime.seams import RunOptions
from kubelet_emu.pod_update import uid_of
from kubelet_emu.seams import Recorder
from kubelet_emu.timing import DEFAULT_BUCKETS, Timing
from kubelet_emu.why import Why
from node_host.clock import NodeClock
from node_host.files import Files
from trio_grpc import StatusError, Transport

__all__ = ["DeviceManager", "DeviceSeams", "Quirks"]


@frozen(kw_only=True)
class DeviceSeams:
    """What the device manager asks of the kubelet.

    ``active_uids`` are the pods that may hold devices, ``was_running`` says whether a container ran when the
    kubelet started, ``hint`` what the topology manager has stored for one, ``pods_changed`` queues syncs and
    returns False if the queue was full.
    """

    sources_ready: Callable[[], bool]
    active_uids: Callable[[], Collection[str]]
    was_running: Callable[[str, str], bool]
    hint: Callable[[str, str], Hint | None]
    pods_changed: Callable[[Sequence[str]], bool]


@frozen(kw_only=True)
class Quirks:
    """Documented oddities, each under its rule; all as in Kubernetes 1.36 by default (DEV-204)."""

    dev_026_old_stream_closes_new: bool = True
    """The end of a plugin's old stream closes the connection of the one that took its place."""

    dev_065_zero_limit_needs_health: bool = True
    """A limit of 0 is refused while the resource has no healthy device."""

    dev_112_other_containers_are_checked: bool = True
    """After a kubelet restart a pod needs its plugin for containers that did not run, though others did."""

    dev_121_vanished_is_healthy: bool = True
    """A device that is not listed any more counts as healthy in a pod's status; else it is Unknown."""


class DeviceManager:
    """Devices of one kubelet process. ``run`` serves kubelet.sock until cancelled."""

    name = "devicemanager"

    def __init__(
        self,
        *,
        clock: NodeClock,
        files: Files,
        root_dir: str,
        transport: Transport,
        folders: SocketFolders,
        nursery: trio.Nursery,
        recorder: Recorder,
        machine: MachineTopology,
        seams: DeviceSeams,
        health_in_status: bool = True,
        quirks: Quirks | None = None,
    ) -> None:
        self.folder = f"{root_dir}/{PLUGIN_DIR}"
        self.state = DeviceState(health_in_status=health_in_status)
        self.problem = ""
        """Why no plugin can register, empty while they can (DEV-016)."""
        self.allocation_seconds = Timing(DEFAULT_BUCKETS)
        """Durations of Allocate calls by resource."""
        self._clock = clock
        self._files = files
        self._transport = transport
        self._folders = folders
        self._recorder = recorder
        self._machine = machine
        self._seams = seams
        self._quirks = quirks or Quirks()
        self._pending_uid = ""
        self._numbers = 0
        self.clients = Clients(
            nursery=nursery,
            effects=self,
            make=self._make_client,
            recorder=recorder,
            close_by_resource_name=self._quirks.dev_026_old_stream_closes_new,
        )
        self.registration = RegistrationService(
            folder=self.folder, connect=self.clients.connect, recorder=recorder
        )

    # -- start (DEV-011, DEV-012) --

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read the checkpoint, clean the folder, serve; started once plugins can register.

        Raises ``OSError`` if the folder cannot be made or cleaned, which ends the kubelet.
        """
        self._read_checkpoint()
        self._files.make_dirs(self.folder, mode=0o755)
        self._folders.make(self.folder)
        self._clean()
        server = self._transport.server(f"{self.folder}/{KUBELET_SOCKET}")
        server.add(self.registration)
        try:
            async with server:
                task_status.started()
                await trio.sleep_forever()
        finally:
            await self.clients.close_all()

    def _clean(self) -> None:
        """Remove every socket of the folder; try all, then fail with the first that would not go."""
        failure: OSError | None = None
        for path in self._folders.list(self.folder):
            try:
                self._folders.remove(path)
            except OSError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _make_client(self, resource: str, path: str) -> PluginClient:
        self._numbers += 1
        return PluginClient(
            resource=resource,
            path=path,
            number=self._numbers,
            transport=self._transport,
            folders=self._folders,
            recorder=self._recorder,
        )

    # -- what plugins do (ClientsEffects) --

    def plugin_connected(self, client: PluginClient, options: dp.DevicePluginOptions) -> None:
        """DEV-020 step 5."""
        endpoint = Endpoint(
            path=client.path,
            connection=client.number,
            pre_start_required=options.pre_start_required,
            preferred_available=options.get_preferred_allocation_available,
        )
        self.state.connected(client.resource, endpoint)
        self._recorder.fact(
            "plugin",
            resource=client.resource,
            do="registered",
            preStart=endpoint.pre_start_required,
            preferred=endpoint.preferred_available,
        )

    def plugin_listed(self, resource: str, devices: Sequence[Device]) -> None:
        """DEV-040, STA-1005: take the list, queue pods, write the checkpoint."""
        effect = self.state.listed(resource, devices)
        if effect.pods and not self._seams.pods_changed(effect.pods):
            self._note("device update queue is full, pod updates are discarded", resource)
        self._recorder.fact(
            "plugin",
            resource=resource,
            do="listed",
            healthy=len(self.state.healthy[resource]),
            unhealthy=len(self.state.unhealthy[resource]),
        )
        self._try_checkpoint()

    def plugin_disconnected(self, resource: str) -> None:
        """DEV-042."""
        self.state.disconnected(resource, self._clock.elapsed_seconds())
        self._recorder.fact("plugin", resource=resource, do="lost")

    # -- node status --

    def capacity(self) -> Capacity:
        """What the node offers now; resources that have expired are reported once as removed (DEV-043)."""
        found = self.state.capacity(self._clock.elapsed_seconds())
        for resource in found.removed:
            self._recorder.fact("plugin", resource=resource, do="expired")
        if found.removed:
            self._try_checkpoint()
        return found

    def should_reset_capacity(self) -> bool:
        """Whether extended resources of the Node object are stale: nothing lies in the folder (DEV-052)."""
        names: list[str] = []
        if self._files.exists(self.folder):
            names = [name for name in self._files.list(self.folder) if not name.startswith(".")]
        return not names and not self._folders.list(self.folder)

    # -- checkpoint (DEV-080 to DEV-085) --

    def _read_checkpoint(self) -> None:
        path = f"{self.folder}/{CHECKPOINT_NAME}"
        try:
            checkpoint = decode(self._files.read(path))
        except FileNotFoundError:
            self._recorder.fact("checkpoint", do="missing")
            return
        except (OSError, PeerError) as error:
            self._recorder.fact("checkpoint", do="refused")
            self._note(f"the checkpoint is not used: {error}")
            return
        restore(self.state, checkpoint, self._clock.elapsed_seconds())
        self._recorder.fact(
            "checkpoint", do="read", entries=len(checkpoint.entries or ()), resources=len(self.state.healthy)
        )

    def _try_checkpoint(self) -> None:
        try:
            self._write_checkpoint()
        except PeerError as error:
            self._note(str(error))

    def _write_checkpoint(self) -> None:
        temporary = f"{self.folder}/.{CHECKPOINT_NAME}"
        try:
            self._files.write(temporary, encode(checkpoint_of(self.state)), mode=0o600)
            self._files.rename(temporary, f"{self.folder}/{CHECKPOINT_NAME}")
        except OSError as error:
            raise PeerError(f'failed to write checkpoint file "{CHECKPOINT_NAME}": {error}') from error

    # -- allocation (DEV section 6) --

    def topology_hints(self, pod: Pod, container: Container) -> ProviderHints:
        """DEV-133; garbage is collected first."""
        self._pending_uid = uid_of(pod)
        self.collect()
        return hints.container_hints(self.state, pod, container, self._machine)

    def pod_topology_hints(self, pod: Pod) -> ProviderHints:
        """DEV-136; garbage is collected first."""
        self._pending_uid = uid_of(pod)
        self.collect()
        return hints.pod_hints(self.state, pod, self._machine)

    def collect(self) -> None:
        """Drop what pods that are not active hold, once all sources are ready (DEV-063).

        The pod that was last in admission counts as active until another one is, as in a kubelet.
        """
        if not self._seams.sources_ready():
            return
        active = {*self._seams.active_uids(), self._pending_uid}
        self.state.collect(active)

    async def allocate(self, pod: Pod, container: Container) -> None:
        """Give a container its devices; raises ``PeerError`` with the text of DEV-091's second column."""
        uid = uid_of(pod)
        self._pending_uid = uid
        self.state.begin_pod(uid)
        await self._allocate_resources(pod, container)
        plain_init = any(
            one.name == container.name and one.restart_policy != "Always" for one in pod.spec.init_containers
        )
        self.state.settle(uid, container.name, reusable=plain_init)

    async def _allocate_resources(self, pod: Pod, container: Container) -> None:
        collected = allocated = False
        claimed = extended_resources(pod, container.name)
        for resource, quantity in sorted(container.resources.limits.items()):
            if resource in claimed or not self.state.is_plugin_resource(resource):
                continue
            if not collected:
                self.collect()
                collected = True
            request = self._request(pod, container, resource, quantity.value())
            if not request.limit and not self._quirks.dev_065_zero_limit_needs_health:
                continue
            choice = await self._choose(pod, request)
            if choice.ids:
                allocated = True
                await self._call_allocate(pod, request, choice.ids)
        if allocated:
            self._write_checkpoint()

    def _request(self, pod: Pod, container: Container, resource: str, limit: int) -> Request:
        return Request(
            uid=uid_of(pod),
            container=container.name,
            resource=resource,
            limit=limit,
            sources_ready=self._seams.sources_ready(),
            was_running=self._was_running(pod, container),
            hint=self._seams.hint(uid_of(pod), container.name),
        )

    def judge_again(self, pod: Pod) -> str:
        """What speaks against a pod that holds its devices and is admitted anew, empty if nothing does.

        A resize goes through admission, which may find a plugin away or a device unhealthy (DEV-095).
        """
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            claimed = extended_resources(pod, container.name)
            for resource, quantity in sorted(container.resources.limits.items()):
                if resource in claimed or not self.state.is_plugin_resource(resource):
                    continue
                request = self._request(pod, container, resource, quantity.value())
                verdict = without_choice(self.state, request)
                if verdict is not None and verdict.error:
                    inputs = {"container": container.name, "resource": resource, "limit": request.limit}
                    outcome = {"devices": list[str](), "error": verdict.error}
                    why = (Why("DEV-095", container.name), *verdict.why)
                    self._recorder.decision(self.name, pod.metadata.name, why, inputs=inputs, outcome=outcome)
                    return verdict.error
        return ""

    def _was_running(self, pod: Pod, container: Container) -> bool:
        names = [container.name]
        if not self._quirks.dev_112_other_containers_are_checked:
            names = [one.name for one in (*pod.spec.init_containers, *pod.spec.containers)]
        return any(self._seams.was_running(uid_of(pod), name) for name in names)

    async def _choose(self, pod: Pod, request: Request) -> Choice:
        state, resource = self.state, request.resource
        inputs = {
            "container": request.container,
            "resource": resource,
            "limit": request.limit,
            "healthy": len(state.healthy.get(resource, ())),
            "free": len(state.free(resource)),
            "inUse": len(state.allocated.get(resource, ())),
            "held": len(state.pods.allocated().get(resource, ())),
            "stray": len(state.stray.get(resource, ())),
        }
        choice = await self._drive(pod, request)
        outcome: dict[str, object] = {"devices": list(choice.ids)}
        if choice.error:
            outcome["error"] = choice.error
        self._recorder.decision(self.name, pod.metadata.name, choice.why, inputs=inputs, outcome=outcome)
        if choice.error:
            raise PeerError(choice.error)
        return choice

    async def _drive(self, pod: Pod, request: Request) -> Choice:
        steps = choose(self.state, request)
        try:
            question = next(steps)
            while True:
                question = steps.send(await self._preferred(pod, request, question))
        except StopIteration as end:
            found: Choice = end.value
            return found

    async def _preferred(self, pod: Pod, request: Request, question: Preference) -> Sequence[str]:
        """Ask the plugin if it wants to be asked (DEV-067)."""
        endpoint = self.state.endpoints.get(question.resource)
        if endpoint is None:
            raise PeerError(f"endpoint not found in cache for a registered resource: {question.resource}")
        if not endpoint.preferred_available:
            return ()
        try:
            where = {"pod": pod.metadata.name, "container": request.container}
            return await self._live(endpoint).preferred(question, where)
        except (StatusError, PeerError) as error:
            raise PeerError(f"device plugin GetPreferredAllocation rpc failed with err: {error}") from error

    async def _call_allocate(self, pod: Pod, request: Request, ids: Sequence[str]) -> None:
        state, resource = self.state, request.resource
        endpoint = state.endpoints.get(resource)
        try:
            if endpoint is None:
                raise PeerError(f"unknown Device Plugin {resource}")
            begun = self._clock.elapsed_seconds()
            where = {"pod": pod.metadata.name, "container": request.container}
            reply = await self._live(endpoint).allocate(ids, where)
            self.allocation_seconds.observe(self._clock.elapsed_seconds() - begun, resource)
        except (StatusError, PeerError) as error:
            state.rebuild_allocated()
            raise PeerError(str(error)) from error
        if not reply.container_responses:
            # The marks stay, as in a kubelet, until a collection that drops a pod (DEV-068).
            text = str(reply).replace("\n", " ").strip()
            raise PeerError(f"no containers return in allocation response {text}")
        response = reply.container_responses[0].SerializeToString(deterministic=True)
        state.assign(request.uid, request.container, resource, ids, response)

    def _live(self, endpoint: Endpoint) -> PluginClient:
        client = self.clients.by_number(endpoint.connection)
        if endpoint.stopped or client is None:
            raise PeerError(f"endpoint {endpoint.path} has been stopped")
        return client

    # -- at each start of a container (DEV section 10) --

    async def options(self, pod: Pod, container: Container) -> RunOptions:
        """What a container that is about to be created gets; raises ``PeerError`` (DEV-101, DEV-103)."""
        uid, missing = uid_of(pod), False
        active = uid in self._seams.active_uids()
        claimed = extended_resources(pod, container.name)
        for resource, quantity in sorted(container.resources.limits.items()):
            if not self.state.is_plugin_resource(resource) or not quantity.value() or resource in claimed:
                continue
            await self._pre_start(pod, container.name, resource)
            if active and self.state.pods.get(uid, container.name, resource) is None:
                missing = True
        if missing:
            await self.allocate(pod, container)
        merged = merge_options(self.state.pods.container(uid, container.name))
        for clash in merged.clashes:
            self._note(f"container {container.name}: {clash}")
        return merged.options

    async def _pre_start(self, pod: Pod, container: str, resource: str) -> None:
        uid = uid_of(pod)
        endpoint = self.state.endpoints.get(resource)
        if endpoint is None:
            raise PeerError(f"endpoint not found in cache for a registered resource: {resource}")
        if not endpoint.pre_start_required:
            return
        held = self.state.pods.get(uid, container, resource)
        if held is None:
            raise PeerError(
                f"no devices found allocated in local cache for pod {uid}, "
                f"container {container}, resource {resource}"
            )
        try:
            where = {"pod": pod.metadata.name, "container": container}
            await self._live(endpoint).pre_start(sorted(held.ids), where)
        except (StatusError, PeerError) as error:
            raise PeerError(f"device plugin PreStartContainer rpc failed with err: {error}") from error

    # -- what others ask --

    def health(self, pod: Pod) -> Mapping[str, Sequence[ResourceStatus]]:
        """``allocatedResourcesStatus`` of the pod's regular containers (DEV-120, DEV-121)."""
        found: dict[str, Sequence[ResourceStatus]] = {}
        for container in pod.spec.containers:
            held = self.state.pods.container(uid_of(pod), container.name)
            if held:
                found[container.name] = [
                    ResourceStatus(
                        name=resource,
                        resources=tuple(
                            ResourceHealth(resource_id=one, health=self._health_of(resource, one))
                            for one in sorted(each.ids)
                        ),
                    )
                    for resource, each in sorted(held.items())
                ]
        return found

    def _health_of(self, resource: str, device: str) -> str:
        known = device in self.state.devices.get(resource, {})
        if not known and not self._quirks.dev_121_vanished_is_healthy:
            return "Unknown"
        return self.state.health_of(resource, device)

    def allocatable_for(self, uid: str, allocatable: Mapping[str, int]) -> Mapping[str, int]:
        """Node allocatable as the fit check of this pod is to see it (DEV-092)."""
        return self.state.at_least_held(allocatable) if self.state.pods.has_pod(uid) else allocatable

    def _note(self, text: str, resource: str = "") -> None:
        about = f"devices {resource}".strip()
        self._recorder.fact("note", about=about, text=text)
