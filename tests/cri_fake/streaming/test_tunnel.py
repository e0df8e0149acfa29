# pyright: basic
"""SPDY inside WebSocket messages, as kubectl forwards ports by default: both clients are not ours."""

import h11
from websockets.client import ClientProtocol

from k8s_proto import runtime_v1_pb2 as cri
from tests.cri_fake.streaming.spdy_client import SpdyClient
from tests.cri_fake.streaming.test_websocket import WebSocket

TUNNEL = "SPDY/3.1+portforward.k8s.io"


class Slashed(ClientProtocol):
    """Takes the name of the subprotocol as it is: the slash is Kubernetes', the grammar of HTTP has none."""

    def process_subprotocol(self, headers):
        (chosen,) = headers.get_all("Sec-WebSocket-Protocol")
        return chosen


class Tunnel:
    """The messages of a WebSocket as a stream of bytes; each write is a message of its own."""

    def __init__(self, socket) -> None:
        self.socket = socket

    async def send_all(self, data: bytes) -> None:
        self.socket.protocol.send_binary(data)
        await self.socket.flush()

    async def receive_some(self) -> bytes:
        await self.socket.until(lambda: self.socket.messages or self.socket.closed)
        return self.socket.messages.pop(0) if self.socket.messages else b""

    async def aclose(self) -> None:
        await self.socket.stream.aclose()


def test_port_forward_through_a_tunnel_CRI_119_CRI_120(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        await rig.run(sandbox, script="nc -l -k -p 8080 -e sh -c 'read -r x; echo \"got $x\"'")
        await rig.clock.sleep(1)
        url = (await rig.cri.PortForward(cri.PortForwardRequest(pod_sandbox_id=sandbox))).url
        socket = await WebSocket.connect(rig.runtime.world.net, url, (TUNNEL,), Slashed)
        assert socket.protocol.subprotocol == TUNNEL
        client = SpdyClient(Tunnel(socket), h11.Connection(h11.CLIENT))
        for number in range(3):
            headers = {"port": "8080", "requestID": str(number)}
            error = await client.open(fin=True, streamType="error", **headers)
            data = await client.open(streamType="data", **headers)
            await client.send(data, b"ping%d\n" % number)
            await client.until(lambda d=data, e=error: {d, e} <= client.ended)
            assert client.data[data] == b"got ping%d\n" % number
            assert not client.data.get(error)
            await client.send(data, b"", fin=True)
        error = await client.open(fin=True, streamType="error", port="9", requestID="9")
        await client.open(streamType="data", port="9", requestID="9")
        await client.until(lambda: error in client.ended)
        assert b"error forwarding port 9 to pod" in client.data[error]
        await client.stream.aclose()

    drive(body)
