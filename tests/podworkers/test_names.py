"""The lock on static pod names, and when a pod may start (POD-1305)."""

import pytest
from attrs import evolve

from kubelet_emu.api.types import ObjectMeta, Pod
from kubelet_emu.pod_update import UpdateType
from kubelet_emu.podworkers.machine import Start, start_run
from kubelet_emu.podworkers.names import NameLocks, queue_up, release, try_start
from kubelet_emu.podworkers.record import Record, UpdatePodOptions, WorkersState

NAME = "web_default"


def static_pod(uid, source="file"):
    return Pod(
        metadata=ObjectMeta(
            name="web",
            namespace="default",
            uid=uid,
            annotations={"kubernetes.io/config.source": source},
        )
    )


def record(uid, **changes):
    return Record(uid=uid, full_name=NAME, synced_at=0.0, **changes)


ALIVE = record("-")
TERMINATING = record("-", terminating_at=1.0)
TERMINATED = record("-", terminating_at=1.0, terminated_at=2.0)

CASES = {
    "non-static": ("api", {"u0": ALIVE}, "u1", ("u1",), Start.RUN, "u1", ("u1",)),
    "all-free": ("file", {"u0": ALIVE}, None, (), Start.RUN, "u0", ()),
    "held-by-other": ("file", {"u0": ALIVE, "u1": ALIVE}, "u1", (), Start.WAIT, "u1", ()),
    "held-by-itself": ("file", {"u0": ALIVE}, "u0", (), Start.RUN, "u0", ()),
    "first-in-line": ("file", {"u0": ALIVE}, None, ("u0",), Start.RUN, "u0", ()),
    "second-in-line": (
        "file",
        {"u0": ALIVE, "u1": ALIVE},
        None,
        ("u1", "u0"),
        Start.WAIT,
        None,
        ("u1", "u0"),
    ),
    "unknown-ones-skipped": (
        "file",
        {"u0": ALIVE, "u1": ALIVE},
        None,
        ("u2", "u2", "u3", "u0", "u1"),
        Start.RUN,
        "u0",
        ("u1",),
    ),
    "terminating-ones-skipped": (
        "file",
        {"u0": ALIVE, "u1": ALIVE, "u2": TERMINATING, "u3": TERMINATED},
        None,
        ("u2", "u3", "u0", "u1"),
        Start.RUN,
        "u0",
        ("u1",),
    ),
    "no-record": ("file", {"u1": ALIVE}, None, ("u1",), Start.NOTHING, None, ("u1",)),
    "terminating-itself": ("file", {"u0": TERMINATING}, None, ("u1",), Start.NEVER, None, ("u1",)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=[f"POD-1305-{name}" for name in CASES])
def test_allow_pod_start(case):
    source, known, holder, waiting, start, holder_after, waiting_after = case
    records = {uid: evolve(value, uid=uid) for uid, value in known.items()}
    if "u0" in records:
        update = UpdatePodOptions(type=UpdateType.SYNC, pod=static_pod("u0", source))
        records["u0"] = evolve(records["u0"], pending=update)
    locks = NameLocks({NAME: holder} if holder else {}, {NAME: waiting} if waiting else {})

    step = start_run(WorkersState(records, locks), "u0", now=5.0)

    assert step.start is start
    assert step.state.names.started.get(NAME) == holder_after
    assert step.state.names.waiting.get(NAME, ()) == waiting_after
    if start is Start.WAIT:
        assert step.state.records["u0"].pending is not None
    if start is Start.NEVER:
        assert step.state.records["u0"].finished


def test_queue_and_release():
    locks = queue_up(queue_up(NameLocks(), NAME, "a"), NAME, "b")
    allowed, locks = try_start(locks, NAME, "a", lambda uid: True)
    assert allowed
    assert locks == NameLocks({NAME: "a"}, {NAME: ("b",)})
    assert release(locks, NAME, "b") is locks
    assert release(locks, NAME, "a") == NameLocks({}, {NAME: ("b",)})
