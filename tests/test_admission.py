"""Admission: order, reasons and texts (POD-401 to POD-411, NOD-30 to NOD-40, NOD-53)."""

import pytest
from attrs import evolve

from kubelet_emu.admission import (
    AdmissionInput,
    Refusal,
    after_allocation,
    allocation_refused,
    before_allocation,
    metric_reason,
    needed_features,
    rejected_status,
)
from kubelet_emu.api.codec import from_json, pod_from_json
from kubelet_emu.api.types import Node, PodStatus
from kubelet_emu.gates import Gates
from kubelet_emu.preemption import preempted_status

NODE = from_json(
    Node,
    {
        "metadata": {"name": "n", "labels": {"kubernetes.io/os": "linux", "zone": "a", "cpus": "8"}},
        "status": {
            "allocatable": {"cpu": "2", "memory": "1Gi", "pods": "4", "nvidia.com/gpu": "2"},
            "declaredFeatures": ["RestartAllContainersOnContainerExits"],
        },
    },
)


def pod(name="p", *, requests=None, limits=None, metadata=None, containers=None, status=None, **spec):
    resources = {"requests": requests or {}, "limits": limits or {}}
    return pod_from_json(
        {
            "metadata": {"name": name, "namespace": "ns", "uid": name, **(metadata or {})},
            "spec": {"containers": containers or [{"name": "c", "resources": resources}], **spec},
            "status": status or {},
        }
    )


def verdict(a_pod, *others, node=NODE, **given):
    return after_allocation(AdmissionInput(pod=a_pod, others=others, node=node, **given))


def early(a_pod, **given):
    return before_allocation(AdmissionInput(pod=a_pod, node=NODE, **given))


def text(admission):
    return (admission.refusal.reason, admission.refusal.message) if admission.refusal else None


STATIC = {"annotations": {"kubernetes.io/config.source": "file"}}
CRITICAL = {"priority": 2_000_000_000}
TOLERATES_PRESSURE = [
    {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}
]


@pytest.mark.parametrize(
    ("a_pod", "pressures", "message"),
    [
        (pod(), [], None),
        (pod(), ["MemoryPressure"], "The node had condition: [MemoryPressure]. "),
        (pod(requests={"cpu": "1"}), ["MemoryPressure"], None),
        (pod(tolerations=TOLERATES_PRESSURE), ["MemoryPressure"], None),
        (pod(requests={"cpu": "1"}), ["DiskPressure"], "The node had condition: [DiskPressure]. "),
        (
            pod(requests={"cpu": "1"}),
            ["MemoryPressure", "DiskPressure"],
            "The node had condition: [MemoryPressure DiskPressure]. ",
        ),
        (pod(metadata=STATIC), ["DiskPressure"], None),
        (pod(**CRITICAL), ["DiskPressure"], None),
    ],
    ids=[f"POD-406-{number}" for number in range(8)],
)
def test_eviction(a_pod, pressures, message):
    assert text(early(a_pod, pressures=pressures)) == (("Evicted", message) if message else None)


@pytest.mark.parametrize(
    ("name", "spec", "allowed", "problem"),
    [
        ("net.ipv4.tcp_syncookies", {}, (), ""),
        ("net/ipv4/tcp_syncookies", {}, (), ""),
        ("kernel.msgmax", {}, (), '"kernel.msgmax" not allowlisted'),
        ("kernel.msgmax", {}, ("kernel.msg*",), ""),
        (
            "kernel.msgmax",
            {"hostIPC": True},
            ("kernel.msg*",),
            '"kernel.msgmax" not allowed with host IPC enabled',
        ),
        (
            "net.ipv4.tcp_syncookies",
            {"hostNetwork": True},
            (),
            '"net.ipv4.tcp_syncookies" not allowed with host Net enabled',
        ),
    ],
)
def test_sysctls(name, spec, allowed, problem):
    a_pod = pod(securityContext={"sysctls": [{"name": name, "value": "1"}]}, **spec)
    expected = ("SysctlForbidden", f"forbidden sysctl: {problem}") if problem else None
    assert text(early(a_pod, allowed_sysctls=allowed)) == expected


def test_allocation():
    assert allocation_refused("no devices") == Refusal(
        "UnexpectedAdmissionError", "Allocate failed due to no devices, which is unexpected"
    )
    assert allocation_refused("", topology=True) == Refusal(
        "TopologyAffinityError", "Resources cannot be allocated with Topology locality"
    )
    assert allocation_refused("empty", reason="EmptyPodSharedPoolError") == Refusal(
        "EmptyPodSharedPoolError", "empty"
    )


def short(resource, requested, used, capacity):
    message = (
        f"Node didn't have enough resource: {resource}, "
        f"requested: {requested}, used: {used}, capacity: {capacity}"
    )
    return (f"OutOf{resource}", message)


BUSY = pod("busy", requests={"cpu": "1500m", "memory": "512Mi", "nvidia.com/gpu": "1"})
PORT = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]
OTHER_PORT = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}]}]
UDP = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "UDP"}]}]


