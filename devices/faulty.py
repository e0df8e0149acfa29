"""Faults on the serving side: the same grammar as on a channel, seen from the server (see
``node_host.faults``).

``error`` and ``hang`` come before the call is looked at; ``lost`` acts and then fails or never answers;
``duplicate`` acts twice; ``crash`` and ``crash(after)`` end the whole plugin. For a stream, "after" means
after its first item, and ``duplicate`` sends each item twice.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from devices.model import Refused
from node_host.faults import Fault, FaultPlan
from trio_grpc import Code, StatusError

__all__ = ["Faulty", "refusal"]

T = TypeVar("T")


class Faulty:
    """One plan for all calls of a plugin; ``crash`` ends the plugin."""

    def __init__(self, plan: FaultPlan, crash: Callable[[], None]) -> None:
        self._plan = plan
        self._crash = crash

    async def answer(self, method: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do a unary call's work under the plan. Raises ``StatusError``."""
        fault = await self.before(method)
        try:
            if fault is not None and fault.kind == "duplicate":
                await work()
            reply = await work()
        except Refused as refused:
            raise refusal(refused) from None
        if fault is not None:
            await self.after(fault)
        return reply

    async def before(self, method: str) -> Fault | None:
        """Count the call; the part of its fault that comes first. Raises ``StatusError``."""
        fault = self._plan.next(method)
        if fault is None:
            return None
        if fault.kind == "error":
            raise StatusError(Code[fault.code or "UNKNOWN"], fault.details)
        if fault.kind == "delay":
            await trio.sleep(fault.seconds)
        elif fault.kind == "hang":
            await _silence(fault)
        elif fault.kind == "crash":
            await self._die()
        return fault

    async def after(self, fault: Fault) -> None:
        """The part that comes once the work has been done. Raises ``StatusError``."""
        if fault.kind == "crash-after":
            await self._die()
        if fault.kind == "lost":
            if fault.code is None:
                await _silence(fault)
            raise StatusError(Code[fault.code or "UNKNOWN"], fault.details)

    async def _die(self) -> None:
        self._crash()
        await trio.sleep_forever()


async def _silence(fault: Fault) -> None:
    if not fault.seconds:
        await trio.sleep_forever()
    await trio.sleep(fault.seconds)
    raise StatusError(Code.UNAVAILABLE, "error reading from server: EOF")


def refusal(refused: Refused) -> StatusError:
    """What the caller gets of a refusal."""
    return StatusError(Code[refused.code], refused.text)
