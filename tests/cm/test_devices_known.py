"""Known answers of the device manager, by the id of their table."""

import base64
import json

import pytest

from kubelet_emu.cm.devicemanager.checkpoint import (
    Checkpoint,
    Entry,
    checkpoint_of,
    decode,
    encode,
    restore,
)
from kubelet_emu.cm.devicemanager.choosing import Request, split_by_affinity
from kubelet_emu.cm.devicemanager.hints import container_hints, container_request, generate, pod_request
from kubelet_emu.cm.devicemanager.state import Device, DeviceState, Endpoint
from kubelet_emu.cm.machine import MachineTopology
from kubelet_emu.cm.topologymanager.hints import Hint, mask_of, nodes_of
from kubelet_emu.errors import PeerError

R = "domain1.com/resource1"
GPU = "example.com/gpu"

SAMPLE = (
    b'{"Data":{"PodDeviceEntries":[{"PodUID":"bd96b972-e5f3-4a35-81b5-7b5c254e1d49","ContainerName":"train",'
    b'"ResourceName":"google.com/tpu","DeviceIDs":{"0":["tpu-0000"]},'
    b'"AllocResp":"ChsKD1ZJU0lCTEVfREVWSUNFUxIIdHB1LTAwMDA="},'
    b'{"PodUID":"bd96b972-e5f3-4a35-81b5-7b5c254e1d49","ContainerName":"train",'
    b'"ResourceName":"nvidia.com/gpu","DeviceIDs":{"0":["GPU-0000","GPU-0001"]},'
    b'"AllocResp":"CiQKD1ZJU0lCTEVfREVWSUNFUxIRR1BVLTAwMDAsR1BVLTAwMDE="}],'
    b'"RegisteredDevices":{"google.com/tpu":["tpu-0003","tpu-0000","tpu-0001","tpu-0002"],'
    b'"nvidia.com/gpu":["GPU-0006","GPU-0007","GPU-0000","GPU-0001","GPU-0002","GPU-0003","GPU-0004",'
    b'"GPU-0005"]}},"Checksum":1959999574}'
)
"""Written by a kubelet of 1.36.2."""


def machine(nodes: int) -> MachineTopology:
    return MachineTopology(sockets=nodes, cores_per_node=4)


def listing(*devices: str) -> list[Device]:
    return [Device(one[:-2], "Healthy" if one.endswith("H") else "Unhealthy") for one in devices]


# -- DEV-084, DEV-080 to DEV-085 --

ENTRY = Entry(
    pod_uid="pod-uid-1",
    container="c1",
    resource="example.com/resource",
    by_node={-1: ("Dev-1",)},
    response=base64.b64decode("CgYKAUESATE="),
)
TWO = {"example.com/resource": ("Dev-1", "Dev-2")}


@pytest.mark.parametrize(
    ("checkpoint", "checksum"),
    [
        pytest.param(Checkpoint(entries=None, registered={}), 3467439661, id="DEV-084-1"),
        pytest.param(Checkpoint(entries=None, registered=TWO), 468646588, id="DEV-084-2"),
        pytest.param(Checkpoint(entries=(ENTRY,), registered=TWO), 3399719605, id="DEV-084-3"),
    ],
)
def test_the_checksum_is_that_of_a_kubelet(checkpoint, checksum):
    content = encode(checkpoint)
    assert json.loads(content)["Checksum"] == checksum
    assert decode(content) == checkpoint
    assert b"\n" not in content


def test_DEV_080_a_kubelets_file_is_read_and_written_again_to_the_byte():
    assert encode(decode(SAMPLE)) == SAMPLE


