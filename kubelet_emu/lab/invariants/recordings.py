"""A trace in the order in which a monitor sees it; recordings completed by what they do not carry (pure).

A recording of a real node has no polls, so it shows an exit only in a snapshot, up to half a second after the
kubelet knew. ``completed`` puts the exit where the kubelet can have known it first.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubelet_emu.trace.schema import Record, Trace

__all__ = ["completed"]

SNAPSHOT_LAG_SECONDS = 0.5


def completed(trace: Trace, objects: Mapping[str, Mapping[str, Any]]) -> Iterable[Record]:
    """The records, calls at their end. Recordings also get the pods' objects and the exits they imply."""
    if trace.ordered:
        return sorted(trace.records, key=lambda record: record.get("end", record["seq"]))
    return _complete(trace, objects)


def _complete(trace: Trace, objects: Mapping[str, Mapping[str, Any]]) -> Iterable[Record]:
    # Sorted by time; at one time what ends comes before what is seen.
    keyed: list[tuple[float, int, Record]] = []
    current = dict(objects)
    for name, given in current.items():
        keyed.append((float("-inf"), 0, _created(0.0, name, given)))
    for record in trace.records:
        if record["k"] == "action":
            for name, given in current.items():
                spec = _changed(given["spec"], record)
                if spec is not None:
                    current[name] = {**given, "spec": spec}
                    keyed.append((record["t"], 0, _created(record["t"], name, current[name])))
        ends = record["t"] + record.get("dt", 0.0)
        keyed.append((ends, 2 if record["k"] == "pod" else 1, record))
    keyed += _exits(trace)
    keyed.sort(key=lambda item: item[:2])
    return [record for _, _, record in keyed]


def _created(t: float, name: str, given: Mapping[str, Any]) -> Record:
    return {"t": t, "k": "action", "do": "create", "pod": name, "object": given}


def _changed(spec: Mapping[str, Any], record: Record) -> Mapping[str, Any] | None:
    """The specification after an action that changes it; None after any other."""
    if record["do"] == "add-ephemeral-container":
        return {**spec, "ephemeralContainers": [*spec.get("ephemeralContainers", ()), record["container"]]}
    if record["do"] == "update-image":
        containers = [
            {**one, "image": record["image"]} if one["name"] == record["container"] else one
            for one in spec["containers"]
        ]
        return {**spec, "containers": containers}
    return None


def _exits(trace: Trace) -> Iterable[tuple[float, int, Record]]:
    started: dict[str, float] = {}
    seen: set[tuple[str, float]] = set()
    for record in trace.records:
        if record["k"] == "cri" and record["m"] == "StartContainer" and not record.get("code"):
            started[record["container"]] = record["t"] + record.get("dt", 0.0)
        if record["k"] != "pod":
            continue
        for name, shown in record["containers"].items():
            for label, code, reason in _ended(name, shown):
                begun = started.get(label)
                if begun is None or (label, begun) in seen:
                    continue
                seen.add((label, begun))
                at = max(begun, record["t"] - SNAPSHOT_LAG_SECONDS)
                exit_record = {"t": at, "k": "process", "do": "exit", "container": label, "code": code}
                yield at, 1, exit_record | {"reason": reason, "pod": record["pod"]}


def _ended(name: str, shown: Mapping[str, Any]) -> Iterable[tuple[str, int, str]]:
    """Instances that a status shows as ended: the current one, and the one before it by ``last``."""
    label: str = shown.get("id", "")
    if label and shown["state"] == "terminated":
        yield label, shown.get("exitCode", 0), shown.get("reason", "")
    last = shown.get("last")
    number = label.rpartition("#")[2]
    invented = ("RestartingAllContainers", "ContainerStatusUnknown")
    if last and number.isdigit() and int(number) > 0 and last.get("reason") not in invented:
        yield f"{name}#{int(number) - 1}", last.get("exitCode", 0), last.get("reason", "")
