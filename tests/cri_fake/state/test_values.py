# pyright: basic
"""Values of the store survive being written down."""

import json

import pytest
from attrs import evolve

from cri_fake.state.values import BadValue, container_from, image_from, plain, sandbox_from
from cri_fake.store.containers import Container
from cri_fake.store.images import Image, ImageConfig
from cri_fake.store.sandboxes import Sandbox
from k8s_proto import runtime_v1_pb2 as cri

RESOURCES = cri.LinuxContainerResources(cpu_shares=7, unified={"a": "b"})
SANDBOX = Sandbox(
    id="s" * 64,
    reserved_name="web_default_u_0",
    name="web\n\x00ü\uffff",
    namespace="default",
    uid="u",
    attempt=3,
    config=cri.PodSandboxConfig(
        hostname="h", labels={"k": "v"}, port_mappings=[cri.PortMapping(host_port=1)]
    ),
    ips=("10.0.0.2", "fd00::2"),
    created_at_ns=1_700_000_000_123_456_789,
    resources=RESOURCES,
)
CONTAINER = Container(
    id="c" * 64,
    sandbox_id=SANDBOX.id,
    reserved_name="n",
    name="main",
    attempt=0,
    instance=4,
    config=cri.ContainerConfig(envs=[cri.KeyValue(key="B", value=b"\x00\xff")]),
    image_id="sha256:1",
    image_name="busybox",
    image_ref="busybox@sha256:2",
    log_path="/var/log/x",
    stop_signal=15,
    created_at_ns=5,
    started_at_ns=6,
    message="oh\nno",
)
IMAGE = Image(
    id="sha256:1",
    repo_tags=("a:1", "b:2"),
    size_bytes=1 << 40,
    pinned=True,
    config=ImageConfig(entrypoint=("/x",), environment=(("A", "b"), ("C", "d")), user="1:2"),
)


@pytest.mark.parametrize(
    ("value", "read"), [(SANDBOX, sandbox_from), (CONTAINER, container_from), (IMAGE, image_from)]
)
def test_there_and_back(value, read):
    assert read(json.loads(json.dumps(plain(value)))) == value


def test_flags_of_the_moment_are_not_kept():
    busy = evolve(CONTAINER, starting=True, removing=True)
    assert container_from(plain(busy)) == CONTAINER


def test_fields_of_other_versions():
    kept = {**plain(IMAGE), "newer": 1}
    del kept["pinned"]
    assert image_from(kept) == evolve(IMAGE, pinned=False)
    del kept["size_bytes"]
    with pytest.raises(BadValue, match="cannot read a kept image"):
        image_from(kept)


@pytest.mark.parametrize("value", [None, 7, "x", [], {"config": 3}, {"config": {"base64": "!"}}])
def test_nonsense_is_told(value):
    for read in (sandbox_from, container_from, image_from):
        with pytest.raises(BadValue):
            read(value)
