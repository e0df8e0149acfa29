"""Pod sources, update types and what kind of pod a pod is (pure).

Mirrors ``pkg/kubelet/types/pod_update.go`` (POD-202, POD-203, POD-307, POD-404).
"""

from enum import StrEnum

from kubelet_emu.api.types import Pod

__all__ = [
    "API_SOURCE",
    "CONFIG_HASH_ANNOTATION",
    "CONFIG_MIRROR_ANNOTATION",
    "CONFIG_SEEN_ANNOTATION",
    "CONFIG_SOURCE_ANNOTATION",
    "FILE_SOURCE",
    "HTTP_SOURCE",
    "SYSTEM_CRITICAL_PRIORITY",
    "UpdateType",
    "full_name",
    "is_critical_pod",
    "is_mirror_pod",
    "is_static_pod",
    "is_terminal_phase",
    "phase_of",
    "split_full_name",
    "uid_of",
]

FILE_SOURCE = "file"
HTTP_SOURCE = "http"
API_SOURCE = "api"

CONFIG_SOURCE_ANNOTATION = "kubernetes.io/config.source"
CONFIG_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
CONFIG_SEEN_ANNOTATION = "kubernetes.io/config.seen"
CONFIG_HASH_ANNOTATION = "kubernetes.io/config.hash"

SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
"""Priority from which on a pod is critical for the node (POD-404)."""


class UpdateType(StrEnum):
    """Why a worker is given an update (POD-307)."""

    SYNC = "sync"
    UPDATE = "update"
    CREATE = "create"
    KILL = "kill"


def uid_of(pod: Pod) -> str:
    """The pod's UID, empty if it has none."""
    return pod.metadata.uid


def full_name(pod: Pod) -> str:
    """``<name>_<namespace>`` (POD-005)."""
    return f"{pod.metadata.name}_{pod.metadata.namespace}"


def split_full_name(text: str) -> tuple[str, str] | None:
    """Name and namespace of a pod full name; None unless it has exactly two non-empty parts (POD-005)."""
    parts = text.split("_")
    return (parts[0], parts[1]) if len(parts) == 2 and all(parts) else None


def phase_of(pod: Pod) -> str:
    """The phase that the source reports, empty if none."""
    return pod.status.phase or ""


def is_terminal_phase(phase: str | None) -> bool:
    """Whether a phase is Succeeded or Failed."""
    return phase in ("Succeeded", "Failed")


def is_static_pod(pod: Pod) -> bool:
    """Whether the pod came from a file or an URL: it names a source, and that is not the API (POD-203)."""
    return pod.metadata.annotations.get(CONFIG_SOURCE_ANNOTATION, API_SOURCE) != API_SOURCE


def is_mirror_pod(pod: Pod) -> bool:
    """Whether the API object only mirrors a static pod (POD-203)."""
    return CONFIG_MIRROR_ANNOTATION in pod.metadata.annotations


def is_critical_pod(pod: Pod) -> bool:
    """Whether the pod may push others aside: static, mirror, or of a system priority (POD-404)."""
    priority = pod.spec.priority
    return (
        is_static_pod(pod)
        or is_mirror_pod(pod)
        or (priority is not None and priority >= SYSTEM_CRITICAL_PRIORITY)
    )
