"""At most one started static pod per full name; the others wait in order of arrival (pure).

Mirrors allowStaticPodStart in ``pkg/kubelet/pod_workers.go`` (POD-510, POD-511, POD-1305).
"""

from collections.abc import Callable, Mapping

from attrs import field, frozen

__all__ = ["NameLocks", "queue_up", "release", "try_start"]


@frozen
class NameLocks:
    """By full name: the UID that holds it, and the UIDs that wait for it (never an empty tuple)."""

    started: Mapping[str, str] = field(factory=dict[str, str])
    waiting: Mapping[str, tuple[str, ...]] = field(factory=dict[str, tuple[str, ...]])


def queue_up(locks: NameLocks, full_name: str, uid: str) -> NameLocks:
    """Let ``uid`` wait for the name, behind those already there."""
    waiting = {**locks.waiting, full_name: (*locks.waiting.get(full_name, ()), uid)}
    return NameLocks(locks.started, waiting)


def try_start(
    locks: NameLocks, full_name: str, uid: str, may_start: Callable[[str], bool]
) -> tuple[bool, NameLocks]:
    """Take the name for ``uid`` if it is free and ``uid`` is next in line.

    ``may_start`` says whether a waiting UID still exists and is not terminating; others are skipped and
    forgotten.
    """
    holder = locks.started.get(full_name)
    if holder is not None:
        return holder == uid, locks
    waiting = locks.waiting.get(full_name, ())
    index = next((i for i, candidate in enumerate(waiting) if may_start(candidate)), None)
    if index is None:
        rest: tuple[str, ...] = ()
    elif waiting[index] == uid:
        rest = waiting[index + 1 :]
    else:
        return False, NameLocks(locks.started, {**locks.waiting, full_name: waiting[index:]})
    left = {name: uids for name, uids in locks.waiting.items() if name != full_name}
    if rest:
        left[full_name] = rest
    return True, NameLocks({**locks.started, full_name: uid}, left)


def release(locks: NameLocks, full_name: str, uid: str) -> NameLocks:
    """Give the name up if ``uid`` holds it."""
    if locks.started.get(full_name) != uid:
        return locks
    started = {name: holder for name, holder in locks.started.items() if name != full_name}
    return NameLocks(started, locks.waiting)
