"""The step of a probe worker; mirrors pkg/kubelet/prober/worker.go (pure).

A step is cut in two by the probe itself: :func:`before_probe` looks at the cached status and says whether to
probe now (rows 1 to 10 of PRB-12), :func:`after_probe` takes the outcome (rows 11 to 15). Both give the next
state, what to do with the results cache, and whether the worker lives on.

The captured pod and container never change during a worker's life (PRB-03), so neither do thresholds.
"""

from typing import Final

from attrs import evolve, frozen

from kubelet_emu.api.types import Container, ContainerStatus, Pod, PodStatus, Probe
from kubelet_emu.bugs import AS_RELEASED, CRASHED_BESIDE_SIDECAR, STARTUP_WORKER_ENDS, Deviations
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime.restart_rules import is_sidecar, should_all_containers_restart, should_restart
from kubelet_emu.seams import ProbeKind, ProbeOutcome
from kubelet_emu.why import Why

__all__ = [
    "INITIAL_OUTCOMES",
    "RESTART_GRACE_SECONDS",
    "ResultChange",
    "Step",
    "WorkerSpec",
    "WorkerState",
    "after_probe",
    "before_probe",
    "next_tick_seconds",
    "probe_of",
    "start_delay_seconds",
]

INITIAL_OUTCOMES: Final = {
    ProbeKind.READINESS: ProbeOutcome.FAILURE,
    ProbeKind.LIVENESS: ProbeOutcome.SUCCESS,
    ProbeKind.STARTUP: ProbeOutcome.UNKNOWN,
}
"""What counts until the first probe of a container has spoken (PRB-09)."""

RESTART_GRACE_SECONDS: Final = 10
"""A container that started this long before the kubelet counts as left over from before (PRB-10)."""

_NS: Final = 1_000_000_000


def probe_of(container: Container, kind: ProbeKind) -> Probe | None:
    """The container's probe of that kind."""
    if kind is ProbeKind.LIVENESS:
        return container.liveness_probe
    return container.readiness_probe if kind is ProbeKind.READINESS else container.startup_probe


@frozen(kw_only=True)
class WorkerSpec:
    """What a worker was made with. Defaults of absent fields are those of PRB-01."""

    pod: Pod
    container: Container
    kind: ProbeKind
    probe: Probe
    sidecar: bool = False
    """Whether the container stands among the init containers."""

    @property
    def period_seconds(self) -> int:
        return self.probe.period_seconds or 10

    @property
    def timeout_seconds(self) -> int:
        return self.probe.timeout_seconds or 1

    @property
    def failure_threshold(self) -> int:
        return self.probe.failure_threshold or 3

    @property
    def success_threshold(self) -> int:
        return self.probe.success_threshold or 1

    @property
    def initial_delay_seconds(self) -> int:
        return self.probe.initial_delay_seconds or 0


@frozen(kw_only=True)
class WorkerState:
    """What a worker remembers between steps. ``container_id`` is as the status shows it."""

    container_id: str = ""
    on_hold: bool = False
    last_outcome: ProbeOutcome | None = None
    run: int = 0


@frozen
class ResultChange:
    """One change of the results cache; ``outcome`` None removes the container's result."""

    container_id: str
    outcome: ProbeOutcome | None


@frozen(kw_only=True)
class Step:
    """Outcome of half a step: ``keep`` is false if the worker ends, ``probe`` true if it is to probe now."""

    state: WorkerState
    keep: bool = True
    probe: bool = False
    changes: tuple[ResultChange, ...] = ()
    container: ContainerStatus | None = None
    why: tuple[Why, ...] = ()


def before_probe(
    spec: WorkerSpec,
    state: WorkerState,
    status: PodStatus | None,
    *,
    now_ns: int,
    kubelet_start_ns: int,
    gates: Gates,
    deviations: Deviations = AS_RELEASED,
) -> Step:
    """Rows 1 to 10 of PRB-12. ``status`` is the status manager's, None if it has none."""
    if status is None:
        return Step(state=state, why=_row(1, spec))
    if status.phase in ("Failed", "Succeeded"):
        return Step(state=state, keep=False, why=_row(2, spec))
    found = _container_status(status, spec.container.name)
    if found is None:
        return Step(state=state, why=_row(3, spec))
    container_id = found.container_id or ""
    changes: list[ResultChange] = []
    if state.container_id != container_id:
        changes = _on_new_container(
            spec, state, found, kubelet_start_ns=kubelet_start_ns, gates=gates, deviations=deviations
        )
        state = evolve(state, container_id=container_id, on_hold=False)
    if state.on_hold:
        return Step(state=state, changes=tuple(changes), why=_row(5, spec))
    if found.state.running is None:
        changes.append(ResultChange(container_id, ProbeOutcome.FAILURE))
        keep = _survives(spec, found, status, gates, deviations)
        return Step(state=state, keep=keep, changes=tuple(changes), why=_row(6, spec))
    if spec.pod.metadata.deletion_timestamp is not None and spec.kind is not ProbeKind.READINESS:
        changes.append(ResultChange(container_id, ProbeOutcome.SUCCESS))
        return Step(state=state, keep=False, changes=tuple(changes), why=_row(7, spec))
    row = _reason_to_wait(spec, found, now_ns)
    return Step(
        state=state,
        probe=row == 0,
        changes=tuple(changes),
        container=found,
        why=_row(row, spec) if row else (),
    )


