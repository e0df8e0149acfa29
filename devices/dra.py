"""A DRA driver without devices: prepares claims, tells the health of its devices, comes and goes.

It registers through the plugin watcher (``<driver>-reg.sock``) and serves ``v1.DRAPlugin`` or
``v1beta1.DRAPlugin``, or both in the order given, and ``v1alpha1.DRAResourceHealth`` (DEV-150). Preparing is
idempotent, as a kubelet demands that asks again after its own restart (DEV-154). A driver reads from the API
which devices a claim was given; ``lookup`` stands for that, and without one each claim gets the next free
device.
"""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import trio
from attrs import field, frozen

from devices.facts import Change, Observer, PluginCall, PluginChanged, ignore
from devices.faulty import Faulty
from devices.model import HEALTHY, Refused
from devices.places import Places
from devices.plugin import WatcherRegistration
from devices.setup import DeviceProblem
from k8s_proto import dra_health_v1alpha1_pb2 as health_pb
from k8s_proto import dra_v1_pb2, dra_v1beta1_pb2
from k8s_proto import pluginregistration_v1_pb2 as reg
from node_host.clock import NodeClock
from node_host.faults import FaultPlan
from trio_grpc import Call, Transport, UnixTransport
from trio_grpc.services import dra_health_v1alpha1, dra_v1, dra_v1beta1

__all__ = ["HEALTH_SERVICE", "SERVICES", "ClaimDevice", "ClaimName", "DraDriver", "DraSetup"]

V1 = "v1.DRAPlugin"
V1BETA1 = "v1beta1.DRAPlugin"
HEALTH_SERVICE = "v1alpha1.DRAResourceHealth"
SERVICES = (V1, V1BETA1, HEALTH_SERVICE)
"""The services that a driver can have, by their names in ``supported_versions``."""

_STATUS = {"Healthy": health_pb.HealthStatus.HEALTHY, "Unhealthy": health_pb.HealthStatus.UNHEALTHY}


@frozen(kw_only=True)
class DraSetup:
    """One driver. ``cdi_kind`` (``vendor.com/class``) names its devices to runtimes; empty gives no CDI
    names.

    ``versions`` are the services in the driver's own order. ``health_timeout_seconds`` is what its health
    reports say (0: the kubelet's default). ``faults`` is a plan of ``node_host.faults``.
    """

    driver: str
    devices: tuple[str, ...]
    pool: str = "node-1"
    cdi_kind: str = ""
    versions: tuple[str, ...] = (V1, HEALTH_SERVICE)
    health_timeout_seconds: int = 0
    faults: str = ""
    restart_after_crash_seconds: float | None = 1.0


@frozen
class ClaimName:
    """A claim as a kubelet names it."""

    namespace: str
    name: str
    uid: str


@frozen(kw_only=True)
class ClaimDevice:
    """One device of a claim, and the requests that it serves."""

    device: str
    requests: tuple[str, ...] = ()
    pool: str = ""
    cdi_ids: tuple[str, ...] = ()
    share_id: str | None = field(default=None)


Lookup = Callable[[ClaimName], Sequence[ClaimDevice]]


