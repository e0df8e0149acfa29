"""Carries the steps of a plan out on a running node, each at its moment.

A step with a trigger waits for calls or records from its time on; its deed is begun in the very moment of the
call or record, before any other task runs. What is over by itself is brought back by a task of its own;
``heal`` ends everything at once.
"""

from collections.abc import Callable, Sequence

import trio
from attrs import define, field
from google.protobuf.message import Message

from cri_fake.store.faults import Refused
from kubelet_emu.errors import CallerError, PeerError
from kubelet_emu.lab.node import Node
from kubelet_emu.lab.node_wires import NodeSeams
from kubelet_emu.pleg.diff import PlegEvent
from kubelet_emu.pleg.generic import Deliver
from kubelet_emu.sim.case import Step
from kubelet_emu.sim.user import act
from kubelet_emu.trace.schema import Record
from node_host.faults import FaultPlan
from node_host.plan import (
    ApiFault,
    ClockJump,
    Crash,
    Deed,
    DeviceHealth,
    PlegFault,
    Reboot,
    RegistryDown,
    SlowProcesses,
    Trigger,
    WireFault,
)
from trio_grpc import CallRecord

__all__ = ["Injector"]

RUNTIME_PATH = "cri.sock"
PLUGIN_PAUSE_SECONDS = 0.5


@define(eq=False)
class _Armed:
    """A step whose time has come and that waits for its trigger."""

    step: Step
    trigger: Trigger
    left: int
    fire: trio.Event = field(factory=trio.Event)


