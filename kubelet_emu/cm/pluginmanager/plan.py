"""Which plugins to register and which to let go, from the sockets there are (pure).

Mirrors ``reconciler/reconciler.go`` and the two caches of ``pkg/kubelet/pluginmanager`` (DEV-030, DEV-034).
"""

from collections.abc import Mapping, Set

from attrs import field, frozen

__all__ = ["BackOff", "Plan", "Registered", "failed", "plan"]

FIRST_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 122.0


@frozen(kw_only=True)
class Registered:
    """A plugin that a handler has taken: which socket it was, and under which name."""

    identity: str
    plugin_type: str
    name: str
    endpoint: str


@frozen
class BackOff:
    """When a socket whose last operation failed may be tried again, in node-clock seconds."""

    pause_seconds: float
    until_seconds: float


@frozen
class Plan:
    """One pass: what to let go, then what to register, both by socket path."""

    unregister: tuple[str, ...] = field(default=())
    register: tuple[str, ...] = field(default=())


def plan(
    sockets: Mapping[str, str],
    registered: Mapping[str, Registered],
    *,
    busy: Set[str] = frozenset(),
    backoffs: Mapping[str, BackOff],
    now_seconds: float,
) -> Plan:
    """Compare what is there with what is known; a socket made anew is let go first (DEV-030).

    ``sockets`` gives the identity of each socket by path; paths in ``busy`` have an operation under way.
    """

    def free(path: str) -> bool:
        waiting = backoffs.get(path)
        return path not in busy and (waiting is None or now_seconds >= waiting.until_seconds)

    gone = tuple(
        path for path, known in registered.items() if sockets.get(path) != known.identity and free(path)
    )
    # What was just let go is registered in the same pass only once its operation is over, as in a kubelet.
    new = tuple(path for path in sockets if path not in registered and free(path))
    return Plan(gone, new)


def failed(before: BackOff | None, now_seconds: float) -> BackOff:
    """The back-off after one more failure: 500 ms, doubling to 2 m 2 s (DEV-001)."""
    pause = FIRST_BACKOFF_SECONDS if before is None else min(2 * before.pause_seconds, MAX_BACKOFF_SECONDS)
    return BackOff(pause, now_seconds + pause)
