"""Ports, URLs, headers and commands of probes: PRB-20 to PRB-25, HOK-10."""

import pytest

from kubelet_emu.api.types import Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, HTTPHeader
from kubelet_emu.prober.targets import (
    TargetError,
    expand_command,
    http_target,
    make_target,
    request_headers,
    resolve_port,
)

CONTAINER = Container(
    name="c",
    ports=(ContainerPort(name="found", container_port=93), ContainerPort(name="quux", container_port=8080)),
)


@pytest.mark.parametrize("port", [-1, 0, 65536, "", "-1", "not-found"], ids=lambda port: f"PRB-20-{port!r}")
def test_bad_ports(port):
    with pytest.raises(TargetError):
        resolve_port(port, CONTAINER)


@pytest.mark.parametrize(
    ("port", "number"), [("found", 93), (76, 76), ("118", 118)], ids=lambda port: f"PRB-20-{port!r}"
)
def test_good_ports(port, number):
    assert resolve_port(port, CONTAINER) == number


def test_prb_20_texts():
    with pytest.raises(TargetError, match=r"^invalid port number: 65536$"):
        resolve_port(65536, CONTAINER)
    with pytest.raises(TargetError, match=r'^strconv.Atoi: parsing "x": invalid syntax$'):
        resolve_port("x", CONTAINER)


@pytest.mark.parametrize(
    ("action", "url"),
    [
        (
            {"host": "example.test", "path": "foo", "port": "42", "scheme": "http"},
            "http://example.test:42/foo",
        ),
        ({"path": "/foo", "port": 42}, "http://233.252.0.1:42/foo"),
        ({"path": "foo", "port": "quux"}, "http://233.252.0.1:8080/foo"),
        ({"host": "foo", "path": "bar", "port": "70", "scheme": "https"}, "https://foo:70/bar"),
        ({"path": "foo", "port": 4430, "scheme": "https"}, "https://233.252.0.1:4430/foo"),
        ({"path": "foo", "port": 80, "scheme": "baz"}, "baz://233.252.0.1:80/foo"),
        ({"path": "foo?k=v", "port": 80}, "http://233.252.0.1:80/foo?k=v"),
        ({"path": "foo#frag", "port": 80}, "http://233.252.0.1:80/foo#frag"),
        ({"port": 80}, "http://233.252.0.1:80/"),
        ({"host": "::1", "port": 80}, "http://[::1]:80/"),
    ],
    ids=lambda value: f"HOK-10-{value}" if isinstance(value, str) else None,
)
def test_urls(action, url):
    assert http_target(HTTPGetAction(**action), CONTAINER, "233.252.0.1").url == url


def test_prb_21_request_line():
    assert make_target("http", "h", 80, "foo?k=v#frag").request_target == "/foo?k=v"
    assert make_target("http", "h", 80, "/a b").request_target == "/a%20b"


def headers(*pairs, port=8080):
    given = [HTTPHeader(name=name, value=value) for name, value in pairs]
    return dict(request_headers(given, make_target("http", "1.2.3.4", port, "/"), "kube-probe/1.36"))


def test_prb_22_headers():
    plain = {"User-Agent": "kube-probe/1.36", "Accept": "*/*", "Connection": "close"}
    assert headers() == {"Host": "1.2.3.4:8080", **plain}
    assert headers(port=80)["Host"] == "1.2.3.4"
    assert headers(("Host", "from.header"))["Host"] == "from.header"
    assert headers(("user-agent", "me"))["user-agent"] == "me"
    assert "Accept" not in headers(("Accept", ""))
    target = make_target("http", "h", 80, "/")
    twice = [HTTPHeader(name="X", value="1"), HTTPHeader(name="X", value="2")]
    assert [value for name, value in request_headers(twice, target, "u") if name == "X"] == ["1", "2"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("some $(A) $(B)", "some script $(B)"),
        ("$$(A)", "$(A)"),
        ("$A $", "$A $"),
        ("$(A", "$(A"),
        ("$(C)", "$(C)"),
    ],
    ids=lambda value: f"PRB-25-{value}",
)
def test_command_expansion(word, expected):
    env = [EnvVar(name="A", value="script"), EnvVar(name="C", value_from=EnvVarSource())]
    assert expand_command([word], env) == (expected,)
