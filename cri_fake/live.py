"""A container that runs: its processes, its log, what it was told to do, and how it ends.

The store holds facts; what is alive is here. One task a container (``supervise``) waits for the main
process, or for the end that a behaviour tells, and reports the exit exactly once.
"""

from collections.abc import Awaitable, Callable

import trio
from attrs import frozen

from cri_fake.behaviours import Behaviour
from cri_fake.console import Console
from cri_fake.logs import LogFile
from cri_fake.process import ContainerProcesses, ProcessHandle
from cri_fake.signals import SIGKILL
from node_host.clock import NodeClock

__all__ = ["LiveContainer", "Outcome"]

_SIGNAL_BASE = 128
_OOM_EXIT_CODE = 137


@frozen(kw_only=True)
class Outcome:
    """How a main process ended. ``signal`` is 0 unless a signal that the runtime sent ended it."""

    exit_code: int
    signal: int
    oom_killed: bool
    reason: str = ""
    """Given where it does not follow from the rest."""


class LiveContainer:
    """The running side of one container; lives from a successful start until its exit is reported.

    ``lost`` is the end that is reported where a loss of power took the process (CRI-045).
    """

    def __init__(
        self,
        *,
        clock: NodeClock,
        processes: ContainerProcesses,
        main: ProcessHandle,
        log: LogFile,
        console: Console,
        behaviour: Behaviour,
        opaque: bool,
        lost: Outcome,
    ) -> None:
        self._clock = clock
        self.processes = processes
        self.main = main
        self.log = log
        self.console = console
        self.behaviour = behaviour
        self.opaque = opaque
        self._lost_outcome = lost
        self.exited = trio.Event()
        self.started_at_seconds = clock.elapsed_seconds()
        self.ended_at_ns = 0
        """When the main process ended, unix nanoseconds; 0 while it runs."""
        self._last_signal = 0
        self._held_end = trio.Event()
        self._oom = False
        self._lost = False

    def send_signal(self, signum: int, *, may_ignore: bool = True) -> None:
        """Deliver a signal to the main process, unless it is told to ignore that one. KILL always arrives."""
        if self.exited.is_set():
            return
        if signum != SIGKILL and may_ignore and self.behaviour.ignore_sigterm:
            return
        self._last_signal = signum
        self.main.signal(signum)
        if self.behaviour.told_end and self.main.exit_code is not None:
            self._held_end.set()

    def oom_kill(self) -> None:
        """Kill all processes as the kernel does when memory runs out."""
        if not self.exited.is_set():
            self._oom = True
            self._last_signal = SIGKILL
            self.processes.kill_all()
            self._held_end.set()

    def lose(self) -> None:
        """End all processes as a loss of power does: nobody learns how they ended."""
        if not self.exited.is_set():
            self._lost = True
            self._last_signal = SIGKILL
            self.processes.kill_all()
            self._held_end.set()

    def ready_now(self) -> bool | None:
        """What exec probes are told to find now; None if they are to run."""
        return self.behaviour.ready_at(self._clock.elapsed_seconds() - self.started_at_seconds)

    async def supervise(
        self, report: Callable[[Outcome], None], settle: Callable[[], Awaitable[None]]
    ) -> None:
        """Wait for the end, clean up, report it, and wake everyone who waits for ``exited``.

        ``settle`` takes the time that the runtime needs to notice: a process that has ended shows as RUNNING
        for some hundredths of a second more, with its end dated back when it shows.
        """
        async with trio.open_nursery() as nursery:
            if self.behaviour.log_lines:
                nursery.start_soon(self._print_told_lines)
            outcome = await self._wait_for_end()
            if self._lost:
                outcome = self._lost_outcome
            nursery.cancel_scope.cancel()
        self.processes.kill_all()
        await self.main.wait()
        self.console.close()
        self.log.close()
        self.ended_at_ns = self._clock.now_ns()
        await settle()
        report(outcome)
        self.exited.set()

    async def _wait_for_end(self) -> Outcome:
        run_for = self.behaviour.run_for_seconds
        if run_for is None:
            return self._own_end(await self.main.wait())
        remaining = self.started_at_seconds + run_for - self._clock.elapsed_seconds()
        with trio.move_on_after(max(remaining, 0.0)):
            code = await self.main.wait()
            if self._last_signal:
                return self._own_end(code)
            await self._held_end.wait()
            signal = SIGKILL if self._oom else self._last_signal
            return Outcome(exit_code=_SIGNAL_BASE + signal, signal=signal, oom_killed=self._oom)
        oom = self._oom or bool(self.behaviour.oom_kill)
        code = self.behaviour.exit_code
        if code is None:
            code = _OOM_EXIT_CODE if oom else 0
        return Outcome(exit_code=code, signal=SIGKILL if oom else 0, oom_killed=oom)

    def _own_end(self, code: int) -> Outcome:
        stopped = self._last_signal != 0 or self._oom
        if stopped:
            signal = code - _SIGNAL_BASE if code == _SIGNAL_BASE + self._last_signal else 0
            return Outcome(exit_code=code, signal=signal, oom_killed=self._oom)
        told_oom = bool(self.behaviour.oom_kill)
        if self.behaviour.exit_code is not None:
            code = self.behaviour.exit_code
        elif told_oom:
            code = _OOM_EXIT_CODE
        return Outcome(exit_code=code, signal=SIGKILL if told_oom else 0, oom_killed=told_oom)

    async def _print_told_lines(self) -> None:
        for line in self.behaviour.log_lines or ():
            wait = self.started_at_seconds + line.at_seconds - self._clock.elapsed_seconds()
            if wait > 0:
                await self._clock.sleep(wait)
            self.console.take(line.stream, line.text.encode() + b"\n")
