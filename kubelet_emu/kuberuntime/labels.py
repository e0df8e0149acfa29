"""Labels, annotations, hashes, log paths and attempt numbers of sandboxes and containers (pure).

Mirrors ``pkg/kubelet/kuberuntime/labels.go``, ``helpers.go`` (log paths), ``legacy.go`` (symlinks),
``kuberuntime_container.go`` (calcRestartCountByLogDir) and ``pkg/kubelet/container/helpers.go``
(HashContainer): RST-185 to RST-193, LOG-01 to LOG-05.
"""

import json
import re
from collections.abc import Iterable, Mapping

from attrs import field, frozen

from kubelet_emu.api.codec import to_json
from kubelet_emu.api.types import Container, Pod

__all__ = [
    "CONTAINER_HASH",
    "CONTAINER_NAME",
    "CONTAINER_PORTS",
    "POD_DELETION_GRACE",
    "POD_NAME",
    "POD_NAMESPACE",
    "POD_TERMINATION_GRACE",
    "POD_UID",
    "PRE_STOP_HANDLER",
    "RESTART_COUNT",
    "TERMINATION_MESSAGE_PATH",
    "TERMINATION_MESSAGE_POLICY",
    "ContainerNotes",
    "container_annotations",
    "container_hash",
    "container_id_of_symlink",
    "container_labels",
    "container_log_path",
    "fnv1a_32",
    "hash_of",
    "log_symlink_name",
    "parse_container_annotations",
    "pod_log_directory",
    "restart_count_from_log_files",
    "sandbox_labels",
    "uid_of_log_directory",
]

POD_NAME = "io.kubernetes.pod.name"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
POD_UID = "io.kubernetes.pod.uid"
CONTAINER_NAME = "io.kubernetes.container.name"
CONTAINER_HASH = "io.kubernetes.container.hash"
RESTART_COUNT = "io.kubernetes.container.restartCount"
TERMINATION_MESSAGE_PATH = "io.kubernetes.container.terminationMessagePath"
TERMINATION_MESSAGE_POLICY = "io.kubernetes.container.terminationMessagePolicy"
POD_DELETION_GRACE = "io.kubernetes.pod.deletionGracePeriod"
POD_TERMINATION_GRACE = "io.kubernetes.pod.terminationGracePeriod"
PRE_STOP_HANDLER = "io.kubernetes.container.preStopHandler"
CONTAINER_PORTS = "io.kubernetes.container.ports"

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193
_LOG_FILE = re.compile(r"([0-9]+)\.log(\..*)?")
_INT64_MAX = (1 << 63) - 1
_SYMLINK_NAME_MAX = 251


def fnv1a_32(data: bytes) -> int:
    """FNV-1a with 32 bits."""
    value = _FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return value


