"""Why containers could not be started: the waiting reasons of failed starts (mirrors ``reason_cache.go``).
(pure)

Kept in memory only, so a kubelet restart forgets them (STA-313). A failed start sets an entry, a
successful one removes it, nothing else touches it (RST-118, POD-610).
"""

from collections import OrderedDict

from kubelet_emu.container.runtime import SyncAction, SyncPodResult

__all__ = ["ENTRIES_MAX", "ReasonCache"]

ENTRIES_MAX = 1000


class ReasonCache:
    """Reason and message by pod uid and container name; the least recently used entry goes first."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, str], tuple[str, str]] = OrderedDict()

    def get(self, uid: str, name: str) -> tuple[str, str] | None:
        """Waiting reason and message, or None."""
        entry = self._entries.get((uid, name))
        if entry is not None:
            self._entries.move_to_end((uid, name))
        return entry

    def update(self, uid: str, result: SyncPodResult) -> None:
        """Take over the starts of one sync; other actions leave the cache alone."""
        for outcome in result.results:
            if outcome.action is not SyncAction.START_CONTAINER:
                continue
            if not outcome.error:
                self._entries.pop((uid, outcome.target), None)
                continue
            self._entries[uid, outcome.target] = (outcome.error, outcome.message)
            self._entries.move_to_end((uid, outcome.target))
            if len(self._entries) > ENTRIES_MAX:
                self._entries.popitem(last=False)
