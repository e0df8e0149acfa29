"""Where a vendor's own logic goes: one method for each call, with the model's answer in hand.

::

    class Flaky(PluginHooks):
        async def allocate(self, call, ids, answer):
            if call.count == 0:
                raise Refused("the fabric manager is not up yet", "UNAVAILABLE")
            return evolve(answer, envs={**answer.envs, "FABRIC": "up"})

    plugin = DevicePlugin(model, hooks=Flaky(), …)

A hook may wait (on the node's clock) and may raise ``Refused``; any other exception is a fault of the hook
and reaches the kubelet as UNKNOWN, like a panic that a server recovers from.
"""

from collections.abc import Sequence

from attrs import frozen

from devices.model import Answer, Device, Model

__all__ = ["HookCall", "PluginHooks"]


@frozen
class HookCall:
    """Which call it is: ``count`` counts the calls of the method from 0 over all restarts of the plugin."""

    method: str
    count: int
    model: Model


class PluginHooks:
    """Changes nothing; override what you need."""

    async def options(self, call: HookCall, model: Model) -> Model:
        """GetDevicePluginOptions: the model whose options are told."""
        return model

    async def devices(self, call: HookCall, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        """One list of ListAndWatch, before it is sent."""
        return devices

    async def prefer(
        self,
        call: HookCall,
        available: Sequence[str],
        must: Sequence[str],
        size: int,
        answer: tuple[str, ...],
    ) -> tuple[str, ...]:
        """GetPreferredAllocation for one container."""
        return answer

    async def allocate(self, call: HookCall, ids: Sequence[str], answer: Answer) -> Answer:
        """Allocate for one container."""
        return answer

    async def pre_start(self, call: HookCall, ids: Sequence[str]) -> None:
        """PreStartContainer."""
        return
