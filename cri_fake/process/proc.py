"""A process of a container, as its program sees it.

A program is an async function over a ``Proc``: arguments, environment, descriptors, files, signals, time,
other processes. It ends by returning its exit code, by ``raise Exit(code)``, or by a signal, which cancels
it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import trio

from cri_fake.process import signals
from cri_fake.process.files import ContainerFiles
from cri_fake.process.layer import Device
from cri_fake.process.programs import Program
from cri_fake.process.streams import DeviceFile, OpenFile, Pipe, RegularFile
from node_host.clock import NodeClock

if TYPE_CHECKING:
    from cri_fake.process.kernel import ContainerProcesses

__all__ = ["Exit", "Pace", "Proc", "decode", "encode"]

_READ_BYTES = 65536
MAX_READ_ALL_BYTES = 64 << 20

SignalAction = Callable[[int], None] | Literal["ignore"]
"""A handler, called at once in the loop (it must not block), or "ignore". Absent means the default action."""


def encode(text: str) -> bytes:
    """Text of the shell as bytes; what was not UTF-8 comes out as it went in."""
    return text.encode("utf-8", "surrogateescape")


def decode(data: bytes) -> str:
    """Bytes as text of the shell, without loss."""
    return data.decode("utf-8", "surrogateescape")


class Exit(Exception):
    """Ends the program with this exit code, from however deep inside it."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Pace:
    """What computing costs in virtual time, so that a busy loop cannot stop the clock. Deterministic.

    ``STEPS`` steps of a loop cost ``burst_seconds``. A process that goes on and on without waiting for
    anything pays more and more: after ``PATIENCE`` bursts the price doubles every ``DOUBLING`` bursts up to
    ``MAX_SECONDS``. A loop that spins for minutes then costs little real time, at the price of a coarser
    grain (about 2 % of the time it has been spinning). Starting processes is bounded for the container as a
    whole, see ``ContainerProcesses.start_delay_seconds``.
    """

    STEPS = 16
    PATIENCE = 500
    DOUBLING = 50
    MAX_SECONDS = 1.0

    __slots__ = ("_bursts", "_steps", "burst_seconds")

    def __init__(self, burst_seconds: float) -> None:
        self.burst_seconds = burst_seconds
        self._bursts = 0
        self._steps = 0

    def rested(self) -> None:
        """The process has waited for something."""
        self._bursts = 0

    def step(self) -> bool:
        """One step of a loop; True when a payment is due."""
        self._steps += 1
        if self._steps < self.STEPS:
            return False
        self._steps = 0
        return True

    def burst_price_seconds(self) -> float:
        """What a burst of steps costs now."""
        self._bursts += 1
        doublings = max(self._bursts - self.PATIENCE, 0) // self.DOUBLING
        return min(self.burst_seconds * 2.0 ** min(doublings, 40), self.MAX_SECONDS)