def test_DEV_081_a_checkpoint_gives_empty_resources_with_a_plugin_that_is_gone():
    state = DeviceState()
    restore(state, decode(SAMPLE), 7.0)
    assert state.healthy == {"google.com/tpu": set(), "nvidia.com/gpu": set()}
    assert state.unhealthy == state.healthy
    assert state.allocated == {"google.com/tpu": {"tpu-0000"}, "nvidia.com/gpu": {"GPU-0000", "GPU-0001"}}
    assert state.endpoints["nvidia.com/gpu"].stopped_at_seconds == 7.0
    held = state.pods.get("bd96b972-e5f3-4a35-81b5-7b5c254e1d49", "train", "nvidia.com/gpu")
    assert held is not None
    assert held.ids == {"GPU-0000", "GPU-0001"}
    written = decode(encode(checkpoint_of(state)))
    assert written.registered == {"google.com/tpu": (), "nvidia.com/gpu": ()}
    assert written.entries == decode(SAMPLE).entries


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"Data":1}',
        b'{"Data":{"PodDeviceEntries":{}}}',
        b'{"Data":{"PodDeviceEntries":[1]}}',
        b'{"Data":{"PodDeviceEntries":[{"DeviceIDs":{"x":[]}}],"RegisteredDevices":{}},"Checksum":1}',
        b'{"Data":{"PodDeviceEntries":[{"AllocResp":"*"}],"RegisteredDevices":{}},"Checksum":1}',
        b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{"a":[1]}},"Checksum":1}',
        SAMPLE.replace(b"GPU-0006", b"GPU-0009"),
        SAMPLE.replace(b"1959999574", b"1959999575"),
        b"\xff\xfe",
        b"[" * 100_000,
    ],
    ids=lambda content: f"DEV-085-{content[:30].decode('latin-1')}-{len(content)}",
)
def test_a_file_that_is_not_right_is_refused(content):
    with pytest.raises(PeerError):
        decode(content)


def test_DEV_080_strings_are_escaped_as_go_does():
    checkpoint = Checkpoint(entries=None, registered={"a.b/c": ("<&>", "é", "\u2028", '"\\')})
    content = encode(checkpoint)
    assert b"\\u003c\\u0026\\u003e" in content
    assert "é".encode() in content
    assert b"\\u2028" in content
    assert decode(content) == checkpoint


# -- DEV-190, DEV-192 --


def test_DEV_190_capacity_step_by_step():
    state = DeviceState()
    state.connected(R, Endpoint(path="a", connection=1))
    assert state.capacity(0.0).capacity == {}

    def step(*devices: str) -> tuple[int, int]:
        state.listed(R, listing(*devices))
        found = state.capacity(0.0)
        return found.capacity[R], found.allocatable[R]

    assert step("D1 H", "D2 H", "D3 U") == (3, 2)
    assert step("D1 H", "D2 H") == (2, 2)
    assert step("D1 H", "D2 U", "D3 U") == (3, 1)
    assert step("D2 U", "D3 U") == (2, 0)
    other = "domain2.com/resource2"
    state.connected(other, Endpoint(path="b", connection=2))
    state.listed(other, listing("D1 H", "D2 H"))
    found = state.capacity(0.0)
    assert (found.capacity, found.allocatable) == ({R: 2, other: 2}, {R: 0, other: 2})
    state.disconnected(R, 10.0)
    assert state.capacity(310.0).removed == ()
    gone = state.capacity(310.1)
    assert gone.removed == (R,)
    assert R not in gone.capacity
    assert R not in gone.allocatable
    assert state.capacity(400.0).removed == ()


def test_DEV_190_disconnected_then_expired():
    state = DeviceState()
    state.connected(R, Endpoint(path="a", connection=1))
    state.listed(R, listing("D1 H", "D2 H", "D3 U"))
    state.disconnected(R, 0.0)
    found = state.capacity(300.0)
    assert (found.capacity[R], found.allocatable[R]) == (3, 0)
    state.capacity(300.1)
    assert (state.endpoints, state.healthy, state.unhealthy) == ({}, {}, {})
    assert state.devices[R]


