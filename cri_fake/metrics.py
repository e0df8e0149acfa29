"""Figures: stats of containers and pods, and the metrics that cAdvisor would give (CRI section 12).

A figure is a pure function of the object's id, its state and the time: plausible, and for counters never
falling. Each CPU sample carries a later timestamp than any before (CRI-130).
"""

import hashlib
from collections.abc import Callable, Mapping

from attrs import frozen

from cri_fake.messages import container_metadata
from cri_fake.store.containers import Container, WireState
from cri_fake.store.sandboxes import Sandbox
from cri_fake.world import World
from k8s_proto import runtime_v1_pb2 as cri

__all__ = ["container_stats", "metric_descriptors", "pod_metrics", "pod_stats"]

_NS = 1_000_000_000
_MOUNT_POINT = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"
_DEFAULT_LIMIT_BYTES = 24 * 1024**3
_BASE_LABELS = ("pod", "namespace", "container", "id", "image")


@frozen
class _Usage:
    """What one container uses at one moment."""

    cpu_ns: int
    cpu_nano_cores: int
    memory_bytes: int
    limit_bytes: int
    disk_bytes: int
    inodes: int
    seconds: float


def _share(container_id: str, what: str) -> float:
    """A number from 0 to 1 that belongs to the container for good."""
    digest = hashlib.sha256(f"{container_id}/{what}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def _usage(container: Container, now_ns: int) -> _Usage:
    seconds = max(now_ns - container.started_at_ns, 0) / _NS
    nano_cores = int(200_000 + 4_800_000 * _share(container.id, "cpu"))
    limit = 0
    if container.resources is not None:
        limit = max(int(container.resources.memory_limit_in_bytes), 0)
    memory = int(220_000 + 600_000 * _share(container.id, "memory"))
    if limit:
        memory = min(memory, limit * 9 // 10)
    return _Usage(
        cpu_ns=int(seconds * nano_cores) + 30_000_000,
        cpu_nano_cores=nano_cores,
        memory_bytes=memory,
        limit_bytes=limit,
        disk_bytes=8192 + 4096 * int(3 * _share(container.id, "disk")),
        inodes=5 + int(4 * _share(container.id, "disk")),
        seconds=seconds,
    )


def container_stats(world: World, container: Container) -> cri.ContainerStats:
    """Stats of one container; figures are zero-free only while it runs."""
    stamp = world.unique_now_ns()
    usage = _usage(container, stamp)
    limit = usage.limit_bytes or _DEFAULT_LIMIT_BYTES
    return cri.ContainerStats(
        attributes=cri.ContainerAttributes(
            id=container.id,
            metadata=container_metadata(container),
            labels=container.config.labels,
            annotations=container.config.annotations,
        ),
        cpu=cri.CpuUsage(
            timestamp=stamp,
            usage_core_nano_seconds=cri.UInt64Value(value=usage.cpu_ns),
            usage_nano_cores=cri.UInt64Value(value=usage.cpu_nano_cores),
        ),
        memory=cri.MemoryUsage(
            timestamp=stamp,
            working_set_bytes=cri.UInt64Value(value=usage.memory_bytes),
            available_bytes=cri.UInt64Value(value=max(limit - usage.memory_bytes, 0)),
            usage_bytes=cri.UInt64Value(value=usage.memory_bytes * 5 // 4),
            rss_bytes=cri.UInt64Value(value=usage.memory_bytes * 3 // 4),
            page_faults=cri.UInt64Value(value=900 + int(usage.seconds)),
            major_page_faults=cri.UInt64Value(value=2),
        ),
        swap=cri.SwapUsage(
            timestamp=stamp,
            swap_available_bytes=cri.UInt64Value(value=0),
            swap_usage_bytes=cri.UInt64Value(value=0),
        ),
        writable_layer=cri.FilesystemUsage(
            timestamp=stamp,
            fs_id=cri.FilesystemIdentifier(mountpoint=_MOUNT_POINT),
            used_bytes=cri.UInt64Value(value=usage.disk_bytes),
            inodes_used=cri.UInt64Value(value=usage.inodes),
        ),
    )


def _running(world: World, sandbox: Sandbox) -> tuple[Container, ...]:
    return tuple(c for c in world.containers_of(sandbox.id) if c.state is WireState.RUNNING)


def _traffic(sandbox: Sandbox, now_ns: int) -> tuple[int, int]:
    seconds = max(now_ns - sandbox.created_at_ns, 0) / _NS
    return int(1200 + seconds * 40), int(800 + seconds * 25)


def pod_stats(world: World, sandbox: Sandbox) -> cri.PodSandboxStats:
    """Stats of one sandbox: the sums of its running containers, and its network."""
    stats = [container_stats(world, container) for container in _running(world, sandbox)]
    stamp = world.unique_now_ns()
    received, sent = _traffic(sandbox, stamp)
    interface = cri.NetworkInterfaceUsage(
        name="eth0",
        rx_bytes=cri.UInt64Value(value=received),
        rx_errors=cri.UInt64Value(value=0),
        tx_bytes=cri.UInt64Value(value=sent),
        tx_errors=cri.UInt64Value(value=0),
    )

    def total(read: Callable[[cri.ContainerStats], int], base: int) -> cri.UInt64Value:
        return cri.UInt64Value(value=base + sum(read(each) for each in stats))

    return cri.PodSandboxStats(
        attributes=cri.PodSandboxAttributes(
            id=sandbox.id,
            metadata=sandbox.config.metadata,
            labels=sandbox.config.labels,
            annotations=sandbox.config.annotations,
        ),
        linux=cri.LinuxPodSandboxStats(
            cpu=cri.CpuUsage(
                timestamp=stamp,
                usage_core_nano_seconds=total(lambda s: s.cpu.usage_core_nano_seconds.value, 15_000_000),
                usage_nano_cores=total(lambda s: s.cpu.usage_nano_cores.value, 0),
            ),
            memory=cri.MemoryUsage(
                timestamp=stamp,
                working_set_bytes=total(lambda s: s.memory.working_set_bytes.value, 40_960),
                usage_bytes=total(lambda s: s.memory.usage_bytes.value, 49_152),
                rss_bytes=total(lambda s: s.memory.rss_bytes.value, 32_768),
                page_faults=total(lambda s: s.memory.page_faults.value, 500),
                major_page_faults=total(lambda s: s.memory.major_page_faults.value, 0),
            ),
            network=cri.NetworkUsage(timestamp=stamp, default_interface=interface, interfaces=[]),
            process=cri.ProcessUsage(timestamp=stamp, process_count=cri.UInt64Value(value=1 + len(stats))),
            containers=stats,
        ),
    )


_COUNTER, _GAUGE = cri.COUNTER, cri.GAUGE
_Read = Callable[[_Usage], int]


@frozen
class _Metric:
    """One metric of a container: its extra label with the values it takes, and how it is read."""

    help: str
    kind: "cri.MetricType.ValueType"
    read: _Read
    label: str = ""
    values: tuple[str, ...] = ("",)


def _zero(_: _Usage) -> int:
    return 0


def _counter(text: str, read: _Read = _zero, label: str = "", values: tuple[str, ...] = ("",)) -> _Metric:
    return _Metric(text, _COUNTER, read, label, values)


def _gauge(text: str, read: _Read = _zero, label: str = "", values: tuple[str, ...] = ("",)) -> _Metric:
    return _Metric(text, _GAUGE, read, label, values)


_DEVICE = ("device", ("/dev/vda1",))
_TASKS = ("sleeping", "running", "stopped", "uninterruptible", "iowaiting")

_CONTAINER_METRICS: Mapping[str, _Metric] = {
    "container_blkio_device_usage_total": _counter("Bytes read and written", _zero, *_DEVICE),
    "container_cpu_cfs_periods_total": _counter("Enforcement periods passed", lambda u: int(u.seconds * 10)),
    "container_cpu_cfs_throttled_periods_total": _counter("Throttled periods"),
    "container_cpu_cfs_throttled_seconds_total": _counter("Time throttled"),
    "container_cpu_load_average_10s": _gauge("Load average over 10 seconds"),
    "container_cpu_system_seconds_total": _counter("System CPU time", lambda u: u.cpu_ns // (4 * _NS)),
    "container_cpu_usage_seconds_total": _counter("CPU time", lambda u: u.cpu_ns // _NS, "cpu", ("total",)),
    "container_cpu_user_seconds_total": _counter("User CPU time", lambda u: u.cpu_ns * 3 // (4 * _NS)),
    "container_file_descriptors": _gauge("Open file descriptors", lambda u: 6),
    "container_fs_inodes_free": _gauge("Free inodes", lambda u: 3_000_000 - u.inodes, *_DEVICE),
    "container_fs_inodes_total": _gauge("Inodes", lambda u: 3_000_000, *_DEVICE),
    "container_fs_io_current": _gauge("I/Os in progress", _zero, *_DEVICE),
    "container_fs_io_time_seconds_total": _counter("Time doing I/O", _zero, *_DEVICE),
    "container_fs_io_time_weighted_seconds_total": _counter("Weighted I/O time", _zero, *_DEVICE),
    "container_fs_limit_bytes": _gauge("Bytes that may be used", lambda u: 50 * 1024**3, *_DEVICE),
    "container_fs_read_seconds_total": _counter("Time reading", _zero, *_DEVICE),
    "container_fs_reads_bytes_total": _counter("Bytes read", lambda u: u.disk_bytes, *_DEVICE),
    "container_fs_reads_merged_total": _counter("Reads merged", _zero, *_DEVICE),
    "container_fs_reads_total": _counter("Reads completed", lambda u: u.inodes, *_DEVICE),
    "container_fs_sector_reads_total": _counter("Sector reads", _zero, *_DEVICE),
    "container_fs_sector_writes_total": _counter("Sector writes", _zero, *_DEVICE),
    "container_fs_usage_bytes": _gauge("Bytes used", lambda u: u.disk_bytes, *_DEVICE),
    "container_fs_write_seconds_total": _counter("Time writing", _zero, *_DEVICE),
    "container_fs_writes_bytes_total": _counter("Bytes written", lambda u: u.disk_bytes, *_DEVICE),
    "container_fs_writes_merged_total": _counter("Writes merged", _zero, *_DEVICE),
    "container_fs_writes_total": _counter("Writes completed", lambda u: u.inodes, *_DEVICE),
    "container_hugetlb_max_usage_bytes": _gauge("Most huge pages used", _zero, "pagesize", ("2MB",)),
    "container_hugetlb_usage_bytes": _gauge("Huge pages used", _zero, "pagesize", ("2MB",)),
    "container_last_seen": _gauge("Last time seen", lambda u: int(u.seconds)),
    "container_memory_cache": _gauge("Page cache", lambda u: u.memory_bytes // 4),
    "container_memory_failcnt": _counter("Times the limit was hit"),
    "container_memory_failures_total": _counter(
        "Allocation failures", lambda u: 900 + int(u.seconds), "failure_type", ("pgfault", "pgmajfault")
    ),
    "container_memory_kernel_usage": _gauge("Kernel memory", lambda u: 65_536),
    "container_memory_mapped_file": _gauge("Mapped files", lambda u: 16_384),
    "container_memory_max_usage_bytes": _gauge("Most memory used", lambda u: u.memory_bytes * 5 // 4),
    "container_memory_rss": _gauge("Resident memory", lambda u: u.memory_bytes * 3 // 4),
    "container_memory_swap": _gauge("Swap used"),
    "container_memory_usage_bytes": _gauge("Memory used", lambda u: u.memory_bytes * 5 // 4),
    "container_memory_working_set_bytes": _gauge("Working set", lambda u: u.memory_bytes),
    "container_oom_events_total": _counter("OOM events"),
    "container_processes": _gauge("Processes", lambda u: 1),
    "container_sockets": _gauge("Open sockets"),
    "container_spec_cpu_period": _gauge("CPU period", lambda u: 100_000),
    "container_spec_cpu_quota": _gauge("CPU quota"),
    "container_spec_cpu_shares": _gauge("CPU shares", lambda u: 2),
    "container_spec_memory_limit_bytes": _gauge("Memory limit", lambda u: u.limit_bytes),
    "container_spec_memory_reservation_limit_bytes": _gauge("Memory reservation"),
    "container_spec_memory_swap_limit_bytes": _gauge("Swap limit"),
    "container_start_time_seconds": _gauge("Start time", lambda u: int(u.seconds)),
    "container_tasks_state": _gauge("Tasks by state", lambda u: 0, "state", _TASKS),
    "container_threads": _gauge("Threads", lambda u: 1),
    "container_threads_max": _gauge("Most threads allowed", lambda u: 100_000),
    "container_ulimits_soft": _gauge("Soft limits", lambda u: 1_048_576, "ulimit", ("max_open_files",)),
}
_NETWORK_METRICS: Mapping[str, str] = {
    f"container_network_{way}_{what}_total": f"Cumulative {what.replace('_', ' ')}, {way}"
    for way in ("receive", "transmit")
    for what in ("bytes", "errors", "packets", "packets_dropped")
}


def metric_descriptors() -> list[cri.MetricDescriptor]:
    """All metrics with help and label keys, sorted by name (CRI-134)."""
    found = [
        cri.MetricDescriptor(
            name=name, help=metric.help, label_keys=[*_BASE_LABELS, *([metric.label] if metric.label else [])]
        )
        for name, metric in _CONTAINER_METRICS.items()
    ]
    found += [
        cri.MetricDescriptor(name=name, help=text, label_keys=[*_BASE_LABELS, "interface"])
        for name, text in _NETWORK_METRICS.items()
    ]
    return sorted(found, key=lambda each: each.name)


def pod_metrics(world: World, sandbox: Sandbox) -> cri.PodSandboxMetrics:
    """Metrics of a READY sandbox and its running containers; label values in the order of the keys."""
    now_ns = world.unique_now_ns()
    base = [sandbox.name, sandbox.namespace, "POD", sandbox.id, ""]
    received, sent = _traffic(sandbox, now_ns)
    network: list[cri.Metric] = []
    for name in _NETWORK_METRICS:
        amount = received if "receive" in name else sent
        value = amount if "bytes" in name else amount // 80 if name.endswith("packets_total") else 0
        network.append(_metric(name, _COUNTER, [*base, "eth0"], value))
    containers = [
        cri.ContainerMetrics(container_id=each.id, metrics=_container_metrics(sandbox, each, now_ns))
        for each in _running(world, sandbox)
    ]
    return cri.PodSandboxMetrics(pod_sandbox_id=sandbox.id, metrics=network, container_metrics=containers)


def _container_metrics(sandbox: Sandbox, container: Container, now_ns: int) -> list[cri.Metric]:
    usage = _usage(container, now_ns)
    base = [sandbox.name, sandbox.namespace, container.name, container.id, container.image_name]
    return [
        _metric(name, metric.kind, [*base, *([value] if metric.label else [])], metric.read(usage))
        for name, metric in _CONTAINER_METRICS.items()
        for value in metric.values
    ]


def _metric(name: str, kind: "cri.MetricType.ValueType", labels: list[str], value: int) -> cri.Metric:
    return cri.Metric(
        name=name, metric_type=kind, label_values=labels, value=cri.UInt64Value(value=max(value, 0))
    )
