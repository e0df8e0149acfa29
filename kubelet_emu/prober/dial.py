"""Opening a connection, with the error texts of Go's dialer (PRB-23, PRB-27)."""

import errno
from typing import Final

import trio

from kubelet_emu.prober.targets import join_host_port
from node_host.net import Net

__all__ = ["DialError", "dial"]

_TEXTS: Final = {
    errno.ECONNREFUSED: "connect: connection refused",
    errno.EHOSTUNREACH: "connect: no route to host",
    errno.ENETUNREACH: "connect: network is unreachable",
    errno.ECONNRESET: "connect: connection reset by peer",
}


class DialError(Exception):
    """Raised when no connection came about: ``dial tcp <host:port>: <cause>``."""


async def dial(net: Net, host: str, port: int) -> trio.abc.HalfCloseableStream:
    """A new connection; raises ``DialError``."""
    where = join_host_port(host, port)
    if not host:
        raise DialError(f"dial tcp {where}: connect: connection refused")
    try:
        return await net.connect(host, port)
    except OSError as error:
        code = error.errno if error.errno is not None else _errno_of(error)
        raise DialError(f"dial tcp {where}: {_TEXTS.get(code, f'connect: {error}')}") from error


def _errno_of(error: OSError) -> int:
    return errno.ECONNREFUSED if isinstance(error, ConnectionRefusedError) else 0
