"""The shape of a node and of the machine under it."""

import pytest

from devices.model import Device, Model
from devices.setup import PluginSetup
from kubelet_emu.cli.given import read_node
from kubelet_emu.cm.devicemanager.state import Capacity
from kubelet_emu.errors import CallerError
from kubelet_emu.lab.node_devices import shape_with
from kubelet_emu.nodeobject import NodeShape, device_status, zero_extended


@pytest.mark.parametrize(
    ("text", "cpu", "built"),
    [
        ("cpu=8", "8", (1, 1, 8, 1)),
        ("sockets=2,cores=16,threads=2", "64", (2, 1, 16, 2)),
        ("sockets=2,numa=2", "2", (2, 2, 1, 1)),
        ("cpu=60,sockets=2,cores=16,threads=2", "60", (2, 1, 16, 2)),
        ("cpu=16,sockets=2,threads=2", "16", (2, 1, 4, 2)),
    ],
)
def test_a_node_as_given_on_the_command_line(text, cpu, built):
    shape = read_node(text)
    machine = shape.topology()
    assert shape.cpu == cpu
    assert (
        machine.sockets,
        machine.nodes_per_socket,
        machine.cores_per_node,
        machine.threads_per_core,
    ) == built
    assert machine.memory_bytes * machine.node_count == 24 * 1024**3


@pytest.mark.parametrize("text", ["sockets=0", "sockets=x", "cores=1025", "sockets=65", "numa=-1"])
def test_a_machine_that_cannot_be(text):
    with pytest.raises(CallerError):
        read_node(text)


def gpus(*nodes):
    devices = tuple(Device(f"g{n}", placed) for n, placed in enumerate(nodes))
    return PluginSetup(model=Model(resource="a.com/gpu", devices=devices, socket="a.sock"))


def test_a_machine_has_the_nodes_that_its_devices_sit_on():
    assert shape_with(NodeShape(cpu="8"), [gpus(None, (0,))]).machine is None
    placed = shape_with(NodeShape(cpu="8"), [gpus((0,), (1,))]).topology()
    assert (placed.node_count, placed.cpu_count) == (2, 8)
    given = NodeShape().with_machine(sockets=4)
    assert shape_with(given, [gpus((0,), (1,))]) is given
    assert shape_with(NodeShape(), [gpus((1000,))]).machine is None


def test_dev_050_dev_051_devices_in_the_node_object():
    capacity = {"cpu": "2", "a.com/x": "4", "other.com/thing": "1"}
    allocatable = {"cpu": "2", "a.com/x": "4", "gone.com/y": "3", "other.com/thing": "1"}
    devices = Capacity({"a.com/x": 8, "b.com/z": 2}, {"a.com/x": 7}, ("c.com/w",))
    total, offered = device_status(capacity, allocatable, devices)
    assert total == {
        "cpu": "2",
        "a.com/x": "8",
        "other.com/thing": "1",
        "b.com/z": "2",
        "c.com/w": "0",
    }
    assert offered == {**total, "a.com/x": "7"}
    assert zero_extended(total) == {
        "cpu": "2",
        "a.com/x": "0",
        "other.com/thing": "0",
        "b.com/z": "0",
        "c.com/w": "0",
    }
