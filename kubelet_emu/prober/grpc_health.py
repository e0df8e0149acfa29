"""The gRPC health check of a probe, over the node's network; mirrors pkg/probe/grpc/grpc.go (PRB-28).

One connection, one call of ``grpc.health.v1.Health/Check`` in plain HTTP/2. Connecting is tried again until
the timeout, as the blocking dial of Go's client does, so a closed port shows as a timeout. Nothing is raised:
every end is a verdict with Kubernetes' text.
"""

from collections.abc import Mapping
from typing import Final

import trio
from attrs import define, field

from k8s_proto import health_v1_pb2 as health
from kubelet_emu.kuberuntime.gotext import go_duration, go_quote
from kubelet_emu.prober.dial import DialError, dial
from kubelet_emu.prober.runner import USER_AGENT, HandlerResult
from kubelet_emu.prober.targets import join_host_port
from node_host import http2
from node_host.http2 import Frame, FrameType, Http2Error
from node_host.net import Net
from trio_grpc.codes import Code, StatusError

__all__ = ["NetGrpcHealth"]

PATH: Final = "/grpc.health.v1.Health/Check"
FIRST_RETRY_SECONDS: Final = 1.0
RETRY_FACTOR: Final = 1.6
RETRY_MAX_SECONDS: Final = 120.0
NS_PER_SECOND: Final = 1_000_000_000
_NO_HEADER_TABLE: Final = (0x1).to_bytes(2, "big") + bytes(4)
_SERVING_NAMES: Final[Mapping[int, str]] = {
    value: name for name, value in health.HealthCheckResponse.ServingStatus.items()
}
_STREAM: Final = 1
_MESSAGE_HEAD_BYTES: Final = 5
_REPLY_LIMIT_BYTES: Final = 64 * 1024


@define
class _Reply:
    """What has come back on the stream so far."""

    data: bytearray = field(factory=bytearray)
    block: bytearray = field(factory=bytearray)
    fields: dict[str, str] = field(factory=dict[str, str])
    ended: bool = False


class NetGrpcHealth:
    """Implements ``kubelet_emu.prober.runner.GrpcHealth`` over a ``Net``."""

    def __init__(self, *, user_agent: str = USER_AGENT) -> None:
        self._user_agent = user_agent

    async def check(
        self, net: Net, host: str, port: int, service: str, *, timeout_seconds: float
    ) -> HandlerResult:
        """The verdict about ``service`` of the server at that address."""
        where = join_host_port(host, port)
        within = go_duration(round(timeout_seconds * NS_PER_SECOND))
        connected = False
        with trio.move_on_after(timeout_seconds):
            connection = await _connect(net, host, port)
            connected = True
            try:
                serving = await connection.call(where, service, self._user_agent)
            except StatusError as error:
                return _failed(error)
            finally:
                await trio.aclose_forcefully(connection.stream)
            if serving == health.HealthCheckResponse.SERVING:
                return HandlerResult("success", "service healthy")
            name = go_quote(_SERVING_NAMES.get(serving, str(serving)))
            return HandlerResult("failure", f"service unhealthy (responded with {name})")
        if connected:
            return HandlerResult("failure", f"timeout: health rpc did not complete within {within}")
        text = (
            f"timeout: failed to connect service {go_quote(where)} within {within}: context deadline exceeded"
        )
        return HandlerResult("failure", text)


def _failed(error: StatusError) -> HandlerResult:
    if error.code is Code.UNIMPLEMENTED:
        text = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)"
        return HandlerResult("failure", f"{text}: {error.details}")
    return HandlerResult("failure", f"error: health rpc probe failed: {error}")


async def _connect(net: Net, host: str, port: int) -> "_Connection":
    """A connection whose server has spoken; tried again, with growing pauses, until the caller's timeout."""
    pause = FIRST_RETRY_SECONDS
    while True:
        stream = None
        try:
            stream = await dial(net, host, port)
            connection = _Connection(stream)
            await connection.open()
        except (DialError, Http2Error, trio.BrokenResourceError, OSError):
            if stream is not None:
                await trio.aclose_forcefully(stream)
            await trio.sleep(pause)
            pause = min(pause * RETRY_FACTOR, RETRY_MAX_SECONDS)
        else:
            return connection


