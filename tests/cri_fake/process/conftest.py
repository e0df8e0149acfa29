"""A container of busybox to run commands in, on virtual time."""

import random
from collections.abc import Callable, Mapping, Sequence

import pytest
import trio
from attrs import define, field

from cri_fake.process import ContainerFiles, ContainerProcesses, Mount, ProcessHandle, Programs
from node_host.clock import NodeClock
from node_host.files import MemoryFiles
from node_host.loop import run
from node_host.net import MemoryNet


@define
class Outcome:
    """What a command did: exit code, outputs, and the seconds it took."""

    code: int
    out: str
    err: str
    seconds: float
    stamps: list[tuple[float, str]] = field(factory=list)


@define
class Box:
    """One container; ``node`` are the node's files."""

    clock: NodeClock
    node: MemoryFiles
    files: ContainerFiles
    processes: ContainerProcesses
    programs: Programs

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        cwd: str = "/",
    ) -> tuple[ProcessHandle, list[tuple[float, str]], list[str]]:
        stamps: list[tuple[float, str]] = []
        err: list[str] = []
        handle = self.processes.start(
            argv,
            env=env or {},
            cwd=cwd,
            stdin=stdin,
            stdout=lambda data: stamps.append(
                (round(self.clock.elapsed_seconds(), 2), data.decode(errors="replace"))
            ),
            stderr=lambda data: err.append(data.decode(errors="replace")),
        )
        return handle, stamps, err

    async def run(
        self, argv: Sequence[str], *, signals: Sequence[tuple[float, int]] = (), **options
    ) -> Outcome:
        """Run to the end, sending signals (seconds from now, number) from outside."""
        begin = self.clock.elapsed_seconds()
        handle, stamps, err = self.start(argv, **options)
        for at, number in signals:
            await self.clock.sleep_until(begin + at)
            handle.signal(number)
        code = await handle.wait()
        seconds = self.clock.elapsed_seconds() - begin
        return Outcome(code, "".join(text for _, text in stamps), "".join(err), seconds, stamps)


@pytest.fixture
def in_box() -> Callable[..., object]:
    """Runs an async function over a fresh ``Box`` in virtual time and gives its result."""

    def runner(
        use,
        *,
        seed: int = 1,
        mounts: Sequence[Mount] = (),
        node: Mapping[str, bytes] | None = None,
        programs: Programs | None = None,
        burst_seconds: float = 0.001,
        prepare: Callable[[MemoryFiles], None] | None = None,
        **files_options,
    ):
        async def main():
            async with trio.open_nursery() as nursery:
                clock = NodeClock()
                tree = MemoryFiles(now_ns=clock.now_ns)
                for path, data in (node or {}).items():
                    tree.make_dirs(path.rsplit("/", 1)[0] or "/")
                    tree.write(path, data)
                if prepare is not None:
                    prepare(tree)
                files = ContainerFiles(tree, mounts=mounts, now_ns=clock.now_ns, **files_options)
                known = programs or Programs()
                processes = ContainerProcesses(
                    nursery=nursery,
                    clock=clock,
                    rng=random.Random(seed),
                    net=MemoryNet(nursery),
                    fs=files,
                    hostname="box",
                    pod_ip="10.0.0.9",
                    programs=known,
                    burst_seconds=burst_seconds,
                )
                result = await use(Box(clock, tree, files, processes, known))
                nursery.cancel_scope.cancel()
                return result

        return run(main, seed=seed)

    return runner


@pytest.fixture
def sh(in_box) -> Callable[..., Outcome]:
    """Runs one script with ``sh -c`` as pid 1."""

    def runner(
        script: str, *args: str, signals=(), stdin: bytes | None = None, env=None, **options
    ) -> Outcome:
        async def use(box: Box) -> Outcome:
            argv = ["sh", "-c", script, *args]
            return await box.run(argv, signals=signals, stdin=stdin, env=env)

        return in_box(use, **options)

    return runner
