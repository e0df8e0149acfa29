"""Memory by NUMA node, what containers have been promised of it, and the state file (pure).

Mirrors ``pkg/kubelet/cm/memorymanager/state`` (DEV-174).
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from attrs import define, field, frozen

from kubelet_emu.cm.gotext import Struct, Typed, checksum
from kubelet_emu.errors import PeerError

__all__ = ["STATE_NAME", "Block", "MemoryState", "MemoryTable", "NodeMemory", "StoredMemory"]

STATE_NAME = "memory_manager_state"


@define
class MemoryTable:
    """Bytes of one kind of memory on one NUMA node. ``free`` + ``reserved`` = ``allocatable``."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int
    free: int


@define
class NodeMemory:
    """One NUMA node. ``cells`` are the nodes that it is grouped with by assignments over several nodes."""

    memory: dict[str, MemoryTable]
    cells: tuple[int, ...]
    assignments: int = 0


@frozen
class Block:
    """Bytes of one kind promised to a container, from these nodes."""

    nodes: tuple[int, ...]
    kind: str
    size: int


def _no_nodes() -> dict[int, NodeMemory]:
    return {}


def _no_blocks() -> dict[str, dict[str, tuple[Block, ...]]]:
    return {}


@define
class MemoryState:
    """All nodes, and the blocks by pod UID and container."""

    nodes: dict[int, NodeMemory] = field(factory=_no_nodes)
    entries: dict[str, dict[str, tuple[Block, ...]]] = field(factory=_no_blocks)

    def blocks(self, uid: str, container: str) -> tuple[Block, ...] | None:
        """What a container was promised, None if nothing."""
        return self.entries.get(uid, {}).get(container)

    def put(self, uid: str, container: str, blocks: tuple[Block, ...]) -> None:
        self.entries.setdefault(uid, {})[container] = blocks

    def delete(self, uid: str, container: str) -> None:
        containers = self.entries.get(uid, {})
        containers.pop(container, None)
        if not containers:
            self.entries.pop(uid, None)

    def places(self) -> list[tuple[str, str]]:
        return [(uid, name) for uid, containers in self.entries.items() for name in containers]


# -- the file --

_TABLE = (
    ("TotalMemSize", "total", "total"),
    ("SystemReserved", "systemReserved", "system_reserved"),
    ("Allocatable", "allocatable", "allocatable"),
    ("Reserved", "reserved", "reserved"),
    ("Free", "free", "free"),
)
"""Go's name of a field, its name in JSON, ours."""


@frozen
class StoredMemory:
    """Content of a file: the policy that wrote it, and its state."""

    policy: str
    state: MemoryState

    def encode(self) -> bytes:
        """The file for a state."""
        content: dict[str, Any] = {
            "policyName": self.policy,
            "machineState": {
                str(node): {
                    "numberOfAssignments": memory.assignments,
                    "memoryMap": {
                        kind: {key: getattr(table, ours) for _, key, ours in _TABLE}
                        for kind, table in sorted(memory.memory.items())
                    },
                    "cells": list(memory.cells),
                }
                for node, memory in sorted(self.state.nodes.items(), key=lambda item: str(item[0]))
            },
        }
        entries = {
            uid: {name: [_block_json(block) for block in blocks] for name, blocks in sorted(held.items())}
            for uid, held in sorted(self.state.entries.items())
        }
        if entries:
            content["entries"] = entries
        content["checksum"] = self._checksum()
        return json.dumps(content, separators=(",", ":")).encode()

    def _checksum(self) -> int:
        nodes = {node: Struct(_node_shown(memory), pointer=True) for node, memory in self.state.nodes.items()}
        entries = {
            uid: {name: [_block_shown(block) for block in blocks] for name, blocks in held.items()}
            for uid, held in self.state.entries.items()
        }
        fields = {
            "PolicyName": Typed("string", self.policy),
            "MachineState": Typed("state.NUMANodeMap", nodes),
            "Entries": Typed("state.ContainerMemoryAssignments", entries),
            "Checksum": Typed("checksum.Checksum", 0),
        }
        return checksum(Typed("*state.MemoryManagerCheckpoint", Struct(fields)))

    @classmethod
    def decode(cls, content: bytes) -> "StoredMemory":
        """Read a file; raises ``PeerError`` for one that is damaged."""
        try:
            given: Any = json.loads(content)
            stored = cls(str(given["policyName"]), MemoryState())
            for node, shown in cast("dict[str, Any]", given["machineState"]).items():
                tables = {
                    str(kind): MemoryTable(*(int(table[key]) for _, key, _ in _TABLE))
                    for kind, table in cast("dict[str, Any]", shown["memoryMap"]).items()
                }
                cells = tuple(int(cell) for cell in shown["cells"])
                stored.state.nodes[int(node)] = NodeMemory(tables, cells, int(shown["numberOfAssignments"]))
            for uid, held in cast("dict[str, Any]", given.get("entries") or {}).items():
                for name, blocks in cast("dict[str, Any]", held).items():
                    stored.state.put(uid, name, tuple(_block(block) for block in blocks))
            if given.get("checksum") != stored._checksum():
                raise PeerError("checkpoint is corrupted")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise PeerError(f"could not restore state from checkpoint: {error}") from None
        return stored


def _node_shown(memory: NodeMemory) -> Mapping[str, Any]:
    tables = {
        kind: Struct({go: Typed("uint64", getattr(table, ours)) for go, _, ours in _TABLE}, pointer=True)
        for kind, table in memory.memory.items()
    }
    return {
        "NumberOfAssignments": Typed("int", memory.assignments),
        "MemoryMap": Typed("map[v1.ResourceName]*state.MemoryTable", tables),
        "Cells": Typed("[]int", memory.cells),
    }


def _block_shown(block: Block) -> Struct:
    return Struct(
        {
            "NUMAAffinity": Typed("[]int", block.nodes),
            "Type": Typed("v1.ResourceName", block.kind),
            "Size": Typed("uint64", block.size),
        }
    )


def _block_json(block: Block) -> dict[str, Any]:
    return {"numaAffinity": list(block.nodes), "type": block.kind, "size": block.size}


def _block(given: Mapping[str, Any]) -> Block:
    return Block(tuple(int(node) for node in given["numaAffinity"]), str(given["type"]), int(given["size"]))
