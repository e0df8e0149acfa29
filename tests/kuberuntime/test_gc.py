"""Collection: POD-1316, POD-1317, POD-1318 (POD-1005 to POD-1009)."""

import pytest

from kubelet_emu.container.runtime import ContainerState, RuntimeContainer, RuntimePodStatus
from kubelet_emu.kuberuntime import gc
from kubelet_emu.kuberuntime.gc import GCPolicy, ListedContainer, ListedSandbox

HOUR = 3600 * 1_000_000_000
NOW = 1000 * HOUR


def dead(uid, name, number, *, state=ContainerState.EXITED, recent=False):
    """Higher numbers are newer; all are older than an hour unless ``recent``."""
    created = NOW if recent else NOW - 100 * HOUR + number
    return ListedContainer(
        id=f"{uid}-{name}-{number}",
        pod_uid=uid,
        name=name,
        sandbox_id=f"sb-{uid}",
        state=state,
        created_at_ns=created,
    )


def some(uid, name, count):
    return [dead(uid, name, number) for number in range(count)]


DEFAULT = GCPolicy(min_age_ns=HOUR, max_per_container=2, max_containers=6)
ROWS = [
    ("one-exited", some("p", "c", 1), GCPolicy(min_age_ns=HOUR, max_per_container=1, max_containers=0), []),
    (
        "five-of-one-name",
        some("p", "c", 5),
        GCPolicy(min_age_ns=HOUR, max_per_container=-1, max_containers=4),
        ["p-c-1", "p-c-2", "p-c-3", "p-c-4"],
    ),
    (
        "no-limits",
        some("p", "c", 3),
        GCPolicy(min_age_ns=HOUR, max_per_container=-1, max_containers=-1),
        ["p-c-0", "p-c-1", "p-c-2"],
    ),
    (
        "just-created",
        [dead("p", "c", number, recent=True) for number in range(3)],
        DEFAULT,
        ["p-c-0", "p-c-1", "p-c-2"],
    ),
    ("three-of-one-name", some("p", "c", 3), DEFAULT, ["p-c-1", "p-c-2"]),
    (
        "two-and-a-running-one",
        [*some("p", "c", 2), dead("p", "c", 2, state=ContainerState.RUNNING)],
        DEFAULT,
        ["p-c-0", "p-c-1", "p-c-2"],
    ),
    (
        "three-names",
        [*some("p1", "a", 3), *some("p2", "b", 3), *some("p3", "c", 3)],
        DEFAULT,
        ["p1-a-1", "p1-a-2", "p2-b-1", "p2-b-2", "p3-c-1", "p3-c-2"],
    ),
    (
        "five-names",
        [
            *some("p1", "a", 2),
            *some("p2", "b", 2),
            *some("p3", "c", 2),
            *some("p4", "d", 2),
            *some("p5", "e", 2),
        ],
        DEFAULT,
        ["p1-a-1", "p2-b-1", "p3-c-1", "p4-d-1", "p5-e-1"],
    ),
    (
        "deleted-pod",
        [dead("gone", "c", 2, recent=True), *some("gone", "c", 2)],
        DEFAULT,
        ["gone-c-2"],
    ),
]


@pytest.mark.parametrize(
    ("containers", "policy", "left"), [pytest.param(*row[1:], id=f"POD-1316-{row[0]}") for row in ROWS]
)
def test_container_collection(containers, policy, left):
    removed = gc.containers_to_collect(
        containers, policy, now_ns=NOW, sources_ready=True, content_removable=lambda uid: uid == "gone"
    )
    gone = {item.id for item in removed}
    assert sorted(c.id for c in containers if c.id not in gone) == left


def test_pod_1316_sources_not_ready_keeps_a_deleted_pods_containers():
    removed = gc.containers_to_collect(
        some("gone", "c", 2), DEFAULT, now_ns=NOW, sources_ready=False, content_removable=lambda _: True
    )
    assert removed == ()


def test_pod_1005_oldest_go_first_and_unknown_ones_are_killed():
    containers = [dead("p", "c", 1), dead("p", "c", 0, state=ContainerState.UNKNOWN), dead("p", "c", 2)]
    removed = gc.containers_to_collect(
        containers, GCPolicy(), now_ns=NOW, sources_ready=True, content_removable=lambda _: False
    )
    assert [(item.id, item.kill_first) for item in removed] == [("p-c-0", True), ("p-c-1", False)]


def box(uid, number, *, ready=False):
    return ListedSandbox(id=f"{uid}-{number}", pod_uid=uid, ready=ready, created_at_ns=number)


def held(sandbox_id):
    return ListedContainer(
        id="c", pod_uid="live", name="c", sandbox_id=sandbox_id, state=ContainerState.EXITED, created_at_ns=0
    )


SANDBOXES = [
    pytest.param([box("gone", 0)], [], ("gone-0",), id="POD-1317-deleted"),
    pytest.param([box("gone", 0, ready=True)], [], (), id="POD-1317-ready"),
    pytest.param([box("live", 0), box("live", 1)], [], ("live-0",), id="POD-1317-live-pod"),
    pytest.param([box("live", 0), box("live", 1)], [held("live-0")], (), id="POD-1317-occupied"),
]


@pytest.mark.parametrize(("sandboxes", "containers", "expected"), SANDBOXES)
def test_sandbox_collection(sandboxes, containers, expected):
    removed = gc.sandboxes_to_collect(sandboxes, containers, content_removable=lambda uid: uid == "gone")
    assert removed == expected


def instance(name, number, state=ContainerState.EXITED):
    return RuntimeContainer(id=str(number), name=name, state=state, created_at_ns=number)


STATUS = RuntimePodStatus(
    uid="u",
    containers=(
        instance("bar", 5, ContainerState.RUNNING),
        instance("bar", 4),
        instance("bar", 3),
        instance("bar", 2),
        instance("foo", 1),
    ),
)
DELETIONS = [
    ("4", 0, ("4", "3", "2")),
    ("4", 1, ("3", "2")),
    ("4", 2, ("2",)),
    ("", 0, ("4", "3", "2", "1")),
    ("", 1, ("3", "2", "1")),
    ("", 2, ("2", "1")),
    ("unheard", 0, ()),
]


@pytest.mark.parametrize(
    ("died", "keep", "expected"),
    [pytest.param(*row, id=f"POD-1318-{row[0] or 'all'}-{row[1]}") for row in DELETIONS],
)
def test_deletor(died, keep, expected):
    assert gc.dead_beyond(STATUS, keep, died_id=died) == expected
