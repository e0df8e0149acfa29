"""The CPU manager's state file (pure).

Mirrors ``pkg/kubelet/cm/cpumanager/state/state_checkpoint.go`` (DEV-173).
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from attrs import frozen

from kubelet_emu.cm.cpumanager.cpuset import format_cpus, parse_cpus
from kubelet_emu.cm.cpumanager.state import CpuState
from kubelet_emu.cm.gotext import Struct, Typed, checksum
from kubelet_emu.errors import CallerError, PeerError

__all__ = ["STATE_NAME", "StoredCpus", "decode_cpus", "encode_cpus"]

STATE_NAME = "cpu_manager_state"


@frozen
class StoredCpus:
    """Content of a file: the policy that wrote it, and its state."""

    policy: str
    state: CpuState


def encode_cpus(policy: str, state: CpuState) -> bytes:
    """The file for a state."""
    default = format_cpus(state.default)
    entries = {
        uid: {name: format_cpus(cpus) for name, cpus in sorted(containers.items())}
        for uid, containers in sorted(state.entries.items())
    }
    content: dict[str, Any] = {"policyName": policy, "defaultCpuSet": default}
    if entries:
        content["entries"] = entries
    content["checksum"] = _checksum(policy, default, entries)
    return json.dumps(content, separators=(",", ":")).encode()


def _checksum(policy: str, default: str, entries: Mapping[str, Any] | None) -> int:
    fields = {
        "PolicyName": Typed("string", policy),
        "DefaultCPUSet": Typed("string", default),
        "Entries": Typed("map[string]map[string]string", entries),
        "Checksum": Typed("checksum.Checksum", 0),
    }
    return checksum(Typed("*state.CPUManagerCheckpoint", Struct(fields)))


def decode_cpus(content: bytes) -> StoredCpus:
    """Read a file; raises ``PeerError`` for one that is damaged."""
    try:
        given = json.loads(content)
        if not isinstance(given, dict):
            raise TypeError("an object is expected")
        fields = cast("dict[str, Any]", given)
        policy, default = fields["policyName"], fields["defaultCpuSet"]
        entries = cast("dict[str, dict[str, str]]", fields.get("entries") or {})
        # A file without entries was summed with an empty map, one that says null with none.
        expected = _checksum(policy, default, entries)
        if fields.get("checksum") != expected:
            raise PeerError("checkpoint is corrupted")
        state = CpuState(parse_cpus(default))
        for uid, containers in entries.items():
            for name, cpus in containers.items():
                state.put(uid, name, parse_cpus(cpus))
    except (ValueError, TypeError, KeyError, AttributeError, CallerError, RecursionError) as error:
        raise PeerError(f"could not restore state from checkpoint: {error}") from None
    return StoredCpus(policy, state)
