"""What the devices of a container add to it: the cached plugin responses put together (pure).

Mirrors ``deviceRunContainerOptions`` of ``pkg/kubelet/cm/devicemanager/pod_devices.go`` (DEV-105).
"""

from collections.abc import Mapping
from typing import TypeVar

from attrs import frozen

from k8s_proto import deviceplugin_v1beta1_pb2 as dp
from kubelet_emu.cm.devicemanager.pod_devices import Held
from kubelet_emu.kuberuntime.seams import RunDevice, RunMount, RunOptions

__all__ = ["MergedOptions", "merge_options"]

ValueT = TypeVar("ValueT")


@frozen
class MergedOptions:
    """The options, and what was left out because another resource had set it otherwise."""

    options: RunOptions
    clashes: tuple[str, ...] = ()


def merge_options(held: Mapping[str, Held]) -> MergedOptions:
    """Merge over resources in order of name; the first to name a thing wins (DEV-105)."""
    envs: dict[str, str] = {}
    annotations: dict[str, str] = {}
    devices: dict[str, RunDevice] = {}
    mounts: dict[str, RunMount] = {}
    cdi: dict[str, None] = {}
    clashes: list[str] = []
    for _, each in sorted(held.items()):
        response = dp.ContainerAllocateResponse.FromString(each.response)
        for name in sorted(response.envs):
            _put(envs, name, response.envs[name], f"environment variable {name}", clashes)
        for key in sorted(response.annotations):
            _put(annotations, key, response.annotations[key], f"annotation {key}", clashes)
        for spec in response.devices:
            device = RunDevice(
                host_path=spec.host_path, container_path=spec.container_path, permissions=spec.permissions
            )
            _put(devices, spec.container_path, device, f"device {spec.container_path}", clashes)
        for asked in response.mounts:
            mount = RunMount(
                host_path=asked.host_path, container_path=asked.container_path, read_only=asked.read_only
            )
            _put(mounts, asked.container_path, mount, f"mount {asked.container_path}", clashes)
        cdi.update((device.name, None) for device in response.cdi_devices)
    options = RunOptions(
        envs=tuple(envs.items()),
        mounts=tuple(mounts.values()),
        devices=tuple(devices.values()),
        annotations=annotations,
        cdi_devices=tuple(cdi),
    )
    return MergedOptions(options, tuple(clashes))


def _put(kept: dict[str, ValueT], key: str, value: ValueT, what: str, clashes: list[str]) -> None:
    if kept.setdefault(key, value) != value:
        clashes.append(f"{what}: {kept[key]} is kept, {value} is left out")
