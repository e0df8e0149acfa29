# pyright: basic, reportArgumentType=false, reportOptionalSubscript=false
"""The read-only endpoints over a whole node (NOD section 8), and its metrics (NOD-90)."""

import json
import re
from pathlib import Path

import pytest

from kubelet_emu.server.configz import configz, duration
from kubelet_emu.server.endpoints import Endpoints
from kubelet_emu.server.http import Request
from kubelet_emu.server.metrics import CallTallies, NodeMetrics
from kubelet_emu.server.tallies import Tallies
from kubelet_emu.server.view import KubeletView
from kubelet_emu.settings import KubeletSettings
from kubelet_emu.timing import Timing

NAMES = Path(__file__).parent / "data" / "kubelet_metrics.tsv"


@pytest.fixture
def served(on_node):
    """Run ``story(node, get)``; ``get`` asks an endpoint."""

    def tell(story, **options):
        async def inside(node, view):
            tallies = Tallies()
            node.recorder.subscribe(tallies.record)
            node.kubelet.pleg.observer = lambda begun: tallies.relisted(begun, node.clock.elapsed_seconds())
            node.channel._hooks = (*node.channel._hooks, CallTallies(tallies, view.container_type))
            app = Endpoints(
                view,
                metrics=NodeMetrics(tallies, view.state),
                tallies=tallies,
                config=lambda: configz(node.settings, http_port=10255),
                files=node.files,
                clock=node.clock,
            )

            async def get(path, method="GET", **query):
                response = await app(Request(method=method, path=path, query=query))
                body = response.body
                if response.chunks is not None:
                    body = b"".join([chunk async for chunk in response.chunks])
                return response.status, body.decode()

            return await story(node, get)

        return on_node(inside, **options)

    return tell


def test_nod_82_pods_and_running_pods(served, pod):
    async def story(node, get):
        node.apply(pod("p", main={}, other={}))
        await node.advance(10)
        status, body = await get("/pods")
        assert status == 200
        assert body.startswith('{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":')
        (item,) = json.loads(body)["items"]
        assert item["spec"]["containers"][0]["name"] == "main"
        assert item["status"]["phase"] == "Running"
        _, body = await get("/runningpods/")
        (item,) = json.loads(body)["items"]
        assert item["metadata"] == {"name": "p", "namespace": "default", "uid": node.pod("p").metadata.uid}
        assert sorted(each["name"] for each in item["spec"]["containers"]) == ["main", "other"]
        assert item["status"] == {}

    served(story)


def test_nod_82_healthz(served):
    async def story(node, get):
        assert await get("/healthz") == (200, "ok")
        assert await get("/healthz/ping") == (200, "ok")
        assert (await get("/healthz/nothing"))[0] == 404
        _, verbose = await get("/healthz", verbose="")
        assert verbose.endswith("healthz check passed\n")
        node.kubelet.loop.last_iteration_seconds -= 1000
        node.kubelet.containers.devices.problem = "device registration error: gone"
        status, body = await get("/healthz")
        assert status == 500
        assert "[-]syncloop failed: reason withheld\n" in body
        assert body.endswith("healthz check failed\n")
        assert await get("/healthz/syncloop") == (
            500,
            "internal server error: sync Loop took longer than expected\n",
        )
        assert (await get("/healthz/device-plugin"))[1].endswith("device registration error: gone\n")

    served(story)


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/", "GET", 200),
        ("/nope", "GET", 404),
        ("/pods", "POST", 405),
        ("/exec/default/p/c", "POST", 405),
        ("/run/default/p/c", "POST", 405),
        ("/logs/", "GET", 405),
        ("/debug/pprof/", "GET", 405),
        ("/containerLogs/default/nope/c", "GET", 404),
        ("/containerLogs/default/p", "GET", 404),
    ],
)
def test_nod_83_what_is_not_served(served, path, method, status):
    async def story(node, get):
        assert (await get(path, method))[0] == status

    served(story, warm_up=False)


def test_log_08_container_logs(served, pod):
    manifest = pod("p", main={})
    manifest["spec"]["containers"][0]["command"] = ["sh", "-c", "echo one; echo two; sleep 20; exit 1"]

    async def story(node, get):
        node.apply(manifest)
        await node.advance(5)
        path = "/containerLogs/default/p/main"
        assert await get(path) == (200, "one\ntwo\n")
        assert await get(path, tailLines="1") == (200, "two\n")
        assert (await get(path, timestamps="true"))[1].startswith("2026-01-01T00:00:")
        assert (await get(path, previous="true"))[0] == 400
        assert (await get(path, tailLines="x"))[0] == 422
        assert await get(path, follow="true") == (200, "one\ntwo\n")  # until the container has ended
        await node.advance(5)
        assert await get(path, previous="true") == (200, "one\ntwo\n")

    served(story)


