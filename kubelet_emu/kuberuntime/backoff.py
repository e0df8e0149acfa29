"""Back-off of container restarts and image pulls: a pure value machine and a small table around it (pure).

Mirrors ``staging/src/k8s.io/client-go/util/flowcontrol/backoff.go`` and ``doBackOff``, ``GetBackoffKey``
and ``newCrashLoopBackOff`` of the kubelet (RST-110 to RST-119, IMG-13 to IMG-15). All times are unix
nanoseconds of the node's clock; nothing here reads a clock.
"""

from collections.abc import Mapping

from attrs import field, frozen

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import Container, Pod
from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime.gotext import format_pod, go_duration
from kubelet_emu.why import Why

__all__ = [
    "EXPIRY_NS",
    "BackOffDecision",
    "BackOffEntry",
    "BackOffLimits",
    "BackOffTable",
    "advance",
    "backoff_event_text",
    "backoff_key",
    "backoff_status_text",
    "crash_loop_limits",
    "image_pull_limits",
    "in_backoff_since",
    "in_backoff_since_update",
]

_SECOND_NS = 1_000_000_000
EXPIRY_NS = 600 * _SECOND_NS
"""An entry that was not advanced for longer than this counts as absent, whatever the cap (RST-112)."""
_DEFAULT_INITIAL_NS = 10 * _SECOND_NS
_DEFAULT_CAP_NS = 300 * _SECOND_NS
_REDUCED_INITIAL_NS = 1 * _SECOND_NS
_REDUCED_CAP_NS = 60 * _SECOND_NS


@frozen
class BackOffLimits:
    """First delay, greatest delay and life of an entry, in nanoseconds (RST-110, RST-112)."""

    initial_ns: int = _DEFAULT_INITIAL_NS
    cap_ns: int = _DEFAULT_CAP_NS
    expiry_ns: int = EXPIRY_NS


@frozen
class BackOffEntry:
    """What is remembered of one key: the delay now in force and the moment it was set."""

    delay_ns: int
    last_update_ns: int


@frozen
class BackOffDecision:
    """Outcome of the question "may it start now?".

    ``entry`` is the entry afterwards (unchanged while backing off); ``until_ns`` the end of the wait, only
    while backing off.
    """

    in_backoff: bool
    entry: BackOffEntry | None
    until_ns: int | None
    why: tuple[Why, ...]


def crash_loop_limits(cap_seconds: float, gates: Gates) -> BackOffLimits:
    """Limits of the crash-loop back-off from the configured cap and the gates (RST-110).

    Raises ``CallerError`` for a cap outside 1 s to 300 s.
    """
    initial_ns, cap_ns = _DEFAULT_INITIAL_NS, _DEFAULT_CAP_NS
    if gates.enabled("ReduceDefaultCrashLoopBackOffDecay"):
        initial_ns, cap_ns = _REDUCED_INITIAL_NS, _REDUCED_CAP_NS
    if gates.enabled("KubeletCrashLoopBackOffMax"):
        if not 1.0 <= cap_seconds <= 300.0:
            raise CallerError(
                [
                    Problem(
                        f"invalid value {cap_seconds:g}s",
                        path="crashLoopBackOff.maxContainerRestartPeriod",
                        hint="give a duration from 1s to 300s",
                    )
                ]
            )
        cap_ns = round(cap_seconds * _SECOND_NS)
        initial_ns = min(initial_ns, cap_ns)
    return BackOffLimits(initial_ns, cap_ns)


def image_pull_limits() -> BackOffLimits:
    """Limits of the image pull back-off (IMG-14)."""
    return BackOffLimits()


def _expired(entry: BackOffEntry, event_ns: int, limits: BackOffLimits) -> bool:
    return event_ns - entry.last_update_ns > limits.expiry_ns


def in_backoff_since(entry: BackOffEntry | None, event_ns: int, now_ns: int, limits: BackOffLimits) -> bool:
    """Whether less than the delay has passed between the event (an exit) and now (RST-112)."""
    if entry is None or _expired(entry, event_ns, limits):
        return False
    return now_ns - event_ns < entry.delay_ns