class Injector:
    """The plan of one run. ``seams`` go into the node's options; then ``attach`` and ``run``."""

    def __init__(self, plan: Sequence[Step]) -> None:
        self._plan = tuple(sorted(plan, key=lambda step: step.at_seconds))
        self.faults = FaultPlan()
        self.calls = 0
        """All calls answered so far, those to and from plugins too."""
        self.done: list[Step] = []
        """Steps that have been carried out, in their order."""
        self._armed: list[_Armed] = []
        self._pleg_left = 0
        self._pleg_late: float | None = None
        self._held: list[tuple[PlegEvent, Deliver]] = []
        self._node: Node | None = None
        self._nursery: trio.Nursery | None = None
        self._busy = 0
        self._kubelet_lock, self._runtime_lock, self._plugin_lock = trio.Lock(), trio.Lock(), trio.Lock()
        self._api_outages = self._registry_outages = self._slow = 0
        self.quiet_since = 0.0
        """When the last fault ended, in node-clock seconds."""

    @property
    def seams(self) -> NodeSeams:
        """Where the faults come in."""
        return NodeSeams(faults=self.faults, hooks=(self,), on_crash=self._peer_crashed, pleg=self._pleg_gate)

    def attach(self, node: Node, nursery: trio.Nursery) -> None:
        """Take the node that the seams went into; deeds that take time are tasks of ``nursery``."""
        self._node = node
        self._nursery = nursery

    @property
    def node(self) -> Node:
        """The node, once there is one."""
        assert self._node is not None, "attach comes first"
        return self._node

    async def run(self) -> None:
        """Carry the plan out; returns when the last step's time has come."""
        node = self.node
        for step in self._plan:
            await node.clock.sleep_until(node.recorder.zero_seconds + step.at_seconds)
            if step.trigger is None:
                self._begin(step)
            else:
                self._armed.append(_Armed(step, step.trigger, step.trigger.count))

    def heal(self) -> None:
        """End every fault that is still there, and wait for no trigger any more; peers that are down come
        up in their time.
        """
        self._armed.clear()
        self.faults.clear()
        self._pleg_left = 0
        for event, deliver in self._held:
            deliver(event)
        self._held.clear()
        self._api_outages = self._registry_outages = self._slow = 0
        node = self.node
        node.api.available = True
        node.api.refuse_writes(0)
        node.api.go_stale(0.0)
        if node.runtime is not None:
            node.runtime.set_registry_up(True)
            node.runtime.set_pace(1.0)

    async def settled(self) -> None:
        """Wait until no deed is under way: peers that were down are up."""
        while self._busy:
            await self.node.clock.sleep(0.1)

    # -- triggers --

    def started(self, record: CallRecord) -> None:
        """A call began: nothing waits for that."""

    def item(self, record: CallRecord, message: Message) -> None:
        """Items of streams are no steps."""

    def finished(self, record: CallRecord) -> None:
        """A call has been answered."""
        self.calls += 1
        if self._armed:
            name = record.method.name
            self._count(lambda trigger: trigger.unit == "calls" and trigger.method in ("", "*", name))

    def look(self, record: Record) -> None:
        """A record was made."""
        if self._armed:
            self._count(lambda trigger: trigger.unit == "records")

    def _count(self, counts: Callable[[Trigger], bool]) -> None:
        for armed in tuple(self._armed):
            if counts(armed.trigger):
                armed.left -= 1
                if armed.left == 0:
                    self._armed.remove(armed)
                    self._begin(armed.step)

    # -- deeds --

    def _begin(self, step: Step) -> None:
        """Begin a deed. What can be done at once is done at once."""
        node, nursery = self.node, self._nursery
        assert nursery is not None
        self.done.append(step)
        node.recorder.action("fault", text=str(step.deed))
        deed = step.deed
        if isinstance(deed, WireFault):
            self.faults.add(deed.rule)
        elif isinstance(deed, PlegFault):
            self._pleg_left, self._pleg_late = deed.count, deed.late_seconds
        elif isinstance(deed, ClockJump):
            node.clock.jump_ns(round(deed.seconds * 1e9))
        elif isinstance(deed, Crash) and deed.peer == "kubelet":
            # It dies here and now; what it would have done after its next wait is never done.
            node.kill_kubelet()
            nursery.start_soon(self._under_way, deed)
        else:
            nursery.start_soon(self._under_way, deed)

    async def _under_way(self, deed: Deed) -> None:
        self._busy += 1
        try:
            await self._do(deed)
        except (CallerError, PeerError, Refused) as error:
            self.node.recorder.fact("note", about="fault", text=f"{deed}: {error}")
        finally:
            self._busy -= 1
            self.quiet_since = self.node.clock.elapsed_seconds()

    async def _do(self, deed: Deed) -> None:
        node = self.node
        if isinstance(deed, Crash):
            await self._crash(deed)
        elif isinstance(deed, Reboot):
            async with self._kubelet_lock, self._runtime_lock, self._plugin_lock:
                await node.reboot(down_seconds=deed.down_seconds, forget=deed.lose_state)
        elif isinstance(deed, ApiFault):
            await self._api(deed)
        elif isinstance(deed, RegistryDown) and node.runtime is not None:
            self._registry_outages += 1
            node.runtime.set_registry_up(False)
            await node.clock.sleep(deed.seconds)
            self._registry_outages -= 1
            if self._registry_outages <= 0:
                node.runtime.set_registry_up(True)
        elif isinstance(deed, SlowProcesses) and node.runtime is not None:
            self._slow += 1
            node.runtime.set_pace(deed.factor)
            await node.clock.sleep(deed.seconds)
            self._slow -= 1
            if self._slow <= 0:
                node.runtime.set_pace(1.0)
        elif isinstance(deed, DeviceHealth):
            node.set_health(deed.device, "Healthy" if deed.health == "healthy" else "Unhealthy")
        else:
            await act(node, deed)

    async def _crash(self, deed: Crash) -> None:
        # One life after the other: who dies again while coming up comes up once more after that.
        node, down = self.node, deed.down_seconds
        if deed.peer == "kubelet":
            async with self._kubelet_lock:
                await node.restart_kubelet(down_seconds=down)
        elif deed.peer == "runtime":
            async with self._runtime_lock:
                await node.restart_runtime(
                    down_seconds=down, forget=deed.lose_state, lose_processes=deed.lose_processes
                )
        else:
            plugin = node.plugin(deed.resource)
            async with self._plugin_lock:
                plugin.stop()
                await node.clock.sleep(down)
                plugin.start()

    async def _api(self, deed: ApiFault) -> None:
        api, clock = self.node.api, self.node.clock
        if deed.kind == "conflict":
            api.refuse_writes(deed.count)
            return
        if deed.kind == "stale":
            api.go_stale(deed.seconds)
            await clock.sleep(deed.seconds)
            return
        self._api_outages += 1
        api.available = False
        await clock.sleep(deed.seconds)
        self._api_outages -= 1
        if self._api_outages <= 0:
            api.available = True

    def _peer_crashed(self, path: str) -> None:
        """A fault on a wire lets the peer at that socket die."""
        assert self._nursery is not None
        if path == RUNTIME_PATH:
            self._nursery.start_soon(self._under_way, Crash(peer="runtime", down_seconds=1.0))
            return
        fleet = self.node.fleet
        for plugin in fleet.plugins if fleet is not None else ():
            if plugin.socket_path == path:
                plugin.crash()

    # -- PLEG --

    def _pleg_gate(self, event: PlegEvent, deliver: Deliver) -> bool:
        if self._pleg_left <= 0:
            return deliver(event)
        self._pleg_left -= 1
        if self._pleg_late is not None:
            assert self._nursery is not None
            held = (event, deliver)
            self._held.append(held)
            self._nursery.start_soon(self._deliver_late, held, self._pleg_late)
        return True

    async def _deliver_late(self, held: tuple[PlegEvent, Deliver], seconds: float) -> None:
        await self.node.clock.sleep(seconds)
        if held in self._held:
            self._held.remove(held)
            held[1](held[0])
