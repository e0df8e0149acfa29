"""Merging the list of a source (POD-215 to POD-218, POD-1320)."""

import pytest
from attrs import evolve

from kubelet_emu.api.types import ObjectMeta, Pod, PodSpec, PodStatus
from kubelet_emu.config.merge import Op, SourceState, duplicate_message, merge

NOW = 1_767_225_600_123_456_789


def pod(name, *, uid=None, deadline=None, phase=None, deletion=None, **meta):
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace="ns", uid=uid or f"uid-{name}", deletion_timestamp=deletion, **meta
        ),
        spec=PodSpec(active_deadline_seconds=deadline),
        status=PodStatus(phase=phase),
    )


def send(state, *pods, source="api"):
    merged = merge(state, source, pods, now_ns=NOW)
    shown = [(str(u.op), [p.metadata.name for p in u.pods]) for u in merged.updates]
    return merged, shown


def test_POD_1320_a_sequence_of_lists():
    merged, shown = send(SourceState(), pod("foo"), pod("foo2"), pod("foo3"))
    assert shown == [("ADD", ["foo", "foo2", "foo3"])]
    merged, shown = send(merged.state, pod("foo"), pod("foo2"), pod("foo3"))
    assert shown == []
    merged, shown = send(merged.state, pod("foo2", deadline=5), pod("foo3"), pod("foo4"))
    assert shown == [("REMOVE", ["foo"]), ("ADD", ["foo4"]), ("UPDATE", ["foo2"])]
    merged, shown = send(merged.state, pod("foo2", deadline=5, phase="Running"), pod("foo3"), pod("foo4"))
    assert shown == [("RECONCILE", ["foo2"])]
    merged, shown = send(merged.state, pod("foo2", phase="Failed"), pod("foo3"), pod("foo4"))
    assert shown == [("UPDATE", ["foo2"])]
    assert merged.updates[0].pods[0].status.phase == "Failed"


def test_POD_1320_the_first_empty_list_is_an_empty_add_and_the_next_is_nothing():
    merged, shown = send(SourceState())
    assert shown == [("ADD", [])]
    assert merged.state.seen
    _, shown = send(merged.state)
    assert shown == []


@pytest.mark.parametrize(
    ("changes", "op"),
    [
        ({"deadline": 1}, "UPDATE"),
        ({"labels": {"a": "b"}}, "UPDATE"),
        ({"annotations": {"a": "b"}}, "UPDATE"),
        ({"annotations": {"kubernetes.io/config.hash": "x"}}, "UPDATE"),
        ({"deletion": 5}, "DELETE"),
        ({"deletion_grace_period_seconds": 5}, "UPDATE"),
        ({"phase": "Running"}, "RECONCILE"),
        ({"generation": 7}, None),
        ({"resource_version": "7"}, None),
        ({"annotations": {"kubernetes.io/config.seen": "x", "kubernetes.io/config.source": "y"}}, None),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, None),
    ],
    ids=lambda value: f"POD-216-{value}",
)
def test_classification(changes, op):
    state = send(SourceState(), pod("a"))[0].state
    _, shown = send(state, pod("a", **changes))
    assert [name for name, _ in shown] == ([op] if op else [])


def test_POD_202_and_POD_217_what_is_kept():
    merged, _ = send(SourceState(), pod("a", generation=1, resource_version="1"))
    added = merged.updates[0].pods[0].metadata
    assert added.annotations == {
        "kubernetes.io/config.source": "api",
        "kubernetes.io/config.seen": "2026-01-01T00:00:00.123456789Z",
    }
    later = merge(
        merged.state,
        "api",
        [pod("a", generation=2, resource_version="2", annotations={"x": "y"})],
        now_ns=NOW + 10**9,
    )
    changed = later.updates[0].pods[0].metadata
    assert changed.annotations == {**added.annotations, "x": "y"}
    assert (changed.generation, changed.resource_version) == (2, "1")


def test_POD_215_duplicates_are_left_out():
    merged, shown = send(SourceState(), pod("a"), pod("a", uid="other"), source="file")
    assert shown == [("ADD", ["a"])]
    assert duplicate_message(merged.duplicates[0], "file") == (
        'Error validating pod a_ns(other) from file due to duplicate pod name "a", ignoring'
    )


def test_POD_218_order_and_the_empty_add_before_reconcile():
    held = send(SourceState(), pod("a"), pod("b"))[0].state
    _, shown = send(evolve(held, seen=False), pod("a", phase="Running"), pod("b", deletion=1), pod("c"))
    assert [op for op, _ in shown] == ["ADD", "DELETE", "RECONCILE"]
    _, shown = send(evolve(held, seen=False), pod("a", phase="Running"))
    assert shown == [("REMOVE", ["b"]), ("ADD", []), ("RECONCILE", ["a"])]


def test_the_same_object_again_is_not_compared():
    same = pod("a")
    state = send(SourceState(), same)[0].state
    held = state.held["uid-a"]
    again = send(state, same)[0].state.held["uid-a"]
    assert again.pod is held.pod


def test_ops_are_named_as_the_kubelet_does():
    assert [str(op) for op in Op] == ["ADD", "UPDATE", "DELETE", "REMOVE", "RECONCILE"]
