"""All plugins of one node, and what is to happen to them over time."""

from collections.abc import Mapping, Sequence

import trio

from devices.facts import Observer, ignore
from devices.hooks import PluginHooks
from devices.places import Places, eye_of
from devices.plugin import NOTICE_SECONDS, DevicePlugin
from devices.setup import DeviceProblem, HealthChange, PluginSetup, find_device
from node_host.clock import NodeClock
from node_host.randoms import Randoms
from trio_grpc import Transport

__all__ = ["DeviceFleet"]


class DeviceFleet:
    """Runs plugins. ``hooks`` are by resource; the other arguments are those of ``DevicePlugin``.

    Health over time counts from the start of the plugins; with ``hold_changes`` from a call of ``begin``.
    """

    def __init__(
        self,
        setups: Sequence[PluginSetup],
        *,
        transport: Transport,
        clock: NodeClock,
        randoms: Randoms,
        places: Places | None = None,
        hooks: Mapping[str, PluginHooks] | None = None,
        observer: Observer = ignore,
        notice_seconds: tuple[float, float] = NOTICE_SECONDS,
        hold_changes: bool = False,
    ) -> None:
        self._clock = clock
        self._begun = trio.Event()
        self._start_seconds = 0.0
        self._hold_changes = hold_changes
        eye = eye_of(transport)
        self.plugins = tuple(
            DevicePlugin(
                setup,
                transport=transport,
                clock=clock,
                rng=randoms.stream(f"devices.{position}"),
                places=places,
                eye=eye,
                hooks=(hooks or {}).get(setup.model.resource),
                observer=observer,
                notice_seconds=notice_seconds,
            )
            for position, setup in enumerate(setups)
        )

    async def run(self, *, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED) -> None:
        """Run all plugins until cancelled; started once each has tried to serve."""
        async with trio.open_nursery() as nursery:
            for plugin in self.plugins:
                await nursery.start(plugin.run)
            if not self._hold_changes:
                self.begin(self._clock.elapsed_seconds())
            for plugin in self.plugins:
                if plugin.setup.changes:
                    nursery.start_soon(self._change, plugin, plugin.setup.changes)
            task_status.started()

    def begin(self, start_seconds: float) -> None:
        """Let health over time count from this time of the clock; only the first call counts."""
        if not self._begun.is_set():
            self._start_seconds = start_seconds
            self._begun.set()

    def plugin(self, resource: str) -> DevicePlugin:
        """The plugin of a resource. Raises ``DeviceProblem``."""
        for plugin in self.plugins:
            if plugin.resource == resource:
                return plugin
        known = ", ".join(plugin.resource for plugin in self.plugins)
        raise DeviceProblem(f"no plugin serves {resource!r}; there are {known or 'none'}")

    def set_health(self, device: str, health: str) -> None:
        """Report a health for a device, given as for ``--fail-device``. Raises ``DeviceProblem``."""
        position, found = find_device([plugin.service.model for plugin in self.plugins], device)
        self.plugins[position].service.set_health(found, health)

    async def wait_registered(self) -> None:
        """Wait until a kubelet has accepted all of them."""
        for plugin in self.plugins:
            await plugin.wait_registered()

    async def _change(self, plugin: DevicePlugin, changes: Sequence[HealthChange]) -> None:
        await self._begun.wait()
        for change in sorted(changes, key=lambda each: each.at_seconds):
            await self._clock.sleep_until(self._start_seconds + change.at_seconds)
            plugin.service.set_health(change.device, change.health)
