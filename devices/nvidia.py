"""Plugins like NVIDIA's: full GPUs, MIG slices, time-slicing and MPS replicas (pure).

DEV-181 to DEV-187. Also the GPU plugin of GKE, which names and answers differently (DEV-18D).
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from attrs import evolve, field, frozen

from devices.identity import gpu_uuid, mig_uuid, uuid_of
from devices.model import Answer, Device, Model, MountSpec, NodeSpec, Preference, Refused

__all__ = ["IGNORED_XIDS", "GkeGpuModel", "NvidiaModel", "NvidiaOptions", "gke_gpu_model", "nvidia_models"]

IGNORED_XIDS = (13, 31, 43, 45, 68, 109)
"""XIDs that come from the application, not from the device (DEV-185)."""

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
VOLUME_ROOT = "/var/run/nvidia-container-devices"
_CONTROL_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")

Sharing = Literal["none", "time-slicing", "mps"]
ListStrategy = Literal["envvar", "volume-mounts", "cdi-annotations", "cdi-cri"]


@frozen(kw_only=True)
class NvidiaOptions:
    """One node's GPUs and how the plugin is set up; the names are those of its own settings.

    ``numa_nodes`` is how many nodes the GPUs are spread over, in order; 0 sends no topology. ``mig`` maps a
    profile (``1g.10gb``) to the number of slices on each GPU.
    """

    count: int = 8
    numa_nodes: int = 1
    serial: str = "gpu"
    mig_strategy: Literal["none", "single", "mixed"] = "none"
    mig: Mapping[str, int] = field(factory=dict[str, int])
    sharing: Sharing = "none"
    replicas: int = 1
    rename_by_default: bool = False
    fail_requests_greater_than_one: bool | None = None
    """None: off for time-slicing, on for MPS."""
    replica_preference: Preference = Preference.SPREAD
    device_list_strategy: tuple[ListStrategy, ...] = ("envvar",)
    device_id_strategy: Literal["uuid", "index"] = "uuid"
    pass_device_specs: bool = False
    features: tuple[str, ...] = ()
    """Of ``GDRCOPY``, ``GDS``, ``MOFED``: each is announced to containers as enabled."""
    pre_start: bool = False


@frozen(kw_only=True)
class NvidiaModel(Model):
    """One resource of NVIDIA's plugin. ``indexes`` has the index form of each physical id: ``0``, ``0:1``."""

    strategies: tuple[ListStrategy, ...] = ("envvar",)
    id_strategy: Literal["uuid", "index"] = "uuid"
    indexes: Mapping[str, str] = field(factory=dict[str, str])
    pass_device_specs: bool = False
    features: tuple[str, ...] = ()
    sharing: Sharing = "none"
    one_at_most: bool = False
    mps_root: str = "/run/nvidia/mps"

    def allocate(self, ids: Sequence[str], *, serial: int) -> Answer:
        """As the generic model's; the refusals are worded as the real plugin's."""
        prefix = f'invalid allocation request for "{self.resource}": invalid request: '
        known = {device.id for device in self.devices}
        for name in ids:
            if name not in known:
                raise Refused(f"{prefix}unknown device: {name}")
        if self.sharing != "none" and self.one_at_most and len(ids) > 1:
            raise Refused(f"{prefix}maximum request size for shared resources is 1; found {len(ids)}")
        physical = tuple(dict.fromkeys(self.physical(name) for name in ids))
        names = physical if self.id_strategy == "uuid" else tuple(self.indexes.get(p, p) for p in physical)
        answer = Answer(envs={f"NVIDIA_{feature}": "enabled" for feature in self.features})
        if "envvar" in self.strategies:
            answer = _with_envs(answer, {VISIBLE_DEVICES: ",".join(names)})
        if "volume-mounts" in self.strategies:
            answer = evolve(
                _with_envs(answer, {VISIBLE_DEVICES: VOLUME_ROOT}),
                mounts=tuple(MountSpec(f"{VOLUME_ROOT}/{name}", "/dev/null") for name in names),
            )
        if "cdi-annotations" in self.strategies:
            key = f"cdi.k8s.io/nvidia-device-plugin_{uuid_of(self.resource, serial, *physical)}"
            answer = evolve(answer, annotations={key: ",".join(self._cdi(name) for name in names)})
        if "cdi-cri" in self.strategies:
            answer = evolve(answer, cdi=tuple(self._cdi(name) for name in names))
        return self._with_nodes(self._with_mps(answer), physical)

    def _cdi(self, name: str) -> str:
        return f"k8s.device-plugin.nvidia.com/gpu={name}"

    def _with_mps(self, answer: Answer) -> Answer:
        if self.sharing != "mps":
            return answer
        pipe = MountSpec(f"/mps/{self.resource}/pipe", f"{self.mps_root}/{self.resource}/pipe")
        shm = MountSpec("/dev/shm", f"{self.mps_root}/shm")
        answer = _with_envs(answer, {"CUDA_MPS_PIPE_DIRECTORY": pipe.container_path})
        return evolve(answer, mounts=(*answer.mounts, pipe, shm))

    def _with_nodes(self, answer: Answer, physical: Sequence[str]) -> Answer:
        only_cdi = all(strategy.startswith("cdi") for strategy in self.strategies)
        if not self.pass_device_specs or only_cdi:
            return answer
        minors = dict.fromkeys(self.indexes.get(name, "0").partition(":")[0] for name in physical)
        paths = (*_CONTROL_NODES, *(f"/dev/nvidia{minor}" for minor in minors))
        return evolve(answer, nodes=tuple(NodeSpec(path, path, "rw") for path in paths))


