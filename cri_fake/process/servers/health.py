"""A gRPC health service for programs in a pod: ``grpc.health.v1.Health/Check`` over plain HTTP/2.

Only what a health check needs: one small message each way. Clients are told to use no table of headers; one
that has already used it is answered by its message alone.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from k8s_proto import health_v1_pb2 as health
from node_host import http2
from node_host.http2 import Frame, FrameType, Http2Error

__all__ = ["serve_health"]

_PATH = "/grpc.health.v1.Health/Check"
_NO_HEADER_TABLE = (0x1).to_bytes(2, "big") + bytes(4)
_ACK = 0x1
_MAX_MESSAGE_BYTES = 4096
_MAX_STREAMS = 100
_OK, _NOT_FOUND, _UNIMPLEMENTED = "0", "5", "12"


async def serve_health(stream: trio.abc.HalfCloseableStream, state_of: Callable[[str], int | None]) -> None:
    """Serve one connection. ``state_of`` gives a service's ServingStatus, None for an unknown one."""
    await _Session(stream, state_of).run()


class _Session:
    def __init__(self, stream: trio.abc.HalfCloseableStream, state_of: Callable[[str], int | None]) -> None:
        self._stream = stream
        self._state_of = state_of
        self._paths: dict[int, str] = {}
        self._bodies: dict[int, bytearray] = {}

    async def run(self) -> None:
        """Until the client has gone or says what is not HTTP/2."""
        start = bytearray()
        while len(start) < len(http2.PREFACE):
            data = bytes(await self._stream.receive_some())
            if not data:
                return
            start += data
        if not start.startswith(http2.PREFACE):
            return
        await self._send(Frame(FrameType.SETTINGS, 0, 0, _NO_HEADER_TABLE))
        reader = http2.FrameReader()
        data = bytes(start[len(http2.PREFACE) :])
        try:
            while True:
                for frame in reader.feed(data):
                    await self._take(frame)
                data = bytes(await self._stream.receive_some())
                if not data:
                    return
        except Http2Error:
            return

    async def _send(self, *frames: Frame) -> None:
        await self._stream.send_all(b"".join(http2.frame_bytes(frame) for frame in frames))

    async def _take(self, frame: Frame) -> None:
        if frame.kind == FrameType.SETTINGS and not frame.flags & _ACK:
            await self._send(Frame(FrameType.SETTINGS, _ACK, 0, b""))
        elif frame.kind == FrameType.PING and not frame.flags & _ACK:
            await self._send(Frame(FrameType.PING, _ACK, 0, frame.payload))
        elif frame.kind == FrameType.HEADERS:
            self._open(frame)
        elif frame.kind == FrameType.DATA and frame.stream in self._bodies:
            body = self._bodies[frame.stream]
            body += frame.payload
            if len(body) > _MAX_MESSAGE_BYTES:
                raise Http2Error("the message is too large")
            if frame.flags & http2.END_STREAM:
                await self._answer(frame.stream)

    def _open(self, frame: Frame) -> None:
        if len(self._bodies) >= _MAX_STREAMS:
            raise Http2Error("too many streams are open")
        try:
            fields = dict(http2.decode_fields(http2.header_block(frame)))
        except Http2Error:
            fields = {":path": _PATH}
        self._paths[frame.stream] = fields.get(":path", _PATH)
        self._bodies[frame.stream] = bytearray()

    async def _answer(self, stream: int) -> None:
        path, body = self._paths.pop(stream), bytes(self._bodies.pop(stream))
        state: int | None = None
        code = _UNIMPLEMENTED
        if path == _PATH:
            state = self._state_of(health.HealthCheckRequest.FromString(body[5:]).service)
            code = _NOT_FOUND if state is None else _OK
        head = [(":status", "200"), ("content-type", "application/grpc")]
        if state is None:
            said = "unknown service" if code == _NOT_FOUND else f"unknown method {path}"
            fields = [*head, ("grpc-status", code), ("grpc-message", said)]
            both = http2.END_HEADERS | http2.END_STREAM
            await self._send(Frame(FrameType.HEADERS, both, stream, http2.encode_fields(fields)))
            return
        message = health.HealthCheckResponse(status=health.HealthCheckResponse.ServingStatus.ValueType(state))
        data = message.SerializeToString()
        await self._send(
            Frame(FrameType.HEADERS, http2.END_HEADERS, stream, http2.encode_fields(head)),
            Frame(FrameType.DATA, 0, stream, b"\0" + len(data).to_bytes(4, "big") + data),
            Frame(
                FrameType.HEADERS,
                http2.END_HEADERS | http2.END_STREAM,
                stream,
                http2.encode_fields([("grpc-status", _OK)]),
            ),
        )
