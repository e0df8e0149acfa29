"""Device plugins that the plugin watcher finds (DEV-032, DEV-033).

Mirrors the plugin handler side of ``plugin/v1beta1/handler.go`` of ``pkg/kubelet/cm/devicemanager``.
"""

from collections.abc import Sequence

from kubelet_emu.api.validation.resources import is_extended_resource
from kubelet_emu.cm.devicemanager.constants import API_VERSION
from kubelet_emu.cm.devicemanager.registration import Clients
from kubelet_emu.errors import PeerError

__all__ = ["PLUGIN_TYPE", "DevicePluginHandler"]

PLUGIN_TYPE = "DevicePlugin"


class DevicePluginHandler:
    """Implements ``PluginHandler`` over the clients of the device manager."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Version, then name."""
        if API_VERSION not in versions:
            listed = " ".join(versions)
            raise PeerError(
                f"manager version, {API_VERSION}, is not among plugin supported versions [{listed}]"
            )
        if not is_extended_resource(name):
            raise PeerError(f'invalid name of device plugin socket: the ResourceName "{name}" is invalid')

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Connect at a full path."""
        await self._clients.connect(name, endpoint)

    async def deregister(self, name: str, endpoint: str) -> None:
        """Disconnect at once."""
        await self._clients.disconnect(name)
