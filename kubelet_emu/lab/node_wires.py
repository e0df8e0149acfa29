"""The wires between the kubelet and the plugins of a lab node."""

from kubelet_emu.cm.manager import PluginWires
from kubelet_emu.cm.sockets import memory_wires, unix_wires

__all__ = ["make_wires"]


def make_wires(folder: str, *, on_disk: bool, rooted: bool) -> PluginWires:
    """Wires in memory, or sockets on disk: below ``folder``, unless paths are ``rooted`` there already."""
    if not on_disk:
        return PluginWires(*memory_wires())
    if rooted:
        return PluginWires(*unix_wires())
    return PluginWires(*unix_wires(lambda path: folder + path))
