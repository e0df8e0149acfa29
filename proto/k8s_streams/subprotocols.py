"""Who speaks which protocol of a stream, and how the end of a command is told (pure).

Five channels carry a command: stdin, stdout, stderr, error, resize. With SPDY each is a stream with a header
``streamType``; with WebSocket each message starts with the channel's number. From version 4 on the error
channel ends with a JSON ``Status``; before, it has text, and nothing on success.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import IntEnum

from attrs import frozen

__all__ = [
    "PORT_FORWARD_SPDY",
    "PORT_FORWARD_TUNNEL",
    "PORT_FORWARD_WEBSOCKETS",
    "REMOTE_SPDY",
    "REMOTE_WEBSOCKETS",
    "Channel",
    "WebSocketProtocol",
    "choose",
    "failure_status",
    "internal_status",
    "parse_resize",
    "success_status",
]

REMOTE_SPDY = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
"""What a runtime takes for exec and attach over SPDY, best first (CRI-116)."""
PORT_FORWARD_SPDY = ("portforward.k8s.io",)
PORT_FORWARD_TUNNEL = "SPDY/3.1+portforward.k8s.io"
"""SPDY inside the binary messages of a WebSocket."""

MAX_RESIZE_BYTES = 4096


class Channel(IntEnum):
    """The number of a channel over WebSocket."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4
    CLOSE = 255
    """Version 5: its message names the channel that ends."""


@frozen
class WebSocketProtocol:
    """What a WebSocket subprotocol means. The name is empty where the client named none."""

    name: str
    version: int
    base64: bool = False


_V5 = WebSocketProtocol("v5.channel.k8s.io", 5)
_V4 = WebSocketProtocol("v4.channel.k8s.io", 4)
_V4_BASE64 = WebSocketProtocol("v4.base64.channel.k8s.io", 4, base64=True)
_V1 = WebSocketProtocol("channel.k8s.io", 1)
_V1_BASE64 = WebSocketProtocol("base64.channel.k8s.io", 1, base64=True)
_NONE = WebSocketProtocol("", 1)

REMOTE_WEBSOCKETS = (_V5, _V4, _V4_BASE64, _V1, _V1_BASE64, _NONE)
"""What is taken for exec and attach over WebSocket, best first (CRI-119)."""
PORT_FORWARD_WEBSOCKETS = (_V4, _V4_BASE64, _NONE)


def choose(known: Sequence[str], offered: Iterable[str]) -> str | None:
    """The first of the client's protocols that is known; None if there is none."""
    return next((name for name in offered if name in known), None)


def success_status() -> bytes:
    """The command ended with 0."""
    return _json({"metadata": {}, "status": "Success"})


def failure_status(exit_code: int) -> bytes:
    """The command ended with another exit code (CRI-118)."""
    return _json(
        {
            "metadata": {},
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: exit status {exit_code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
        }
    )


def internal_status(problem: str, what: str = "executing command in container") -> bytes:
    """The command could not be run (CRI-118)."""
    return _json(
        {
            "metadata": {},
            "status": "Failure",
            "message": f"Internal error occurred: error {what}: {problem}",
            "reason": "InternalError",
            "details": {"causes": [{"message": f"error {what}: {problem}"}]},
            "code": 500,
        }
    )


def parse_resize(line: bytes) -> tuple[int, int] | None:
    """Columns and rows of a resize message ``{"Width":w,"Height":h}``; None if it is not one."""
    try:
        found = json.loads(line)
        columns, rows = int(found["Width"]), int(found["Height"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return (columns, rows) if 0 < columns < 65536 and 0 < rows < 65536 else None


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
