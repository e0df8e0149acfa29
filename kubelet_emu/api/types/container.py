"""A container of a pod as it is specified: probes, hooks, resources, mounts, restart rules. (pure)"""

from collections.abc import Mapping

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types.base import (
    EMPTY,
    ApiObject,
    Int32,
    Int64,
    IntOrString,
    JsonMap,
    OmitStr,
    PtrBool,
    PtrInt64,
    PtrStr,
    api_object,
)

__all__ = [
    "AppArmorProfile",
    "Capabilities",
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "Container",
    "ContainerPort",
    "ContainerResizePolicy",
    "ContainerRestartRule",
    "ContainerRestartRuleOnExitCodes",
    "EnvFromSource",
    "EnvVar",
    "EnvVarSource",
    "EphemeralContainer",
    "ExecAction",
    "FileKeySelector",
    "GRPCAction",
    "HTTPGetAction",
    "HTTPHeader",
    "Lifecycle",
    "LifecycleHandler",
    "ObjectFieldSelector",
    "Probe",
    "ResourceClaim",
    "ResourceFieldSelector",
    "ResourceRequirements",
    "SELinuxOptions",
    "SeccompProfile",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecurityContext",
    "SleepAction",
    "TCPSocketAction",
    "VolumeDevice",
    "VolumeMount",
]

_ZERO = Quantity(0)


@api_object
class ContainerPort(ApiObject):
    name: str | None = None
    host_port: Int32 | None = None
    container_port: Int32 = 0
    protocol: str | None = None
    host_ip: str | None = None
    extra: JsonMap = EMPTY


@api_object
class ObjectFieldSelector(ApiObject):
    api_version: str | None = None
    field_path: str = ""
    extra: JsonMap = EMPTY


@api_object
class ResourceFieldSelector(ApiObject):
    """``divisor`` is always written; zero means 1."""

    container_name: str | None = None
    resource: str = ""
    divisor: Quantity = _ZERO
    extra: JsonMap = EMPTY


@api_object
class ConfigMapKeySelector(ApiObject):
    name: str | None = None
    key: str = ""
    optional: PtrBool = None
    extra: JsonMap = EMPTY


@api_object
class SecretKeySelector(ApiObject):
    name: str | None = None
    key: str = ""
    optional: PtrBool = None
    extra: JsonMap = EMPTY


@api_object
class FileKeySelector(ApiObject):
    volume_name: str = ""
    path: str = ""
    key: str = ""
    optional: PtrBool = None
    extra: JsonMap = EMPTY


@api_object
class EnvVarSource(ApiObject):
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: ConfigMapKeySelector | None = None
    secret_key_ref: SecretKeySelector | None = None
    file_key_ref: FileKeySelector | None = None
    extra: JsonMap = EMPTY


@api_object
class EnvVar(ApiObject):
    name: str = ""
    value: str | None = None
    value_from: EnvVarSource | None = None
    extra: JsonMap = EMPTY


@api_object
class ConfigMapEnvSource(ApiObject):
    name: str | None = None
    optional: PtrBool = None
    extra: JsonMap = EMPTY


@api_object
class SecretEnvSource(ApiObject):
    name: str | None = None
    optional: PtrBool = None
    extra: JsonMap = EMPTY


@api_object
class EnvFromSource(ApiObject):
    prefix: str | None = None
    config_map_ref: ConfigMapEnvSource | None = None
    secret_ref: SecretEnvSource | None = None
    extra: JsonMap = EMPTY


@api_object
class ResourceClaim(ApiObject):
    name: str = ""
    request: str | None = None
    extra: JsonMap = EMPTY


@api_object
class ResourceRequirements(ApiObject):
    limits: Mapping[str, Quantity] = EMPTY
    requests: Mapping[str, Quantity] = EMPTY
    claims: tuple[ResourceClaim, ...] = ()
    extra: JsonMap = EMPTY


@api_object
class ContainerResizePolicy(ApiObject):
    resource_name: str = ""
    restart_policy: str = ""
    extra: JsonMap = EMPTY


@api_object
class ContainerRestartRuleOnExitCodes(ApiObject):
    """``operator`` is In or NotIn; no ``values`` means never (In) or always (NotIn) (API-102)."""

    operator: str = ""
    values: tuple[Int32, ...] = ()
    extra: JsonMap = EMPTY


