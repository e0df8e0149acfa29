"""Known answers of the topology manager, by the id of their table."""

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet_emu.cm.machine import MachineTopology
from kubelet_emu.cm.topologymanager.hints import Hint, mask_of, nodes_of, subsets
from kubelet_emu.cm.topologymanager.options import topology_config
from kubelet_emu.cm.topologymanager.policy import Policy, Scope, compare, decide, merge
from kubelet_emu.errors import CallerError


def machine(nodes: int, **more) -> MachineTopology:
    return MachineTopology(sockets=nodes, cores_per_node=4, **more)


def hint(text: str) -> Hint:
    """``{0,1}p`` or ``-n``."""
    where, preferred = text[:-1].strip(), text[-1] == "p"
    if where == "-":
        return Hint(None, preferred)
    return Hint(mask_of(map(int, re.findall(r"\d+", where))), preferred)


def provider(text: str) -> dict:
    """``a: {0}p {1}n; b: nil``: resources of one provider."""
    found: dict = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        name, _, given_hints = part.partition(":")
        given_hints = given_hints.strip()
        if given_hints == "nil":
            found[name] = None
        elif given_hints == "[]":
            found[name] = []
        else:
            found[name] = [hint(each) for each in re.findall(r"\{[\d,]*\}[pn]", given_hints)]
    return found


MERGES = [
    ("01", 4, [], "{0,1,2,3}p", "-p"),
    ("02", 4, ["a: nil"], "{0,1,2,3}p", "-p"),
    ("03", 4, ["a: []"], "{0,1,2,3}n", "-n"),
    ("04", 4, ["a: {0}p; b: {0,1}p"], "{0}n", "-n"),
    ("05", 4, ["a: {0}p; b: {1}p"], "{0,1,2,3}n", "-n"),
    ("06", 4, ["a: {0}p {1}p; b: {0,1}n"], "{0}n", "-n"),
    ("07", 4, ["a: {0,1,2,3}n {0,1}n; b: {0,3}n"], "{0,3}n", "-n"),
    ("08", 4, ["a: {0,1,2,3}n {0,1}n; b: {1,2}n {2,3}n"], "{1,2}n", "-n"),
    ("09", 2, ["gpu: {0}p {1}p {0,1}n", "cpu: {0}p {0,1}n"], "{0}p", "{0}p"),
    ("10", 2, ["gpu: {0,1}n", "cpu: {0}p {1}p {0,1}n"], "{0,1}n", "-n"),
    ("11", 2, ["gpu: {0,1}p", "cpu: {0}p {1}p {0,1}n"], "{0,1}n", "-n"),
    ("12", 2, ["gpu: {0,1}p"], "{0,1}p", "-n"),
    ("13", 2, ["gpu: {1}p; nic: {0}p {1}p {0,1}n"], "{1}p", "{1}p"),
    ("14", 2, ["gpu: []", "cpu: {0}p {0,1}n"], "{0}n", "-n"),
    ("15", 2, ["gpu: {0}p; nic: {1}p"], "{0,1}n", "-n"),
]


@pytest.mark.parametrize(
    ("nodes", "providers", "expected", "single"),
    [pytest.param(*rest, id=f"DEV-13C-{number}") for number, *rest in MERGES],
)
def test_worked_merges(nodes, providers, expected, single):
    given_hints = [provider(text) for text in providers]
    for policy in (Policy.BEST_EFFORT, Policy.RESTRICTED):
        merged = decide(policy, given_hints, machine(nodes))
        assert merged.hint == hint(expected)
        assert merged.admit == (policy is Policy.BEST_EFFORT or hint(expected).preferred)
    merged = decide(Policy.SINGLE_NUMA_NODE, given_hints, machine(nodes))
    assert (merged.hint, merged.admit) == (hint(single), hint(single).preferred)


def test_DEV_13A_a_machine_of_one_node_needs_no_mask():
    merged = decide(Policy.SINGLE_NUMA_NODE, [provider("gpu: {0}p")], machine(1))
    assert (merged.hint, merged.admit) == (Hint(None, True), True)


def eight_nodes() -> MachineTopology:
    def distance(a: int, b: int) -> int:
        if a == b:
            return 10
        if a // 2 == b // 2:
            return 11
        return 12 if a // 4 == b // 4 else 30

    rows = tuple(tuple(distance(a, b) for b in range(8)) for a in range(8))
    return MachineTopology(sockets=8, distances=rows)


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        pytest.param("a: {0,4}p {0,2}p", "{0,2}p", id="DEV-13D-1"),
        pytest.param("a: {4}p {0,2}p", "{4}p", id="DEV-13D-2"),
    ],
)
def test_closest_nodes(hints, expected):
    assert decide(Policy.BEST_EFFORT, [provider(hints)], eight_nodes(), closest=True).hint == hint(expected)
    assert merge([[hint("{0,4}p"), hint("{1,2}p")]], eight_nodes(), closest=True) == hint("{1,2}p")