def test_DEV_190_a_checkpoint_read_by_a_new_manager():
    old = DeviceState()
    old.connected(R, Endpoint(path="a", connection=1))
    old.listed(R, listing("D1 H", "D2 H", "D3 U"))
    state = DeviceState()
    restore(state, decode(encode(checkpoint_of(old))), 0.0)
    found = state.capacity(1.0)
    assert (found.capacity[R], found.allocatable[R]) == (0, 0)
    assert state.is_plugin_resource(R)


def test_DEV_043_a_list_that_never_came_leaves_the_resource_unknown():
    state = DeviceState()
    state.connected(R, Endpoint(path="a", connection=1))
    state.disconnected(R, 0.0)
    found = state.capacity(1.0)
    assert (found.capacity.get(R), found.allocatable.get(R)) == (0, None)
    assert not state.is_plugin_resource(R)


def test_DEV_192_the_last_registration_wins():
    state = DeviceState()
    for number, devices in enumerate((["Dev1 H", "Dev2 H"], ["Dev1 H", "Dev2 H"], ["Dev3 H"]), start=1):
        state.connected(R, Endpoint(path=f"{number}", connection=number))
        state.listed(R, listing(*devices))
        found = state.capacity(0.0)
        assert (found.capacity[R], found.allocatable[R]) == (len(devices), len(devices))


# -- DEV-193 to DEV-196 --


@pytest.mark.parametrize(
    ("held", "limit", "healthy", "error"),
    [
        pytest.param(
            ["dev1", "dev2"],
            2,
            [],
            f"no healthy devices present; cannot allocate unhealthy devices {R}",
            id="DEV-193-1",
        ),
        pytest.param(["dev5"], 1, None, f"cannot allocate unregistered device {R}", id="DEV-193-2"),
        pytest.param(
            ["dev5"],
            1,
            ["dev7", "dev8"],
            f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {R}",
            id="DEV-193-3",
        ),
    ],
)
def test_what_is_held_must_be_healthy(make_allocator, held, limit, healthy, error):
    state = DeviceState()
    state.assign("uid", "main", R, held, b"")
    state.rebuild_allocated()
    if healthy is not None:
        state.healthy[R] = set(healthy)
    request = Request(uid="uid", container="main", resource=R, limit=limit)
    assert make_allocator(state).choose(request).error == error


def test_DEV_194_the_sequence_of_three_pods(make_state, make_pod, make_allocator):
    other = "domain2.com/resource2"
    state = make_state({R: {"dev1": None, "dev2": None}, other: {"dev3": None, "dev4": None}})
    allocator = make_allocator(state)
    first = make_pod({"main": {R: 2, other: 1}}, uid="a")
    assert allocator.pod(first)["main"] > {"dev1", "dev2"}
    second = make_pod({"main": {R: 1}}, uid="b")
    error = allocator.container(second, second.spec.containers[0]).error
    assert error == f"requested number of devices unavailable for {R}. Requested: 1, Available: 0"
    assert {name: len(ids) for name, ids in state.allocated.items()} == {R: 2, other: 1}
    third = make_pod({"main": {other: 1}}, uid="c")
    allocator.pod(third)
    assert {name: len(ids) for name, ids in state.allocated.items()} == {R: 2, other: 2}
    assert state.collect(["b", "c"]) == ("a",)
    assert state.pods.container("a", "main") == {}
    assert {name: len(ids) for name, ids in state.allocated.items()} == {other: 1}


def test_DEV_195_init_containers_share_with_those_after_them(make_state, make_pod, make_allocator):
    state = make_state({R: {"dev1": None, "dev2": None}})
    pod = make_pod({"app1": {R: 1}, "app2": {R: 1}}, inits={"init1": {R: 1}, "init2": {R: 2}})
    held = make_allocator(state).pod(pod)
    assert held["init1"] <= held["init2"]
    assert not held["app1"] & held["app2"]
    assert held["init2"] >= held["app1"] | held["app2"]


