"""Merge patches: what is merged by key, what is replaced, what the directives do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.apiserver.patch import merge_patch, strategic_merge_patch

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b"]),
    lambda inner: st.dictionaries(st.sampled_from("xyz"), inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": [1]}, {"a": [2, 3]}, {"a": [2, 3]}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ("text", {"a": {"b": None}}, {"a": {}}),
    ],
)
def test_merge_patch_follows_rfc_7386(target, patch, expected):
    assert merge_patch(target, patch) == expected


@given(JSON, JSON)
def test_merge_patch_twice_is_once(target, patch):
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once


def pod(*containers):
    return {"spec": {"containers": list(containers)}}


def test_containers_are_merged_by_name():
    old = pod({"name": "a", "image": "x"}, {"name": "b", "image": "y"})
    new = strategic_merge_patch(old, pod({"name": "b", "image": "z"}))
    assert new == pod({"name": "a", "image": "x"}, {"name": "b", "image": "z"})
    assert old == pod({"name": "a", "image": "x"}, {"name": "b", "image": "y"})


def test_an_unknown_element_is_appended():
    new = strategic_merge_patch({"conditions": [{"type": "A"}]}, {"conditions": [{"type": "B"}]})
    assert new == {"conditions": [{"type": "A"}, {"type": "B"}]}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"volumes": [{"name": "b", "$patch": "delete"}]}, {"volumes": [{"name": "a"}]}),
        ({"volumes": [{"$patch": "replace"}, {"name": "c"}]}, {"volumes": [{"name": "c"}]}),
        (
            {"$setElementOrder/volumes": [{"name": "b"}, {"name": "a"}]},
            {"volumes": [{"name": "b"}, {"name": "a"}]},
        ),
        ({"$patch": "replace", "x": 1}, {"x": 1}),
        ({"$patch": "delete"}, {}),
        ({"volumes": None}, {}),
        ({"$retainKeys": ["x"], "x": 2}, {"x": 2}),
    ],
    ids=["delete", "replace-list", "order", "replace", "delete-all", "null", "retain"],
)
def test_directives(patch, expected):
    assert strategic_merge_patch({"volumes": [{"name": "a"}, {"name": "b"}]}, patch) == expected


def test_finalizers_are_a_set():
    old = {"metadata": {"finalizers": ["a"]}}
    assert strategic_merge_patch(old, {"metadata": {"finalizers": ["a", "b"]}}) == {
        "metadata": {"finalizers": ["a", "b"]}
    }
    gone = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}
    assert strategic_merge_patch(old, gone) == {"metadata": {"finalizers": []}}


def test_atomic_lists_are_replaced():
    old = {"containerStatuses": [{"name": "a", "ready": True}]}
    assert strategic_merge_patch(old, {"containerStatuses": [{"name": "b"}]}) == {
        "containerStatuses": [{"name": "b"}]
    }


def test_an_element_without_its_key_is_refused():
    with pytest.raises(ApiError) as caught:
        strategic_merge_patch({}, {"containers": [{"image": "x"}]})
    assert caught.value.code == 400