COMPARED = [
    (1, "{1,2}", "{0,1}", True),
    (1, "{0,1}", "{1,2}", False),
    (2, "{0,1}", "{0}", False),
    (2, "{1,2}", "{0,1}", True),
    (2, "{0}", "{0,1,2}", False),
    (2, "{0}", "{0,1}", True),
    (3, "{0}", "{1,2}", True),
    (4, "{0,1}", "{1,2,3}", True),
    (4, "{1,2,3}", "{0,1}", False),
    (4, "{1,2,3}", "{0,1,2}", True),
    (4, "{0,1,2}", "{1,2,3}", False),
]


@pytest.mark.parametrize(
    ("narrowest", "current", "candidate", "wins"),
    [pytest.param(*row, id=f"DEV-19C-{number:02}") for number, row in enumerate(COMPARED, 1)],
)
def test_comparisons_of_hints_that_are_not_preferred(narrowest, current, candidate, wins):
    old, new = hint(current + "n"), hint(candidate + "n")
    assert compare(old, new, narrowest, machine(4)) == (new if wins else old)


@st.composite
def lists(draw):
    nodes = draw(st.integers(1, 4))
    masks = st.sampled_from([None, *subsets(range(nodes))])
    one = st.builds(Hint, masks, st.booleans())
    return nodes, draw(st.lists(st.lists(one, min_size=1, max_size=4), max_size=4))


@settings(max_examples=150, deadline=None)
@given(lists())
def test_DEV_138_merging_list_by_list_finds_what_the_whole_product_finds(case):
    nodes, hints = case
    everywhere = mask_of(range(nodes))
    narrowest = max(
        (min((h.mask.bit_count() for h in some if h.mask), default=0) for some in hints), default=0
    )
    best = None
    for chosen in product(*hints):
        mask, preferred = everywhere, all(each.preferred for each in chosen)
        given_masks = [each.mask for each in chosen if each.mask is not None]
        for each in given_masks:
            mask &= each
        best = compare(best, Hint(mask, preferred and len(set(given_masks)) <= 1), narrowest, machine(nodes))
    assert merge(hints, machine(nodes)) == (best or Hint(everywhere, False))


# -- DEV-130 --


@pytest.mark.parametrize(
    ("policy", "scope", "options", "nodes", "error"),
    [
        pytest.param("some", "container", {}, 1, 'unknown policy: "some"', id="DEV-130-policy"),
        pytest.param("restricted", "node", {}, 1, 'unknown scope: "node"', id="DEV-130-scope"),
        pytest.param(
            "restricted",
            "pod",
            {"x": "1"},
            1,
            'unknown Topology Manager Policy option: "x"',
            id="DEV-130-opt",
        ),
        pytest.param(
            "restricted",
            "pod",
            {},
            9,
            "unsupported on machines with more than 8 NUMA Nodes",
            id="DEV-130-nodes",
        ),
        pytest.param(
            "best-effort",
            "pod",
            {"max-allowable-numa-nodes": "9"},
            10,
            "unsupported on machines with more than 9 NUMA Nodes",
            id="DEV-130-more-nodes",
        ),
    ],
)
def test_configurations_that_do_not_start(policy, scope, options, nodes, error):
    with pytest.raises(CallerError) as caught:
        topology_config(policy, scope, options, machine(nodes))
    assert str(caught.value) == error


@pytest.mark.parametrize(
    "options",
    [
        {"prefer-closest-numa-nodes": "maybe"},
        {"max-allowable-numa-nodes": "x"},
        {"max-allowable-numa-nodes": "7"},
    ],
)
def test_DEV_130_bad_values_are_refused(options):
    with pytest.raises(CallerError):
        topology_config("restricted", "pod", options, machine(1))


def test_DEV_130_policy_none_checks_nothing():
    assert topology_config("none", "node", {"x": "1"}, machine(30)).policy is Policy.NONE


def test_DEV_130_what_is_asked_for_is_taken():
    options = {"prefer-closest-numa-nodes": "true", "max-allowable-numa-nodes": "16"}
    config = topology_config("single-numa-node", "pod", options, machine(12))
    assert (config.policy, config.scope, config.closest) == (Policy.SINGLE_NUMA_NODE, Scope.POD, True)


def test_masks_and_nodes():
    assert nodes_of(mask_of([5, 0])) == (0, 5)
    assert [nodes_of(mask) for mask in subsets([0, 2])] == [(0,), (2,), (0, 2)]


def test_a_machine_numbers_its_cpus_as_linux_does():
    two = MachineTopology(sockets=2, cores_per_node=2, threads_per_core=2, caches_per_node=2)
    assert [(cpu.id, cpu.core, cpu.socket, cpu.cache) for cpu in two.cpus] == [
        (0, 0, 0, 0),
        (1, 1, 0, 1),
        (2, 2, 1, 2),
        (3, 3, 1, 3),
        (4, 0, 0, 0),
        (5, 1, 0, 1),
        (6, 2, 1, 2),
        (7, 3, 1, 3),
    ]
    assert two.cpus_on([1]) == (2, 3, 6, 7)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sockets": 0},
        {"sockets": 65},
        {"cores_per_node": 3, "caches_per_node": 2},
        {"distances": ((10, 20),)},
        {"memory_bytes": -1},
    ],
)
def test_machines_that_cannot_be(wrong):
    with pytest.raises(CallerError):
        MachineTopology(**wrong)
