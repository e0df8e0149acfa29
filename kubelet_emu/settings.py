"""Settings of a kubelet: the part of KubeletConfiguration v1beta1 that matters here (POD-001, POD-002).

Durations are seconds, as the unit in each name says. Defaults are those of Kubernetes 1.36.
"""

from collections.abc import Mapping

from attrs import field, frozen

from kubelet_emu.bugs import Deviations, known_bugs, known_fixes
from kubelet_emu.gates import Gates

__all__ = ["KubeletSettings"]


@frozen
class KubeletSettings:
    """What can be set about one kubelet; made by ``kubelet_emu.config`` from a KubeletConfiguration file."""

    node_name: str = "node-1"
    node_ips: tuple[str, ...] = ("192.0.2.10",)
    root_dir: str = "/var/lib/kubelet"
    pod_logs_dir: str = "/var/log/pods"
    container_logs_dir: str = "/var/log/containers"
    host_paths_root: str = ""
    """Folder under which hostPath volumes are kept instead of where they say; empty: where they say."""
    cluster_dns: tuple[str, ...] = ("10.96.0.10",)
    cluster_domain: str = "cluster.local"
    sync_frequency_seconds: float = 60.0
    file_check_frequency_seconds: float = 20.0
    http_check_frequency_seconds: float = 20.0
    static_pod_path: str = ""
    static_pod_url: str = ""
    runtime_request_timeout_seconds: float = 120.0
    max_pods: int = 110
    relist_period_seconds: float = 1.0
    relist_threshold_seconds: float = 180.0
    housekeeping_period_seconds: float = 2.0
    crash_loop_backoff_max_seconds: float = 300.0
    max_dead_containers_per_container: int = 1
    max_dead_containers: int = -1
    minimum_container_ttl_seconds: float = 0.0
    serialize_image_pulls: bool = True
    max_parallel_image_pulls: int = 0
    registry_qps: int = 5
    registry_burst: int = 10
    image_pull_credentials_policy: str = "NeverVerifyPreloadedImages"
    preloaded_images_allowlist: tuple[str, ...] = ()
    image_gc_high_percent: int = 85
    image_gc_low_percent: int = 80
    image_gc_min_age_seconds: float = 120.0
    image_gc_max_age_seconds: float = 0.0
    """Images unused for so long go whatever the usage; 0: never."""
    image_fs_bytes: int = 0
    """Size of the disk that images lie on; 0: the node's ephemeral storage."""
    event_qps: int = 50
    event_burst: int = 100
    seccomp_default: bool = False
    container_log_max_size_bytes: int = 10 * 1024 * 1024
    container_log_max_files: int = 5
    enable_service_links: bool = True
    cgroups_per_qos: bool = False
    node_status_update_frequency_seconds: float = 10.0
    topology_manager_policy: str = "none"
    topology_manager_scope: str = "container"
    topology_manager_policy_options: Mapping[str, str] = field(factory=dict[str, str])
    cpu_manager_policy: str = "none"
    cpu_manager_policy_options: Mapping[str, str] = field(factory=dict[str, str])
    cpu_manager_reconcile_period_seconds: float = 10.0
    reserved_cpus: str = ""
    """CPUs set aside, as a list such as ``0-1``; without one as many as ``reserved_cpu`` says."""
    reserved_cpu: str = "0"
    """systemReserved plus kubeReserved of cpu, as a quantity."""
    memory_manager_policy: str = "None"
    reserved_memory: Mapping[int, Mapping[str, str]] = field(factory=dict[int, Mapping[str, str]])
    """Memory set aside on each NUMA node, as quantities by kind (``memory``, ``hugepages-2Mi``)."""
    gates: Gates = field(factory=Gates)
    bugs: frozenset[str] = field(default=frozenset[str](), converter=known_bugs)
    """Ids of bugs that are switched on; see ``kubelet_emu.bugs``. Raises ``CallerError`` for unknown ones."""
    fixes: frozenset[str] = field(default=frozenset[str](), converter=known_fixes)
    """Ids of bugs of 1.36.2 that are fixed here."""
    deviations: Deviations = field(init=False, eq=False, repr=False)
    """The last two, as decisions take them."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "deviations", Deviations(self.bugs, self.fixes))
