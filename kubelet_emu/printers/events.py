"""Events as ``kubectl get events`` and ``kubectl describe`` show them (pure)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kubelet_emu.api.codec import from_json
from kubelet_emu.api.types import Event
from kubelet_emu.printers.durations import age
from kubelet_emu.printers.tables import format_block

__all__ = ["EVENT_COLUMNS", "describe_events", "event_interval", "event_row"]

EVENT_COLUMNS: Final = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


def _typed(event: Event | Mapping[str, Any]) -> Event:
    return event if isinstance(event, Event) else from_json(Event, event)


def event_row(event: Event | Mapping[str, Any], now_ns: int) -> tuple[str, ...]:
    """The cells of ``kubectl get events``."""
    event = _typed(event)
    seen = event.last_timestamp if event.last_timestamp is not None else _first_seen(event)
    if event.series is not None:
        seen = event.series.last_observed_time
    target = event.involved_object
    return (
        age(seen, now_ns),
        event.type or "",
        event.reason or "",
        f"{(target.kind or '').lower()}/{target.name or ''}",
        (event.message or "").strip(),
    )


def _first_seen(event: Event) -> int | None:
    return event.event_time if event.event_time is not None else event.first_timestamp


def event_interval(event: Event | Mapping[str, Any], now_ns: int) -> str:
    """The age column of ``describe``: ``10s``, or ``10s (x3 over 1m)`` for a repeated event."""
    event = _typed(event)
    first = age(_first_seen(event), now_ns)
    if event.series is not None:
        return f"{age(event.series.last_observed_time, now_ns)} (x{event.series.count or 0} over {first})"
    if (event.count or 0) > 1:
        return f"{age(event.last_timestamp, now_ns)} (x{event.count} over {first})"
    return first


def describe_events(events: Iterable[Event | Mapping[str, Any]], now_ns: int) -> tuple[str, ...]:
    """The lines of the Events section of ``kubectl describe``, oldest first; ``Events:  <none>`` for none."""
    typed = sorted(map(_typed, events), key=lambda event: event.last_timestamp or event.event_time or 0)
    if not typed:
        return ("Events:  <none>",)
    rows: list[Sequence[str]] = [
        ("Type", "Reason", "Age", "From", "Message"),
        ("----", "------", "----", "----", "-------"),
    ]
    rows += [
        (
            event.type or "",
            event.reason or "",
            event_interval(event, now_ns),
            event.source.component or event.reporting_component,
            _with_field_path(event),
        )
        for event in typed
    ]
    return ("Events:", *(f"  {line}" for line in format_block(rows)))


def _with_field_path(event: Event) -> str:
    path = event.involved_object.field_path
    message = (event.message or "").strip()
    return f"{path}: {message}" if path else message
