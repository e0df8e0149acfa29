"""Termination messages: where they are read from and how they are put together (pure).

Mirrors ``getTerminationMessage`` and ``convertToKubeContainerStatus`` of
``pkg/kubelet/kuberuntime/kuberuntime_container.go`` (RST-195 to RST-198, LOG-04, LOG-12). The shell reads
the files; this module says which one, and what of it counts.
"""

from attrs import frozen

from kubelet_emu.container.runtime import ContainerState, RuntimeMount

__all__ = [
    "LOG_LINES",
    "LOG_TEXT_BYTES",
    "MESSAGE_BYTES",
    "MessageSources",
    "compose_message",
    "file_error_text",
    "log_error_text",
    "message_sources",
    "tail_of_file",
    "tail_of_log",
]

MESSAGE_BYTES = 4096
"""Bytes of the termination file that count, from its end (RST-196)."""
LOG_LINES = 80
LOG_TEXT_BYTES = 2048
_FALLBACK = "FallbackToLogsOnError"


@frozen(kw_only=True)
class MessageSources:
    """Where the text of an Exited instance is to be looked for; an empty ``file`` means there is none.

    ``log`` is true where the log stands in if the file gave nothing.
    """

    file: str
    log: bool


def message_sources(
    *,
    state: ContainerState,
    exit_code: int,
    reason: str,
    path: str,
    policy: str,
    mounts: tuple[RuntimeMount, ...],
) -> MessageSources | None:
    """The sources of an instance's message, None if it has not exited (RST-196, RST-197)."""
    if state is not ContainerState.EXITED:
        return None
    host_path = next((mount.host_path for mount in mounts if path and mount.container_path == path), "")
    fallback = policy == _FALLBACK and exit_code != 0 and reason != "ContainerCannotRun"
    return MessageSources(file=host_path, log=fallback)


def tail_of_file(data: bytes) -> str:
    """The part of a termination file that counts."""
    return data[-MESSAGE_BYTES:].decode(errors="replace")


def file_error_text(path: str, error: str) -> str:
    """Stands for the message of a file that exists but cannot be read."""
    return f"Error on reading termination log {path}: {error}"


def log_error_text(error: str) -> str:
    """Stands for the message of a log that cannot be read."""
    return f"Error on reading termination message from logs: {error}"


def _content(line: bytes) -> bytes | None:
    """What the program wrote of one CRI log line; None for a line that is not one."""
    parts = line.split(b" ", 3)
    if len(parts) < 4 or parts[1] not in (b"stdout", b"stderr"):
        return None
    partial = parts[2].split(b":")[0] == b"P"
    return parts[3] if partial else parts[3] + b"\n"


def tail_of_log(data: bytes) -> str:
    """The last 80 lines of a CRI log, at most 2048 bytes of what they say (RST-197, LOG-04).

    Raises ``ValueError`` if the first line is not a CRI log line; later bad lines are skipped.
    """
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    lines = lines[-LOG_LINES:]
    if lines and _content(lines[0]) is None:
        raise ValueError(f"failed to get parse function: unsupported log format: {lines[0]!r}")
    texts = (_content(line) for line in lines)
    text = b"".join(text for text in texts if text is not None)
    return text[-LOG_TEXT_BYTES:].decode(errors="replace")


def compose_message(runtime_message: str, text: str) -> str:
    """The runtime's own message and the program's, joined by ``: `` if both are there (RST-198, STA-314)."""
    return f"{runtime_message}: {text}" if runtime_message and text else runtime_message or text
