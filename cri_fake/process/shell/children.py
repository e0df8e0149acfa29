"""The shell's copies of itself: subshells, pipelines, background jobs, command substitutions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from cri_fake.process import signals
from cri_fake.process.proc import Proc, decode
from cri_fake.process.shell.nodes import Command, Pipeline, Script
from cri_fake.process.shell.state import ShellFailure
from cri_fake.process.streams import DeviceFile, OpenFile, Pipe

if TYPE_CHECKING:
    from cri_fake.process.shell.interp import Shell

__all__ = ["Children", "Job"]

MAX_SUBSTITUTION_BYTES = 16 << 20
MAX_JOBS = 500
"""Above so many jobs those that have ended are forgotten."""


class Job:
    """A command in the background; a pipeline has several processes."""

    def __init__(self, number: int, processes: list[Proc]) -> None:
        self.number = number
        self.processes = processes

    @property
    def pid(self) -> int:
        return self.processes[-1].pid

    @property
    def done(self) -> bool:
        return all(process.exit_code is not None for process in self.processes)

    @property
    def status(self) -> int:
        return self.processes[-1].exit_code or 0

    async def wait(self) -> int:
        for process in self.processes:
            await process.exited.wait()
        return self.status


class Children:
    """Starts copies of one shell, and knows its jobs."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self.jobs: list[Job] = []

    def fork(
        self,
        body: Callable[[Shell], Awaitable[int]],
        *,
        foreground: bool,
        fds: dict[int, OpenFile] | None = None,
    ) -> Proc:
        """A child, a copy of the shell, that runs ``body``; caught signals are back to their default in it.

        ``fds`` is handed over. A child in the foreground spends the shell's patience with loops.
        """
        parent = self._shell
        state = parent.state.copy()
        status, line, calls, tested = parent.status, parent.line, parent.calls, parent.tested

        async def program(proc: Proc) -> int:
            shell = type(parent)(proc, state, script_file=parent.script_file)
            shell.status, shell.line, shell.calls, shell.tested = status, line, calls, tested
            shell.umbrella_pid = parent.umbrella_pid
            shell.traps.actions = dict.fromkeys(sorted(proc.ignored), "")
            return await shell.main(lambda: body(shell))

        ignored = parent.proc.ignored
        if not foreground:
            ignored |= {signals.INT, signals.QUIT}
        try:
            child = parent.proc.fork(program, fds=fds, ignored=ignored)
        except OSError as problem:
            raise ShellFailure(f"can't fork: {problem.strerror}") from None
        if foreground:
            child.pace = parent.proc.pace
        return child

    def fork_command(self, command: Command, fds: dict[int, OpenFile], *, foreground: bool) -> Proc:
        """A child that runs one command and nothing after it."""

        async def body(shell: Shell) -> int:
            return await shell.execute(command, last=True)

        return self.fork(body, foreground=foreground, fds=fds)

    def start_pipeline(self, command: Pipeline, *, foreground: bool) -> list[Proc]:
        """All commands of a pipeline, each a child, connected."""
        processes: list[Proc] = []
        source: OpenFile | None = None
        try:
            for index, part in enumerate(command.commands):
                fds = self._shell.proc.copy_fds()
                if source is not None:
                    self._replace(fds, 0, source)
                    source = None
                if index < len(command.commands) - 1:
                    pipe = Pipe()
                    self._replace(fds, 1, pipe.writer)
                    source = pipe.reader
                processes.append(self.fork_command(part, fds, foreground=foreground))
        except ShellFailure:
            if source is not None:
                source.release()
            raise
        return processes

    def _replace(self, fds: dict[int, OpenFile], fd: int, file: OpenFile) -> None:
        old = fds.get(fd)
        fds[fd] = file
        if old is not None:
            old.release()

    async def background(self, command: Command) -> None:
        """``command &``: without a terminal its standard input is empty."""
        shell = self._shell
        await shell.proc.pay_fork()
        if isinstance(command, Pipeline) and len(command.commands) > 1 and not command.negated:
            processes = self.start_pipeline(command, foreground=False)
        else:
            fds = shell.proc.copy_fds()
            if not shell.interactive:
                self._replace(fds, 0, DeviceFile("null", shell.proc.rng))
            processes = [self.fork_command(command, fds, foreground=False)]
        if len(self.jobs) > MAX_JOBS:
            self.jobs = [job for job in self.jobs if not job.done]
        number = max((job.number for job in self.jobs), default=0) + 1
        self.jobs.append(Job(number, processes))
        shell.state.last_background = str(processes[-1].pid)

    async def substitute(self, script: Script) -> tuple[str, int]:
        """The output of a command substitution without the newlines at its end, and its status."""
        proc = self._shell.proc
        await proc.pay_fork()
        pipe = Pipe()
        fds = proc.copy_fds()
        self._replace(fds, 1, pipe.writer)

        async def run(shell: Shell) -> int:
            return await shell.run_script(script, last=True)

        child = self.fork(run, foreground=True, fds=fds)
        chunks: list[bytes] = []
        total = 0
        try:
            while chunk := await pipe.reader.read(65536):
                chunks.append(chunk)
                total += len(chunk)
                if total > MAX_SUBSTITUTION_BYTES:
                    raise ShellFailure("output of a command substitution exceeds 16 MiB")
        finally:
            pipe.reader.release()
        status = await proc.wait_for(child)
        return decode(b"".join(chunks).replace(b"\0", b"")).rstrip("\n"), status