def test_DEV_195_sidecars_keep_what_they_have(make_state, make_pod, make_allocator):
    state = make_state({R: {f"dev{n}": None for n in range(6)}})
    pod = make_pod({"app1": {R: 1}, "app2": {R: 2}}, inits={"init": {R: 3}, "side1": {R: 1}, "side2": {R: 2}})
    held = make_allocator(state).pod(pod)
    assert held["init"] >= held["side1"] | held["side2"]
    rest = [held[name] for name in ("side1", "side2", "app1", "app2")]
    assert sum(map(len, rest)) == len(set().union(*rest)) == 6


def test_DEV_195_an_init_container_a_sidecar_and_an_app(make_state, make_pod, make_allocator):
    state = make_state({R: {"dev1": None, "dev2": None}})
    pod = make_pod({"app": {R: 1}}, inits={"init": {R: 1}, "side": {R: 1}})
    held = make_allocator(state).pod(pod)
    assert held["init"] == held["side"]
    assert not held["app"] & held["side"]


EIGHT = {str(n): None for n in range(8)}
SPLIT = {str(n): (0,) if n < 4 else (1,) for n in range(8)}


@pytest.mark.parametrize(
    ("devices", "hint", "in_use", "reusable", "limit", "available", "must"),
    [
        pytest.param(dict(list(EIGHT.items())[:4]), None, "", "", 1, "0123", "", id="DEV-196-1"),
        pytest.param(EIGHT, None, "05", "05", 4, "01234567", "05", id="DEV-196-2"),
        pytest.param(EIGHT, None, "0541", "05", 4, "023567", "05", id="DEV-196-3"),
        pytest.param(SPLIT, 0, "16", "16", 6, "01234567", "01236", id="DEV-196-4"),
        pytest.param(SPLIT, 0, "0167", "16", 6, "123456", "1236", id="DEV-196-5"),
    ],
)
def test_what_a_plugin_is_asked(
    make_state, make_allocator, devices, hint, in_use, reusable, limit, available, must
):
    state = make_state({R: devices})
    state.mark(R, in_use)
    state.begin_pod("uid")[R] = set(reusable)
    allocator = make_allocator(state)
    allocator.choose(
        Request(
            uid="uid",
            container="main",
            resource=R,
            limit=limit,
            hint=None if hint is None else Hint(mask_of([hint]), True),
        )
    )
    (question,) = allocator.asked
    assert (set(question.available), set(question.must_include), question.size) == (
        set(available),
        set(must),
        limit,
    )


# -- DEV-197, DEV-198 --

