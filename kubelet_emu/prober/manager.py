"""The probe manager: one task for each probe of each container.

Mirrors ``pkg/kubelet/prober/prober_manager.go`` and the loop of ``worker.go``. The decisions are in
``worker`` and ``readiness``; here are the tasks, their timers, and the map of workers that AddPod, the stops
and the status generation look at. A worker's ticks keep their phase: a probe that takes longer than a period
is followed at once by the next one, and a manual run starts a new row of ticks (PRB-05, PRB-06).
"""

import random
from collections.abc import Callable, Collection, Iterator, Mapping

import trio
from attrs import define, field, frozen

from kubelet_emu.api.types import Container, Pod, PodStatus
from kubelet_emu.bugs import AS_RELEASED, Deviations
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime.restart_rules import is_sidecar
from kubelet_emu.prober.readiness import ProbeInput, fill_started_and_ready
from kubelet_emu.prober.results import Results
from kubelet_emu.prober.runner import ProbeRunner
from kubelet_emu.prober.worker import (
    Step,
    WorkerSpec,
    WorkerState,
    after_probe,
    before_probe,
    next_tick_seconds,
    probe_of,
    start_delay_seconds,
)
from kubelet_emu.seams import PodStatusSource, ProbeKind, ProbeOutcome, ProbeUpdate, Recorder
from node_host.clock import NodeClock

__all__ = ["ProbeSeries", "ProberManager"]

_ORDER = (ProbeKind.STARTUP, ProbeKind.READINESS, ProbeKind.LIVENESS)
"""Order in which AddPod looks at the probes of one container (PRB-04)."""


@frozen
class ProbeSeries:
    """Labels of one ``prober_probe_total`` series (PRB-42); ``result`` is successful, failed or unknown."""

    probe_type: str
    result: str
    container: str
    pod: str
    namespace: str
    pod_uid: str


@frozen
class _Key:
    pod_uid: str
    container: str
    kind: ProbeKind


@define
class _Worker:
    """One running worker. ``wake`` is set by a stop or a manual trigger; both are slots of one."""

    spec: WorkerSpec
    state: WorkerState = field(factory=WorkerState)
    wake: trio.Event = field(factory=trio.Event)
    stopped: bool = False
    triggered: bool = False

    def stop(self) -> None:
        self.stopped = True
        self.wake.set()

    def trigger(self) -> None:
        self.triggered = True
        self.wake.set()


