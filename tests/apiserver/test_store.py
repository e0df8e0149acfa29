"""The store: versions, creation, deletion with grace (FAC-071, FAC-072, FAC-183), watches."""

import random

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet_emu.api.times import parse_rfc3339
from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.apiserver.store import WATCH_BACKLOG_MAX, ApiStore
from kubelet_emu.apiserver.strategy import deletion_step

NOW_NS = 1_800_000_000_000_000_000


class Wall:
    """A time of day that the test moves."""

    def __init__(self):
        self.ns = NOW_NS

    def __call__(self):
        return self.ns


def make_store(wall=None):
    return ApiStore(now_ns=wall or Wall(), rng=random.Random(1))


def pod(name="p", **spec):
    return {"metadata": {"name": name}, "spec": {"nodeName": "n", "containers": [], **spec}}


def test_create_sets_what_the_server_sets():
    stored = make_store().create("Pod", pod())
    meta = stored["metadata"]
    assert meta["namespace"] == "default"
    assert meta["generation"] == 1
    assert meta["resourceVersion"] == "1"
    assert parse_rfc3339(meta["creationTimestamp"]) == NOW_NS
    assert len(meta["uid"]) == 36
    assert stored["status"] == {"phase": "Pending"}


def test_a_name_in_use_is_refused():
    store = make_store()
    store.create("Pod", pod())
    with pytest.raises(ApiError) as caught:
        store.create("Pod", pod())
    assert (caught.value.code, caught.value.message) == (409, 'pods "p" already exists')


def test_generated_names_are_free_ones():
    store = make_store()
    names = {
        store.create("Pod", {"metadata": {"generateName": "w-"}, "spec": {}})["metadata"]["name"]
        for _ in range(50)
    }
    assert len(names) == 50
    assert all(name.startswith("w-") and len(name) == 7 for name in names)


def test_a_changed_spec_raises_the_generation_and_a_status_does_not():
    store = make_store()
    store.create("Pod", pod())
    status = store.patch("Pod", "default", "p", {"status": {"phase": "Running"}}, subresource="status")
    assert status["metadata"]["generation"] == 1
    assert status["status"]["phase"] == "Running"
    spec = store.patch("Pod", "default", "p", {"spec": {"x": 1}, "status": {"phase": "Failed"}})
    assert spec["metadata"]["generation"] == 2
    assert spec["status"]["phase"] == "Running"


def test_a_status_write_leaves_the_spec_alone():
    store = make_store()
    store.create("Pod", pod())
    written = store.patch("Pod", "default", "p", {"spec": {"x": 1}}, subresource="status")
    assert "x" not in written["spec"]


def test_a_patch_without_effect_writes_nothing():
    store = make_store()
    before = store.create("Pod", pod())
    assert store.patch("Pod", "default", "p", {"spec": {"nodeName": "n"}}) is before
    assert store.resource_version == 1


def test_foreign_uid_and_stale_version_are_conflicts():
    store = make_store()
    old = store.create("Pod", pod())
    with pytest.raises(ApiError) as caught:
        store.patch("Pod", "default", "p", {}, uid="other")
    assert caught.value.code == 409
    store.patch("Pod", "default", "p", {"spec": {"x": 1}})
    with pytest.raises(ApiError) as caught:
        store.replace("Pod", "default", "p", {**old, "spec": {}})
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")


def test_unknown_objects_are_not_found():
    store = make_store()
    assert store.get("Pod", "default", "p") is None
    for call in (
        lambda: store.patch("Pod", "default", "p", {}),
        lambda: store.delete("Pod", "default", "p"),
    ):
        with pytest.raises(ApiError) as caught:
            call()
        assert (caught.value.code, caught.value.message) == (404, 'pods "p" not found')


def test_graceful_deletion_marks_and_waits():
    wall = Wall()
    store = make_store(wall)
    store.create("Pod", pod(terminationGracePeriodSeconds=7))
    marked = store.delete("Pod", "default", "p")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 7
    assert parse_rfc3339(marked["metadata"]["deletionTimestamp"]) == NOW_NS + 7_000_000_000
    assert marked["metadata"]["generation"] == 2
    assert store.delete("Pod", "default", "p") is marked
    assert store.delete("Pod", "default", "p", grace_seconds=9) is marked
    shorter = store.delete("Pod", "default", "p", grace_seconds=3)
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 3
    assert parse_rfc3339(shorter["metadata"]["deletionTimestamp"]) == NOW_NS + 3_000_000_000
    assert shorter["metadata"]["generation"] == 2
    store.delete("Pod", "default", "p", grace_seconds=0)
    assert store.get("Pod", "default", "p") is None


