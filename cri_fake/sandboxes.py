"""What happens to sandboxes: run, stop, remove, and the death of their process (CRI section 3)."""

import math
from collections.abc import Awaitable, Callable

import trio
from attrs import evolve

from cri_fake.events import EventType
from cri_fake.observe import SandboxDied
from cri_fake.store.faults import Kind, Refused, not_found
from cri_fake.store.sandboxes import Event, Phase, Sandbox, advance
from cri_fake.world import World
from k8s_proto import runtime_v1_pb2 as cri

__all__ = ["SandboxOps", "sandbox_name"]

_NETWORK_SHARE = 0.6
"""Part of RunPodSandbox that goes to the network, which is set up before the process (CRI-034)."""

_STOP_GRACE_SECONDS = 10
"""Grace of containers in StopPodSandbox where the caller waits for longer."""
_STOP_RESERVE_SECONDS = 1.0
"""What is left of the caller's time for the rest of StopPodSandbox (CRI-023)."""


def sandbox_name(metadata: cri.PodSandboxMetadata) -> str:
    """``<name>_<namespace>_<uid>_<attempt>`` (CRI-012)."""
    return f"{metadata.name}_{metadata.namespace}_{metadata.uid}_{metadata.attempt}"


class SandboxOps:
    """The sandbox half of the runtime service; the other half is handed in.

    ``kill``, ``stop`` (with grace) and ``remove`` act on a container by id, ``forget`` is called with the
    last sandbox of a pod.
    """

    def __init__(
        self,
        world: World,
        *,
        kill: Callable[[str], Awaitable[None]],
        stop: Callable[[str, int], Awaitable[None]],
        remove: Callable[[str], Awaitable[None]],
        forget: Callable[[Sandbox], None],
    ) -> None:
        self._world = world
        self._kill_container = kill
        self._stop_container = stop
        self._remove_container = remove
        self._forget_pod = forget

    def find(self, prefix: str) -> Sandbox:
        """The sandbox with that id or prefix.

        Raises:
            Refused: NotFound, or the prefix is empty or ambiguous.
        """
        sandbox = self._world.sandboxes.find(prefix)
        if sandbox is None:
            raise not_found("an error occurred when try to find sandbox")
        return sandbox

    def _change(self, sandbox_id: str, event: Event) -> Sandbox | None:
        """Advance a sandbox that is still there; None if it is gone."""

        def step(sandbox: Sandbox) -> Sandbox:
            try:
                new = advance(sandbox, event)
            except Refused:
                self._world.moved("sandbox", sandbox.phase, sandbox.phase)
                raise
            assert new is not None
            if new.phase is not sandbox.phase:
                self._world.moved("sandbox", sandbox.phase, new.phase)
            return new

        if sandbox_id not in self._world.sandboxes:
            return None
        return self._world.sandboxes.update(sandbox_id, step)

    async def run(self, config: cri.PodSandboxConfig, handler: str) -> str:
        """Make a READY sandbox; returns its id. Nothing is left of one that failed (CRI-022).

        Raises:
            Refused: metadata is missing, the handler unknown, the name taken or no address left.
        """
        world = self._world
        if not config.HasField("metadata"):
            raise Refused(Kind.UNKNOWN, "sandbox config must include metadata", rule="CRI-021")
        if handler not in world.profile.handlers:
            text = f'failed to get sandbox runtime: no runtime for "{handler}" is configured'
            raise Refused(Kind.UNKNOWN, text, rule="CRI-021")
        _check_user_namespace(config)
        world.disk.check("failed to create sandbox root directory")
        name = sandbox_name(config.metadata)
        sandbox_id = world.new_id()
        try:
            existing = await world.reserve(world.sandbox_names, world.sandboxes, name, sandbox_id)
        except Refused as refused:
            raise refused.wrapped(f'failed to reserve sandbox name "{name}"') from None
        if existing is not None:
            return existing
        try:
            sandbox = await self._build(sandbox_id, name, config, handler)
            world.hostports.open(sandbox)
        except BaseException:
            world.ipam.release(sandbox_id, now_seconds=world.clock.elapsed_seconds())
            world.sandbox_names.release(name)
            raise
        world.sandboxes.add(sandbox)
        if sandbox.ips:
            world.keep_note("ipam", world.ipam.positions)
        world.publish(EventType.CREATED, sandbox_id, sandbox_id)
        world.publish(EventType.STARTED, sandbox_id, sandbox_id)
        return sandbox_id

    async def _build(self, sandbox_id: str, name: str, config: cri.PodSandboxConfig, handler: str) -> Sandbox:
        world = self._world
        total = world.latency.draw("RunPodSandbox")
        host_network = uses_host_network(config)
        ips: tuple[str, ...] = ()
        await world.spend(total * _NETWORK_SHARE)
        if not host_network:
            prefix = f'failed to setup network for sandbox "{sandbox_id}"'
            if not world.network_ready:
                raise Refused(Kind.UNKNOWN, f"{prefix}: cni plugin not initialized", rule="CRI-101")
            try:
                ips = world.ipam.acquire(sandbox_id, now_seconds=world.clock.elapsed_seconds())
            except Refused as refused:
                raise refused.wrapped(prefix) from None
        await world.spend(total * (1 - _NETWORK_SHARE))
        if world.profile.sandbox_labels:
            given, config = config, cri.PodSandboxConfig()
            config.CopyFrom(given)
            for key, value in world.profile.sandbox_labels.items():
                config.labels.setdefault(key, value)
        return Sandbox(
            id=sandbox_id,
            reserved_name=name,
            name=config.metadata.name,
            namespace=config.metadata.namespace,
            uid=config.metadata.uid,
            attempt=config.metadata.attempt,
            config=config,
            runtime_handler=handler,
            created_at_ns=world.unique_now_ns(),
            host_network=host_network,
            ips=ips,
            pid=world.next_pid(),
            overhead=config.linux.overhead if config.linux.HasField("overhead") else None,
            resources=config.linux.resources if config.linux.HasField("resources") else None,
        )

    async def stop(self, prefix: str, remaining_seconds: float = math.inf) -> None:
        """End the containers and the process, free the addresses. Unknown or stopped: fine (CRI-024).

        ``remaining_seconds`` is what the caller waits; a runtime that gives grace keeps one back (CRI-023).
        """
        world = self._world
        sandbox = world.sandboxes.find(prefix)
        if sandbox is None:
            return
        again = sandbox.phase is Phase.STOPPED
        total = world.latency.draw("StopPodSandbox", "again" if again else "")
        if world.profile.stops_pods_gently:
            wanted = remaining_seconds - _STOP_RESERVE_SECONDS
            grace = int(wanted) if wanted < _STOP_GRACE_SECONDS else _STOP_GRACE_SECONDS
            async with trio.open_nursery() as nursery:
                for container in world.containers_of(sandbox.id):
                    nursery.start_soon(self._stop_container, container.id, max(grace, 0))
        else:
            for container in world.containers_of(sandbox.id):
                await self._kill_container(container.id)
        await world.spend(total * 0.5)
        self.process_died(sandbox.id, behind=False)
        await world.spend(total * 0.5)
        current = world.sandboxes.get(sandbox.id)
        if current is not None and current.phase is Phase.DEAD:
            world.hostports.close(sandbox.id)
            world.ipam.release(sandbox.id, now_seconds=world.clock.elapsed_seconds())
            self._change(sandbox.id, Event.CLOSED)

    def process_died(self, sandbox_id: str, *, behind: bool = True) -> None:
        """The sandbox's process ended: NOTREADY, network and containers stay (CRI section 3)."""
        sandbox = self._world.sandboxes.get(sandbox_id)
        if sandbox is None or not sandbox.alive:
            return
        self._change(sandbox_id, Event.DIED)
        if behind:
            self._world.observer(
                SandboxDied(
                    pod=sandbox.name,
                    namespace=sandbox.namespace,
                    sandbox_id=sandbox_id,
                    at_ns=self._world.clock.now_ns(),
                )
            )
        self._world.publish(EventType.STOPPED, sandbox_id, sandbox_id)

    async def remove(self, prefix: str) -> None:
        """Stop if need be, remove all containers, forget the sandbox. Unknown: fine (CRI-025)."""
        world = self._world
        sandbox = world.sandboxes.find(prefix)
        if sandbox is None:
            return
        if sandbox.phase is not Phase.STOPPED:
            await self.stop(sandbox.id)
        for container in world.containers_of(sandbox.id):
            try:
                await self._remove_container(container.id)
            except Refused as refused:
                raise refused.wrapped(f'failed to remove container "{container.id}"') from None
        await world.pause("RemovePodSandbox")
        current = world.sandboxes.get(sandbox.id)
        if current is None:
            return
        try:
            advance(current, Event.REMOVE)
        except Refused:
            world.moved("sandbox", current.phase, current.phase)
            raise
        world.moved("sandbox", current.phase, Phase.GONE)
        world.publish(EventType.DELETED, sandbox.id, sandbox.id)
        world.sandboxes.remove(sandbox.id)
        world.sandbox_names.release(sandbox.reserved_name)
        if not any(other.uid == sandbox.uid for other in world.sandboxes.values):
            self._forget_pod(sandbox)

    def forget(self, sandbox_id: str) -> None:
        """Drop a sandbox and its containers without a trace, as a runtime that lost its state."""
        world = self._world
        sandbox = world.sandboxes.get(sandbox_id)
        if sandbox is None:
            return
        for container in world.containers_of(sandbox_id):
            world.remove_container(container)
            world.container_names.release(container.reserved_name)
        world.hostports.close(sandbox_id)
        world.ipam.release(sandbox_id, now_seconds=world.clock.elapsed_seconds())
        world.sandboxes.remove(sandbox_id)
        world.sandbox_names.release(sandbox.reserved_name)

    async def update_resources(self, request: cri.UpdatePodSandboxResourcesRequest) -> None:
        """Note overhead and resources; they show in verbose info (CRI-151).

        Raises:
            Refused: the sandbox is unknown or not READY.
        """
        sandbox = self._world.sandboxes.find(request.pod_sandbox_id)
        if sandbox is None:
            raise self._world.unknown("failed to find sandbox")
        await self._world.pause("UpdatePodSandboxResources")
        if self._change(sandbox.id, Event.RESOURCES) is None:
            raise not_found("failed to find sandbox")
        self._world.sandboxes.update(
            sandbox.id,
            lambda old: evolve(
                old,
                overhead=request.overhead if request.HasField("overhead") else old.overhead,
                resources=request.resources if request.HasField("resources") else old.resources,
            ),
        )


