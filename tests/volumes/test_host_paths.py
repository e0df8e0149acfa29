"""Where hostPath volumes lie when a node keeps them under a root of its own."""

import pytest

from kubelet_emu.api.types import (
    Container,
    HostPathVolumeSource,
    ObjectMeta,
    Pod,
    PodSpec,
    Volume,
    VolumeMount,
)
from kubelet_emu.volumes.plan import needed_volumes


def pod(path):
    volume = Volume(name="v", host_path=HostPathVolumeSource(path=path))
    container = Container(name="c", image="i", volume_mounts=(VolumeMount(name="v", mount_path="/v"),))
    return Pod(
        metadata=ObjectMeta(name="p", uid="u"), spec=PodSpec(containers=(container,), volumes=(volume,))
    )


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("/", "/private/host"),
        ("/data/x/", "/private/host/data/x"),
        ("//data", "/private/host/data"),
        ("/data/../../../etc", "/private/host/etc"),
        ("relative", "/private/host/relative"),
        ("", "/private/host"),
    ],
)
def test_a_host_path_cannot_leave_the_private_root(given, kept):
    (planned,) = needed_volumes(pod(given), root_dir="/var/lib/kubelet", host_root="/private/host")
    assert planned.host_path == kept


def test_without_a_root_of_its_own_a_host_path_is_what_it_says():
    (planned,) = needed_volumes(pod("/data"), root_dir="/var/lib/kubelet")
    assert planned.host_path == "/data"
