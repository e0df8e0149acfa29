"""What happens to containers: create, start, stop, remove, resources, logs (CRI section 4)."""

from collections.abc import Mapping
from functools import partial
from random import Random

import trio
from attrs import evolve

from cri_fake.console import Console
from cri_fake.container_spec import (
    check_container,
    container_environment,
    container_files,
    container_name,
    has_own_pid_namespace,
    merged_resources,
    resolve_argv,
    resolve_groups,
    resolve_stop_signal,
    resolve_user,
)
from cri_fake.events import EventType
from cri_fake.live import LiveContainer, Outcome
from cri_fake.logs import LogFile, log_path
from cri_fake.observe import InstanceExited, InstanceStarted
from cri_fake.process import ContainerProcesses, Program, Programs, StartFailed
from cri_fake.signals import SIGKILL
from cri_fake.store.containers import Container, Event, Phase, WireState, advance
from cri_fake.store.faults import Kind, Refused, not_found
from cri_fake.store.images import Image
from cri_fake.store.sandboxes import Event as SandboxEvent
from cri_fake.store.sandboxes import Sandbox
from cri_fake.store.sandboxes import advance as advance_sandbox
from cri_fake.world import World
from k8s_proto import runtime_v1_pb2 as cri

__all__ = ["ContainerOps"]

_START_SHARE = 0.8
"""Part of StartContainer that passes before the process runs."""
_STOP_SHARE = 0.2
"""Part of StopContainer that passes before the signal."""