@pytest.mark.parametrize(
    ("obj", "grace", "removed"),
    [
        ({"kind": "Pod", "spec": {}}, 30, True),
        ({"kind": "Pod", "spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}, 30, True),
        ({"kind": "Pod", "spec": {"nodeName": "n"}}, 0, True),
        ({"kind": "Pod", "spec": {"nodeName": "n"}}, None, False),
        ({"kind": "ConfigMap"}, None, True),
    ],
    ids=["no-node", "terminal", "force", "graceful", "other-kind"],
)
def test_fac_071_when_deletion_is_at_once(obj, grace, removed):
    step = deletion_step({"metadata": {}, **obj}, grace_seconds=grace, now_ns=NOW_NS, deletion_ns=0)
    assert step.remove is removed


def test_fac_071_negative_grace_counts_as_one():
    obj = {"kind": "Pod", "metadata": {}, "spec": {"nodeName": "n"}}
    assert deletion_step(obj, grace_seconds=-5, now_ns=NOW_NS, deletion_ns=0).grace_seconds == 1


def test_finalizers_keep_the_object_until_they_are_gone():
    store = make_store()
    store.create("Pod", {**pod(), "metadata": {"name": "p", "finalizers": ["f"]}})
    kept = store.delete("Pod", "default", "p", grace_seconds=0)
    assert kept["metadata"]["deletionGracePeriodSeconds"] == 0
    assert store.get("Pod", "default", "p") is not None
    store.patch("Pod", "default", "p", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["f"]}})
    assert store.get("Pod", "default", "p") is None


@given(st.lists(st.tuples(st.integers(0, 40) | st.none(), st.integers(0, 20)), max_size=6))
@settings(max_examples=60)
def test_fac_183_grace_never_grows_and_the_end_never_moves_later(deletes):
    wall = Wall()
    store = make_store(wall)
    store.create("Pod", pod(terminationGracePeriodSeconds=30))
    grace, end = None, None
    for wanted, passed in deletes:
        wall.ns += passed * 1_000_000_000
        if store.get("Pod", "default", "p") is None:
            break
        meta = store.delete("Pod", "default", "p", grace_seconds=wanted)["metadata"]
        now_grace, now_end = meta["deletionGracePeriodSeconds"], parse_rfc3339(meta["deletionTimestamp"])
        if grace is not None:
            assert now_grace <= grace
            assert now_end <= max(end, wall.ns)
        grace, end = now_grace, now_end


def test_a_watch_sees_present_objects_then_changes_in_order():
    store = make_store()
    store.create("Pod", pod("a"))
    seen = []

    async def main():
        watch = store.watch("Pod")
        store.create("Pod", pod("b"))
        store.delete("Pod", "default", "b", grace_seconds=0)
        for _ in range(4):
            event = await watch.__anext__()
            seen.append((event.type, event.object["metadata"]["name"]))
        store.unwatch("Pod", watch)
        with pytest.raises(StopAsyncIteration):
            await watch.__anext__()

    trio.run(main)
    # A pod on a node is first shown with grace 0, then gone (POD-522).
    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]


def test_a_watcher_that_falls_behind_is_cut_off():
    store = make_store()

    async def main():
        watch = store.watch("ConfigMap")
        for number in range(WATCH_BACKLOG_MAX + 5):
            store.create("ConfigMap", {"metadata": {"name": f"c{number}"}})
        for _ in range(WATCH_BACKLOG_MAX):
            await watch.__anext__()
        with pytest.raises(ApiError) as caught:
            await watch.__anext__()
        assert (caught.value.code, caught.value.reason) == (410, "Expired")

    trio.run(main)


def test_lists_are_ordered_and_filtered():
    store = make_store()
    for name, namespace in (("b", "x"), ("a", "x"), ("c", "w")):
        store.create("Pod", {"metadata": {"name": name, "namespace": namespace}, "spec": {}})
    assert [obj["metadata"]["name"] for obj in store.list("Pod")] == ["c", "a", "b"]
    assert [obj["metadata"]["name"] for obj in store.list("Pod", namespace="x")] == ["a", "b"]
