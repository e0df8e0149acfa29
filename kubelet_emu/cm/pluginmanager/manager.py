"""The plugin manager: finds registration sockets, greets the plugins behind them, hands them to handlers.

Mirrors ``plugin_manager.go``, ``pluginwatcher/plugin_watcher.go`` and ``operationexecutor`` of
``pkg/kubelet/pluginmanager`` (DEV section 3).
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import trio

from k8s_proto import pluginregistration_v1_pb2 as reg
from kubelet_emu.cm.devicemanager.plugin_client import dial
from kubelet_emu.cm.pluginmanager.plan import BackOff, Registered, failed, plan
from kubelet_emu.cm.sockets import SocketFolders
from kubelet_emu.errors import PeerError
from kubelet_emu.seams import Recorder
from node_host.clock import NodeClock
from trio_grpc import StatusError, Transport
from trio_grpc.services.pluginregistration_v1 import RegistrationClient

__all__ = ["REGISTRY_DIR", "PluginHandler", "PluginManager"]

REGISTRY_DIR = "plugins_registry"
RECONCILE_SECONDS = 1.0
GET_INFO_SECONDS = 1.0
NOTIFY_SECONDS = 5.0


class PluginHandler(Protocol):
    """Takes plugins of one type. Each method raises ``PeerError``."""

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None: ...

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None: ...

    async def deregister(self, name: str, endpoint: str) -> None: ...


class PluginManager:
    """Watches one folder. ``handlers`` are by type: ``DevicePlugin``, ``DRAPlugin``."""

    def __init__(
        self,
        *,
        root_dir: str,
        transport: Transport,
        folders: SocketFolders,
        clock: NodeClock,
        recorder: Recorder,
        handlers: Mapping[str, PluginHandler],
    ) -> None:
        self.folder = f"{root_dir}/{REGISTRY_DIR}"
        self.registered: dict[str, Registered] = {}
        self._transport = transport
        self._folders = folders
        self._clock = clock
        self._recorder = recorder
        self._handlers = dict(handlers)
        self._busy: dict[str, None] = {}
        self._backoffs: dict[str, BackOff] = {}

    async def run(self) -> None:
        """Look every second until cancelled, but for seconds in which nothing can have changed.

        Raises ``OSError`` if the folder cannot be made.
        """
        self._folders.make(self.folder)
        due = self._clock.elapsed_seconds()
        async with trio.open_nursery() as nursery:
            while True:
                self._reconcile(nursery)
                if not self._busy and not self._backoffs:
                    await self._folders.changed()
                late = max(0.0, self._clock.elapsed_seconds() - due)
                due += RECONCILE_SECONDS * (1 + late // RECONCILE_SECONDS)
                await self._clock.sleep_until(due)

    def _reconcile(self, nursery: trio.Nursery) -> None:
        sockets = self._folders.list(self.folder, recursive=True)
        if not sockets and not self.registered:
            self._backoffs.clear()
            return
        steps = plan(
            sockets,
            self.registered,
            busy=self._busy.keys(),
            backoffs=self._backoffs,
            now_seconds=self._clock.elapsed_seconds(),
        )
        for path in [path for path in self._backoffs if path not in sockets and path not in self.registered]:
            del self._backoffs[path]
        for path in steps.unregister:
            self._busy[path] = None
            nursery.start_soon(self._operate, path, "")
        for path in steps.register:
            self._busy[path] = None
            nursery.start_soon(self._operate, path, sockets[path])

    async def _operate(self, path: str, identity: str) -> None:
        """One operation on one socket: registration under an identity, or the end of one."""
        try:
            if identity:
                await self._register(path, identity)
            else:
                await self._unregister(path)
            self._backoffs.pop(path, None)
        except PeerError as error:
            self._recorder.fact("note", about="plugins", text=str(error))
            self._backoffs[path] = failed(self._backoffs.get(path), self._clock.elapsed_seconds())
        finally:
            self._busy.pop(path, None)

    async def _unregister(self, path: str) -> None:
        known = self.registered.pop(path)
        handler = self._handlers.get(known.plugin_type)
        if handler is not None:
            await handler.deregister(known.name, known.endpoint)

    async def _register(self, path: str, identity: str) -> None:
        """DEV-031, line by line."""
        try:
            await dial(path, self._folders)
        except PeerError as error:
            raise PeerError(f"RegisterPlugin error -- dial failed at socket {path}, err: {error}") from None
        async with self._transport.channel(path, clock=self._clock) as channel:
            client = RegistrationClient(channel)
            try:
                info = await client.GetInfo(reg.InfoRequest(), timeout_seconds=GET_INFO_SECONDS)
            except StatusError as error:
                raise PeerError(
                    "RegisterPlugin error -- failed to get plugin info using RPC GetInfo "
                    f"at socket {path}, err: {error}"
                ) from error
            try:
                await self._hand_over(path, identity, info)
            except PeerError as error:
                await self._notify(client, str(error))
                raise
            try:
                await self._notify(client, "")
            except PeerError as error:
                await self._unregister(path)
                raise PeerError(
                    "RegisterPlugin error -- failed to send registration status "
                    f"at socket {path}, err: {error}"
                ) from error

    async def _hand_over(self, path: str, identity: str, info: reg.PluginInfo) -> None:
        handler = self._handlers.get(info.type)
        if handler is None:
            raise PeerError(
                f"RegisterPlugin error -- no handler registered for plugin type: {info.type} at socket {path}"
            )
        endpoint, versions = info.endpoint or path, list(info.supported_versions)
        try:
            handler.validate(info.name, endpoint, versions)
        except PeerError as error:
            raise PeerError(f"RegisterPlugin error -- plugin validation failed with err: {error}") from error
        # Known before it is registered, so that its socket's end is heard of meanwhile.
        self.registered[path] = Registered(
            identity=identity, plugin_type=info.type, name=info.name, endpoint=endpoint
        )
        try:
            await handler.register(info.name, endpoint, versions)
        except PeerError as error:
            self.registered.pop(path, None)
            raise PeerError(
                f"RegisterPlugin error -- plugin registration failed with err: {error}"
            ) from error

    async def _notify(self, client: RegistrationClient, problem: str) -> None:
        status = reg.RegistrationStatus(plugin_registered=not problem, error=problem)
        try:
            await client.NotifyRegistrationStatus(status, timeout_seconds=NOTIFY_SECONDS)
        except StatusError as error:
            raise PeerError(f"{problem}: {error}") from error
