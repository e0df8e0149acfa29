"""The recorder of a run: takes calls, objects, decisions and facts, and keeps one ordered trace of them.

It never blocks and never fails the part that reports to it. Polls whose answer is as before cost one
serialisation and one comparison; nothing is built for them.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from kubelet_emu.trace.calls import COUNTED, POLLS, call_fields, poll_fields
from kubelet_emu.trace.names import Names
from kubelet_emu.trace.ndjson import dumps
from kubelet_emu.trace.schema import FORMAT, Record, Trace
from kubelet_emu.trace.snapshot import event_fields, pod_fields
from kubelet_emu.why import Why

__all__ = ["Message", "Subscriber", "TraceRecorder"]

Subscriber = Callable[[Record], None]
"""Called with each record as it is made, in order. May itself report further records."""

ANSWERS_MAX = 20_000
"""Questions whose last answer is remembered; beyond it the oldest is forgotten (and then recorded again)."""

HELD_MAX = 20_000
"""Records that wait for the zero of time; with more of them the clock's own zero is kept."""


class Message(Protocol):
    """As much of a protobuf message as is needed here."""

    def SerializeToString(self, *, deterministic: bool = ...) -> bytes: ...


class TraceRecorder:
    """Implements ``kubelet_emu.seams.Recorder`` and what the lab reports beside it.

    ``now`` gives node-clock seconds; ``zero_seconds`` is the node-clock time that the trace calls 0 and may
    be set later (``start``). ``sink`` receives each line as soon as it exists; with ``zero_later`` as soon as
    its time is known, which is at ``start``, ``release`` or ``close``. ``records_max`` bounds what is kept in
    memory: records past it go to sink and subscribers only, and ``dropped`` counts them.
    """

    def __init__(
        self,
        now: Callable[[], float],
        *,
        header: Mapping[str, Any] | None = None,
        sink: Callable[[str], object] | None = None,
        zero_seconds: float = 0.0,
        zero_later: bool = False,
        records_max: int = 2_000_000,
    ) -> None:
        self.header: Record = {"k": "header", "format": FORMAT, "emitter": "kubelet-emu", **(header or {})}
        self.names = Names()
        self.records: list[Record] = []
        self.dropped = 0
        self.call_counts: dict[str, int] = {}
        """Calls of every method so far, polls included."""
        self.zero_seconds = zero_seconds
        self._now = now
        self._sink = sink
        self._records_max = records_max
        self._subscribers: list[Subscriber] = []
        self._seq = 0
        self._answers: dict[tuple[str, bytes], tuple[bytes, bytes]] = {}
        self.moves: dict[tuple[str, str, str], int] = {}
        """Steps of the runtime's tables so far: table, state before, state after."""
        self._recorded_polls: dict[str, int] = {}
        self._last_pod: dict[str, Record] = {}
        self._generation: dict[str, object] = {}
        self._header_written = False
        self._closed = False
        self._held: list[Record] | None = [] if zero_later else None
        """What has been recorded before the zero of time; not yet written."""

    def start(self, *, zero_seconds: float, **header: object) -> None:
        """Call this moment of the node's clock 0 and complete the header.

        Before the first record, or with ``zero_later``: what was recorded until now moves, so that a node's
        start lies before 0. Subscribers have seen it with times since the clock's own zero.
        """
        earlier = zero_seconds - self.zero_seconds
        for record in self._held or ():
            record["t"] = round(record["t"] - earlier, 3) + 0.0
        self.zero_seconds = zero_seconds
        self.header.update(header)
        self.release()

    def release(self) -> None:
        """Write what waits for the zero of time as it is: nothing is lost where a node fails to start."""
        held, self._held = self._held, None
        for record in held or ():
            self._write(record)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Have each further record passed to ``subscriber``."""
        self._subscribers.append(subscriber)

    @contextmanager
    def listening(self, subscriber: Subscriber) -> Generator[None]:
        """Have records passed to ``subscriber`` for a while."""
        self._subscribers.append(subscriber)
        try:
            yield
        finally:
            self._subscribers.remove(subscriber)

    def trace(self) -> Trace:
        """What has been recorded so far, in order of ``seq``."""
        return Trace(dict(self.header), tuple(sorted(self.records, key=lambda record: record["seq"])))

    def next_seq(self) -> int:
        """Reserve a place in the order: that of the beginning of a call that is recorded when it ends."""
        self._seq += 1
        return self._seq

    # -- what the kubelet's parts report --

    def decision(
        self,
        machine: str,
        pod: str,
        why: Sequence[Why],
        *,
        inputs: Mapping[str, object],
        outcome: Mapping[str, object],
    ) -> None:
        """See ``kubelet_emu.seams.Recorder``."""
        rules = [str(reason) for reason in why]
        self._emit(
            {
                "k": "decision",
                "machine": machine,
                "pod": pod,
                "rules": rules,
                "inputs": inputs,
                "outcome": outcome,
            }
        )

    def fact(self, kind: str, **fields: object) -> None:
        """See ``kubelet_emu.seams.Recorder``. Keys ``k``, ``t`` and ``seq`` are the trace's own."""
        self._emit({"k": kind, **{key: value for key, value in fields.items() if key not in _OWN_KEYS}})

    # -- what the lab reports --

    def cri_call(
        self,
        method: str,
        request: Message,
        reply: Message | None,
        error: object | None,
        start_seconds: float,
        end_seconds: float,
        *,
        begun: int | None = None,
        wire: tuple[bytes, bytes | None] | None = None,
    ) -> None:
        """A finished call: its messages, ``reply`` or ``error``, node-clock seconds of both ends.

        ``begun`` is what ``next_seq`` gave when the call began; without it the call counts as begun when it
        ended, which matters only for calls of several workers at one instant. ``wire`` holds both messages
        as they were sent, which spares making their bytes again.
        """
        self.call_counts[method] = self.call_counts.get(method, 0) + 1
        if method in COUNTED:
            return
        polled = method in POLLS
        if polled:
            sent, came = wire or (_canonical(request), None)
            known = self._answers.get((method, sent))
            if known is not None and came is not None and known[0] == came:
                return
            # A peer of another make may write one message in several ways; ours never does.
            answer = _canonical(reply) if reply is not None else _error_key(error)
            if known is not None and known[1] == answer:
                return
            self._remember((method, sent), (came if came is not None else answer, answer))
            self._recorded_polls[method] = self._recorded_polls.get(method, 0) + 1
        record: Record = {"k": "cri", "m": method}
        if polled:
            record |= poll_fields(method, request, reply, self.names)
            record["poll"] = True
        else:
            record |= call_fields(method, request, reply, self.names)
        if error is not None:
            code, details = _error_text(error)
            record["code"] = code
            record["details"] = self.names.text(details)
        record["dt"] = round(end_seconds - start_seconds, 4)
        end = self.next_seq()
        record["end"] = end
        self._emit(record, seq=begun if begun is not None else end, at_seconds=start_seconds)

    def pod_object(self, pod: Mapping[str, Any], *, deleted: bool = False) -> None:
        """A pod object as a watch delivers it; equal neighbours are folded. ``deleted``: it was removed."""
        record = pod_fields(pod, self.names, deleted=deleted)
        generation: object = pod.get("metadata", {}).get("generation", 0)
        key: str = record["uid"] or record["pod"]
        if key not in self._generation or self._generation[key] != generation:
            self._generation[key] = generation
            record["spec"] = pod.get("spec", {})
        elif self._last_pod.get(key) == record:
            return
        self._last_pod[key] = {name: value for name, value in record.items() if name != "spec"}
        if deleted:
            del self._generation[key], self._last_pod[key]
        self._emit(record)

    def event_object(self, event: Mapping[str, Any]) -> None:
        """An Event object as a watch delivers it: new, or with its count increased."""
        self._emit(event_fields(event, self.names))

    def action(self, do: str, **fields: object) -> None:
        """Something done from outside; ``create`` carries the pod object as given under ``object``."""
        self._emit({"k": "action", "do": do, **{k: v for k, v in fields.items() if k not in _OWN_KEYS}})

    def device_call(self, method: str, resource: str, **fields: object) -> None:
        """A call to a device plugin: ``ids`` for Allocate and PreStartContainer, ``req`` for preferences."""
        self._emit({"k": "device", "method": method, "resource": resource, **fields})

    def process(self, do: str, container_id: str, **fields: object) -> None:
        """A container's first process: ``do`` is start or exit (with ``code`` or ``signal``)."""
        self._emit(
            {
                "k": "process",
                "do": do,
                "pod": self.names.pod(container_id),
                "container": self.names.label(container_id),
                **fields,
            }
        )

    def invariant(
        self, name: str, *, pod: str, rules: Sequence[str], message: str, evidence: list[int]
    ) -> None:
        """An invariant that did not hold."""
        self._emit(
            {
                "k": "invariant",
                "invariant": name,
                "rules": list(rules),
                "pod": pod,
                "message": message,
                "evidence": list(evidence),
            }
        )

    def moved(self, table: str, before: str, after: str) -> None:
        """A step of a state machine of the runtime; they are counted, and told at the end."""
        key = (table, str(before), str(after))
        self.moves[key] = self.moves.get(key, 0) + 1

    def close(self) -> Trace:
        """Write the counts of polls, one record a method, and of steps, one a table; return the whole trace.

        May be called twice.
        """
        self.release()
        if not self._closed:
            self._closed = True
            for method in sorted(self.call_counts):
                if method in POLLS or method in COUNTED:
                    count = self.call_counts[method]
                    unchanged = count - self._recorded_polls.get(method, 0)
                    self._emit({"k": "polls", "m": method, "count": count, "unchanged": unchanged})
            for table in dict.fromkeys(table for table, _, _ in sorted(self.moves)):
                counts = {
                    f"{before} > {after}": count
                    for (name, before, after), count in sorted(self.moves.items())
                    if name == table
                }
                self._emit({"k": "moves", "table": table, "moves": counts})
        return self.trace()

    # -- inside --

    def _remember(self, question: tuple[str, bytes], answer: tuple[bytes, bytes]) -> None:
        # Moved to the end, so that the first is the one that has gone unasked-or-unchanged for longest.
        self._answers.pop(question, None)
        self._answers[question] = answer
        if len(self._answers) > ANSWERS_MAX:
            del self._answers[next(iter(self._answers))]

    def _emit(self, record: Record, *, seq: int | None = None, at_seconds: float | None = None) -> None:
        at = self._now() if at_seconds is None else at_seconds
        stamped: Record = {
            "t": round(at - self.zero_seconds, 3) + 0.0,
            "k": record["k"],
            "seq": self.next_seq() if seq is None else seq,
        }
        stamped |= record
        if len(self.records) < self._records_max:
            self.records.append(stamped)
        else:
            self.dropped += 1
        if self._held is not None and len(self._held) < HELD_MAX:
            self._held.append(stamped)
        else:
            self.release()
            self._write(stamped)
        for subscriber in tuple(self._subscribers):
            subscriber(stamped)

    def _write(self, record: Record) -> None:
        if self._sink is None:
            return
        if not self._header_written:
            self._header_written = True
            self._sink(dumps(self.header) + "\n")
        self._sink(dumps(record) + "\n")


_OWN_KEYS = frozenset({"k", "t", "seq"})


def _canonical(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


def _error_key(error: object | None) -> bytes:
    return ("!" + ":".join(_error_text(error))).encode()


def _error_text(error: object | None) -> tuple[str, str]:
    """Code and details of a status error of any library; the type's name for another exception."""
    code = getattr(error, "code", None)
    code = code() if callable(code) else code
    details = getattr(error, "details", None)
    details = details() if callable(details) else details
    if code is None:
        return type(error).__name__, str(error)
    return str(getattr(code, "name", code)), str(details if details is not None else error)
