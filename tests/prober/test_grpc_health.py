# pyright: basic, reportArgumentType=false
"""gRPC health probes: HTTP/2 against examples of RFC 7541, a scripted server in memory, and a real one."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
import trio

from k8s_proto import health_v1_pb2 as health
from kubelet_emu.prober.grpc_health import PATH, NetGrpcHealth
from node_host.http2 import (
    PREFACE,
    Frame,
    FrameReader,
    FrameType,
    Http2Error,
    decode_fields,
    encode_fields,
    frame_bytes,
    header_block,
)
from node_host.loop import Pace, run
from node_host.net import LoopbackNet, MemoryNet

HOST, PORT = "10.88.0.5", 50051
WHERE = f"{HOST}:{PORT}"


class TestHpack:
    @pytest.mark.parametrize(
        ("data", "fields"),
        [
            ("400a637573746f6d2d6b65790d637573746f6d2d686561646572", [("custom-key", "custom-header")]),
            ("408825a849e95ba97d7f8925a849e95bb8e8b4bf", [("custom-key", "custom-value")]),
            ("48033330325803", None),
            ("4803333032", [(":status", "302")]),
            ("48826402", [(":status", "302")]),
            ("88", [(":status", "200")]),
            ("20", []),
            ("3fe11f88", [(":status", "200")]),
            ("be", []),
        ],
        ids=["C.2.1", "C.4.3", "cut", "C.5.1", "C.6.1", "indexed", "size-0", "size-4096", "dynamic"],
    )
    def test_decode(self, data, fields):
        if fields is None:
            with pytest.raises(Http2Error):
                decode_fields(bytes.fromhex(data))
        else:
            assert decode_fields(bytes.fromhex(data)) == fields

    def test_huffman_covers_ascii(self):
        # RFC 7541, C.4.1 and C.6.1
        for raw, text in (
            ("8cf1e3c2e5f23a6ba0ab90f4ff", "www.example.com"),
            ("919d29ad171863c78f0b97c8e9ae82ae43d3", "https://www.example.com"),
            ("96d07abe941054d444a8200595040b8166e082a62d1bff", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ):
            size = bytes([0x80 | len(bytes.fromhex(raw)[1:])])
            assert decode_fields(b"\x00\x01k" + size + bytes.fromhex(raw)[1:]) == [("k", text)]

    def test_round_trip(self):
        fields = [("a", "b" * 300), ("c", "")]
        assert decode_fields(encode_fields(fields)) == fields

    def test_padding_and_priority(self):
        payload = b"\x02" + bytes(5) + b"block" + b"\0\0"
        assert header_block(Frame(FrameType.HEADERS, 0x28, 1, payload)) == b"block"

    def test_frames_in_pieces(self):
        reader = FrameReader()
        data = frame_bytes(Frame(FrameType.PING, 0, 0, b"12345678")) * 2
        got = [frame for octet in data for frame in reader.feed(bytes([octet]))]
        assert [frame.payload for frame in got] == [b"12345678"] * 2
        with pytest.raises(Http2Error):
            list(reader.feed(b"\xff\xff\xff" + bytes(6)))


def headers(*fields, end=False):
    flags = 0x4 | (0x1 if end else 0)
    return frame_bytes(Frame(FrameType.HEADERS, flags, 1, encode_fields(fields)))


SETTINGS = frame_bytes(Frame(FrameType.SETTINGS, 0, 0))
OK = headers((":status", "200"), ("content-type", "application/grpc"))


def message(status):
    body = health.HealthCheckResponse(status=status).SerializeToString()
    payload = b"\0" + len(body).to_bytes(4, "big") + body
    return frame_bytes(Frame(FrameType.DATA, 0, 1, payload))


def done(code, text=""):
    return headers(("grpc-status", str(code)), ("grpc-message", text), end=True)


class Script:
    """A server that says these bytes: at once, then after the request; and goes or stays silent."""

    def __init__(self, hello, answer=b"", *, stays=False):
        self.hello = hello
        self.answer = answer
        self.stays = stays
        self.heard = b""

    async def __call__(self, stream):
        await stream.send_all(self.hello)
        while PATH.encode() not in self.heard:
            got = await stream.receive_some(4096)
            if not got:
                return
            self.heard += got
        await stream.send_all(self.answer)
        if self.stays:
            await trio.sleep(60)


def check(server, *, timeout=1.0, service="svc"):
    async def main():
        async with trio.open_nursery() as nursery:
            net = MemoryNet(nursery)
            if server is not None:
                net.listen(HOST, PORT, server)
            begun = trio.current_time()
            result = await NetGrpcHealth().check(net, HOST, PORT, service, timeout_seconds=timeout)
            took = trio.current_time() - begun
            nursery.cancel_scope.cancel()
        assert not result.error
        return result.verdict, result.output, took

    return run(main, seed=1)


def test_prb_28_serving():
    server = Script(SETTINGS, OK + message(1) + done(0))
    assert check(server)[:2] == ("success", "service healthy")
    assert server.heard.startswith(PREFACE)
    assert b"svc" in server.heard


@pytest.mark.parametrize(
    ("status", "name"),
    [(2, "NOT_SERVING"), (0, "UNKNOWN"), (3, "SERVICE_UNKNOWN")],
    ids=lambda v: f"PRB-28-{v}",
)
def test_not_serving(status, name):
    server = Script(SETTINGS, OK + message(status) + done(0))
    assert check(server)[:2] == ("failure", f'service unhealthy (responded with "{name}")')


def test_prb_28_ping_is_answered():
    ping = frame_bytes(Frame(FrameType.PING, 0, 0, b"12345678"))
    server = Script(SETTINGS + ping, OK + message(1) + done(0))
    assert check(server)[0] == "success"
    assert frame_bytes(Frame(FrameType.PING, 1, 0, b"12345678")) in server.heard


def test_prb_28_refused_is_a_timeout():
    text = f'timeout: failed to connect service "{WHERE}" within 1s: context deadline exceeded'
    assert check(None) == ("failure", text, 1.0)


def test_prb_28_no_http2_server():
    text = f'timeout: failed to connect service "{WHERE}" within 3s: context deadline exceeded'
    assert check(Script(b"HTTP/1.1 400 Bad Request\r\n\r\n"), timeout=3.0)[:2] == ("failure", text)


def test_prb_28_no_answer():
    text = "timeout: health rpc did not complete within 1s"
    assert check(Script(SETTINGS, stays=True)) == ("failure", text, 1.0)


def test_prb_28_unimplemented():
    text = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)"
    text += ": unknown service"
    server = Script(SETTINGS, OK + done(12, "unknown%20service"))
    assert check(server)[:2] == ("failure", text)


def test_prb_28_other_codes():
    text = "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"
    assert check(Script(SETTINGS, OK + done(5, "unknown service")))[:2] == ("failure", text)


def test_prb_28_broken_connection():
    verdict, text, _ = check(Script(SETTINGS))
    assert verdict == "failure"
    assert text.startswith("error: health rpc probe failed: rpc error: code = Unavailable desc = ")


class RealHealth(grpc.GenericRpcHandler):
    """grpcio's own server with a health service of one known name."""

    def service(self, details):
        if details.method != PATH:
            return None
        return grpc.unary_unary_rpc_method_handler(
            self.check,
            request_deserializer=health.HealthCheckRequest.FromString,
            response_serializer=health.HealthCheckResponse.SerializeToString,
        )

    def check(self, request, context):
        if request.service not in ("", "up", "down"):
            context.abort(grpc.StatusCode.NOT_FOUND, "unknown service ü")
        return health.HealthCheckResponse(status=2 if request.service == "down" else 1)


def test_prb_28_against_grpcio():
    """Real sockets: what no script of ours can prove."""
    server = grpc.server(ThreadPoolExecutor(1), handlers=[RealHealth()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()

    async def main():
        async with trio.open_nursery() as nursery:
            checker, net = NetGrpcHealth(), LoopbackNet(nursery)
            found = []
            for service in ("", "down", "other"):
                result = await checker.check(net, "127.0.0.1", port, service, timeout_seconds=5.0)
                found.append(result.output)
            nursery.cancel_scope.cancel()
        return found

    try:
        found = run(main, seed=1, pace=Pace.REAL)
    finally:
        server.stop(None).wait()
    assert found == [
        "service healthy",
        'service unhealthy (responded with "NOT_SERVING")',
        "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service ü",
    ]
