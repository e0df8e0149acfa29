"""The kubelet's metrics in Prometheus text: one registry a node, names and labels as the real ones (NOD-90).

Counters come from ``tallies``; what is a state (pods that run, devices registered) is read when scraped.
Metrics whose subject an emulated node does not have are left out rather than shown as zero.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from attrs import field, frozen
from google.protobuf.message import Message
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.gates import DEFAULT_GATES, LOCKED_GATES
from kubelet_emu.server.tallies import Tallies, operation_of
from kubelet_emu.timing import Counter, Timing
from trio_grpc import CallRecord

__all__ = ["CONTENT_TYPE", "CallTallies", "NodeMetrics", "NodeState", "ProbeCount"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"


def _none() -> Mapping[str, int]:
    return {}


@frozen(kw_only=True)
class ProbeCount:
    """One series of ``prober_probe_total`` (PRB-42)."""

    labels: tuple[str, ...]
    """probe_type, result, container, pod, namespace, pod_uid"""
    count: int


@frozen(kw_only=True)
class NodeState:
    """What is read at the moment of a scrape. Keys of pairs are label values."""

    node_name: str
    gates: Mapping[str, bool]
    running_pods: int = 0
    running_containers: Mapping[str, int] = field(factory=_none)
    desired_pods: Mapping[str, int] = field(factory=_none)
    active_pods: Mapping[str, int] = field(factory=_none)
    mirror_pods: int = 0
    working_pods: Mapping[tuple[str, str, str], int] = field(factory=dict[tuple[str, str, str], int])
    ephemeral_containers: int = 0
    pleg_last_seen_seconds: float = 0.0
    plugin_registrations: Mapping[str, int] = field(factory=_none)
    plugin_allocation_seconds: Timing = field(factory=Timing)
    admission_milliseconds: Timing = field(factory=Timing)
    claims_in_use: Mapping[str, int] = field(factory=_none)
    claim_operation_seconds: Timing = field(factory=Timing)
    exclusive_cpus: int = 0
    shared_cpus: int = 0
    cpu_pinnings: tuple[int, int] = (0, 0)
    """Requests and errors; the same of memory below."""
    memory_pinnings: tuple[int, int] = (0, 0)
    resizes_in_progress: int = 0
    probes: tuple[ProbeCount, ...] = ()


class CallTallies:
    """A ``trio_grpc.CallHook`` that counts the kubelet's calls to its runtime.

    ``container_type(pod_uid, name)`` says of which kind a container is: ``container``, ``init_container`` …
    """

    def __init__(self, tallies: Tallies, container_type: Callable[[str, str], str]) -> None:
        self._tallies = tallies
        self._container_type = container_type
        self._types: dict[str, str] = {}

    def started(self, record: CallRecord) -> None:
        """Nothing is counted before a call has ended."""

    def item(self, record: CallRecord, message: Message) -> None:
        """Items of streams are not counted."""

    def finished(self, record: CallRecord) -> None:
        """Count the call."""
        tallies, request, failed = self._tallies, record.request, record.error is not None
        seconds = record.end_seconds - record.start_seconds
        operation = operation_of(record.method.name)
        tallies.operations.add(operation)
        tallies.operation_seconds.observe(seconds, operation)
        if failed:
            tallies.operation_errors.add(operation)
        if isinstance(request, cri.RunPodSandboxRequest):
            self._sandbox(request, seconds, failed=failed)
        elif isinstance(request, cri.CreateContainerRequest):
            self._created(request, record.reply)
        elif isinstance(request, cri.StartContainerRequest) and failed:
            tallies.start_errors.add(self._types.get(request.container_id, "container"), "RunContainerError")
        elif isinstance(request, cri.RemoveContainerRequest):
            self._types.pop(request.container_id, None)

    def _sandbox(self, request: cri.RunPodSandboxRequest, seconds: float, *, failed: bool) -> None:
        tallies, handler = self._tallies, request.runtime_handler
        tallies.sandbox_seconds.observe(seconds, handler)
        tallies.started_pods.add()
        if failed:
            tallies.sandbox_errors.add(handler)
            tallies.started_pod_errors.add()

    def _created(self, request: cri.CreateContainerRequest, reply: Message | None) -> None:
        """A start is counted when it sets out, which is before the container is created."""
        labels = request.config.labels
        uid = labels.get("io.kubernetes.pod.uid", "")
        kind = self._container_type(uid, labels.get("io.kubernetes.container.name", ""))
        self._tallies.started_containers.add(kind)
        if isinstance(reply, cri.CreateContainerResponse):
            self._types[reply.container_id] = kind
        else:
            self._tallies.start_errors.add(kind, "CreateContainerError")


class NodeMetrics:
    """Two registries of one node: ``/metrics`` and ``/metrics/probes``. ``state`` is asked at each scrape."""

    def __init__(self, tallies: Tallies, state: Callable[[], NodeState]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Families(lambda: _families(tallies, state())))
        self._probes = CollectorRegistry(auto_describe=False)
        self._probes.register(_Families(lambda: _probe_families(state())))

    def text(self) -> bytes:
        """The metrics of ``/metrics``."""
        return generate_latest(self._registry)

    def probes_text(self) -> bytes:
        """The metrics of ``/metrics/probes``."""
        return generate_latest(self._probes)


class _Families(Collector):
    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from sorted(self._families(), key=lambda family: family.name)

    def describe(self) -> Iterator[Metric]:
        """Nothing is known before a scrape."""
        yield from ()


def _families(tallies: Tallies, state: NodeState) -> Iterator[Metric]:
    yield from _counted(tallies)
    yield _gauge(
        "kubelet_http_inflight_requests",
        "Number of the inflight http requests",
        ("long_running", "method", "path", "server_type"),
        tallies.http_in_flight.values,
    )
    yield from _timed(tallies)
    yield from _pods(state)
    yield from _devices(state)
    yield _gauge("kubelet_node_name", "The node's name", ("node",), {(state.node_name,): 1})
    yield _gauge("kubelet_cgroup_version", "cgroup version on the hosts", (), {(): 2})
    features = {
        (name, "" if name in LOCKED_GATES else "BETA" if default else "ALPHA"): float(
            state.gates.get(name, default)
        )
        for name, default in DEFAULT_GATES.items()
    }
    yield _gauge(
        "kubernetes_feature_enabled",
        "This metric records the data about the stage and enablement of a k8s feature.",
        ("name", "stage"),
        features,
    )
    build = {
        "build_date": "",
        "compiler": "",
        "git_commit": "",
        "git_tree_state": "clean",
        "git_version": "v1.36.2",
        "go_version": "",
        "major": "1",
        "minor": "36",
        "platform": "linux/amd64",
    }
    yield _gauge(
        "kubernetes_build_info",
        "A metric with a constant '1' value labeled by the release that is emulated.",
        tuple(build),
        {tuple(build.values()): 1},
    )


_COUNTERS: Sequence[tuple[str, str, str, tuple[str, ...]]] = (
    (
        "operations",
        "kubelet_runtime_operations",
        "Cumulative number of runtime operations",
        ("operation_type",),
    ),
    (
        "operation_errors",
        "kubelet_runtime_operations_errors",
        "Cumulative number of runtime operation errors",
        ("operation_type",),
    ),
    (
        "sandbox_errors",
        "kubelet_run_podsandbox_errors",
        "Cumulative number of the run_podsandbox operation errors",
        ("runtime_handler",),
    ),
    ("started_pods", "kubelet_started_pods", "Cumulative number of pods started", ()),
    (
        "started_pod_errors",
        "kubelet_started_pods_errors",
        "Cumulative number of errors when starting pods",
        (),
    ),
    (
        "started_containers",
        "kubelet_started_containers",
        "Cumulative number of containers started",
        ("container_type",),
    ),
    (
        "start_errors",
        "kubelet_started_containers_errors",
        "Cumulative number of errors when starting containers",
        ("container_type", "code"),
    ),
    (
        "terminated",
        "kubelet_terminated_containers",
        "Cumulative number of containers terminated",
        ("container_type", "exit_code", "reason"),
    ),
    (
        "rejections",
        "kubelet_admission_rejections",
        "Cumulative number pod admission rejections by the Kubelet.",
        ("reason",),
    ),
    (
        "topology_requests",
        "kubelet_topology_manager_admission_requests",
        "The number of admission requests where resources have to be aligned.",
        (),
    ),
    (
        "topology_errors",
        "kubelet_topology_manager_admission_errors",
        "The number of admission request failures where resources could not be aligned.",
        (),
    ),
    (
        "http_requests",
        "kubelet_http_requests",
        "Number of the http requests received since the server started",
        ("long_running", "method", "path", "server_type"),
    ),
    (
        "pod_resources",
        "kubelet_pod_resources_endpoint_requests",
        "Cumulative number of requests to the PodResource endpoint. Broken down by server api version.",
        ("server_api_version",),
    ),
)

_BARE = ("started_pods", "started_pod_errors", "topology_requests", "topology_errors")


def _counted(tallies: Tallies) -> Iterator[Metric]:
    for attribute, name, about, labels in _COUNTERS:
        counter: Counter = getattr(tallies, attribute)
        values = counter.values or ({(): 0.0} if attribute in _BARE else {})
        yield _counter(name, about, labels, values)
    for call in ("list", "get", "get_allocatable"):
        for what in ("requests", "errors"):
            key = f"{what}_{call}"
            values = {
                labels[1:]: n
                for labels, n in tallies.pod_resources_by_call.values.items()
                if labels[0] == key
            }
            yield _counter(
                f"kubelet_pod_resources_endpoint_{key}",
                f"Number of {what} of the PodResource {call} endpoint. Broken down by server api version.",
                ("server_api_version",),
                values,
            )


def _timed(tallies: Tallies) -> Iterator[Metric]:
    yield _histogram(
        "kubelet_runtime_operations_duration_seconds",
        "Duration in seconds of runtime operations. Broken down by operation type.",
        ("operation_type",),
        tallies.operation_seconds,
    )
    yield _histogram(
        "kubelet_run_podsandbox_duration_seconds",
        "Duration in seconds of the run_podsandbox operations.",
        ("runtime_handler",),
        tallies.sandbox_seconds,
    )
    for name, about, timing in (
        (
            "kubelet_pleg_relist_duration_seconds",
            "Duration in seconds for relisting pods in PLEG.",
            tallies.relist_seconds,
        ),
        (
            "kubelet_pleg_relist_interval_seconds",
            "Interval in seconds between relisting in PLEG.",
            tallies.relist_interval_seconds,
        ),
        (
            "kubelet_containers_per_pod_count",
            "The number of containers per pod.",
            tallies.containers_per_pod,
        ),
    ):
        yield _histogram(name, about, (), timing)
    for name in ("kubelet_pod_start_duration_seconds", "kubelet_pod_start_total_duration_seconds"):
        yield _histogram(
            name,
            "Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
            (),
            tallies.pod_start_seconds,
        )


def _pods(state: NodeState) -> Iterator[Metric]:
    yield _gauge(
        "kubelet_running_pods", "Number of pods that have a running pod sandbox", (), {(): state.running_pods}
    )
    yield _gauge(
        "kubelet_running_containers",
        "Number of containers currently running",
        ("container_state",),
        {(name,): count for name, count in state.running_containers.items()},
    )
    for name, about, values in (
        (
            "kubelet_desired_pods",
            "The number of pods the kubelet is being instructed to run.",
            state.desired_pods,
        ),
        ("kubelet_active_pods", "The number of pods the kubelet considers active.", state.active_pods),
    ):
        yield _gauge(name, about, ("static",), {(label,): count for label, count in values.items()})
    yield _gauge(
        "kubelet_mirror_pods",
        "The number of mirror pods the kubelet will try to create",
        (),
        {(): state.mirror_pods},
    )
    yield _gauge(
        "kubelet_working_pods",
        "Number of pods the kubelet is actually running, broken down by lifecycle phase.",
        ("config", "lifecycle", "static"),
        state.working_pods,
    )
    yield _gauge(
        "kubelet_pod_in_progress_resizes",
        "Number of in-progress resizes for pods.",
        (),
        {(): state.resizes_in_progress},
    )
    yield _gauge(
        "kubelet_managed_ephemeral_containers",
        "Current number of ephemeral containers in pods managed by this kubelet.",
        (),
        {(): state.ephemeral_containers},
    )
    yield _gauge(
        "kubelet_pleg_last_seen_seconds",
        "Timestamp in seconds when PLEG was last seen active.",
        (),
        {(): state.pleg_last_seen_seconds},
    )


def _devices(state: NodeState) -> Iterator[Metric]:
    yield _counter(
        "kubelet_device_plugin_registration",
        "Cumulative number of device plugin registrations. Broken down by resource name.",
        ("resource_name",),
        {(name,): count for name, count in state.plugin_registrations.items()},
    )
    yield _histogram(
        "kubelet_device_plugin_alloc_duration_seconds",
        "Duration in seconds to serve a device plugin Allocation request. Broken down by resource name.",
        ("resource_name",),
        state.plugin_allocation_seconds,
    )
    yield _histogram(
        "kubelet_topology_manager_admission_duration_ms",
        "Duration in milliseconds to serve a pod admission request.",
        (),
        state.admission_milliseconds,
    )
    yield _histogram(
        "dra_operations_duration_seconds",
        "Latency histogram in seconds for the duration of handling all ResourceClaims referenced by a pod "
        "when the pod starts or stops.",
        ("is_error", "operation_name"),
        state.claim_operation_seconds,
    )
    yield from _pinned(state)
    yield _gauge(
        "dra_resource_claims_in_use",
        "The number of ResourceClaims that are currently in use on the node, by driver name.",
        ("driver_name",),
        {(name,): count for name, count in state.claims_in_use.items()},
    )


def _pinned(state: NodeState) -> Iterator[Metric]:
    """CPUs and memory that containers have for themselves."""
    for manager, things, (requests, errors) in (
        ("cpu", "CPU cores", state.cpu_pinnings),
        ("memory", "memory pages", state.memory_pinnings),
    ):
        for what, count in (("requests", requests), ("errors", errors)):
            about = f"The number of {things} allocations which required pinning"
            yield _counter(
                f"kubelet_{manager}_manager_pinning_{what}",
                f"{about} that failed." if what == "errors" else f"{about}.",
                (),
                {(): count},
            )
    yield _gauge(
        "kubelet_cpu_manager_exclusive_cpu_allocation_count",
        "The total number of CPUs exclusively allocated to containers running on this node",
        (),
        {(): state.exclusive_cpus},
    )
    yield _gauge(
        "kubelet_cpu_manager_shared_pool_size_millicores",
        "The size of the shared CPU pool for non-guaranteed QoS pods, in millicores.",
        (),
        {(): 1000 * state.shared_cpus},
    )


def _probe_families(state: NodeState) -> Iterator[Metric]:
    family = CounterMetricFamily(
        "prober_probe",
        "Cumulative number of a liveness, readiness or startup probe for a container by result.",
        labels=("probe_type", "result", "container", "pod", "namespace", "pod_uid"),
    )
    for probe in sorted(state.probes, key=lambda each: each.labels):
        family.add_metric(probe.labels, probe.count)
    yield family


def _counter(
    name: str, about: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]
) -> Metric:
    family = CounterMetricFamily(name, about, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(key, value)
    return family


def _gauge(name: str, about: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]) -> Metric:
    family = GaugeMetricFamily(name, about, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(key, value)
    return family


def _histogram(name: str, about: str, labels: tuple[str, ...], timing: Timing) -> Metric:
    family = HistogramMetricFamily(name, about, labels=labels)
    for key, counts in sorted(timing.counts.items()):
        total, buckets = 0, list[tuple[str, float]]()
        for bound, count in zip((*map(_bound, timing.bounds), "+Inf"), counts, strict=True):
            total += count
            buckets.append((bound, total))
        family.add_metric(key, buckets=buckets, sum_value=timing.sums[key])
    return family


def _bound(seconds: float) -> str:
    return f"{seconds:.10g}"
