"""The effective configuration as ``/configz`` shows it (pure).

All fields of KubeletConfiguration v1beta1 that have a default, in the order in which the real one prints
them; what an emulated node can be told comes from its settings, the rest are the defaults of Kubernetes 1.36.
"""

from typing import Any

from kubelet_emu.gates import DEFAULT_GATES
from kubelet_emu.kuberuntime.gotext import go_duration
from kubelet_emu.settings import KubeletSettings

__all__ = ["configz"]


def configz(
    settings: KubeletSettings,
    *,
    http_port: int,
    runtime_endpoint: str = "unix:///run/containerd/containerd.sock",
) -> dict[str, Any]:
    """``{"kubeletconfig": …}``. ``http_port`` is that of the read-only server."""
    gates = {
        name: enabled
        for name in sorted(DEFAULT_GATES)
        if (enabled := settings.gates.enabled(name)) != DEFAULT_GATES[name]
    }
    config: dict[str, Any] = {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "enableServer": True,
        **({"staticPodPath": settings.static_pod_path} if settings.static_pod_path else {}),
        "podLogsDir": settings.pod_logs_dir,
        "syncFrequency": duration(settings.sync_frequency_seconds),
        "fileCheckFrequency": duration(settings.file_check_frequency_seconds),
        "httpCheckFrequency": duration(settings.http_check_frequency_seconds),
        **({"staticPodURL": settings.static_pod_url} if settings.static_pod_url else {}),
        "address": "127.0.0.1",
        "port": 0,
        "readOnlyPort": http_port,
        "authentication": {
            "x509": {},
            "webhook": {"enabled": False, "cacheTTL": "2m0s"},
            "anonymous": {"enabled": True},
        },
        "authorization": {
            "mode": "AlwaysAllow",
            "webhook": {"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"},
        },
        "registryPullQPS": settings.registry_qps,
        "registryBurst": settings.registry_burst,
        "imagePullCredentialsVerificationPolicy": "NeverVerifyPreloadedImages",
        "eventRecordQPS": settings.event_qps,
        "eventBurst": settings.event_burst,
        "enableDebuggingHandlers": True,
        "healthzPort": 0,
        "healthzBindAddress": "127.0.0.1",
        "oomScoreAdj": -999,
        "clusterDomain": settings.cluster_domain,
        "clusterDNS": list(settings.cluster_dns),
        "streamingConnectionIdleTimeout": "4h0m0s",
        "nodeStatusUpdateFrequency": duration(settings.node_status_update_frequency_seconds),
        "nodeStatusReportFrequency": "5m0s",
        "nodeLeaseDurationSeconds": 40,
        **_images_and_managers(settings),
        "runtimeRequestTimeout": duration(settings.runtime_request_timeout_seconds),
        "hairpinMode": "promiscuous-bridge",
        "maxPods": settings.max_pods,
        **_limits(settings),
        **({"featureGates": gates} if gates else {}),
        **_storage_and_logs(settings),
        "crashLoopBackOff": {"maxContainerRestartPeriod": duration(settings.crash_loop_backoff_max_seconds)},
        "enableProfilingHandler": True,
        "enableDebugFlagsHandler": True,
        "seccompDefault": settings.seccomp_default,
        "memoryThrottlingFactor": 0.9,
        "memoryReservationPolicy": "None",
        "registerNode": True,
        "localStorageCapacityIsolation": True,
        "containerRuntimeEndpoint": runtime_endpoint,
        "failCgroupV1": False,
    }
    return {"kubeletconfig": config}


def _images_and_managers(settings: KubeletSettings) -> dict[str, Any]:
    options = dict(settings.topology_manager_policy_options)
    cpu_options = dict(settings.cpu_manager_policy_options)
    return {
        "imageMinimumGCAge": duration(settings.image_gc_min_age_seconds),
        "imageMaximumGCAge": duration(settings.image_gc_max_age_seconds),
        "imageGCHighThresholdPercent": settings.image_gc_high_percent,
        "imageGCLowThresholdPercent": settings.image_gc_low_percent,
        "volumeStatsAggPeriod": "1m0s",
        "cgroupsPerQOS": settings.cgroups_per_qos,
        "cgroupDriver": "cgroupfs",
        "cpuManagerPolicy": settings.cpu_manager_policy,
        **({"cpuManagerPolicyOptions": cpu_options} if cpu_options else {}),
        "cpuManagerReconcilePeriod": duration(settings.cpu_manager_reconcile_period_seconds),
        "memoryManagerPolicy": settings.memory_manager_policy,
        "topologyManagerPolicy": settings.topology_manager_policy,
        "topologyManagerScope": settings.topology_manager_scope,
        **({"topologyManagerPolicyOptions": options} if options else {}),
    }


def _limits(settings: KubeletSettings) -> dict[str, Any]:
    parallel = settings.max_parallel_image_pulls
    return {
        "podPidsLimit": -1,
        "resolvConf": "/etc/resolv.conf",
        "cpuCFSQuota": True,
        "cpuCFSQuotaPeriod": "100ms",
        "nodeStatusMaxImages": 50,
        "maxOpenFiles": 1000000,
        "contentType": "application/vnd.kubernetes.protobuf",
        "kubeAPIQPS": 50,
        "kubeAPIBurst": 100,
        "serializeImagePulls": settings.serialize_image_pulls,
        **({"maxParallelImagePulls": parallel} if parallel else {}),
        "evictionPressureTransitionPeriod": "5m0s",
        "mergeDefaultEvictionSettings": False,
        "enableControllerAttachDetach": True,
        "makeIPTablesUtilChains": True,
        "iptablesMasqueradeBit": 14,
        "iptablesDropBit": 15,
    }


def _storage_and_logs(settings: KubeletSettings) -> dict[str, Any]:
    return {
        "failSwapOn": False,
        "memorySwap": {},
        "containerLogMaxSize": _binary(settings.container_log_max_size_bytes),
        "containerLogMaxFiles": settings.container_log_max_files,
        "containerLogMaxWorkers": 1,
        "containerLogMonitorInterval": "10s",
        "configMapAndSecretChangeDetectionStrategy": "Watch",
        "volumePluginDir": "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
        "logging": {
            "format": "text",
            "flushFrequency": "5s",
            "verbosity": 2,
            "options": {"text": {"infoBufferSize": "0"}, "json": {"infoBufferSize": "0"}},
        },
        "enableSystemLogHandler": False,
        "enableSystemLogQuery": False,
        "shutdownGracePeriod": "0s",
        "shutdownGracePeriodCriticalPods": "0s",
    }


def duration(seconds: float) -> str:
    """A duration as Go prints it: ``1m0s``, ``20s``, ``100ms``."""
    return go_duration(round(seconds * 1_000_000_000))


def _binary(size: int) -> str:
    for unit, factor in (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024)):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)
