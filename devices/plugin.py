"""One device plugin as a program: it serves, registers, notices a restarted kubelet, crashes and comes back.

::

    plugin = DevicePlugin(setup, transport=transport, clock=clock, rng=rng)
    await nursery.start(plugin.run)         # returns once it serves or cannot yet; registers by itself
    plugin.service.set_health("GPU-…", "Unhealthy")
    await plugin.restart(down_seconds=3)

What happens over its life follows the real programs: the socket is there before Register is called, for a
kubelet asks for the options during that call (DEV-021); after a kubelet restart it starts anew and registers
again, in the way its model says it notices (DEV-013).
"""

import random
from collections.abc import Callable, Hashable
from contextlib import AsyncExitStack
from enum import StrEnum

import trio
from attrs import evolve

from devices.facts import Change, Observer, PluginChanged, ignore
from devices.faulty import Faulty
from devices.hooks import PluginHooks
from devices.identity import uuid_of
from devices.model import HEALTHY, Identity, Model, Notices
from devices.places import Places, SocketEye, eye_of
from devices.service import PluginService
from devices.setup import PluginSetup, Register
from devices.wire import API_VERSION, options_message
from k8s_proto import deviceplugin_v1beta1_pb2 as pb
from k8s_proto import pluginregistration_v1_pb2 as reg
from node_host.clock import NodeClock
from node_host.faults import FaultPlan
from trio_grpc import Call, StatusError, Transport
from trio_grpc.services.deviceplugin_v1beta1 import RegistrationClient
from trio_grpc.services.pluginregistration_v1 import RegistrationHandler

__all__ = ["NOTICE_SECONDS", "DevicePlugin", "WatcherRegistration"]

NOTICE_SECONDS = (0.2, 0.6)
"""From a new kubelet socket to the plugin's new start, as recorded with a plugin that watches the folder."""

REGISTER_TIMEOUT_SECONDS = 30.0
"""A kubelet dials the plugin for up to 10 s during Register."""


LOOK_SECONDS = 1.0


class _End(StrEnum):
    """Why one life of the program ended."""

    STOPPED = "stopped"
    CRASHED = "crashed"
    KUBELET = "the kubelet has a new socket"
    SOCKET = "the plugin's socket is gone"
    BIND = "the socket cannot be bound"


