"""The pod cache: the newest runtime status of each pod, and a way to wait for a newer one.

Mirrors ``pkg/kubelet/container/cache.go`` (POD-901 to POD-903). Times are stamps (``container.stamps``).
"""

import trio
from attrs import frozen

from kubelet_emu.container.runtime import RuntimePodStatus
from kubelet_emu.container.stamps import BEFORE_ALL
from kubelet_emu.errors import PeerError
from kubelet_emu.evolving import evolve

__all__ = ["PodCache"]


@frozen
class _Entry:
    status: RuntimePodStatus
    error: PeerError | None
    modified: float
    observed: float


class _Waiter:
    __slots__ = ("after", "released", "result")

    def __init__(self, after: float) -> None:
        self.after = after
        self.released = trio.Event()
        self.result: _Entry | None = None


class PodCache:
    """Written by PLEG, read by everyone. All methods but ``get_newer_than`` are immediate.

    ``refuse_stale`` is for an evented PLEG: a ``set`` older than the entry is refused (POD-902).
    """

    def __init__(self, *, refuse_stale: bool = False) -> None:
        self._entries: dict[str, _Entry] = {}
        self._waiters: dict[str, list[_Waiter]] = {}
        self._global_stamp = BEFORE_ALL
        self._refuse_stale = refuse_stale

    def get(self, uid: str) -> RuntimePodStatus:
        """The cached status; an empty one, carrying the uid, if unknown.

        Raises the cached ``PeerError`` if the last reading of the pod failed.
        """
        return _unpack(self._entries.get(uid), uid)

    async def get_newer_than(self, uid: str, after: float) -> RuntimePodStatus:
        """Wait until an observation newer than the stamp ``after`` exists, and return the status of then
        (RST-099).

        Newer is: the global stamp, or the entry's modified or observed stamp. An unknown pod has only the
        global one. Raises the cached ``PeerError`` as ``get`` does.
        """
        entry = self._entries.get(uid)
        if self._global_stamp > after or (entry and max(entry.modified, entry.observed) > after):
            await trio.lowlevel.checkpoint()
            return _unpack(entry, uid)
        waiter = _Waiter(after)
        self._waiters.setdefault(uid, []).append(waiter)
        try:
            await waiter.released.wait()
        finally:
            self._forget(uid, waiter)
        return _unpack(waiter.result, uid)

    def set(self, uid: str, status: RuntimePodStatus, error: PeerError | None, stamp: float) -> bool:
        """Replace the entry and release waiters. False if refused as older than what is cached (POD-902)."""
        known = self._entries.get(uid)
        if self._refuse_stale and known is not None and known.modified > stamp:
            return False
        observed = known.observed if known is not None else BEFORE_ALL
        self._entries[uid] = _Entry(status, error, stamp, observed)
        self._notify(uid, stamp)
        return True

    def set_observed_time(self, uid: str, stamp: float) -> None:
        """Say that the pod was looked at: releases waiters and changes no status (POD-902)."""
        known = self._entries.get(uid)
        if known is not None:
            self._entries[uid] = evolve(known, observed=stamp)
        self._notify(uid, stamp)

    def delete(self, uid: str) -> None:
        """Drop the entry. Waiters go on waiting for the global stamp."""
        self._entries.pop(uid, None)

    def update_time(self, stamp: float) -> None:
        """Move the global stamp (all pods were listed then) and release waiters of all pods (POD-902)."""
        self._global_stamp = stamp
        for uid in list(self._waiters):
            self._notify(uid, stamp)

    def _notify(self, uid: str, stamp: float) -> None:
        waiters = self._waiters.get(uid)
        if not waiters:
            return
        entry = self._entries.get(uid)
        for waiter in waiters:
            if stamp >= waiter.after and not waiter.released.is_set():
                waiter.result = entry
                waiter.released.set()

    def _forget(self, uid: str, waiter: _Waiter) -> None:
        waiters = self._waiters[uid]
        waiters.remove(waiter)
        if not waiters:
            del self._waiters[uid]


def _unpack(entry: _Entry | None, uid: str) -> RuntimePodStatus:
    if entry is None:
        return RuntimePodStatus(uid=uid)
    if entry.error is not None:
        raise entry.error.with_traceback(None)
    return entry.status
