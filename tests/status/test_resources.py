"""Resources, users and mounts in a status: STA-317, STA-1001 to STA-1006; readiness gates: STA-706."""

import pytest
from attrs import evolve

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import (
    ContainerUser,
    LinuxContainerUser,
    PodCondition,
    PodReadinessGate,
    PodStatus,
    ResourceHealth,
    ResourceRequirements,
    ResourceStatus,
    VolumeMount,
    VolumeMountStatus,
)
from kubelet_emu.gates import Gates
from kubelet_emu.status.container_statuses import ConvertInput, convert_container_statuses
from kubelet_emu.status.generate import StatusInput, generate_status
from kubelet_emu.status.resources import with_pod_resources
from kubelet_emu.status.update import needs_readiness_resync


def amounts(**values):
    return {name: Quantity(text) for name, text in values.items()}


def needs(requests=None, limits=None):
    return ResourceRequirements(requests=amounts(**(requests or {})), limits=amounts(**(limits or {})))


def converted(make, container, record, old=None):
    pod = make.pod(containers=[container])
    given = ConvertInput(
        pod=pod,
        runtime=make.runtime(record),
        reason_cache=lambda *_: None,
        gates=Gates(),
        runtime_name="x",
        restarting_all=False,
    )
    (status,) = convert_container_statuses(
        given, pod.spec.containers, [old] if old else [], kind="regular"
    ).statuses
    return status


WANTED = needs({"cpu": "100m", "memory": "64Mi"}, {"cpu": "1", "memory": "128Mi"})
REPORTED = {
    "cpu_shares": 204,
    "cpu_quota": 50_000,
    "cpu_period": 100_000,
    "memory_limit_in_bytes": 256 * 2**20,
}


def test_sta_1001_spec_values_unless_running(make):
    container = make.container("c", resources=WANTED)
    status = converted(make, container, make.record("c", "exited", resources=REPORTED))
    assert status.allocated_resources == WANTED.requests
    assert status.resources == WANTED


def test_sta_1001_reported_values_of_a_running_one(make):
    container = make.container("c", resources=WANTED)
    status = converted(make, container, make.record("c", resources=REPORTED))
    assert status.resources == needs({"cpu": "200m", "memory": "64Mi"}, {"cpu": "500m", "memory": "256Mi"})
    assert status.allocated_resources == WANTED.requests


def test_sta_1001_only_maps_that_exist(make):
    status = converted(make, make.container("c"), make.record("c", resources=REPORTED))
    assert status.resources == ResourceRequirements()


def test_sta_1001_missing_value_keeps_the_old_report(make):
    container = make.container("c", resources=WANTED)
    old = converted(make, container, make.record("c", resources=REPORTED))
    status = converted(make, container, make.record("c"), old)
    assert status.resources == old.resources
    # Another instance starts from the spec again.
    status = converted(make, container, make.record("c", id="other"), old)
    assert status.resources == WANTED


@pytest.mark.parametrize(
    ("shares", "asked", "shown"),
    [(2, "2m", "2m"), (2, "1m", "1m"), (102, "100m", "100m"), (2, "100m", "2m"), (1024, "1m", "1")],
    ids=lambda value: f"STA-1002-{value}",
)
def test_small_cpu_requests(make, shares, asked, shown):
    container = make.container("c", resources=needs({"cpu": asked}))
    status = converted(make, container, make.record("c", resources={"cpu_shares": shares}))
    assert status.resources.requests["cpu"] == Quantity(shown)


def test_sta_1002_small_cpu_limit(make):
    container = make.container("c", resources=needs({}, {"cpu": "5m"}))
    reported = {"cpu_quota": 1000, "cpu_period": 100_000}
    assert converted(make, container, make.record("c", resources=reported)).resources.limits[
        "cpu"
    ] == Quantity("5m")


def test_sta_1002_just_above_the_smallest_is_as_reported(make):
    container = make.container("c", resources=needs({"cpu": "3m"}, {"cpu": "11m"}))
    reported = {"cpu_shares": 2, "cpu_quota": 1000, "cpu_period": 100_000}
    shown = converted(make, container, make.record("c", resources=reported)).resources
    assert (shown.requests["cpu"], shown.limits["cpu"]) == (Quantity("2m"), Quantity("10m"))


