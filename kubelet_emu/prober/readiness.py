"""``started`` and ``ready`` from probe results; mirrors UpdatePodStatus of prober_manager.go (pure)."""

from collections.abc import Callable

from attrs import frozen

from kubelet_emu.api.types import Container, ContainerStatus, Pod, PodStatus
from kubelet_emu.evolving import evolve
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime.restart_rules import is_sidecar
from kubelet_emu.prober.worker import is_left_over
from kubelet_emu.seams import ProbeKind, ProbeOutcome, ProbeView

__all__ = ["Filled", "HasWorker", "ProbeInput", "fill_started_and_ready"]

HasWorker = Callable[[str, ProbeKind], bool]
"""Whether a worker exists for that container name and kind of the pod in question."""


@frozen(kw_only=True)
class ProbeInput:
    """What the prober knows about one pod."""

    results: ProbeView
    has_worker: HasWorker
    kubelet_start_ns: int
    gates: Gates

    @property
    def keeps_state(self) -> bool:
        """Whether ``started`` and ``ready`` outlive a restart of the kubelet (STA-402, STA-405)."""
        return not self.gates.enabled("ChangeContainerStatusOnKubeletRestart")


@frozen
class Filled:
    """The status filled in, and the containers whose readiness worker is to run at once (PRB-06)."""

    status: PodStatus
    pokes: tuple[str, ...] = ()


def fill_started_and_ready(given: ProbeInput, pod: Pod, status: PodStatus) -> Filled:
    """STA-401 to STA-405 for regular and init containers; ephemeral ones are left alone."""
    pokes: list[str] = []
    specs = {container.name: container for container in pod.spec.containers}
    regular = tuple(
        _fill(given, pod, specs.get(entry.name), entry, pokes) for entry in status.container_statuses
    )
    inits = {container.name: container for container in pod.spec.init_containers}
    init = tuple(
        _fill_init(given, pod, inits.get(entry.name), entry, pokes)
        for entry in status.init_container_statuses
    )
    filled = evolve(status, container_statuses=regular, init_container_statuses=init)
    return Filled(filled, tuple(pokes))


def _fill_init(
    given: ProbeInput, pod: Pod, container: Container | None, entry: ContainerStatus, pokes: list[str]
) -> ContainerStatus:
    if container is not None and is_sidecar(container):
        return _fill(given, pod, container, entry, pokes)
    entry = evolve(entry, started=_is_started(given, entry))
    end = entry.state.terminated
    return evolve(entry, ready=True) if end is not None and end.exit_code == 0 else entry


def _fill(
    given: ProbeInput, pod: Pod, container: Container | None, entry: ContainerStatus, pokes: list[str]
) -> ContainerStatus:
    started = _is_started(given, entry)
    entry = evolve(entry, started=started)
    return evolve(entry, ready=_is_ready(given, pod, container, entry, pokes)) if started else entry


def _is_started(given: ProbeInput, entry: ContainerStatus) -> bool:
    """STA-401, PRB-31."""
    if entry.state.running is None:
        return False
    result = given.results.result(ProbeKind.STARTUP, entry.container_id or "")
    if result is not None:
        return result is ProbeOutcome.SUCCESS
    if given.keeps_state and entry.started:
        return True
    return not given.has_worker(entry.name, ProbeKind.STARTUP)


def _is_ready(
    given: ProbeInput, pod: Pod, container: Container | None, entry: ContainerStatus, pokes: list[str]
) -> bool:
    """STA-403, STA-405 for a container that has started."""
    result = given.results.result(ProbeKind.READINESS, entry.container_id or "")
    if result is ProbeOutcome.SUCCESS:
        return True
    has_worker = given.has_worker(entry.name, ProbeKind.READINESS)
    if has_worker:
        pokes.append(entry.name)
    ready = not has_worker
    if given.keeps_state and is_left_over(entry, given.kubelet_start_ns):
        ready = ready or result is None
        if container is not None and container.readiness_probe is not None and not _was_ready(pod):
            ready = False
    return ready


def _was_ready(pod: Pod) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
