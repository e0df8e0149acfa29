"""Validation of changes to a pod and to its status: API-055, API-090, API-160 to API-168, API-230."""

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import (
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    EphemeralContainer,
    HostIP,
    PodCondition,
    PodIP,
    PodOS,
    PodResourceClaimStatus,
    PodSchedulingGate,
    ResourceHealth,
    ResourceRequirements,
    ResourceStatus,
    Toleration,
)
from kubelet_emu.api.validation import (
    validate_ephemeral_containers_update,
    validate_pod_resize,
    validate_pod_status_update,
    validate_pod_update,
)
from kubelet_emu.api.validation.update import changed_fields

FIVE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it "
    "was previously negative)"
)
MIRROR = "kubernetes.io/config.mirror"


@pytest.fixture
def old(a_pod):
    return a_pod(
        initContainers=[{"name": "first", "image": "x"}],
        activeDeadlineSeconds=30,
        tolerations=[
            {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 10}
        ],
        nodeName="node-1",
    )


def container(pod, **changes):
    main = evolve(pod.spec.containers[0], **changes)
    return evolve(pod, spec=evolve(pod.spec, containers=(main,)))


def spec(pod, **changes):
    return evolve(pod, spec=evolve(pod.spec, **changes))


def meta(pod, **changes):
    return evolve(pod, metadata=evolve(pod.metadata, **changes))


RULE = ContainerRestartRule(
    action="Restart", exit_codes=ContainerRestartRuleOnExitCodes(operator="In", values=(1,))
)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda pod: pod, id="nothing"),
        pytest.param(lambda pod: container(pod, image="y"), id="image"),
        pytest.param(
            lambda pod: spec(pod, init_containers=(evolve(pod.spec.init_containers[0], image="y"),)),
            id="init-image",
        ),
        pytest.param(lambda pod: meta(pod, labels={"a": "b"}, annotations={"c": "d"}), id="labels"),
        pytest.param(lambda pod: spec(pod, active_deadline_seconds=10), id="deadline-30-10"),
        pytest.param(
            lambda pod: spec(
                pod, tolerations=(*pod.spec.tolerations, Toleration(key="z", operator="Exists"))
            ),
            id="toleration-added",
        ),
        pytest.param(
            lambda pod: spec(
                pod, tolerations=tuple(evolve(t, toleration_seconds=5) for t in pod.spec.tolerations)
            ),
            id="toleration-seconds",
        ),
    ],
)
def test_allowed_updates_api_230(old, change):
    assert validate_pod_update(change(old), old) == ()


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param(
            lambda pod: container(pod, resources=ResourceRequirements(requests={"cpu": Quantity("1")})),
            "spec.containers[0].resources.requests",
            id="cpu-request",
        ),
        pytest.param(
            lambda pod: container(pod, restart_policy="Never", restart_policy_rules=(RULE,)),
            "spec.containers[0].restartPolicy",
            id="API-252-RST-007",
        ),
        pytest.param(lambda pod: spec(pod, restart_policy="Never"), "spec.restartPolicy", id="restartPolicy"),
        pytest.param(lambda pod: spec(pod, os=PodOS(name="linux")), "spec.os", id="os"),
        pytest.param(
            lambda pod: spec(pod, priority_class_name="a"), "spec.priorityClassName", id="priorityClass"
        ),
        pytest.param(lambda pod: spec(pod, node_name=None), "spec.nodeName", id="nodeName"),
        pytest.param(
            lambda pod: spec(pod, termination_grace_period_seconds=5),
            "spec.terminationGracePeriodSeconds",
            id="grace",
        ),
    ],
)
def test_everything_else_is_forbidden_at_spec_api_161(old, change, path):
    (error,) = validate_pod_update(change(old), old)
    assert error.kind.name == "FORBIDDEN"
    assert error.path == "spec"
    assert error.detail.startswith(f"pod updates may not change fields other than {FIVE}\n")
    assert f"changed: {path}\n" in error.detail


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (
            10,
            30,
            "spec.activeDeadlineSeconds: Invalid value: 30: must be less than or equal to previous value",
        ),
        (
            30,
            None,
            "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer "
            "to nil value",
        ),
        (30, 0, "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"),
        (
            30,
            -30,
            "spec.activeDeadlineSeconds: Invalid value: -30: must be between 0 and 2147483647, inclusive",
        ),
        (None, 30, None),
    ],
)
def test_deadline_api_230(old, texts, before, after, text):
    found = texts(
        validate_pod_update(
            spec(old, active_deadline_seconds=after), spec(old, active_deadline_seconds=before)
        )
    )
    assert found == [] if text is None else text in found


def test_containers_may_not_come_or_go_api_161(old, texts):
    new = spec(old, containers=(*old.spec.containers, evolve(old.spec.containers[0], name="more")))
    assert texts(validate_pod_update(new, old)) == [
        "spec.containers: Forbidden: pod updates may not add or remove containers"
    ]


def test_empty_image_api_230(old, texts):
    assert texts(validate_pod_update(container(old, image=""), old)) == [
        "spec.containers[0].image: Required value"
    ]


