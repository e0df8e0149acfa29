"""What containers printed, read back from the CRI log files of a node.

As with ``kubectl logs`` only what is still there can be shown: the log of an instance goes with its
container, except where a whole pod was restarted in place.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubelet_emu.lab.log_lines import InstanceLog, parse_log
from node_host.files import Files

__all__ = ["read_logs"]


def read_logs(files: Files, logs_dir: str, pods: Iterable[Mapping[str, Any]]) -> tuple[InstanceLog, ...]:
    """The logs of all containers of these pods that are still there, in the order of the pods' specs."""
    found: list[InstanceLog] = []
    for pod in pods:
        meta: Mapping[str, Any] = pod["metadata"]
        spec: Mapping[str, Any] = pod.get("spec") or {}
        folder = f"{logs_dir}/{meta.get('namespace', 'default')}_{meta['name']}_{meta.get('uid', '')}"
        for kind in ("initContainers", "containers", "ephemeralContainers"):
            for container in spec.get(kind) or ():
                found += _instances(files, f"{folder}/{container['name']}", meta["name"], container["name"])
    return tuple(found)


def _instances(files: Files, folder: str, pod: str, container: str) -> list[InstanceLog]:
    try:
        names = files.list(folder)
    except OSError:
        return []
    parts: dict[int, list[str]] = {}
    for name in names:
        number, dot, rest = name.partition(".")
        # Rotated files are "0.log.20260101-000000", possibly compressed, and sort before "0.log" by age only.
        if number.isdigit() and dot and rest.startswith("log") and not rest.endswith(".gz"):
            parts.setdefault(int(number), []).append(name)
    logs: list[InstanceLog] = []
    for number in sorted(parts):
        ordered = sorted(parts[number], key=lambda name: (name.endswith(".log"), name))
        text = "".join(_text(files, f"{folder}/{name}") for name in ordered)
        logs.append(InstanceLog(pod, container, number, parse_log(text)))
    return logs


def _text(files: Files, path: str) -> str:
    try:
        return files.read(path).decode("utf-8", "replace")
    except OSError:
        return ""
