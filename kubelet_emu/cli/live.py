"""What is shown while pods run: rows as ``kubectl get pods --watch`` prints them."""

from collections.abc import Mapping
from typing import Any

from kubelet_emu.cli.output import Output
from kubelet_emu.lab.report.text import seconds_text
from kubelet_emu.lab.run import RunListener
from kubelet_emu.printers.pods import POD_COLUMNS, pod_row
from kubelet_emu.printers.tables import TableWriter

__all__ = ["LiveTable"]


class LiveTable(RunListener):
    """Appends a row whenever a pod's row has changed, its age apart.

    ``stop_when_unread`` ends the run when nobody reads the output any more; virtual time rather finishes, so
    that the exit code says what became of the pods.
    """

    def __init__(self, output: Output, *, namespaces: bool, stop_when_unread: bool) -> None:
        self._output = output
        self._namespaces = namespaces
        self._stop_when_unread = stop_when_unread
        columns = ("NAMESPACE", *POD_COLUMNS) if namespaces else POD_COLUMNS
        self._table = TableWriter(columns)
        self._shown: dict[str, tuple[object, ...]] = {}
        self.wants_pulse = output.terminal

    def pod(self, obj: Mapping[str, Any], *, now_ns: int, deleted: bool) -> None:
        """See ``RunListener``."""
        meta = obj["metadata"]
        if not meta.get("creationTimestamp"):
            # Nobody has created a static pod; it is as old as the kubelet's knowledge of it.
            status: Mapping[str, Any] = obj.get("status") or {}
            start = status.get("startTime")
            obj = {**obj, "metadata": {**meta, "creationTimestamp": start}}
        row = pod_row(obj, now_ns)
        age = row.age if obj["metadata"].get("creationTimestamp") else "0s"
        state = (row.ready, row.status, row.restart_count)
        key = f"{meta.get('namespace')}/{meta['name']}"
        if self._shown.get(key) == state and not deleted:
            return
        self._shown[key] = state
        cells = (row.name, row.ready, row.status, row.restarts, age)
        if self._namespaces:
            cells = (meta.get("namespace", ""), *cells)
        for text in self._table.write([cells]):
            self._output.write(text)

    def pulse(self, simulated_seconds: float, wall_seconds: float) -> None:
        """See ``RunListener``."""
        speed = simulated_seconds / wall_seconds if wall_seconds > 0 else 0.0
        text = f"{seconds_text(simulated_seconds)} simulated, {speed:.0f} times as fast as real time"
        self._output.status(f"{text}   Ctrl-C ends the run")

    def stop_wanted(self) -> bool:
        """See ``RunListener``."""
        return self._stop_when_unread and self._output.closed
