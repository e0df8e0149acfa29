"""The kubelet's end of the wire to one device plugin.

Mirrors ``plugin/v1beta1/client.go`` and ``endpoint.go`` of ``pkg/kubelet/cm/devicemanager`` (DEV-020,
DEV-042, DEV-046). Every call that allocates or prepares is written into the trace, as a ``device`` record.
"""

from collections.abc import AsyncIterator, Mapping, Sequence

import trio

from k8s_proto import deviceplugin_v1beta1_pb2 as dp
from kubelet_emu.cm.devicemanager.choosing import Preference
from kubelet_emu.cm.devicemanager.constants import DIAL_TIMEOUT_SECONDS, PRE_START_TIMEOUT_SECONDS
from kubelet_emu.cm.devicemanager.state import Device
from kubelet_emu.cm.sockets import SocketFolders
from kubelet_emu.errors import PeerError
from kubelet_emu.seams import Recorder
from trio_grpc import StatusError, Transport
from trio_grpc.services.deviceplugin_v1beta1 import DevicePluginClient

__all__ = ["PluginClient", "dial"]

DIAL_RETRY_SECONDS = 0.1
DIAL_RETRY_MAX_SECONDS = 2.0


async def dial(path: str, folders: SocketFolders, *, timeout_seconds: float = DIAL_TIMEOUT_SECONDS) -> None:
    """Wait until somebody listens at the path; raises ``PeerError`` in the words of a blocking dial."""
    pause = DIAL_RETRY_SECONDS
    with trio.move_on_after(timeout_seconds):
        while not folders.accepts(path):
            await trio.sleep(pause)
            pause = min(2 * pause, DIAL_RETRY_MAX_SECONDS)
        return
    raise PeerError("context deadline exceeded")


class PluginClient:
    """One registration of a plugin. ``number`` tells it from other registrations of the same resource."""

    def __init__(
        self,
        *,
        resource: str,
        path: str,
        number: int,
        transport: Transport,
        folders: SocketFolders,
        recorder: Recorder,
    ) -> None:
        self.resource = resource
        self.path = path
        self.number = number
        self._folders = folders
        self._recorder = recorder
        self._channel = transport.channel(path)
        self._client = DevicePluginClient(self._channel)

    async def connect(self) -> dp.DevicePluginOptions:
        """Reach the plugin and ask for its options (DEV-020 steps 4 and 5); raises ``PeerError``."""
        try:
            await dial(self.path, self._folders)
        except PeerError as error:
            raise PeerError(f"failed to dial device plugin: {error}") from None
        try:
            return await self._client.GetDevicePluginOptions(dp.Empty())
        except StatusError as error:
            raise PeerError(f"failed to get device plugin options: {error}") from error

    async def lists(self) -> AsyncIterator[Sequence[Device]]:
        """The lists of one ListAndWatch stream; ends without an error however the stream ends (DEV-042)."""
        try:
            async with self._client.ListAndWatch(dp.Empty()) as items:
                async for item in items:
                    yield [_device(device) for device in item.devices]
        except StatusError as error:
            self._note("ListAndWatch", error)

    async def preferred(self, asked: Preference, where: Mapping[str, str]) -> list[str]:
        """GetPreferredAllocation for one container; raises ``StatusError`` (DEV-067).

        ``where`` names pod and container for the trace, here and below; the plugin never hears of them.
        """
        question = {
            "avail": list(asked.available),
            "must": list(asked.must_include),
            "size": asked.size,
        }
        self._tell("GetPreferredAllocation", where, req=[question])
        request = dp.PreferredAllocationRequest()
        request.container_requests.add(
            available_deviceIDs=asked.available,
            must_include_deviceIDs=asked.must_include,
            allocation_size=asked.size,
        )
        try:
            reply = await self._client.GetPreferredAllocation(request)
        except StatusError as error:
            self._note("GetPreferredAllocation", error)
            raise
        return list(reply.container_responses[0].deviceIDs) if reply.container_responses else []

    async def allocate(self, ids: Sequence[str], where: Mapping[str, str]) -> dp.AllocateResponse:
        """Allocate for one container; raises ``StatusError``. Without a deadline (DEV-069)."""
        self._tell("Allocate", where, ids=[list(ids)])
        request = dp.AllocateRequest()
        request.container_requests.add(devices_ids=ids)
        try:
            return await self._client.Allocate(request)
        except StatusError as error:
            self._note("Allocate", error)
            raise

    async def pre_start(self, ids: Sequence[str], where: Mapping[str, str]) -> None:
        """PreStartContainer, within 30 s; raises ``StatusError``."""
        self._tell("PreStartContainer", where, ids=list(ids))
        request = dp.PreStartContainerRequest(devices_ids=ids)
        try:
            await self._client.PreStartContainer(request, timeout_seconds=PRE_START_TIMEOUT_SECONDS)
        except StatusError as error:
            self._note("PreStartContainer", error)
            raise

    async def aclose(self) -> None:
        """Close the connection; its stream ends."""
        await self._channel.aclose()

    def _tell(self, method: str, where: Mapping[str, str], **fields: object) -> None:
        self._recorder.fact("device", method=method, resource=self.resource, **fields, **where)

    def _note(self, method: str, error: StatusError) -> None:
        self._recorder.fact("plugin", resource=self.resource, do="failed", method=method, error=str(error))


def _device(device: dp.Device) -> Device:
    nodes = tuple(node.ID for node in device.topology.nodes) if device.HasField("topology") else None
    return Device(device.ID, device.health, nodes)
