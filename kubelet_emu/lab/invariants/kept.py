"""Invariants about what a pod keeps: sandbox, identity, addresses, volumes, devices, counts, phase (pure)."""

from collections.abc import Iterable

from kubelet_emu.lab.invariants.base import Invariant
from kubelet_emu.lab.invariants.world import TERMINAL, PodFacts, Step, StepKind
from kubelet_emu.trace.schema import Record

__all__ = [
    "AddressesUnique",
    "CountsNeverFall",
    "DevicesExclusive",
    "DevicesKept",
    "IdentityKept",
    "OneReadySandbox",
    "SandboxKept",
    "TerminalIsFinal",
    "VolumesKept",
]


class OneReadySandbox(Invariant):
    name = "one-ready-sandbox"
    rules = ("RST-030", "DEV-202")
    text = "A pod has at most one READY sandbox at any time."
    steps = (StepKind.SANDBOX_RUN,)

    def check(self, step: Step) -> Iterable[str]:
        ready = [sandbox.label for sandbox in step.pod.sandboxes.values() if sandbox.ready]
        if len(ready) > 1:
            yield f"{' and '.join(ready)} are READY at once"


class SandboxKept(Invariant):
    name = "sandbox-kept"
    rules = ("RST-136", "RST-040", "RST-060", "RST-137")
    text = (
        "Restarts of containers, one or all, keep the pod's READY sandbox: it is stopped only when the pod "
        "ends, or when containers are there and none of them runs."
    )
    steps = (StepKind.SANDBOX_STOP,)

    def check(self, step: Step) -> Iterable[str]:
        sandbox, pod = step.sandbox, step.pod
        assert sandbox is not None
        if not sandbox.ready or step.record.get("code") == "UNAVAILABLE":
            return  # a call that never reached the runtime stopped nothing (POD-711)
        began = step.record.get("seq", -1)
        inside = [one for one in pod.latest.values() if one.sandbox == sandbox.label and not one.removed]
        running = [
            one.label for one in inside if one.running or (one.started and one.exit_order > began >= 0)
        ]
        if running:
            yield f"{sandbox.label} was stopped while {', '.join(running)} ran"
        elif pod.latest and not inside and not pod.going:
            yield f"{sandbox.label} was stopped after all its containers had been removed"


class IdentityKept(Invariant):
    name = "identity-kept"
    rules = ("RST-136",)
    text = "A pod keeps its UID, and its IP as long as it keeps its sandbox."
    steps = (StepKind.SNAPSHOT,)

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, str, int]] = {}
        """By pod: UID, last IP, how often the IP changed."""
        self._removed: set[str] = set()

    def check(self, step: Step) -> Iterable[str]:
        record, pod = step.record, step.pod
        uid, ip, changes = self._seen.get(pod.name, ("", "", 0))
        if uid != pod.uid:
            if uid and pod.name not in self._removed:
                yield f"the UID changed from {uid} to {pod.uid} while the pod was there"
            ip, changes = "", 0
        new = record.get("ip") or ip
        if ip and new != ip:
            changes += 1
            # Status is written beside the work: the old address may show once more after the new sandbox.
            if changes >= len(pod.sandboxes):
                yield f"the pod's IP changed from {ip} to {new} without a new sandbox"
        self._seen[pod.name] = (pod.uid, new, changes)
        if record.get("deleted"):
            self._removed.add(pod.name)
        else:
            self._removed.discard(pod.name)


class AddressesUnique(Invariant):
    name = "addresses-unique"
    rules = ("CRI-080", "DEV-202")
    text = "No two live sandboxes have the same IP, those on the host's network apart."
    steps = (StepKind.SANDBOX_SEEN, StepKind.SANDBOX_STOP)

    def __init__(self) -> None:
        self._owner: dict[str, str] = {}

    def check(self, step: Step) -> Iterable[str]:
        sandbox = step.sandbox
        assert sandbox is not None
        if not sandbox.ip or sandbox.host_network:
            return
        stopped = step.kind is StepKind.SANDBOX_STOP and not step.record.get("code")
        if stopped or not sandbox.ready:
            if self._owner.get(sandbox.ip) == sandbox.label:
                del self._owner[sandbox.ip]
            return
        owner = self._owner.setdefault(sandbox.ip, sandbox.label)
        if owner != sandbox.label:
            yield f"{sandbox.ip} belongs to {owner} and to {sandbox.label}"