class DraDriver:
    """The driver. ``prepared`` holds what it has prepared, by claim UID; it survives a restart of the driver.

    ``lookup`` says which devices a claim was given and may raise ``Refused``, whose text becomes the claim's
    error.
    """

    def __init__(
        self,
        setup: DraSetup,
        *,
        transport: Transport,
        clock: NodeClock,
        places: Places | None = None,
        lookup: Lookup | None = None,
        observer: Observer = ignore,
    ) -> None:
        self.setup = setup
        self.prepared: dict[str, tuple[ClaimName, tuple[ClaimDevice, ...]]] = {}
        self.registered = False
        self._transport = transport
        self._clock = clock
        self._places = places or Places()
        self._lookup = lookup
        self._observer = observer
        self._health: dict[str, tuple[str, str]] = dict.fromkeys(setup.devices, (HEALTHY, ""))
        self._changed = trio.Event()
        self._ended = trio.Event()
        self._wanted = trio.Event()
        self._wanted.set()
        self._crashed = False
        self._faulty = Faulty(FaultPlan.parse(setup.faults), self.crash)

    @property
    def registration_path(self) -> str:
        """The socket that the kubelet's plugin watcher finds."""
        return f"{self._places.registry}/{self.setup.driver}-reg.sock"

    @property
    def endpoint(self) -> str:
        """The socket of the services."""
        return f"{self._places.plugins}/{self.setup.driver}/dra.sock"

    # -- control --

    def stop(self) -> None:
        """End the program; it stays away until ``start``."""
        self._wanted = trio.Event()
        self._ended.set()

    def start(self) -> None:
        """Bring it back."""
        self._wanted.set()

    def crash(self) -> None:
        """End it at once; it comes back as its set-up says."""
        self._crashed = True
        self._ended.set()

    def set_health(self, device: str, health: str, message: str = "") -> None:
        """Report a health; other words than Healthy and Unhealthy are sent as unknown."""
        if device not in self._health:
            raise DeviceProblem(f"driver {self.setup.driver} has no device {device!r}")
        self._health[device] = (health, message)
        self._tell("health", f"{device} {health}")
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    # -- life --

    async def run(self, *, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED) -> None:
        """Live until cancelled; started once both sockets are there."""
        reported = False
        while True:
            await self._wanted.wait()
            self._ended, self._crashed = trio.Event(), False
            async with AsyncExitStack() as stack:
                await self._open(stack)
                self._tell("serving", self.endpoint)
                if not reported:
                    reported = True
                    task_status.started()
                await self._ended.wait()
            self.registered = False
            self._tell("crashed" if self._crashed else "stopped", "")
            if self._crashed:
                if self.setup.restart_after_crash_seconds is None:
                    self._wanted = trio.Event()
                else:
                    await self._clock.sleep(self.setup.restart_after_crash_seconds)

    async def _open(self, stack: AsyncExitStack) -> None:
        """The services first, then the socket by which they are found. Raises ``OSError``."""
        if isinstance(self._transport, UnixTransport):
            folder = self._transport.host_path(self.endpoint).rpartition("/")[0]
            os.makedirs(folder, mode=0o750, exist_ok=True)
        services = self._transport.server(self.endpoint)
        if V1 in self.setup.versions:
            services.add(_V1(self))
        if V1BETA1 in self.setup.versions:
            services.add(_V1beta1(self))
        if HEALTH_SERVICE in self.setup.versions:
            services.add(_Health(self))
        registration = self._transport.server(self.registration_path)
        info = reg.PluginInfo(
            type="DRAPlugin",
            name=self.setup.driver,
            endpoint=self.endpoint,
            supported_versions=self.setup.versions,
        )
        registration.add(WatcherRegistration(info, faulty=self._faulty, notified=self._notified))
        await stack.enter_async_context(services)
        await stack.enter_async_context(registration)

    def _notified(self, registered: bool, error: str) -> None:
        self.registered = registered
        self._tell("registered" if registered else "registration-failed", error)

    def _tell(self, change: Change, text: str) -> None:
        self._observer(PluginChanged(resource=self.setup.driver, change=change, text=text))

    # -- calls, for all versions --

    async def prepare(self, messages: Any, request: Any) -> Any:
        """NodePrepareResources in the messages of one version."""
        claims = self._begin("NodePrepareResources", request)

        async def work() -> Any:
            reply = messages.NodePrepareResourcesResponse()
            for claim in claims:
                self._prepare_one(claim, reply.claims[claim.uid])
            return reply

        return await self._faulty.answer("NodePrepareResources", work)

    async def unprepare(self, messages: Any, request: Any) -> Any:
        """NodeUnprepareResources in the messages of one version; an unknown claim is no error."""
        claims = self._begin("NodeUnprepareResources", request)

        async def work() -> Any:
            reply = messages.NodeUnprepareResourcesResponse()
            for claim in claims:
                self.prepared.pop(claim.uid, None)
                reply.claims[claim.uid].SetInParent()
            return reply

        return await self._faulty.answer("NodeUnprepareResources", work)

    async def watch(self) -> AsyncIterator[health_pb.NodeWatchResourcesResponse]:
        """The health of all devices, now and after each change."""
        fault = await self._faulty.before("NodeWatchResources")
        while True:
            changed = self._changed
            yield self._health_message()
            if fault is not None:
                await self._faulty.after(fault)
            await changed.wait()

    def _begin(self, method: str, request: Any) -> tuple[ClaimName, ...]:
        claims = tuple(ClaimName(each.namespace, each.name, each.uid) for each in request.claims)
        ids = (tuple(claim.name for claim in claims),)
        self._observer(PluginCall(resource=self.setup.driver, method=method, ids=ids))
        return claims

    def _prepare_one(self, claim: ClaimName, entry: Any) -> None:
        known = self.prepared.get(claim.uid)
        try:
            devices = known[1] if known is not None else tuple(self._given(claim))
        except Refused as refused:
            entry.error = refused.text
            return
        self.prepared[claim.uid] = (claim, devices)
        entry.SetInParent()
        for device in devices:
            kind = self.setup.cdi_kind
            message = entry.devices.add(
                pool_name=device.pool or self.setup.pool,
                device_name=device.device,
                request_names=device.requests,
                cdi_device_ids=device.cdi_ids or ((f"{kind}={device.device}",) if kind else ()),
            )
            if device.share_id is not None and "share_id" in message.DESCRIPTOR.fields_by_name:
                message.share_id = device.share_id

    def _given(self, claim: ClaimName) -> Sequence[ClaimDevice]:
        if self._lookup is not None:
            return self._lookup(claim)
        used = {device.device for _, devices in self.prepared.values() for device in devices}
        free = [name for name in self.setup.devices if name not in used]
        if not free:
            raise Refused(f"no device is left for claim {claim.namespace}/{claim.name}")
        return (ClaimDevice(device=free[0]),)

    def _health_message(self) -> health_pb.NodeWatchResourcesResponse:
        reply = health_pb.NodeWatchResourcesResponse()
        for name, (health, message) in self._health.items():
            entry = reply.devices.add(
                health=_STATUS.get(health, health_pb.HealthStatus.UNKNOWN),
                last_updated_time=self._clock.now_ns() // 1_000_000_000,
                health_check_timeout_seconds=self.setup.health_timeout_seconds,
                message=message,
            )
            entry.device.pool_name, entry.device.device_name = self.setup.pool, name
        return reply


