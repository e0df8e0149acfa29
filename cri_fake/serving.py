"""The fake runtime as a process of its own: real time, files under one folder, a unix socket."""

import ipaddress
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import trio
from attrs import frozen

from cri_fake.behaviour_file import parse_behaviours
from cri_fake.behaviours import BehaviourProblem, Behaviours, parse_exit
from cri_fake.control.commands import CommandProblem, Timed, parse_script
from cri_fake.control.desk import Desk
from cri_fake.control.server import play, serve_control
from cri_fake.latency import make_latency
from cri_fake.profile import CONTAINERD_2, PROFILES, Profile
from cri_fake.runtime import FakeRuntime
from cri_fake.state.journal import CannotKeep, Journal
from cri_fake.store.faults import Refused
from node_host.clock import NodeClock, shared_epoch_ns
from node_host.faults import Draw, FaultPlan, FaultSyntaxError
from node_host.files import DiskFiles
from node_host.loop import Pace, run
from node_host.net import PodNet
from node_host.randoms import Randoms
from trio_grpc import UnixServer

__all__ = ["CannotServe", "ServeOptions", "behaviours_from", "serve_until_interrupted"]


MAX_STREAMS = 256
"""Streams that are open at a time, of all clients together; each takes a thread."""


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
    rate: float = 1.0
    """Seconds of the runtime per second of the machine."""
    profile: str = CONTAINERD_2.name
    faults: str = ""
    """The plan of faults to begin with."""
    script_text: str = ""
    script_file: str = ""
    state: str | None = None
    """Folder in which the state lasts; None for memory only."""
    stream_address: str = "127.0.0.1"
    """Where exec, attach and port-forward are served: HOST or HOST:PORT."""
    control: str | None = None
    """Path of the control socket; None for ``socket`` + ``.ctl``."""


def behaviours_from(options: ServeOptions) -> Behaviours:
    """All behaviours of the options; an ``--exit`` wins over the file.

    Raises:
        CannotServe: one of them cannot be read.
    """
    try:
        told = Behaviours()
        if options.behaviour_text is not None:
            told = parse_behaviours(options.behaviour_text, file=options.behaviour_file)
    except BehaviourProblem as problem:
        raise CannotServe(str(problem)) from None
    for text in options.exits:
        try:
            target, behaviour = parse_exit(text)
        except BehaviourProblem as problem:
            raise CannotServe(f"--exit: {problem}") from None
        told = told.merged_with(Behaviours({target: behaviour}))
    return told


def parse_stream_address(text: str) -> tuple[str, int]:
    """Host and port of ``HOST``, ``HOST:PORT`` or ``[IPv6]:PORT``; port 0 is any.

    Raises:
        CannotServe: it is none of these.
    """
    host, port = text, "0"
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":") or "0"
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    try:
        number = int(port)
        address = "127.0.0.1" if host == "localhost" else str(ipaddress.ip_address(host))
    except ValueError:
        number, address = -1, ""
    if not 0 <= number < 65536:
        raise CannotServe(f"--stream-address: {text!r} is not HOST or HOST:PORT: use 127.0.0.1:0, say")
    return address, number


@frozen
class _Told:
    """What of the options has to be read before anything is served."""

    behaviours: Behaviours
    faults: FaultPlan
    script: tuple[Timed, ...]
    profile: Profile


def _read(options: ServeOptions, draw: Draw) -> _Told:
    behaviours = behaviours_from(options)
    try:
        faults = FaultPlan.parse(options.faults, draw=draw)
    except FaultSyntaxError as problem:
        raise CannotServe(f"--faults: {problem}") from None
    try:
        script = parse_script(options.script_text)
    except CommandProblem as problem:
        raise CannotServe(f"--script: {options.script_file}: {problem}") from None
    profile = PROFILES.get(options.profile)
    if profile is None:
        known = ", ".join(PROFILES)
        raise CannotServe(f"--profile: {options.profile!r} is not known: use one of {known}")
    return _Told(behaviours, faults, script, profile)


