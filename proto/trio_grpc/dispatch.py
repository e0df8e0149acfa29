"""The server side that both transports share: from the bytes of a request to the bytes of its answer."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from trio_grpc.codes import StatusError
from trio_grpc.method import (
    Bound,
    Call,
    Handler,
    as_status,
    bind,
    check_reply,
    decode,
    encode,
    too_large,
    too_many_streams,
    unknown_path,
)

__all__ = ["Dispatcher"]


class Dispatcher:
    """The handlers of one server. The limits are the server's; see ``MemoryServer`` for ``on_failure``."""

    def __init__(
        self,
        *,
        max_receive_bytes: int,
        max_streams: int,
        on_failure: Callable[[str, BaseException], None] | None,
    ) -> None:
        self.max_receive_bytes = max_receive_bytes
        self.max_streams = max_streams
        self._on_failure = on_failure
        self._bound: dict[str, Bound] = {}
        self._streams = 0

    def add(self, handler: Handler) -> None:
        """Serve the contracts of this handler. Raises ValueError where a method is served already."""
        added = bind(handler)
        for path in added:
            if path in self._bound:
                raise ValueError(f"{path} is already served")
        self._bound.update(added)

    def streams(self, path: str) -> bool | None:
        """Whether the method streams; None for an unknown path."""
        bound = self._bound.get(path)
        return None if bound is None else bound.method.streaming

    async def answer(self, path: str, request: bytes, deadline: float) -> bytes:
        """Run the handler of a unary method. Raises StatusError."""
        bound = self._bound.get(path)
        if bound is None or bound.method.streaming:
            raise unknown_path(path)
        message = self._request(bound, request)
        try:
            reply = await bound.function(message, Call(bound.method, deadline))
        except Exception as problem:
            raise self._failed(path, problem) from None
        return encode(check_reply(bound.method, reply))

    async def feed(
        self, path: str, request: bytes, deadline: float, put: Callable[[bytes], Awaitable[None]]
    ) -> None:
        """Run the handler of a streaming method and ``put`` its items one by one. Raises StatusError."""
        bound = self._bound.get(path)
        if bound is None or not bound.method.streaming:
            raise unknown_path(path)
        if self._streams >= self.max_streams:
            raise too_many_streams(self.max_streams)
        self._streams += 1
        try:
            message = self._request(bound, request)
            async with aclosing(bound.function(message, Call(bound.method, deadline))) as items:
                async for item in items:
                    await put(encode(check_reply(bound.method, item)))
        except Exception as problem:
            raise self._failed(path, problem) from None
        finally:
            self._streams -= 1

    def _request(self, bound: Bound, data: bytes) -> Any:
        if len(data) > self.max_receive_bytes:
            raise too_large(len(data), self.max_receive_bytes)
        return decode(bound.method.request_type, data)

    def _failed(self, path: str, problem: Exception) -> StatusError:
        status = as_status(problem)
        if self._on_failure is not None and not isinstance(problem, StatusError):
            self._on_failure(path, problem)
        return status
