"""gRPC calls for trio: typed clients and handlers over two transports with the same meaning.

``MemoryChannel``/``MemoryServer`` carry the encoded messages inside one trio run. ``trio_grpc.services``
has the typed clients and handler base classes of the node's contracts.
"""

from trio_grpc.channel import CallHook, CallRecord, Channel, ItemStream
from trio_grpc.codes import Code, StatusError
from trio_grpc.memory import MemoryChannel, MemoryServer, MemorySockets
from trio_grpc.method import Call, Handler, Method, Service
from trio_grpc.transport import MemoryTransport, Server, Transport

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
]
