"""One Kubernetes node in pure Python: a kubelet, a CRI runtime and the wire between them.

``Session`` is a node to work with from plain Python, ``Node`` the same inside a trio run, ``run`` what the
command line's ``run`` does. They are imported when first used: importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubelet_emu.lab.node import Node, NodeOptions
    from kubelet_emu.lab.run import RunOptions, RunResult, run
    from kubelet_emu.lab.session import Session

__all__ = ["Node", "NodeOptions", "RunOptions", "RunResult", "Session", "run"]

_HOMES = {
    "Node": "kubelet_emu.lab.node",
    "NodeOptions": "kubelet_emu.lab.node",
    "RunOptions": "kubelet_emu.lab.run",
    "RunResult": "kubelet_emu.lab.run",
    "Session": "kubelet_emu.lab.session",
    "run": "kubelet_emu.lab.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
