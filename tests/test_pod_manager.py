"""Pods and mirrors by UID and full name (POD-801), and the active deadline (POD-1101, POD-1319)."""

import pytest

from kubelet_emu.api.types import ObjectMeta, Pod, PodSpec, PodStatus
from kubelet_emu.deadline import deadline_exceeded
from kubelet_emu.pod_manager import PodManager


def pod(uid, *, name="web", mirror=False):
    annotations = {"kubernetes.io/config.mirror": "h"} if mirror else {}
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=uid, annotations=annotations))


@pytest.mark.parametrize("mirror_first", [False, True])
def test_a_pair_is_found_from_either_side(mirror_first):
    manager = PodManager()
    static, mirror = pod("s"), pod("m", mirror=True)
    for each in (mirror, static) if mirror_first else (static, mirror):
        manager.put(each)
    assert manager.by_uid("s") is static
    assert manager.by_uid("m") is None
    assert manager.by_full_name("web_ns") is static
    assert manager.mirror_by_full_name("web_ns") is mirror
    assert manager.pair(static).mirror is mirror
    assert (manager.pair(mirror).pod, manager.pair(mirror).was_mirror) == (static, True)
    assert manager.translate("m") == "s"
    assert manager.translate("x") == "x"
    assert manager.translations() == {"m": "s"}
    assert manager.mirror_uids_of("s") == ("m",)


def test_a_mirror_without_its_pod_is_orphaned():
    manager = PodManager()
    static, mirror = pod("s"), pod("m", mirror=True)
    manager.put(static)
    manager.put(mirror)
    manager.remove(static)
    everything = manager.pods_and_mirrors()
    assert (everything.pods, everything.mirrors) == ((), (mirror,))
    assert everything.orphaned_mirror_names == ("web_ns",)
    assert manager.pair(mirror).pod is None
    manager.remove(mirror)
    manager.remove(mirror)
    assert manager.pods_and_mirrors().orphaned_mirror_names == ()
    assert manager.translations() == {}


def test_replacing_keeps_the_order_and_removing_an_old_version_keeps_the_name_of_the_new():
    manager = PodManager()
    for each in (pod("a", name="a"), pod("b", name="b"), pod("a", name="a")):
        manager.put(each)
    assert [each.metadata.uid for each in manager.pods()] == ["a", "b"]
    manager.put(pod("a2", name="a"))
    manager.remove(pod("a", name="a"))
    assert manager.by_full_name("a_ns").metadata.uid == "a2"


SECOND = 1_000_000_000
NOW = 1_000_000 * SECOND


@pytest.mark.parametrize(
    ("limit", "started", "api_started", "exceeded"),
    [
        (30, 60, None, True),
        (120, 60, None, False),
        (None, 60, None, False),
        (30, None, None, False),
        (30, None, 60, True),
        (60, 60, None, True),
        (30, 10, 60, False),
    ],
    ids=lambda value: f"POD-1319-{value}",
)
def test_active_deadline(limit, started, api_started, exceeded):
    def ago(seconds):
        return None if seconds is None else NOW - seconds * SECOND

    given = Pod(spec=PodSpec(active_deadline_seconds=limit), status=PodStatus(start_time=ago(api_started)))
    assert deadline_exceeded(given, status_start_time_ns=ago(started), now_ns=NOW) is exceeded