class VolumesKept(Invariant):
    name = "volumes-kept"
    rules = ("RST-136",)
    text = "Every instance of a container sees a pod's volume at the same place on the node."
    steps = (StepKind.CREATE,)

    def check(self, step: Step) -> Iterable[str]:
        instance = step.instance
        assert instance is not None
        if instance.previous is None or instance.mounts is None or instance.previous.mounts is None:
            return
        for path, source in instance.mounts.items():
            before = instance.previous.mounts.get(path)
            if before is not None and before != source and "/volume" in before + source:
                yield f"{instance.label} has {source} at {path}, the instance before it had {before}"


def _devices(record: Record) -> dict[str, tuple[str, ...]]:
    """Devices by container, as the status shows them."""
    found: dict[str, tuple[str, ...]] = {}
    for name, shown in record["containers"].items():
        if "allocatedResourcesStatus" not in shown:  # nearly always: no list is built
            continue
        ids = [
            f"{resource.get('name', '')}/{device.get('resourceID', '')}"
            for resource in shown["allocatedResourcesStatus"]
            if not str(resource.get("name", "")).startswith("claim:")  # pods may share a claim
            for device in resource.get("resources", ())
        ]
        if ids:
            found[name] = tuple(sorted(ids))
    return found


class DevicesKept(Invariant):
    name = "devices-kept"
    rules = ("DEV-202", "RST-136")
    text = "A container keeps its devices as long as its pod is there, unless the checkpoint was lost."
    steps = (StepKind.SNAPSHOT, StepKind.BOOKS_LOST)

    def __init__(self) -> None:
        self._held: dict[tuple[str, str, str], tuple[str, ...]] = {}

    def check(self, step: Step) -> Iterable[str]:
        if step.kind is StepKind.BOOKS_LOST:
            self._held.clear()
            return
        for name, devices in _devices(step.record).items():
            held = self._held.setdefault((step.pod.name, step.pod.uid, name), devices)
            if held != devices:
                self._held[step.pod.name, step.pod.uid, name] = devices
                yield f"{name} has {', '.join(devices)}, before it had {', '.join(held)}"


class DevicesExclusive(Invariant):
    name = "devices-exclusive"
    rules = ("DEV-202",)
    text = "A device belongs to at most one pod that has not ended."
    steps = (StepKind.SNAPSHOT, StepKind.ALLOCATED, StepKind.BOOKS_LOST)

    def __init__(self) -> None:
        self._owner: dict[str, PodFacts] = {}

    def check(self, step: Step) -> Iterable[str]:
        pod, record = step.pod, step.record
        if step.kind is StepKind.BOOKS_LOST:
            self._owner.clear()
            return
        if step.kind is StepKind.ALLOCATED:
            resource: str = record["inputs"]["resource"]
            found = [[f"{resource}/{one}" for one in record["outcome"]["devices"]]]
        elif pod.terminal or record.get("deleted"):
            return
        else:
            found = _devices(record).values()
        for devices in found:
            for device in devices:
                owner = self._owner.get(device)
                if owner is None or owner.acknowledged or owner.terminal or owner.refused:
                    self._owner[device] = pod
                elif owner is not pod:
                    yield f"{device} belongs to pod {owner.name} and to pod {pod.name}"


class CountsNeverFall(Invariant):
    name = "counts-never-fall"
    rules = ("RST-178", "RST-151")
    text = "The restart count of a container never falls."
    steps = (StepKind.SNAPSHOT,)

    def check(self, step: Step) -> Iterable[str]:
        before = step.pod.before
        if before is None:
            return
        shown = before["containers"]
        for name, status in step.record["containers"].items():
            old = shown.get(name)
            if old is not None and status["restartCount"] < old["restartCount"]:
                yield f"restartCount of {name} fell from {old['restartCount']} to {status['restartCount']}"


class TerminalIsFinal(Invariant):
    name = "terminal-is-final"
    rules = ("RST-174",)
    text = "A pod that is Failed or Succeeded in the API stays so."
    steps = (StepKind.SNAPSHOT,)

    def check(self, step: Step) -> Iterable[str]:
        before = step.pod.before
        if before is not None and before["phase"] in TERMINAL and step.record["phase"] != before["phase"]:
            yield f"the phase went from {before['phase']} to {step.record['phase']}"