def _go_json(value: str) -> str:
    """A string as Go's encoding/json writes it: HTML characters and line separators are escaped too."""
    text = json.dumps(value, ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def container_hash(container: Container) -> int:
    """Hash over name and image; a running container whose hash differs is restarted (RST-063, RST-193)."""
    picked = f'{{"image":{_go_json(container.image)},"name":{_go_json(container.name)}}}'
    spelled = "([]uint8)[" + " ".join(str(byte) for byte in picked.encode()) + "]"
    return fnv1a_32(spelled.encode())


def container_labels(pod: Pod, container_name: str) -> dict[str, str]:
    """The four labels of a container (RST-191)."""
    meta = pod.metadata
    return {
        POD_NAME: meta.name,
        POD_NAMESPACE: meta.namespace,
        POD_UID: meta.uid,
        CONTAINER_NAME: container_name,
    }


def sandbox_labels(pod: Pod) -> dict[str, str]:
    """All labels of the pod, and the three of the kubelet, which win (RST-191)."""
    meta = pod.metadata
    return {
        **meta.labels,
        POD_NAME: meta.name,
        POD_NAMESPACE: meta.namespace,
        POD_UID: meta.uid,
    }


def container_annotations(
    pod: Pod, container: Container, restart_count: int, given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Annotations of a new instance; those ``given`` by device plugins come first and lose (RST-192)."""
    meta, spec = pod.metadata, pod.spec
    notes = dict(given or {})
    notes[CONTAINER_HASH] = f"{container_hash(container):x}"
    notes[RESTART_COUNT] = str(restart_count)
    notes[TERMINATION_MESSAGE_PATH] = container.termination_message_path or ""
    notes[TERMINATION_MESSAGE_POLICY] = container.termination_message_policy or ""
    if meta.deletion_grace_period_seconds is not None:
        notes[POD_DELETION_GRACE] = str(meta.deletion_grace_period_seconds)
    if spec.termination_grace_period_seconds is not None:
        notes[POD_TERMINATION_GRACE] = str(spec.termination_grace_period_seconds)
    if container.lifecycle is not None and container.lifecycle.pre_stop is not None:
        notes[PRE_STOP_HANDLER] = _compact(to_json(container.lifecycle.pre_stop))
    if container.ports:
        notes[CONTAINER_PORTS] = _compact([to_json(port) for port in container.ports])
    return notes


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@frozen
class ContainerNotes:
    """What the annotations of an instance say; a missing or malformed entry reads as empty, 0 or None."""

    hash: int = 0
    restart_count: int = 0
    termination_message_path: str = ""
    termination_message_policy: str = ""
    pod_deletion_grace_seconds: int | None = None
    pod_termination_grace_seconds: int | None = None
    pre_stop: Mapping[str, object] | None = field(default=None, eq=False)
    ports: tuple[Mapping[str, object], ...] = field(default=(), eq=False)


def _number(text: str, base: int = 10) -> int:
    try:
        return int(text, base)
    except ValueError:
        return 0


def _optional_number(notes: Mapping[str, str], key: str) -> int | None:
    return _number(notes[key]) if key in notes else None


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def hash_of(notes: Mapping[str, str]) -> int:
    """The container hash among annotations, 0 without one: all that a list of containers needs of them."""
    return _number(notes.get(CONTAINER_HASH, ""), 16)


def parse_container_annotations(notes: Mapping[str, str]) -> ContainerNotes:
    """Read an instance's annotations back (RST-192, getContainerInfoFromAnnotations)."""
    hook = _parsed(notes[PRE_STOP_HANDLER]) if PRE_STOP_HANDLER in notes else None
    ports = _parsed(notes[CONTAINER_PORTS]) if CONTAINER_PORTS in notes else None
    return ContainerNotes(
        hash=hash_of(notes),
        restart_count=_number(notes.get(RESTART_COUNT, "")),
        termination_message_path=notes.get(TERMINATION_MESSAGE_PATH, ""),
        termination_message_policy=notes.get(TERMINATION_MESSAGE_POLICY, ""),
        pod_deletion_grace_seconds=_optional_number(notes, POD_DELETION_GRACE),
        pod_termination_grace_seconds=_optional_number(notes, POD_TERMINATION_GRACE),
        pre_stop=_as_mapping(hook),
        ports=tuple(_mappings(ports)),
    )


def _as_mapping(value: object) -> Mapping[str, object] | None:
    if not isinstance(value, dict):
        return None
    items: dict[object, object] = value  # pyright: ignore[reportUnknownVariableType]
    return {str(key): item for key, item in items.items()}


def _mappings(value: object) -> Iterable[Mapping[str, object]]:
    if isinstance(value, list):
        items: list[object] = value  # pyright: ignore[reportUnknownVariableType]
        for item in items:
            mapping = _as_mapping(item)
            if mapping is not None:
                yield mapping


def pod_log_directory(pod_logs_dir: str, namespace: str, name: str, uid: str) -> str:
    """Log directory of a pod (RST-188, LOG-01)."""
    return f"{pod_logs_dir}/{namespace}_{name}_{uid}"


def uid_of_log_directory(name: str) -> str:
    """The pod uid in the name of a pod's log directory: what follows the last ``_``."""
    return name.rsplit("_", 1)[-1]


def container_log_path(container_name: str, restart_count: int) -> str:
    """Log file of an instance, relative to the pod's log directory (RST-187)."""
    return f"{container_name}/{restart_count}.log"


def restart_count_from_log_files(names: Iterable[str]) -> int:
    """The next number after the highest log file of a container's directory, 0 without any (RST-185,
    LOG-02).
    """
    highest = -1
    for name in names:
        match = _LOG_FILE.match(name)
        number = int(match.group(1)) if match is not None else -1
        if number <= _INT64_MAX:
            highest = max(highest, number)
    return highest + 1


def log_symlink_name(pod_name: str, namespace: str, container_name: str, container_id: str) -> str:
    """File name of the symlink to a log, cut to 251 characters before ``.log`` (RST-189, LOG-05)."""
    return f"{pod_name}_{namespace}_{container_name}-{container_id}"[:_SYMLINK_NAME_MAX] + ".log"


def container_id_of_symlink(file_name: str) -> str:
    """The container id in a symlink's name, empty where it cannot be told (CRI-010: at least 6
    characters).
    """
    stem, dot, suffix = file_name.rpartition(".")
    _, dash, container_id = stem.rpartition("-")
    return container_id if dot and suffix == "log" and dash and len(container_id) >= 6 else ""
