"""What the API server fills in: API-010 to API-023, service quality, sums of requests, strategy."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet_emu.api.codec import pod_from_json, pod_to_json, to_json
from kubelet_emu.api.defaults import default_pod
from kubelet_emu.api.qos import pod_qos, qos_of_spec
from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.resources import pod_limits, pod_requests
from kubelet_emu.api.static_pods import reference_problem
from kubelet_emu.api.strategy import (
    prepare_for_create,
    prepare_for_status_update,
    prepare_for_update,
    warnings_of,
)
from kubelet_emu.api.types import PodStatus
from kubelet_emu.gates import Gates


def spec_of(spec, **options):
    return pod_to_json(default_pod(pod_from_json({"spec": spec}), **options))["spec"]


def container_of(container, kind="containers"):
    return spec_of({"containers": [], kind: [container]})[kind][0]


def test_recorded_pods_are_what_defaulting_makes_of_the_posted_ones_api_025(data):
    for stored in json.loads((data / "pods.json").read_text())["items"]:
        posted = json.loads(
            stored["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
        )
        made = default_pod(pod_from_json(posted))
        assert pod_to_json(made)["spec"] == stored["spec"]
        assert made.status.qos_class == stored["status"]["qosClass"]


def test_pod_fields_api_013():
    made = spec_of({"containers": []}, admitted=False)
    assert made == {
        "containers": None,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    }
    assert (
        spec_of({"containers": [], "terminationGracePeriodSeconds": 0})["terminationGracePeriodSeconds"] == 0
    )
    assert spec_of({"containers": [], "enableServiceLinks": False})["enableServiceLinks"] is False


def test_container_fields_api_014():
    assert container_of({"name": "a", "image": "b"}) == {
        "name": "a",
        "image": "b",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always",
    }
    made = container_of(
        {
            "name": "a",
            "image": "b:1",
            "ports": [{"containerPort": 1}],
            "env": [
                {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "B", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "K"}}},
            ],
            "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
        }
    )
    assert made["ports"] == [{"containerPort": 1, "protocol": "TCP"}]
    assert made["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert made["env"][1]["valueFrom"]["fileKeyRef"]["optional"] is False
    assert made["lifecycle"]["preStop"]["httpGet"] == {"port": 80, "path": "/", "scheme": "HTTP"}
    assert "restartPolicy" not in made


@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
def test_probe_api_016(kind):
    made = container_of(
        {
            "name": "a",
            "livenessProbe": {"httpGet": {"port": 1}, "periodSeconds": 0},
            "startupProbe": {"grpc": {"port": 2}, "failureThreshold": 7},
        },
        kind,
    )
    assert made["livenessProbe"] == {
        "httpGet": {"path": "/", "port": 1, "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert made["startupProbe"]["grpc"] == {"port": 2, "service": ""}
    assert made["startupProbe"]["failureThreshold"] == 7


def test_requests_from_limits_api_011():
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0"}}
    expected = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0", "memory": "1Gi"}}
    assert container_of({"resources": resources})["resources"] == expected
    assert container_of({"resources": resources}, "initContainers")["resources"] == expected
    assert container_of({"resources": resources}, "ephemeralContainers")["resources"] == resources


def test_quantities_are_rounded_up_to_milli_api_018():
    made = spec_of(
        {
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "0.0001", "memory": "1Gi"}}}],
            "overhead": {"cpu": "1.0001"},
        }
    )
    assert made["containers"][0]["resources"]["requests"] == {"cpu": "1m", "memory": "1Gi"}
    assert made["overhead"] == {"cpu": "1001m"}


def test_pod_level_resources_api_012():
    def made(resources, container):
        return spec_of({"containers": [{"resources": container}], "resources": resources})["resources"]

    assert made({"limits": {"cpu": "2"}}, {"requests": {"cpu": "1"}})["requests"] == {"cpu": "1"}
    assert made({"limits": {"cpu": "2"}}, {})["requests"] == {"cpu": "2"}
    assert made({"requests": {"cpu": "2"}}, {}) == {"requests": {"cpu": "2"}}
    assert made({}, {"requests": {"cpu": "1"}}) == {}
    huge = made({"limits": {"cpu": "1"}}, {"limits": {"hugepages-2Mi": "4Mi", "cpu": "1"}})
    assert huge["limits"] == {"cpu": "1", "hugepages-2Mi": "4Mi"}
    assert huge["requests"] == {"cpu": "1", "hugepages-2Mi": "4Mi"}


def test_host_ports_api_013():
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 82}]
    made = spec_of({"hostNetwork": True, "containers": [{"ports": ports}]})
    assert [port.get("hostPort") for port in made["containers"][0]["ports"]] == [80, 82]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({}, {"emptyDir": {}}),
        ({"hostPath": {"path": "/"}}, {"hostPath": {"path": "/", "type": ""}}),
        ({"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 420}}),
        ({"configMap": {"name": "s"}}, {"configMap": {"name": "s", "defaultMode": 420}}),
        (
            {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "p", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}],
                    "defaultMode": 420,
                }
            },
        ),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "projected": {
                    "sources": [{"serviceAccountToken": {"expirationSeconds": 3600, "path": "t"}}],
                    "defaultMode": 420,
                }
            },
        ),
        ({"image": {"reference": "a"}}, {"image": {"reference": "a", "pullPolicy": "Always"}}),
        (
            {"rbd": {"image": "i"}},
            {"rbd": {"image": "i", "pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}},
        ),
        ({"nfs": {"server": "s"}}, {"nfs": {"server": "s"}}),
        (
            {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"ephemeral": {"volumeClaimTemplate": {"spec": {"volumeMode": "Filesystem"}}}},
        ),
    ],
    ids=lambda value: next(iter(value), "none") if isinstance(value, dict) else None,
)
def test_volume_api_017(source, expected):
    made = spec_of({"containers": [], "volumes": [{"name": "v", **source}]})
    assert made["volumes"] == [{"name": "v", **expected}]


def test_tolerations_and_priority_api_022_023():
    made = spec_of({"containers": []})
    assert [t["key"] for t in made["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert (made["priority"], made["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    own = [{"operator": "Exists"}]
    assert spec_of({"containers": [], "tolerations": own})["tolerations"] == own
    one = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]
    assert len(spec_of({"containers": [], "tolerations": one})["tolerations"]) == 2
    assert "tolerations" not in spec_of({"containers": []}, admitted=False)


CPU = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [{}]}, "BestEffort"),
        ({"containers": [{"resources": {"requests": {"cpu": "0"}}}]}, "BestEffort"),
        ({"containers": [{"resources": {"limits": {"example.com/x": "1"}}}]}, "BestEffort"),
        ({"containers": [{"resources": {"limits": CPU}}]}, "Guaranteed"),
        ({"containers": [{"resources": {"limits": CPU}}, {}]}, "Burstable"),
        ({"containers": [{"resources": {"limits": CPU, "requests": {"cpu": "500m"}}}]}, "Burstable"),
        ({"containers": [{"resources": {"limits": {"cpu": "1"}}}]}, "Burstable"),
        ({"containers": [{"resources": {"limits": CPU}}], "initContainers": [{}]}, "Burstable"),
        ({"containers": [{}], "resources": {"limits": CPU}}, "Guaranteed"),
        (
            {"containers": [{"resources": {"limits": CPU}}], "resources": {"limits": {"cpu": "1"}}},
            "Burstable",
        ),
    ],
)
def test_service_quality_sta_905(spec, expected):
    pod = default_pod(pod_from_json({"spec": spec}))
    assert qos_of_spec(pod.spec) == pod_qos(pod) == expected


def test_requests_of_a_pod_count_sidecars_and_the_largest_init_moment():
    def requests(**cpu):
        return {"resources": {"requests": cpu}}

    pod = pod_from_json(
        {
            "spec": {
                "containers": [requests(cpu="1"), requests(cpu="1", memory="1Gi")],
                "initContainers": [
                    requests(cpu="5"),
                    {**requests(cpu="2"), "restartPolicy": "Always"},
                    requests(cpu="4"),
                ],
                "overhead": {"cpu": "100m"},
            }
        }
    )
    assert pod_requests(pod) == {"cpu": Quantity("6100m"), "memory": Quantity("1Gi")}
    assert pod_limits(pod) == {}


def test_strategy_api_030_to_032(a_pod, with_spec):
    pod = a_pod(schedulingGates=[{"name": "a"}])
    made = prepare_for_create(pod, Gates())
    assert made.metadata.generation == 1
    assert made.status.conditions[0].reason == "SchedulingGated"
    assert (made.status.phase, made.status.qos_class) == ("Pending", "BestEffort")
    changed = with_spec(made, active_deadline_seconds=5)
    assert prepare_for_update(changed, made, Gates()).metadata.generation == 2
    assert prepare_for_update(made, made, Gates()).metadata.generation == 1
    written = prepare_for_status_update(with_spec(made, node_name="x"), made)
    assert written.spec == made.spec
    bare = prepare_for_status_update(default_pod(pod_from_json({"status": {"qosClass": ""}})), made)
    assert bare.status.qos_class == "BestEffort"
    assert to_json(PodStatus()) == {}


def test_stop_signal_is_dropped_api_035(a_container):
    pod = a_container(lifecycle={"stopSignal": "SIGTERM"})
    assert prepare_for_create(pod, Gates()).spec.containers[0].lifecycle.stop_signal is None
    kept = prepare_for_create(pod, Gates({"ContainerStopSignals": True}))
    assert kept.spec.containers[0].lifecycle.stop_signal == "SIGTERM"


def test_warnings_api_036(a_pod):
    pod = a_pod(
        meta={"name": "a.b"},
        containers=[
            {
                "name": "m",
                "image": "x",
                "env": [{"name": "A"}, {"name": "A"}],
                "ports": [{"containerPort": 1}, {"containerPort": 1}],
            }
        ],
    )
    assert warnings_of(pod, negative_grace_period=True) == (
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a "
        "DNS label "
        "is recommended: [must not contain dots]",
        "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be "
        "treated as 1",
        'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
        "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
    )
    assert warnings_of(a_pod()) == ()


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({}, ""),
        ({"serviceAccountName": "a"}, "serviceaccounts"),
        ({"imagePullSecrets": [{"name": "a"}]}, "secrets"),
        ({"containers": [{"envFrom": [{"configMapRef": {"name": "a"}}]}]}, "configmaps"),
        ({"containers": [{"env": [{"valueFrom": {"secretKeyRef": {"key": "a"}}}]}]}, "secrets"),
        ({"resourceClaims": [{"name": "a"}]}, "resourceclaims"),
        ({"volumes": [{"configMap": {}}]}, "configmaps (via configmap volumes)"),
        ({"volumes": [{"secret": {}}]}, "secrets (via secret volumes)"),
        ({"volumes": [{"csi": {}}]}, "csidrivers (via CSI volumes)"),
        ({"volumes": [{"persistentVolumeClaim": {}}]}, "persistentvolumeclaims"),
        ({"volumes": [{"ephemeral": {}}]}, "persistentvolumeclaims (via ephemeral volumes)"),
        (
            {"volumes": [{"projected": {"sources": [{"serviceAccountToken": {}}]}}]},
            "serviceaccounts (via projected volumes)",
        ),
        ({"volumes": [{"projected": {"sources": [{"podCertificate": {}}]}}]}, "podcertificates"),
        ({"volumes": [{"emptyDir": {}}, {"hostPath": {}}]}, ""),
    ],
)
def test_static_pods_reference_nothing_api_174(spec, what):
    expected = f"static pods may not reference {what}" if what else ""
    assert reference_problem(pod_from_json({"spec": spec})) == expected


containers = st.fixed_dictionaries(
    {"name": st.sampled_from("ab")},
    optional={
        "image": st.sampled_from(["a", "a:1", "A"]),
        "livenessProbe": st.just({"httpGet": {"port": 1}}),
        "ports": st.just([{"containerPort": 80}]),
        "resources": st.fixed_dictionaries(
            {},
            optional={
                "limits": st.dictionaries(
                    st.sampled_from(["cpu", "memory", "x.y/z"]), st.sampled_from(["1", "0.0001"])
                ),
                "requests": st.dictionaries(
                    st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "1Gi"])
                ),
            },
        ),
    },
)


@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries(
        {"containers": st.lists(containers, max_size=2)},
        optional={
            "hostNetwork": st.booleans(),
            "initContainers": st.lists(containers, max_size=1),
            "volumes": st.just([{"name": "v"}]),
            "resources": st.just({"limits": {"cpu": "1"}}),
            "tolerations": st.just([{"key": "a", "operator": "Exists"}]),
        },
    )
)
def test_defaulting_twice_changes_nothing_api_250(spec):
    once = default_pod(pod_from_json({"metadata": {"name": "a"}, "spec": spec}))
    assert default_pod(once) == once
    assert pod_from_json(pod_to_json(once)) == once
