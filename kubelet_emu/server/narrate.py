"""What a person who watches a served node wants to read: records of the trace as lines (pure)."""

from collections.abc import Mapping
from typing import Any, cast

__all__ = ["Narrator"]

MAX_PODS = 10_000


class Narrator:
    """Turns records into lines; what changes nothing that a person sees gives none."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}

    def line(self, record: Mapping[str, Any]) -> str:
        """The line of a record, empty for none."""
        kind = record["k"]
        if kind == "pod":
            return self._pod(record)
        if kind == "event":
            where = "".join(f" {record[key]}" for key in ("pod", "on") if record.get(key))
            times = f" (x{record['count']})" if record.get("count", 1) > 1 else ""
            return f"event {record['type']} {record['reason']}{where}: {record['message']}{times}"
        if kind == "plugin":
            return self._plugin(record)
        if kind == "config" and record.get("problem"):
            return f"manifest {record.get('file') or record.get('url', '')}: {record['problem']}"
        if kind in ("note", "pleg", "runtime") and (record.get("text") or record.get("problem")):
            return f"{record.get('about', kind)}: {record.get('text') or record.get('problem')}"
        if kind == "invariant":
            return f"INVARIANT {record['invariant']}: {record['message']}"
        return ""

    def _pod(self, record: Mapping[str, Any]) -> str:
        name = str(record["pod"])
        containers = cast("Mapping[str, Mapping[str, Any]]", record.get("containers") or {})
        regular = [each for each in containers.values() if each.get("kind") == "regular"]
        ready = sum(bool(each.get("ready")) for each in regular)
        restarts = sum(int(each.get("restartCount") or 0) for each in containers.values())
        reasons = [str(each["reason"]) for each in regular if each.get("reason")]
        status = str(record.get("reason") or (reasons[0] if reasons else record.get("phase")))
        text = f"pod {name} {record.get('phase')} {status} ready {ready}/{len(regular)} restarts {restarts}"
        if record.get("deleted"):
            self._shown.pop(name, None)
            return f"pod {name} gone"
        if self._shown.get(name) == text:
            return ""
        if len(self._shown) >= MAX_PODS:
            self._shown.clear()
        self._shown[name] = text
        return text

    def _plugin(self, record: Mapping[str, Any]) -> str:
        do, resource = record.get("do"), record.get("resource")
        if do == "listed":
            healthy, unhealthy = record.get("healthy"), record.get("unhealthy")
            return f"devices {resource}: {healthy} healthy, {unhealthy} unhealthy"
        error = f": {record['error']}" if record.get("error") else ""
        return f"plugin {resource} {do}{error}"
