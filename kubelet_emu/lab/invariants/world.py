"""What a trace says about pods, sandboxes and instances, kept up record by record (pure).

The invariants read this state; each record costs a few dictionary look-ups. Only the trace is read: the pod's
specification comes from ``create`` actions and snapshots in it, what processes did from ``process`` records
and from what the runtime answered.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from attrs import define, field, frozen

from kubelet_emu.trace.schema import Record

__all__ = ["InstanceFacts", "PodFacts", "SandboxFacts", "Step", "StepKind", "World"]

TERMINAL = ("Failed", "Succeeded")
_LISTS = (("initContainers", "init"), ("containers", "regular"), ("ephemeralContainers", "ephemeral"))


class StepKind(StrEnum):
    """What a record means for the node; a record may mean several things or none."""

    SPEC = "spec"
    SNAPSHOT = "snapshot"
    SANDBOX_RUN = "sandbox-run"
    SANDBOX_STOP = "sandbox-stop"
    SANDBOX_SEEN = "sandbox-seen"
    CREATE = "create"
    START = "start"
    EXIT = "exit"
    REMOVE = "remove"
    ADMISSION = "admission"
    ALLOCATING = "allocating"
    ALLOCATED = "allocated"
    DEVICE_CALL = "device-call"
    BOOKS_LOST = "books-lost"
    PLUGIN = "plugin"
    NODE = "node"
    KUBELET = "kubelet"
    SYNC_FAILED = "sync-failed"


@define
class SandboxFacts:
    """One sandbox: ``ready`` until it is stopped or the runtime says otherwise."""

    label: str
    ready: bool = True
    ip: str = ""
    host_network: bool = False
    id: str = ""


@define(eq=False)
class InstanceFacts:
    """One container instance, and the one of the same container before it."""

    label: str
    container: str
    sandbox: str
    previous: "InstanceFacts | None"
    image: str = ""
    started: bool = False
    running: bool = False
    exit_code: int | None = None
    exit_reason: str = ""
    exit_order: int = -1
    stop_asked: bool = False
    """The kubelet asked for its end while it ran."""
    removed: bool = False
    doubtful: bool = False
    """A call to remove it failed, which may have removed it all the same."""
    reset: bool = False
    """It was removed by a restart of all containers."""
    mounts: Mapping[str, str] | None = None


@define(eq=False)
class PodFacts:
    """One pod object, from its creation to its removal."""

    name: str
    uid: str = ""
    spec: Mapping[str, Any] | None = None
    kinds: dict[str, str] = field(factory=dict[str, str])
    """init, sidecar, regular or ephemeral, by container, in the order of the specification."""
    containers: dict[str, Mapping[str, Any]] = field(factory=dict[str, Mapping[str, Any]])
    sandboxes: dict[str, SandboxFacts] = field(factory=dict[str, SandboxFacts])
    sandbox: SandboxFacts | None = None
    latest: dict[str, InstanceFacts] = field(factory=dict[str, InstanceFacts])
    by_label: dict[str, InstanceFacts] = field(factory=dict[str, InstanceFacts])
    alive: dict[int, InstanceFacts] = field(factory=dict[int, InstanceFacts])
    """Instances that exist, ephemeral ones apart, by the order of their creation."""
    completed: set[str] = field(factory=set[str])
    """Plain init containers that have succeeded since initialisation last began."""
    begun: set[str] = field(factory=set[str])
    """Sidecars that were started since initialisation last began."""
    snapshot: Record | None = None
    before: Record | None = None
    """The snapshot before ``snapshot``."""
    deleting: bool = False
    terminal: bool = False
    acknowledgement: Record | None = None
    """What shows that termination was acknowledged: nothing may be started from then on (POD-502)."""
    triggered: bool = False
    """A restart of all containers was triggered and has not been carried out yet (RST-121)."""
    made: int = 0
    perhaps_made: set[str] = field(factory=set[str])
    """Containers with a call to create them that failed: an answer may be lost after all was done."""
    refused: bool = False
    """A kubelet has refused it."""
    started_blind: bool = False
    """The kubelet that judged it last could not see what ran when it started (DEV-113)."""

    def kind(self, container: str) -> str:
        """Kind of a container; empty if the specification is unknown."""
        return self.kinds.get(container, "")

    @property
    def acknowledged(self) -> bool:
        """Whether termination was acknowledged."""
        return self.acknowledgement is not None

    def acknowledge(self, record: Record) -> None:
        """Termination is acknowledged, as this record shows, if it was not before."""
        if self.acknowledgement is None or self.only_guessed:
            self.acknowledgement = record

    @property
    def only_guessed(self) -> bool:
        """Whether the stop of a sandbox is all that speaks for the acknowledgement, in a trace that shows the
        worker: a sync that was under way when the pod was deleted may still replace a sandbox (POD-516).
        """
        known = self.acknowledgement
        return known is not None and known.get("m") == "StopPodSandbox" and "seq" in known

    def forget_runtime(self) -> None:
        """The runtime has lost all it knew: instances may start again as if they had never been (RST-024)."""
        for known in (self.latest, self.by_label, self.alive):
            known.clear()
        self.completed.clear()
        self.begun.clear()
        for label in list(self.sandboxes):
            gone = self.sandboxes.pop(label)
            gone.ready = False
            self.sandboxes[f"{label} before {len(self.sandboxes)}"] = gone
        self.sandbox = None

    @property
    def going(self) -> bool:
        """Whether the pod is ending or has ended."""
        return self.deleting or self.terminal or self.acknowledged


@frozen
class Step:
    """One thing that happened, after the state was brought up to it."""

    kind: StepKind
    pod: PodFacts
    record: Record
    instance: InstanceFacts | None = None
    sandbox: SandboxFacts | None = None


class World:
    """All pods of a trace. Feed records in the order in which they were made (calls when they ended)."""

    def __init__(self) -> None:
        self.pods: dict[str, PodFacts] = {}
        self._nobody = PodFacts("")
        """Stands for the pod in steps that concern none."""
        self._order = 0
        self._lists_failed = False
        self._started_blind = False

    def feed(self, record: Record) -> list[Step]:
        """Take one record in; returns what it means."""
        self._order += 1
        handler = _HANDLERS.get(record["k"])
        return handler(self, record) if handler is not None else []

    def _pod(self, record: Record) -> PodFacts:
        name: str = record.get("pod", "")
        if not name and len(self.pods) == 1:  # recordings of one pod do not name it in calls
            return next(iter(self.pods.values()))
        pod = self.pods.get(name)
        if pod is None:
            pod = self.pods[name] = PodFacts(name)
        return pod

    # -- the API's side --

    def _action(self, record: Record) -> list[Step]:
        given = record.get("object")
        forgets = record["do"] in ("reboot-node", "restart-runtime") and record.get("forget")
        if forgets or (record["do"] == "fault" and "lose-state" in record.get("text", "")):
            for pod in self.pods.values():
                pod.forget_runtime()
        elif record["do"] == "remove-container":
            return self.remove(self._pod(record), record)
        if record["do"] != "create" or not isinstance(given, Mapping):
            return []
        obj: Mapping[str, Any] = given  # pyright: ignore[reportUnknownVariableType]
        if obj.get("kind", "Pod") != "Pod":
            return []
        name: str = record.get("pod") or obj.get("metadata", {}).get("name", "")
        pod = self.pods.get(name)
        if pod is None:
            pod = self.pods[name] = PodFacts(name)
        return self._take_spec(pod, obj.get("spec", {}), record)

    def _take_spec(self, pod: PodFacts, spec: Mapping[str, Any], record: Record) -> list[Step]:
        pod.spec = spec
        pod.kinds = {}
        for key, kind in (
            ("initContainers", "init"),
            ("containers", "regular"),
            ("ephemeralContainers", "ephemeral"),
        ):
            for container in spec.get(key) or ():
                sidecar = kind == "init" and container.get("restartPolicy") == "Always"
                pod.kinds[container["name"]] = "sidecar" if sidecar else kind
                pod.containers[container["name"]] = container
        return [Step(StepKind.SPEC, pod, record)]

    def _snapshot(self, record: Record) -> list[Step]:
        pod = self._pod(record)
        uid: str = record.get("uid", "")
        if uid and pod.uid and uid != pod.uid:  # another pod object under the same name
            pod = self.pods[pod.name] = PodFacts(pod.name)
        pod.uid = uid or pod.uid
        steps: list[Step] = []
        if "spec" in record:
            steps += self._take_spec(pod, record["spec"], record)
        pod.before, pod.snapshot = pod.snapshot, record
        pod.deleting = pod.deleting or "deleting" in record or bool(record.get("deleted"))
        pod.terminal = pod.terminal or record["phase"] in TERMINAL
        if pod.terminal:
            pod.acknowledge(record)
        condition: list[str] = record["conditions"].get("AllContainersRestarting", ["False"])
        if condition[0] == "True":
            pod.triggered = True
        for shown in record["containers"].values():
            instance = pod.by_label.get(shown.get("id", ""))
            if instance is not None and shown["state"] == "terminated":
                steps += self._exited(pod, instance, record, shown.get("exitCode"), shown.get("reason", ""))
        steps.append(Step(StepKind.SNAPSHOT, pod, record))
        if record.get("deleted") and "seq" not in record:
            # A recording does not show the worker. Ours does, and a pod deleted with grace 0 is gone from the
            # API before its worker hears of it.
            pod.acknowledge(record)
        return steps

    def _decision(self, record: Record) -> list[Step]:
        outcome: Mapping[str, Any] = record.get("outcome", {})
        if record["machine"] == "podworkers":
            # Only what a worker did itself: late news of a finished pod may come when its successor is there.
            done = "ran" in record.get("inputs", ()) and outcome.get("state") in ("terminated", "finished")
            started = outcome.get("startedTerminating") and outcome.get("state") != "finished"
            if started or done:
                self._pod(record).acknowledge(record)
        elif record["machine"] == "admission":
            pod = self._pod(record)
            pod.refused = pod.refused or bool(outcome.get("refused"))
            pod.started_blind = self._started_blind
            return [Step(StepKind.ADMISSION, pod, record)]
        elif record["machine"] == "devicemanager":
            pod = self._pod(record)
            steps = [Step(StepKind.ALLOCATING, pod, record)]
            return [*steps, Step(StepKind.ALLOCATED, pod, record)] if outcome.get("devices") else steps
        return []

    def _device(self, record: Record) -> list[Step]:
        if "pod" not in record and len(self.pods) != 1:
            return []
        return [Step(StepKind.DEVICE_CALL, self._pod(record), record)]

    def _requeue(self, record: Record) -> list[Step]:
        return [Step(StepKind.SYNC_FAILED, self._pod(record), record)] if record["about"] == "error" else []

    def _plugin(self, record: Record) -> list[Step]:
        return [Step(StepKind.PLUGIN, self._nobody, record)]

    def _node(self, record: Record) -> list[Step]:
        return [Step(StepKind.NODE, self._nobody, record)] if "capacity" in record else []

    def _checkpoint(self, record: Record) -> list[Step]:
        """A kubelet that starts says what it has found of the former one's books."""
        start = Step(StepKind.KUBELET, self._nobody, record)
        self._started_blind, self._lists_failed = self._lists_failed, False
        if record.get("do") == "read":
            return [start]
        return [start, Step(StepKind.BOOKS_LOST, self._nobody, record)]

    # -- the runtime's side --

    def _sandbox_fact(self, record: Record) -> list[Step]:
        pod = self._pod(record)
        if record.get("do") == "died" and pod.sandbox is not None:
            pod.sandbox.ready = False
        return []

    def _process(self, record: Record) -> list[Step]:
        pod = self._pod(record)
        instance = pod.by_label.get(record["container"])
        if record["do"] != "exit" or instance is None:
            return []
        code = record.get("code")
        if code is None and record.get("signal"):
            code = 128 + record["signal"]
        return self._exited(pod, instance, record, code, record.get("reason", ""))

    def _cri(self, record: Record) -> list[Step]:
        if record.get("code") and record["m"] == "CreateContainer" and record.get("container"):
            self._pod(record).perhaps_made.add(str(record["container"]).partition("#")[0])
        if record.get("code") and record["m"] in ("ListContainers", "ListPodSandbox"):
            self._lists_failed = True
        if record.get("code") and record["m"] == "RemoveContainer":
            self._removal_failed(self._pod(record), record)
        handler = _CALLS.get(record["m"])
        if handler is None or (record.get("code") and record["m"] != "StopPodSandbox"):
            return []
        return handler(self, self._pod(record), record)

    def run_sandbox(self, pod: PodFacts, record: Record) -> list[Step]:
        host = bool((pod.spec or {}).get("hostNetwork"))
        sandbox = SandboxFacts(record.get("sandbox", ""), host_network=host, id=record.get("id", ""))
        pod.sandboxes[sandbox.label] = pod.sandbox = sandbox
        self._begin_round(pod)
        return [Step(StepKind.SANDBOX_RUN, pod, record, sandbox=sandbox)]

    def stop_sandbox(self, pod: PodFacts, record: Record) -> list[Step]:
        sandbox = pod.sandboxes.get(record.get("sandbox", ""))
        if sandbox is None or (sandbox.id and record.get("id", sandbox.id) != sandbox.id):
            return []  # perhaps that of an earlier pod of the same name
        step = Step(StepKind.SANDBOX_STOP, pod, record, sandbox=evolve_sandbox(sandbox))
        if not record.get("code"):
            sandbox.ready = False
            if pod.deleting or pod.terminal:
                pod.acknowledge(record)
        return [step]

    def sandbox_status(self, pod: PodFacts, record: Record) -> list[Step]:
        sandbox = pod.sandboxes.get(record.get("sandbox", ""))
        if sandbox is None:
            sandbox = SandboxFacts(record.get("sandbox", ""))
            pod.sandboxes[sandbox.label] = sandbox
            pod.sandbox = pod.sandbox or sandbox
        sandbox.ready = record.get("state") == "ready"
        sandbox.ip = record.get("ip", sandbox.ip)
        sandbox.host_network = sandbox.host_network or bool(record.get("hostNetwork"))
        return [Step(StepKind.SANDBOX_SEEN, pod, record, sandbox=sandbox)]

    def list_sandboxes(self, pod: PodFacts, record: Record) -> list[Step]:
        for label, state in record.get("states", {}).items():
            owner = self.pods.get(label.rpartition("/")[0])
            sandbox = owner.sandboxes.get(label) if owner is not None else None
            if sandbox is not None:
                sandbox.ready = state == "ready"
        return []

    def create(self, pod: PodFacts, record: Record) -> list[Step]:
        name: str = record["name"]
        sandbox = record.get("sandbox") or (pod.sandbox.label if pod.sandbox is not None else "")
        previous = pod.latest.get(name)
        instance = InstanceFacts(record["container"], name, sandbox, previous)
        if previous is not None:
            previous.previous = None  # only the last one is ever asked for
            if previous.removed and pod.by_label.get(previous.label) is previous:
                del pod.by_label[previous.label]
        instance.image = pod.containers.get(name, {}).get("image", "")
        instance.mounts = record.get("mounts")
        pod.latest[name] = pod.by_label[instance.label] = instance
        pod.made += 1
        if pod.kind(name) != "ephemeral":
            if not pod.alive:
                pod.triggered = False  # carried out
            pod.alive[pod.made] = instance
        return [Step(StepKind.CREATE, pod, record, instance)]

    def start(self, pod: PodFacts, record: Record) -> list[Step]:
        instance = pod.by_label.get(record.get("container", ""))
        if instance is None:
            return []
        instance.started = True
        # A short process may have ended, and been seen to have ended, before the call returned.
        instance.running = instance.exit_code is None
        if pod.kind(instance.container) == "sidecar":
            pod.begun.add(instance.container)
        return [Step(StepKind.START, pod, record, instance)]

    def stop(self, pod: PodFacts, record: Record) -> list[Step]:
        instance = pod.by_label.get(record.get("container", ""))
        if instance is None:
            return []
        began: int = record.get("seq", -1)
        if began < 0 or instance.running or instance.exit_order < 0 or instance.exit_order > began:
            instance.stop_asked = True
        return self._exited(pod, instance, record, None, "")

    def container_status(self, pod: PodFacts, record: Record) -> list[Step]:
        instance = pod.by_label.get(record.get("container", ""))
        if instance is None or record.get("state") != "exited":
            return []
        return self._exited(pod, instance, record, record.get("exitCode"), record.get("reason", ""))

    def remove(self, pod: PodFacts, record: Record) -> list[Step]:
        instance = pod.by_label.get(record.get("container", ""))
        if instance is None:
            return []
        instance.removed, instance.running = True, False
        instance.reset = pod.triggered
        for number, other in list(pod.alive.items()):
            if other is instance:
                del pod.alive[number]
        step = Step(StepKind.REMOVE, pod, record, instance)
        if all(other.doubtful for other in pod.alive.values()):
            self._begin_round(pod)
        return [step]

    def _removal_failed(self, pod: PodFacts, record: Record) -> None:
        instance = pod.by_label.get(record.get("container", ""))
        if instance is not None:
            instance.doubtful = True

    def _exited(
        self, pod: PodFacts, instance: InstanceFacts, record: Record, code: int | None, reason: str
    ) -> list[Step]:
        first = instance.exit_code is None
        if instance.running or instance.exit_order < 0:
            instance.exit_order = record.get("end", record.get("seq", self._order))
        instance.running = False
        if code is None or not first:
            return []
        instance.exit_code, instance.exit_reason = code, reason
        kind = pod.kind(instance.container)
        if kind == "init" and code == 0 and reason != "OOMKilled" and not instance.removed:
            pod.completed.add(instance.container)
        return [Step(StepKind.EXIT, pod, record, instance)]

    def _begin_round(self, pod: PodFacts) -> None:
        pod.completed.clear()
        pod.begun.clear()


def evolve_sandbox(sandbox: SandboxFacts) -> SandboxFacts:
    """The sandbox as it is now, for steps that tell of the state before a change."""
    return SandboxFacts(sandbox.label, sandbox.ready, sandbox.ip, sandbox.host_network)


_HANDLERS = {
    "action": World._action,
    "cri": World._cri,
    "checkpoint": World._checkpoint,
    "decision": World._decision,
    "device": World._device,
    "node": World._node,
    "plugin": World._plugin,
    "pod": World._snapshot,
    "process": World._process,
    "requeue": World._requeue,
    "sandbox": World._sandbox_fact,
}
_CALLS = {
    "RunPodSandbox": World.run_sandbox,
    "StopPodSandbox": World.stop_sandbox,
    "PodSandboxStatus": World.sandbox_status,
    "ListPodSandbox": World.list_sandboxes,
    "CreateContainer": World.create,
    "StartContainer": World.start,
    "StopContainer": World.stop,
    "ContainerStatus": World.container_status,
    "RemoveContainer": World.remove,
}
