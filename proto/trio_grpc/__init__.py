"""gRPC calls for trio: typed clients and handlers over two transports with the same meaning.

``MemoryChannel``/``MemoryServer`` carry the encoded messages inside one trio run;
``UnixChannel``/``UnixServer`` carry them over a unix socket with grpcio, to real peers too.
``trio_grpc.services`` has the typed clients and handler base classes of the node's contracts. Importing
this package does not import grpcio; the first socket does.
"""

from trio_grpc.channel import CallHook, CallRecord, Channel, ItemStream
from trio_grpc.codes import Code, StatusError
from trio_grpc.memory import MemoryChannel, MemoryServer, MemorySockets
from trio_grpc.method import Call, Handler, Method, Service
from trio_grpc.transport import MemoryTransport, Server, Transport, UnixTransport
from trio_grpc.unix_client import UnixChannel
from trio_grpc.unix_server import UnixServer

__all__ = [
    "Call",
    "CallHook",
    "CallRecord",
    "Channel",
    "Code",
    "Handler",
    "ItemStream",
    "MemoryChannel",
    "MemoryServer",
    "MemorySockets",
    "MemoryTransport",
    "Method",
    "Server",
    "Service",
    "StatusError",
    "Transport",
    "UnixChannel",
    "UnixServer",
    "UnixTransport",
]
