"""Which credential of a pull secret fits which image (IMG-24)."""

import base64
import json

import pytest

from kubelet_emu.keyring import keyring_of


def secret(config, kind="kubernetes.io/dockerconfigjson", key=".dockerconfigjson", name="s"):
    data = base64.b64encode(json.dumps(config).encode()).decode()
    return {"type": kind, "metadata": {"name": name, "namespace": "ns", "uid": "u"}, "data": {key: data}}


def users(places, image):
    auths = {place: {"username": place, "password": "p"} for place in places}
    return [credential.username for credential in keyring_of([secret({"auths": auths})]).matching(image)]


@pytest.mark.parametrize(
    ("places", "image", "found"),
    [
        (["registry.example"], "registry.example/team/tool:v1", ["registry.example"]),
        (["registry.example"], "other.example/tool", []),
        (["registry.example:5000"], "registry.example:5000/tool", ["registry.example:5000"]),
        (["registry.example:5000"], "registry.example/tool", []),
        (["registry.example/team", "registry.example"], "registry.example/team/x@sha256:0",
         ["registry.example/team", "registry.example"]),
        (["registry.example/team"], "registry.example/other/x", []),
        (["*.example"], "registry.example/tool", ["*.example"]),
        (["*.example"], "a.b.example/tool", []),
        (["https://index.docker.io/v1/"], "busybox", ["https://index.docker.io/v1/"]),
        (["https://index.docker.io/v1/"], "team/tool:v1", ["https://index.docker.io/v1/"]),
        (["https://index.docker.io/v1/"], "docker.io/library/busybox:1.36", ["https://index.docker.io/v1/"]),
        (["https://index.docker.io/v1/"], "registry.example/tool", []),
        (["https://registry.example/v2/"], "registry.example/tool", ["https://registry.example/v2/"]),
    ],
)  # fmt: skip
def test_img_24_matching(places, image, found):
    assert users(places, image) == found


def test_both_types_of_secret_and_coordinates():
    old = secret({"r.example": {"auth": base64.b64encode(b"me:se:cret").decode()}},
                 kind="kubernetes.io/dockercfg", key=".dockercfg")  # fmt: skip
    (credential,) = keyring_of([old]).matching("r.example/x")
    assert (credential.username, credential.password) == ("me", "se:cret")
    assert (credential.secret_namespace, credential.secret_name, credential.secret_uid) == ("ns", "s", "u")
    assert len(credential.secret_hash) == 64


def test_img_24_several_secrets_are_tried_in_their_order():
    one = secret({"auths": {"r.example": {"username": "1", "password": ""}}}, name="one")
    two = secret({"auths": {"r.example": {"username": "2", "password": ""}}}, name="two")
    assert [c.username for c in keyring_of([one, two]).matching("r.example/x")] == ["1", "2"]


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "Opaque", "data": {".dockerconfigjson": "e30="}},
        {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "bm8ganNvbg=="}},
        {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "W10="}},
        {"type": "kubernetes.io/dockerconfigjson", "data": {}},
        secret({"auths": {"r.example": "text"}}),
        secret({"auths": []}),
    ],
    ids=["type", "no-json", "list", "no-key", "entry", "auths"],
)
def test_what_cannot_be_read_is_left_out(broken):
    assert keyring_of([broken]).entries == ()


def test_an_auth_that_cannot_be_read_leaves_user_and_password():
    (credential,) = keyring_of(
        [secret({"auths": {"r.example": {"auth": "%%", "username": "u", "password": "p"}}})]
    ).matching("r.example/x")
    assert (credential.username, credential.password) == ("u", "p")