def test_tolerations_may_not_change_api_230(old, texts):
    new = spec(old, tolerations=tuple(evolve(t, value=None, operator="Exists") for t in old.spec.tolerations))
    text = "Forbidden: existing toleration can not be modified except its tolerationSeconds"
    assert texts(validate_pod_update(new, old)) == [f"spec.tolerations: {text}"]


def test_gates_may_only_go_api_160(a_pod, texts):
    old = a_pod(schedulingGates=[{"name": "a"}, {"name": "b"}], nodeSelector={"x": "y"})
    assert validate_pod_update(spec(old, scheduling_gates=old.spec.scheduling_gates[:1]), old) == ()
    new = spec(old, scheduling_gates=(PodSchedulingGate(name="c"),))
    assert texts(validate_pod_update(new, old)) == [
        "spec.schedulingGates[0]: Forbidden: only deletion is allowed, but found new scheduling gate 'c'"
    ]
    assert validate_pod_update(spec(old, node_selector={"x": "y", "z": "1"}), old) == ()
    (error,) = validate_pod_update(spec(old, node_selector={"z": "1"}), old)
    assert error.path == "spec"


def test_negative_grace_period_may_become_one_api_230(old):
    negative = spec(old, termination_grace_period_seconds=-1)
    assert validate_pod_update(spec(old, termination_grace_period_seconds=1), negative) == ()
    (error,) = validate_pod_update(spec(old, termination_grace_period_seconds=0), negative)
    assert (error.path, error.kind.name) == ("spec", "FORBIDDEN")


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (None, "h", "may not add mirror pod annotation"),
        ("h", None, "may not remove or update mirror pod annotation"),
        ("h", "i", "may not remove or update mirror pod annotation"),
    ],
)
def test_mirror_annotation_api_230(old, texts, before, after, text):
    def annotated(hash_):
        return meta(old, annotations={MIRROR: hash_} if hash_ else {})

    assert texts(validate_pod_update(annotated(after), annotated(before))) == [
        f"metadata.annotations[{MIRROR}]: Forbidden: {text}"
    ]


@pytest.mark.parametrize(
    ("changes", "path", "detail"),
    [
        ({"name": "other"}, "metadata.name", "field is immutable"),
        ({"uid": "other"}, "metadata.uid", "field is immutable"),
        ({"deletion_grace_period_seconds": 5}, "metadata.deletionGracePeriodSeconds", "field is immutable"),
        ({"generation": 1}, "metadata.generation", "must not be decremented"),
        ({"resource_version": None}, "metadata.resourceVersion", "must be specified for an update"),
    ],
)
def test_metadata_that_may_not_change_api_055(old, changes, path, detail):
    old = meta(old, generation=2)
    (error,) = validate_pod_update(meta(old, **changes), old)
    assert (error.path, error.detail) == (path, detail)


def test_no_new_finalizers_while_deleted_api_055(old, texts):
    old = meta(old, deletion_timestamp=1)
    assert texts(validate_pod_update(meta(old, finalizers=("a.b/c",)), old)) == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        "found new "
        'finalizers ["a.b/c"]'
    ]


def test_changed_fields_names_the_places(old):
    new = container(spec(old, hostname="h"), image="y", args=("a",))
    assert changed_fields(new, old) == [
        "spec.containers[0].image",
        "spec.containers[0].args",
        "spec.hostname",
    ]


def ephemeral(pod, *names, **changes):
    made = tuple(
        EphemeralContainer(
            name=name,
            image="x",
            image_pull_policy="Always",
            termination_message_path="/dev/termination-log",
            termination_message_policy="File",
            **changes,
        )
        for name in names
    )
    return spec(pod, ephemeral_containers=made)


def test_ephemeral_containers_are_appended_only_api_090(old, texts):
    one = ephemeral(old, "a")
    assert validate_ephemeral_containers_update(one, old) == ()
    assert validate_ephemeral_containers_update(ephemeral(old, "a", "b"), one) == ()
    path = "spec.ephemeralContainers: Forbidden: existing ephemeral containers"
    assert texts(validate_ephemeral_containers_update(old, one)) == [f'{path} "a" may not be removed\n']
    assert texts(validate_ephemeral_containers_update(ephemeral(old, "a", tty=True), one)) == [
        f'{path} "a" may not be changed\n  changed: tty\n'
    ]
    mirror = meta(old, annotations={MIRROR: "h"})
    assert texts(validate_ephemeral_containers_update(ephemeral(mirror, "a"), mirror)) == [
        ": Forbidden: static pods do not support ephemeral containers"
    ]
    (error,) = validate_ephemeral_containers_update(ephemeral(old, "a", restart_policy="Always"), old)
    assert error.path == "spec.ephemeralContainers[0].restartPolicy"


def sized(pod, **quantities):
    values = {name: Quantity(text) for name, text in quantities.items()}
    return container(pod, resources=ResourceRequirements(requests=values))