class ContainerOps:
    """The container half of the runtime service. Processes run in the nursery that ``adopt`` was given."""

    def __init__(self, world: World, programs: Mapping[str, Program], rng: Random) -> None:
        self._world = world
        self._programs = programs
        self._rng = rng
        self._nursery: trio.Nursery | None = None
        self._live: dict[str, LiveContainer] = {}
        self._untracked: set[str] = set()
        """Containers whose processes are ending without anybody being told."""
        self._instances: dict[str, dict[str, int]] = {}

    def adopt(self, nursery: trio.Nursery | None) -> None:
        """Give the nursery that owns all processes from now on; None when it ends."""
        self._nursery = nursery
        if nursery is None:
            self._live.clear()

    def find(self, prefix: str) -> Container:
        """The container with that id or prefix.

        Raises:
            Refused: NotFound, or the prefix is empty or ambiguous.
        """
        container = self._world.containers.find(prefix)
        if container is None:
            raise not_found(f'an error occurred when try to find container "{prefix}"')
        return container

    def live(self, container_id: str) -> LiveContainer | None:
        """The running side of a container; None before it started and after its exit was reported."""
        return self._live.get(container_id)

    # Create ------------------------------------------------------------------------------------------------

    async def create(
        self, sandbox_prefix: str, config: cri.ContainerConfig, sandbox_config: cri.PodSandboxConfig
    ) -> str:
        """Make a CREATED container; returns its id. Nothing is left of one that failed (CRI-207).

        Raises:
            Refused: the sandbox is unknown or not READY, the image absent, the name taken, the config wrong.
        """
        world = self._world
        sandbox = world.sandboxes.find(sandbox_prefix)
        if sandbox is None:
            raise world.unknown(f'failed to find sandbox id "{sandbox_prefix}"', rule="CRI-052")
        self._use(sandbox)
        check_container(world, sandbox, config, sandbox_config)
        world.disk.check("failed to create containerd container: failed to create snapshot")
        container_id = world.new_id()
        name = container_name(config, sandbox_config)
        try:
            existing = await world.reserve(world.container_names, world.containers, name, container_id)
        except Refused as refused:
            hint = "check if another CreateContainer request is in progress"
            raise refused.wrapped(f'failed to reserve container name "{name}"; {hint}') from None
        if existing is not None:
            return existing
        try:
            container = await self._build(container_id, name, sandbox, config, sandbox_config)
        except BaseException:
            world.container_names.release(name)
            raise
        world.add_container(container)
        world.publish(EventType.CREATED, container_id, sandbox.id)
        return container_id

    def _use(self, sandbox: Sandbox) -> None:
        """Raises ``Refused`` for a sandbox that is not READY."""
        try:
            advance_sandbox(sandbox, SandboxEvent.USE)
        except Refused:
            self._world.moved("sandbox", sandbox.phase, sandbox.phase)
            raise

    async def _build(
        self,
        container_id: str,
        name: str,
        sandbox: Sandbox,
        config: cri.ContainerConfig,
        sandbox_config: cri.PodSandboxConfig,
    ) -> Container:
        world = self._world
        image = world.images.resolve(config.image.image)
        if image is None:
            raise not_found(f'failed to resolve image "{config.image.image}"', rule="CRI-052")
        resolve_argv(config, image)
        path = log_path(sandbox_config.log_directory, config.log_path)
        await world.pause("CreateContainer")
        current = world.sandboxes.get(sandbox.id)
        if current is None:
            raise not_found(f'failed to find sandbox id "{sandbox.id}"', rule="CRI-052")
        self._use(current)
        self._make_mount_sources(config)
        uid, gid = resolve_user(config, image)
        resources = cri.LinuxContainerResources()
        resources.CopyFrom(config.linux.resources)
        return Container(
            id=container_id,
            sandbox_id=sandbox.id,
            reserved_name=name,
            name=config.metadata.name,
            attempt=config.metadata.attempt,
            instance=self._next_instance(sandbox, config.metadata.name),
            config=config,
            image_id=image.id,
            image_name=image.display_name,
            image_ref=image.display_ref,
            log_path=path,
            log_directory=sandbox_config.log_directory,
            stop_signal=resolve_stop_signal(config, image),
            resources=resources if config.linux.HasField("resources") else None,
            uid=uid,
            gid=gid,
            groups=resolve_groups(config, image, uid, gid),
            created_at_ns=world.unique_now_ns(),
        )

    def _next_instance(self, sandbox: Sandbox, name: str) -> int:
        pod = _pod_key(sandbox)
        counts = self._instances.get(pod)
        if counts is None:
            counts = self._instances[pod] = dict(self._world.notes.pop(f"instances/{pod}", {}))
        counts[name] = counts.get(name, 0) + 1
        self._world.keep_note(f"instances/{pod}", counts)
        return counts[name] - 1

    def forget_pod(self, sandbox: Sandbox) -> None:
        """The last sandbox of a pod is gone: its instances are not counted on."""
        pod = _pod_key(sandbox)
        self._instances.pop(pod, None)
        self._world.notes.pop(f"instances/{pod}", None)
        self._world.keep_note(f"instances/{pod}", None)

    def _make_mount_sources(self, config: cri.ContainerConfig) -> None:
        """A host path that does not exist becomes a directory, as in containerd (CRI-054)."""
        files = self._world.files
        for mount in config.mounts:
            if not mount.host_path:
                continue
            try:
                if not files.exists(mount.host_path):
                    files.make_dirs(mount.host_path, mode=0o755)
            except OSError as error:
                why = f'failed to mkdir "{mount.host_path}": {error.strerror}'
                text = f"failed to generate container spec: {why}"
                raise Refused(Kind.UNKNOWN, text, rule="CRI-054") from error

    # Start -------------------------------------------------------------------------------------------------

    def _update(self, container_id: str, event: Event, **facts: object) -> Container | None:
        """Advance a container that is still there; None if it is gone."""
        if container_id not in self._world.containers:
            return None

        def step(old: Container) -> Container:
            try:
                new = advance(old, event, **facts)  # pyright: ignore[reportArgumentType]
            except Refused:
                self._world.moved("container", old.phase, old.phase)
                raise
            assert new is not None
            if new.phase is not old.phase:
                self._world.moved("container", old.phase, new.phase)
            return new

        return self._world.containers.update(container_id, step)

    async def start(self, prefix: str) -> None:
        """Run a CREATED container. A failed start leaves it EXITED with 128 and StartError (CRI-042).

        Raises:
            Refused: it is unknown or not CREATED, its sandbox is not READY, or its command does not start.
        """
        world = self._world
        container = self.find(prefix)
        try:
            self._update(container.id, Event.START_BEGIN)
        except Refused as refused:
            if not world.profile.keeps_failed_start:
                raise _not_created(container) from None
            raise refused.wrapped(f'failed to set starting state for container "{container.id}"') from None
        total = world.latency.draw("StartContainer")
        try:
            await world.spend(total * _START_SHARE)
            live = self._launch(container)
        except Refused as refused:
            self._update(container.id, Event.START_FAIL, now_ns=world.clock.now_ns(), message=refused.text)
            if not world.profile.keeps_failed_start:
                self._forget(container)
            raise
        except BaseException:
            current = world.containers.get(container.id)
            if current is not None and current.phase is Phase.STARTING:
                self._update(container.id, Event.START_UNDO)
            raise
        self._update(container.id, Event.START_DONE, now_ns=world.clock.now_ns(), pid=world.next_pid())
        self._announce_start(container, live)
        await world.spend(total * (1 - _START_SHARE))

    def _launch(self, container: Container) -> LiveContainer:
        """Open the log and start the processes; synchronous, so that nothing can come between."""
        world = self._world
        sandbox = world.sandboxes.get(container.sandbox_id)
        if sandbox is None:
            raise not_found(f'sandbox "{container.sandbox_id}"')
        self._use(sandbox)
        image = world.images.resolve(container.image_id)
        if self._nursery is None or image is None:
            raise not_found(f'image "{container.image_id}"')
        behaviour = world.behaviours.for_instance(sandbox.name, container.name, container.instance)
        if behaviour.start_failure is not None:
            raise Refused(Kind.UNKNOWN, _start_failure_text(behaviour.start_failure), rule="CRI-042")
        log = LogFile(world.files, container.log_directory, container.log_path, now_ns=world.clock.now_ns)
        log.open()
        programs = Programs(opaque_unknown=not image.config.emulated, user=self._programs)
        processes = ContainerProcesses(
            nursery=self._nursery,
            clock=world.clock,
            rng=self._rng,
            net=world.net,
            fs=container_files(world, sandbox, container, image),
            hostname=sandbox.config.hostname or "localhost",
            pod_ip=sandbox.ips[0] if sandbox.ips else world.host_ip,
            programs=programs,
            own_pid_namespace=has_own_pid_namespace(container.config),
            user=(container.uid, container.gid),
            groups=container.groups,
        )
        argv = resolve_argv(container.config, image)
        if behaviour.program is not None:
            processes.programs = Programs(user={argv[0]: behaviour.program})
        environment = container_environment(sandbox, container.config, image)
        directory = container.config.working_dir or image.config.working_directory or "/"
        console = Console(
            log.write,
            stdin=container.config.stdin,
            stdin_once=container.config.stdin_once,
            tty=container.config.tty,
        )
        try:
            main = processes.start(
                argv,
                env=environment,
                cwd=directory,
                stdout=partial(console.take, "stdout"),
                stderr=partial(console.take, "stderr"),
                stdin=console.stdin,
                tty=container.config.tty,
                room=console.room,
            )
        except StartFailed as failed:
            log.close()
            raise Refused(Kind.UNKNOWN, failed.message, rule="CRI-042") from None
        opaque = not processes.resolve(argv, environment.get("PATH"), directory).emulated
        processes.programs = programs
        profile = world.profile
        console.terminal = main.terminal
        live = LiveContainer(
            clock=world.clock,
            processes=processes,
            main=main,
            log=log,
            console=console,
            behaviour=behaviour,
            opaque=opaque,
            lost=Outcome(
                exit_code=profile.lost_exit_code, signal=0, oom_killed=False, reason=profile.lost_reason
            ),
        )
        self._live[container.id] = live
        return live

    def _announce_start(self, container: Container, live: LiveContainer) -> None:
        world = self._world
        sandbox = world.sandboxes.get(container.sandbox_id)
        assert self._nursery is not None
        assert sandbox is not None
        world.observer(
            InstanceStarted(
                pod=sandbox.name,
                namespace=sandbox.namespace,
                container=container.name,
                instance=container.instance,
                container_id=container.id,
                argv=tuple(container.config.command) + tuple(container.config.args),
                opaque=live.opaque,
                at_ns=world.clock.now_ns(),
            )
        )
        world.publish(EventType.STARTED, container.id, container.sandbox_id)
        self._nursery.start_soon(
            live.supervise, partial(self._report_exit, container.id, sandbox), partial(world.pause, "Exit")
        )

    def _report_exit(self, container_id: str, sandbox: Sandbox, outcome: Outcome) -> None:
        """Record the end of a main process; called once, before anyone waiting for it wakes."""
        world = self._world
        live = self._live.pop(container_id, None)
        now_ns = live.ended_at_ns if live is not None else world.clock.now_ns()
        untracked = container_id in self._untracked
        self._untracked.discard(container_id)
        if untracked:
            container = world.containers.get(container_id)
        else:
            if outcome.oom_killed:
                self._update(container_id, Event.OOM)
            container = self._update(
                container_id, Event.EXIT, now_ns=now_ns, exit_code=outcome.exit_code, reason=outcome.reason
            )
        if container is None:
            return
        world.observer(
            InstanceExited(
                pod=sandbox.name,
                namespace=sandbox.namespace,
                container=container.name,
                instance=container.instance,
                container_id=container_id,
                exit_code=outcome.exit_code,
                signal=outcome.signal,
                reason=container.reason,
                oom_killed=outcome.oom_killed,
                at_ns=now_ns if untracked else container.finished_at_ns,
            )
        )
        if untracked:
            return
        world.publish(EventType.STOPPED, container_id, container.sandbox_id)

    # Stop and remove ---------------------------------------------------------------------------------------

    async def stop(self, prefix: str, timeout_seconds: int) -> None:
        """Signal, wait, kill; returns once EXITED shows. Unknown or not running: fine (CRI-047, CRI-050)."""
        container = self._world.containers.find(prefix)
        if container is None or container.phase not in (Phase.RUNNING, Phase.UNKNOWN):
            return
        live = self._live.get(container.id)
        if live is None:
            self._lost(container)
            return
        total = self._world.latency.draw("StopContainer")
        await self._world.spend(total * _STOP_SHARE)
        if timeout_seconds > 0:
            live.send_signal(container.stop_signal)
            with trio.move_on_after(timeout_seconds):
                await live.exited.wait()
        if not live.exited.is_set():
            live.send_signal(SIGKILL)
            await live.exited.wait()
        await self._world.spend(total * (1 - _STOP_SHARE))

    def _lost(self, container: Container) -> None:
        """Nobody knows what became of the process (CRI-045)."""
        profile = self._world.profile
        self._update(
            container.id,
            Event.EXIT,
            now_ns=self._world.clock.now_ns(),
            exit_code=profile.lost_exit_code,
            reason=profile.lost_reason,
        )

    async def kill(self, container_id: str) -> None:
        """SIGKILL a running container and wait for its exit; anything else is left alone (CRI-023)."""
        live = self._live.get(container_id)
        if live is not None:
            live.send_signal(SIGKILL)
            await live.exited.wait()

    def lose_track(self) -> None:
        """End every process so that nobody learns of it: the containers are UNKNOWN (CRI-045)."""
        for container in self._world.containers.values:
            if container.phase in (Phase.STARTING, Phase.RUNNING):
                self._update(container.id, Event.LOST)
        for container_id, live in tuple(self._live.items()):
            self._untracked.add(container_id)
            live.lose()

    async def lose_all(self) -> None:
        """End every process as a loss of power does; returns once all are EXITED with 255 (CRI-045)."""
        lost = list(self._live.values())
        for live in lost:
            live.lose()
        for live in lost:
            await live.exited.wait()

    async def remove(self, prefix: str) -> None:
        """Remove a container, a running one by force; its log stays. Unknown: fine (CRI-050, CRI-051).

        Raises:
            Refused: it is being started or removed at this moment.
        """
        world = self._world
        container = world.containers.find(prefix)
        if container is None:
            return
        if container.state in (WireState.RUNNING, WireState.UNKNOWN):
            await self.stop(container.id, 0)
        try:
            current = self._update(container.id, Event.REMOVE_BEGIN)
        except Refused as refused:
            raise refused.wrapped(f'failed to set removing state for container "{container.id}"') from None
        if current is None:
            return
        try:
            await world.pause("RemoveContainer")
        except BaseException:
            self._update(container.id, Event.REMOVE_UNDO)
            raise
        advance(current, Event.REMOVE_DONE)
        self._world.moved("container", current.phase, Phase.GONE)
        self._forget(container)

    def _forget(self, container: Container) -> None:
        self._world.remove_container(container)
        self._world.container_names.release(container.reserved_name)
        self._world.publish(EventType.DELETED, container.id, container.sandbox_id)

    # Smaller calls -----------------------------------------------------------------------------------------

    async def update_resources(self, prefix: str, wanted: cri.LinuxContainerResources) -> None:
        """Change what applies; a zero field leaves the old value (CRI-150).

        Raises:
            Refused: the container is unknown or being removed.
        """
        container = self._world.containers.find(prefix)
        if container is None:
            raise not_found("failed to find container")
        await self._world.pause("UpdateContainerResources")
        if container.id not in self._world.containers:
            raise not_found("failed to find container")
        self._world.containers.update(
            container.id, lambda old: evolve(old, resources=merged_resources(old.resources, wanted))
        )

    async def reopen_log(self, prefix: str) -> None:
        """Go on in a fresh log file (CRI-129).

        Raises:
            Refused: the container is unknown or not running, or the file cannot be made.
        """
        container = self._world.containers.find(prefix)
        if container is None:
            raise self._world.unknown(f'an error occurred when try to find container "{prefix}"')
        await self._world.pause("ReopenContainerLog")
        live = self._live.get(container.id)
        if live is None:
            raise Refused(Kind.UNKNOWN, "container is not running", rule="CRI-129")
        live.log.reopen()

    def image_of(self, container: Container) -> Image | None:
        """The container's image, None once it was removed."""
        return self._world.images.resolve(container.image_id)


def _pod_key(sandbox: Sandbox) -> str:
    return f"{sandbox.namespace}/{sandbox.name}/{sandbox.uid}"


def _not_created(container: Container) -> Refused:
    """How CRI-O refuses a second start (CRI-070)."""
    state = "stopped" if container.state is WireState.EXITED else container.state.lower()
    return Refused(Kind.UNKNOWN, f"container {container.id} is not in created state: {state}", rule="CRI-041")


def _start_failure_text(why: str) -> str:
    return (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
        f"runc create failed: unable to start container process: {why}: unknown"
    )
