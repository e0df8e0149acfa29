"""Carrying out commands on a runtime, and what each of them answers."""

from typing import Any

from attrs import define, field

from cri_fake.control.commands import (
    ClearFaults,
    Command,
    CommandProblem,
    SetLatency,
    Show,
    Toggle,
)
from cri_fake.runtime import FakeRuntime
from cri_fake.store.faults import Refused
from k8s_proto import runtime_v1_pb2 as cri
from node_host.faults import Draw, FaultPlan, FaultSyntaxError, Spread
from node_host.plan import Crash, Reboot, RegistryDown, SlowProcesses, UserAction, WireFault

__all__ = ["Desk"]

_METHODS = frozenset(
    method.name for service in cri.DESCRIPTOR.services_by_name.values() for method in service.methods
)


@define(eq=False)
class Desk:
    """Takes commands for one runtime. ``draw`` is the chance behind latencies that are spread."""

    runtime: FakeRuntime
    draw: Draw
    _told: dict[str, str] = field(factory=dict[str, str])

    async def do(self, command: Command) -> dict[str, Any]:
        """Carry a command out; returns what is to be shown. What lasts for some time is over on return.

        Raises:
            CommandProblem: there is no such method, pod or container.
        """
        try:
            return await self._do(command)
        except Refused as refused:
            raise CommandProblem(refused.text) from None
        except FaultSyntaxError as problem:
            raise CommandProblem(str(problem)) from None

    async def _do(self, command: Command) -> dict[str, Any]:
        runtime = self.runtime
        match command:
            case Show(what="faults"):
                return {"faults": str(self._plan)}
            case Show():
                return self.status()
            case ClearFaults():
                self._plan.clear()
                return {"faults": ""}
            case WireFault(rule=rule):
                self._check_method(rule.method)
                self._plan.add(rule)
                return {"faults": str(self._plan)}
            case SetLatency():
                return self._set_latency(command)
            case Toggle(what="disk", fine=fine):
                runtime.world.disk.set_full(not fine)
            case Toggle(what="registry", fine=fine):
                runtime.set_registry_up(fine)
            case Toggle(fine=fine):
                runtime.set_network_ready(fine)
            case UserAction():
                await self._act(command)
            case Crash() | Reboot():
                await self._go_down(command)
            case RegistryDown(seconds=seconds):
                runtime.set_registry_up(False)
                await runtime.world.clock.sleep(seconds)
                runtime.set_registry_up(True)
            case SlowProcesses(factor=factor, seconds=seconds):
                runtime.set_pace(factor)
                await runtime.world.clock.sleep(seconds)
                runtime.set_pace(1.0)
        return self.status()

    async def _go_down(self, deed: Crash | Reboot) -> None:
        """The daemon dies, its containers run on; a reboot, or the loss of state, ends them too."""
        if isinstance(deed, Reboot) or deed.lose_state:
            await self.runtime.power_off(forget=deed.lose_state)
        await self.runtime.restart(down_seconds=deed.down_seconds)

    @property
    def _plan(self) -> FaultPlan:
        plan = self.runtime.faults
        assert plan is not None, "a runtime with a desk has a plan"
        return plan

    def _check_method(self, method: str) -> None:
        if method != "*" and method not in _METHODS:
            raise CommandProblem(f"{method!r} is no method of CRI: write a name such as StartContainer, or *")

    def _set_latency(self, command: SetLatency) -> dict[str, Any]:
        self._check_method(command.method)
        told = self.runtime.told_latencies(self.draw)
        told.told.pop(command.method, None)
        told.factors.pop(command.method, None)
        self._told.pop(command.method, None)
        if command.factor is not None:
            told.factors[command.method] = command.factor
            self._told[command.method] = f"x{command.factor:g}"
        elif command.seconds is not None:
            told.told[command.method] = command.seconds
            text = str(command.seconds) if isinstance(command.seconds, Spread) else f"{command.seconds:g}"
            self._told[command.method] = text
        return {"latency": dict(self._told)}

    async def _act(self, action: UserAction) -> None:
        match action.do:
            case "signal":
                self.runtime.signal_container(action.pod, action.container, int(action.value))
            case "oom":
                self.runtime.oom_kill(action.pod, action.container)
            case "kill-sandbox":
                self.runtime.kill_sandbox_process(action.pod)
            case "stop-sandbox":
                await self.runtime.stop_sandbox_behind(action.pod)
            case _:
                raise CommandProblem(f"'{action}' is nothing that a runtime alone can do")

    def status(self) -> dict[str, Any]:
        """What there is, and how the knobs stand."""
        world = self.runtime.world
        states: dict[str, int] = {}
        for container in world.containers.values:
            states[container.state.lower()] = states.get(container.state.lower(), 0) + 1
        ready = sum(sandbox.ready for sandbox in world.sandboxes.values)
        return {
            "daemon": "up" if self.runtime.daemon_up else "down",
            "profile": world.profile.name,
            "sandboxes": {"ready": ready, "notready": len(world.sandboxes) - ready},
            "containers": dict(sorted(states.items())),
            "images": len(world.images.values),
            "podCIDR": world.ipam.cidrs,
            "network": "ready" if world.network_ready else "not-ready",
            "registry": "up" if world.registry_up else "down",
            "disk": "full" if world.disk.full else "ok",
            "faults": str(self._plan),
            "latency": dict(self._told),
        }