def test_resize_api_168(old, texts):
    old = sized(status(old, qos_class=None), cpu="1", memory="1Gi")
    assert validate_pod_resize(sized(old, cpu="2", memory="1Gi"), old) == ()
    assert texts(validate_pod_resize(sized(old, cpu="2"), old)) == [
        "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"
    ]
    (error,) = validate_pod_resize(container(old, image="y"), old)
    assert error.detail.startswith("only cpu and memory resources are mutable")
    (error,) = validate_pod_resize(container(old, name="y"), old)
    assert error.detail == "containers may not be renamed or reordered on resize"
    limits = {name: Quantity("1") for name in ("cpu", "memory")}
    whole = container(old, resources=ResourceRequirements(limits=limits, requests=limits))
    whole = spec(whole, init_containers=())
    lower = container(
        whole, resources=ResourceRequirements(limits=limits, requests={**limits, "cpu": Quantity("0.5")})
    )
    (error,) = validate_pod_resize(lower, whole)
    assert error.detail == "Pod QOS Class may not change as a result of resizing"
    mirror = meta(old, annotations={MIRROR: "h"})
    assert texts(validate_pod_resize(mirror, mirror)) == [": Forbidden: static pods cannot be resized"]
    running = ContainerStatus(name="main", state=ContainerState(running=ContainerStateRunning()))
    started = evolve(old, status=evolve(old.status, container_statuses=(running,)))
    (error,) = validate_pod_resize(started, started)
    assert error.detail == "Pod running on node without support for resize"


def status(pod, **changes):
    return evolve(pod, status=evolve(pod.status, **changes))


def with_health(*health, name="x.y/z", kind="container_statuses", container_name="main"):
    resources = ResourceStatus(name=name, resources=health)
    return {kind: (ContainerStatus(name=container_name, allocated_resources_status=(resources,)),)}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"phase": "Running", "reason": "x"}, [], id="phase"),
        pytest.param({"qos_class": "Guaranteed"}, ["status.qosClass"], id="API-164-qos"),
        pytest.param({"observed_generation": -1}, ["status.observedGeneration"], id="API-164-generation"),
        pytest.param(
            {"conditions": (PodCondition(type="a b", observed_generation=-1), PodCondition(type="Ready"))},
            ["status.conditions[0].Type", "status.conditions[0].observedGeneration"],
            id="API-164-conditions",
        ),
        pytest.param(
            {"host_ip": "1.1.1.1", "host_ips": (HostIP(ip="1.1.1.2"),)},
            ["status.hostIPs[0].ip"],
            id="hostIPs",
        ),
        pytest.param(
            {"pod_ips": (PodIP(ip="1.1.1.1"), PodIP(ip="1.1.1.2"))},
            ["status.podIPs"],
            id="API-164-one-per-family",
        ),
        pytest.param({"pod_ips": (PodIP(ip="1.1.1.1"), PodIP(ip="fd00::1"))}, [], id="API-164-dual"),
        pytest.param({"nominated_node_name": "n"}, ["status.nominatedNodeName"], id="API-164-nominated"),
        pytest.param(
            {"resource_claim_statuses": (PodResourceClaimStatus(name="a"),) * 2},
            ["status.resourceClaimStatuses[0].name"] * 1 + ["status.resourceClaimStatuses[1].name"] * 2,
            id="API-167",
        ),
        pytest.param(with_health(ResourceHealth(resource_id="a", health="Healthy")), [], id="API-166"),
        pytest.param(
            with_health(ResourceHealth(health="Sick", message=""), ResourceHealth(message="x" * 1025)),
            [
                ".resources[0].health",
                ".resources[0].message",
                ".resources[1].resourceID",
                ".resources[1].message",
            ],
            id="API-166-health",
        ),
        pytest.param(with_health(name="other"), [".name"], id="API-166-name"),
        pytest.param(with_health(name="other", container_name="unknown"), [], id="API-166-unknown-container"),
    ],
)
def test_status_update(old, changes, expected):
    old = container(
        old, resources=ResourceRequirements(requests={"x.y/z": Quantity(1)}, limits={"x.y/z": Quantity(1)})
    )
    errors = validate_pod_status_update(status(old, **changes), old)
    place = "status.containerStatuses[0].allocatedResourcesStatus[0]"
    assert [error.path for error in errors] == [place + p if p.startswith(".") else p for p in expected]


def test_status_update_of_the_rest_api_164_166(old, texts):
    assert texts(validate_pod_status_update(spec(old, node_name="other"), old)) == [
        "status.nodeName: Forbidden: may not be changed directly"
    ]
    old = ephemeral(old, "debug")
    health = with_health(kind="ephemeral_container_statuses", container_name="debug")
    assert texts(validate_pod_status_update(status(old, **health), old)) == [
        "status.ephemeralContainerStatuses[0].allocatedResourcesStatus[0]: Forbidden: must not be "
        "specified in "
        "container status"
    ]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([None, "Always", "Never", "OnFailure"]),
    st.sampled_from([None, "Always", "Never", "OnFailure"]),
)
def test_a_changed_container_policy_is_one_error_at_spec_api_252(a_container, before, after):
    old = a_container(restartPolicy=before)
    new = a_container(restartPolicy=after)
    errors = validate_pod_update(new, old)
    assert [(error.path, error.kind.name) for error in errors] == (
        [] if before == after else [("spec", "FORBIDDEN")]
    )
