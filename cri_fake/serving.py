"""The fake runtime as a process of its own: real time, files under one folder, a unix socket."""

import secrets
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import trio
from attrs import frozen

from cri_fake.behaviour_file import parse_behaviours
from cri_fake.behaviours import BehaviourProblem, Behaviours, parse_exit
from cri_fake.latency import make_latency
from cri_fake.runtime import FakeRuntime
from cri_fake.store.faults import Refused
from node_host.clock import NodeClock
from node_host.files import DiskFiles
from node_host.loop import Pace, run
from node_host.net import LoopbackNet
from node_host.randoms import Randoms
from trio_grpc import UnixServer

__all__ = ["CannotServe", "ServeOptions", "behaviours_from", "serve_until_interrupted"]


class CannotServe(Exception):
    """Raised when what was asked for cannot be served; the text says what to do."""


@frozen(kw_only=True)
class ServeOptions:
    """The options of ``cri-fake serve`` as given."""

    socket: str
    root: str | None = None
    seed: int | None = None
    latency: str = "measured"
    pod_cidr: str = "10.88.0.0/16"
    exits: tuple[str, ...] = ()
    behaviour_text: str | None = None
    behaviour_file: str = ""


def behaviours_from(options: ServeOptions) -> Behaviours:
    """All behaviours of the options; an ``--exit`` wins over the file.

    Raises:
        CannotServe: one of them cannot be read.
    """
    try:
        told = Behaviours()
        if options.behaviour_text is not None:
            told = parse_behaviours(options.behaviour_text, file=options.behaviour_file)
        for text in options.exits:
            target, behaviour = parse_exit(text)
            told = told.merged_with(Behaviours({target: behaviour}))
    except BehaviourProblem as problem:
        raise CannotServe(str(problem)) from None
    return told


def serve_until_interrupted(options: ServeOptions, *, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM. ``say`` gets a line once the socket is there.

    Raises:
        CannotServe: an option is wrong or the socket cannot be made.
        KeyboardInterrupt: after SIGINT.
    """
    behaviours = behaviours_from(options)
    seed = secrets.randbits(63) if options.seed is None else options.seed
    randoms = Randoms(seed)
    try:
        latency = make_latency(options.latency, randoms.stream)
    except ValueError as problem:
        raise CannotServe(f"--latency: {problem}") from None
    socket = Path(options.socket).absolute()
    with ExitStack() as stack:
        root = options.root
        if root is None:
            root = stack.enter_context(tempfile.TemporaryDirectory(prefix="cri-fake-"))
        elif not Path(root).is_dir():
            raise CannotServe(f"--root: {root} is not a folder: make it first")

        async def serve() -> None:
            clock = NodeClock(epoch_ns=time.time_ns())
            async with trio.open_nursery() as nursery:
                try:
                    runtime = FakeRuntime(
                        clock=clock,
                        randoms=randoms,
                        files=DiskFiles(str(root)),
                        net=LoopbackNet(nursery),
                        behaviours=behaviours,
                        latency=latency,
                        pod_cidr=options.pod_cidr,
                    )
                except Refused as problem:
                    raise CannotServe(f"--pod-cidr: {problem.text}") from None
                async with runtime:
                    await nursery.start(runtime.serve, lambda: UnixServer(options.socket))
                    say(f"serving CRI v1 on unix://{socket}, node files in {root}, seed {seed}")
                    with trio.open_signal_receiver(signal.SIGTERM) as signals:
                        async for _ in signals:
                            break
                    nursery.cancel_scope.cancel()

        try:
            run(serve, seed=seed, pace=Pace.REAL)
        except* CannotServe as group:
            raise _first(group) from None
        except* OSError as group:
            raise CannotServe(f"--socket: {_first(group)}") from None
        except* KeyboardInterrupt:
            raise KeyboardInterrupt from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner: BaseException = group
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return inner