class _V1(dra_v1.DRAPluginHandler):
    def __init__(self, driver: DraDriver) -> None:
        self._driver = driver

    async def NodePrepareResources(
        self, request: dra_v1_pb2.NodePrepareResourcesRequest, call: Call
    ) -> dra_v1_pb2.NodePrepareResourcesResponse:
        return await self._driver.prepare(dra_v1_pb2, request)

    async def NodeUnprepareResources(
        self, request: dra_v1_pb2.NodeUnprepareResourcesRequest, call: Call
    ) -> dra_v1_pb2.NodeUnprepareResourcesResponse:
        return await self._driver.unprepare(dra_v1_pb2, request)


class _V1beta1(dra_v1beta1.DRAPluginHandler):
    def __init__(self, driver: DraDriver) -> None:
        self._driver = driver

    async def NodePrepareResources(
        self, request: dra_v1beta1_pb2.NodePrepareResourcesRequest, call: Call
    ) -> dra_v1beta1_pb2.NodePrepareResourcesResponse:
        return await self._driver.prepare(dra_v1beta1_pb2, request)

    async def NodeUnprepareResources(
        self, request: dra_v1beta1_pb2.NodeUnprepareResourcesRequest, call: Call
    ) -> dra_v1beta1_pb2.NodeUnprepareResourcesResponse:
        return await self._driver.unprepare(dra_v1beta1_pb2, request)


class _Health(dra_health_v1alpha1.DRAResourceHealthHandler):
    def __init__(self, driver: DraDriver) -> None:
        self._driver = driver

    def NodeWatchResources(
        self, request: health_pb.NodeWatchResourcesRequest, call: Call
    ) -> AsyncIterator[health_pb.NodeWatchResourcesResponse]:
        return self._driver.watch()