class _Connection:
    """One HTTP/2 connection with one stream."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._reader = http2.FrameReader()
        self._reply = _Reply()
        self._settled = False

    async def open(self) -> None:
        settings = Frame(FrameType.SETTINGS, 0, 0, _NO_HEADER_TABLE)
        await self.stream.send_all(http2.PREFACE + http2.frame_bytes(settings))
        while not self._settled:
            await self._receive()

    async def call(self, authority: str, service: str, user_agent: str) -> int:
        """The serving status; raises ``StatusError``."""
        fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", PATH),
            (":authority", authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", user_agent),
        ]
        message = health.HealthCheckRequest(service=service).SerializeToString()
        body = b"\0" + len(message).to_bytes(4, "big") + message
        head = Frame(FrameType.HEADERS, http2.END_HEADERS, _STREAM, http2.encode_fields(fields))
        data = Frame(FrameType.DATA, http2.END_STREAM, _STREAM, body)
        try:
            await self.stream.send_all(http2.frame_bytes(head) + http2.frame_bytes(data))
            while not self._reply.ended:
                await self._receive()
        except (Http2Error, trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
            raise StatusError(Code.UNAVAILABLE, f"error reading from server: {error or 'EOF'}") from error
        return self._result()

    async def _receive(self) -> None:
        data = await self.stream.receive_some(http2.MAX_FRAME_BYTES)
        if not data:
            raise Http2Error("EOF")
        answers = b"".join(self._take(frame) for frame in self._reader.feed(bytes(data)))
        if answers:
            await self.stream.send_all(answers)

    def _take(self, frame: Frame) -> bytes:
        """Take a frame in; the bytes to answer it with."""
        if frame.kind == FrameType.SETTINGS and not frame.flags & http2.ACK:
            self._settled = True
            return http2.frame_bytes(Frame(FrameType.SETTINGS, http2.ACK, 0))
        if frame.kind == FrameType.PING and not frame.flags & http2.ACK:
            return http2.frame_bytes(Frame(FrameType.PING, http2.ACK, 0, frame.payload))
        if frame.kind == FrameType.GOAWAY:
            raise Http2Error("the server is going away")
        if frame.stream != _STREAM:
            return b""
        reply = self._reply
        if frame.kind == FrameType.RST_STREAM:
            raise Http2Error("stream terminated by RST_STREAM")
        if frame.kind == FrameType.DATA:
            reply.data += http2.header_block(frame)
            if len(reply.data) > _REPLY_LIMIT_BYTES:
                raise Http2Error("reply too large")
        elif frame.kind in (FrameType.HEADERS, FrameType.CONTINUATION):
            reply.block += http2.header_block(frame)
            if frame.flags & http2.END_HEADERS:
                reply.fields.update(http2.decode_fields(bytes(reply.block)))
                reply.block.clear()
        if frame.kind != FrameType.CONTINUATION and frame.flags & http2.END_STREAM:
            reply.ended = True
        return b""

    def _result(self) -> int:
        fields = self._reply.fields
        code = fields.get("grpc-status", "")
        if not code.isdigit():
            status = fields.get(":status", "")
            raise StatusError(Code.UNKNOWN, f"unexpected HTTP status code received from server: {status}")
        number = int(code)
        if number:
            known = number in Code.__members__.values()
            raise StatusError(
                Code(number) if known else Code.UNKNOWN, _percent(fields.get("grpc-message", ""))
            )
        message = bytes(self._reply.data[_MESSAGE_HEAD_BYTES:])
        return health.HealthCheckResponse.FromString(message).status


def _percent(text: str) -> str:
    from urllib.parse import unquote

    return unquote(text, errors="replace")
