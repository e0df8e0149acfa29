"""VOL-02 to VOL-04: which volumes a pod needs, of which kind, and where they lie."""

import pytest

from kubelet_emu.api.codec import pod_from_json
from kubelet_emu.volumes.plan import VolumeKind, memory_volumes, needed_volumes, pod_dir, volume_dir


def pod(volumes, mounts=("v",), **more):
    mounted = [{"name": name, "mountPath": f"/{name}"} for name in mounts]
    return pod_from_json(
        {
            "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"volumes": volumes, "containers": [{"name": "a", "volumeMounts": mounted}], **more},
        }
    )


def plan(volumes, **more):
    return needed_volumes(pod(volumes, **more), root_dir="/r")


@pytest.mark.parametrize(
    ("source", "kind", "path"),
    [
        ({"emptyDir": {}}, VolumeKind.EMPTY_DIR, "/r/pods/u/volumes/kubernetes.io~empty-dir/v"),
        ({}, VolumeKind.EMPTY_DIR, "/r/pods/u/volumes/kubernetes.io~empty-dir/v"),
        ({"configMap": {"name": "c"}}, VolumeKind.CONFIG_MAP, "/r/pods/u/volumes/kubernetes.io~configmap/v"),
        ({"secret": {"secretName": "s"}}, VolumeKind.SECRET, "/r/pods/u/volumes/kubernetes.io~secret/v"),
        ({"projected": {"sources": []}}, VolumeKind.PROJECTED, "/r/pods/u/volumes/kubernetes.io~projected/v"),
        ({"downwardAPI": {"items": []}}, VolumeKind.DOWNWARD_API,
         "/r/pods/u/volumes/kubernetes.io~downward-api/v"),
        ({"image": {"reference": "x"}}, VolumeKind.IMAGE, ""),
        ({"persistentVolumeClaim": {"claimName": "data"}}, VolumeKind.CLAIM, "/r/claims/ns/data"),
        ({"nfs": {"server": "s", "path": "/"}}, VolumeKind.UNSUPPORTED, "/r/pods/u/volumes/unsupported/v"),
    ],
    ids=lambda value: str(value) if isinstance(value, VolumeKind) else None,
)  # fmt: skip
def test_vol_04_kinds_and_places(source, kind, path):
    (found,) = plan([{"name": "v", **source}])
    assert (found.name, found.kind, found.host_path) == ("v", kind, path)


def test_a_host_path_lies_where_it_says():
    (found,) = plan([{"name": "v", "hostPath": {"path": "/data"}}])
    assert found.kind is VolumeKind.HOST_PATH
    assert found.host_path.endswith("/data")


def test_vol_02_only_volumes_that_some_container_mounts_in_the_order_of_the_spec():
    volumes = [{"name": name, "emptyDir": {}} for name in ("a", "b", "c", "d")]
    more = {
        "initContainers": [{"name": "i", "volumeMounts": [{"name": "c", "mountPath": "/c"}]}],
        "ephemeralContainers": [{"name": "e", "volumeMounts": [{"name": "a", "mountPath": "/a"}]}],
    }
    found = needed_volumes(pod(volumes, mounts=("b", "gone"), **more), root_dir="/r")
    assert [each.name for each in found] == ["a", "b", "c"]


def test_vol_03_what_the_kubelet_writes_is_written_again():
    again = {kind for kind in VolumeKind if kind.rewritten}
    assert again == {
        VolumeKind.CONFIG_MAP,
        VolumeKind.SECRET,
        VolumeKind.PROJECTED,
        VolumeKind.DOWNWARD_API,
    }


def test_memory_volumes_are_those_of_that_medium_mounted_or_not():
    volumes = [{"name": "m", "emptyDir": {"medium": "Memory"}}, {"name": "d", "emptyDir": {}}]
    assert memory_volumes([pod(volumes)], root_dir="/r") == (
        volume_dir("/r", "u", VolumeKind.EMPTY_DIR, "m"),
    )
    assert pod_dir("/r", "u") == "/r/pods/u"
