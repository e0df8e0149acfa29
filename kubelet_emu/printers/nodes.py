"""Rows of ``kubectl get nodes``; mirrors printNode of pkg/printers/internalversion/printers.go (pure)."""

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from kubelet_emu.api.codec import from_json
from kubelet_emu.api.types import Node
from kubelet_emu.printers.durations import age

__all__ = ["NODE_COLUMNS", "NODE_WIDE_COLUMNS", "NodeRow", "node_row"]

NODE_COLUMNS: Final = ("NAME", "STATUS", "ROLES", "AGE", "VERSION")
NODE_WIDE_COLUMNS: Final = (
    *NODE_COLUMNS,
    "INTERNAL-IP",
    "EXTERNAL-IP",
    "OS-IMAGE",
    "KERNEL-VERSION",
    "CONTAINER-RUNTIME",
)
_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE_LABEL: Final = "kubernetes.io/role"


@frozen(kw_only=True)
class NodeRow:
    """One row; ``wide_cells`` go on with addresses and versions."""

    cells: tuple[str, ...]
    wide_cells: tuple[str, ...]


def node_row(node: Node | Mapping[str, Any], now_ns: int) -> NodeRow:
    """The row of a node, given as a value or as JSON, at that time of day."""
    if not isinstance(node, Node):
        node = from_json(Node, node)
    info = node.status.node_info
    cells = (
        node.metadata.name,
        _status(node),
        ",".join(_roles(node)) or "<none>",
        age(node.metadata.creation_timestamp, now_ns),
        info.kubelet_version,
    )
    wide = (
        *cells,
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        info.os_image or "<unknown>",
        info.kernel_version or "<unknown>",
        info.container_runtime_version or "<unknown>",
    )
    return NodeRow(cells=cells, wide_cells=wide)


def _status(node: Node) -> str:
    ready = next((c.status for c in node.status.conditions if c.type == "Ready"), None)
    parts = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    if node.spec.unschedulable:
        parts.append("SchedulingDisabled")
    return ",".join(parts)


def _roles(node: Node) -> list[str]:
    labels = node.metadata.labels
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    if labels.get(_ROLE_LABEL):
        roles.add(labels[_ROLE_LABEL])
    return sorted(role for role in roles if role)


def _address(node: Node, kind: str) -> str:
    return next((entry.address for entry in node.status.addresses if entry.type == kind), "<none>")
