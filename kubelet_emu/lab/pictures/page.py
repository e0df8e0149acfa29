"""A page to step through a run: one HTML file that needs no network (pure but for its own parts on disk).

The page holds the story's moments, the lanes of the timeline and the pod's snapshots as what changed from one
to the next; everything that is shown at a moment is put together in the browser.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from kubelet_emu.lab.explain.reading import PodReading, Reading
from kubelet_emu.lab.explain.story import Story, as_json
from kubelet_emu.lab.pictures.lanes import Lane, lanes_of
from kubelet_emu.lab.pictures.svg import COLOURS
from kubelet_emu.rules import RULES
from kubelet_emu.trace.schema import Record

__all__ = ["page_data", "page_html"]

_WEB = Path(__file__).parent / "web"
_WHOLE = ("phase", "reason", "message", "observedGeneration", "qosClass", "ip", "deleting", "deleted")


def page_html(story: Story) -> str:
    """The whole page as text."""
    data = json.dumps(page_data(story), separators=(",", ":"), ensure_ascii=False)
    parts = {
        "TITLE": escape(story.reading.title),
        "STYLE": _palette() + (_WEB / "page.css").read_text(encoding="utf-8"),
        # Nothing in the data may end the script that holds it.
        "DATA": data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"),
        "SCRIPT": (_WEB / "page.js").read_text(encoding="utf-8"),
    }
    text = (_WEB / "page.html").read_text(encoding="utf-8")
    for name in ("TITLE", "STYLE", "SCRIPT", "DATA"):
        before, _, after = text.partition(name)
        text = before + parts[name] + after
    return text


def _palette() -> str:
    light = ";".join(f"--{name}:{pair[0]}" for name, pair in COLOURS.items())
    dark = ";".join(f"--{name}:{pair[1]}" for name, pair in COLOURS.items())
    return f":root{{{light}}}\n@media(prefers-color-scheme:dark){{:root{{{dark}}}}}\n"


def page_data(story: Story) -> dict[str, Any]:
    """What the page is made from, as plain JSON values."""
    reading = story.reading
    told = as_json(story)
    used: dict[str, str] = {}
    moments: list[dict[str, Any]] = []
    for moment in told["moments"]:
        rules = [[one["rule"], one["about"]] for one in moment.pop("rules", [])]
        used |= {rule: RULES[rule] for rule, _ in rules if rule in RULES}
        moment.pop("seqs", None)
        moments.append(moment | ({"rules": rules} if rules else {}))
    return {
        "title": reading.title,
        "end": round(max(reading.end, 0.001), 4),
        "recorded": reading.recorded,
        "colours": list(COLOURS),
        "rules": used,
        "moments": moments,
        "pods": [_pod(reading, pod) for pod in reading.pods.values()],
    }


def _time(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _pod(reading: Reading, pod: PodReading) -> dict[str, Any]:
    workers, queue = _worker(reading.records, pod.name)
    return {
        "name": pod.name,
        "kinds": pod.kinds,
        "lanes": [_lane(lane) for lane in lanes_of(reading, pod)],
        "sandboxes": [
            [one.label, _time(one.asked), _time(one.ready), _time(one.ended), one.ip] for one in pod.sandboxes
        ],
        "instances": [
            [
                one.label,
                one.sandbox.rpartition("/")[2],
                _time(one.created),
                _time(one.started),
                _time(one.ended),
                one.code,
                _time(one.removed),
                one.reason,
                list(one.devices),
            ]
            for one in pod.instances
        ],
        "backoffs": [
            [name, _time(span.start), _time(span.end), span.text]
            for name, spans in pod.backoffs.items()
            for span in spans
        ],
        "deltas": _deltas(pod.snapshots),
        "workers": workers,
        "queue": queue,
        "devices": [[_time(mark.t), mark.text] for mark in pod.devices],
        "volumes": [_volume(volume) for volume in pod.spec.get("volumes") or ()],
    }


def _volume(volume: Mapping[str, Any]) -> list[str]:
    kinds = [key for key in volume if key != "name"]
    return [str(volume.get("name")), ", ".join(kinds)]


def _lane(lane: Lane) -> dict[str, Any]:
    def bars(many: Sequence[Any]) -> list[list[Any]]:
        return [[_time(one.start), _time(one.end), one.look, one.text, one.title] for one in many]

    return {
        "name": lane.name,
        "note": lane.note,
        "kind": lane.kind,
        "bars": bars(lane.bars),
        "thin": bars(lane.thin),
        "dots": [
            [_time(one.t), one.shape, one.look, one.text, one.title]
            for one in sorted(lane.dots, key=lambda dot: dot.t)
        ],
    }


def _deltas(snapshots: Sequence[Record]) -> list[dict[str, Any]]:
    """The snapshots, each as what changed since the one before."""
    found: list[dict[str, Any]] = []
    before: Record = {"conditions": {}, "containers": {}}
    for record in snapshots:
        changed = {key: record[key] for key in _WHOLE if key in record and record[key] != before.get(key)}
        delta: dict[str, Any] = {"t": _time(record["t"]), "set": changed}
        for key in ("conditions", "containers"):
            old = before[key]
            parts = {name: value for name, value in record[key].items() if old.get(name) != value}
            if parts:
                delta[key] = parts
        gone = [key for key in _WHOLE if key in before and key not in record]
        if gone:
            delta["gone"] = gone
        found.append(delta)
        before = record
    return found


def _worker(records: Sequence[Record], pod: str) -> tuple[list[list[Any]], list[list[Any]]]:
    """States of the pod's worker, and when the work queue had it due."""
    workers: list[list[Any]] = []
    queue: list[list[Any]] = []
    for record in records:
        if record.get("pod") != pod:
            continue
        if record["k"] == "decision" and record["machine"] == "podworkers":
            state = record["outcome"].get("state", "")
            if not workers or workers[-1][1] != state:
                workers.append([_time(record["t"]), state])
        elif record["k"] == "requeue":
            due = record["t"] + record.get("seconds", 0.0)
            queue.append([_time(record["t"]), _time(due), f"after {record.get('about', '')}"])
    return workers, queue
