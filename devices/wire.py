"""Between models and messages of the device plugin API (pure)."""

from collections.abc import Iterable

from devices.model import Answer, Device, Model, Preference
from k8s_proto import deviceplugin_v1beta1_pb2 as pb

__all__ = ["API_VERSION", "answer_message", "list_message", "options_message"]

API_VERSION = "v1beta1"


def options_message(model: Model) -> pb.DevicePluginOptions:
    """What the plugin asks of the kubelet."""
    return pb.DevicePluginOptions(
        pre_start_required=model.pre_start,
        get_preferred_allocation_available=model.preference is not Preference.NONE,
    )


def list_message(devices: Iterable[Device]) -> pb.ListAndWatchResponse:
    """The whole list, in the given order, repeated ids included."""
    reply = pb.ListAndWatchResponse()
    for device in devices:
        entry = reply.devices.add(ID=device.id, health=device.health)
        if device.numa_nodes is not None:
            entry.topology.SetInParent()
            for node in device.numa_nodes:
                entry.topology.nodes.add(ID=node)
    return reply


def answer_message(answer: Answer) -> pb.ContainerAllocateResponse:
    """What Allocate gives for one container."""
    reply = pb.ContainerAllocateResponse(envs=dict(answer.envs), annotations=dict(answer.annotations))
    for mount in answer.mounts:
        reply.mounts.add(
            container_path=mount.container_path, host_path=mount.host_path, read_only=mount.read_only
        )
    for node in answer.nodes:
        reply.devices.add(
            host_path=node.host_path,
            container_path=node.container_path or node.host_path,
            permissions=node.permissions,
        )
    for name in answer.cdi:
        reply.cdi_devices.add(name=name)
    return reply
