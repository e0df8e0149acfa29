"""DRA drivers that have registered, and calls to them over either version of their API.

Mirrors ``pkg/kubelet/cm/dra/plugin`` (DEV-150, DEV-151, DEV-158). Implements ``PluginHandler`` of the plugin
manager for the type ``DRAPlugin``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trio
from attrs import frozen

from k8s_proto import dra_health_v1alpha1_pb2 as health_pb
from k8s_proto import dra_v1_pb2, dra_v1beta1_pb2
from kubelet_emu.cm.dra.claims import PreparedDevice
from kubelet_emu.cm.dra.health import HEALTHY, UNHEALTHY, UNKNOWN, Report
from kubelet_emu.errors import PeerError
from kubelet_emu.kuberuntime.gotext import go_list
from kubelet_emu.seams import Recorder
from node_host.clock import NodeClock
from trio_grpc import Channel, StatusError, Transport
from trio_grpc.services import dra_v1, dra_v1beta1
from trio_grpc.services.dra_health_v1alpha1 import DRAResourceHealthClient

__all__ = ["PLUGIN_TYPE", "RPC_SECONDS", "ClaimRef", "DraPlugin", "DraPlugins", "Outcome"]

PLUGIN_TYPE = "DRAPlugin"
RPC_SECONDS = 45.0
HEALTH_RETRY_SECONDS = 5.0

HEALTH_SERVICE = "v1alpha1.DRAResourceHealth"
_VERSIONS: Mapping[str, tuple[Any, Any]] = {
    "v1.DRAPlugin": (dra_v1_pb2, dra_v1.DRAPluginClient),
    "v1beta1.DRAPlugin": (dra_v1beta1_pb2, dra_v1beta1.DRAPluginClient),
}
"""Service by its name in ``supported_versions``: messages and client."""

_HEALTH = {0: UNKNOWN, 1: HEALTHY, 2: UNHEALTHY}


@frozen
class ClaimRef:
    """How a claim is named to a driver."""

    namespace: str
    uid: str
    name: str


@frozen
class Outcome:
    """What a driver answered for one claim: an error, or its devices."""

    error: str = ""
    devices: tuple[PreparedDevice, ...] = ()


class DraPlugin:
    """One instance of a driver, with a connection of its own."""

    def __init__(self, driver: str, endpoint: str, service: str, channel: Channel) -> None:
        self.driver = driver
        self.endpoint = endpoint
        self.service = service
        self.scope = trio.CancelScope()
        self.channel = channel
        self._messages, make = _VERSIONS[service]
        self._client: Any = make(channel)

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, Outcome]:
        """NodePrepareResources; by claim UID. Raises ``StatusError``."""
        request = self._messages.NodePrepareResourcesRequest(claims=self._claims(claims))
        reply = await self._client.NodePrepareResources(request, timeout_seconds=RPC_SECONDS)
        return {
            uid: Outcome(answer.error, tuple(_prepared(device) for device in answer.devices))
            for uid, answer in sorted(reply.claims.items())
        }

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, Outcome]:
        """NodeUnprepareResources; by claim UID. Raises ``StatusError``."""
        request = self._messages.NodeUnprepareResourcesRequest(claims=self._claims(claims))
        reply = await self._client.NodeUnprepareResources(request, timeout_seconds=RPC_SECONDS)
        return {uid: Outcome(answer.error) for uid, answer in sorted(reply.claims.items())}

    def _claims(self, claims: Sequence[ClaimRef]) -> list[Any]:
        return [
            self._messages.Claim(namespace=claim.namespace, uid=claim.uid, name=claim.name)
            for claim in claims
        ]


HealthTaken = Callable[[str, Sequence[Report]], None]


class DraPlugins:
    """All instances. ``health`` is told of each message of a driver's health stream, ``health_over`` of its
    end.
    """

    def __init__(
        self,
        *,
        nursery: trio.Nursery,
        transport: Transport,
        clock: NodeClock,
        recorder: Recorder,
        health: HealthTaken,
        health_over: Callable[[str], None],
    ) -> None:
        self._nursery = nursery
        self._transport = transport
        self._clock = clock
        self._recorder = recorder
        self._health = health
        self._health_over = health_over
        self._plugins: dict[str, list[DraPlugin]] = {}

    def get(self, driver: str) -> DraPlugin:
        """The newest instance (DEV-151). Raises ``PeerError``."""
        instances = self._plugins.get(driver)
        if not instances:
            raise PeerError(f"DRA driver {driver} is not registered")
        return instances[-1]

    def drivers(self) -> tuple[str, ...]:
        """Names of all drivers that have an instance."""
        return tuple(sorted(driver for driver, instances in self._plugins.items() if instances))

    # -- PluginHandler --

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Whether there is a service that both sides speak."""
        self._service(versions)

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Take an instance in."""
        instances = self._plugins.setdefault(name, [])
        if any(each.endpoint == endpoint for each in instances):
            raise PeerError(f"endpoint {endpoint} already registered for DRA driver plugin {name}")
        plugin = DraPlugin(
            name,
            endpoint,
            self._service(versions),
            self._transport.channel(endpoint, clock=self._clock),
        )
        instances.append(plugin)
        self._recorder.fact("plugin", resource=name, do="registered", service=plugin.service)
        self._nursery.start_soon(self._watch_health, plugin)

    async def deregister(self, name: str, endpoint: str) -> None:
        """Let an instance go."""
        for plugin in [each for each in self._plugins.get(name, ()) if each.endpoint == endpoint]:
            self._plugins[name].remove(plugin)
            plugin.scope.cancel()
            self._recorder.fact("plugin", resource=name, do="lost")

    def _service(self, versions: Sequence[str]) -> str:
        if not versions:
            raise PeerError("empty list of supported gRPC services (aka supported versions)")
        for version in versions:
            if version in _VERSIONS:
                return version
        known = go_list([*_VERSIONS, HEALTH_SERVICE])
        raise PeerError(
            f"none of services supported by the plugin ({go_list(versions)}) "
            f"are supported by the kubelet ({known})"
        )

    # -- health (DEV-158) --

    async def _watch_health(self, plugin: DraPlugin) -> None:
        """Follow the stream, and open it again five seconds after each end, for ever."""
        client = DRAResourceHealthClient(plugin.channel)
        told = ""
        with plugin.scope:
            while True:
                try:
                    async with client.NodeWatchResources(health_pb.NodeWatchResourcesRequest()) as items:
                        async for item in items:
                            self._health(plugin.driver, [_report(each) for each in item.devices])
                except StatusError as error:
                    if str(error) != told:  # a driver that has no such service is asked for ever
                        told = str(error)
                        self._recorder.fact(
                            "plugin", resource=plugin.driver, do="health stream ended", error=told
                        )
                self._health_over(plugin.driver)
                await self._clock.sleep(HEALTH_RETRY_SECONDS)
        with trio.CancelScope(shield=True):
            await plugin.channel.aclose()
        self._health_over(plugin.driver)


def _prepared(device: Any) -> PreparedDevice:
    return PreparedDevice(
        pool=device.pool_name,
        device=device.device_name,
        requests=tuple(device.request_names),
        cdi_ids=tuple(device.cdi_device_ids),
        share_id=device.share_id if _has_share(device) else None,
    )


def _has_share(device: Any) -> bool:
    """The field came with v1; v1beta1 may lack it."""
    return "share_id" in device.DESCRIPTOR.fields_by_name and device.HasField("share_id")


def _report(entry: health_pb.DeviceHealth) -> Report:
    return Report(
        pool=entry.device.pool_name,
        device=entry.device.device_name,
        health=_HEALTH.get(int(entry.health), UNKNOWN),
        timeout_seconds=entry.health_check_timeout_seconds,
        message=entry.message,
    )
