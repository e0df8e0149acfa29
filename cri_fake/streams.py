"""Exec, Attach, PortForward as rpcs: what is refused, and a URL for the rest (CRI-114).

The server behind the URLs is loaded and listens from the first such call on, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cri_fake.containers import ContainerOps
from cri_fake.execs import ExecOps, not_running
from cri_fake.store.containers import Container, WireState
from cri_fake.store.faults import Kind, Refused, not_found
from cri_fake.world import World
from k8s_proto import runtime_v1_pb2 as cri

if TYPE_CHECKING:
    from cri_fake.streaming.server import StreamServer

__all__ = ["StreamOps"]

MAX_PORTS = 64


class StreamOps:
    """Answers the streaming rpcs. ``host`` and ``port`` are where the HTTP server is to listen."""

    def __init__(
        self, world: World, containers: ContainerOps, execs: ExecOps, *, host: str, port: int
    ) -> None:
        self._world = world
        self._containers = containers
        self._execs = execs
        self._host = host
        self._port = port
        self._server: StreamServer | None = None

    def _serving(self) -> StreamServer:
        if self._server is None:
            from cri_fake.streaming.server import StreamServer

            self._server = StreamServer(
                self._world, self._containers, self._execs, host=self._host, port=self._port
            )
        return self._server

    def close(self) -> None:
        """End all streams and forget all URLs, as the end of the daemon does."""
        if self._server is not None:
            self._server.close()

    async def exec(self, request: cri.ExecRequest) -> cri.ExecResponse:
        """A URL to run a command at.

        Raises:
            Refused: NotFound, not running, wrong options, too many URLs pending (CRI-070).
        """
        container = self._check(request)
        await self._world.pause("Exec")
        from cri_fake.streaming.tickets import ExecTicket

        ticket = ExecTicket(
            container_id=container.id,
            argv=tuple(request.cmd),
            stdin=request.stdin,
            stdout=request.stdout,
            stderr=request.stderr,
            tty=request.tty,
        )
        return cri.ExecResponse(url=self._serving().url(ticket))

    async def attach(self, request: cri.AttachRequest) -> cri.AttachResponse:
        """A URL to join the main process at; raises as ``exec`` does."""
        container = self._check(request)
        await self._world.pause("Attach")
        from cri_fake.streaming.tickets import AttachTicket

        ticket = AttachTicket(
            container_id=container.id,
            stdin=request.stdin,
            stdout=request.stdout,
            stderr=request.stderr,
            tty=container.config.tty,
        )
        return cri.AttachResponse(url=self._serving().url(ticket))

    async def port_forward(self, request: cri.PortForwardRequest) -> cri.PortForwardResponse:
        """A URL to reach ports of a sandbox at.

        Raises:
            Refused: NotFound, not READY, wrong or too many ports, too many URLs pending.
        """
        if not request.pod_sandbox_id:
            raise Refused(Kind.INVALID_ARGUMENT, "missing required pod_sandbox_id")
        sandbox = self._world.sandboxes.find(request.pod_sandbox_id)
        if sandbox is None:
            raise self._world.unknown(f'failed to find sandbox "{request.pod_sandbox_id}"')
        if not sandbox.ready:
            raise Refused(Kind.UNKNOWN, "sandbox container is not running")
        if len(request.port) > MAX_PORTS or any(not 0 < port < 65536 for port in request.port):
            text = f"ports must be 1 to 65535, at most {MAX_PORTS} of them"
            raise Refused(Kind.INVALID_ARGUMENT, text)
        await self._world.pause("PortForward")
        from cri_fake.streaming.tickets import ForwardTicket

        ticket = ForwardTicket(sandbox_id=sandbox.id, ports=tuple(request.port))
        return cri.PortForwardResponse(url=self._serving().url(ticket))

    def _check(self, request: cri.ExecRequest | cri.AttachRequest) -> Container:
        """What containerd refuses before it gives a URL (CRI-070)."""
        if not request.container_id:
            raise Refused(Kind.INVALID_ARGUMENT, "missing required container_id")
        container = self._world.containers.find(request.container_id)
        if container is None:
            raise not_found(f'failed to find container "{request.container_id}" in store')
        if container.state is not WireState.RUNNING:
            raise not_running(self._world.profile, container)
        if request.tty and request.stderr:
            raise Refused(Kind.INVALID_ARGUMENT, "tty and stderr cannot both be true")
        if not (request.stdin or request.stdout or request.stderr):
            raise Refused(Kind.INVALID_ARGUMENT, "one of stdin, stdout, or stderr must be set")
        return container
