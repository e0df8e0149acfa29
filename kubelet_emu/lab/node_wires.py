"""The wires between the kubelet and the plugins of a lab node, and where a simulator gets in between."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from attrs import frozen

from kubelet_emu.cm.manager import PluginWires
from kubelet_emu.cm.sockets import memory_wires, unix_wires
from kubelet_emu.pleg.generic import PlegGate
from node_host.faults import FaultPlan
from trio_grpc import CallHook

__all__ = ["NodeSeams", "make_wires"]


@frozen(kw_only=True)
class NodeSeams:
    """Where faults come in. ``faults`` meet the calls of the kubelet to the runtime and, both ways, those
    between it and plugins; ``hooks`` see these calls. ``on_crash`` is told the socket's path of a peer that a
    fault lets die. ``pleg`` gets every event of PLEG with what delivers it, instead of the delivery itself.
    """

    faults: FaultPlan | None = None
    hooks: tuple[CallHook, ...] = ()
    on_crash: Callable[[str], None] | None = None
    pleg: PlegGate | None = None

    def channel_options(self, path: str) -> Mapping[str, Any]:
        """Options of a channel to that path."""
        if self.faults is None and not self.hooks:
            return {}
        on_crash = partial(self.on_crash, path) if self.on_crash is not None else None
        return {"faults": self.faults, "hooks": self.hooks, "on_crash": on_crash}


def make_wires(folder: str, *, on_disk: bool, rooted: bool, seams: NodeSeams) -> PluginWires:
    """Wires in memory, or sockets on disk: below ``folder``, unless paths are ``rooted`` there already."""
    options = seams.channel_options
    if not on_disk:
        return PluginWires(*memory_wires(options_for=options))
    if rooted:
        return PluginWires(*unix_wires(options_for=options))
    return PluginWires(*unix_wires(lambda path: folder + path, options_for=options))
