"""KubeletConfiguration files: what is taken over, what is let pass, what is refused and where."""

import pytest

from kubelet_emu.config.kubelet_configuration import settings_from_text, without_effect
from kubelet_emu.config.kubelet_fields import FIELDS, WITHOUT_EFFECT
from kubelet_emu.errors import CallerError
from kubelet_emu.settings import KubeletSettings

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def read(text):
    return settings_from_text(HEAD + text, file="kubelet.yaml")


def problems(text, *, head=HEAD):
    with pytest.raises(CallerError) as raised:
        settings_from_text(head + text, file="kubelet.yaml")
    return [str(problem) for problem in raised.value.problems]


def test_nothing_said_is_the_default():
    assert read("") == KubeletSettings()


@pytest.mark.parametrize(
    ("text", "setting", "value"),
    [
        ("syncFrequency: 1m30s", "sync_frequency_seconds", 90.0),
        ("syncFrequency: 0s", "sync_frequency_seconds", 60.0),
        ("fileCheckFrequency: 5s", "file_check_frequency_seconds", 5.0),
        ("maxPods: 20", "max_pods", 20),
        ("staticPodPath: /etc/kubernetes/manifests", "static_pod_path", "/etc/kubernetes/manifests"),
        ("clusterDNS: [10.96.0.10, 10.96.0.11]", "cluster_dns", ("10.96.0.10", "10.96.0.11")),
        ("containerLogMaxSize: 1Mi", "container_log_max_size_bytes", 1024 * 1024),
        ("seccompDefault: true", "seccomp_default", True),
        ("topologyManagerPolicy: restricted", "topology_manager_policy", "restricted"),
        ("topologyManagerPolicy: ''", "topology_manager_policy", "none"),
        (
            "cpuManagerPolicyOptions: {full-pcpus-only: 'true'}",
            "cpu_manager_policy_options",
            {"full-pcpus-only": "true"},
        ),
        ("systemReserved: {cpu: 500m, memory: 1Gi}\nkubeReserved: {cpu: '1'}", "reserved_cpu", "1500m"),
        ("reservedMemory: [{numaNode: 1, limits: {memory: 1Gi}}]", "reserved_memory", {1: {"memory": "1Gi"}}),
        ("registryPullQPS: 0", "registry_qps", 0),
        ("crashLoopBackOff: {maxContainerRestartPeriod: 20s}", "crash_loop_backoff_max_seconds", 20.0),
        ("serializeImagePulls: false\nmaxParallelImagePulls: 3", "max_parallel_image_pulls", 3),
        ("maxParallelImagePulls: 3", "serialize_image_pulls", False),
    ],
)
def test_a_field_that_matters_becomes_a_setting(text, setting, value):
    assert getattr(read(text), setting) == value


def test_gates_are_taken_over():
    settings = read("featureGates: {RestartAllContainersOnContainerExits: false}")
    assert not settings.gates.restart_all


def test_a_real_nodes_file_passes():
    text = (
        "authentication: {anonymous: {enabled: false}}\ncgroupDriver: systemd\nclusterDomain: cluster.local\n"
        "evictionHard: {memory.available: 100Mi}\nrotateCertificates: true\nlogging: {verbosity: 0}\n"
        "nodeStatusReportFrequency: 0s\nmemorySwap: {}\nvolumeStatsAggPeriod: 0s\n"
    )
    assert read(text) == KubeletSettings()
    assert "evictionHard" in without_effect(HEAD + text)
    assert "clusterDomain" not in without_effect(HEAD + text)


def test_no_field_is_both_heeded_and_ignored():
    assert not set(FIELDS) & WITHOUT_EFFECT
    known = set(KubeletSettings.__slots__)
    assert {field.setting for field in FIELDS.values()} <= known


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("maxPod: 3", 'kubelet.yaml:3: maxPod: unknown field "maxPod" (did you mean "maxPods"?)'),
        ("maxPods: many", "kubelet.yaml:3: maxPods: 'many' is not a whole number"),
        ("maxPods: true", "True is not a whole number"),
        ("maxPods: -4", "too small"),
        ("syncFrequency: 10", "10 is not a duration such as 10s"),
        ("seccompDefault: maybe", "is not true or false"),
        ("clusterDNS: 10.96.0.10", "is not a list of texts"),
        ("containerLogMaxSize: big", "containerLogMaxSize"),
        ("featureGates: {NoSuch: true}", 'unknown feature gate "NoSuch"'),
        ("featureGates: {EventedPLEG: maybe}", "is not true or false"),
        ("featureGates: [EventedPLEG]", "must be a mapping"),
        ("featureGates: {SidecarContainers: false}", "locked"),
        ("crashLoopBackOff: {maxContainerRestartPeriod: 10m}", "must be between 1s and 300s"),
        ("topologyManagerScope: node", "is not one of container, pod"),
        ("kubeReserved: {cpu: lots}", "kubeReserved.cpu: quantities must match"),
        ("kubeReserved: 1", "kubeReserved: must be a mapping"),
        ("reservedMemory: {memory: 1Gi}", "must be a list"),
        ("reservedMemory: [{numaNode: a}]", "is no NUMA node"),
        ("crashLoopBackOff: {max: 10s}", "there is maxContainerRestartPeriod"),
        ("crashLoopBackOff: 10s", "must be a mapping"),
        (
            "serializeImagePulls: true\nmaxParallelImagePulls: 3",
            "cannot be larger than 1 unless serializeImagePulls is false",
        ),
        ("maxPods: 3\nmaxPods: 4", "duplicate"),
        ("---\n" + HEAD, "more than one document"),
    ],
)
def test_a_mistake_is_told_with_its_place(text, part):
    assert any(part in problem for problem in problems(text)), problems(text)


def test_all_mistakes_are_told_at_once():
    assert len(problems("maxPods: x\nsyncFrequency: y\nnope: 1\n")) == 3


@pytest.mark.parametrize(
    ("head", "part"),
    [
        ("", "the file is empty"),
        (
            "kind: KubeletConfiguration\n",
            "apiVersion is missing (write apiVersion: kubelet.config.k8s.io/v1beta1)",
        ),
        ("apiVersion: v1\nkind: Pod\n", "kind 'Pod' is not supported (write kind: KubeletConfiguration)"),
        ("- a\n", "not a KubeletConfiguration"),
    ],
)
def test_another_kind_is_refused(head, part):
    assert any(part in problem for problem in problems("", head=head))