def in_backoff_since_update(entry: BackOffEntry | None, now_ns: int, limits: BackOffLimits) -> bool:
    """Whether less than the delay has passed since the entry was advanced (IMG-14)."""
    if entry is None or _expired(entry, now_ns, limits):
        return False
    return now_ns - entry.last_update_ns < entry.delay_ns


def advance(entry: BackOffEntry | None, event_ns: int, now_ns: int, limits: BackOffLimits) -> BackOffEntry:
    """The entry after one more start or failure: initial delay, or twice the old one up to the cap
    (RST-113).
    """
    if entry is None or _expired(entry, event_ns, limits):
        return BackOffEntry(limits.initial_ns, now_ns)
    return BackOffEntry(min(2 * entry.delay_ns, limits.cap_ns), now_ns)


def _no_entries() -> dict[str, BackOffEntry]:
    return {}


@frozen
class BackOffTable:
    """The entries of one back-off by key; housekeeping drops the old ones, which bounds it (RST-119)."""

    limits: BackOffLimits = field(factory=BackOffLimits)
    entries: dict[str, BackOffEntry] = field(factory=_no_entries)

    def check_start(
        self, key: str, exited_at_ns: int | None, now_ns: int, about: str = ""
    ) -> BackOffDecision:
        """Ask for a start of a container whose newest Exited instance ended then; advances if it may
        (RST-111).

        Without an Exited instance it starts at once and its entry is left as it is.
        """
        entry = self.entries.get(key)
        if exited_at_ns is None:
            return BackOffDecision(False, entry, None, (Why("RST-111", about),))
        if entry is not None and in_backoff_since(entry, exited_at_ns, now_ns, self.limits):
            until_ns = exited_at_ns + entry.delay_ns
            return BackOffDecision(True, entry, until_ns, (Why("RST-111", about), Why("RST-112", about)))
        after = advance(entry, exited_at_ns, now_ns, self.limits)
        self.entries[key] = after
        return BackOffDecision(False, after, None, (Why("RST-111", about), Why("RST-113", about)))

    def failed(self, key: str, now_ns: int) -> BackOffEntry:
        """Note one more failure at this moment (IMG-14)."""
        after = advance(self.entries.get(key), now_ns, now_ns, self.limits)
        self.entries[key] = after
        return after

    def waiting(self, key: str, now_ns: int) -> bool:
        """Whether the key is still within its delay since the last failure (IMG-14)."""
        return in_backoff_since_update(self.entries.get(key), now_ns, self.limits)

    def collect(self, now_ns: int) -> tuple[str, ...]:
        """Drop the entries that were not advanced for longer than the expiry; returns their keys
        (RST-119).
        """
        old = tuple(key for key, entry in self.entries.items() if _expired(entry, now_ns, self.limits))
        for key in old:
            del self.entries[key]
        return old


def _amounts_text(amounts: Mapping[str, Quantity]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def backoff_key(pod: Pod, container: Container) -> str:
    """Identity of a container for its back-off: pod identity, name, image and resources (RST-116).

    The kubelet hashes the same fields; the hash is never shown, so the joined text itself serves.
    """
    wanted = container.resources
    claims = ",".join(f"{claim.name}:{claim.request or ''}" for claim in wanted.claims)
    resources = f"{_amounts_text(wanted.limits)};{_amounts_text(wanted.requests)};{claims}"
    meta = pod.metadata
    return "/".join((meta.name, meta.namespace, meta.uid, container.name, container.image, resources))


def backoff_status_text(delay_ns: int, pod: Pod, container: str) -> str:
    """Waiting message of a start that met its back-off (RST-117)."""
    return f"back-off {go_duration(delay_ns)} restarting failed container={container} pod={format_pod(pod)}"


def backoff_event_text(pod: Pod, container: str) -> str:
    """Event text of a start that met its back-off (RST-117)."""
    return f"Back-off restarting failed container {container} in pod {format_pod(pod)}"
