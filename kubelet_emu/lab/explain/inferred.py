"""Decisions of a real kubelet, inferred from what a recording shows of it (pure).

A recording holds calls, snapshots and events, but no decisions. Wherever the recorded kubelet begins to act
on a pod, what the runtime showed at that moment is put to the same pure functions that the emulated kubelet
asks, and their answer becomes a decision record with ``inferred``: true. What the kubelet then did stands
beside it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from kubelet_emu.api.codec import pod_from_json
from kubelet_emu.api.types import Container, Pod
from kubelet_emu.container.runtime import (
    ContainerState,
    RuntimeContainer,
    RuntimePodStatus,
    RuntimeSandbox,
    SandboxState,
)
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime.action_types import PodActions
from kubelet_emu.kuberuntime.actions import compute_pod_actions
from kubelet_emu.kuberuntime.backoff import BackOffTable, backoff_key
from kubelet_emu.kuberuntime.grace import KillReason, base_grace
from kubelet_emu.kuberuntime.labels import container_hash
from kubelet_emu.kuberuntime.restart_rules import should_all_containers_restart
from kubelet_emu.lab.explain.kubectl import pod_object
from kubelet_emu.lab.explain.reading import PodReading, Reading
from kubelet_emu.seams import ProbeKind, ProbeOutcome
from kubelet_emu.trace.schema import Record
from kubelet_emu.why import Why

__all__ = ["infer_decisions"]

_ACTING = frozenset(
    {"RunPodSandbox", "StopPodSandbox", "CreateContainer", "StopContainer", "RemoveContainer"}
)
_NS = 1_000_000_000
_KILL_EVENT_SECONDS = 1.0
"""A Killing event follows the call that stops a container within this time."""


def infer_decisions(reading: Reading) -> list[Record]:
    """The records of a recording with the inferred decisions among them, in order of time."""
    found: list[tuple[float, int, Record]] = [
        (record["t"], 1, record) for record in reading.records if record["t"] >= 0
    ]
    for pod in reading.pods.values():
        if pod.spec.get("containers"):
            found += [(record["t"], 0, record) for record in _Inference(reading, pod).run()]
    return [record for _, _, record in sorted(found, key=lambda item: item[:2])]


@define
class _Plan:
    """What an inferred decision said and the kubelet has not done yet."""

    starts: set[str] = field(factory=set[str])
    kills: set[str] = field(factory=set[str])
    resets: set[str] = field(factory=set[str])
    sandbox: bool = False
    kill_pod: bool = False


class _Probes:
    """Probe results as the event of the kill that follows tells them."""

    def __init__(self) -> None:
        self.failed: dict[tuple[str, str], ProbeOutcome] = {}
        self.started: set[str] = set()

    def result(self, kind: ProbeKind, container_id: str) -> ProbeOutcome | None:
        """Failure where a kill names it, else success, so that nothing is held back that was not."""
        return self.failed.get((kind.value, container_id), ProbeOutcome.SUCCESS)


class _Inference:
    """Goes through one pod's records and asks, at each beginning of an action, what was decided."""

    def __init__(self, reading: Reading, pod: PodReading) -> None:
        self._pod = pod
        self._records = [r for r in reading.records if r.get("pod", pod.name) == pod.name and r["t"] >= 0]
        self._gates = Gates(dict(reading.trace.header.get("gates") or {}))
        self._object = pod_from_json(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": pod.name, "uid": pod.name},
                "spec": pod.spec,
            }
        )
        self._backoff = BackOffTable()
        self._plan = _Plan()
        self._deleting: int | None = None
        self._found: list[Record] = []

    def run(self) -> list[Record]:
        """The inferred decisions of this pod."""
        for record in sorted(self._records, key=lambda r: r["t"]):
            if record["k"] == "pod" and "deleting" in record:
                self._deleting = record["deleting"]
            elif record["k"] == "event" and record["reason"] == "BackOff":
                self._waits(record)
            elif record["k"] == "cri" and record["m"] in _ACTING:
                self._acts(record)
        return self._found

    # -- what the runtime showed --

    def _status(self, t: float) -> RuntimePodStatus:
        containers: list[RuntimeContainer] = []
        for one in reversed(self._pod.instances):
            if one.created >= t or (one.removed is not None and one.removed < t):
                continue
            ended = one.ended is not None and one.ended <= t
            state = ContainerState.EXITED if ended else ContainerState.RUNNING
            if one.started is None and not ended:
                state = ContainerState.CREATED
            spec = self._container(one.container)
            containers.append(
                RuntimeContainer(
                    id=one.label,
                    name=one.container,
                    state=state,
                    finished_at_ns=round((one.ended or 0.0) * _NS),
                    exit_code=(one.code or 0) if ended else 0,
                    reason=one.reason if ended else "",
                    restart_count=one.attempt,
                    hash=container_hash(spec) if spec is not None else 0,
                )
            )
        sandboxes = [
            RuntimeSandbox(
                id=one.label,
                state=SandboxState.NOT_READY
                if one.ended is not None and one.ended <= t
                else SandboxState.READY,
                attempt=int(one.label.rpartition("#")[2] or 0),
                ip="known",
                host_network=bool(self._object.spec.host_network),
            )
            for one in reversed(self._pod.sandboxes)
            if one.ready is not None and one.ready <= t
        ]
        return RuntimePodStatus(
            uid=self._pod.name, name=self._pod.name, containers=tuple(containers), sandboxes=tuple(sandboxes)
        )

    def _container(self, name: str) -> Container | None:
        spec = self._object.spec
        every = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
        return next((one for one in every if one.name == name), None)

    # -- what was decided --

    def _acts(self, record: Record) -> None:
        name = str(record.get("container", "")).partition("#")[0]
        if self._expected(record["m"], name):
            self._start(record, name)
            return
        snapshot = self._pod.snapshot_at(record["t"])
        if self._deleting is not None or (
            snapshot is not None and snapshot["phase"] in ("Failed", "Succeeded")
        ):
            self._ends(record, name)
            return
        if record["m"] == "RemoveContainer" and not self._resetting(record["t"]):
            return  # tidying up, which no sync decides
        self._decide(record)
        self._expected(record["m"], name)
        self._start(record, name)

    def _expected(self, method: str, name: str) -> bool:
        plan = self._plan
        match method:
            case "CreateContainer" if name in plan.starts:
                plan.starts.discard(name)
            case "StopContainer" if name in plan.kills or name in plan.resets or plan.kill_pod:
                plan.kills.discard(name)
            case "RemoveContainer" if name in plan.resets:
                return True
            case "RunPodSandbox" if plan.sandbox:
                plan.sandbox = False
            case "StopPodSandbox" if plan.kill_pod:
                return True
            case _:
                return False
        return True

    def _resetting(self, t: float) -> bool:
        return bool(should_all_containers_restart(self._object, self._status(t), self._old(t)))

    def _old(self, t: float) -> Any:
        record = self._pod.snapshot_at(t)
        return pod_from_json(pod_object(record, self._pod.spec)).status if record is not None else None

    def _decide(self, record: Record) -> None:
        t: float = record["t"]
        status = self._status(t)
        probes = self._probe_failures(t)
        every = should_all_containers_restart(self._object, status, self._old(t))
        every_now = every.yes and bool(status.containers)
        actions = compute_pod_actions(
            self._object, status, probes, restart_all_containers=every_now, gates=self._gates
        )
        self._plan = self._planned(actions)
        why = (*(every.why if every_now else ()), *actions.why)
        latest = {one.name: one for one in reversed(status.containers)}
        shown = {
            one.name: f"exited:{one.exit_code}" if one.state is ContainerState.EXITED else one.state.value
            for one in sorted(latest.values(), key=lambda one: one.name)
        }
        inputs: dict[str, Any] = {
            "containers": shown,
            "sandboxes": [f"{s.attempt}:{s.state.value}" for s in status.sandboxes],
            "restartAll": every_now,
        }
        self._say(t, "kuberuntime.actions", tuple(dict.fromkeys(why)), inputs, actions.summary())

    def _planned(self, actions: PodActions) -> _Plan:
        spec = self._object.spec
        starts = {spec.init_containers[i].name for i in actions.init_to_start}
        starts |= {spec.containers[i].name for i in actions.regular_to_start}
        starts |= {spec.ephemeral_containers[i].name for i in actions.ephemeral_to_start}
        return _Plan(
            starts=starts,
            kills={kill.name for kill in actions.to_kill},
            resets={entry.name for entry in actions.to_reset},
            sandbox=actions.create_sandbox,
            kill_pod=actions.kill_pod,
        )

    def _probe_failures(self, t: float) -> _Probes:
        probes = _Probes()
        for record in self._records:
            if record["k"] != "event" or record["reason"] != "Killing":
                continue
            if not t - 0.01 <= record["t"] <= t + _KILL_EVENT_SECONDS:
                continue
            name = str(record.get("on") or "").partition("{")[2].removesuffix("}")
            running = [one for one in self._pod.of(name) if one.created < t]
            for kind in ("liveness", "startup"):
                if running and f"failed {kind} probe" in record["message"]:
                    probes.failed[kind, running[-1].label] = ProbeOutcome.FAILURE
        return probes

    def _start(self, record: Record, name: str) -> None:
        """Back-off of a start that happened, grace period of a kill."""
        spec = self._container(name)
        if spec is None:
            return
        if record["m"] == "CreateContainer":
            self._back_off(spec, record["t"])
        elif record["m"] == "StopContainer":
            self._grace(record, spec)

    def _back_off(self, spec: Container, t: float) -> None:
        exited = [one for one in self._status(t).instances(spec.name) if one.state is ContainerState.EXITED]
        if not exited:
            return
        key = backoff_key(self._object, spec)
        verdict = self._backoff.check_start(key, exited[0].finished_at_ns, round(t * _NS), spec.name)
        if verdict.in_backoff:
            # Recorded times of exits are late by up to half a second; the start shows that it was due.
            return
        delay = verdict.entry.delay_ns / _NS if verdict.entry is not None else 0.0
        since = (round(t * _NS) - exited[0].finished_at_ns) // 1_000_000
        inputs = {"container": spec.name, "sinceExitMs": since}
        self._say(t, "kuberuntime.backoff", verdict.why, inputs, {"wait": False, "delaySeconds": delay})

    def _waits(self, record: Record) -> None:
        name = str(record.get("on") or "").partition("{")[2].removesuffix("}")
        spec = self._container(name)
        entry = self._backoff.entries.get(backoff_key(self._object, spec)) if spec is not None else None
        ended = self._pod.last_end(name, record["t"])
        if entry is None or ended is None or ended.ended is None:
            return
        if not self._plan.starts:
            self._decide(record)
            self._plan.starts.discard(name)
        self._say(
            record["t"],
            "kuberuntime.backoff",
            (Why("RST-111", name), Why("RST-112", name)),
            {"container": name, "sinceExitMs": round((record["t"] - ended.ended) * 1000)},
            {"wait": True, "delaySeconds": entry.delay_ns / _NS},
        )

    def _grace(self, record: Record, spec: Container) -> None:
        pod: Pod = self._object
        reason = KillReason.RESTART_ALL_CONTAINERS if self._plan.resets else KillReason.UNKNOWN
        grace = base_grace(pod, spec, reason)
        inputs = {"container": spec.name, "reason": reason.value, "text": ""}
        asked = record.get("timeout", "")
        outcome = {"graceSeconds": int(asked) if str(asked).isdigit() else grace.seconds}
        self._say(record["t"], "kuberuntime.kill", grace.why, inputs, outcome)

    def _ends(self, record: Record, name: str) -> None:
        if not any(one["machine"] == "podworkers" for one in self._found):
            about = "deleted" if self._deleting is not None else "terminal phase"
            self._say(record["t"], "podworkers", (Why("POD-504.6", about),), {}, {"state": "terminating"})
        self._start(record, name)

    def _say(
        self,
        t: float,
        machine: str,
        why: Sequence[Why],
        inputs: Mapping[str, Any],
        outcome: Mapping[str, Any],
    ) -> None:
        self._found.append(
            {
                "t": t,
                "k": "decision",
                "machine": machine,
                "pod": self._pod.name,
                "rules": [str(reason) for reason in why],
                "inputs": dict(inputs),
                "outcome": dict(outcome),
                "inferred": True,
            }
        )
