"""The options about devices, of ``run`` and of ``serve``."""

import pytest
from attrs import evolve

from devices.presets import preset
from kubelet_emu.cli.devices import read_devices, read_drivers, shape_with_nodes
from kubelet_emu.cm.machine import MachineTopology
from kubelet_emu.errors import CallerError
from kubelet_emu.nodeobject import NodeShape


def problems(read):
    with pytest.raises(CallerError) as error:
        read()
    return [str(problem) for problem in error.value.problems]


def test_several_sources_and_failures(tmp_path):
    profile = tmp_path / "p.yaml"
    profile.write_text("resource: vendor.com/widget\ncount: 2")
    found = read_devices(["a100x8", str(profile)], ["#0@3s", "vendor.com/widget#1@5s-6s"])
    assert [setup.model.resource for setup in found] == ["nvidia.com/gpu", "vendor.com/widget"]
    assert [len(setup.changes) for setup in found] == [1, 2]
    assert read_devices([], []) == ()


def test_a_profiles_mistakes_have_their_place(tmp_path):
    profile = tmp_path / "p.yaml"
    profile.write_text("resource: vendor.com/widget\ncolour: red\ncount: many")
    found = problems(lambda: read_devices([str(profile)], []))
    assert [text.partition(": ")[0] for text in found] == [f"{profile}:2", f"{profile}:3"]


def test_all_mistakes_at_once():
    found = problems(lambda: read_devices(["nosuch", "neither"], []))
    assert len(found) == 2
    assert problems(lambda: read_devices([], ["#1@3s"]))[0].startswith("--fail-device needs --devices")


def test_drivers():
    one, two = read_drivers(["gpu.vendor.com=2", "nic.vendor.com=1,CDI=vendor.com/nic"])
    assert (one.driver, one.devices, one.cdi_kind) == ("gpu.vendor.com", ("device-0", "device-1"), "")
    assert (two.devices, two.cdi_kind) == (("device-0",), "vendor.com/nic")


@pytest.mark.parametrize(
    "text", ["gpu=2", "gpu.vendor.com", "gpu.vendor.com=0", "gpu.vendor.com=x", "a/b.c=1", ""]
)
def test_no_drivers(text):
    assert "is no driver with devices" in problems(lambda: read_drivers([text]))[0]


def test_a_driver_given_twice():
    assert "given twice" in problems(lambda: read_drivers(["a.b=1", "a.b=2"]))[0]


def test_the_node_has_the_numa_nodes_of_its_devices():
    shape = NodeShape(cpu="16", memory="64Gi")
    machine = shape_with_nodes(shape, preset("h100x8-2numa")).topology()
    assert (machine.node_count, machine.cpu_count) == (2, 16)
    assert machine.memory_bytes == 32 * 1024**3
    assert shape_with_nodes(shape, preset("a100x8")) == shape
    own = evolve(shape, machine=MachineTopology(sockets=4, cores_per_node=4))
    assert shape_with_nodes(own, preset("h100x8-2numa")) is own
