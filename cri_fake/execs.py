"""ExecSync: a command beside the main process, its output collected (CRI-110 to CRI-113)."""

from collections.abc import Awaitable, Callable

import trio

from cri_fake.container_spec import container_environment
from cri_fake.containers import ContainerOps
from cri_fake.live import LiveContainer
from cri_fake.process import ProcessHandle, StartFailed
from cri_fake.process.streams import OpenFile
from cri_fake.profile import Profile
from cri_fake.store.containers import Container, WireState
from cri_fake.store.faults import Kind, Refused
from cri_fake.world import World
from k8s_proto import runtime_v1_pb2 as cri

__all__ = ["ExecOps", "Output", "not_running"]

_SHARE = 0.6
"""Part of the latency that passes before the command runs."""


class Output:
    """Collects two streams up to a limit on their sum; what is more is dropped (CRI-111)."""

    def __init__(self, limit_bytes: int) -> None:
        self._room = limit_bytes
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.dropped_bytes = 0

    def take_stdout(self, data: bytes) -> None:
        self._take(self.stdout, data)

    def take_stderr(self, data: bytes) -> None:
        self._take(self.stderr, data)

    def _take(self, into: bytearray, data: bytes) -> None:
        kept = data[: self._room]
        into += kept
        self._room -= len(kept)
        self.dropped_bytes += len(data) - len(kept)


def not_running(profile: Profile, container: Container) -> Refused:
    """What each runtime says of a command in a container that does not run (CRI-070)."""
    if profile.exec_stopped_is_not_found:
        state = "stopped" if container.state is WireState.EXITED else container.state.lower()
        return Refused(Kind.NOT_FOUND, f"container is not created or running: current state is {state}")
    return Refused(Kind.UNKNOWN, f"container is in CONTAINER_{container.state} state", rule="CRI-070")


class ExecOps:
    """Commands in running containers."""

    def __init__(self, world: World, containers: ContainerOps) -> None:
        self._world = world
        self._containers = containers

    async def exec_sync(
        self, prefix: str, argv: tuple[str, ...], timeout_seconds: int
    ) -> cri.ExecSyncResponse:
        """Run a command to its end; ``timeout_seconds`` 0 is none. A non-zero exit is no error.

        Raises:
            Refused: NotFound; not running; empty or unknown command; DeadlineExceeded when the time is over.
        """
        try:
            return await self._run(prefix, argv, timeout_seconds)
        except Refused as refused:
            raise refused.wrapped("failed to exec in container") from None

    async def _run(self, prefix: str, argv: tuple[str, ...], timeout_seconds: int) -> cri.ExecSyncResponse:
        world = self._world
        container = world.containers.find(prefix)
        if container is None:
            raise Refused(Kind.NOT_FOUND, f'failed to find container "{prefix}" in store: not found')
        live = self._containers.live(container.id)
        if container.state is not WireState.RUNNING or live is None:
            raise not_running(world.profile, container)
        if not argv:
            raise Refused(Kind.INVALID_ARGUMENT, "exec command must not be empty", rule="CRI-110")
        total = world.latency.draw("ExecSync")
        await world.spend(total * _SHARE)
        told = live.ready_now() if timeout_seconds > 0 else None
        if told is not None:
            await world.spend(total * (1 - _SHARE))
            return cri.ExecSyncResponse(exit_code=0 if told else 1)
        output = Output(world.profile.max_exec_output_bytes)
        process = self.launch(container, live, argv, stdout=output.take_stdout, stderr=output.take_stderr)
        code = await _finish(process, timeout_seconds)
        if code is None and not world.profile.exec_timeout_is_error:
            return cri.ExecSyncResponse(stderr=b"command timed out", exit_code=-1)
        if code is None:
            text = f"timeout {timeout_seconds}s exceeded: context deadline exceeded"
            raise Refused(Kind.DEADLINE_EXCEEDED, text, rule="CRI-110")
        await world.spend(total * (1 - _SHARE))
        return cri.ExecSyncResponse(stdout=bytes(output.stdout), stderr=bytes(output.stderr), exit_code=code)

    def launch(
        self,
        container: Container,
        live: LiveContainer,
        argv: tuple[str, ...],
        *,
        stdout: Callable[[bytes], None] | OpenFile,
        stderr: Callable[[bytes], None] | OpenFile,
        stdin: trio.abc.ReceiveStream | None = None,
        tty: bool = False,
        room: Callable[[], Awaitable[None]] | None = None,
    ) -> ProcessHandle:
        """Start a command beside the main process, with its environment and folder.

        Raises:
            Refused: the container has ended meanwhile, or the command cannot be started.
        """
        world = self._world
        sandbox = world.sandboxes.get(container.sandbox_id)
        image = self._containers.image_of(container)
        if live.exited.is_set() or sandbox is None or image is None:
            raise not_running(world.profile, container)
        environment = container_environment(sandbox, container.config, image)
        try:
            return live.processes.start(
                argv,
                env={**environment, "TERM": "xterm"} if tty else environment,
                cwd=container.config.working_dir or image.config.working_directory or "/",
                stdout=stdout,
                stderr=stderr,
                stdin=stdin,
                tty=tty,
                room=room,
            )
        except StartFailed as failed:
            text = f'failed to start exec "{world.new_id()}": {failed.message}'
            raise Refused(Kind.UNKNOWN, text, rule="CRI-110") from None


async def _finish(process: ProcessHandle, timeout_seconds: int) -> int | None:
    """The exit code once output is closed too (CRI-112); None, and all killed, when time is over."""
    done = False
    limit = timeout_seconds if timeout_seconds > 0 else float("inf")
    try:
        with trio.move_on_after(limit):
            code = await process.wait()
            await process.output_closed()
            done = True
            return code
        return None
    finally:
        if not done:
            process.kill_tree()
