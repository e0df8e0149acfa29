"""Rules whose other side is not ours: names and hashes that runtimes and earlier kubelets have stored."""

import pytest
from attrs import evolve

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import Container, EnvVar, ObjectMeta, Pod, ResourceRequirements
from kubelet_emu.kuberuntime import labels
from kubelet_emu.kuberuntime.backoff import backoff_key
from kubelet_emu.kuberuntime.labels import container_hash, container_labels
from kubelet_emu.kuberuntime.restart_rules import ALL_CONTAINERS_RESTARTING

POD = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u"))
ONE = Container(name="a", image="i:1")


def test_rst_191_container_labels_are_these_four():
    assert container_labels(POD, "a") == {
        "io.kubernetes.pod.name": "p",
        "io.kubernetes.pod.namespace": "ns",
        "io.kubernetes.pod.uid": "u",
        "io.kubernetes.container.name": "a",
    }


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("CONTAINER_HASH", "io.kubernetes.container.hash"),
        ("RESTART_COUNT", "io.kubernetes.container.restartCount"),
        ("TERMINATION_MESSAGE_PATH", "io.kubernetes.container.terminationMessagePath"),
        ("TERMINATION_MESSAGE_POLICY", "io.kubernetes.container.terminationMessagePolicy"),
        ("POD_DELETION_GRACE", "io.kubernetes.pod.deletionGracePeriod"),
        ("POD_TERMINATION_GRACE", "io.kubernetes.pod.terminationGracePeriod"),
        ("PRE_STOP_HANDLER", "io.kubernetes.container.preStopHandler"),
        ("CONTAINER_PORTS", "io.kubernetes.container.ports"),
    ],
)
def test_rst_192_annotation_keys(name, key):
    assert getattr(labels, name) == key


def test_rst_063_rst_193_only_name_and_image_are_hashed():
    same = evolve(ONE, env=(EnvVar(name="X", value="1"),), command=("sh",))
    assert container_hash(same) == container_hash(ONE)
    assert container_hash(evolve(ONE, image="i:2")) != container_hash(ONE)
    assert container_hash(evolve(ONE, name="b")) != container_hash(ONE)


def test_rst_193_the_hash_is_that_of_the_documented_text():
    text = '{"image":"i:1","name":"a"}'
    spelled = "([]uint8)[" + " ".join(str(byte) for byte in text.encode()) + "]"
    value = 2166136261
    for byte in spelled.encode():
        value = ((value ^ byte) * 16777619) % 2**32
    assert container_hash(ONE) == value


@pytest.mark.parametrize(
    "other",
    [
        (POD, evolve(ONE, image="i:2")),
        (POD, evolve(ONE, name="b")),
        (POD, evolve(ONE, resources=ResourceRequirements(requests={"cpu": Quantity.parse("1")}))),
        (POD, evolve(ONE, resources=ResourceRequirements(limits={"cpu": Quantity.parse("1")}))),
        (Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="v")), ONE),
        (Pod(metadata=ObjectMeta(name="q", namespace="ns", uid="u")), ONE),
    ],
    ids=["image", "name", "requests", "limits", "uid", "pod"],
)
def test_rst_116_a_change_of_identity_image_or_resources_starts_a_fresh_backoff(other):
    assert backoff_key(*other) != backoff_key(POD, ONE)


def test_rst_116_nothing_else_does():
    assert backoff_key(POD, evolve(ONE, env=(EnvVar(name="X", value="1"),))) == backoff_key(POD, ONE)


def test_rst_116_requests_are_no_limits():
    cpu = {"cpu": Quantity.parse("1")}
    requested = backoff_key(POD, evolve(ONE, resources=ResourceRequirements(requests=cpu)))
    limited = backoff_key(POD, evolve(ONE, resources=ResourceRequirements(limits=cpu)))
    assert requested != limited


def test_rst_125_the_condition_is_called_so():
    assert ALL_CONTAINERS_RESTARTING == "AllContainersRestarting"
