# pyright: basic
"""Exec, attach and port-forward over WebSocket, asked by the ``websockets`` library, in virtual time."""

import base64
import json

import pytest
import trio
from websockets.client import ClientProtocol
from websockets.frames import Opcode
from websockets.uri import parse_uri

from k8s_proto import runtime_v1_pb2 as cri

V5, V4, V4_BASE64 = "v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io"
V1, V1_BASE64 = "channel.k8s.io", "base64.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255


class WebSocket:
    """The protocol of ``websockets`` over a stream; ``channels`` collects what came on each."""

    def __init__(self, stream, protocol) -> None:
        self.stream = stream
        self.protocol = protocol
        self.channels: dict[int, bytes] = {}
        self.messages: list[bytes] = []
        self.closed = False

    @classmethod
    async def connect(cls, net, url: str, subprotocols=(), speaks=ClientProtocol):
        protocol = speaks(parse_uri(url.replace("http://", "ws://")), subprotocols=subprotocols or None)
        host, _, port = url.partition("://")[2].partition("/")[0].rpartition(":")
        stream = await net.connect(host, int(port))
        protocol.send_request(protocol.connect())
        socket = cls(stream, protocol)
        await socket.flush()
        while protocol.state.name == "CONNECTING" and protocol.handshake_exc is None:
            protocol.receive_data(bytes(await stream.receive_some()))
        if protocol.handshake_exc is not None:
            raise protocol.handshake_exc
        socket.take()
        return socket

    @property
    def base64(self) -> bool:
        return "base64" in (self.protocol.subprotocol or "")

    async def flush(self) -> None:
        for data in self.protocol.data_to_send():
            if data:
                await self.stream.send_all(data)

    async def send(self, channel: int, data: bytes) -> None:
        if self.base64:
            self.protocol.send_text(b"%d" % channel + base64.b64encode(data))
        else:
            self.protocol.send_binary(bytes([channel]) + data)
        await self.flush()

    def take(self) -> None:
        for event in self.protocol.events_received():
            if getattr(event, "opcode", None) not in (Opcode.BINARY, Opcode.TEXT):
                continue
            data = bytes(event.data)
            self.messages.append(data)
            if self.base64:
                number, data = int(data[:1]), base64.b64decode(data[1:])
            elif data:
                number, data = data[0], data[1:]
            else:
                continue
            self.channels[number] = self.channels.get(number, b"") + data

    async def until(self, condition) -> None:
        while not condition():
            data = bytes(await self.stream.receive_some())
            if data:
                self.protocol.receive_data(data)
            else:
                self.protocol.receive_eof()
            self.take()
            await self.flush()
            if not data:
                self.closed = True
                assert condition(), "the connection ended early"

    async def to_end(self) -> None:
        await self.until(lambda: self.closed)
        await self.stream.aclose()


async def exec_socket(rig, container: str, *cmd: str, subprotocols=(V4,), **fields) -> WebSocket:
    request = cri.ExecRequest(container_id=container, cmd=cmd, **{"stdout": True, **fields})
    url = (await rig.cri.Exec(request)).url
    return await WebSocket.connect(rig.runtime.world.net, url, subprotocols)


@pytest.mark.parametrize("subprotocol", [V5, V4, V4_BASE64, V1, V1_BASE64, ""])
def test_every_subprotocol_runs_a_command_CRI_119(drive, subprotocol):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        script = "read -r x; echo out $x; echo err >&2; exit 7"
        offered = (subprotocol,) if subprotocol else ()
        socket = await exec_socket(
            rig, container, "sh", "-c", script, stdin=True, stderr=True, subprotocols=offered
        )
        assert (socket.protocol.subprotocol or "") == subprotocol
        await socket.send(STDIN, b"typed\n")
        await socket.to_end()
        assert socket.channels[STDOUT] == b"out typed\n"
        assert socket.channels[STDERR] == b"err\n"
        if subprotocol in (V5, V4, V4_BASE64):
            assert json.loads(socket.channels[ERROR])["details"]["causes"][0]["message"] == "7"
        else:
            assert socket.channels[ERROR] == b"command terminated with non-zero exit code: exit status 7"
        first = base64.b64decode(socket.messages[0][1:]) if socket.base64 else socket.messages[0][1:]
        assert first == b""
        assert socket.protocol.close_code == 1000

    drive(body)