class Proc:
    """One process. Programs read the public attributes; ``cwd``, ``env`` and ``fds`` are theirs to change."""

    def __init__(
        self,
        kernel: ContainerProcesses,
        *,
        pid: int,
        parent: int,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        fds: dict[int, OpenFile],
        ignored: frozenset[int] = frozenset(),
        umask: int = 0o022,
    ) -> None:
        self.kernel = kernel
        self.pid = pid
        self.parent = parent
        self.argv = list(argv)
        self.env = dict(env)
        self.cwd = cwd
        self.fds = fds
        self.umask = umask
        self.actions: dict[int, SignalAction] = dict.fromkeys(sorted(ignored), "ignore")
        self.started_seconds = kernel.clock.elapsed_seconds()
        self.exit_code: int | None = None
        self.killed_by = 0
        self.exited = trio.Event()
        self.scope = trio.CancelScope()
        self.pace = Pace(kernel.burst_seconds)
        self._told: trio.Event | None = None
        self._told_code = 0

    # -- the container around it ----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The program's own name, as in messages."""
        return self.argv[0].rsplit("/", 1)[-1] if self.argv else "?"

    @property
    def args(self) -> list[str]:
        return self.argv[1:]

    @property
    def fs(self) -> ContainerFiles:
        return self.kernel.fs

    @property
    def clock(self) -> NodeClock:
        return self.kernel.clock

    @property
    def rng(self) -> random.Random:
        return self.kernel.rng

    @property
    def hostname(self) -> str:
        return self.kernel.hostname

    @property
    def pod_ip(self) -> str:
        return self.kernel.pod_ip

    def path(self, name: str) -> str:
        """A path made absolute against the working directory. An empty one stays empty."""
        if name.startswith("/") or not name:
            return name
        return f"{self.cwd.rstrip('/')}/{name}"

    # -- time -----------------------------------------------------------------------------------------------

    async def sleep(self, seconds: float) -> None:
        """Wait; infinity waits until the process is ended."""
        self.pace.rested()
        if seconds == float("inf"):
            await trio.sleep_forever()
        await self.clock.sleep(seconds)

    async def step(self) -> None:
        """One step of work that might go on for ever: costs a little virtual time now and then."""
        if self.pace.step():
            await self.clock.sleep(self.pace.burst_price_seconds())

    async def pay(self) -> None:
        """What starting a program costs."""
        await self.clock.sleep(self.kernel.burst_seconds + self.kernel.start_delay_seconds())

    async def pay_fork(self) -> None:
        """What a copy of the own program costs: nothing, unless the container starts processes in masses."""
        delay_seconds = self.kernel.start_delay_seconds()
        if delay_seconds:
            await self.clock.sleep(delay_seconds)

    async def until_told(self) -> int:
        """Run until ``tell`` gives an exit code; a TERM or INT ends it as any process, even as pid 1."""
        for number in (signals.TERM, signals.INT, signals.HUP, signals.QUIT):
            if number not in self.actions:
                self.actions[number] = self.die
        self._told = trio.Event()
        await self._told.wait()
        return self._told_code

    def tell(self, exit_code: int) -> None:
        """End a process that runs ``until_told``."""
        if self._told is not None:
            self._told_code = exit_code
            self._told.set()

    # -- descriptors ----------------------------------------------------------------------------------------

    async def read(self, limit: int = _READ_BYTES, *, fd: int = 0) -> bytes:
        """The next bytes of a descriptor, b"" at its end."""
        file = self.fds.get(fd)
        if file is None:
            raise OSError(9, os.strerror(9))
        before = trio.current_time()
        data = await file.read(limit)
        if trio.current_time() > before:
            self.pace.rested()
        else:
            await self.step()
        return data

    async def read_all(self, *, fd: int = 0, limit: int = MAX_READ_ALL_BYTES) -> bytes:
        """Everything up to the end; more than ``limit`` raises OSError (ENOMEM)."""
        chunks: list[bytes] = []
        total = 0
        while chunk := await self.read(fd=fd):
            chunks.append(chunk)
            total += len(chunk)
            if total > limit:
                raise OSError(12, os.strerror(12))
        return b"".join(chunks)

    async def write(self, data: bytes | str, *, fd: int = 1) -> None:
        """Write everything. With nobody left to read, SIGPIPE; where that is ignored, BrokenPipeError."""
        if self.killed_by:
            await trio.lowlevel.checkpoint()
        file = self.fds.get(fd)
        if file is None:
            raise OSError(9, os.strerror(9))
        try:
            await file.write(encode(data) if isinstance(data, str) else data)
        except BrokenPipeError:
            self.deliver(signals.PIPE)
            await trio.lowlevel.checkpoint()
            raise

    async def complain(self, text: str) -> None:
        """A line on standard error with the program's name in front; lost when that is closed."""
        try:
            await self.write(f"{self.name}: {text}\n", fd=2)
        except OSError:
            return

    def open(
        self,
        path: str,
        *,
        write: bool = False,
        append: bool = False,
        truncate: bool = False,
        create: bool = False,
        exclusive: bool = False,
        read: bool = True,
    ) -> OpenFile:
        """Open a file, a device or one of the own descriptors (/dev/stdout). Raises OSError."""
        found = self.fs.open(
            self.path(path),
            write=write,
            create=create,
            truncate=truncate,
            exclusive=exclusive,
            mode=0o666 & ~self.umask,
        )
        if isinstance(found, Device):
            return self._open_device(found, path)
        return RegularFile(found, append=append, writable=write, readable=read)

    def _open_device(self, device: Device, path: str) -> OpenFile:
        if device.kind.startswith("fd:"):
            file = self.fds.get(int(device.kind[3:]))
            if file is None:
                raise OSError(2, os.strerror(2), path)
            return file.hold()
        if device.kind == "tty":
            for file in self.fds.values():
                if file.is_terminal:
                    return file.hold()
            raise OSError(6, os.strerror(6), path)
        return DeviceFile(device.kind, self.rng)

    def set_fd(self, fd: int, file: OpenFile) -> None:
        """Let a descriptor lead to this open file (which it then holds), closing what it led to."""
        old = self.fds.get(fd)
        self.fds[fd] = file
        if old is not None:
            old.release()

    def close_fd(self, fd: int) -> None:
        file = self.fds.pop(fd, None)
        if file is not None:
            file.release()

    def close_all(self) -> None:
        fds, self.fds = self.fds, {}
        for file in fds.values():
            file.release()

    def copy_fds(self) -> dict[int, OpenFile]:
        return {fd: file.hold() for fd, file in self.fds.items()}

    def pipe(self) -> Pipe:
        return Pipe()

    # -- signals --------------------------------------------------------------------------------------------

    def on_signal(self, number: int, action: SignalAction | None) -> None:
        """Set what a signal does; None is the default. KILL and STOP cannot be caught."""
        if number in (signals.KILL, signals.STOP):
            return
        if action is None:
            self.actions.pop(number, None)
        else:
            self.actions[number] = action

    def deliver(self, number: int, *, from_outside: bool = False) -> None:
        """A signal arrives.

        The first process of a container ignores what it has not asked for: even KILL, unless it comes from
        outside the container's pid namespace, as the runtime's does.
        """
        if self.exit_code is not None or self.killed_by or number == 0:
            return
        init = self.pid == 1 and self.kernel.own_pid_namespace
        if number == signals.KILL:
            if not init or from_outside:
                self.die(number)
            return
        action = self.actions.get(number)
        if action == "ignore":
            return
        if action is not None:
            action(number)
        elif not init and not signals.ignored_by_default(number) and number not in _STOPPING:
            self.die(number)

    def die(self, number: int) -> None:
        """End by a signal."""
        self.killed_by = number
        self.scope.cancel()

    # -- other processes ------------------------------------------------------------------------------------

    @property
    def ignored(self) -> frozenset[int]:
        """Signals that are ignored, which children inherit."""
        return frozenset(number for number, action in self.actions.items() if action == "ignore")

    def fork(
        self, program: Program, *, argv: Sequence[str] | None = None, fds: dict[int, OpenFile] | None = None,
        env: Mapping[str, str] | None = None, ignored: frozenset[int] | None = None,
    ) -> Proc:  # fmt: skip
        """Start a child with copies of descriptors, environment and working directory.

        ``fds`` is handed over, not copied. Raises OSError (EAGAIN) when the container has too many processes.
        """
        return self.kernel.spawn(
            program,
            parent=self.pid,
            argv=self.argv if argv is None else argv,
            env=self.env if env is None else env,
            cwd=self.cwd,
            fds=self.copy_fds() if fds is None else fds,
            ignored=self.ignored if ignored is None else ignored,
            umask=self.umask,
        )

    async def run(self, argv: Sequence[str], *, fds: dict[int, OpenFile] | None = None) -> int:
        """Run a command found through PATH and wait for it. Raises ``ExecError``."""
        found = self.kernel.resolve(argv, self.env.get("PATH"), self.cwd)
        child = self.fork(found.program, argv=found.argv, fds=fds)
        child.pace = self.pace
        return await self.wait_for(child)

    async def wait_for(self, child: Proc) -> int:
        """The exit code of a child once it has ended."""
        await child.exited.wait()
        return child.exit_code or 0

    async def execute(self, program: Program, argv: Sequence[str], env: Mapping[str, str]) -> int:
        """Become another program: caught signals go back to their default, ignored ones stay ignored."""
        self.argv = list(argv)
        self.env = dict(env)
        self.actions = {number: action for number, action in self.actions.items() if action == "ignore"}
        return await run_program(program, self)


async def run_program(program: Program, proc: Proc) -> int:
    """The exit code of a program run as this process; what it raises becomes an exit code as well.

    A program that fails in Python ends as Python would end: a line on standard error and exit code 1. An
    OSError that a program lets pass is reported in its name, as the C library's ``perror`` does.
    """
    try:
        code = await program(proc)
    except Exit as end:
        code = end.code
    except BrokenPipeError:
        code = 1
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        await proc.complain(f"{where}{problem.strerror or problem}")
        code = 1
    except Exception as problem:  # the program is a guest: its failure must not end the node
        await proc.complain(f"program failed: {type(problem).__name__}: {problem}")
        code = 1
    return (code or 0) & 0xFF


_STOPPING = frozenset(signals.NUMBERS[name] for name in ("STOP", "TSTP", "TTIN", "TTOU"))
