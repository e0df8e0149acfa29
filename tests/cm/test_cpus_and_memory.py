"""The static policies of CPU and memory manager, and their state files."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from kubelet_emu.cm.configured import cpu_policy, memory_policy
from kubelet_emu.cm.cpumanager.assignment import TakeOptions, take, take_packed
from kubelet_emu.cm.cpumanager.cpuset import format_cpus, parse_cpus
from kubelet_emu.cm.cpumanager.policy import CpuOptions, StaticCpuPolicy, cpu_options
from kubelet_emu.cm.cpumanager.state import CpuState
from kubelet_emu.cm.cpumanager.state_file import decode_cpus, encode_cpus
from kubelet_emu.cm.machine import MachineTopology
from kubelet_emu.cm.memorymanager.policy import StaticMemoryPolicy
from kubelet_emu.cm.memorymanager.state import Block, MemoryState, MemoryTable, NodeMemory, StoredMemory
from kubelet_emu.cm.topologymanager.hints import Hint, mask_of
from kubelet_emu.cm.topologymanager.manager import AllocationRefused
from kubelet_emu.errors import CallerError, PeerError
from kubelet_emu.settings import KubeletSettings

GI = 1024**3
TWO = MachineTopology(sockets=2, cores_per_node=4, threads_per_core=2, memory_bytes=8 * GI)
"""CPUs 0-3,8-11 on node 0 and 4-7,12-15 on node 1."""


def guaranteed(*cpus: str, inits: tuple[str, ...] = (), memory: str = "1Gi", uid: str = "uid") -> Pod:
    def one(name: str, cpu: str) -> Container:
        amounts = {"cpu": Quantity(cpu), "memory": Quantity(memory)}
        return Container(name=name, resources=ResourceRequirements(requests=amounts, limits=amounts))

    return Pod(
        metadata=ObjectMeta(name="pod", namespace="default", uid=uid),
        spec=PodSpec(
            init_containers=tuple(one(f"init{n}", cpu) for n, cpu in enumerate(inits)),
            containers=tuple(one(f"app{n}", cpu) for n, cpu in enumerate(cpus)),
        ),
    )


# -- sets of CPUs --


@pytest.mark.parametrize(
    ("text", "cpus"), [("", []), ("0", [0]), ("0-3,7", [0, 1, 2, 3, 7]), ("1,3,5-6", [1, 3, 5, 6])]
)
def test_the_text_of_a_set(text, cpus):
    assert parse_cpus(text) == frozenset(cpus)
    assert format_cpus(cpus) == text


@pytest.mark.parametrize("text", ["x", "3-1", "-1", "1-", "1,,2", "999999", "1-2-3", "٣"])
def test_a_text_that_is_no_set(text):
    with pytest.raises(CallerError):
        parse_cpus(text)


@given(st.frozensets(st.integers(0, 200), max_size=40))
@settings(max_examples=60, deadline=None)
def test_every_set_survives_its_text(cpus):
    assert parse_cpus(format_cpus(cpus)) == cpus


# -- which CPUs --


@pytest.mark.parametrize(
    ("available", "number", "expected"),
    [
        pytest.param("0-15", 8, "0-3,8-11", id="a whole node"),
        pytest.param("0-15", 2, "0,8", id="a whole core"),
        pytest.param("0-15", 3, "0-1,8", id="a core and a thread of the next one"),
        pytest.param("1-15", 1, "8", id="the thread left over of a core"),
        pytest.param("1-15", 8, "4-7,12-15", id="the node that is whole"),
        pytest.param("1-15", 2, "1,9", id="a whole core where others are broken"),
        pytest.param("0-15", 16, "0-15", id="everything"),
        pytest.param("0-15", 0, "", id="nothing"),
    ],
)
def test_cpus_are_packed(available, number, expected):
    assert format_cpus(take_packed(TWO, parse_cpus(available), number)) == expected


def test_too_few_cpus():
    text = "not enough cpus available to satisfy request: requested=3, available=2"
    with pytest.raises(PeerError, match=text):
        take_packed(TWO, parse_cpus("0-1"), 3)


@pytest.mark.parametrize(
    ("number", "group", "per_node"),
    [(8, 1, [8, 0]), (10, 1, [5, 5]), (12, 2, [6, 6]), (9, 2, [8, 1]), (2, 2, [2, 0])],
)
def test_cpus_are_distributed_over_nodes(number, group, per_node):
    options = TakeOptions(distribute_over_nodes=True, group_size=group)
    taken = take(TWO, parse_cpus("0-15"), number, options)
    counts = [len(taken & set(TWO.cpus_on([node]))) for node in TWO.nodes]
    assert sorted(counts, reverse=True) == per_node


def test_a_cache_is_filled_before_the_next_one():
    machine = MachineTopology(cores_per_node=8, caches_per_node=2)
    options = TakeOptions(align_by_cache=True)
    assert format_cpus(take(machine, parse_cpus("1-7"), 3, options)) == "1-3"
    assert format_cpus(take(machine, parse_cpus("2-7"), 3, options)) == "4-6"
    assert format_cpus(take(machine, parse_cpus("0-7"), 5, options)) == "0-4"


@given(st.frozensets(st.integers(0, 15), min_size=1), st.data())
@settings(max_examples=80, deadline=None)
def test_exactly_as_many_as_asked_and_only_available_ones(available, data):
    number = data.draw(st.integers(0, len(available)))
    options = TakeOptions(
        distribute_over_nodes=data.draw(st.booleans()),
        align_by_cache=data.draw(st.booleans()),
        spread_over_cores=data.draw(st.booleans()),
        group_size=data.draw(st.sampled_from([1, 2])),
    )
    taken = take(TWO, available, number, options)
    assert len(taken) == number
    assert taken <= available


# -- the static policy --


def started(policy: StaticCpuPolicy) -> CpuState:
    state = CpuState()
    policy.check(state)
    return state


def test_DEV_170_the_static_policy_needs_a_reservation():
    with pytest.raises(CallerError) as caught:
        StaticCpuPolicy(TWO, reserved_cpus=0)
    assert str(caught.value) == (
        "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu "
        "to be greater than zero"
    )


def test_DEV_170_only_whole_requests_of_guaranteed_pods_are_exclusive():
    policy = StaticCpuPolicy(TWO, reserved_cpus=1)
    state = started(policy)
    pod = guaranteed("2", "1500m")
    assert policy.allocate(state, pod, pod.spec.containers[0], None)
    assert not policy.allocate(state, pod, pod.spec.containers[1], None)
    assert {name: format_cpus(cpus) for name, cpus in state.entries["uid"].items()} == {"app0": "1,9"}
    assert format_cpus(state.default) == "0,2-8,10-15"
    policy.release(state, "uid", "app0")
    assert format_cpus(state.default) == "0-15"
    assert state.entries == {}


def test_init_containers_lend_their_cpus():
    policy = StaticCpuPolicy(TWO, reserved_cpus=2)
    state = started(policy)
    pod = guaranteed("2", "2", inits=("4",))
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        policy.allocate(state, pod, container, None)
    held = state.entries["uid"]
    assert held["init0"] == held["app0"] | held["app1"]
    assert not held["app0"] & held["app1"]


def test_DEV_171_full_cores_or_nothing():
    policy = StaticCpuPolicy(TWO, reserved_cpus=1, options=CpuOptions(full_cores_only=True))
    state = started(policy)
    odd, many = guaranteed("3"), guaranteed("16")
    with pytest.raises(AllocationRefused) as caught:
        policy.allocate(state, odd, odd.spec.containers[0], None)
    assert caught.value.reason == "SMTAlignmentError"
    assert str(caught.value) == "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"
    with pytest.raises(AllocationRefused) as caught:
        policy.allocate(state, many, many.spec.containers[0], None)
    assert str(caught.value) == (
        "SMT Alignment Error: not enough free physical CPUs: "
        "available physical CPUs = 14, requested CPUs = 16, CPUs per core = 2"
    )


def test_cpus_follow_the_hint():
    policy = StaticCpuPolicy(TWO, reserved_cpus=1)
    state = started(policy)
    pod = guaranteed("4")
    policy.allocate(state, pod, pod.spec.containers[0], Hint(mask_of([1]), True))
    assert state.entries["uid"]["app0"] <= set(TWO.cpus_on([1]))


def test_hints_of_cpus():
    policy = StaticCpuPolicy(TWO, reserved_cpus=1)
    state = started(policy)
    four, eight = guaranteed("4"), guaranteed("8", uid="other")
    both, first, second = mask_of([0, 1]), mask_of([0]), mask_of([1])
    assert policy.container_hints(state, four, four.spec.containers[0]) == {
        "cpu": [Hint(first, True), Hint(second, True), Hint(both, False)]
    }
    # Seven are left on node 0 by the reservation.
    assert policy.container_hints(state, eight, eight.spec.containers[0]) == {
        "cpu": [Hint(second, True), Hint(both, False)]
    }
    shared = guaranteed("500m")
    assert policy.container_hints(state, shared, shared.spec.containers[0]) == {}
    policy.allocate(state, four, four.spec.containers[0], Hint(second, True))
    again = policy.container_hints(state, four, four.spec.containers[0])
    assert again == {"cpu": [Hint(second, True), Hint(both, False)]}
    assert policy.pod_hints(state, four) == again


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"some": "true"}, "unsupported cpumanager option"),
        ({"align-by-socket": "true"}, "Alpha-level Options not enabled"),
        ({"full-pcpus-only": "maybe"}, "neither true nor false"),
        (
            {"prefer-align-cpus-by-uncorecache": "true", "distribute-cpus-across-numa": "true"},
            "can not be used together",
        ),
    ],
)
def test_DEV_171_options_that_do_not_go(options, error):
    with pytest.raises(CallerError, match=error):
        cpu_options(options, TWO)


@pytest.mark.parametrize(
    ("default", "entries", "error"),
    [
        ("", {"u": {"c": "1"}}, "default cpuset cannot be empty"),
        ("1-15", {"u": {"c": "2"}}, 'not all reserved cpus: "0" are present in defaultCpuSet: "1-15"'),
        ("0-15", {"u": {"c": "2"}}, 'pod: u, container: c cpuset: "2" overlaps with default cpuset "0-15"'),
        (
            "0-14",
            {},
            'current set of available CPUs "0-15" doesn\'t match with CPUs in state "0-14"',
        ),
    ],
)
def test_DEV_173_a_state_that_does_not_fit_stops_the_start(default, entries, error):
    state = CpuState(parse_cpus(default))
    for uid, containers in entries.items():
        for name, cpus in containers.items():
            state.put(uid, name, parse_cpus(cpus))
    with pytest.raises(PeerError) as caught:
        StaticCpuPolicy(TWO, reserved_cpus=1).check(state)
    assert str(caught.value) == error


# -- state files --


@pytest.mark.parametrize(
    ("policy", "default", "entries", "checksum"),
    [
        pytest.param("none", "", {}, 1353318690, id="DEV-173-none"),
        pytest.param("none", "4-6", {}, 354655845, id="DEV-084-cpu-1"),
        pytest.param(
            "none",
            "1-3",
            {"pod": {"container1": "4-6", "container2": "1-3"}},
            3610638499,
            id="DEV-084-cpu-2",
        ),
    ],
)
def test_the_cpu_managers_file(policy, default, entries, checksum):
    state = CpuState(parse_cpus(default))
    for uid, containers in entries.items():
        for name, cpus in containers.items():
            state.put(uid, name, parse_cpus(cpus))
    content = encode_cpus(policy, state)
    assert json.loads(content)["checksum"] == checksum
    assert decode_cpus(content) == decode_cpus(encode_cpus(policy, decode_cpus(content).state))
    assert decode_cpus(content).state == state


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"policyName":"none","defaultCpuSet":"x","checksum":1}', b"\xff"]
)
def test_damaged_files_are_refused(content):
    with pytest.raises(PeerError):
        decode_cpus(content)
    with pytest.raises(PeerError):
        StoredMemory.decode(content)


def test_DEV_174_the_memory_managers_file():
    state = MemoryState(
        {0: NodeMemory({"memory": MemoryTable(2048, 512, 1536, 512, 1024)}, (), 0)},
        {"pod": {"container1": (Block((0,), "memory", 512),)}},
    )
    content = StoredMemory("static", state).encode()
    assert json.loads(content)["checksum"] == 4215593881
    assert StoredMemory.decode(content).state == state
    with pytest.raises(PeerError, match="checkpoint is corrupted"):
        StoredMemory.decode(content.replace(b"1024", b"1023"))


# -- memory --


def memory(reserved: int = GI) -> tuple[StaticMemoryPolicy, MemoryState]:
    policy = StaticMemoryPolicy(TWO, {0: {"memory": reserved}, 1: {"memory": reserved}})
    state = MemoryState()
    policy.check(state)
    return policy, state


def test_DEV_174_the_static_policy_needs_reserved_memory():
    with pytest.raises(CallerError) as caught:
        StaticMemoryPolicy(TWO, {})
    assert str(caught.value) == "[memorymanager] you should specify the system reserved memory"


def test_memory_is_promised_and_given_back():
    policy, state = memory()
    pod = guaranteed("1", memory="4Gi")
    assert policy.allocate(state, pod, pod.spec.containers[0], Hint(mask_of([1]), True))
    assert state.blocks("uid", "app0") == (Block((1,), "memory", 4 * GI),)
    assert state.nodes[1].memory["memory"].free == 3 * GI
    policy.check(state)
    policy.release(state, "uid", "app0")
    assert state.nodes[1].memory["memory"].free == 7 * GI
    assert state.nodes[1].assignments == 0


def test_without_a_hint_the_narrowest_place_is_taken():
    policy, state = memory()
    pod = guaranteed("1", memory="6Gi")
    policy.allocate(state, pod, pod.spec.containers[0], None)
    assert state.blocks("uid", "app0") == (Block((0,), "memory", 6 * GI),)


def test_hints_of_memory():
    policy, state = memory()
    both, first, second = mask_of([0, 1]), mask_of([0]), mask_of([1])
    small, large = guaranteed("1", memory="2Gi"), guaranteed("1", memory="10Gi", uid="large")
    hints = policy.container_hints(state, small, small.spec.containers[0])
    assert hints == {"memory": [Hint(first, True), Hint(second, True), Hint(both, False)]}
    assert policy.container_hints(state, large, large.spec.containers[0]) == {"memory": [Hint(both, True)]}
    policy.allocate(state, small, small.spec.containers[0], Hint(first, True))
    # A node with memory of its own containers is in no group.
    assert policy.container_hints(state, large, large.spec.containers[0]) == {"memory": []}
    assert policy.container_hints(state, small, small.spec.containers[0]) == {"memory": [Hint(first, True)]}
    assert policy.pod_hints(state, small) == {"memory": [Hint(first, True)]}


def test_groups_of_nodes_are_not_broken():
    policy, state = memory()
    large = guaranteed("1", memory="10Gi", uid="large")
    policy.allocate(state, large, large.spec.containers[0], Hint(mask_of([0, 1]), True))
    small = guaranteed("1")
    assert policy.container_hints(state, small, small.spec.containers[0]) == {
        "memory": [Hint(mask_of([0, 1]), True)]
    }
    with pytest.raises(PeerError, match="violates NUMA node allocation"):
        policy.allocate(state, small, small.spec.containers[0], Hint(mask_of([1]), True))


def test_init_containers_lend_their_memory():
    policy, state = memory()
    pod = guaranteed("1", inits=("1",), memory="4Gi")
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        policy.allocate(state, pod, container, None)
    assert state.nodes[0].memory["memory"].reserved == 4 * GI
    assert state.blocks("uid", "init0") == (Block((0,), "memory", 0),)
    assert state.blocks("uid", "app0") == (Block((0,), "memory", 4 * GI),)


def test_memory_that_is_not_there():
    policy, state = memory()
    pod = guaranteed("1", memory="20Gi")
    with pytest.raises(PeerError, match="no NUMA nodes with enough memory"):
        policy.allocate(state, pod, pod.spec.containers[0], None)


# -- configuration --


def test_policies_by_configuration():
    assert cpu_policy(KubeletSettings(), TWO) is None
    assert memory_policy(KubeletSettings(), TWO) is None
    static = cpu_policy(KubeletSettings(cpu_manager_policy="static", reserved_cpu="1500m"), TWO)
    assert static is not None
    assert format_cpus(static.reserved) == "0,8"
    listed = cpu_policy(KubeletSettings(cpu_manager_policy="static", reserved_cpus="3,5"), TWO)
    assert listed is not None
    assert listed.reserved == {3, 5}
    reserved = {0: {"memory": "1Gi"}}
    assert memory_policy(KubeletSettings(memory_manager_policy="Static", reserved_memory=reserved), TWO)


@pytest.mark.parametrize(
    "wrong",
    [
        {"cpu_manager_policy": "some"},
        {"cpu_manager_policy_options": {"full-pcpus-only": "true"}},
        {"cpu_manager_policy": "static", "reserved_cpus": "16"},
        {"memory_manager_policy": "some"},
        {"memory_manager_policy": "Static", "reserved_memory": {7: {"memory": "1Gi"}}},
    ],
)
def test_configurations_that_do_not_start(wrong):
    given_settings = KubeletSettings(**wrong)
    with pytest.raises(CallerError):
        _ = (cpu_policy(given_settings, TWO), memory_policy(given_settings, TWO))
