"""Faults on the serving side: the grammar of ``node_host.faults``, seen from the server.

``error`` and ``hang`` come before the call is looked at; ``lost`` acts and then fails or never answers;
``duplicate`` acts twice and answers once; ``crash`` and ``crash(after)`` end the whole server. For a stream,
"after" means after its first item, and ``duplicate`` sends each item twice.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import trio

from node_host.faults import Fault, FaultPlan
from trio_grpc.codes import Code, StatusError
from trio_grpc.method import Call, Handler, Method
from trio_grpc.wrapping import wrapped

__all__ = ["ServerFaults", "with_faults"]

ReplyT = TypeVar("ReplyT")


class ServerFaults:
    """One plan for all calls of a server; ``crash`` ends the server."""

    def __init__(self, plan: FaultPlan, crash: Callable[[], None]) -> None:
        self.plan = plan
        self._crash = crash

    async def answer(self, method: str, work: Callable[[], Awaitable[ReplyT]]) -> ReplyT:
        """Do a unary call's work under the plan. Raises ``StatusError``, and what the work raises."""
        fault = await self.before(method)
        if fault is not None and fault.kind == "duplicate":
            await work()
        reply = await work()
        if fault is not None:
            await self.after(fault)
        return reply

    async def before(self, method: str) -> Fault | None:
        """Count the call; the part of its fault that comes first. Raises ``StatusError``."""
        fault = self.plan.next(method)
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


def with_faults(handler: Handler, faults: ServerFaults) -> Handler:
    """A handler that serves the same contract as ``handler``, with the faults in between."""

    def wrap(method: Method[Any, Any], serve: Callable[..., Any]) -> Callable[..., Any]:
        make = _stream if method.streaming else _unary
        return make(method.name, serve, faults)

    return wrapped(handler, wrap)


def _unary(name: str, serve: Callable[[Any, Call], Awaitable[Any]], faults: ServerFaults) -> Any:
    async def call(request: Any, call: Call) -> Any:
        if not faults.plan.active:
            return await serve(request, call)
        return await faults.answer(name, lambda: serve(request, call))

    return call


def _stream(name: str, serve: Callable[[Any, Call], Any], faults: ServerFaults) -> Any:
    async def call(request: Any, call: Call) -> AsyncIterator[Any]:
        fault = await faults.before(name)
        async with aclosing(serve(request, call)) as items:
            async for item in items:
                yield item
                if fault is not None and fault.kind == "duplicate":
                    yield item
                elif fault is not None:
                    await faults.after(fault)

    return call
