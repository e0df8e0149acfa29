"""The Pod and the parts of its spec that are neither containers nor volumes. (pure)"""

from collections.abc import Mapping

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types.base import (
    EMPTY,
    ApiObject,
    Int32,
    Int64,
    JsonMap,
    OmitStr,
    PtrBool,
    PtrInt32,
    PtrInt64,
    PtrStr,
    WrittenTuple,
    api_object,
)
from kubelet_emu.api.types.container import (
    AppArmorProfile,
    Container,
    EphemeralContainer,
    ResourceRequirements,
    SeccompProfile,
    SELinuxOptions,
)
from kubelet_emu.api.types.meta import LabelSelector, LocalObjectReference, ObjectMeta
from kubelet_emu.api.types.status import PodStatus
from kubelet_emu.api.types.volume import Volume

__all__ = [
    "HostAlias",
    "Pod",
    "PodDNSConfig",
    "PodDNSConfigOption",
    "PodOS",
    "PodReadinessGate",
    "PodResourceClaim",
    "PodSchedulingGate",
    "PodSecurityContext",
    "PodSpec",
    "Sysctl",
    "Toleration",
    "TopologySpreadConstraint",
]


@api_object
class Sysctl(ApiObject):
    name: str = ""
    value: str = ""
    extra: JsonMap = EMPTY


@api_object
class PodSecurityContext(ApiObject):
    se_linux_options: SELinuxOptions | None = None
    windows_options: JsonMap | None = None
    run_as_user: PtrInt64 = None
    run_as_group: PtrInt64 = None
    run_as_non_root: PtrBool = None
    supplemental_groups: tuple[Int64, ...] = ()
    supplemental_groups_policy: PtrStr = None
    fs_group: PtrInt64 = None
    sysctls: tuple[Sysctl, ...] = ()
    fs_group_change_policy: PtrStr = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_change_policy: PtrStr = None
    extra: JsonMap = EMPTY


@api_object
class Toleration(ApiObject):
    """An empty ``operator`` means Equal (API-019)."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: PtrInt64 = None
    extra: JsonMap = EMPTY


@api_object
class HostAlias(ApiObject):
    ip: str = ""
    hostnames: tuple[str, ...] = ()
    extra: JsonMap = EMPTY


@api_object
class PodDNSConfigOption(ApiObject):
    name: str | None = None
    value: PtrStr = None
    extra: JsonMap = EMPTY


@api_object
class PodDNSConfig(ApiObject):
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[PodDNSConfigOption, ...] = ()
    extra: JsonMap = EMPTY


@api_object
class PodReadinessGate(ApiObject):
    condition_type: str = ""
    extra: JsonMap = EMPTY


@api_object
class PodSchedulingGate(ApiObject):
    name: str = ""
    extra: JsonMap = EMPTY


@api_object
class PodOS(ApiObject):
    name: str = ""
    extra: JsonMap = EMPTY


@api_object
class PodResourceClaim(ApiObject):
    name: str = ""
    resource_claim_name: PtrStr = None
    resource_claim_template_name: PtrStr = None
    extra: JsonMap = EMPTY


@api_object
class TopologySpreadConstraint(ApiObject):
    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: PtrInt32 = None
    node_affinity_policy: PtrStr = None
    node_taints_policy: PtrStr = None
    match_label_keys: tuple[str, ...] = ()
    extra: JsonMap = EMPTY


@api_object
class PodSpec(ApiObject):
    """``affinity`` and ``scheduling_group`` stay raw."""

    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: WrittenTuple[Container] = ()
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    restart_policy: str | None = None
    termination_grace_period_seconds: PtrInt64 = None
    active_deadline_seconds: PtrInt64 = None
    dns_policy: str | None = None
    node_selector: Mapping[str, str] = EMPTY
    service_account_name: str | None = None
    service_account: str | None = None
    automount_service_account_token: PtrBool = None
    node_name: str | None = None
    host_network: bool | None = None
    host_pid: bool | None = None
    host_ipc: bool | None = None
    share_process_namespace: PtrBool = None
    security_context: PodSecurityContext | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    hostname: str | None = None
    subdomain: str | None = None
    affinity: JsonMap | None = None
    scheduler_name: str | None = None
    tolerations: tuple[Toleration, ...] = ()
    host_aliases: tuple[HostAlias, ...] = ()
    priority_class_name: str | None = None
    priority: PtrInt32 = None
    dns_config: PodDNSConfig | None = None
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    runtime_class_name: PtrStr = None
    enable_service_links: PtrBool = None
    preemption_policy: PtrStr = None
    overhead: Mapping[str, Quantity] = EMPTY
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    set_hostname_as_fqdn: PtrBool = None
    os: PodOS | None = None
    host_users: PtrBool = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    hostname_override: PtrStr = None
    scheduling_group: JsonMap | None = None
    extra: JsonMap = EMPTY


_NO_META = ObjectMeta()
_NO_SPEC = PodSpec()
_NO_STATUS = PodStatus()


@api_object
class Pod(ApiObject):
    """A Pod v1. ``kind`` and ``api_version`` are left out of JSON when set to empty (items of a list)."""

    kind: OmitStr = "Pod"
    api_version: OmitStr = "v1"
    metadata: ObjectMeta = _NO_META
    spec: PodSpec = _NO_SPEC
    status: PodStatus = _NO_STATUS
    extra: JsonMap = EMPTY
