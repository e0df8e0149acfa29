"""Static pods and their mirrors (POD-204 to POD-206, POD-213, POD-802, POD-803, POD-1321)."""

import json

import pytest
from attrs import evolve

from kubelet_emu.api.codec import pod_from_json
from kubelet_emu.api.types import ObjectMeta, Pod
from kubelet_emu.config.manifest import MAX_BYTES, ManifestError, PodReader
from kubelet_emu.config.static import (
    api_reference,
    is_mirror_pod_of,
    mirror_pod,
    plan_mirror,
    static_pod,
    static_uid,
)
from kubelet_emu.errors import Problem
from kubelet_emu.pod_update import full_name, is_mirror_pod, is_static_pod, split_full_name

ORIGIN = ("host:node1", "file:/m/a.yaml")
MANIFEST = b"""
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: c, image: busybox}]
  someday: unknown
"""


def reader(**changes):
    options = {"source": "file", "node_name": "Node1", "validate": lambda pod: (), **changes}
    return PodReader(**options)


@pytest.mark.parametrize("node", ["node1", "Node1"], ids=lambda node: f"POD-1321-{node}")
def test_names(node):
    pod = static_pod(
        Pod(metadata=ObjectMeta(name="static-pod1")), source="file", origin=ORIGIN, node_name=node
    )
    assert pod.metadata.name == "static-pod1-node1"


def test_POD_204_what_is_filled_in():
    pod = reader().single(MANIFEST, ORIGIN)
    meta = pod.metadata
    assert (meta.name, meta.namespace, pod.spec.node_name) == ("web-node1", "default", "Node1")
    assert len(meta.uid) == 32
    assert int(meta.uid, 16) > 0
    assert meta.annotations == {"kubernetes.io/config.hash": meta.uid}
    assert [(t.operator, t.effect) for t in pod.spec.tolerations] == [("Exists", "NoExecute")]
    assert pod.status.phase == "Pending"
    assert pod.spec.containers[0].termination_message_path == "/dev/termination-log"
    assert reader(source="http").single(MANIFEST, ORIGIN).spec.tolerations == ()


def test_POD_205_the_uid_depends_on_content_and_origin():
    base = Pod(metadata=ObjectMeta(name="a"))
    uids = {
        static_uid(base, ORIGIN),
        static_uid(base, ("host:node2", ORIGIN[1])),
        static_uid(base, (ORIGIN[0], "file:/m/b.yaml")),
        static_uid(Pod(metadata=ObjectMeta(name="b")), ORIGIN),
    }
    assert len(uids) == 4
    assert static_uid(base, ORIGIN) == static_uid(Pod(metadata=ObjectMeta(name="a")), ORIGIN)


def test_POD_206_a_uid_of_the_manifest_is_kept():
    pod = static_pod(
        Pod(metadata=ObjectMeta(name="a", uid="fixed")), source="file", origin=ORIGIN, node_name="n"
    )
    assert (pod.metadata.uid, pod.metadata.annotations["kubernetes.io/config.hash"]) == ("fixed", "fixed")


def spec(**fields):
    return pod_from_json({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}], **fields}})


def container(**fields):
    return spec(containers=[{"name": "c", **fields}])


def volume(**source):
    return spec(volumes=[{"name": "v", **source}])


@pytest.mark.parametrize(
    ("pod", "kind"),
    [
        (spec(), ""),
        (spec(serviceAccountName="x"), "serviceaccounts"),
        (spec(imagePullSecrets=[{"name": "x"}]), "secrets"),
        (container(env=[{"name": "E", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}}]), "secrets"),
        (container(envFrom=[{"secretRef": {"name": "x"}}]), "secrets"),
        (container(envFrom=[{"configMapRef": {"name": "x"}}]), "configmaps"),
        (
            container(env=[{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "k"}}}]),
            "configmaps",
        ),
        (volume(secret={"secretName": "x"}), "secrets"),
        (volume(azureFile={"secretName": "x"}), "secrets"),
        (volume(configMap={"name": "x"}), "configmaps"),
        (volume(persistentVolumeClaim={"claimName": "x"}), "persistentvolumeclaims"),
        (volume(ephemeral={}), "persistentvolumeclaims"),
        (volume(csi={"driver": "x"}), "csidrivers"),
        (volume(glusterfs={"endpoints": "x"}), "endpoints"),
        (volume(projected={"sources": [{"configMap": {"name": "x"}}]}), "configmaps"),
        (volume(projected={"sources": [{"secret": {"name": "x"}}]}), "secrets"),
        (volume(projected={"sources": [{"serviceAccountToken": {"path": "x"}}]}), "serviceaccounts"),
        (volume(projected={"sources": [{"clusterTrustBundle": {"path": "x"}}]}), "clustertrustbundles"),
        (volume(projected={"sources": [{"podCertificate": {"keyType": "x"}}]}), "podcertificates"),
        (volume(projected={"sources": [{"downwardAPI": {"items": []}}]}), ""),
        (spec(resourceClaims=[{"name": "x"}]), "resourceclaims"),
        (volume(emptyDir={}), ""),
        (volume(hostPath={"path": "/x"}), ""),
        (volume(image={"reference": "x"}), ""),
        (volume(downwardAPI={"items": []}), ""),
    ],
)
def test_POD_213_references(pod, kind):
    assert api_reference(pod) == kind


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "the manifest is empty"),
        (b"- 1", "the manifest is no object"),
        (b"\xff\xfe", "the manifest is not UTF-8 text: invalid start byte"),
        (b"kind: PodList\napiVersion: v1", "couldn't parse as pod: kind 'PodList' of apiVersion 'v1'"),
        (b" " * (MAX_BYTES + 1), f"the manifest is larger than {MAX_BYTES} bytes"),
        (
            b"{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {serviceAccountName: x}}",
            "static pods may not reference serviceaccounts",
        ),
    ],
    ids=["empty", "list", "binary", "pod-list", "large", "POD-213"],
)
def test_manifests_that_yield_no_pod(data, problem):
    with pytest.raises(ManifestError) as caught:
        reader().single(data, ORIGIN)
    assert str(caught.value) == problem


