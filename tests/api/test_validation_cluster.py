"""Validation of nodes, events, leases, config maps and secrets: API-210 to API-212."""

import pytest
from attrs import evolve

from kubelet_emu.api import types
from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.validation.cluster import (
    validate_config_map,
    validate_event,
    validate_lease,
    validate_lease_update,
    validate_node,
    validate_node_update,
    validate_secret,
)

META = types.ObjectMeta(name="a", namespace="default", resource_version="1")
NODE = types.Node(metadata=types.ObjectMeta(name="node-1", resource_version="1"))


def test_node_api_210(texts):
    assert validate_node(NODE) == ()
    taint = types.Taint(key="a/b", effect="NoSchedule")
    amounts = {"cpu": Quantity("-1"), "x.y/z": Quantity("0.5")}
    node = evolve(
        NODE,
        spec=types.NodeSpec(taints=(taint, taint, types.Taint(key="a"), types.Taint(key="a", effect="x"))),
        status=types.NodeStatus(capacity=amounts),
    )
    found = texts(validate_node(node))
    assert found[0].startswith("spec.taints[1]: Duplicate value: ")
    assert found[1:] == [
        "spec.taints[2].effect: Required value",
        'spec.taints[3].effect: Unsupported value: "x": supported values: "NoSchedule", "PreferNoSchedule", '
        '"NoExecute"',
        'status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
        'status.capacity.x.y/z: Invalid value: "500m": must be an integer',
    ]
    namespaced = evolve(NODE, metadata=META)
    assert texts(validate_node(namespaced)) == ["metadata.namespace: Forbidden: not allowed on this type"]


def test_node_update_api_210():
    address = types.NodeAddress(type="InternalIP", address="1.1.1.1")
    old = evolve(NODE, spec=types.NodeSpec(pod_cidrs=("10.0.0.0/24",), provider_id="x"))
    assert validate_node_update(old, old) == ()
    assert validate_node_update(old, NODE) == ()
    new = evolve(NODE, status=types.NodeStatus(addresses=(address, address)))
    assert [error.path for error in validate_node_update(new, old)] == [
        "status.addresses[1]",
        "spec.podCIDRs",
        "spec.providerID",
    ]


@pytest.mark.parametrize(
    ("own", "about", "good"),
    [("default", "", True), ("", "", True), ("kube-system", "", False), ("n", "n", True), ("n", "m", False)],
)
def test_event_namespace_api_211(texts, own, about, good):
    event = types.Event(
        metadata=types.ObjectMeta(name="e", namespace=own),
        involved_object=types.ObjectReference(namespace=about),
    )
    text = f'involvedObject.namespace: Invalid value: "{about}": does not match event.namespace'
    assert texts(validate_event(event)) == ([] if good else [text])


def test_event_with_a_time_api_211(texts):
    event = types.Event(
        event_time=1, reporting_component="a b", reason="x" * 129, message="x" * 1025, action="y"
    )
    found = texts(validate_event(event))
    assert found[0].startswith('reportingComponent: Invalid value: "a b": name part must consist of')
    assert found[1:] == [
        "reportingInstance: Required value",
        'reason: Invalid value: "": can have at most 128 characters',
        'message: Invalid value: "": can have at most 1024 characters',
    ]
    assert texts(validate_event(types.Event(event_time=1)))[0] == "reportingComponent: Required value"


def test_lease_api_212(texts):
    spec = types.LeaseSpec(lease_duration_seconds=0, lease_transitions=-1)
    lease = types.Lease(metadata=META, spec=spec)
    expected = [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
    ]
    assert texts(validate_lease(lease)) == expected
    old = types.Lease(metadata=META)
    assert texts(validate_lease_update(lease, old)) == expected
    bare = evolve(old, metadata=evolve(META, resource_version=None))
    assert texts(validate_lease_update(bare, old)) == [
        "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    ]


def test_config_maps_and_secrets(texts):
    good = types.ConfigMap(metadata=META, data={"a": "b"}, binary_data={"c": "aGk="})
    assert validate_config_map(good) == ()
    both = evolve(good, binary_data={"a": ""}, data={"a": "", "b/c": ""})
    found = texts(validate_config_map(both))
    assert found[0].startswith('data[b/c]: Invalid value: "b/c": a valid config key must consist of')
    assert found[1] == 'data[a]: Invalid value: "a": duplicate of key present in binaryData'
    large = types.Secret(metadata=META, string_data={"a": "x" * (1024 * 1024 + 1)})
    assert texts(validate_secret(large)) == ["data: Too long: may not be more than 1048576 bytes"]
