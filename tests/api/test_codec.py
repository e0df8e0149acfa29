"""Reading and writing JSON: recorded objects round trip exactly (API-250), errors carry a path (API-183)."""

import copy
import json
import pickle

import pytest
import yaml
from attrs import evolve, fields
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet_emu.api import types
from kubelet_emu.api.codec import (
    DecodeError,
    from_json,
    pod_from_json,
    pod_to_json,
    status_from_json,
    status_to_json,
    to_json,
)
from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.schema import Kind, Shape, plan_of
from kubelet_emu.api.types.base import EMPTY, ApiObject


class _Stamps(yaml.CSafeLoader):
    """Leaves times as texts, as the API's own YAML does."""


_Stamps.yaml_implicit_resolvers = {
    key: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
    for key, pairs in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def test_pods_of_a_kubelet_round_trip_to_the_byte(data):
    for item in json.loads((data / "pods.json").read_text())["items"]:
        written = pod_to_json(evolve(pod_from_json(item), kind="", api_version=""))
        assert json.dumps(written) == json.dumps(item)


def test_a_pod_of_kubectl_round_trips(data):
    obj = yaml.load((data / "get-ml-worker.yaml").read_text(), _Stamps)
    pod = pod_from_json(obj)
    assert pod_to_json(pod) == obj
    assert status_to_json(status_from_json(obj["status"])) == obj["status"]
    assert pod.status.pod_ip == "10.88.0.27"
    assert pod.spec.init_containers[1].restart_policy_rules[0].exit_codes.values == (88,)
    terminated = pod.status.container_statuses[0].last_state.terminated
    assert (terminated.exit_code, terminated.finished_at) == (137, None)
    assert pod.status.start_time == 1_796_069_002 * 10**9


def test_what_is_always_written_and_what_is_left_out():
    assert to_json(types.ContainerStatus(name="a")) == {
        "name": "a",
        "state": {},
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "image": "",
        "imageID": "",
    }
    assert to_json(types.PodCondition(type="Ready", status="True")) == {
        "type": "Ready",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": None,
    }
    assert to_json(types.Container(name="a", image="b")) == {"name": "a", "image": "b", "resources": {}}
    assert to_json(types.Pod()) == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {},
        "spec": {"containers": None},
        "status": {},
    }
    assert to_json(types.ResourceFieldSelector(resource="limits.cpu")) == {
        "resource": "limits.cpu",
        "divisor": "0",
    }
    assert to_json(types.EnvVar(name="A", value="")) == {"name": "A"}
    assert to_json(types.HostPathVolumeSource(path="/", type="")) == {"path": "/", "type": ""}
    event = to_json(types.Event(event_time=1_500))
    assert event["eventTime"] == "1970-01-01T00:00:00.000001Z"
    assert event["firstTimestamp"] is None
    lease = types.LeaseSpec(renew_time=1_767_323_045 * 10**9)
    assert to_json(lease) == {"renewTime": "2026-01-02T03:04:05.000000Z"}
    assert to_json(types.DaemonEndpoint(port=10250)) == {"Port": 10250}


def test_absent_null_and_zero_are_equal_where_the_api_says_so_api_203():
    plain = from_json(types.EnvVar, {"name": "A"})
    assert from_json(types.EnvVar, {"name": "A", "value": ""}) == plain
    assert from_json(types.EnvVar, {"name": "A", "value": None}) == plain
    assert from_json(types.Container, {"restartPolicy": ""}).restart_policy == ""
    assert from_json(types.Container, {"restartPolicy": None}).restart_policy is None
    assert from_json(types.Container, {"command": None, "ports": []}) == types.Container()
    assert from_json(types.SecurityContext, {"privileged": False}).privileged is False


def test_creation_timestamp_null_is_accepted_and_not_written_api_008():
    meta = from_json(types.ObjectMeta, {"name": "a", "creationTimestamp": None})
    assert to_json(meta) == {"name": "a"}


def test_unknown_fields_are_carried_through():
    obj = {"name": "v", "nfs": {"server": "s", "path": "/"}, "newField": [1]}
    volume = from_json(types.Volume, obj)
    assert volume.extra == {"nfs": {"server": "s", "path": "/"}, "newField": [1]}
    assert to_json(volume) == obj


def test_service_account_alias_api_005_and_grace_api_006():
    pod = pod_from_json({"spec": {"serviceAccount": "a", "terminationGracePeriodSeconds": -5}})
    assert (pod.spec.service_account_name, pod.spec.service_account) == ("a", "a")
    assert pod.spec.termination_grace_period_seconds == 1
    pod = pod_from_json({"spec": {"serviceAccount": "a", "serviceAccountName": "b"}})
    assert pod_to_json(pod)["spec"]["serviceAccount"] == "b"
    assert (
        pod_from_json({"spec": {"terminationGracePeriodSeconds": 0}}).spec.termination_grace_period_seconds
        == 0
    )


