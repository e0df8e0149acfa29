"""What the runtime tells whoever assembled it: facts about processes, images and the daemon itself (pure).

These are not part of CRI; the trace of a run is made from them.
"""

from collections.abc import Callable

from attrs import frozen

__all__ = ["DaemonChanged", "InstanceExited", "InstanceStarted", "Observer", "RuntimeFact", "SandboxDied"]


@frozen(kw_only=True)
class InstanceStarted:
    """The main process of a container runs. ``opaque``: its program is not known to the emulation."""

    pod: str
    namespace: str
    container: str
    instance: int
    container_id: str
    argv: tuple[str, ...]
    opaque: bool
    at_ns: int


@frozen(kw_only=True)
class InstanceExited:
    """The main process of a container has ended. ``signal`` is 0 unless a signal ended it."""

    pod: str
    namespace: str
    container: str
    instance: int
    container_id: str
    exit_code: int
    signal: int
    reason: str
    oom_killed: bool
    at_ns: int


@frozen(kw_only=True)
class SandboxDied:
    """A sandbox's own process ended though nobody had asked for it through the kubelet."""

    pod: str
    namespace: str
    sandbox_id: str
    at_ns: int


@frozen(kw_only=True)
class DaemonChanged:
    """The runtime daemon went down or came up; containers run on meanwhile."""

    up: bool
    at_ns: int


RuntimeFact = InstanceStarted | InstanceExited | SandboxDied | DaemonChanged
Observer = Callable[[RuntimeFact], None]
"""Takes facts as they happen. Must not block and must not raise."""
