"""What a plugin tells whoever runs it: the calls it got and what became of it (pure)."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from attrs import frozen

__all__ = ["Observer", "PluginCall", "PluginChanged", "PluginFact", "ignore"]

Change = Literal[
    "serving", "registering", "registered", "registration-failed", "stopped", "crashed", "health", "list"
]


@frozen(kw_only=True)
class PluginCall:
    """A call that reached the plugin, at the moment it did.

    ``ids`` are those of Allocate (one tuple for each container) and PreStartContainer (one tuple);
    ``requests`` those of GetPreferredAllocation: available, must include, size.
    """

    resource: str
    method: str
    ids: tuple[tuple[str, ...], ...] = ()
    requests: tuple[tuple[tuple[str, ...], tuple[str, ...], int], ...] = ()

    def fields(self) -> Mapping[str, Any]:
        """The fields of a ``device`` record of a trace, beside method and resource."""
        if self.method == "Allocate":
            return {"ids": [list(ids) for ids in self.ids]}
        if self.method == "PreStartContainer":
            return {"ids": list(self.ids[0]) if self.ids else []}
        if self.method == "GetPreferredAllocation":
            return {
                "req": [
                    {"avail": list(available), "must": list(must), "size": size}
                    for available, must, size in self.requests
                ]
            }
        return {}


@frozen(kw_only=True)
class PluginChanged:
    """Something about the plugin itself; ``text`` says more (a device and its health, an error, a socket)."""

    resource: str
    change: Change
    text: str = ""


PluginFact = PluginCall | PluginChanged
Observer = Callable[[PluginFact], None]


def ignore(_: PluginFact) -> None:
    """An observer that looks away."""
