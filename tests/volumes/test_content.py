"""VOL-05, VOL-08: what files a volume holds, and the texts when it cannot."""

import pytest

from kubelet_emu.api.codec import from_json
from kubelet_emu.api.types import KeyToPath, ObjectMeta, Pod, Volume
from kubelet_emu.volumes.content import (
    PayloadFile,
    VolumeError,
    config_map_payload,
    projected_payload,
    secret_data,
    secret_payload,
)

POD = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u"))


def texts(payload):
    return {path: (item.data, item.mode) for path, item in payload.items()}


def config(obj, *items, optional=False):
    return config_map_payload("c", obj, items=items, default_mode=0o644, optional=optional)


def secret(obj, *items, optional=False):
    return secret_payload("s", obj, items=items, default_mode=0o400, optional=optional)


def test_all_keys_with_the_default_mode_in_order():
    found = config({"data": {"b": "2", "a": "1"}, "binaryData": {"c": "Aw=="}})
    assert list(found) == ["a", "b", "c"]
    assert texts(found) == {"a": (b"1", 0o644), "b": (b"2", 0o644), "c": (b"\x03", 0o644)}


def test_chosen_keys_with_their_paths_and_modes():
    items = (KeyToPath(key="a", path="x/y", mode=0o600), KeyToPath(key="b", path="b"))
    assert texts(config({"data": {"a": "1", "b": "2", "c": "3"}}, *items)) == {
        "x/y": (b"1", 0o600),
        "b": (b"2", 0o644),
    }


def test_vol_08_missing_objects_and_keys():
    with pytest.raises(VolumeError, match=r'^configmap "c" not found$'):
        config(None)
    with pytest.raises(VolumeError, match=r'^secret "s" not found$'):
        secret(None)
    with pytest.raises(VolumeError, match=r"^configmap references non-existent config key: k$"):
        config({"data": {}}, KeyToPath(key="k", path="k"))
    with pytest.raises(VolumeError, match=r"^references non-existent secret key: k$"):
        secret({"data": {}}, KeyToPath(key="k", path="k"))


def test_vol_08_optional_sources():
    assert config(None, optional=True) == {}
    assert secret(None, optional=True) == {}
    items = (KeyToPath(key="k", path="k"), KeyToPath(key="a", path="a"))
    assert list(config({"data": {"a": "1"}}, *items, optional=True)) == ["a"]


def test_secret_data_is_decoded_and_string_data_wins():
    obj = {"data": {"a": "djE=", "b": "djI=", "odd": "not base64!"}, "stringData": {"b": "text"}}
    assert secret_data(obj) == {"a": b"v1", "b": b"text", "odd": b"not base64!"}
    assert secret_data({}) == {}


def projected(sources, objects, **more):
    volume = from_json(Volume, {"name": "v", "projected": {"sources": sources}})
    return projected_payload(
        POD,
        volume.projected.sources,
        default_mode=0o644,
        lookup=lambda kind, name: objects.get((kind, name)),
        downward=lambda pod, items, mode: {item.path: PayloadFile(b"down", mode) for item in items},
        token=lambda pod, source: b"token",
        **more,
    )


def test_projected_sources_lie_over_each_other():
    sources = [
        {"configMap": {"name": "c", "items": [{"key": "a", "path": "one"}]}},
        {"secret": {"name": "s"}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"serviceAccountToken": {"path": "token"}},
        {"configMap": {"name": "later"}},
    ]
    objects = {
        ("ConfigMap", "c"): {"data": {"a": "1"}},
        ("Secret", "s"): {"stringData": {"two": "2", "both": "old"}},
        ("ConfigMap", "later"): {"data": {"both": "new"}},
    }
    found = projected(sources, objects)
    assert {path: item.data for path, item in found.items()} == {
        "one": b"1",
        "two": b"2",
        "both": b"new",
        "name": b"down",
        "token": b"token",
    }


def test_vol_08_a_missing_projected_source():
    with pytest.raises(VolumeError, match=r'^configmap "c" not found$'):
        projected([{"configMap": {"name": "c"}}], {})
    assert projected([{"secret": {"name": "s", "optional": True}}], {}) == {}