def _row(number: int, spec: WorkerSpec) -> tuple[Why, ...]:
    return (Why("PRB-12", f"row {number}, {spec.kind} of {spec.container.name}"),)


def _container_status(status: PodStatus, name: str) -> ContainerStatus | None:
    """The status of that name with an id, regular ones first (row 3)."""
    for entries in (status.container_statuses, status.init_container_statuses):
        found = next((entry for entry in entries if entry.name == name), None)
        if found is not None and found.container_id:
            return found
    return None


def _on_new_container(
    spec: WorkerSpec,
    state: WorkerState,
    found: ContainerStatus,
    *,
    kubelet_start_ns: int,
    gates: Gates,
    deviations: Deviations,
) -> list[ResultChange]:
    """Row 4: the old result goes, the initial one comes, but not for a left-over container (PRB-10)."""
    changes = [ResultChange(state.container_id, None)] if state.container_id else []
    container_id = found.container_id or ""
    initial = ResultChange(container_id, INITIAL_OUTCOMES[spec.kind])
    if gates.enabled("ChangeContainerStatusOnKubeletRestart"):
        return [*changes, initial]
    told = not deviations.has(CRASHED_BESIDE_SIDECAR)
    if told and spec.sidecar and spec.kind is ProbeKind.STARTUP and found.started:
        changes.append(ResultChange(container_id, ProbeOutcome.SUCCESS))
    if not is_left_over(found, kubelet_start_ns):
        changes.append(initial)
    return changes


def is_left_over(found: ContainerStatus, kubelet_start_ns: int) -> bool:
    """Whether the container has been running since well before this kubelet started (PRB-10, STA-405)."""
    running = found.state.running
    if running is None or running.started_at is None:
        return False
    return running.started_at < kubelet_start_ns - RESTART_GRACE_SECONDS * _NS


def _survives(
    spec: WorkerSpec, found: ContainerStatus, status: PodStatus, gates: Gates, deviations: Deviations
) -> bool:
    """Whether the worker goes on although its container does not run (row 6, PRB-13, RST-160)."""
    end = found.state.terminated
    if end is None:
        return True
    if deviations.has(STARTUP_WORKER_ENDS) and spec.sidecar and spec.pod.spec.restart_policy == "Never":
        return False
    if not gates.restart_rules:
        return spec.pod.spec.restart_policy != "Never" or (spec.sidecar and is_sidecar(spec.container))
    if should_restart(spec.container, spec.pod.spec, end.exit_code, gates):
        return True
    return gates.restart_all and should_all_containers_restart(spec.pod, None, status).yes


def _reason_to_wait(spec: WorkerSpec, found: ContainerStatus, now_ns: int) -> int:
    """The row of PRB-12 that holds the probe back, 0 if none does."""
    started_at = found.state.running.started_at if found.state.running is not None else None
    age_seconds = (now_ns - started_at) // _NS if started_at is not None else spec.initial_delay_seconds
    if age_seconds < spec.initial_delay_seconds:
        return 8
    if found.started and spec.kind is ProbeKind.STARTUP:
        return 9
    if not found.started and spec.kind is not ProbeKind.STARTUP:
        return 10
    return 0


def after_probe(spec: WorkerSpec, state: WorkerState, outcome: ProbeOutcome | None) -> Step:
    """Rows 11 to 15 of PRB-12. ``outcome`` None is a probe error, which changes nothing."""
    if outcome is None:
        return Step(state=state, why=_row(11, spec))
    run = state.run + 1 if state.last_outcome is outcome else 1
    state = evolve(state, last_outcome=outcome, run=run)
    threshold = spec.success_threshold if outcome is ProbeOutcome.SUCCESS else spec.failure_threshold
    if run < threshold:
        return Step(state=state, why=_row(13, spec))
    changes = (ResultChange(state.container_id, outcome),)
    fails_liveness = spec.kind is ProbeKind.LIVENESS and outcome is ProbeOutcome.FAILURE
    if fails_liveness or spec.kind is ProbeKind.STARTUP:
        # Nothing more to learn from this container; and no exec into one that is about to be killed.
        state = evolve(state, on_hold=True, run=0)
        return Step(state=state, changes=changes, why=_row(15, spec))
    return Step(state=state, changes=changes, why=_row(14, spec))


def start_delay_seconds(spec: WorkerSpec, *, kubelet_age_seconds: float, draw: float) -> float:
    """How long a new worker sleeps first; ``draw`` is a uniform number in [0, 1) (PRB-05).

    Only workers made within one period of the kubelet's start sleep, so that they do not all probe at once.
    """
    return draw * spec.period_seconds if kubelet_age_seconds < spec.period_seconds else 0.0


def next_tick_seconds(last_tick: float, now: float, period_seconds: float) -> float:
    """The tick after ``last_tick``, in phase; ticks missed during a long probe count as one (PRB-05).

    All in seconds of one clock. A result in the past is a tick that is waiting to be taken.
    """
    following = last_tick + period_seconds
    if following <= now:
        missed = int((now - last_tick) // period_seconds)
        return last_tick + missed * period_seconds
    return following