def serve_until_interrupted(options: ServeOptions, *, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM. ``say`` gets a line once the socket is there.

    Raises:
        CannotServe: an option is wrong or the socket cannot be made.
        KeyboardInterrupt: after SIGINT.
    """
    seed = secrets.randbits(63) if options.seed is None else options.seed
    randoms = Randoms(seed)
    try:
        latency = make_latency(options.latency, randoms.stream)
    except ValueError as problem:
        raise CannotServe(f"--latency: {problem}") from None
    draw = randoms.stream("cri_fake.faults").random
    told = _read(options, draw)
    stream_address = parse_stream_address(options.stream_address)
    socket = Path(options.socket).absolute()
    control = options.control or f"{options.socket}.ctl"
    with ExitStack() as stack:
        state = None if options.state is None else _kept(stack, options.state)
        root = options.root
        if root is None and options.state is not None:
            root = os.path.join(options.state, "node")
            os.makedirs(root, exist_ok=True)
        elif root is None:
            root = stack.enter_context(tempfile.TemporaryDirectory(prefix="cri-fake-"))
        elif not Path(root).is_dir():
            raise CannotServe(f"--root: {root} is not a folder: make it first")

        async def serve() -> None:
            clock = NodeClock(epoch_ns=shared_epoch_ns(time.time_ns(), options.rate))
            async with trio.open_nursery() as nursery:
                try:
                    runtime = FakeRuntime(
                        clock=clock,
                        randoms=randoms,
                        files=DiskFiles(str(root)),
                        net=PodNet(nursery, also=(stream_address[0],)),
                        stream_address=stream_address,
                        behaviours=told.behaviours,
                        latency=latency,
                        pod_cidr=options.pod_cidr,
                        profile=told.profile,
                        faults=told.faults,
                        state=state,
                        ids=None if state is None else secrets.SystemRandom(),
                    )
                except Refused as problem:
                    raise CannotServe(f"--pod-cidr: {problem.text}") from None
                except CannotKeep as problem:
                    raise CannotServe(f"--state: {problem}") from None
                async with runtime:
                    await nursery.start(
                        runtime.serve, lambda: UnixServer(options.socket, max_streams=MAX_STREAMS)
                    )
                    desk = Desk(runtime, draw)
                    await nursery.start(serve_control, control, desk)
                    nursery.start_soon(play, told.script, desk, clock.sleep_until, say)
                    # Whoever reads that it serves may tell it to end at once.
                    with trio.open_signal_receiver(signal.SIGTERM) as signals:
                        say(f"serving CRI v1 on unix://{socket}, node files in {root}, seed {seed}")
                        if others := socket.parent.stat().st_mode & 0o077:
                            say(
                                f"--socket: {socket.parent} is open to others (mode bits {others:03o}); the "
                                "socket itself is 0600, a folder of mode 0700 would keep its name private too"
                            )
                        async for _ in signals:
                            break
                    nursery.cancel_scope.cancel()

        try:
            socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            run(serve, seed=seed, pace=Pace.REAL, rate=options.rate)
        except (BaseExceptionGroup, OSError) as problem:
            inner = _innermost(problem)
            if isinstance(inner, OSError):
                raise CannotServe(f"--socket: {inner}") from None
            raise inner from None


def _kept(stack: ExitStack, folder: str) -> Journal:
    try:
        journal = Journal(folder)
    except CannotKeep as problem:
        raise CannotServe(f"--state: {problem}") from None
    stack.callback(journal.close)
    return journal


def _innermost(problem: BaseException) -> BaseException:
    """The first exception inside groups of one: a run of this program has one reason to end."""
    while isinstance(problem, BaseExceptionGroup):
        problem = cast("BaseExceptionGroup[BaseException]", problem).exceptions[0]
    return problem
