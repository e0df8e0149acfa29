"""VOL-25: files of a downwardAPI volume."""

import pytest

from kubelet_emu.api.codec import from_json, pod_from_json
from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import DownwardAPIVolumeFile
from kubelet_emu.kuberuntime.env import EnvContext
from kubelet_emu.volumes.content import VolumeError
from kubelet_emu.volumes.downward import downward_files

POD = pod_from_json(
    {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "u",
            "labels": {"b": 'say "x"', "a": "1"},
            "annotations": {"n": "line\nbreak"},
        },
        "spec": {
            "containers": [{"name": "a", "resources": {"limits": {"cpu": "250m"}}}],
            "initContainers": [{"name": "i", "resources": {"requests": {"memory": "3Mi"}}}],
        },
    }
)
CONTEXT = EnvContext(pod_ips=("10.0.0.1",), host_ips=("192.0.2.1",), allocatable={"cpu": Quantity.parse("4")})


def files(*items):
    given = [from_json(DownwardAPIVolumeFile, item) for item in items]
    return {
        path: (item.data.decode(), item.mode)
        for path, item in downward_files(POD, given, 0o644, lambda _: CONTEXT).items()
    }


def field(path, **more):
    return {"path": "f", "fieldRef": {"fieldPath": path}, **more}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("metadata.labels", 'a="1"\nb="say \\"x\\""'),
        ("metadata.annotations", 'n="line\\nbreak"'),
        ("metadata.labels['a']", "1"),
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u"),
    ],
)
def test_vol_25_fields(path, text):
    assert files(field(path)) == {"f": (text, 0o644)}


def test_a_mode_of_its_own():
    assert files(field("metadata.name", mode=0o400)) == {"f": ("p", 0o400)}


@pytest.mark.parametrize(
    ("container", "resource", "divisor", "text"),
    [
        ("a", "limits.cpu", "1m", "250"),
        ("a", "limits.cpu", None, "1"),
        ("i", "requests.memory", "1Mi", "3"),
        ("i", "limits.cpu", None, "4"),
    ],
)
def test_vol_25_resources_limits_default_to_the_node(container, resource, divisor, text):
    ref = {"containerName": container, "resource": resource, **({"divisor": divisor} if divisor else {})}
    assert files({"path": "f", "resourceFieldRef": ref})["f"][0] == text


def test_a_field_that_does_not_exist():
    with pytest.raises(VolumeError):
        files(field("spec.nothing"))