class DevicePlugin:
    """One plugin. ``service`` has the devices; ``registered`` tells whether a kubelet has taken it.

    ``hooks`` is a vendor's own logic, ``observer`` is told of calls and changes. ``notice_seconds`` bounds
    the time, drawn from ``rng``, that the plugin takes to start anew after a kubelet restart.
    """

    def __init__(
        self,
        setup: PluginSetup,
        *,
        transport: Transport,
        clock: NodeClock,
        rng: random.Random,
        places: Places | None = None,
        eye: SocketEye | None = None,
        hooks: PluginHooks | None = None,
        observer: Observer = ignore,
        notice_seconds: tuple[float, float] = NOTICE_SECONDS,
    ) -> None:
        self.setup = setup
        self._transport = transport
        self._clock = clock
        self._rng = rng
        self._places = places or Places()
        self._eye = eye or eye_of(transport)
        self._observer = observer
        self._notice_seconds = notice_seconds
        self._plan = FaultPlan.parse(setup.faults)
        self._faulty = Faulty(self._plan, lambda: self._finish(_End.CRASHED))
        self.service = PluginService(
            setup.model, faulty=self._faulty, hooks=hooks or PluginHooks(), observer=observer
        )
        self._starts = 0
        self._end: _End | None = None
        self._ended = trio.Event()
        self._wanted = trio.Event()
        self._wanted.set()
        self._registered = False
        self._registered_with: Hashable | None = None
        self._turned = trio.Event()
        self.socket_path = ""

    @property
    def resource(self) -> str:
        """The resource it serves."""
        return self.setup.model.resource

    @property
    def registered(self) -> bool:
        """Whether the kubelet that is there has accepted it."""
        if not self._registered or self.setup.register is Register.WATCHER:
            return self._registered
        return self._eye.identity(self._places.kubelet_socket) == self._registered_with

    async def wait_registered(self) -> None:
        """Wait until a kubelet has accepted it; returns at once if one has."""
        while not self.registered:
            with trio.move_on_after(LOOK_SECONDS):  # another kubelet may have come without our doing
                await self._turned.wait()

    # -- control --

    def stop(self) -> None:
        """End the program, as when its pod is deleted; it stays away until ``start``."""
        if self._wanted.is_set():
            self._wanted = trio.Event()
        self._finish(_End.STOPPED)

    def start(self) -> None:
        """Bring it back."""
        self._wanted.set()

    def crash(self) -> None:
        """End it at once; it comes back as its set-up says."""
        self._finish(_End.CRASHED)

    async def restart(self, *, down_seconds: float = 0.0) -> None:
        """Stop it, wait, start it; returns once it has registered again."""
        self.stop()
        await self._clock.sleep(down_seconds)
        self.start()
        await self.wait_registered()

    # -- life --

    async def run(self, *, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED) -> None:
        """Live until cancelled."""
        reported = False
        while True:
            await self._wanted.wait()
            self._renew()
            self._ended, self._end = trio.Event(), None
            if not reported:
                reported = True
                end = await self._live(task_status)
            else:
                end = await self._live(trio.TASK_STATUS_IGNORED)
            self._tell("crashed" if end is _End.CRASHED else "stopped", end.value)
            await self._pause(end)

    def _renew(self) -> None:
        """A new start finds all devices well (DEV-185), and new ids where the model has such (DEV-18I)."""
        self._starts += 1
        model = self.service.model
        if self._starts == 1:
            return
        if model.identity is Identity.FRESH:
            ids = [uuid_of(device.id, self._starts) for device in self.setup.model.devices]
            self.service.model = self.setup.model.renewed(ids)
        elif not model.recovers:
            well = tuple(evolve(device, health=HEALTHY) for device in model.devices)
            self.service.model = evolve(model, devices=well)

    async def _pause(self, end: _End) -> None:
        if end is _End.CRASHED:
            wait = self.setup.restart_after_crash_seconds
            if wait is None:
                self._wanted = trio.Event()
            else:
                await self._clock.sleep(wait)
        elif end is _End.BIND:
            await self._clock.sleep(self.setup.model.retry_seconds)
        elif end in (_End.KUBELET, _End.SOCKET):
            await self._clock.sleep(self._rng.uniform(*self._notice_seconds))

    async def _live(self, task_status: "trio.TaskStatus[None]") -> _End:
        model = self.service.model
        watcher = self.setup.register is Register.WATCHER
        folder = self._places.registry if watcher else self._places.device_plugins
        now_seconds = self._clock.now_ns() // 1_000_000_000
        self.socket_path = f"{folder}/{model.socket.replace('{time}', str(now_seconds))}"
        async with AsyncExitStack() as stack:
            server = self._transport.server(self.socket_path)
            server.add(self.service)
            if watcher:
                server.add(self._watcher_registration(model))
            try:
                await stack.enter_async_context(server)
            except OSError as problem:
                self._tell("registration-failed", str(problem))
                task_status.started()
                return _End.BIND
            self._tell("serving", self.socket_path)
            task_status.started()
            async with trio.open_nursery() as nursery:
                if not watcher:
                    nursery.start_soon(self._register_and_watch)
                if model.notices is Notices.OWN_SOCKET:
                    nursery.start_soon(self._watch_own, self.socket_path)
                await self._ended.wait()
                server.close()
                nursery.cancel_scope.cancel()
        return self._end or _End.STOPPED

    def _finish(self, end: _End) -> None:
        if self._end is None:
            self._end = end
            self._ended.set()
            self._registered = False

    def _accepted(self) -> None:
        self._registered = True
        turned, self._turned = self._turned, trio.Event()
        turned.set()

    # -- registration on kubelet.sock --

    async def _register_and_watch(self) -> None:
        path = self._places.kubelet_socket
        while True:
            seen = self._eye.identity(path)
            if seen is None:
                await self._eye.appeared(path)
            elif await self._register(path):
                self._registered_with = seen
                self._accepted()
                break
            else:
                with trio.move_on_after(self.service.model.retry_seconds):
                    await self._changed(path, seen)
        if self.service.model.notices is Notices.KUBELET_SOCKET:
            await self._changed(path, seen)
            self._finish(_End.KUBELET)

    async def _register(self, path: str) -> bool:
        model = self.service.model
        request = pb.RegisterRequest(
            version=API_VERSION,
            endpoint=self.socket_path.rpartition("/")[2],
            resource_name=model.resource,
            options=options_message(model),
        )
        self._tell("registering", path)
        channel = self._transport.channel(path, faults=self._plan, on_crash=self.crash, clock=self._clock)
        async with channel:
            try:
                await RegistrationClient(channel).Register(request, timeout_seconds=REGISTER_TIMEOUT_SECONDS)
            except StatusError as error:
                self._tell("registration-failed", str(error))
                return False
        self._tell("registered", path)
        return True

    async def _changed(self, path: str, seen: Hashable) -> None:
        """Wait until there is another socket at the path."""
        while self._eye.identity(path) in (None, seen):
            await self._eye.changed()

    async def _watch_own(self, path: str) -> None:
        own = self._eye.identity(path)
        while self._eye.identity(path) == own:
            await self._eye.changed()
        self._finish(_End.SOCKET)

    # -- registration through the plugin watcher --

    def _watcher_registration(self, model: Model) -> "WatcherRegistration":
        info = reg.PluginInfo(type="DevicePlugin", name=model.resource, supported_versions=[API_VERSION])
        return WatcherRegistration(info, faulty=self._faulty, notified=self._notified)

    def _notified(self, registered: bool, error: str) -> None:
        self._tell("registered" if registered else "registration-failed", error or self.socket_path)
        if registered:
            self._accepted()

    def _tell(self, change: Change, text: str) -> None:
        self._observer(PluginChanged(resource=self.resource, change=change, text=text))


class WatcherRegistration(RegistrationHandler):
    """What a plugin serves to the kubelet's plugin watcher: who it is. ``notified`` gets the verdict."""

    def __init__(
        self, info: reg.PluginInfo, *, faulty: Faulty, notified: Callable[[bool, str], None]
    ) -> None:
        self._info = info
        self._faulty = faulty
        self._notified = notified

    async def GetInfo(self, request: reg.InfoRequest, call: Call) -> reg.PluginInfo:
        async def work() -> reg.PluginInfo:
            return self._info

        return await self._faulty.answer("GetInfo", work)

    async def NotifyRegistrationStatus(
        self, request: reg.RegistrationStatus, call: Call
    ) -> reg.RegistrationStatusResponse:
        async def work() -> reg.RegistrationStatusResponse:
            self._notified(request.plugin_registered, request.error)
            return reg.RegistrationStatusResponse()

        return await self._faulty.answer("NotifyRegistrationStatus", work)