@api_object
class ContainerRestartRule(ApiObject):
    """``action`` is Restart or RestartAllContainers (RST-002)."""

    action: str = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None
    extra: JsonMap = EMPTY


@api_object
class VolumeMount(ApiObject):
    name: str = ""
    read_only: bool | None = None
    recursive_read_only: PtrStr = None
    mount_path: str = ""
    sub_path: str | None = None
    mount_propagation: PtrStr = None
    sub_path_expr: str | None = None
    extra: JsonMap = EMPTY


@api_object
class VolumeDevice(ApiObject):
    name: str = ""
    device_path: str = ""
    extra: JsonMap = EMPTY


@api_object
class ExecAction(ApiObject):
    command: tuple[str, ...] = ()
    extra: JsonMap = EMPTY


@api_object
class HTTPHeader(ApiObject):
    name: str = ""
    value: str = ""
    extra: JsonMap = EMPTY


@api_object
class HTTPGetAction(ApiObject):
    path: str | None = None
    port: IntOrString = 0
    host: str | None = None
    scheme: str | None = None
    http_headers: tuple[HTTPHeader, ...] = ()
    extra: JsonMap = EMPTY


@api_object
class TCPSocketAction(ApiObject):
    port: IntOrString = 0
    host: str | None = None
    extra: JsonMap = EMPTY


@api_object
class GRPCAction(ApiObject):
    port: Int32 = 0
    service: PtrStr = None
    extra: JsonMap = EMPTY


@api_object
class SleepAction(ApiObject):
    seconds: Int64 = 0
    extra: JsonMap = EMPTY


@api_object
class Probe(ApiObject):
    """A probe; at most one of the four handlers. Zero thresholds and periods are absent (API-016)."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: Int32 | None = None
    timeout_seconds: Int32 | None = None
    period_seconds: Int32 | None = None
    success_threshold: Int32 | None = None
    failure_threshold: Int32 | None = None
    termination_grace_period_seconds: PtrInt64 = None
    extra: JsonMap = EMPTY


@api_object
class LifecycleHandler(ApiObject):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None
    extra: JsonMap = EMPTY


@api_object
class Lifecycle(ApiObject):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: PtrStr = None
    extra: JsonMap = EMPTY


@api_object
class Capabilities(ApiObject):
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    extra: JsonMap = EMPTY


@api_object
class SELinuxOptions(ApiObject):
    user: str | None = None
    role: str | None = None
    type: str | None = None
    level: str | None = None
    extra: JsonMap = EMPTY


@api_object
class SeccompProfile(ApiObject):
    type: str = ""
    localhost_profile: PtrStr = None
    extra: JsonMap = EMPTY


@api_object
class AppArmorProfile(ApiObject):
    type: str = ""
    localhost_profile: PtrStr = None
    extra: JsonMap = EMPTY


@api_object
class SecurityContext(ApiObject):
    capabilities: Capabilities | None = None
    privileged: PtrBool = None
    se_linux_options: SELinuxOptions | None = None
    windows_options: JsonMap | None = None
    run_as_user: PtrInt64 = None
    run_as_group: PtrInt64 = None
    run_as_non_root: PtrBool = None
    read_only_root_filesystem: PtrBool = None
    allow_privilege_escalation: PtrBool = None
    proc_mount: PtrStr = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    extra: JsonMap = EMPTY


_NO_RESOURCES = ResourceRequirements()


@api_object
class Container(ApiObject):
    """A regular or an init container. ``restart_policy`` None: the pod's policy applies (API-003)."""

    name: str = ""
    image: OmitStr = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str | None = None
    ports: tuple[ContainerPort, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources: ResourceRequirements = _NO_RESOURCES
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    restart_policy: PtrStr = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_path: str | None = None
    termination_message_policy: str | None = None
    image_pull_policy: str | None = None
    security_context: SecurityContext | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    tty: bool | None = None
    extra: JsonMap = EMPTY


@api_object
class EphemeralContainer(Container):
    """A container added to a running pod; runs once, is never restarted (API-007)."""

    target_container_name: str | None = None
