"""A run taken apart into strands: sequences whose order two runs of one node have in common (pure).

``status`` has one strand, the distinct snapshots. ``calls`` has ``work``, what the pod's worker does in
order; one strand for each probe; and one for the removal of what a newer instance has replaced, which happens
beside the work. ``events`` has a strand for each object that events are about, ``devices`` one for each
resource.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field, frozen

from kubelet_emu.trace.schema import Record, Trace

__all__ = ["END_TOLERANCE_SECONDS", "Item", "Strands", "strands_of"]

END_TOLERANCE_SECONDS = 1.5
"""What happens within this time of the end of a run may be missing in the other."""

CALL_ROUNDING_SECONDS = 0.002
"""Times are rounded to milliseconds; calls that touch by less than this do not overlap."""

REMOVALS_APART_SECONDS = 0.010
"""Two parts of the kubelet may remove one instance at once; removals closer than this have no order."""

_STATUS_KEYS = ("phase", "reason", "message", "deleting", "deleted", "observedGeneration", "qosClass", "ip")
_CALL_KEYS = ("container", "sandbox", "attempt", "log_path", "timeout", "image", "code")
_STARTING = frozenset({"", "ContainerCreating", "PodInitializing", "RestartingAllContainers"})


@frozen
class Item:
    """One element of a strand: what is compared (``key``), how it reads, when it was.

    ``grouped``: it overlapped a neighbour, so its place among those is not compared.
    """

    t: float
    key: tuple[tuple[str, Any], ...]
    text: str
    grouped: bool = False

    @property
    def line(self) -> str:
        """Time and text."""
        return f"{self.t:8.3f}  {self.text}"


@define
class Strands:
    """All strands of one pod in one run, by aspect and name; ``end`` is when the run ended."""

    end: float
    by_aspect: dict[str, dict[str, list[Item]]]
    restarts: tuple[float, ...] = ()
    """When the kubelet was restarted."""
    _waits: list[tuple[float, bool]] = field(factory=list[tuple[float, bool]])

    def retrying(self, begin: float, end: float) -> bool:
        """Whether at some time between the two a container waited for a retry, whose time is jittered."""
        index = max(bisect_right(self._waits, (begin, False)) - 1, 0)
        for at, waiting in self._waits[index:]:
            if at > end + 0.05:
                return False
            if waiting:
                return True
        return False


def strands_of(trace: Trace, pod: str = "") -> Strands:
    """Take a run apart for one pod (the first if none is named)."""
    pods = trace.pods
    pod = pod or (pods[0] if pods else "")
    several = len(pods) > 1
    records = [
        record
        for record in trace.records
        if not several or record["k"] == "action" or record.get("pod", pod) == pod
    ]
    records.sort(key=lambda record: record["t"])
    ends = [r["t"] for r in records if r["k"] == "action" and r["do"] == "end"]
    end = ends[0] if ends else max((record["t"] for record in records), default=0.0)
    records = [record for record in records if record["t"] <= end]
    snapshots = [record for record in records if record["k"] == "pod"]
    strands = {
        "status": {"status": _statuses(snapshots)},
        "calls": _calls([record for record in records if _is_call(record)]),
        "events": _events(record for record in records if _is_event(record)),
        "devices": _devices(record for record in records if record["k"] == "device"),
    }
    waits = [(record["t"], _waits_for_retry(record)) for record in snapshots]
    for record in records:
        if record["k"] == "event" and record["reason"] in ("FailedMount", "BackOff", "Failed"):
            waits.append((record["t"], True))
    restarts = tuple(r["t"] for r in records if r["k"] == "action" and r["do"] == "restart-kubelet")
    return Strands(end, strands, restarts, sorted(waits))


# -- status --


def _statuses(snapshots: Iterable[Record]) -> list[Item]:
    items: list[Item] = []
    for record in snapshots:
        if not record["conditions"] and not record["containers"] and record["phase"] == "Pending":
            continue  # as created; a watch that opens late does not see it
        key = _status_key(record)
        if not items or items[-1].key != key:
            items.append(Item(record["t"], key, _status_text(record)))
    return items


def _status_key(record: Record) -> tuple[tuple[str, Any], ...]:
    parts: list[tuple[str, Any]] = [(key, record[key]) for key in _STATUS_KEYS if record.get(key) is not None]
    parts += [(f"cond({name})", tuple(value)) for name, value in sorted(record["conditions"].items())]
    for name, shown in sorted(record["containers"].items()):
        for key, value in sorted(shown.items()):
            if key == "last":
                parts += [(f"{name}.last.{inner}", last) for inner, last in sorted(value.items())]
            elif key == "allocatedResourcesStatus":
                parts.append((f"{name}.devices", _device_health(value)))
            elif key not in ("image", "imageID"):
                parts.append((f"{name}.{key}", value))
    return tuple(parts)


def _device_health(resources: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    # The kubelet lists devices in the order of a Go map (DEV-203).
    return tuple(
        sorted(
            f"{resource.get('name')}/{device.get('resourceID')}={device.get('health')}"
            for resource in resources
            for device in resource.get("resources", ())
        )
    )


def _status_text(record: Record) -> str:
    conditions = [
        name + ("" if value[0] == "True" else f"={value[0]}")
        for name, value in record["conditions"].items()
        if value[0] != "False"
    ]
    containers: list[str] = []
    for name, shown in record["containers"].items():
        text = f"{name} {shown['state']}"
        if shown.get("reason"):
            text += f" {shown['reason']}"
        if "exitCode" in shown:
            text += f" {shown['exitCode']}"
        text += f" r{shown['restartCount']}" + (" ready" if shown.get("ready") else "")
        if "last" in shown:
            text += f" last {shown['last'].get('reason', '')} {shown['last'].get('exitCode', '')}"
        containers.append(text)
    head = record["phase"] + (f"/{record['reason']}" if record.get("reason") else "")
    marks = [mark for mark in ("deleting", "deleted") if mark in record]
    return "; ".join([" ".join([head, *marks]), *containers, "True: " + " ".join(conditions)])


def _waits_for_retry(record: Record) -> bool:
    return any(
        shown["state"] == "waiting" and shown.get("reason", "") not in _STARTING
        for shown in record["containers"].values()
    )


# -- calls --


def _is_call(record: Record) -> bool:
    """Calls about a container, a sandbox or an image; polls, and what concerns the node, are left out."""
    about = any(key in record for key in ("container", "sandbox", "image"))
    return record["k"] == "cri" and about and not record.get("poll")


def _calls(records: list[Record]) -> dict[str, list[Item]]:
    strands: dict[str, list[Item]] = {}
    work: list[Record] = []
    beside: dict[str, list[Record]] = {}
    replaced = _replaced(records)
    for index, record in enumerate(records):
        method = record["m"]
        if method == "ExecSync" and record.get("timeout"):  # hooks have no timeout of their own
            name = f"probe {record.get('container')} {' '.join(record.get('cmd', ()))}"
            strands.setdefault(name, []).append(_call_item(record))
        elif index in replaced:
            beside.setdefault(f"replaced {replaced[index]}", []).append(record)
        else:
            work.append(record)
    if work:
        beside["work"] = work
    for name, several in beside.items():
        if name != "work":
            several = _without_races(several)
        slack = CALL_ROUNDING_SECONDS if name == "work" else -REMOVALS_APART_SECONDS
        strands[name] = list(_in_groups(several, slack))
    return strands


def _without_races(records: list[Record]) -> list[Record]:
    """Removals of one instance by two parts of the kubelet at once, without how each of them ended."""
    times = Counter(record.get("container") for record in records if record["m"] == "RemoveContainer")
    return [
        {key: value for key, value in record.items() if key != "code"}
        if record["m"] == "RemoveContainer" and times[record.get("container")] > 1
        else record
        for record in records
    ]


def _replaced(records: list[Record]) -> dict[int, str]:
    """Stops and removals of what a newer instance or sandbox has replaced: index and container or sandbox."""
    latest: dict[str, str] = {}
    found: dict[int, str] = {}
    for index, record in enumerate(records):
        label: str = record.get("container") or record.get("sandbox") or ""
        thing = label.rpartition("#")[0]
        method = record["m"]
        if method in ("CreateContainer", "RunPodSandbox") and not record.get("code"):
            latest[thing] = label
        elif method in ("RemoveContainer", "RemovePodSandbox", "StopPodSandbox"):
            newest = latest.get(thing)
            if newest is not None and newest != label:
                found[index] = thing
            elif newest == label and method != "StopPodSandbox":
                del latest[thing]
    return found


def _in_groups(records: list[Record], slack_seconds: float) -> Iterable[Item]:
    """Calls of one strand; those that overlap run side by side and are put in the order of their names."""
    group: list[Record] = []
    busy_until = 0.0
    for record in records:
        if group and record["t"] >= busy_until - slack_seconds:
            yield from _sorted_group(group)
            group = []
        busy_until = max(busy_until if group else 0.0, record["t"] + record.get("dt", 0.0))
        group.append(record)
    yield from _sorted_group(group)


def _sorted_group(group: list[Record]) -> Iterable[Item]:
    several = len(group) > 1
    items = [_call_item(record, grouped=several) for record in group]
    return sorted(items, key=lambda item: item.text) if several else items


def _call_item(record: Record, *, grouped: bool = False) -> Item:
    key: list[tuple[str, Any]] = [("m", record["m"])]
    key += [(name, record[name]) for name in _CALL_KEYS if _counts(record, name)]
    if record.get("cmd"):
        key.append(("cmd", tuple(record["cmd"])))
    shown = [str(value) for name, value in key if name not in ("m", "cmd", "attempt", "code", "timeout")]
    text = " ".join([record["m"], *shown])
    if record.get("timeout"):
        text += f" timeout {record['timeout']}"
    if record.get("cmd"):
        text += " " + " ".join(record["cmd"])
    if record.get("code"):
        text += f" → {record['code']}"
    return Item(record["t"], tuple(key), text, grouped)


def _counts(record: Record, name: str) -> bool:
    if record.get(name) is None:
        return False
    # Our traces say more than the recordings: the sandbox and the image of a container.
    return not (record["m"] == "CreateContainer" and name in ("sandbox", "image"))


# -- events and devices --


def _is_event(record: Record) -> bool:
    """Events; the warning about cluster DNS is left out, as the recordings leave it out."""
    return record["k"] == "event" and record["reason"] not in ("DNSConfigForming", "MissingClusterDNS")


def _events(records: Iterable[Record]) -> dict[str, list[Item]]:
    strands: dict[str, list[Item]] = {}
    for record in records:
        on: str = record.get("on") or "pod"
        key = tuple((name, record.get(name)) for name in ("reason", "type", "message", "count"))
        count = record.get("count", 1)
        text = f"{record['type']} {record['reason']} {on} ×{count}: {record['message']}"
        strands.setdefault(on, []).append(Item(record["t"], key, text))
    return strands


def _devices(records: Iterable[Record]) -> dict[str, list[Item]]:
    strands: dict[str, list[Item]] = {}
    for record in records:
        method = record["method"]
        if method not in ("Allocate", "PreStartContainer"):
            continue
        ids: list[Any] = record.get("ids", [])
        flat = sorted(str(one) for each in ids for one in (each if isinstance(each, list) else [each]))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        key: tuple[tuple[str, Any], ...] = (("method", method), ("ids", tuple(flat)))
        text = f"{method} {record['resource']} {' '.join(flat)}"
        strands.setdefault(record["resource"], []).append(Item(record["t"], key, text))
    return strands
