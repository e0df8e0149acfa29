"""The state machines as graphs, taken from the code that runs (pure).

Where the code has a table, its entries are the edges. Where it decides by functions, the functions are asked:
every event in every state that can be reached. So a picture cannot say what the code does not do.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from attrs import evolve, frozen

from cri_fake.store import containers, sandboxes
from cri_fake.store.faults import Refusal
from kubelet_emu.api.types import (
    Container,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    Probe,
)
from kubelet_emu.cm.devicemanager.constants import STOP_GRACE_SECONDS
from kubelet_emu.cm.devicemanager.state import Device, DeviceState, Endpoint
from kubelet_emu.container.runtime import (
    ContainerState,
    RuntimeContainer,
    RuntimePodStatus,
    RuntimeSandbox,
    SandboxState,
)
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime.actions import compute_pod_actions
from kubelet_emu.kuberuntime.backoff import BackOffEntry, BackOffTable
from kubelet_emu.kuberuntime.labels import container_hash
from kubelet_emu.kuberuntime.restart_rules import should_all_containers_restart
from kubelet_emu.pod_update import UpdateType
from kubelet_emu.podworkers import machine as workers
from kubelet_emu.podworkers.record import SyncError, UpdatePodOptions, WorkersState
from kubelet_emu.prober import worker as prober
from kubelet_emu.seams import ProbeKind, ProbeOutcome
from kubelet_emu.status.conditions import all_containers_restarting

__all__ = ["MACHINES", "Edge", "Machine", "machine"]

STATES_MAX = 500
"""Values that an exploration may visit; every machine here has far fewer."""
_NS = 1_000_000_000
Value = TypeVar("Value")


@frozen
class Edge:
    """One way from a state to another (or the same): on what, and by which rules."""

    source: str
    label: str
    target: str


@frozen
class Machine:
    """A state machine: its states in reading order, and its edges."""

    name: str
    title: str
    states: tuple[str, ...]
    edges: tuple[Edge, ...]


def _made(name: str, title: str, edges: Iterable[Edge], *first: str) -> Machine:
    """Machine of edges, each once: the states named first, then the others in order of first reach."""
    kept = tuple(dict.fromkeys(edges))
    states = list(first)
    for edge in kept:
        states += [state for state in (edge.source, edge.target) if state not in states]
    return Machine(name, title, tuple(states), kept)


def _explored(
    start: Value, state: Callable[[Value], str], events: Mapping[str, Callable[[Value], Value | None]]
) -> list[Edge]:
    """Every event in every value that can be reached; None means that it cannot happen there."""
    edges: list[Edge] = []
    seen: list[Value] = [start]
    for value in seen:
        for label, event in events.items():
            after = event(value)
            if after is None:
                continue
            edges.append(Edge(state(value), label, state(after)))
            if after not in seen and len(seen) < STATES_MAX:
                seen.append(after)
    return edges


# -- the runtime's tables --


def _sandbox() -> Machine:
    edges: list[Edge] = []
    for phase, row in sandboxes.TRANSITIONS.items():
        for event, entry in row.items():
            if isinstance(entry, sandboxes.Phase):
                edges.append(Edge(str(phase), str(event), str(entry)))
            elif isinstance(entry, Refusal):
                edges.append(Edge(str(phase), f"{event}: refused ({entry.rule})", str(phase)))
    return _made("sandbox", "A sandbox in the runtime", edges, "ready")


def _container() -> Machine:
    edges: list[Edge] = []
    for phase, row in containers.TRANSITIONS.items():
        for event, entry in row.items():
            if isinstance(entry, containers.Phase):
                edges.append(Edge(str(phase), str(event), str(entry)))
            elif isinstance(entry, frozenset):
                edges += [Edge(str(phase), str(event), str(target)) for target in sorted(entry)]
            elif isinstance(entry, Refusal):
                edges.append(Edge(str(phase), f"{event}: refused ({entry.rule})", str(phase)))
    return _made("container", "A container instance in the runtime", edges, *map(str, containers.TRANSITIONS))


# -- the kubelet's functions --


def _pod_worker() -> Machine:
    pod = Pod(metadata=ObjectMeta(name="p", namespace="n", uid="u"), spec=PodSpec(), status=PodStatus())
    deleted = evolve(
        pod, metadata=evolve(pod.metadata, deletion_timestamp=1, deletion_grace_period_seconds=30)
    )

    def asked(kind: UpdateType, given: Pod = pod) -> Callable[[WorkersState], WorkersState | None]:
        def event(state: WorkersState) -> WorkersState | None:
            if kind is not UpdateType.CREATE and "u" not in state.records:
                return None
            options = UpdatePodOptions(type=kind, pod=given)
            step = workers.update_pod(state, options, now=1.0, cached=lambda _: None)
            return step.state

        return event

    def ran(*, terminal: bool = False, error: str = "") -> Callable[[WorkersState], WorkersState | None]:
        def event(state: WorkersState) -> WorkersState | None:
            started = workers.start_run(state, "u", now=1.0)
            work = started.work
            if work is None or (terminal and str(work.state) != "syncing"):
                return None
            failed = SyncError(error) if error else None
            finish = workers.finish_run(started.state, "u", work, is_terminal=terminal, error=failed, now=1.0)
            return finish.state

        return event

    def forgotten(state: WorkersState) -> WorkersState | None:
        return workers.sync_known_pods(state, (), now=1.0).state if "u" in state.records else None

    def name(state: WorkersState) -> str:
        record = state.records.get("u")
        if record is None:
            return "unknown"
        return "finished" if record.finished else str(record.state)

    events = {
        "create": asked(UpdateType.CREATE),
        "deletion": asked(UpdateType.UPDATE, deleted),
        "kill": asked(UpdateType.KILL),
        "sync ends well": ran(),
        "sync finds a final phase": ran(terminal=True),
        "sync fails": ran(error="x"),
        "no source wants it": forgotten,
    }
    edges = _explored(WorkersState(), name, events)
    return _made("pod-worker", "A pod's worker in the kubelet", edges, "unknown")


@frozen
class _Restarting:
    """What a restart in place is decided from: the condition, and the instances of two containers."""

    condition: bool = False
    trigger: int | None = 0
    """None without an instance, 0 while it runs, else its exit code."""
    other: bool = True


def _full_restart() -> Machine:
    codes = ContainerRestartRuleOnExitCodes(operator="In", values=(42,))
    rule = ContainerRestartRule(action="RestartAllContainers", exit_codes=codes)
    trigger = Container(name="trigger", image="i", restart_policy="Never", restart_policy_rules=(rule,))
    other = Container(name="other", image="i")
    pod = Pod(metadata=ObjectMeta(name="p", uid="u"), spec=PodSpec(containers=(trigger, other)))
    gates = Gates()

    def runtime(value: _Restarting) -> RuntimePodStatus:
        found: list[RuntimeContainer] = []
        if value.trigger is not None:
            over = ContainerState.EXITED if value.trigger else ContainerState.RUNNING
            found.append(
                RuntimeContainer(
                    id="t", name="trigger", state=over, exit_code=value.trigger, hash=container_hash(trigger)
                )
            )
        if value.other:
            running = ContainerState.RUNNING
            found.append(RuntimeContainer(id="o", name="other", state=running, hash=container_hash(other)))
        sandbox = RuntimeSandbox(id="s", state=SandboxState.READY, ip="1.2.3.4")
        return RuntimePodStatus(uid="u", containers=tuple(found), sandboxes=(sandbox,))

    def sync(value: _Restarting) -> _Restarting | None:
        """One sync: status, then what the actions remove or start."""
        shown = "True" if value.condition else "False"
        old = PodStatus(conditions=(PodCondition(type="AllContainersRestarting", status=shown),))
        status = runtime(value)
        due = should_all_containers_restart(pod, status, old).yes
        made = all_containers_restarting(pod, status, "Running", restarting_all=due)
        assert made is not None
        condition = made[0].status == "True"
        actions = compute_pod_actions(pod, status, _NoProbes(), restart_all_containers=condition, gates=gates)
        after = evolve(value, condition=condition)
        if actions.to_reset:
            # One at a time, so that each step can be seen; a kubelet does all of them in one sync.
            gone = actions.to_reset[0].name
            return evolve(after, trigger=None) if gone == "trigger" else evolve(after, other=False)
        if 0 in actions.regular_to_start:
            after = evolve(after, trigger=0)
        if 1 in actions.regular_to_start:
            after = evolve(after, other=True)
        return after

    def exits(code: int) -> Callable[[_Restarting], _Restarting | None]:
        return lambda value: evolve(value, trigger=code) if value.trigger == 0 else None

    def name(value: _Restarting) -> str:
        if value.condition:
            return "resetting" if value.trigger is not None or value.other else "all removed"
        if value.trigger == 42:
            return "triggered"
        return "ended" if value.trigger else "running"

    events = {"exits with 42": exits(42), "exits with 1": exits(1), "sync": sync}
    edges = _explored(_Restarting(), name, events)
    return _made("full-restart", "A restart of the whole pod in place", edges, "running")


class _NoProbes:
    """No probe has spoken."""

    def result(self, kind: ProbeKind, container_id: str) -> ProbeOutcome | None:
        """None for every container."""
        return None


def _probe_worker() -> Machine:
    probe = Probe(failure_threshold=2, success_threshold=1)
    container = Container(name="c", liveness_probe=probe)
    pod = Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=(container,)))
    spec = prober.WorkerSpec(pod=pod, container=container, kind=ProbeKind.LIVENESS, probe=probe)

    def after(outcome: ProbeOutcome) -> Callable[[prober.WorkerState], prober.WorkerState | None]:
        def event(state: prober.WorkerState) -> prober.WorkerState | None:
            if state.on_hold:
                return None
            step = prober.after_probe(spec, state, outcome)
            return evolve(step.state, run=min(step.state.run, spec.failure_threshold))

        return event

    def restarted(state: prober.WorkerState) -> prober.WorkerState | None:
        # Row 4: another instance lifts the hold, and the counting begins anew with its first result.
        return evolve(prober.WorkerState(container_id="c://2")) if state.on_hold else None

    def name(state: prober.WorkerState) -> str:
        if state.on_hold:
            return "on hold"
        if state.last_outcome is None:
            return "new container"
        if state.last_outcome is ProbeOutcome.FAILURE:
            return f"{state.run} of {spec.failure_threshold} failures"
        return "alive"

    events = {
        "success": after(ProbeOutcome.SUCCESS),
        "failure": after(ProbeOutcome.FAILURE),
        "new instance": restarted,
    }
    edges = _explored(prober.WorkerState(container_id="c://2"), name, events)
    return _made(
        "probe-worker", "A worker of a liveness probe with failureThreshold 2", edges, "new container"
    )


def _plugin_endpoint() -> Machine:
    """States by name; each is reached by a shortest list of what happened, which is done again from there."""
    steps: Mapping[str, Callable[[DeviceState], object]] = {
        "registers": lambda state: state.connected("r", Endpoint(path="p", connection=1)),
        "lists healthy": lambda state: state.listed("r", [Device("d")]),
        "lists unhealthy": lambda state: state.listed("r", [Device("d", "Unhealthy")]),
        "stream ends": lambda state: state.disconnected("r", 0.0),
        "5 min pass": lambda state: state.capacity(STOP_GRACE_SECONDS + 1.0),
    }

    def rebuilt(done: tuple[str, ...]) -> DeviceState:
        state = DeviceState()
        for label in done:
            steps[label](state)
        return state

    def name(state: DeviceState) -> str:
        endpoint = state.endpoints.get("r")
        if endpoint is None:
            return "expired" if state.devices else "unknown"
        if endpoint.stopped:
            return "gone" if state.devices else "gone, never listed"
        if "r" not in state.healthy:
            return "registered"
        return "healthy" if state.healthy["r"] else "unhealthy"

    def possible(state: DeviceState, label: str) -> bool:
        endpoint = state.endpoints.get("r")
        live = endpoint is not None and not endpoint.stopped
        if label == "registers":
            return not live
        return name(state).startswith("gone") if label == "5 min pass" else live

    edges: list[Edge] = []
    shortest: dict[str, tuple[str, ...]] = {"unknown": ()}
    queue = ["unknown"]
    for source in queue:
        for label in steps:
            if not possible(rebuilt(shortest[source]), label):
                continue
            done = (*shortest[source], label)
            target = name(rebuilt(done))
            edges.append(Edge(source, label, target))
            if target not in shortest:
                shortest[target] = done
                queue.append(target)
    return _made("plugin-endpoint", "The plugin of a resource in the device manager", edges, "unknown")


def _back_off() -> Machine:
    def start(value: BackOffEntry | None, waited_seconds: float) -> tuple[bool, BackOffEntry | None]:
        table = BackOffTable(entries={} if value is None else {"k": evolve(value, last_update_ns=0)})
        decision = table.check_start("k", 0, round(waited_seconds * _NS))
        entry = decision.entry
        return decision.in_backoff, None if entry is None else evolve(entry, last_update_ns=0)

    def name(value: BackOffEntry | None) -> str:
        return "no delay" if value is None else f"{value.delay_ns // _NS} s"

    def over(value: BackOffEntry | None) -> BackOffEntry | None:
        delay = value.delay_ns / _NS if value is not None else 0.0
        waits, after = start(value, delay)
        assert not waits
        return after

    def quiet(value: BackOffEntry | None) -> BackOffEntry | None:
        table = BackOffTable(entries={} if value is None else {"k": evolve(value, last_update_ns=0)})
        entry = table.check_start("k", 601 * _NS, 601 * _NS).entry
        return None if value is None or entry is None else evolve(entry, last_update_ns=0)

    edges: list[Edge] = []
    value: BackOffEntry | None = None
    for _ in range(STATES_MAX):
        after = over(value)
        edges.append(Edge(name(value), "exits, delay over: starts", name(after)))
        if value is not None:
            assert start(value, value.delay_ns / _NS - 1.0)[0]
            edges.append(Edge(name(value), "exits, delay not over: waits", name(value)))
            edges.append(Edge(name(value), "exits after 10 min: starts", name(quiet(value))))
        if after == value:
            break
        value = after
    return _made("back-off", "Back-off of a container", edges, "no delay")


MACHINES: Mapping[str, Callable[[], Machine]] = {
    "sandbox": _sandbox,
    "container": _container,
    "pod-worker": _pod_worker,
    "full-restart": _full_restart,
    "probe-worker": _probe_worker,
    "plugin-endpoint": _plugin_endpoint,
    "back-off": _back_off,
}
"""Every machine by name."""


def machine(name: str) -> Machine:
    """The machine of that name; ``KeyError`` if there is none."""
    return MACHINES[name]()