def test_configz(served):
    async def story(node, get):
        _, body = await get("/configz")
        config = json.loads(body)["kubeletconfig"]
        assert config["kind"] == "KubeletConfiguration"
        assert config["syncFrequency"] == "1m0s"
        assert config["crashLoopBackOff"] == {"maxContainerRestartPeriod": "5m0s"}

    served(story, warm_up=False)


def test_configz_has_the_fields_of_a_real_one():
    real = json.loads((Path(__file__).parent / "data" / "configz_fields.json").read_text())
    ours = configz(KubeletSettings(), http_port=10255)["kubeletconfig"]
    assert set(real) - set(ours) == {"tlsCertFile", "tlsPrivateKeyFile"}
    assert set(ours) <= set(real)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(60, "1m0s"), (20, "20s"), (0.1, "100ms"), (0, "0s"), (14400, "4h0m0s"), (1.5, "1.5s")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_nod_90_metrics(served, pod, widgets):
    manifest = pod("p", init=[("setup", {}, {"script": "true"})], main={"vendor.com/w": 1})
    manifest["spec"]["containers"][0]["command"] = ["sh", "-c", "sleep 3; exit 4"]

    async def story(node, get):
        node.apply(manifest)
        node.apply(pod("refused", main={"vendor.com/w": 5}))
        await node.advance(8)
        _, body = await get("/metrics")
        values = dict(line.rsplit(" ", 1) for line in body.splitlines() if line and not line.startswith("#"))
        assert float(values["kubelet_running_pods"]) == 1
        assert float(values['kubelet_desired_pods{static=""}']) == 2
        assert float(values['kubelet_active_pods{static=""}']) == 1
        assert float(values['kubelet_started_containers_total{container_type="init_container"}']) == 1
        assert float(values['kubelet_started_containers_total{container_type="container"}']) >= 1
        assert float(values["kubelet_started_pods_total"]) == 1
        ended = 'kubelet_terminated_containers_total{container_type="container",exit_code="4",reason="Error"}'
        assert float(values[ended]) >= 1
        refused = 'kubelet_admission_rejections_total{reason="UnexpectedAdmissionError"}'
        assert float(values[refused]) == 1
        assert float(values['kubelet_runtime_operations_total{operation_type="run_podsandbox"}']) == 1
        assert float(values['kubelet_device_plugin_registration_total{resource_name="vendor.com/w"}']) == 1
        assert (
            float(values['kubelet_device_plugin_alloc_duration_seconds_count{resource_name="vendor.com/w"}'])
            == 1
        )
        assert float(values["kubelet_topology_manager_admission_duration_ms_count"]) == 2
        assert float(values["kubelet_containers_per_pod_count_sum"]) == 2
        # The policies are none: nothing is pinned, and there is no pool.
        for name in ("pinning_requests_total", "exclusive_cpu_allocation_count"):
            assert float(values[f"kubelet_cpu_manager_{name}"]) == 0
        assert float(values["kubelet_pod_in_progress_resizes"]) == 0
        in_flight = (
            'kubelet_http_inflight_requests{long_running="false",method="GET",path="metrics",'
            'server_type="readonly"}'
        )
        assert float(values[in_flight]) == 1  # this very request
        assert "_created" not in body
        check_names(body)

    served(story, devices=(widgets("vendor.com/w", a=None),))


def check_names(body):
    """Every family of a real kubelet's that we show too has its type and its labels."""
    real = {}
    for line in NAMES.read_text().splitlines()[1:]:
        name, kind, labels = [*line.split("\t"), "", ""][:3]
        real[name] = (kind, set(filter(None, labels.split(","))))
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", body, re.MULTILINE))
    missing = {name for name in kinds if name not in real}
    # Shown by a kubelet only once there is something to show, so not in the sample.
    assert missing <= {
        "kubelet_admission_rejections_total",
        "kubelet_run_podsandbox_errors_total",
        "kubelet_started_containers_errors_total",
        "kubelet_pod_resources_endpoint_requests_total",
        *(
            f"kubelet_pod_resources_endpoint_{what}_{call}_total"
            for what in ("requests", "errors")
            for call in ("list", "get", "get_allocatable")
        ),
    }
    for name, kind in kinds.items():
        if name in real:
            assert kind == real[name][0], name
    for line in body.splitlines():
        found = re.match(r"(\w+?)(?:_bucket|_sum|_count)?\{(.*)\} ", line)
        if found and found[1] in real:
            labels = set(re.findall(r'(\w+)="', found[2])) - {"le"}
            assert labels == real[found[1]][1], line


