"""A channel whose calls outlive their caller: what a proxy between kubelet and runtime does to a kubelet's
death.

Without it a runtime hears at once that its client is gone and gives up what it was waiting for: a container
that was being stopped is then never killed. The recordings were made through such a proxy (POD-1204).
"""

from typing import Any, TypeVar

import trio
from google.protobuf.message import Message

from node_host.alarms import Alarms
from trio_grpc import Channel, ItemStream, Method, StatusError
from trio_grpc.channel import RawStream

__all__ = ["HeldCalls"]

RequestT = TypeVar("RequestT", bound=Message)
ReplyT = TypeVar("ReplyT", bound=Message)


class HeldCalls(Channel):
    """Passes every call on to ``inner`` from a task of ``nursery``; streams end with their reader as ever."""

    def __init__(self, inner: Channel, nursery: trio.Nursery) -> None:
        super().__init__()
        self._inner = inner
        self._tasks = nursery

    async def aclose(self) -> None:
        """The inner channel belongs to whoever made it."""

    async def unary(
        self,
        method: Method[RequestT, ReplyT],
        request: RequestT,
        *,
        timeout_seconds: float | None = None,
    ) -> ReplyT:
        """Call a unary method; if the caller is cancelled the call still runs to its end."""
        done = trio.Event()
        answer: list[Any] = []

        async def call() -> None:
            try:
                reply = await self._inner.unary(method, request, timeout_seconds=timeout_seconds)
                answer.append(reply)
            except StatusError as error:
                answer.append(error)
            finally:
                done.set()

        self._tasks.start_soon(call)
        await done.wait()
        if isinstance(answer[0], StatusError):
            raise answer[0]
        return answer[0]

    def stream(
        self,
        method: Method[RequestT, ReplyT],
        request: RequestT,
        *,
        timeout_seconds: float | None = None,
    ) -> ItemStream[ReplyT]:
        return self._inner.stream(method, request, timeout_seconds=timeout_seconds)

    async def _exchange(self, path: str, request: bytes, deadline: float, alarms: Alarms | None) -> bytes:
        return await self._inner._exchange(path, request, deadline, alarms)

    def _open(self, path: str, request: bytes, deadline: float) -> RawStream:
        return self._inner._open(path, request, deadline)