def test_sta_1003_pod_level(make):
    extended = Quantity("2")
    resources = ResourceRequirements(
        requests={**amounts(cpu="100m", memory="64Mi"), "nvidia.com/gpu": extended},
        limits={"nvidia.com/gpu": extended},
    )
    pod = make.pod(containers=[make.container("c", resources=resources)], init=[])
    got = with_pod_resources(pod, PodStatus(), Gates())
    assert got.allocated_resources == resources.requests
    assert got.resources == resources
    # While the API shows Running, the pod's cgroup speaks, and that knows CPU and memory only.
    pod = evolve(pod, status=PodStatus(phase="Running"))
    got = with_pod_resources(pod, PodStatus(), Gates())
    assert got.allocated_resources == resources.requests
    assert got.resources == needs({"cpu": "100m", "memory": "64Mi"})
    off = Gates({"InPlacePodLevelResourcesVerticalScaling": False})
    assert with_pod_resources(pod, PodStatus(), off) == PodStatus()


def test_sta_1003_nothing_asked(make):
    got = with_pod_resources(make.pod(), PodStatus(), Gates())
    assert (dict(got.allocated_resources), got.resources) == ({}, None)


def test_sta_1004_device_health(make):
    health = (ResourceStatus(name="gpu", resources=(ResourceHealth(resource_id="GPU-0", health="Healthy"),)),)
    given = StatusInput(
        pod=make.pod(),
        runtime=make.runtime(),
        gates=Gates(),
        fill_probes=lambda _pod, status: status,
        device_health={"A": health},
    )
    a, b = generate_status(given).status.container_statuses
    assert (a.allocated_resources_status, b.allocated_resources_status) == (health, ())
    off = evolve(given, gates=Gates({"ResourceHealthStatus": False}))
    assert generate_status(off).status.container_statuses[0].allocated_resources_status == ()


def test_sta_1006_user(make):
    user = {"uid": 1000, "gid": 2000, "supplementalGroups": [2000, 3000]}
    status = converted(make, make.container("c"), make.record("c", user=user))
    linux = LinuxContainerUser(uid=1000, gid=2000, supplemental_groups=(2000, 3000))
    assert status.user == ContainerUser(linux=linux)
    assert converted(make, make.container("c"), make.record("c")).user is None


def test_sta_317_mounts_are_made_once(make):
    mounts = (
        VolumeMount(name="v", mount_path="/v"),
        VolumeMount(name="r", mount_path="/r", read_only=True),
    )
    container = make.container("c", volume_mounts=mounts)
    shown = (
        VolumeMountStatus(name="v", mount_path="/v"),
        VolumeMountStatus(name="r", mount_path="/r", read_only=True, recursive_read_only="Disabled"),
    )
    pod = make.pod(containers=[container])
    given = StatusInput(
        pod=pod, runtime=make.runtime(), gates=Gates(), fill_probes=lambda _pod, status: status
    )
    first = generate_status(given).status
    assert first.container_statuses[0].volume_mounts == shown
    later = evolve(given, runtime=make.runtime(make.record("c")), old=first)
    assert generate_status(later).status.container_statuses[0].volume_mounts == shown


class TestReadinessResync:
    def pod(self, make, *conditions, init=(), statuses=None):
        entries = (make.running("c", ready=True),) if statuses is None else statuses
        return make.pod(
            containers=["c"],
            init=init,
            readiness_gates=(PodReadinessGate(condition_type="gate"),),
            status=PodStatus(phase="Running", conditions=conditions, container_statuses=entries),
        )

    ready = PodCondition(type="Ready", status="True")
    open_gate = PodCondition(type="gate", status="True")

    def test_sta_706_nothing_changed(self, make):
        assert not needs_readiness_resync(self.pod(make, self.ready, self.open_gate))

    def test_sta_706_gate_closed(self, make):
        assert needs_readiness_resync(self.pod(make, self.ready, evolve(self.open_gate, status="False")))

    def test_sta_706_no_ready_condition_or_no_gates(self, make):
        assert not needs_readiness_resync(self.pod(make, self.open_gate))
        assert not needs_readiness_resync(make.pod(status=PodStatus(conditions=(self.ready,))))

    def test_sta_706_sidecars_are_unknown_here(self, make):
        pod = self.pod(make, self.ready, self.open_gate, init=[make.sidecar("s")])
        assert needs_readiness_resync(pod)
