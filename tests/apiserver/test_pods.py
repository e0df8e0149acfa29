"""How the API server admits pods: defaults first, then every problem at once."""

import pytest

from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.apiserver.pods import admit_create, admit_update
from kubelet_emu.gates import Gates

GATES = Gates()


def pod(**spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "a", "image": "busybox"}], **spec},
    }


def stored(**spec):
    obj = admit_create(pod(**spec), gates=GATES)
    return {**obj, "metadata": {**obj["metadata"], "uid": "u", "resourceVersion": "1"}}


def refused(call, *args):
    with pytest.raises(ApiError) as caught:
        call(*args, gates=GATES)
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    return caught.value.message


def test_defaults_are_filled_in():
    spec = admit_create(pod(), gates=GATES)["spec"]
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Always", 30)
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert spec["containers"][0]["terminationMessagePath"] == "/dev/termination-log"


def test_one_problem_stands_alone_several_in_brackets():
    one = refused(admit_create, pod(restartPolicy="Sometimes"))
    assert one.startswith('Pod "p" is invalid: spec.restartPolicy: Unsupported value')
    many = refused(admit_create, pod(restartPolicy="Sometimes", dnsPolicy="Never"))
    assert many.startswith('Pod "p" is invalid: [')
    assert many.endswith("]")


def test_an_image_may_change_the_rest_may_not():
    old = stored()
    new = {
        **old,
        "spec": {**old["spec"], "containers": [{**old["spec"]["containers"][0], "image": "other:1"}]},
    }
    assert admit_update(old, new, "", gates=GATES)["spec"]["containers"][0]["image"] == "other:1"
    other = {**old, "spec": {**old["spec"], "hostNetwork": True}}
    assert "pod updates may not change fields other than" in refused(admit_update, old, other, "")


def test_ephemeral_containers_are_added_with_defaults():
    old = stored()
    new = {**old, "spec": {**old["spec"], "ephemeralContainers": [{"name": "e", "image": "busybox:1"}]}}
    (added,) = admit_update(old, new, "ephemeralcontainers", gates=GATES)["spec"]["ephemeralContainers"]
    assert added["imagePullPolicy"] == "IfNotPresent"
    assert refused(admit_update, new, old, "ephemeralcontainers")


def test_a_resize_may_not_change_the_qos_class():
    limits = {
        "resources": {"limits": {"cpu": "1", "memory": "1Mi"}, "requests": {"cpu": "1", "memory": "1Mi"}}
    }
    old = stored(containers=[{"name": "a", "image": "busybox", **limits}])
    changed = {**old["spec"]["containers"][0], "resources": {"requests": {"cpu": "1"}}}
    new = {**old, "spec": {**old["spec"], "containers": [changed]}}
    assert "Pod QOS Class may not change as a result of resizing" in refused(admit_update, old, new, "resize")
