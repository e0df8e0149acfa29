"""Which events of a stream become API objects: counting, aggregation, spam filter (EVT-02). (pure)

Mirrors ``client-go/tools/record/events_cache.go``. The correlator is a value machine: ``observe`` takes an
event and the time and says whether to create an object, to raise the count of one, or to drop it.
"""

from collections import OrderedDict
from typing import Literal, TypeVar

from attrs import define, field, frozen

__all__ = ["CACHE_MAX", "Correlator", "EventKey", "Verdict"]

_K = TypeVar("_K")
_V = TypeVar("_V")

CACHE_MAX = 4096
SPAM_BURST = 25
SPAM_REFILL_SECONDS = 300.0
AGGREGATE_AFTER = 10
AGGREGATE_WINDOW_SECONDS = 600.0
AGGREGATE_PREFIX = "(combined from similar events): "


@frozen
class EventKey:
    """What makes two events the same: object, place, type, reason and text."""

    involved_uid: str
    field_path: str
    event_type: str
    reason: str
    message: str


@frozen
class Verdict:
    """``create`` a new object, ``count`` one up to ``count`` (object ``name``), or ``drop``."""

    action: Literal["create", "count", "drop"]
    message: str = ""
    count: int = 1
    name: str = ""
    key: EventKey | None = None


@define
class _Similar:
    last_seconds: float
    messages: set[str] = field(factory=set[str])


@define
class _Seen:
    count: int = 0
    name: str = ""


@define
class _Bucket:
    tokens: float = float(SPAM_BURST)
    updated_seconds: float = 0.0


@define
class Correlator:
    """State of one event source. Every table is bounded by ``CACHE_MAX``, oldest out first."""

    similar: OrderedDict[tuple[str, ...], _Similar] = field(factory=OrderedDict[tuple[str, ...], _Similar])
    seen: OrderedDict[object, _Seen] = field(factory=OrderedDict[object, _Seen])
    buckets: OrderedDict[tuple[str, ...], _Bucket] = field(factory=OrderedDict[tuple[str, ...], _Bucket])

    def observe(self, key: EventKey, *, now_seconds: float) -> Verdict:
        """Judge one event. For ``create`` the caller must call ``created`` once the object has a name."""
        message, cache_key = self._aggregate(key, now_seconds)
        seen = self.seen.get(cache_key)
        if seen is None:
            seen = _Seen()
            _bounded(self.seen, cache_key, seen)
        else:
            self.seen.move_to_end(cache_key)
        seen.count += 1
        if not self._spend((key.involved_uid, key.event_type), now_seconds):
            return Verdict("drop")
        final = EventKey(key.involved_uid, key.field_path, key.event_type, key.reason, message)
        if seen.name:
            return Verdict("count", message=message, count=seen.count, name=seen.name, key=final)
        return Verdict("create", message=message, count=seen.count, key=final)

    def created(self, key: EventKey, name: str) -> None:
        """Remember the name under which an event was stored, for later counts."""
        aggregate = key.message.startswith(AGGREGATE_PREFIX)
        cache_key: object = _similar_key(key) if aggregate else key
        seen = self.seen.get(cache_key)
        if seen is not None:
            seen.name = name

    def _aggregate(self, key: EventKey, now_seconds: float) -> tuple[str, object]:
        similar_key = _similar_key(key)
        similar = self.similar.get(similar_key)
        if similar is None or now_seconds - similar.last_seconds > AGGREGATE_WINDOW_SECONDS:
            similar = _Similar(now_seconds)
            _bounded(self.similar, similar_key, similar)
        similar.last_seconds = now_seconds
        if key.message in similar.messages or len(similar.messages) < AGGREGATE_AFTER:
            similar.messages.add(key.message)
            return key.message, key
        return AGGREGATE_PREFIX + key.message, similar_key

    def _spend(self, key: tuple[str, ...], now_seconds: float) -> bool:
        bucket = self.buckets.get(key)
        if bucket is None:
            bucket = _Bucket(updated_seconds=now_seconds)
            _bounded(self.buckets, key, bucket)
        gained = (now_seconds - bucket.updated_seconds) / SPAM_REFILL_SECONDS
        bucket.tokens = min(float(SPAM_BURST), bucket.tokens + max(0.0, gained))
        bucket.updated_seconds = now_seconds
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True


def _similar_key(key: EventKey) -> tuple[str, ...]:
    return (key.involved_uid, key.event_type, key.reason)


def _bounded(table: OrderedDict[_K, _V], key: _K, value: _V) -> None:
    table[key] = value
    if len(table) > CACHE_MAX:
        table.popitem(last=False)
