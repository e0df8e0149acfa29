"""Plugins like the one for TPUs on GKE (pure).

DEV-188 to DEV-18C.
"""

from collections.abc import Mapping, Sequence
from math import prod

from attrs import frozen

from devices.model import Answer, Device, Model, MountSpec, NodeSpec, Notices, Refused

__all__ = ["GENERATIONS", "Generation", "TpuModel", "TpuOptions", "slice_env", "tpu_model"]


@frozen(kw_only=True)
class Generation:
    """What differs between generations. ``cores`` is per chip; ``torus`` is the axis length that wraps
    around.
    """

    type_name: str
    nodes: str
    cores: int
    torus: int
    resilient: bool = False


GENERATIONS: Mapping[str, Generation] = {
    "v3": Generation(type_name="v3", nodes="accel", cores=2, torus=32),
    "v4": Generation(type_name="v4", nodes="accel", cores=2, torus=4, resilient=True),
    "v5e": Generation(type_name="v5litepod", nodes="vfio", cores=1, torus=16),
    "v5p": Generation(type_name="v5p", nodes="vfio", cores=2, torus=4, resilient=True),
    "v6e": Generation(type_name="v6e", nodes="vfio", cores=1, torus=16),
    "tpu7x": Generation(type_name="tpu7x", nodes="pci", cores=2, torus=4, resilient=True),
}
"""Known generations by name."""

CHIP_BOUNDS: Mapping[int, tuple[int, int, int]] = {1: (1, 1, 1), 2: (1, 2, 1), 4: (2, 2, 1), 8: (2, 4, 1)}
"""How the chips of one host lie, by their number."""

FIRST_METRICS_PORT = 8431
RESILIENT_FROM_CHIPS = 64


@frozen(kw_only=True)
class TpuOptions:
    """One host of a slice. ``topology`` is that of the whole slice (``2x4``); empty: the host alone is the
    slice.
    """

    generation: str = "v5e"
    chips: int = 4
    topology: str = ""
    pre_start: bool = False


@frozen(kw_only=True)
class TpuModel(Model):
    """All chips of one host, which are asked for together or not at all."""

    generation: str = "v5e"
    topology: str = ""

    def allocate(self, ids: Sequence[str], *, serial: int) -> Answer:
        """Device nodes, the log folder and the slice's environment."""
        self.check_known(ids)
        chips = len(self.devices)
        if self.generation != "tpu7x" and len(ids) != chips:
            raise Refused(
                f"invalid TPU chip count request, you must request all {chips} chips on this node together"
            )
        if self.generation == "tpu7x" and len(ids) == 2:
            nodes = {device.id: device.numa_nodes for device in self.devices}
            if nodes[ids[0]] != nodes[ids[1]]:
                raise Refused("invalid TPU chip request, two chips must be on the same NUMA node")
        return Answer(
            envs=slice_env(self.generation, self.topology, len(ids)),
            mounts=(MountSpec("/tmp/tpu_logs", "/tmp/tpu_logs"),),
            nodes=tuple(NodeSpec(path, path, "mrw") for path in self._paths(ids)),
        )

    def _paths(self, ids: Sequence[str]) -> tuple[str, ...]:
        kind = GENERATIONS[self.generation].nodes
        indexes = [self.index_of(name) for name in ids]
        if kind == "accel":
            return tuple(f"/dev/accel{index}" for index in indexes)
        groups = indexes if kind == "vfio" else [2 * index + half for index in indexes for half in (0, 1)]
        return (*(f"/dev/vfio/{group}" for group in groups), "/dev/vfio/vfio")


def slice_env(generation: str, topology: str, chips: int) -> dict[str, str]:
    """The variables of DEV-18A for a host with ``chips`` chips in a slice of that topology."""
    facts = GENERATIONS[generation]
    axes = tuple(int(axis) for axis in topology.split("x"))
    bounds = CHIP_BOUNDS.get(chips, (max(chips, 1), 1, 1))
    cube = (*axes, 1, 1)[:3]
    host_bounds = tuple(max(length // bound, 1) for length, bound in zip(cube, bounds, strict=True))
    chip_text, host_text = _commas(bounds), _commas(host_bounds)
    wrap = ",".join("true" if length % facts.torus == 0 else "false" for length in cube)
    env = {
        "TPU_SKIP_MDS_QUERY": "true",
        "TPU_RUNTIME_METRICS_PORTS": _commas(range(FIRST_METRICS_PORT, FIRST_METRICS_PORT + chips)),
        "TPU_TOPOLOGY": topology,
        "TPU_ACCELERATOR_TYPE": f"{facts.type_name}-{prod(axes) * facts.cores}",
        "TPU_CHIPS_PER_HOST_BOUNDS": chip_text,
        "CHIPS_PER_HOST_BOUNDS": chip_text,
        "TPU_HOST_BOUNDS": host_text,
        "HOST_BOUNDS": host_text,
        "TPU_TOPOLOGY_WRAP": wrap,
        "WRAP": wrap,
        "TPU_TOPOLOGY_ALT": "false",
        "ALT": "false",
        "VBAR_CONTROL_SERVICE_URL": "unix:///var/run/tpu-plugin/vbar.sock",
    }
    if facts.resilient and prod(axes) >= RESILIENT_FROM_CHIPS:
        env["ENABLE_ICI_RESILIENCY"] = "true"
    if prod(axes) == chips and generation != "tpu7x":
        env |= {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"}
    return env


def tpu_model(options: TpuOptions) -> TpuModel:
    """The plugin of one TPU host. Raises ``ValueError`` for a host that does not exist."""
    if options.generation not in GENERATIONS:
        raise ValueError(f"unknown TPU generation {options.generation!r}; one of {', '.join(GENERATIONS)}")
    if options.chips not in CHIP_BOUNDS:
        raise ValueError(f"a TPU host has {', '.join(map(str, CHIP_BOUNDS))} chips, not {options.chips}")
    bounds = CHIP_BOUNDS[options.chips]
    axis_count = 3 if GENERATIONS[options.generation].resilient else 2
    topology = options.topology or "x".join(str(length) for length in bounds[:axis_count])
    axes = topology.split("x")
    if not 2 <= len(axes) <= 3 or not all(axis.isascii() and axis.isdigit() and int(axis) for axis in axes):
        raise ValueError(f"{topology!r} is no TPU topology; write such as 2x4 or 4x4x4")
    kind = GENERATIONS[options.generation].nodes
    names = {"accel": "accel{0}", "vfio": "{0}", "pci": "0000:00:{1:02x}"}
    devices = tuple(
        Device(
            names[kind].format(index, index + 1),
            (index * 2 // options.chips,) if kind == "pci" else None,
        )
        for index in range(options.chips)
    )
    return TpuModel(
        kind="tpu",
        resource="google.com/tpu",
        devices=devices,
        socket="tpu-{time}.sock",
        notices=Notices.OWN_SOCKET,
        pre_start=options.pre_start,
        generation=options.generation,
        topology=topology,
    )


def _commas(values: Sequence[int]) -> str:
    return ",".join(str(value) for value in values)