HUNDREDS = {str(n): (n // 100,) for n in range(200)}
THREE = {str(n): (0,) if n < 3 else (1,) for n in range(100)}
SIX = {f"{node}{n}": (node,) for node in (0, 1) for n in range(3)}
PAIRS = {f"{node}{n}": (node,) for node in range(4) for n in range(2)}


@pytest.mark.parametrize(
    ("devices", "hint", "limit", "prefers", "exactly", "counts"),
    [
        pytest.param(SIX, [0], 4, [], None, {0: 3, 1: 1}, id="DEV-197-1"),
        pytest.param(SIX, [1], 4, [], None, {0: 1, 1: 3}, id="DEV-197-2"),
        pytest.param(PAIRS, [1, 3], 4, [], None, {1: 2, 3: 2}, id="DEV-197-3"),
        pytest.param({"a": None, "b": (1,)}, [1], 1, [], {"b"}, {1: 1}, id="DEV-197-4"),
        pytest.param(
            HUNDREDS,
            [0],
            5,
            ["0", "19", "83", "42", "77"],
            {"0", "19", "83", "42", "77"},
            {0: 5},
            id="DEV-197-5",
        ),
        pytest.param(
            HUNDREDS, [0], 5, ["0", "19", "83", "150", "186"], {"0", "19", "83"}, {0: 5}, id="DEV-197-6"
        ),
        pytest.param(
            {str(n): (1,) for n in range(100)},
            [1],
            5,
            ["0", "19", "83", "bogus0", "bogus1"],
            {"0", "19", "83"},
            {1: 5},
            id="DEV-197-7",
        ),
        pytest.param(
            THREE,
            [0],
            5,
            ["0", "1", "2", "42", "83"],
            {"0", "1", "2", "42", "83"},
            {0: 3, 1: 2},
            id="DEV-197-8",
        ),
        pytest.param(
            THREE,
            [0],
            5,
            ["0", "1", "2", "42", "bogus0"],
            {"0", "1", "2", "42"},
            {0: 3, 1: 2},
            id="DEV-197-9",
        ),
    ],
)
def test_alignment_and_preference(make_state, make_allocator, devices, hint, limit, prefers, exactly, counts):
    state = make_state({R: devices})
    request = Request(uid="uid", container="main", resource=R, limit=limit, hint=Hint(mask_of(hint), True))
    ids = make_allocator(state).choose(request, lambda _: prefers).ids
    found: dict[int, int] = {}
    for one in ids:
        for node in devices[one] or ():
            found[node] = found.get(node, 0) + 1
    assert found == counts
    assert len(ids) == limit
    assert set(ids) >= (exactly or set())


@pytest.mark.parametrize(
    ("available", "aligned", "unaligned"),
    [
        pytest.param("12", "2", "1", id="DEV-198-1"),
        pytest.param("34", "34", "", id="DEV-198-2"),
        pytest.param("1234", "234", "1", id="DEV-198-3"),
    ],
)
def test_devices_are_divided_by_the_hint(make_state, available, aligned, unaligned):
    state = make_state({R: {"1": (1,), "2": (1, 2), "3": (2,), "4": (2,)}})
    split = split_by_affinity(state, R, set(available), Hint(mask_of([2]), True))
    assert (set(split.aligned), set(split.unaligned), split.no_affinity) == (
        set(aligned),
        set(unaligned),
        (),
    )


# -- DEV-199, DEV-19A --


@pytest.mark.parametrize(
    ("containers", "inits", "expected"),
    [
        pytest.param({"app": {}}, {"i1": {GPU: 2}, "i2": {GPU: 4}}, {GPU: 4}, id="DEV-199-1"),
        pytest.param(
            {"a": {GPU: 1, R: 1}, "b": {GPU: 1, R: 1}},
            {"i1": {GPU: 2, R: 2}, "i2": {GPU: 2, R: 2}},
            {GPU: 2, R: 2},
            id="DEV-199-2",
        ),
        pytest.param(
            {"a": {GPU: 1, R: 1}, "b": {GPU: 1}},
            {"i1": {GPU: 2, R: 1}, "i2": {GPU: 3, R: 2}},
            {GPU: 3, R: 2},
            id="DEV-199-3",
        ),
        pytest.param(
            {"a": {GPU: 3, R: 2}, "b": {GPU: 3, R: 2}}, {"i1": {GPU: 1}}, {GPU: 6, R: 4}, id="DEV-199-4"
        ),
    ],
)
def test_what_a_pod_needs_at_its_peak(make_state, make_pod, containers, inits, expected):
    state = make_state({GPU: {"g": None}, R: {"n": None}})
    assert pod_request(state, make_pod(containers, inits=inits)) == expected


def test_DEV_061_only_limits_of_known_resources_count(make_state, make_pod):
    state = make_state({GPU: {"g": None}})
    pod = make_pod({"main": {GPU: 1, "other.com/thing": 2, "cpu": 3}})
    assert container_request(state, pod.spec.containers[0]) == {GPU: 1}


def test_DEV_19A_allocatable_is_raised_to_what_is_held():
    state = DeviceState()
    state.mark("domain1.com/resource1", ["a"])
    state.mark("domain2.com/resource2", ["b"])
    raised = state.at_least_held({"domain2.com/resource2": 2, "cpu": 4})
    assert raised == {"domain1.com/resource1": 1, "domain2.com/resource2": 2, "cpu": 4}


# -- DEV-13E --


def sets(hints):
    if hints is None:
        return None
    return {(frozenset(nodes_of(hint.mask)), hint.preferred) for hint in hints}


def hint(*nodes: int, preferred: bool = False):
    return frozenset(nodes), preferred


TWO_TWO = {"a": (0,), "b": (0,), "c": (1,), "d": (1,)}
FOUR_FOUR = {str(n): (n // 4,) for n in range(8)}
ONE_ONE = {"a": (0,), "b": (1,)}


@pytest.mark.parametrize(
    ("devices", "wanted", "nodes", "expected"),
    [
        pytest.param({"a": None}, 1, 2, None, id="DEV-13E-01-missing"),
        pytest.param({"a": ()}, 1, 2, None, id="DEV-13E-01-empty"),
        pytest.param({"a": None, "b": (1,)}, 1, 2, {hint(1, preferred=True)}, id="DEV-13E-02"),
        pytest.param(
            ONE_ONE, 1, 2, {hint(0, preferred=True), hint(1, preferred=True), hint(0, 1)}, id="DEV-13E-03"
        ),
        pytest.param(ONE_ONE, 2, 2, {hint(0, 1, preferred=True)}, id="DEV-13E-04"),
        pytest.param(
            TWO_TWO, 2, 2, {hint(0, preferred=True), hint(1, preferred=True), hint(0, 1)}, id="DEV-13E-05"
        ),
        pytest.param(TWO_TWO, 6, 2, set(), id="DEV-13E-07"),
        pytest.param(FOUR_FOUR, 5, 2, {hint(0, 1, preferred=True)}, id="DEV-13E-08"),
        pytest.param({"a": (0,)}, 1, 2, {hint(0, preferred=True)}, id="DEV-13E-09"),
        pytest.param(
            ONE_ONE, 1, 34, {hint(0, preferred=True), hint(1, preferred=True), hint(0, 1)}, id="DEV-13E-10"
        ),
    ],
)
def test_hints_for_free_devices(make_state, make_pod, devices, wanted, nodes, expected):
    state = make_state({R: devices})
    pod = make_pod({"main": {R: wanted}})
    hints = container_hints(state, pod, pod.spec.containers[0], machine(nodes))
    assert sets(hints[R]) == expected


def test_DEV_13E_06_busy_devices_decide_what_is_preferred(make_state, make_pod):
    state = make_state({R: TWO_TWO})
    state.assign("other", "main", R, ["a", "c"], b"")
    state.rebuild_allocated()
    pod = make_pod({"main": {R: 2}})
    assert sets(container_hints(state, pod, pod.spec.containers[0], machine(2))[R]) == {hint(0, 1)}


@pytest.mark.parametrize(
    ("devices", "free", "wanted", "expected"),
    [
        pytest.param({"a": (0,)}, [], 1, {hint(0, preferred=True)}, id="DEV-13E-11"),
        pytest.param(ONE_ONE, ["b"], 2, {hint(0, 1, preferred=True)}, id="DEV-13E-12"),
    ],
)
def test_hints_with_reusable_devices(make_state, devices, free, wanted, expected):
    state = make_state({R: devices})
    assert sets(generate(state, R, free, ["a"], wanted, machine(4))) == expected


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param(["a", "b"], {hint(0, preferred=True), hint(0, 1)}, id="DEV-13E-13"),
        pytest.param(["a"], set(), id="DEV-13E-14-one"),
        pytest.param(["a", "b", "c"], set(), id="DEV-13E-14-three"),
    ],
)
def test_hints_for_what_is_held(make_state, make_pod, held, expected):
    state = make_state({R: TWO_TWO})
    pod = make_pod({"main": {R: 2}})
    state.assign(pod.metadata.uid, "main", R, held, b"")
    state.rebuild_allocated()
    assert sets(container_hints(state, pod, pod.spec.containers[0], machine(2))[R]) == expected