def test_broken_text_and_wrong_types_are_told():
    for data in (b"a: [", b"{apiVersion: v1, kind: Pod, metadata: {name: 5}}"):
        with pytest.raises(ManifestError):
            reader().single(data, ORIGIN)


def test_validation_is_that_of_a_create():
    with pytest.raises(ManifestError, match="invalid pod: spec: too small"):
        reader(validate=lambda pod: (Problem("too small", path="spec"),)).single(MANIFEST, ORIGIN)


def test_POD_212_a_list_of_pods():
    items = [
        {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        for name in ("a", "b")
    ]
    data = json.dumps({"apiVersion": "v1", "kind": "PodList", "items": items})
    pods = reader().single_or_list(data.encode(), ("url:http://x/",))
    assert [pod.metadata.name for pod in pods] == ["a-node1", "b-node1"]
    assert len(reader().single_or_list(MANIFEST, ORIGIN)) == 1
    for bad in (b'{"kind": "PodList", "items": 5}', b'{"kind": "PodList", "items": [5]}'):
        with pytest.raises(ManifestError):
            reader().single_or_list(bad, ORIGIN)


# --- mirrors --------------------------------------------------------------------------------------------


def running_static():
    pod = reader().single(MANIFEST, ORIGIN)
    annotations = {**pod.metadata.annotations, "kubernetes.io/config.source": "file"}
    return evolve(pod, metadata=evolve(pod.metadata, annotations=annotations))


def test_POD_802_mirror():
    pod = running_static()
    mirror = mirror_pod(pod, node_name="Node1", node_uid="n-uid")
    assert is_static_pod(pod)
    assert is_mirror_pod(mirror)
    assert is_mirror_pod_of(mirror, pod)
    owner = mirror.metadata.owner_references[0]
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Node", "Node1", "n-uid", True)
    assert full_name(mirror) == "web-node1_default"
    assert split_full_name(full_name(mirror)) == ("web-node1", "default")
    assert split_full_name("a_b_c") is None
    assert split_full_name("_b") is None


@pytest.mark.parametrize(
    ("mirror", "node_exists", "node_deleting", "expected"),
    [
        ("none", True, False, (False, True)),
        ("none", False, False, (False, False)),
        ("none", True, True, (False, False)),
        ("good", True, False, (False, False)),
        ("deleting", True, False, (True, True)),
        ("deleting", False, False, (True, False)),
        ("other-hash", True, False, (True, True)),
    ],
    ids=lambda value: f"POD-803-{value}",
)
def test_plan_of_a_mirror(mirror, node_exists, node_deleting, expected):
    pod = running_static()
    good = mirror_pod(pod, node_name="Node1", node_uid="u")
    given = {
        "none": None,
        "good": good,
        "deleting": evolve(good, metadata=evolve(good.metadata, deletion_timestamp=1)),
        "other-hash": evolve(
            good, metadata=evolve(good.metadata, annotations={"kubernetes.io/config.mirror": "x"})
        ),
    }[mirror]
    plan = plan_mirror(pod, given, node_exists=node_exists, node_deleting=node_deleting)
    assert (plan.delete, plan.create) == expected


def test_pods_of_the_api_have_no_mirror():
    plan = plan_mirror(Pod(), None, node_exists=True, node_deleting=False)
    assert (plan.delete, plan.create) == (False, False)
