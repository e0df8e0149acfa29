"""Machines that are often meant: a name for each (pure)."""

from collections.abc import Callable, Mapping

from devices.model import Model
from devices.nvidia import NvidiaOptions, gke_gpu_model, nvidia_models
from devices.others import amd_model, fake_operator_model, sample_model
from devices.setup import DeviceProblem, PluginSetup
from devices.tpu import TpuOptions, tpu_model

__all__ = ["PRESETS", "preset"]

Make = Callable[[str], tuple[Model, ...]]


def _nvidia(**options: object) -> Make:
    return lambda serial: nvidia_models(NvidiaOptions(serial=serial, **options))  # pyright: ignore[reportArgumentType]


def _tpu(generation: str, chips: int, topology: str = "") -> Make:
    return lambda _: (tpu_model(TpuOptions(generation=generation, chips=chips, topology=topology)),)


PRESETS: Mapping[str, tuple[str, Make]] = {
    "a100x8": ("8 A100 on one NUMA node", _nvidia(count=8)),
    "a100x8-2numa": ("8 A100, four on each of two NUMA nodes", _nvidia(count=8, numa_nodes=2)),
    "a100x8-mig": (
        "8 A100 in seven 1g.5gb slices each, as nvidia.com/mig-1g.5gb",
        _nvidia(count=8, mig_strategy="mixed", mig={"1g.5gb": 7}),
    ),
    "h100x8": ("8 H100 on one NUMA node", _nvidia(count=8)),
    "h100x8-2numa": ("8 H100, four on each of two NUMA nodes", _nvidia(count=8, numa_nodes=2)),
    "h100x8-8numa": ("8 H100, one on each of eight NUMA nodes", _nvidia(count=8, numa_nodes=8)),
    "h100x8-cdi": ("8 H100 handed out as CDI devices", _nvidia(count=8, device_list_strategy=("cdi-cri",))),
    "l4x1": ("one L4", _nvidia(count=1)),
    "t4x4-timeslice": (
        "4 T4, each in four time slices",
        _nvidia(count=4, sharing="time-slicing", replicas=4),
    ),
    "t4x4-mps": ("4 T4, each shared by four MPS clients", _nvidia(count=4, sharing="mps", replicas=4)),
    "gke-l4x4": ("4 L4 behind the plugin of GKE", lambda _: (gke_gpu_model(count=4),)),
    "tpu-v4-4": ("a host with 4 TPU v4 chips", _tpu("v4", 4)),
    "tpu-v5e-1": ("a host with 1 TPU v5e chip", _tpu("v5e", 1)),
    "tpu-v5e-4": ("a host with 4 TPU v5e chips", _tpu("v5e", 4)),
    "tpu-v5e-8": ("a host with 8 TPU v5e chips", _tpu("v5e", 8)),
    "tpu-v5p-4": ("a host with 4 TPU v5p chips", _tpu("v5p", 4)),
    "tpu-v6e-4": ("a host with 4 TPU v6e chips", _tpu("v6e", 4)),
    "tpu-v6e-8": ("a host with 8 TPU v6e chips", _tpu("v6e", 8)),
    "tpu7x-4": ("a host with 4 TPU7x chips on two NUMA nodes", _tpu("tpu7x", 4)),
    "mi300x8": ("8 MI300X, four on each of two NUMA nodes", lambda _: (amd_model(count=8),)),
    "mi300x8-cpx": (
        "8 partitions of MI300X, as amd.com/cpx_nps1",
        lambda _: (amd_model(count=8, partition="cpx_nps1"),),
    ),
    "fake-gpu-operator": (
        "two GPUs of run:ai's fake operator: new ids at each start",
        lambda serial: (fake_operator_model(serial=serial),),
    ),
    "sample": (
        "example.com/resource with Dev-1 and Dev-2, as in the Kubernetes tests",
        lambda _: (sample_model(),),
    ),
}
"""Name to what it is and how it is made; the text handed in tells machines of one kind apart."""


def preset(name: str, *, serial: str = "") -> tuple[PluginSetup, ...]:
    """The plugins of a preset; ids follow from ``serial``, by default the name. Raises ``DeviceProblem``."""
    found = PRESETS.get(name)
    if found is None:
        raise DeviceProblem(f"there is no preset {name!r}; one of {', '.join(PRESETS)}, or a profile file")
    return tuple(PluginSetup(model=model) for model in found[1](serial or name))