def uses_host_network(config: cri.PodSandboxConfig) -> bool:
    """True if the pod is to share the node's network."""
    if not config.HasField("linux") or not config.linux.HasField("security_context"):
        return False
    return config.linux.security_context.namespace_options.network == cri.NODE


def _check_user_namespace(config: cri.PodSandboxConfig) -> None:
    """Refuse mappings that no runtime takes (CRI-153)."""
    options = config.linux.security_context.namespace_options
    if not options.HasField("userns_options"):
        return
    user = options.userns_options
    problem = ""
    maps = (("uid", user.uids), ("gid", user.gids))
    if user.mode == cri.NODE:
        if user.uids or user.gids:
            problem = "can't use user namespace mappings with mode NODE"
    elif user.mode == cri.POD:
        for what, entries in maps:
            if len(entries) != 1:
                problem = f"only one {what} mapping is supported, got {len(entries)}"
            elif entries[0].length < 1:
                problem = f"{what} mapping has length {entries[0].length}"
            elif entries[0].container_id != 0:
                problem = f"{what} mapping does not map container id 0"
            if problem:
                break
    else:
        problem = f"unsupported user namespace mode: {cri.NamespaceMode.Name(user.mode)}"
    if problem:
        text = f"failed to generate user namespace options: {problem}"
        raise Refused(Kind.UNKNOWN, text, rule="CRI-153")
