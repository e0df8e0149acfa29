"""Faults of a plugin: those of any server (``trio_grpc.server_faults``), with refusals turned to statuses."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from devices.model import Refused
from trio_grpc import Code, StatusError
from trio_grpc.server_faults import ServerFaults

__all__ = ["Faulty", "refusal"]

T = TypeVar("T")


class Faulty(ServerFaults):
    """One plan for all calls of a plugin; ``crash`` ends the plugin."""

    async def answer(self, method: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do a unary call's work under the plan. Raises ``StatusError``."""
        try:
            return await super().answer(method, work)
        except Refused as refused:
            raise refusal(refused) from None


def refusal(refused: Refused) -> StatusError:
    """What the caller gets of a refusal."""
    return StatusError(Code[refused.code], refused.text)
