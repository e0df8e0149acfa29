"""Options about devices, for ``run`` and ``serve``: plugins, their failures, DRA drivers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from kubelet_emu.errors import CallerError, Problem

if TYPE_CHECKING:
    from devices.dra import DraSetup
    from devices.setup import PluginSetup
    from kubelet_emu.nodeobject import NodeShape

__all__ = [
    "DEVICES_HELP",
    "DRIVERS_HELP",
    "FAILURES_HELP",
    "read_devices",
    "read_drivers",
    "shape_with_nodes",
]

DEVICES_HELP = (
    "Device plugins that run beside the kubelet: a100x8, h100x8-2numa, tpu-v5e-4 … (fake-devices presets), "
    "or a profile. By default those that the manifests' annotation kubelet-emu/devices asks for; none: none. "
    "Repeatable."
)
FAILURES_HELP = (
    "Let a device turn unhealthy so long after the start, for good or until the second time; #N is the N-th. "
    "Repeatable."
)
DRIVERS_HELP = (
    "A DRA driver with that many devices, for ResourceClaims beside the Pods; its device class has the "
    "driver's name. With CDI=vendor.com/class runtimes are given CDI devices. Repeatable."
)

MAX_DEVICES = 10_000
NO_DEVICES = "none"
"""In place of a preset: no plugins, whatever the manifests ask for."""


def read_devices(
    sources: Sequence[str], failures: Sequence[str], *, found: "tuple[PluginSetup, ...]" = ()
) -> "tuple[PluginSetup, ...]":
    """``--devices`` and ``--fail-device``. Raises ``CallerError`` with all problems.

    ``found`` is what the manifests ask for, which counts where no ``--devices`` is given.
    """
    if not sources and not failures:
        return found
    from devices.load import with_failures
    from devices.setup import DeviceProblem
    from kubelet_emu.lab.annotated import load_source

    problems: list[Problem] = []
    setups: tuple[PluginSetup, ...] = () if sources else found
    for source in sources:
        if source == NO_DEVICES:
            continue
        try:
            setups += load_source(source)
        except CallerError as error:
            problems += [
                problem if problem.file else evolve(problem, message=f"--devices: {problem.message}")
                for problem in error.problems
            ]
    if problems:
        raise CallerError(problems)
    if failures and not setups:
        raise CallerError([Problem("--fail-device needs --devices", hint="such as --devices a100x8")])
    for failure in failures:
        try:
            setups = with_failures(setups, [failure])
        except DeviceProblem as error:
            problems.append(Problem(f"--fail-device: {error}"))
    if problems:
        raise CallerError(problems)
    return setups


def read_drivers(texts: Sequence[str]) -> "tuple[DraSetup, ...]":
    """Each ``--dra-driver NAME=N[,CDI=vendor.com/class]``. Raises ``CallerError`` with all problems."""
    if not texts:
        return ()
    from devices.dra import DraSetup

    problems: list[Problem] = []
    found: dict[str, DraSetup] = {}
    for text in texts:
        head, _, cdi = text.partition(",CDI=")
        name, _, number = head.partition("=")
        count = int(number) if number.isascii() and number.isdigit() and len(number) < 6 else 0
        if "." not in name or "/" in name or not 0 < count <= MAX_DEVICES:
            hint = "write such as gpu.vendor.com=4 or gpu.vendor.com=4,CDI=vendor.com/gpu"
            problems.append(Problem(f"--dra-driver: {text!r} is no driver with devices", hint=hint))
        elif name in found:
            problems.append(Problem(f"--dra-driver: {name} is given twice"))
        else:
            devices = tuple(f"device-{index}" for index in range(count))
            found[name] = DraSetup(driver=name, devices=devices, cdi_kind=cdi)
    if problems:
        raise CallerError(problems)
    return tuple(found.values())


def shape_with_nodes(shape: "NodeShape", setups: "Sequence[PluginSetup]") -> "NodeShape":
    """The node with as many NUMA nodes as its devices are on, CPUs and memory split evenly among them.

    A shape that says by itself what the machine is like stays as it is.
    """
    devices = (device for setup in setups for device in setup.model.devices)
    count = max((place for device in devices for place in device.numa_nodes or ()), default=0) + 1
    if shape.machine is not None or count == 1:
        return shape
    from kubelet_emu.cm.machine import MachineTopology

    one = shape.topology()
    machine = MachineTopology(
        sockets=count,
        cores_per_node=max(one.cores_per_node // count, 1),
        memory_bytes=one.memory_bytes // count,
    )
    return evolve(shape, machine=machine)
