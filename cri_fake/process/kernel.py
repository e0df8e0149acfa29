"""The processes of one container: a pid namespace with its signals, over one file system.

Each process is one trio task. The first is pid 1: signals that it does not handle do not reach it, and when
it ends all others are killed. Later ones are execs. Finding and starting programs fails with the texts of
runc under containerd.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence

import trio
from attrs import frozen

from cri_fake.process import signals
from cri_fake.process.files import ContainerFiles
from cri_fake.process.images import program_in
from cri_fake.process.layer import Device
from cri_fake.process.proc import Proc, run_program
from cri_fake.process.programs import Program, Programs, StartFailed, opaque
from cri_fake.process.streams import BytesSource, DeviceFile, OpenFile, Sink, StreamSource
from cri_fake.process.terminal import Terminal
from node_host.clock import NodeClock
from node_host.net import Net

__all__ = ["DEFAULT_PATH", "ContainerProcesses", "ExecError", "Executable", "ProcessHandle"]

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MAX_PROCESSES = 1024
MAX_STARTS_AT_ONCE = 2000
MAX_STARTS_PER_SECOND = 20
"""A container that starts more than ``MAX_STARTS_AT_ONCE`` processes has to make do with so many a second."""

DEFAULT_BURST_SECONDS = 0.001
_START_FAILED = 128
_EXEC_FORMAT_ERROR = 255
_HEAD_BYTES = 256
_MAX_INTERPRETERS = 4


class ExecError(Exception):
    """A command that cannot be run. ``kind``: missing, denied, folder, format. ``exit_code`` is a shell's:
    127 or 126.
    """

    def __init__(self, kind: str, command: str) -> None:
        super().__init__(f"{command}: {kind}")
        self.kind = kind
        self.command = command
        self.exit_code = 127 if kind == "missing" else 126


@frozen
class Executable:
    """A program found, and the arguments it gets (an interpreter's come first). ``emulated`` False: runs
    opaquely.
    """

    program: Program
    argv: tuple[str, ...]
    emulated: bool = True


class ProcessHandle:
    """A process started from outside the container."""

    def __init__(self, proc: Proc, sinks: Sequence[Sink | Terminal]) -> None:
        self._proc = proc
        self._sinks = sinks

    @property
    def pid(self) -> int:
        return self._proc.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 128 + n when signal n ended it."""
        return self._proc.exit_code

    async def wait(self) -> int:
        """The exit code, once the process has ended. For pid 1 all others have ended too."""
        await self._proc.exited.wait()
        return self._proc.exit_code or 0

    async def output_closed(self) -> None:
        """Wait until nobody can write to its standard output and error any more: a child in the background
        that still holds them delays this (CRI-112).
        """
        for sink in self._sinks:
            await sink.done.wait()

    def signal(self, number: int) -> None:
        """Send a signal as the runtime does, from outside the pid namespace. Nothing once it has ended."""
        self._proc.deliver(number, from_outside=True)

    def kill_tree(self) -> None:
        """KILL the process and its descendants, as at the end of an exec's time limit (CRI-110)."""
        self._proc.kernel.kill_tree(self._proc)

    @property
    def terminal(self) -> Terminal | None:
        """Its terminal, if it was started with one."""
        return next((sink for sink in self._sinks if isinstance(sink, Terminal)), None)

    def tell(self, exit_code: int) -> None:
        """End an opaque process (one that is not emulated) with this exit code; nothing for any other."""
        self._proc.tell(exit_code)


class ContainerProcesses:
    """All processes of one container.

    ``own_pid_namespace`` False is for pods that share the process namespace: no process is special then.
    ``user`` (uid, gid) and the supplemental ``groups`` are what ``id`` tells; permissions are not enforced.
    ``burst_seconds`` is what starting a program, or a burst of computing, costs in node time.
    """

    def __init__(
        self,
        *,
        nursery: trio.Nursery,
        clock: NodeClock,
        rng: random.Random,
        net: Net,
        fs: ContainerFiles,
        hostname: str,
        pod_ip: str,
        programs: Programs,
        own_pid_namespace: bool = True,
        user: tuple[int, int] = (0, 0),
        groups: tuple[int, ...] = (),
        burst_seconds: float = DEFAULT_BURST_SECONDS,
    ) -> None:
        self._nursery = nursery
        self.clock = clock
        self.rng = rng
        self.net = net
        self.fs = fs
        self.hostname = hostname
        self.pod_ip = pod_ip
        self.programs = programs
        self.own_pid_namespace = own_pid_namespace
        self.user = user
        self.groups = groups
        self.burst_seconds = burst_seconds
        self.processes: dict[int, Proc] = {}
        self._starts_left = float(MAX_STARTS_AT_ONCE)
        self._starts_counted_seconds = clock.elapsed_seconds()
        self._next_pid = 1
        self._first: Proc | None = None
        self._fill_files()

    def _fill_files(self) -> None:
        fs = self.fs
        fs.put_generated("/proc/uptime", lambda: f"{self.clock.elapsed_seconds():.2f} 0.00\n".encode())
        fs.put_generated("/proc/mounts", self._mounts)
        fs.put_generated("/proc/self/mounts", self._mounts)
        fs.put_file("/etc/hostname", f"{self.hostname}\n".encode())

    def _mounts(self) -> bytes:
        lines = ["overlay / overlay rw,relatime 0 0", "proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0"]
        lines += [
            f"/dev/node {mount.container_path} ext4 {'ro' if mount.readonly else 'rw'},relatime 0 0"
            for mount in self.fs.mounts
        ]
        return "\n".join([*lines, ""]).encode()

    # -- from outside ---------------------------------------------------------------------------------------

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str = "/",
        stdout: Callable[[bytes], None] | OpenFile,
        stderr: Callable[[bytes], None] | OpenFile,
        stdin: bytes | trio.abc.ReceiveStream | OpenFile | None = None,
        tty: bool = False,
        room: Callable[[], Awaitable[None]] | None = None,
    ) -> ProcessHandle:
        """Start a process: the first is pid 1, later ones are execs. Raises ``StartFailed``.

        Output is handed over in the loop, in order, as it is written; ``room`` lets its writers wait after
        each piece. An open file is handed over with the call and serves as the descriptor itself. With
        ``tty`` the process has a terminal (``terminal`` module): everything it shows goes to ``stdout``, what
        is typed included.
        """
        first = self._first is None
        if not first and (self._first is None or self._first.exit_code is not None):
            raise StartFailed(_START_FAILED, "cannot exec in a stopped container")
        full_env = {"PATH": DEFAULT_PATH, "HOSTNAME": self.hostname, "HOME": "/root", **env}
        try:
            found = self._find_for_runtime(argv, full_env["PATH"], cwd)
            self._make_cwd(cwd)
        except _RuntimeRefusal as refusal:
            raise StartFailed(_START_FAILED, _runtime_text(str(refusal), first=first)) from None
        fds: dict[int, OpenFile]
        if tty:
            assert not isinstance(stdout, OpenFile)
            assert not isinstance(stdin, OpenFile)
            terminal = self._terminal(stdin, stdout, room)
            fds, sinks = {0: terminal, 1: terminal.hold(), 2: terminal.hold()}, [terminal]
            full_env.setdefault("TERM", "xterm")
        else:
            outputs = [each if isinstance(each, OpenFile) else Sink(each, room) for each in (stdout, stderr)]
            sinks = [each for each in outputs if isinstance(each, Sink)]
            fds = {0: self._stdin(stdin), 1: outputs[0], 2: outputs[1]}
        proc = self.spawn(found.program, parent=0, argv=found.argv, env=full_env, cwd=cwd, fds=fds)
        if first:
            self._first = proc
        return ProcessHandle(proc, sinks)

    def _terminal(
        self,
        stdin: bytes | trio.abc.ReceiveStream | None,
        show: Callable[[bytes], None],
        room: Callable[[], Awaitable[None]] | None,
    ) -> Terminal:
        def interrupt(number: int) -> None:
            for proc in list(self.processes.values()):
                if 0 in proc.fds and proc.fds[0] is terminal:
                    proc.deliver(number)

        terminal = Terminal(show, interrupt, room)
        if stdin is not None and not isinstance(stdin, bytes):
            self._nursery.start_soon(terminal.pump, stdin)
        elif stdin:
            terminal.feed(stdin)
        return terminal

    def _stdin(self, stdin: bytes | trio.abc.ReceiveStream | OpenFile | None) -> OpenFile:
        if stdin is None:
            return DeviceFile("null", self.rng)
        if isinstance(stdin, OpenFile):
            return stdin
        if isinstance(stdin, bytes):
            return BytesSource(stdin)
        return StreamSource(stdin)

    def _find_for_runtime(self, argv: Sequence[str], search: str, cwd: str) -> Executable:
        if not argv:
            raise _RuntimeRefusal("args must not be empty")
        try:
            return self.resolve(argv, search, cwd)
        except ExecError as problem:
            command = problem.command
            if problem.kind == "format":
                return Executable(_bad_format, tuple(argv))
            if problem.kind == "missing" and "/" in command:
                text = f"stat {command}: no such file or directory"
            elif problem.kind == "missing":
                text = "executable file not found in $PATH"
            else:
                text = "is a directory" if problem.kind == "folder" else "permission denied"
            raise _RuntimeRefusal(f'exec: "{command}": {text}') from None

    def _make_cwd(self, cwd: str) -> None:
        """runc makes a working directory that does not exist."""
        path = ""
        for name in [name for name in cwd.split("/") if name]:
            path += f"/{name}"
            try:
                self.fs.make_dir(path)
            except FileExistsError:
                continue
            except OSError as problem:
                text = (problem.strerror or str(problem)).lower()
                raise _RuntimeRefusal(f"mkdir {path}: {text}") from None
        if not self.fs.is_dir(cwd or "/"):
            raise _RuntimeRefusal(f'chdir to cwd ("{cwd}") set in config.json failed: not a directory')

    def kill_all(self) -> None:
        """KILL every process of the container."""
        for proc in list(self.processes.values()):
            proc.deliver(signals.KILL, from_outside=True)

    def kill_tree(self, root: Proc) -> None:
        """KILL a process and all that descend from it."""
        doomed = {root.pid}
        for pid, proc in sorted(self.processes.items()):
            if proc.parent in doomed:
                doomed.add(pid)
        for pid in sorted(doomed):
            proc = self.processes.get(pid)
            if proc is not None:
                proc.deliver(signals.KILL, from_outside=True)

    def start_delay_seconds(self) -> float:
        """How long the next start has to wait: nothing for all but loops and bombs of processes."""
        now_seconds = self.clock.elapsed_seconds()
        earned = (now_seconds - self._starts_counted_seconds) * MAX_STARTS_PER_SECOND
        self._starts_counted_seconds = now_seconds
        self._starts_left = min(self._starts_left + earned, MAX_STARTS_AT_ONCE) - 1.0
        return max(-self._starts_left, 0.0) / MAX_STARTS_PER_SECOND

    # -- from inside ----------------------------------------------------------------------------------------

    def spawn(
        self,
        program: Program,
        *,
        parent: int,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        fds: dict[int, OpenFile],
        ignored: frozenset[int] = frozenset(),
        umask: int = 0o022,
    ) -> Proc:
        """Start a process with these descriptors, which it owns from now on. Raises OSError (EAGAIN) at the
        limit.
        """
        if len(self.processes) >= MAX_PROCESSES:
            for file in fds.values():
                file.release()
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        pid = self._next_pid
        self._next_pid += 1
        proc = Proc(
            self, pid=pid, parent=parent, argv=argv, env=env, cwd=cwd, fds=fds, ignored=ignored, umask=umask
        )
        self.processes[pid] = proc
        self._nursery.start_soon(self._main, proc, program)
        return proc

    async def _main(self, proc: Proc, program: Program) -> None:
        code = 0
        ended = False
        try:
            with proc.scope:
                code = await run_program(program, proc)
                ended = True
        finally:
            if proc.killed_by and not ended:
                code = 128 + proc.killed_by
            elif not ended:
                code = 128 + signals.KILL  # the whole node is being taken down
            proc.close_all()
            if proc.pid == 1 and self.own_pid_namespace:
                await self._end_of_container(proc)
            proc.exit_code = code
            del self.processes[proc.pid]
            for child in self.processes.values():
                if child.parent == proc.pid:
                    child.parent = 1
            proc.exited.set()

    async def _end_of_container(self, first: Proc) -> None:
        """pid 1 has ended: KILL all others and wait for them, as the kernel does."""
        while True:
            others = [proc for proc in self.processes.values() if proc is not first]
            if not others:
                return
            for proc in others:
                proc.deliver(signals.KILL, from_outside=True)
            with trio.CancelScope(shield=True):
                for proc in others:
                    await proc.exited.wait()

    def send_signal(self, pid: int, number: int) -> bool:
        """A signal from inside the container; False when there is no such process."""
        proc = self.processes.get(pid)
        if proc is None:
            return False
        proc.deliver(number)
        return True

    # -- finding programs -----------------------------------------------------------------------------------

    def resolve(self, argv: Sequence[str], search: str | None, cwd: str) -> Executable:
        """The program a command means, by PATH or by path. Raises ``ExecError``."""
        command = argv[0]
        user = self.programs.user_program(command)
        if user is not None:
            return Executable(user, tuple(argv))
        path: str | None = None
        refusal: ExecError | None = None
        if "/" in command:
            path = command if command.startswith("/") else f"{cwd.rstrip('/')}/{command}"
        elif command:
            for folder in (DEFAULT_PATH if search is None else search).split(":"):
                candidate = f"{(folder or cwd).rstrip('/')}/{command}"
                try:
                    self._check(candidate, command)
                except ExecError as problem:
                    refusal = problem if problem.kind == "denied" else refusal
                    continue
                path = candidate
                break
        if path is None or ("/" in command and not self.fs.exists(path)):
            if refusal is not None:
                raise refusal
            if self.programs.opaque_unknown and command:
                return Executable(opaque, tuple(argv), emulated=False)
            raise ExecError("missing", command)
        return self._load(path, command, tuple(argv), _MAX_INTERPRETERS)

    def _check(self, path: str, command: str) -> None:
        try:
            info = self.fs.stat(path)
        except OSError as problem:
            denied = problem.errno in (errno.EACCES, errno.ELOOP)
            raise ExecError("denied" if denied else "missing", command) from None
        if info.kind == "dir":
            raise ExecError("folder", command)
        if info.mode & 0o111 == 0:
            raise ExecError("denied", command)

    def _load(self, path: str, command: str, argv: tuple[str, ...], interpreters: int) -> Executable:
        self._check(path, command)
        handle = self.fs.open(path)
        head = b"" if isinstance(handle, Device) else handle.read(0, _HEAD_BYTES)
        name = program_in(head)
        if name is not None:
            program = self.programs.named(name)
            if program is not None:
                return Executable(program, argv)
        elif head.startswith(b"#!") and interpreters:
            line = head[2:].split(b"\n", 1)[0].decode("utf-8", "replace").strip()
            interpreter, _, argument = line.partition(" ")
            extra = (argument.strip(),) if argument.strip() else ()
            if not interpreter or not self.fs.exists(interpreter):
                raise ExecError("missing", command)
            return self._load(interpreter, command, (interpreter, *extra, path, *argv[1:]), interpreters - 1)
        if self.programs.opaque_unknown and head.startswith(b"\x7fELF"):
            return Executable(opaque, argv, emulated=False)
        raise ExecError("format", command)


class _RuntimeRefusal(Exception):
    """Why runc does not start a process."""


def _runtime_text(problem: str, *, first: bool) -> str:
    if first:
        return (
            "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
            f"runc create failed: unable to start container process: {problem}: unknown"
        )
    return f"OCI runtime exec failed: exec failed: unable to start container process: {problem}: unknown"


async def _bad_format(proc: Proc) -> int:
    """runc has set up the process before the kernel refuses the file, so it starts and ends at once."""
    await proc.write(f"exec {proc.argv[0]}: exec format error\n", fd=2)
    return _EXEC_FORMAT_ERROR
