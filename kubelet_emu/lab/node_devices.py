"""The device plugins of a lab node: as a scenario asks for them or given, and the wires to them."""

from collections.abc import Sequence
from typing import Any, cast

from devices.fleet import DeviceFleet
from devices.model import Device, Model, Preference
from devices.places import Places
from devices.setup import DeviceProblem, PluginSetup
from kubelet_emu.cm.manager import PluginWires
from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.lab.scenarios import Device as ScenarioDevice
from kubelet_emu.nodeobject import NodeShape
from node_host.clock import NodeClock
from node_host.randoms import Randoms

__all__ = ["make_fleet", "setups_of", "shape_with"]

NODES_MAX = 64
"""A machine has at most so many NUMA nodes; devices on further ones sit on nodes that it does not know."""


def setups_of(devices: Sequence[ScenarioDevice]) -> tuple[PluginSetup, ...]:
    """Plain plugins as a scenario asks for them; raises ``CallerError`` for a preference there is not."""
    setups: list[PluginSetup] = []
    for index, device in enumerate(devices):
        if device.preferred not in ("", *Preference):
            known = ", ".join(Preference)
            raise CallerError(
                [
                    Problem(
                        f"unknown preference {device.preferred!r}",
                        f"devices[{index}].preferred",
                        hint=f"known: {known}",
                    )
                ]
            )
        placed = _nodes(device.topology.get("numa"))
        model = Model(
            resource=device.resource,
            devices=tuple(Device(one, placed) for one in device.ids),
            socket=f"{device.resource.replace('/', '_')}.sock",
            env=device.env,
            pre_start=device.pre_start,
            preference=Preference(device.preferred or "none"),
        )
        setups.append(PluginSetup(model=model))
    return tuple(setups)


def _nodes(given: Any) -> tuple[int, ...] | None:
    """NUMA nodes of all devices of a plugin: one, several, or no topology at all."""
    if given is None:
        return None
    return tuple(map(int, cast("list[Any]", given))) if isinstance(given, list) else (int(given),)


def shape_with(shape: NodeShape, setups: Sequence[PluginSetup]) -> NodeShape:
    """The shape, on a machine with as many NUMA nodes as the devices sit on unless it has one already."""
    nodes = 1 + max(
        (node for setup in setups for device in setup.model.devices for node in device.numa_nodes or ()),
        default=0,
    )
    if shape.machine is not None or not 1 < nodes <= NODES_MAX:
        return shape
    return shape.with_machine(sockets=nodes)


def make_fleet(
    setups: Sequence[PluginSetup], wires: PluginWires, root_dir: str, clock: NodeClock, randoms: Randoms
) -> DeviceFleet:
    """All plugins of a node; raises ``CallerError`` for those that cannot be made.

    Their health over time counts from the moment that the node calls the beginning.
    """
    try:
        return DeviceFleet(
            setups,
            transport=wires.transport,
            clock=clock,
            randoms=randoms,
            places=Places.below(root_dir),
            hold_changes=True,
        )
    except DeviceProblem as error:
        problems = [Problem(text, place) for place, text in error.problems]
        raise CallerError(problems) from None
