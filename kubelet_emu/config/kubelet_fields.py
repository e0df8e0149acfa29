"""The fields of KubeletConfiguration v1beta1: those that matter here, and the names of all others. (pure)

Mirrors ``staging/src/k8s.io/kubelet/config/v1beta1/types.go`` of Kubernetes 1.36 (POD-001, NOD-95).
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from attrs import frozen

__all__ = ["FIELDS", "READ_APART", "WITHOUT_EFFECT", "Field"]

Kind: TypeAlias = Literal["duration", "int", "bool", "string", "strings", "options", "quantity"]


@frozen
class Field:
    """A field that matters: the setting it becomes, what it holds, and the least and greatest value."""

    setting: str
    kind: Kind
    low: float = 0
    high: float = float("inf")
    zero_is_default: bool = False
    """Whether 0 or an empty value means the default, as the API's defaulting has it."""
    choices: tuple[str, ...] = ()
    """The words that a text may be; any if empty."""


FIELDS: Mapping[str, Field] = {
    "cgroupsPerQOS": Field("cgroups_per_qos", "bool"),
    "clusterDNS": Field("cluster_dns", "strings"),
    "clusterDomain": Field("cluster_domain", "string"),
    "containerLogMaxFiles": Field("container_log_max_files", "int", 2),
    "containerLogMaxSize": Field("container_log_max_size_bytes", "quantity"),
    "cpuManagerPolicy": Field(
        "cpu_manager_policy", "string", choices=("none", "static"), zero_is_default=True
    ),
    "cpuManagerPolicyOptions": Field("cpu_manager_policy_options", "options"),
    "cpuManagerReconcilePeriod": Field(
        "cpu_manager_reconcile_period_seconds", "duration", zero_is_default=True
    ),
    "eventBurst": Field("event_burst", "int"),
    "eventRecordQPS": Field("event_qps", "int"),
    "fileCheckFrequency": Field("file_check_frequency_seconds", "duration", zero_is_default=True),
    "httpCheckFrequency": Field("http_check_frequency_seconds", "duration", zero_is_default=True),
    "imageGCHighThresholdPercent": Field("image_gc_high_percent", "int", 0, 100),
    "imageGCLowThresholdPercent": Field("image_gc_low_percent", "int", 0, 100),
    "imageMaximumGCAge": Field("image_gc_max_age_seconds", "duration"),
    "imageMinimumGCAge": Field("image_gc_min_age_seconds", "duration", zero_is_default=True),
    "imagePullCredentialsVerificationPolicy": Field(
        "image_pull_credentials_policy",
        "string",
        choices=(
            "NeverVerify",
            "NeverVerifyPreloadedImages",
            "NeverVerifyAllowlistedImages",
            "AlwaysVerify",
        ),
        zero_is_default=True,
    ),
    "maxParallelImagePulls": Field("max_parallel_image_pulls", "int", 1),
    "maxPods": Field("max_pods", "int", zero_is_default=True),
    "memoryManagerPolicy": Field(
        "memory_manager_policy", "string", choices=("None", "Static"), zero_is_default=True
    ),
    "nodeStatusUpdateFrequency": Field(
        "node_status_update_frequency_seconds", "duration", zero_is_default=True
    ),
    "podLogsDir": Field("pod_logs_dir", "string"),
    "preloadedImagesVerificationAllowlist": Field("preloaded_images_allowlist", "strings"),
    "registryBurst": Field("registry_burst", "int", zero_is_default=True),
    "registryPullQPS": Field("registry_qps", "int"),
    "reservedSystemCPUs": Field("reserved_cpus", "string"),
    "runtimeRequestTimeout": Field("runtime_request_timeout_seconds", "duration", zero_is_default=True),
    "seccompDefault": Field("seccomp_default", "bool"),
    "serializeImagePulls": Field("serialize_image_pulls", "bool"),
    "staticPodPath": Field("static_pod_path", "string"),
    "staticPodURL": Field("static_pod_url", "string"),
    "syncFrequency": Field("sync_frequency_seconds", "duration", zero_is_default=True),
    "topologyManagerPolicy": Field(
        "topology_manager_policy",
        "string",
        choices=("none", "best-effort", "restricted", "single-numa-node"),
        zero_is_default=True,
    ),
    "topologyManagerPolicyOptions": Field("topology_manager_policy_options", "options"),
    "topologyManagerScope": Field(
        "topology_manager_scope", "string", choices=("container", "pod"), zero_is_default=True
    ),
}
"""Fields that become settings, by name."""

READ_APART = ("featureGates", "crashLoopBackOff", "kubeReserved", "systemReserved", "reservedMemory")
"""Fields that become settings in a way of their own."""

_NAMES = """
address allowedUnsafeSysctls authentication authorization cgroupDriver cgroupRoot
configMapAndSecretChangeDetectionStrategy containerLogMaxWorkers containerLogMonitorInterval
containerRuntimeEndpoint contentType cpuCFSQuota cpuCFSQuotaPeriod enableContentionProfiling
enableControllerAttachDetach enableDebugFlagsHandler enableDebuggingHandlers enableProfilingHandler
enableServer enableSystemLogHandler enableSystemLogQuery enforceNodeAllocatable evictionHard
evictionMaxPodGracePeriod evictionMinimumReclaim evictionPressureTransitionPeriod evictionSoft
evictionSoftGracePeriod failCgroupV1 failSwapOn hairpinMode healthzBindAddress healthzPort
imageServiceEndpoint iptablesDropBit iptablesMasqueradeBit
kernelMemcgNotification kubeAPIBurst kubeAPIQPS kubeReservedCgroup kubeletCgroups
localStorageCapacityIsolation logging makeIPTablesUtilChains maxOpenFiles memoryReservationPolicy
memorySwap memoryThrottlingFactor mergeDefaultEvictionSettings nodeLeaseDurationSeconds
nodeStatusMaxImages nodeStatusReportFrequency oomScoreAdj podCIDR podPidsLimit podsPerCore port
protectKernelDefaults providerID qosReserved readOnlyPort
registerNode registerWithTaints resolvConf rotateCertificates runOnce serverTLSBootstrap
showHiddenMetricsForVersion shutdownGracePeriod shutdownGracePeriodByPodPriority
shutdownGracePeriodCriticalPods singleProcessOOMKill staticPodURLHeader streamingConnectionIdleTimeout
systemCgroups systemReservedCgroup tlsCertFile tlsCipherSuites tlsCurvePreferences tlsMinVersion
tlsPrivateKeyFile tracing userNamespaces volumePluginDir volumeStatsAggPeriod
"""
WITHOUT_EFFECT: frozenset[str] = frozenset(_NAMES.split())
"""Fields that a real kubelet knows and that change nothing about one emulated node."""
