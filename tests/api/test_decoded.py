"""Each version of a pod is decoded once, and the spec only when it changes."""

import pytest

from kubelet_emu.api.codec import DecodeError, pod_from_json
from kubelet_emu.api.decoded import PODS_MAX, DecodedPods


def stored(
    version: str, *, uid: str = "u", phase: str = "Running", image: str = "busybox"
) -> dict[str, object]:
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": uid, "resourceVersion": version},
        "spec": {"terminationGracePeriodSeconds": -5, "containers": [{"name": "c", "image": image}]},
        "status": {"phase": phase},
    }


def test_one_version_is_one_value() -> None:
    pods = DecodedPods()
    first = pods.pod(stored("1"))
    assert first == pod_from_json(stored("1"))
    assert pods.pod(stored("1")) is first


def test_a_new_status_keeps_the_spec() -> None:
    pods = DecodedPods()
    first, second = pods.pod(stored("1")), pods.pod(stored("2", phase="Failed"))
    assert second == pod_from_json(stored("2", phase="Failed"))
    assert second.spec is first.spec


def test_a_new_spec_is_taken() -> None:
    pods = DecodedPods()
    pods.pod(stored("1"))
    second = pods.pod(stored("2", image="other"))
    assert second == pod_from_json(stored("2", image="other"))


def test_another_pod_of_that_version_is_another() -> None:
    pods = DecodedPods()
    pods.pod(stored("1"))
    assert pods.pod(stored("1", uid="other")).metadata.uid == "other"


def test_what_has_no_version_is_decoded_each_time() -> None:
    pods = DecodedPods()
    one: dict[str, object] = {"metadata": {"name": "p", "uid": "u"}, "status": {"phase": "Running"}}
    two: dict[str, object] = {"metadata": {"name": "p", "uid": "u"}, "status": {"phase": "Failed"}}
    assert [pods.pod(each).status.phase for each in (one, two)] == ["Running", "Failed"]


def test_bad_objects_are_refused_each_time() -> None:
    pods = DecodedPods()
    bad: dict[str, object] = {**stored("1"), "status": {"phase": 5}}
    for _ in range(2):
        with pytest.raises(DecodeError):
            pods.pod(bad)
    with pytest.raises(DecodeError):
        pods.pod({"metadata": 5})


def test_what_is_kept_has_a_bound() -> None:
    pods = DecodedPods()
    first = pods.pod(stored("1", uid="first"))
    for number in range(PODS_MAX):
        pods.pod(stored("1", uid=str(number)))
    again = pods.pod(stored("1", uid="first"))
    assert again == first
    assert again is not first