class ProberManager:
    """All probe workers of a node and their results. Implements ``kubelet_emu.seams.ProbeView``.

    Workers are tasks of ``nursery``. ``on_update`` is told each changed result (PRB-29, PRB-30); it must not
    block. ``rng`` spreads the first probes after the kubelet's start (PRB-05), which lies ``up_for_seconds``
    back.
    """

    def __init__(
        self,
        *,
        clock: NodeClock,
        rng: random.Random,
        nursery: trio.Nursery,
        statuses: PodStatusSource,
        runner: ProbeRunner,
        on_update: Callable[[ProbeUpdate], None],
        recorder: Recorder,
        gates: Gates,
        up_for_seconds: float = 0.0,
        deviations: Deviations = AS_RELEASED,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._nursery = nursery
        self._statuses = statuses
        self._runner = runner
        self._recorder = recorder
        self._gates = gates
        self._deviations = deviations
        self._results = Results(on_update)
        self._workers: dict[_Key, _Worker] = {}
        self._totals: dict[ProbeSeries, int] = {}
        self._start_ns = clock.now_ns() - round(up_for_seconds * 1e9)
        self._start_seconds = clock.elapsed_seconds() - up_for_seconds

    # Reading

    def result(self, kind: ProbeKind, container_id: str) -> ProbeOutcome | None:
        """The stored result of a container, None if there is none."""
        return self._results.result(kind, container_id)

    @property
    def totals(self) -> Mapping[ProbeSeries, int]:
        """``prober_probe_total`` of all live workers (PRB-42)."""
        return self._totals

    def workers(self, pod_uid: str) -> tuple[tuple[str, ProbeKind], ...]:
        """Container and kind of each worker of a pod, in the order they were made."""
        return tuple((key.container, key.kind) for key in self._workers if key.pod_uid == pod_uid)

    def update_pod_status(self, pod: Pod, status: PodStatus) -> PodStatus:
        """The status with ``started`` and ``ready``; pokes readiness workers that are behind (PRB-06)."""
        uid = pod.metadata.uid
        given = ProbeInput(
            results=self._results,
            has_worker=lambda name, kind: _Key(uid, name, kind) in self._workers,
            kubelet_start_ns=self._start_ns,
            gates=self._gates,
        )
        filled = fill_started_and_ready(given, pod, status)
        for name in filled.pokes:
            worker = self._workers.get(_Key(uid, name, ProbeKind.READINESS))
            if worker is not None:
                worker.trigger()
        return filled.status

    # Life and death of workers

    def add_pod(self, pod: Pod) -> None:
        """Start the workers of a pod, up to the first that exists already (PRB-04, RST-161)."""
        for container, sidecar in _probed(pod):
            for kind in _ORDER:
                probe = probe_of(container, kind)
                if probe is None:
                    continue
                key = _Key(pod.metadata.uid, container.name, kind)
                if key in self._workers:
                    return
                worker = _Worker(
                    WorkerSpec(pod=pod, container=container, kind=kind, probe=probe, sidecar=sidecar)
                )
                self._workers[key] = worker
                self._nursery.start_soon(self._run, key, worker, name=f"probe {container.name} {kind}")

    def stop_liveness_and_startup(self, pod: Pod) -> None:
        """Stop those workers of regular containers; sidecars' go on (PRB-08)."""
        for container in pod.spec.containers:
            for kind in (ProbeKind.LIVENESS, ProbeKind.STARTUP):
                self._stop(_Key(pod.metadata.uid, container.name, kind))

    def remove_pod(self, pod: Pod) -> None:
        """Stop all workers of a pod (PRB-08)."""
        for container, _ in _probed(pod):
            for kind in _ORDER:
                self._stop(_Key(pod.metadata.uid, container.name, kind))

    def clean_up_pods(self, desired_uids: Collection[str]) -> None:
        """Stop the workers of all pods but these (PRB-08)."""
        for key in list(self._workers):
            if key.pod_uid not in desired_uids:
                self._stop(key)

    def _stop(self, key: _Key) -> None:
        worker = self._workers.get(key)
        if worker is not None:
            worker.stop()

    # The task of one worker

    async def _run(self, key: _Key, worker: _Worker) -> None:
        try:
            await self._loop(worker)
        finally:
            if worker.state.container_id:
                self._results.remove(key.kind, worker.state.container_id)
            del self._workers[key]
            for series in [series for series in self._totals if _belongs(series, key)]:
                del self._totals[series]

    async def _loop(self, worker: _Worker) -> None:
        spec = worker.spec
        age = self._clock.elapsed_seconds() - self._start_seconds
        delay = start_delay_seconds(spec, kubelet_age_seconds=age, draw=self._rng.random())
        if delay:
            await self._clock.sleep(delay)
        tick = self._clock.elapsed_seconds()
        while await self._step(worker):
            due = next_tick_seconds(tick, self._clock.elapsed_seconds(), spec.period_seconds)
            if not worker.wake.is_set():
                with trio.move_on_after(max(0.0, due - self._clock.elapsed_seconds())):
                    await worker.wake.wait()
            if worker.stopped:
                return
            if worker.triggered:
                worker.triggered = False
                worker.wake = trio.Event()
                tick = self._clock.elapsed_seconds()
            else:
                tick = due

    async def _step(self, worker: _Worker) -> bool:
        """One step of PRB-12; whether the worker lives on."""
        spec = worker.spec
        status = self._statuses.get_pod_status(spec.pod.metadata.uid)
        step = before_probe(
            spec,
            worker.state,
            status,
            now_ns=self._clock.now_ns(),
            kubelet_start_ns=self._start_ns,
            gates=self._gates,
            deviations=self._deviations,
        )
        self._apply(worker, step)
        if not step.probe or status is None:
            return step.keep
        container_id = worker.state.container_id
        begun = self._clock.elapsed_seconds()
        outcome = await self._runner.run(spec, container_id=container_id, pod_ip=status.pod_ip or "")
        self._recorder.fact(
            "probe",
            pod=spec.pod.metadata.name,
            container=spec.container.name,
            probe=spec.kind.value,
            outcome=outcome.value if outcome is not None else "error",
            dt=round(self._clock.elapsed_seconds() - begun, 6),
        )
        self._count(spec, outcome)
        step = after_probe(spec, worker.state, outcome)
        self._apply(worker, step)
        return step.keep

    def _apply(self, worker: _Worker, step: Step) -> None:
        spec = worker.spec
        worker.state = step.state
        uid = spec.pod.metadata.uid
        changed: list[str] = []
        for change in step.changes:
            if change.outcome is None:
                self._results.remove(spec.kind, change.container_id)
                continue
            if self._results.result(spec.kind, change.container_id) is not change.outcome:
                changed.append(change.outcome.value)
            self._results.set(spec.kind, change.container_id, change.outcome, uid)
        if changed or not step.keep:
            self._recorder.decision(
                "prober.worker",
                spec.pod.metadata.name,
                step.why,
                inputs={"container": spec.container.name, "probe": spec.kind.value, "run": step.state.run},
                outcome={"stored": changed, "keep": step.keep, "onHold": step.state.on_hold},
            )

    def _count(self, spec: WorkerSpec, outcome: ProbeOutcome | None) -> None:
        """PRB-42; errors that are thrown away count nowhere."""
        if outcome is None:
            return
        meta = spec.pod.metadata
        series = ProbeSeries(
            probe_type=spec.kind.value.capitalize(),
            result="successful" if outcome is ProbeOutcome.SUCCESS else "failed",
            container=spec.container.name,
            pod=meta.name,
            namespace=meta.namespace,
            pod_uid=meta.uid,
        )
        self._totals[series] = self._totals.get(series, 0) + 1


def _probed(pod: Pod) -> Iterator[tuple[Container, bool]]:
    """Containers that may have probes: regular ones, then sidecars (PRB-02, PRB-04)."""
    for container in pod.spec.containers:
        yield container, False
    for container in pod.spec.init_containers:
        if is_sidecar(container):
            yield container, True


def _belongs(series: ProbeSeries, key: _Key) -> bool:
    return (
        series.pod_uid == key.pod_uid
        and series.container == key.container
        and series.probe_type == key.kind.value.capitalize()
    )