@pytest.mark.parametrize(
    ("a_pod", "others", "expected"),
    [
        (pod(), (BUSY,), None),
        (pod(requests={"cpu": "500m"}), (BUSY,), None),
        (pod(requests={"cpu": "501m"}), (BUSY,), short("cpu", 501, 1500, 2000)),
        (pod(requests={"memory": "1Gi"}), (BUSY,), short("memory", 2**30, 2**29, 2**30)),
        (pod(requests={"cpu": "3", "memory": "3Gi"}), (), short("cpu", 3000, 0, 2000)),
        (pod(requests={"ephemeral-storage": "1"}), (), short("ephemeral-storage", 1, 0, 0)),
        (pod(), (pod("1"), pod("2"), pod("3"), pod("4")), short("pods", 1, 4, 4)),
        (pod(requests={"nvidia.com/gpu": "2"}), (BUSY,), short("nvidia.com/gpu", 2, 1, 2)),
        (pod(requests={"example.com/unknown": "2"}), (), None),
        (pod(requests={"hugepages-2Mi": "2Mi"}), (), short("hugepages-2Mi", 2**21, 0, 0)),
        (pod(nodeName="n"), (), None),
        (
            pod(nodeName="m"),
            (),
            ("NodeName", "Predicate NodeName failed: node(s) didn't match the requested node name"),
        ),
        (
            pod(containers=PORT),
            (pod("x", containers=OTHER_PORT),),
            (
                "NodePorts",
                "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
            ),
        ),
        (pod(containers=PORT), (pod("x", containers=UDP),), None),
    ],
)
def test_POD_402_predicates(a_pod, others, expected):
    assert text(verdict(a_pod, *others)) == expected


def affinity(*expressions, key="matchExpressions"):
    terms = [{key: list(expressions)}] if expressions else []
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def expression(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("spec", "matches"),
    [
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        (affinity(expression("zone", "In", "a", "b")), True),
        (affinity(expression("zone", "NotIn", "a")), False),
        (affinity(expression("none", "NotIn", "a")), True),
        (affinity(expression("zone", "Exists")), True),
        (affinity(expression("zone", "DoesNotExist")), False),
        (affinity(expression("cpus", "Gt", "4")), True),
        (affinity(expression("cpus", "Lt", "4")), False),
        (affinity(expression("zone", "Gt", "4")), False),
        (affinity(expression("zone", "Like", "a")), False),
        (affinity(expression("metadata.name", "In", "n"), key="matchFields"), True),
        (affinity(), False),
        ({"affinity": {"podAffinity": {}}}, True),
    ],
)
def test_POD_403_affinity_is_checked_again_on_a_fresh_node(spec, matches):
    first = verdict(pod(**spec))
    assert (first.refusal, first.refetch_node) == (None, not matches)
    message = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    assert text(verdict(pod(**spec), node_is_fresh=True)) == (None if matches else ("NodeAffinity", message))


def test_POD_403_affinity_with_another_failure_is_not():
    found = verdict(pod(requests={"cpu": "9"}, nodeSelector={"zone": "b"}))
    assert not found.refetch_node
    assert found.refusal.reason == "OutOfcpu"


@pytest.mark.parametrize(
    ("effect", "tolerations", "metadata", "refused"),
    [
        ("NoExecute", [], {}, True),
        ("NoSchedule", [], {}, False),
        ("NoExecute", [], STATIC, False),
        ("NoExecute", [{"operator": "Exists"}], {}, False),
        ("NoExecute", [{"key": "k", "value": "v"}], {}, False),
        ("NoExecute", [{"key": "k", "value": "w"}], {}, True),
        ("NoExecute", [{"key": "j", "operator": "Exists"}], {}, True),
        ("NoExecute", [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}], {}, True),
    ],
)
def test_taints(effect, tolerations, metadata, refused):
    taints = [{"key": "k", "value": "v", "effect": effect}]
    node = evolve(NODE, spec=from_json(type(NODE.spec), {"taints": taints}))
    found = verdict(pod(tolerations=tolerations, metadata=metadata), node=node)
    message = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
    assert text(found) == (("TaintToleration", message) if refused else None)


STRICT = {"securityContext": {"supplementalGroupsPolicy": "Strict"}}
OS_LABEL = {"labels": {"kubernetes.io/os": "windows"}}


@pytest.mark.parametrize(
    ("a_pod", "given", "expected"),
    [
        (pod(), {"node": None}, ("InvalidNodeInfo", "Kubelet cannot get node info.")),
        (
            pod(metadata=OS_LABEL),
            {},
            (
                "PodOSSelectorNodeLabelDoesNotMatch",
                "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
            ),
        ),
        (
            pod(os={"name": "windows"}),
            {},
            ("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"),
        ),
        (
            pod(**STRICT),
            {},
            (
                "SupplementalGroupsPolicyNotSupported",
                "SupplementalGroupsPolicy=Strict is not supported in this node",
            ),
        ),
        (
            pod(),
            {"plugin_error": "x"},
            ("UnexpectedAdmissionError", "Update plugin resources failed due to x, which is unexpected."),
        ),
        (pod(), {"apparmor_error": "x"}, ("AppArmor", "Cannot enforce AppArmor: x")),
        (pod(status={"phase": "Running"}), {"apparmor_error": "x"}, None),
        (pod(), {"shutting_down": True}, ("NodeShutdown", "Pod was rejected as the node is shutting down.")),
        (pod(), {}, None),
    ],
)
def test_POD_401_other_handlers(a_pod, given, expected):
    assert text(verdict(a_pod, **given)) == expected


RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
WITH_RULE = {"name": "c", "restartPolicy": "Never", "restartPolicyRules": [RULE]}


def test_RST_009_declared_features():
    a_pod = pod(containers=[WITH_RULE])
    assert needed_features(a_pod) == ("RestartAllContainersOnContainerExits",)
    assert text(verdict(a_pod)) is None
    bare = evolve(NODE, status=evolve(NODE.status, declared_features=()))
    assert text(verdict(a_pod, node=bare)) == (
        "PodFeatureUnsupported",
        "Pod requires node features that are not available: RestartAllContainersOnContainerExits",
    )
    init = pod(initContainers=[{**WITH_RULE, "name": "i"}], hostNetwork=True, hostUsers=False)
    assert needed_features(init) == (
        "RestartAllContainersOnContainerExits",
        "UserNamespacesHostNetworkSupport",
    )
    gates = Gates({"NodeDeclaredFeatures": False, "RestartAllContainersOnContainerExits": False})
    assert text(verdict(a_pod, node=bare, gates=gates)) is None


def guaranteed(name, cpu, memory="10Mi", **spec):
    amounts = {"cpu": cpu, "memory": memory}
    return pod(name, requests=amounts, limits=amounts, **spec)


def burstable(name, cpu, **spec):
    return pod(name, requests={"cpu": cpu}, **spec)


@pytest.mark.parametrize(
    ("a_pod", "others", "killed"),
    [
        (burstable("c", "1", **CRITICAL), (), []),
        (burstable("c", "1", **CRITICAL), (burstable("b", "1500m"),), ["b"]),
        (burstable("c", "1", **CRITICAL), (guaranteed("g", "1"), burstable("b", "1")), ["b"]),
        (burstable("c", "2", **CRITICAL), (guaranteed("g", "1"), burstable("b", "1")), ["b", "g"]),
        (
            burstable("c", "1", **CRITICAL),
            (burstable("big", "1400m"), burstable("small", "500m"), burstable("tiny", "100m")),
            ["big"],
        ),
        (pod("c", metadata=STATIC), (pod("1"), pod("2"), burstable("3", "1"), pod("4")), ["4"]),
        (burstable("c", "1", priority=2_000_000_001), (burstable("b", "2", **CRITICAL),), ["b"]),
    ],
)
def test_NOD_39_victims(a_pod, others, killed):
    found = verdict(a_pod, *others)
    assert found.refusal is None
    assert [victim.metadata.name for victim in found.victims] == killed


def test_POD_404_nobody_to_kill_and_other_failures():
    found = verdict(burstable("c", "100m", **CRITICAL), burstable("b", "2", **CRITICAL))
    assert text(found) == (
        "UnexpectedAdmissionError",
        "Unexpected error while attempting to recover from admission failure: preemption: "
        "error finding a set of pods to preempt: no set of running pods found to reclaim resources: "
        "[(res: cpu, q: 100), ]",
    )
    found = verdict(burstable("c", "1", nodeName="m", **CRITICAL), burstable("b", "2"))
    assert found.refusal.reason == "NodeName"


def test_POD_405_status_of_a_victim():
    status = preempted_status(PodStatus(phase="Running"), 7)
    assert (status.phase, status.reason, status.message) == (
        "Failed",
        "Preempting",
        "Preempted in order to admit critical pod",
    )
    condition = status.conditions[0]
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        "DisruptionTarget",
        "True",
        "TerminationByKubelet",
        "Pod was preempted by Kubelet to accommodate a critical pod.",
    )


def test_POD_407_status_of_a_rejected_pod():
    given = pod(requests={"cpu": "1"}, status={"phase": "Running", "podIP": "10.0.0.1"})
    assert rejected_status(given, Refusal("NodePorts", "text")) == PodStatus(
        phase="Failed", reason="NodePorts", message="Pod was rejected: text", qos_class="Burstable"
    )


@pytest.mark.parametrize(
    ("reason", "label"),
    [
        ("OutOfcpu", "OutOfcpu"),
        ("OutOfnvidia.com/gpu", "OutOfExtendedResources"),
        ("NodeAffinity", "Other"),
        ("EmptyPodSharedPoolError", "Other"),
        ("Evicted", "Evicted"),
    ],
    ids=lambda value: f"POD-411-{value}",
)
def test_metric(reason, label):
    assert metric_reason(reason) == label
