"""How long a container may take to stop, in which order containers stop, and what is said about it (pure).

Mirrors ``setTerminationGracePeriod`` and ``killContainer`` of
``pkg/kubelet/kuberuntime/kuberuntime_container.go`` and ``kuberuntime_termination_order.go`` (RST-100 to
RST-104, POD-712 to POD-719).
"""

from collections.abc import Collection, Mapping
from enum import StrEnum

from attrs import frozen

from kubelet_emu.api.types import Container, Pod, Probe
from kubelet_emu.kuberuntime.restart_rules import is_sidecar
from kubelet_emu.why import Why

__all__ = [
    "MINIMUM_GRACE_SECONDS",
    "Grace",
    "KillReason",
    "base_grace",
    "remaining_grace",
    "stopping_text",
    "termination_prerequisites",
]

MINIMUM_GRACE_SECONDS = 2
"""Floor of the timeout handed to StopContainer, and the grace of a pod that has none (RST-100, RST-102)."""


class KillReason(StrEnum):
    """Why the kubelet stops a container; internal, it only chooses the grace period (POD-714)."""

    NONE = ""
    STARTUP_PROBE = "StartupProbe"
    LIVENESS_PROBE = "LivenessProbe"
    FAILED_POST_START_HOOK = "FailedPostStartHook"
    RESTART_ALL_CONTAINERS = "RestartAllContainers"
    UNKNOWN = "Unknown"


@frozen
class Grace:
    """A grace period in whole seconds and the rules that chose it."""

    seconds: int
    why: tuple[Why, ...]


def _own_grace(probe: Probe | None) -> int | None:
    return probe.termination_grace_period_seconds if probe is not None else None


def base_grace(pod: Pod, container: Container, reason: KillReason) -> Grace:
    """The grace period before any override (RST-100, POD-713); a probe's own value may exceed the pod's."""
    about = container.name
    if pod.metadata.deletion_grace_period_seconds is not None:
        return Grace(pod.metadata.deletion_grace_period_seconds, (Why("RST-100", about),))
    if pod.spec.termination_grace_period_seconds is None:
        return Grace(MINIMUM_GRACE_SECONDS, (Why("RST-100", about), Why("RST-102", about)))
    own = None
    if reason is KillReason.STARTUP_PROBE:
        own = _own_grace(container.startup_probe)
    elif reason is KillReason.LIVENESS_PROBE:
        own = _own_grace(container.liveness_probe)
    if own is not None:
        return Grace(own, (Why("RST-100", about), Why("POD-713", about)))
    return Grace(pod.spec.termination_grace_period_seconds, (Why("RST-100", about),))


def remaining_grace(grace_seconds: int, spent_seconds: float) -> int:
    """What is left after a hook or a wait: whole seconds spent are subtracted, fractions are not
    (RST-101).
    """
    return grace_seconds - int(spent_seconds)


def stopping_text(container_name: str) -> str:
    """Event text of a kill that brings none of its own (RST-062)."""
    return f"Stopping container {container_name}"


def termination_prerequisites(pod: Pod, running: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """For each sidecar that runs, the running containers whose end it waits for (RST-104, POD-717).

    Empty without sidecars. A sidecar waits for every regular container and for the next sidecar after it in
    spec order; containers that do not run count as ended already.
    """
    sidecars = [container.name for container in pod.spec.init_containers if is_sidecar(container)]
    regular = [container.name for container in pod.spec.containers if container.name in running]
    waits: dict[str, tuple[str, ...]] = {}
    for index, name in enumerate(sidecars):
        if name not in running:
            continue
        following = sidecars[index + 1 : index + 2]
        waits[name] = (*regular, *(later for later in following if later in running))
    return waits
