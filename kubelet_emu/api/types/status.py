"""Status of a pod and of its containers. (pure)"""

from collections.abc import Mapping

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types.base import (
    EMPTY,
    ApiObject,
    Int32,
    Int64,
    JsonMap,
    NullTime,
    PtrBool,
    PtrStr,
    Time,
    api_object,
)
from kubelet_emu.api.types.container import ResourceRequirements

__all__ = [
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStateTerminated",
    "ContainerStateWaiting",
    "ContainerStatus",
    "ContainerUser",
    "HostIP",
    "LinuxContainerUser",
    "PodCondition",
    "PodIP",
    "PodResourceClaimStatus",
    "PodStatus",
    "ResourceHealth",
    "ResourceStatus",
    "VolumeMountStatus",
]


@api_object
class ContainerStateWaiting(ApiObject):
    reason: str | None = None
    message: str | None = None
    extra: JsonMap = EMPTY


@api_object
class ContainerStateRunning(ApiObject):
    started_at: NullTime = None
    extra: JsonMap = EMPTY


@api_object
class ContainerStateTerminated(ApiObject):
    exit_code: Int32 = 0
    signal: Int32 | None = None
    reason: str | None = None
    message: str | None = None
    started_at: NullTime = None
    finished_at: NullTime = None
    container_id: str | None = None
    extra: JsonMap = EMPTY


@api_object
class ContainerState(ApiObject):
    """At most one of the three; none at all means waiting in ``state`` and nothing in ``last_state``."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None
    extra: JsonMap = EMPTY


@api_object
class ResourceHealth(ApiObject):
    resource_id: str = ""
    health: str | None = None
    message: PtrStr = None
    extra: JsonMap = EMPTY


@api_object
class ResourceStatus(ApiObject):
    name: str = ""
    resources: tuple[ResourceHealth, ...] = ()
    extra: JsonMap = EMPTY


@api_object
class VolumeMountStatus(ApiObject):
    name: str = ""
    mount_path: str = ""
    read_only: bool | None = None
    recursive_read_only: PtrStr = None
    volume_status: JsonMap | None = None
    extra: JsonMap = EMPTY


@api_object
class LinuxContainerUser(ApiObject):
    uid: Int64 = 0
    gid: Int64 = 0
    supplemental_groups: tuple[Int64, ...] = ()
    extra: JsonMap = EMPTY


@api_object
class ContainerUser(ApiObject):
    linux: LinuxContainerUser | None = None
    extra: JsonMap = EMPTY


_NO_STATE = ContainerState()


@api_object
class ContainerStatus(ApiObject):
    name: str = ""
    state: ContainerState = _NO_STATE
    last_state: ContainerState = _NO_STATE
    ready: bool = False
    restart_count: Int32 = 0
    image: str = ""
    image_id: str = ""
    container_id: str | None = None
    started: PtrBool = None
    allocated_resources: Mapping[str, Quantity] = EMPTY
    resources: ResourceRequirements | None = None
    volume_mounts: tuple[VolumeMountStatus, ...] = ()
    user: ContainerUser | None = None
    allocated_resources_status: tuple[ResourceStatus, ...] = ()
    stop_signal: PtrStr = None
    extra: JsonMap = EMPTY


@api_object
class PodCondition(ApiObject):
    type: str = ""
    observed_generation: Int64 | None = None
    status: str = ""
    last_probe_time: NullTime = None
    last_transition_time: NullTime = None
    reason: str | None = None
    message: str | None = None
    extra: JsonMap = EMPTY


@api_object
class PodIP(ApiObject):
    ip: str = ""
    extra: JsonMap = EMPTY


@api_object
class HostIP(ApiObject):
    ip: str = ""
    extra: JsonMap = EMPTY


@api_object
class PodResourceClaimStatus(ApiObject):
    name: str = ""
    resource_claim_name: PtrStr = None
    extra: JsonMap = EMPTY


@api_object
class PodStatus(ApiObject):
    observed_generation: Int64 | None = None
    phase: str | None = None
    conditions: tuple[PodCondition, ...] = ()
    message: str | None = None
    reason: str | None = None
    nominated_node_name: str | None = None
    host_ip: str | None = None
    host_ips: tuple[HostIP, ...] = ()
    pod_ip: str | None = None
    pod_ips: tuple[PodIP, ...] = ()
    start_time: Time | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str | None = None
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    resize: str | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: JsonMap | None = None
    allocated_resources: Mapping[str, Quantity] = EMPTY
    resources: ResourceRequirements | None = None
    node_allocatable_resource_claim_statuses: tuple[JsonMap, ...] = ()
    extra: JsonMap = EMPTY