def test_version_5_is_the_first_choice_and_ends_stdin_CRI_119(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        socket = await exec_socket(rig, container, "wc", "-c", stdin=True, subprotocols=(V5, V4))
        assert socket.protocol.subprotocol == V5
        for _ in range(10):
            await socket.send(STDIN, b"x" * 30_000)
        await socket.send(CLOSE, bytes([STDIN]))
        await socket.to_end()
        assert socket.channels[STDOUT] == b"300000\n"
        assert json.loads(socket.channels[ERROR])["status"] == "Success"

    drive(body)


def test_a_terminal_over_websocket(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        script = "trap 'stty size' WINCH; while :; do sleep 0.1; done"
        socket = await exec_socket(rig, container, "sh", "-c", script, stdin=True, tty=True)
        await socket.send(RESIZE, b'{"Width":80,"Height":24}')
        await socket.until(lambda: b"24 80\r\n" in socket.channels.get(STDOUT, b""))
        await socket.send(STDIN, b"\x03")
        await socket.to_end()
        assert json.loads(socket.channels[ERROR])["details"]["causes"][0]["message"] == "130"

    drive(body)


def test_pieces_pings_and_what_nobody_asked_for(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        socket = await exec_socket(rig, container, "head", "-c", "6", stdin=True)
        socket.protocol.send_ping(b"hello")
        await socket.send(RESIZE, b"not asked for")
        await socket.send(9, b"unknown")
        socket.protocol.send_binary(b"\0abc", fin=False)
        socket.protocol.send_continuation(b"def", fin=True)
        await socket.flush()
        await socket.to_end()
        assert socket.channels[STDOUT] == b"abcdef"

    drive(body)


def test_oversized_messages_and_broken_frames_end_the_connection(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        large = await exec_socket(rig, container, "md5sum", stdin=True)
        await large.send(STDIN, b"x" * 3_000_000)
        await large.to_end()
        assert large.protocol.close_code == 1009
        wrong = await exec_socket(rig, container, "sleep", "100", stdin=True)
        await wrong.stream.send_all(b"\x83\x82\0\0\0\0xx")
        await wrong.to_end()
        assert wrong.protocol.close_code == 1002

    drive(body)


def test_an_unknown_subprotocol_is_refused(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        with pytest.raises(Exception, match="403"):
            await exec_socket(rig, container, "true", subprotocols=("v9.channel.k8s.io",))

    drive(body)


def test_attach_over_websocket_CRI_122(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod(), script="sleep 2; echo now; sleep 2")
        request = cri.AttachRequest(container_id=container, stdout=True)
        url = (await rig.cri.Attach(request)).url
        socket = await WebSocket.connect(rig.runtime.world.net, url, (V5,))
        await socket.to_end()
        assert socket.channels[STDOUT] == b"now\n"
        assert json.loads(socket.channels[ERROR])["status"] == "Success"

    drive(body)


@pytest.mark.parametrize("subprotocol", [V4, V4_BASE64, ""])
def test_port_forward_names_the_port_on_each_channel_CRI_120(drive, subprotocol):
    async def body(rig):
        sandbox = await rig.run_pod()
        await rig.run(sandbox, script="nc -l -k -p 8080 -e sh -c 'read -r x; echo \"got $x\"'")
        await rig.clock.sleep(1)
        request = cri.PortForwardRequest(pod_sandbox_id=sandbox, port=[8080, 9])
        url = (await rig.cri.PortForward(request)).url
        offered = (subprotocol,) if subprotocol else ()
        socket = await WebSocket.connect(rig.runtime.world.net, url, offered)
        await socket.send(0, b"ping\n")
        await socket.until(
            lambda: b"got" in socket.channels.get(0, b"") and len(socket.channels.get(3, b"")) > 2
        )
        assert socket.channels[0] == (8080).to_bytes(2, "little") + b"got ping\n"
        assert socket.channels[1] == (8080).to_bytes(2, "little")
        assert socket.channels[2] == (9).to_bytes(2, "little")
        assert b"error forwarding port 9" in socket.channels[3]
        await socket.stream.aclose()

    drive(body)


def test_a_client_that_vanishes_ends_its_session(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        before = trio.lowlevel.current_statistics().tasks_living
        socket = await exec_socket(rig, container, "cat", stdin=True)
        await socket.stream.aclose()
        await rig.clock.sleep(5)
        assert (await rig.exec(container, "sh", "-c", "pgrep cat || echo none")).stdout == b"none\n"
        assert trio.lowlevel.current_statistics().tasks_living <= before + 1

    drive(body)
