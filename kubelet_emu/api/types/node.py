"""Node, Event, Lease, ConfigMap and Secret: what a kubelet reads and writes besides pods. (pure)"""

from collections.abc import Mapping

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types.base import (
    EMPTY,
    ApiObject,
    Int32,
    Int64,
    JsonMap,
    MicroTime,
    NullMicroTime,
    NullTime,
    OmitStr,
    PtrBool,
    PtrInt32,
    PtrStr,
    Time,
    WrittenTuple,
    api_object,
)
from kubelet_emu.api.types.meta import ObjectMeta, ObjectReference

__all__ = [
    "ConfigMap",
    "ContainerImage",
    "DaemonEndpoint",
    "Event",
    "EventSeries",
    "EventSource",
    "Lease",
    "LeaseSpec",
    "Node",
    "NodeAddress",
    "NodeCondition",
    "NodeDaemonEndpoints",
    "NodeFeatures",
    "NodeRuntimeHandler",
    "NodeRuntimeHandlerFeatures",
    "NodeSpec",
    "NodeStatus",
    "NodeSwapStatus",
    "NodeSystemInfo",
    "Secret",
    "Taint",
]

_NO_META = ObjectMeta()


@api_object
class Taint(ApiObject):
    key: str = ""
    value: str | None = None
    effect: str = ""
    time_added: Time | None = None
    extra: JsonMap = EMPTY


@api_object
class NodeSpec(ApiObject):
    pod_cidr: str | None = None
    pod_cidrs: tuple[str, ...] = ()
    provider_id: str | None = None
    unschedulable: bool | None = None
    taints: tuple[Taint, ...] = ()
    extra: JsonMap = EMPTY


@api_object
class NodeCondition(ApiObject):
    type: str = ""
    status: str = ""
    last_heartbeat_time: NullTime = None
    last_transition_time: NullTime = None
    reason: str | None = None
    message: str | None = None
    extra: JsonMap = EMPTY


@api_object
class NodeAddress(ApiObject):
    type: str = ""
    address: str = ""
    extra: JsonMap = EMPTY


@api_object
class DaemonEndpoint(ApiObject):
    """The one field whose JSON name begins with a capital letter (``Port``)."""

    port: Int32 = 0
    extra: JsonMap = EMPTY


_NO_ENDPOINT = DaemonEndpoint()


@api_object
class NodeDaemonEndpoints(ApiObject):
    kubelet_endpoint: DaemonEndpoint = _NO_ENDPOINT
    extra: JsonMap = EMPTY


@api_object
class NodeSwapStatus(ApiObject):
    capacity: Int64 | None = None
    extra: JsonMap = EMPTY


@api_object
class NodeSystemInfo(ApiObject):
    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    kernel_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""
    kubelet_version: str = ""
    kube_proxy_version: str = ""
    operating_system: str = ""
    architecture: str = ""
    swap: NodeSwapStatus | None = None
    extra: JsonMap = EMPTY


@api_object
class ContainerImage(ApiObject):
    names: WrittenTuple[str] = ()
    size_bytes: Int64 | None = None
    extra: JsonMap = EMPTY


@api_object
class NodeRuntimeHandlerFeatures(ApiObject):
    recursive_read_only_mounts: PtrBool = None
    user_namespaces: PtrBool = None
    extra: JsonMap = EMPTY


@api_object
class NodeRuntimeHandler(ApiObject):
    name: str = ""
    features: NodeRuntimeHandlerFeatures | None = None
    extra: JsonMap = EMPTY


@api_object
class NodeFeatures(ApiObject):
    supplemental_groups_policy: PtrBool = None
    extra: JsonMap = EMPTY


_NO_ENDPOINTS = NodeDaemonEndpoints()
_NO_INFO = NodeSystemInfo()


@api_object
class NodeStatus(ApiObject):
    capacity: Mapping[str, Quantity] = EMPTY
    allocatable: Mapping[str, Quantity] = EMPTY
    phase: str | None = None
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    daemon_endpoints: NodeDaemonEndpoints = _NO_ENDPOINTS
    node_info: NodeSystemInfo = _NO_INFO
    images: tuple[ContainerImage, ...] = ()
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[JsonMap, ...] = ()
    runtime_handlers: tuple[NodeRuntimeHandler, ...] = ()
    features: NodeFeatures | None = None
    declared_features: tuple[str, ...] = ()
    extra: JsonMap = EMPTY


_NO_NODE_SPEC = NodeSpec()
_NO_NODE_STATUS = NodeStatus()


@api_object
class Node(ApiObject):
    kind: OmitStr = "Node"
    api_version: OmitStr = "v1"
    metadata: ObjectMeta = _NO_META
    spec: NodeSpec = _NO_NODE_SPEC
    status: NodeStatus = _NO_NODE_STATUS
    extra: JsonMap = EMPTY


@api_object
class EventSource(ApiObject):
    component: str | None = None
    host: str | None = None
    extra: JsonMap = EMPTY


@api_object
class EventSeries(ApiObject):
    count: Int32 | None = None
    last_observed_time: NullMicroTime = None
    extra: JsonMap = EMPTY


_NO_OBJECT = ObjectReference()
_NO_SOURCE = EventSource()


@api_object
class Event(ApiObject):
    """A core v1 Event."""

    kind: OmitStr = "Event"
    api_version: OmitStr = "v1"
    metadata: ObjectMeta = _NO_META
    involved_object: ObjectReference = _NO_OBJECT
    reason: str | None = None
    message: str | None = None
    source: EventSource = _NO_SOURCE
    first_timestamp: NullTime = None
    last_timestamp: NullTime = None
    count: Int32 | None = None
    type: str | None = None
    event_time: NullMicroTime = None
    series: EventSeries | None = None
    action: str | None = None
    related: ObjectReference | None = None
    reporting_component: str = ""
    reporting_instance: str = ""
    extra: JsonMap = EMPTY


@api_object
class LeaseSpec(ApiObject):
    holder_identity: PtrStr = None
    lease_duration_seconds: PtrInt32 = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: PtrInt32 = None
    strategy: PtrStr = None
    preferred_holder: PtrStr = None
    extra: JsonMap = EMPTY


_NO_LEASE_SPEC = LeaseSpec()


@api_object
class Lease(ApiObject):
    kind: OmitStr = "Lease"
    api_version: OmitStr = "coordination.k8s.io/v1"
    metadata: ObjectMeta = _NO_META
    spec: LeaseSpec = _NO_LEASE_SPEC
    extra: JsonMap = EMPTY


@api_object
class ConfigMap(ApiObject):
    """``binary_data`` values are base64 text, as on the wire."""

    kind: OmitStr = "ConfigMap"
    api_version: OmitStr = "v1"
    metadata: ObjectMeta = _NO_META
    immutable: PtrBool = None
    data: Mapping[str, str] = EMPTY
    binary_data: Mapping[str, str] = EMPTY
    extra: JsonMap = EMPTY


@api_object
class Secret(ApiObject):
    """``data`` values are base64 text, as on the wire; ``string_data`` is plain text, write-only."""

    kind: OmitStr = "Secret"
    api_version: OmitStr = "v1"
    metadata: ObjectMeta = _NO_META
    immutable: PtrBool = None
    data: Mapping[str, str] = EMPTY
    string_data: Mapping[str, str] = EMPTY
    type: str | None = None
    extra: JsonMap = EMPTY
