"""Device plugins as a process of their own: real time, unix sockets in a kubelet's folders."""

import os
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import trio
from attrs import evolve, frozen

from devices.facts import PluginCall, PluginFact
from devices.fleet import DeviceFleet
from devices.load import load_devices, with_failures
from devices.places import Places
from devices.setup import DeviceProblem, PluginSetup, Register
from node_host.clock import NodeClock
from node_host.faults import FaultSyntaxError, parse
from node_host.loop import Pace, run
from node_host.randoms import Randoms
from trio_grpc import UnixTransport

__all__ = [
    "CannotServe",
    "DriverOptions",
    "ServeOptions",
    "serve_driver",
    "serve_until_interrupted",
    "setups_of",
]


class CannotServe(Exception):
    """Raised when what was asked for cannot be served; the text says what to do."""


@frozen(kw_only=True)
class ServeOptions:
    """The options of ``fake-devices serve`` as given."""

    what: str
    kubelet_dir: str = "/var/lib/kubelet"
    register: str | None = None
    count: int | None = None
    resource: str | None = None
    numa_nodes: int | None = None
    faults: str = ""
    fails: tuple[str, ...] = ()
    serial: str = ""
    seed: int = 0


def setups_of(options: ServeOptions) -> tuple[PluginSetup, ...]:
    """The plugins that the options ask for. Raises ``CannotServe``."""
    try:
        parse(options.faults)
        setups = _plugins(options)
        setups = tuple(
            evolve(
                setup,
                faults="; ".join(filter(None, [setup.faults, options.faults])),
                register=Register(options.register) if options.register else setup.register,
            )
            for setup in setups
        )
        return with_failures(setups, options.fails)
    except FaultSyntaxError as problem:
        raise CannotServe(f"--faults: {problem}") from None
    except DeviceProblem as problem:
        raise CannotServe(str(problem)) from None


_COUNTS = {
    "gpu": ("nvidia", "count"),
    "tpu": ("tpu", "chips"),
    "amd": ("amd", "count"),
    "generic": ("generic", "count"),
}


def _plugins(options: ServeOptions) -> tuple[PluginSetup, ...]:
    given = (options.count, options.resource, options.numa_nodes)
    if options.what not in _COUNTS:
        if any(value is not None for value in given):
            raise CannotServe(
                "--count, --resource and --numa-nodes go with gpu, tpu, amd and generic; "
                f"{options.what} says these things itself"
            )
        return load_devices(options.what, serial=options.serial)
    from devices.profile import plugins_from

    model, count_name = _COUNTS[options.what]
    entry: dict[str, Any] = {"model": model}
    if options.count is not None:
        entry[count_name] = options.count
    if options.resource is not None:
        entry["resource"] = options.resource
    if options.numa_nodes is not None:
        if model == "tpu":
            raise CannotServe("--numa-nodes: a TPU host says itself where its chips are")
        entry |= (
            {"topology": {"nodes": options.numa_nodes}}
            if model == "generic"
            else {"numaNodes": options.numa_nodes}
        )
    return plugins_from(entry, serial=options.serial or "fake-devices")


