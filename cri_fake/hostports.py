"""Host ports: what listens on the node for a pod and passes connections on to it.

Real where addresses are (``--pod-cidr`` in 127.0.0.0/8). A host port that somebody else has is an error of
RunPodSandbox, as with the portmap plugin, and leaves nothing.
"""

import trio

from cri_fake.store.faults import Kind, Refused
from cri_fake.store.sandboxes import Sandbox
from k8s_proto import runtime_v1_pb2 as cri
from node_host.net import Handler, Listening, Net

__all__ = ["HostPorts"]

_CHUNK_BYTES = 65536


class HostPorts:
    """The host ports of all sandboxes. Only TCP carries anything; other protocols are accepted and silent."""

    def __init__(self, net: Net) -> None:
        self._net = net
        self._open: dict[str, list[Listening]] = {}

    def open(self, sandbox: Sandbox) -> None:
        """Listen for a pod with an address of its own.

        Raises:
            Refused: a port is taken; none of the pod's is held then.
        """
        for mapping in sandbox.config.port_mappings:
            if mapping.host_port <= 0 or mapping.protocol != cri.TCP or not sandbox.ips:
                continue
            host, port = mapping.host_ip or "127.0.0.1", mapping.host_port
            try:
                listening = self._net.listen(host, port, self._to(sandbox.ips[0], mapping.container_port))
            except OSError as error:
                self.close(sandbox.id)
                text = f'plugin type="portmap" failed (add): cannot open hostport {port}: {error.strerror}'
                raise Refused(Kind.UNKNOWN, text) from None
            self._open.setdefault(sandbox.id, []).append(listening)

    def close(self, sandbox_id: str) -> None:
        """Let go of a pod's ports; nothing happens if it has none."""
        for listening in self._open.pop(sandbox_id, []):
            listening.close()

    def close_all(self) -> None:
        """Let go of all of them."""
        for sandbox_id in list(self._open):
            self.close(sandbox_id)

    def _to(self, address: str, port: int) -> Handler:
        async def carry(client: trio.abc.HalfCloseableStream) -> None:
            async with await self._net.connect(address, port) as server, trio.open_nursery() as nursery:
                nursery.start_soon(_copy, client, server)
                nursery.start_soon(_copy, server, client)

        return carry


async def _copy(source: trio.abc.HalfCloseableStream, sink: trio.abc.HalfCloseableStream) -> None:
    """Pass on until the end, and the end too; a peer that breaks off ends it."""
    try:
        while data := await source.receive_some(_CHUNK_BYTES):
            await sink.send_all(data)
        await sink.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
        await sink.aclose()
