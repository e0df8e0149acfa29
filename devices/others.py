"""Plugins like AMD's, run:ai's fake GPU operator's and the sample of Kubernetes (pure).

DEV-18E to DEV-18G.
"""

from collections.abc import Sequence

from attrs import frozen

from devices.identity import uuid_of
from devices.model import (
    HEALTHY,
    Answer,
    Device,
    Identity,
    Model,
    MountSpec,
    NodeSpec,
    Notices,
    Preference,
    Refused,
)

__all__ = ["AmdModel", "SampleModel", "amd_model", "fake_operator_model", "sample_model"]

FIRST_RENDER_NODE = 128


@frozen(kw_only=True)
class AmdModel(Model):
    """GPUs by PCI address: device nodes and nothing else."""

    def allocate(self, ids: Sequence[str], *, serial: int) -> Answer:
        """``/dev/kfd`` once, a card and a render node for each GPU."""
        self.check_known(ids)
        paths = ["/dev/kfd"]
        for name in ids:
            index = self.index_of(name)
            paths += [f"/dev/dri/card{index}", f"/dev/dri/renderD{FIRST_RENDER_NODE + index}"]
        return Answer(nodes=tuple(NodeSpec(path, path, "rw") for path in paths))


def amd_model(*, count: int, numa_nodes: int = 2, partition: str = "") -> AmdModel:
    """``count`` GPUs over ``numa_nodes`` nodes; ``partition`` (``cpx_nps1``) names the resource (mixed
    strategy).
    """
    name = partition or "gpu"
    ids = [
        f"amdgpu_xcp_{index}"
        if partition.startswith(("cpx", "dpx", "qpx"))
        else f"0000:{5 + 16 * index:02x}:00.0"
        for index in range(count)
    ]
    return AmdModel(
        kind="amd",
        resource=f"amd.com/{name}",
        devices=tuple(
            Device(found, (index * max(numa_nodes, 1) // count,)) for index, found in enumerate(ids)
        ),
        socket=f"amd.com_{name}",
        preference=Preference.TOPOLOGY,
    )


def fake_operator_model(*, count: int = 2, serial: str = "fake-gpu", node_name: str = "node-1") -> Model:
    """The plugin of run:ai's fake GPU operator: new ids at each start, and it misses kubelet restarts."""
    return Model(
        kind="fake-gpu-operator",
        resource="nvidia.com/gpu",
        devices=tuple(Device(uuid_of(serial, index)) for index in range(count)),
        socket="fake-nvidia-gpu.sock",
        env="MOCK_NVIDIA_VISIBLE_DEVICES",
        envs={"NODE_NAME": node_name},
        mounts=(MountSpec("/bin/nvidia-smi", "/var/lib/runai/bin/nvidia-smi"),),
        notices=Notices.NEVER,
        identity=Identity.FRESH,
    )


@frozen(kw_only=True)
class SampleModel(Model):
    """The sample plugin of the Kubernetes tests: refuses what is unknown or unhealthy."""

    def allocate(self, ids: Sequence[str], *, serial: int) -> Answer:
        """A mount ``/tmp/<id>`` for each device, or a CDI name where a kind is set."""
        health = {device.id: device.health for device in self.devices}
        for name in ids:
            if name not in health:
                raise Refused(f"invalid allocation request with non-existing device {name}")
            if health[name] != HEALTHY:
                raise Refused(f"invalid allocation request with unhealthy device: {name}")
        if self.cdi:
            return Answer(cdi=tuple(f"{self.cdi}=CDI-{name}" for name in ids))
        return Answer(mounts=tuple(MountSpec(f"/tmp/{name}", f"/tmp/{name}") for name in ids))


def sample_model(*, count: int = 2, cdi: bool = False, pre_start: bool = False) -> SampleModel:
    """``Dev-1`` … of ``example.com/resource``, without topology."""
    return SampleModel(
        kind="sample",
        resource="example.com/resource",
        devices=tuple(Device(f"Dev-{index + 1}") for index in range(count)),
        socket="dp.{time}",
        cdi="example.com/resource" if cdi else "",
        pre_start=pre_start,
    )