def _with_envs(answer: Answer, more: Mapping[str, str]) -> Answer:
    return evolve(answer, envs={**answer.envs, **more})


def nvidia_models(options: NvidiaOptions) -> tuple[NvidiaModel, ...]:
    """The plugins that NVIDIA's program would start: one for each resource (DEV-181)."""
    gpus = [
        (Device(gpu_uuid(options.serial, index), _nodes(options, index)), str(index))
        for index in range(options.count)
    ]
    if options.mig_strategy == "none" or not options.mig:
        return (_model(options, "nvidia.com/gpu", gpus),)
    slices = {profile: _slices(options, profile) for profile in sorted(options.mig)}
    if options.mig_strategy == "single":
        flat = [each for profile in slices.values() for each in profile]
        return (_model(options, "nvidia.com/gpu", flat),)
    return tuple(
        _model(options, f"nvidia.com/mig-{profile.replace('+', '.')}", found)
        for profile, found in slices.items()
    )


def _nodes(options: NvidiaOptions, index: int) -> tuple[int, ...] | None:
    return (index * options.numa_nodes // options.count,) if options.numa_nodes else None


def _slices(options: NvidiaOptions, profile: str) -> list[tuple[Device, str]]:
    before = sum(count for name, count in options.mig.items() if name < profile)
    return [
        (
            Device(mig_uuid(options.serial, gpu, profile, index), _nodes(options, gpu)),
            f"{gpu}:{before + index}",
        )
        for gpu in range(options.count)
        for index in range(options.mig[profile])
    ]


def _model(options: NvidiaOptions, resource: str, found: Sequence[tuple[Device, str]]) -> NvidiaModel:
    shared = options.sharing != "none" and options.replicas > 1 and "mig" not in resource
    devices = [device for device, _ in found]
    if shared:
        devices = [
            evolve(device, id=f"{device.id}::{replica}")
            for device in devices
            for replica in range(options.replicas)
        ]
    one_at_most = options.fail_requests_greater_than_one
    name = f"{resource}.shared" if shared and options.rename_by_default else resource
    return NvidiaModel(
        kind="nvidia",
        resource=name,
        devices=tuple(devices),
        socket=f"nvidia-{name.partition('/')[2]}.sock",
        preference=options.replica_preference if shared else Preference.TOPOLOGY,
        pre_start=options.pre_start,
        recovers=False,
        ignored_faults=IGNORED_XIDS,
        retry_seconds=30.0,
        strategies=options.device_list_strategy,
        id_strategy=options.device_id_strategy,
        indexes={device.id: index for device, index in found},
        pass_device_specs=options.pass_device_specs,
        features=options.features,
        sharing=options.sharing if shared else "none",
        one_at_most=(options.sharing == "mps") if one_at_most is None else one_at_most,
    )


@frozen(kw_only=True)
class GkeGpuModel(Model):
    """The GPU plugin of GKE: ids ``nvidia0``, shared ones ``nvidia0/vgpu0``."""

    time_shared: bool = False

    def physical(self, name: str) -> str:
        return name.partition("/")[0]

    def allocate(self, ids: Sequence[str], *, serial: int) -> Answer:
        """Device nodes and the driver's folder; at most one shared GPU at a time."""
        self.check_known(ids)
        if self.time_shared and len(ids) > 1:
            raise Refused(
                "invalid request for sharing GPU (time-sharing), "
                "at most 1 nvidia.com/gpu can be requested on GPU nodes"
            )
        paths = dict.fromkeys(f"/dev/{self.physical(name)}" for name in ids)
        nodes = (*paths, "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
        return Answer(
            nodes=tuple(NodeSpec(path, path, "mrw") for path in nodes),
            mounts=(MountSpec("/usr/local/nvidia", "/home/kubernetes/bin/nvidia", read_only=True),),
        )


def gke_gpu_model(*, count: int, numa_nodes: int = 1, shared: int = 1) -> GkeGpuModel:
    """A GKE node with ``count`` GPUs, each shared by ``shared`` clients."""
    devices = [
        Device(f"nvidia{gpu}/vgpu{client}" if shared > 1 else f"nvidia{gpu}", (gpu * numa_nodes // count,))
        for gpu in range(count)
        for client in range(shared)
    ]
    return GkeGpuModel(
        kind="gke-gpu",
        resource="nvidia.com/gpu",
        devices=tuple(devices),
        socket="nvidiaGPU-{time}.sock",
        recovers=False,
        time_shared=shared > 1,
    )
