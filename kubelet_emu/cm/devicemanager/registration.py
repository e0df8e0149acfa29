"""The Registration service on kubelet.sock, and who is registered.

Mirrors ``plugin/v1beta1/server.go`` and ``handler.go`` of ``pkg/kubelet/cm/devicemanager`` (DEV sections 2
and 3).
"""

import posixpath
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import trio

from k8s_proto import deviceplugin_v1beta1_pb2 as dp
from kubelet_emu.api.validation.resources import is_extended_resource
from kubelet_emu.cm.devicemanager.constants import API_VERSION
from kubelet_emu.cm.devicemanager.plugin_client import PluginClient
from kubelet_emu.cm.devicemanager.state import Device
from kubelet_emu.errors import PeerError
from kubelet_emu.seams import Recorder
from trio_grpc import Call, Code, StatusError
from trio_grpc.services.deviceplugin_v1beta1 import RegistrationHandler

__all__ = ["Clients", "ClientsEffects", "RegistrationService"]


class ClientsEffects(Protocol):
    """What the device manager does about its clients."""

    def plugin_connected(self, client: PluginClient, options: dp.DevicePluginOptions) -> None: ...

    def plugin_listed(self, resource: str, devices: Sequence[Device]) -> None: ...

    def plugin_disconnected(self, resource: str) -> None: ...


class Clients:
    """The clients by resource. ``make`` makes one for a resource and a socket path."""

    def __init__(
        self,
        *,
        nursery: trio.Nursery,
        effects: ClientsEffects,
        make: Callable[[str, str], PluginClient],
        recorder: Recorder,
        close_by_resource_name: bool = True,
    ) -> None:
        self._nursery = nursery
        self._effects = effects
        self._make = make
        self._recorder = recorder
        self._close_by_resource_name = close_by_resource_name
        self._clients: dict[str, PluginClient] = {}
        self._open: dict[int, PluginClient] = {}

    def get(self, resource: str) -> PluginClient | None:
        """The client that the resource has now."""
        return self._clients.get(resource)

    def by_number(self, number: int) -> PluginClient | None:
        """A client whose connection is open."""
        return self._open.get(number)

    async def connect(self, resource: str, path: str) -> None:
        """Steps 4 to 6 of DEV-020; a client that the resource had stays open (DEV-025).

        Raises ``PeerError``; the resource then has no client at all.
        """
        client = self._make(resource, path)
        self._clients[resource] = client
        self._open[client.number] = client
        try:
            options = await client.connect()
        except BaseException:
            self._clients.pop(resource, None)
            await self._close(client)
            raise
        self._effects.plugin_connected(client, options)
        self._nursery.start_soon(self._run, client)

    async def disconnect(self, resource: str) -> None:
        """Close the resource's client and mark its devices."""
        client = self._clients.pop(resource, None)
        if client is not None:
            await self._close(client)
            self._effects.plugin_disconnected(resource)

    async def close_all(self) -> None:
        """Let go of every connection, as the end of a process does."""
        for client in [*self._open.values()]:
            await self._close(client)

    async def _run(self, client: PluginClient) -> None:
        async for devices in client.lists():
            self._effects.plugin_listed(client.resource, devices)
        if not self._close_by_resource_name and self._clients.get(client.resource) is not client:
            await self._close(client)
            return
        await self.disconnect(client.resource)
        await self._close(client)

    async def _close(self, client: PluginClient) -> None:
        if self._open.pop(client.number, None) is not None:
            with trio.CancelScope(shield=True):
                await client.aclose()


class RegistrationService(RegistrationHandler):
    """``Register`` of v1beta1 (DEV-020); ``folder`` is where endpoints lie."""

    def __init__(
        self,
        *,
        folder: str,
        connect: Callable[[str, str], Awaitable[None]],
        recorder: Recorder,
    ) -> None:
        self.counts: dict[str, int] = {}
        """Requests by resource name, good and bad (``kubelet_device_plugin_registration_total``)."""
        self._folder = folder
        self._connect = connect
        self._recorder = recorder

    async def Register(self, request: dp.RegisterRequest, call: Call) -> dp.Empty:
        """Take a plugin in; the reply is sent once its options have been read."""
        resource = request.resource_name
        if resource in self.counts or len(self.counts) < RESOURCES_MAX:
            self.counts[resource] = self.counts.get(resource, 0) + 1
        try:
            if request.version != API_VERSION:
                raise PeerError(
                    f'requested API version "{request.version}" is not supported by kubelet. '
                    f'Supported version is ["{API_VERSION}"]'
                )
            if not is_extended_resource(resource):
                raise PeerError(f'the ResourceName "{resource}" is invalid')
            await self._connect(resource, endpoint_path(self._folder, request.endpoint))
        except PeerError as error:
            self._recorder.fact("plugin", resource=resource, do="refused", error=str(error))
            raise StatusError(Code.UNKNOWN, str(error)) from error
        return dp.Empty()


RESOURCES_MAX = 10_000
"""Resource names that registrations are counted for."""


def endpoint_path(folder: str, endpoint: str) -> str:
    """Where an endpoint lies: joined under the folder and cleaned, so ``..`` leaves it (DEV-024)."""
    return posixpath.normpath(f"{folder}/{endpoint}")