def test_prb_42_probe_metrics(served, pod):
    manifest = pod("p", main={})
    manifest["spec"]["containers"][0]["readinessProbe"] = {"exec": {"command": ["true"]}, "periodSeconds": 1}

    async def story(node, get):
        node.apply(manifest)
        await node.advance(10)
        _, body = await get("/metrics/probes")
        assert "# TYPE prober_probe_total counter" in body
        assert re.search(r'prober_probe_total\{.*probe_type="Readiness",result="successful"\} [1-9]', body)

    served(story)


def test_two_nodes_have_registries_of_their_own(served):
    async def story(node, get):
        await node.advance(3)
        other = NodeMetrics(Tallies(), KubeletView(node.kubelet, node.clock).state)
        assert b"kubelet_runtime_operations_total{" not in other.text()
        assert "kubelet_runtime_operations_total{" in (await get("/metrics"))[1]

    served(story)


def test_a_metric_with_too_many_series_folds_the_rest():
    timing = Timing()
    for number in range(10_005):
        timing.observe(0.1, str(number))
    assert len(timing.counts) == 10_001
    assert sum(timing.counts[("",)]) == 5


LEFT_OUT = {
    # No API server's machinery, clients, volumes of storage plugins or work queues of Go's libraries.
    "aggregator_", "apiserver_", "cardinality_", "disabled_metrics_", "hidden_metrics_",
    "registered_metrics_", "rest_client_", "workqueue_", "storage_operation_", "volume_",
    "reconstruct_volume_", "force_cleaned_",
    "kubelet_volume_metric_", "kubelet_image_volume_", "kubelet_orphan_pod_cleaned_",
    # No start of a machine, no shutdown of one, no certificates, no user namespaces, no image pull records.
    "kubelet_node_startup_", "kubelet_graceful_shutdown_", "kubelet_imagemanager_", "kubelet_image_manager_",
    "kubelet_started_user_namespaced_", "kubelet_metrics_provider", "kubelet_cri_losing_support",
    # Service levels and Go's own timings.
    "kubelet_pod_start_sli_", "kubelet_first_network_pod_", "kubelet_pod_worker_", "kubelet_pod_status_sync_",
    "kubelet_pleg_pod_relist_", "kubelet_pod_watch_events_", "kubelet_restarted_pods_", "kubelet_orphaned_",
    "kubelet_sleep_action_", "kubelet_lifecycle_handler_",
    # Counters without _total, which a Prometheus library cannot write.
    "kubelet_pleg_discard_events", "kubelet_evented_pleg_",
}  # fmt: skip


def test_nod_90_what_a_real_kubelet_shows_and_we_do_not(served, pod, widgets):
    """Exactly the families of these groups; a new one in either place has to be sorted in."""
    real = {line.partition("\t")[0] for line in NAMES.read_text().splitlines()[1:]}

    async def story(node, get):
        node.apply(pod("p", main={"vendor.com/w": 1}))
        await node.advance(5)
        return (await get("/metrics"))[1]

    body = served(story, devices=(widgets("vendor.com/w", a=None),))
    shown = set(re.findall(r"^# TYPE (\S+) ", body, re.MULTILINE))
    missing = real - shown
    unsorted = {name for name in missing if not name.startswith(tuple(LEFT_OUT))}
    assert unsorted == set()
    assert {group for group in LEFT_OUT if not any(name.startswith(group) for name in missing)} == set()
    kubelets = {name for name in real if name.startswith(("kubelet_", "dra_"))}
    assert len(kubelets & shown) == 39


def test_dra_operations_are_timed(served, pod):
    from devices.dra import DraSetup

    manifest = pod("p", main={})
    manifest["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "claim"}]
    manifest["spec"]["containers"][0]["resources"] = {"claims": [{"name": "c"}]}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.vendor.com", "count": 1}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "claim", "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }

    async def story(node, get):
        node.apply_object(claim)
        node.apply(manifest)
        await node.advance(5)
        node.delete("p", grace_seconds=1)
        await node.advance(20)
        return (await get("/metrics"))[1]

    body = served(story, drivers=(DraSetup(driver="gpu.vendor.com", devices=("d0",)),))
    for operation in ("PrepareResources", "UnprepareResources"):
        series = f'dra_operations_duration_seconds_count{{is_error="false",operation_name="{operation}"}}'
        assert re.search(rf"^{re.escape(series)} [1-9]", body, re.MULTILINE), operation