def serve_until_interrupted(options: ServeOptions, *, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; SIGHUP reads the profile again and restarts all plugins (DEV-182).

    ``say`` gets a line for each thing that a person may want to know.

    Raises:
        CannotServe: an option is wrong or the folder cannot be used.
        KeyboardInterrupt: after SIGINT.
    """
    setups = setups_of(options)
    places = _folders(options.kubelet_dir)

    async def serve() -> None:
        clock = NodeClock(epoch_ns=time.time_ns())
        wanted = setups
        while wanted:
            wanted = await _serve_once(wanted, options, places, clock, say)

    _run(serve, options.seed)


@frozen(kw_only=True)
class DriverOptions:
    """The options of ``fake-devices dra`` as given."""

    driver: str
    count: int = 4
    cdi: str = ""
    versions: str = "v1.DRAPlugin,v1alpha1.DRAResourceHealth"
    kubelet_dir: str = "/var/lib/kubelet"
    faults: str = ""


def serve_driver(options: DriverOptions, *, say: Callable[[str], None]) -> None:
    """Serve a DRA driver until SIGINT or SIGTERM.

    Raises:
        CannotServe: an option is wrong or the folder cannot be used.
        KeyboardInterrupt: after SIGINT.
    """
    from devices.dra import SERVICES, DraDriver, DraSetup

    versions = tuple(filter(None, options.versions.split(",")))
    unknown = [version for version in versions if version not in SERVICES]
    if unknown or not versions:
        raise CannotServe(f"--versions: {', '.join(unknown) or 'none'}: services are {', '.join(SERVICES)}")
    if "/" in options.driver or "." not in options.driver:
        raise CannotServe(f"{options.driver!r} is no name of a driver: write such as gpu.vendor.com")
    try:
        parse(options.faults)
    except FaultSyntaxError as problem:
        raise CannotServe(f"--faults: {problem}") from None
    setup = DraSetup(
        driver=options.driver,
        devices=tuple(f"device-{index}" for index in range(options.count)),
        cdi_kind=options.cdi,
        versions=versions,
        faults=options.faults,
    )
    places = _folders(options.kubelet_dir)

    async def serve() -> None:
        clock = NodeClock(epoch_ns=time.time_ns())
        driver = DraDriver(
            setup,
            transport=UnixTransport(),
            clock=clock,
            places=places,
            observer=lambda fact: say(_line(fact)),
        )
        async with trio.open_nursery() as nursery:
            with trio.open_signal_receiver(signal.SIGTERM) as signals:
                await nursery.start(driver.run)
                async for _ in signals:
                    break
            nursery.cancel_scope.cancel()

    _run(serve, 0)


def _folders(kubelet_dir: str) -> Places:
    places = Places.below(os.path.abspath(kubelet_dir))
    try:
        os.makedirs(places.device_plugins, mode=0o755, exist_ok=True)
        os.makedirs(places.registry, mode=0o750, exist_ok=True)
    except OSError as problem:
        raise CannotServe(f"--kubelet-dir: {problem}: name a folder that you may write to") from None
    return places


def _run(serve: Callable[[], Awaitable[None]], seed: int) -> None:
    try:
        run(serve, seed=seed, pace=Pace.REAL)
    except BaseExceptionGroup as group:
        problem = _innermost(group)
        if isinstance(problem, OSError):
            raise CannotServe(f"cannot serve: {problem}") from None
        raise problem from None
    except OSError as problem:
        raise CannotServe(f"cannot serve: {problem}") from None


def _innermost(problem: BaseException) -> BaseException:
    """The first exception inside groups of one: a run of this program has one reason to end."""
    while isinstance(problem, BaseExceptionGroup):
        problem = cast("BaseExceptionGroup[BaseException]", problem).exceptions[0]
    return problem


async def _serve_once(
    setups: tuple[PluginSetup, ...],
    options: ServeOptions,
    places: Places,
    clock: NodeClock,
    say: Callable[[str], None],
) -> tuple[PluginSetup, ...]:
    """Serve until a signal; the plugins to serve next, none to end."""
    fleet = DeviceFleet(
        setups,
        transport=UnixTransport(),
        clock=clock,
        randoms=Randoms(options.seed),
        places=places,
        observer=lambda fact: say(_line(fact)),
    )
    again: tuple[PluginSetup, ...] = ()
    async with trio.open_nursery() as nursery:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as signals:
            await nursery.start(fleet.run)
            async for number in signals:
                if number != signal.SIGHUP:
                    break
                try:
                    again = setups_of(options)
                    break
                except CannotServe as problem:
                    say(f"SIGHUP: {problem}; going on as before")
        nursery.cancel_scope.cancel()
    return again


def _line(fact: PluginFact) -> str:
    if isinstance(fact, PluginCall):
        detail = " ".join(f"{name}={value}" for name, value in fact.fields().items())
        return f"{fact.resource}: {fact.method} {detail}".rstrip()
    return f"{fact.resource}: {fact.change} {fact.text}".rstrip()