@pytest.mark.parametrize(
    ("container", "path", "message"),
    [
        pytest.param(
            {"restartPolicyRules": "x"},
            "restartPolicyRules",
            "json: cannot unmarshal string into Go struct field "
            "Container.spec.containers.restartPolicyRules of "
            "type []v1.ContainerRestartRule",
            id="API-183",
        ),
        pytest.param(
            {"restartPolicyRules": [{"exitCodes": {"values": ["42"]}}]},
            "restartPolicyRules[0].exitCodes.values[0]",
            "json: cannot unmarshal string into Go struct field "
            "ContainerRestartRuleOnExitCodes.spec.containers.restartPolicyRules.exitCodes.values of "
            "type int32",
            id="API-104-text",
        ),
        pytest.param(
            {"restartPolicyRules": [{"exitCodes": {"values": [2147483648]}}]},
            "restartPolicyRules[0].exitCodes.values[0]",
            "json: cannot unmarshal number 2147483648 into Go struct field "
            "ContainerRestartRuleOnExitCodes.spec.containers.restartPolicyRules.exitCodes.values of "
            "type int32",
            id="API-104-range",
        ),
        pytest.param(
            {"env": [{"name": "A", "value": 1}]},
            "env[0].value",
            "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of "
            "type string",
            id="API-185",
        ),
        pytest.param(
            {"resources": {"limits": {"cpu": "x"}}},
            "resources.limits[cpu]",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="API-191",
        ),
        pytest.param(
            {"livenessProbe": {"httpGet": {"port": 1.5}}},
            "livenessProbe.httpGet.port",
            "json: cannot unmarshal number 1.5 into Go struct field "
            "HTTPGetAction.spec.containers.livenessProbe.httpGet.port of type int32",
            id="API-200",
        ),
        pytest.param(
            {"tty": "yes"},
            "tty",
            "json: cannot unmarshal string into Go struct field Container.spec.containers.tty of type bool",
            id="bool",
        ),
        pytest.param(
            {"resources": {"limits": [1]}},
            "resources.limits",
            "json: cannot unmarshal array into Go struct field "
            "ResourceRequirements.spec.containers.resources.limits"
            " of type map[string]resource.Quantity",
            id="map",
        ),
    ],
)
def test_wrong_types_are_errors_with_a_path(container, path, message):
    with pytest.raises(DecodeError) as caught:
        pod_from_json({"spec": {"containers": [{"name": "a"}, container]}})
    (problem,) = caught.value.problems
    assert problem.path == f"spec.containers[1].{path}"
    assert problem.message == message


@pytest.mark.parametrize(
    "obj", [None, [], "x", 1, {"spec": []}, {"status": {"startTime": "x"}}, {"metadata": 1}]
)
def test_anything_else_is_refused(obj):
    with pytest.raises(DecodeError):
        pod_from_json(obj)


def test_values_are_frozen_equal_and_hashable():
    pod = types.Pod(metadata=types.ObjectMeta(name="a", labels={"x": "y"}))
    assert pod == copy.deepcopy(pod) == pickle.loads(pickle.dumps(pod))
    assert hash(pod) == hash(copy.deepcopy(pod))
    assert pod != types.Pod()
    assert pod != "pod"
    assert "labels={'x': 'y'}" in repr(pod)
    with pytest.raises(AttributeError):
        pod.kind = "x"
    with pytest.raises(TypeError):
        EMPTY["a"] = 1
    container = types.EphemeralContainer(name="a", target_container_name="b")
    assert isinstance(container, types.Container)
    assert container != types.Container(name="a")


def _all_classes():
    return sorted(
        (
            c
            for c in vars(types).values()
            if isinstance(c, type) and issubclass(c, ApiObject) and c is not ApiObject
        ),
        key=lambda c: c.__name__,
    )


@pytest.mark.parametrize("cls", _all_classes(), ids=lambda cls: cls.__name__)
def test_every_class_has_a_plan_and_an_extra_field(cls):
    plan = plan_of(cls)
    assert {f.name for f in fields(cls)} == {field.name for field in plan.fields} | {"extra"}
    assert from_json(cls, to_json(cls())) == cls()


texts = st.text("abz-./", max_size=5)
_SCALARS = {
    Kind.STRING: texts,
    Kind.BOOL: st.booleans(),
    Kind.INT32: st.integers(-(2**31), 2**31 - 1),
    Kind.INT64: st.integers(-(2**63), 2**63 - 1),
    Kind.TIME: st.integers(0, 4 * 10**9).map(lambda seconds: seconds * 10**9),
    Kind.MICRO_TIME: st.integers(0, 4 * 10**15).map(lambda micros: micros * 1000),
    Kind.QUANTITY: st.sampled_from(["0", "1", "1500m", "1Gi", "1e3", "0.1"]).map(Quantity),
    Kind.INT_OR_STRING: st.one_of(st.integers(0, 65535), texts),
    Kind.RAW: st.dictionaries(texts, st.integers(), max_size=2),
}


def _values(shape: Shape, depth: int):
    if shape.kind is Kind.OBJECT:
        return _objects(shape.cls, depth - 1)
    if shape.kind is Kind.LIST:
        return st.lists(_values(shape.item, depth), max_size=1 if depth > 2 else 2).map(tuple)
    if shape.kind is Kind.MAP:
        return st.dictionaries(texts, _values(shape.item, depth), max_size=2)
    return _SCALARS[shape.kind]


def _objects(cls, depth: int):
    """Values of a class with a few random fields set."""
    plan = plan_of(cls)

    def build(chosen):
        return st.fixed_dictionaries({field.name: _values(field.shape, depth) for field in chosen}).map(
            lambda given: cls(**given)
        )

    # An object without kind gets that of its class, so an empty kind does not come back.
    usable = [f for f in plan.fields if f.name not in ("kind", "api_version")]
    usable = [f for f in usable if depth > 0 or f.shape.kind not in (Kind.OBJECT, Kind.LIST)]
    if not usable:
        return st.just(cls())
    return st.lists(st.sampled_from(usable), max_size=4, unique_by=lambda f: f.name).flatmap(build)


@settings(max_examples=60, deadline=None)
@given(_objects(types.Pod, 5))
def test_any_pod_round_trips_api_250(pod):
    once = from_json(types.Pod, to_json(pod))
    assert json.loads(json.dumps(to_json(once))) == to_json(pod)
    assert from_json(types.Pod, to_json(once)) == once
