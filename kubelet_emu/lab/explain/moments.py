"""The story of a run: its moments in order, one decision each (pure).

A moment is what the kubelet saw, the rules that fired, what it did, what it kept, and what a person would
see. Most moments are syncs of a pod; between them stand what people did, exits of processes, results of
probes, and invariants that broke.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from kubelet_emu.lab.explain import phrases
from kubelet_emu.lab.explain.kubectl import row_text
from kubelet_emu.lab.explain.reading import PodReading, Reading
from kubelet_emu.rules import Fired, parse_fired
from kubelet_emu.trace.schema import Record

__all__ = ["Moment", "Surprise", "moments"]

_QUIET_RULES = frozenset({"RST-030(kept)", "RST-032", "POD-504.8", "POD-402"})
"""Rules that fire in each sync of a pod that is well; told only where something follows from them."""
_STATUS_SECONDS = 0.3
_STATUS_RULES = ("RST-121", "RST-122", "RST-145", "RST-176", "POD-1101", "STA-101", "STA-602")
"""Rules of a status that are always worth a line."""


@frozen
class Surprise:
    """Something that people do not expect, where it happens; ``rule`` says why it is so."""

    rule: str
    text: str


@frozen(kw_only=True)
class Moment:
    """One step of the story. ``quiet`` ones change nothing; ``seqs`` are the records it is made from."""

    number: int
    t: float
    pod: str
    kind: str
    title: str
    saw: tuple[str, ...] = ()
    rules: tuple[Fired, ...] = ()
    did: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()
    """What changed for someone who watches the status."""
    person: str = ""
    """READY, STATUS and RESTARTS of ``kubectl get pods`` right after it."""
    surprises: tuple[Surprise, ...] = ()
    about: frozenset[str] = frozenset()
    """Containers and instances it concerns."""
    seqs: tuple[int, ...] = ()
    inferred: bool = False
    quiet: bool = False


@define
class Draft:
    """A moment that is still growing."""

    t: float
    pod: str
    kind: str
    title: str = ""
    saw: list[str] = field(factory=list[str])
    rules: list[str] = field(factory=list[str])
    did: list[str] = field(factory=list[str])
    kept: list[str] = field(factory=list[str])
    about: set[str] = field(factory=set[str])
    seqs: list[int] = field(factory=list[int])
    inferred: bool = False
    plan: Record | None = None
    again: frozenset[str] = frozenset()
    """Containers that had run before it."""
    status: Record | None = None
    decisions: list[Record] = field(factory=list[Record])
    snapshots: list[Record] = field(factory=list[Record])
    before: Record | None = None
    """The snapshot that stood when it began."""
    surprises: list[Surprise] = field(factory=list[Surprise])
    order: float = 0.0


Judge = Callable[[PodReading, Draft, Sequence[Draft]], Sequence[Surprise]]
"""Finds surprises in a moment, given those before it."""


def moments(reading: Reading, records: Sequence[Record], *, judge: Judge | None = None) -> tuple[Moment, ...]:
    """The moments of a run from its records in order of their beginning."""
    teller = _Teller(reading)
    for record in records:
        teller.feed(record)
    drafts = teller.finish()
    told: list[Moment] = []
    earlier: dict[str, list[Draft]] = {}
    for draft in drafts:
        pod = reading.pods.get(draft.pod)
        if pod is not None and judge is not None:
            draft.surprises += judge(pod, draft, earlier.setdefault(draft.pod, []))
            earlier[draft.pod].append(draft)
        told.append(_finished(draft, pod, len(told) + 1))
    return tuple(told)


def _finished(draft: Draft, pod: PodReading | None, number: int) -> Moment:
    shows: list[str] = []
    before = draft.before
    for snapshot in draft.snapshots:
        shows += phrases.changes(before, snapshot)
        before = snapshot
    person = row_text(before, pod.spec) if before is not None and pod is not None else ""
    return Moment(
        number=number,
        t=draft.t,
        pod=draft.pod,
        kind=draft.kind,
        title=draft.title,
        saw=tuple(draft.saw),
        rules=tuple(parse_fired(rule) for rule in dict.fromkeys(draft.rules)),
        did=tuple(draft.did),
        kept=tuple(draft.kept),
        shows=tuple(shows),
        person=person,
        surprises=tuple(draft.surprises),
        about=frozenset(draft.about),
        seqs=tuple(draft.seqs),
        inferred=draft.inferred,
        quiet=draft.kind == "cleanup"
        or (draft.kind == "sync" and not (draft.did or shows or draft.surprises or _plans(draft))),
    )


def _plans(draft: Draft) -> bool:
    return draft.plan is not None and bool(draft.plan["outcome"])


class _Teller:
    """Takes records in order and makes moments of them."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._drafts: list[Draft] = []
        self._open: dict[str, Draft] = {}
        self._latest: dict[str, Draft] = {}
        self._snapshot: dict[str, Record] = {}
        self._seen: dict[str, dict[str, str]] = {}
        self._ran: dict[str, set[str]] = {}
        self._active: dict[str, float] = {}
        self._only = next(iter(reading.pods), "") if len(reading.pods) == 1 else ""

    def feed(self, record: Record) -> None:
        """Take one record in."""
        handler = _HANDLERS.get(record["k"])
        if handler is not None:
            handler(self, record)

    def finish(self) -> list[Draft]:
        """All moments."""
        for name in list(self._open):
            self._close(name)
        return sorted(self._drafts, key=lambda draft: (draft.t, draft.order))

    # -- moments --

    def _new(self, record: Record, kind: str, title: str = "", pod: str = "") -> Draft:
        name = pod or record.get("pod") or self._only
        draft = Draft(record["t"], name, kind, title, order=len(self._drafts))
        draft.before = self._snapshot.get(name)
        draft.inferred = bool(record.get("inferred"))
        self._note(draft, record)
        self._drafts.append(draft)
        if kind not in ("cleanup", "exit", "probe"):
            self._latest[name] = draft
        return draft

    def _note(self, draft: Draft, record: Record) -> None:
        if "seq" in record:
            draft.seqs.append(record["seq"])

    def _sync(self, record: Record) -> Draft:
        name: str = record.get("pod") or self._only
        draft = self._open.get(name)
        if draft is None:
            draft = self._open[name] = self._new(record, "sync")
        else:
            self._note(draft, record)
        return draft

    def _close(self, name: str) -> None:
        draft = self._open.pop(name, None)
        if draft is None:
            return
        pod = self._reading.pods[name]
        plan, found = draft.plan, {}
        if plan is not None:
            found = {str(k): str(v) for k, v in plan["inputs"].get("containers", {}).items()}
            self._saw(draft, name, plan, found)
            changed = plan["outcome"].get("createSandbox") or plan["outcome"].get("killPod")
            if plan["outcome"]:
                draft.rules += [rule for rule in plan["rules"] if rule not in _QUIET_RULES or changed]
            draft.about |= set(found) & {fired.about for fired in map(parse_fired, draft.rules)}
            draft.about |= set(phrases.started_names(pod, plan["outcome"]))
        if draft.status is not None:
            self._status_rules(draft, draft.status)
        for decision in draft.decisions:
            draft.rules += decision["rules"]
        again = draft.again
        if plan is not None and plan["outcome"]:
            waits = [one for one in draft.decisions if one["machine"] == "kuberuntime.backoff"]
            draft.title = phrases.plan_title(pod, plan, found, again, waits)
            if plan["outcome"].get("reset"):
                draft.kind = "reset"
            if not plan["outcome"].get("createSandbox") and not plan["outcome"].get("killPod"):
                self._kept(draft, pod, phrases.started_names(pod, plan["outcome"]), again)
        elif draft.status is not None and draft.status["outcome"].get("phase") in ("Failed", "Succeeded"):
            draft.title = f"The pod has {draft.status['outcome']['phase'].lower()}."
        elif not draft.title:
            draft.title = "The kubelet brings the status up to date."

    def _saw(self, draft: Draft, name: str, plan: Record, found: Mapping[str, str]) -> None:
        before = self._seen.get(name, {})
        if not plan["inputs"].get("sandboxes"):
            draft.saw.append("no sandbox")
        else:
            draft.saw += [
                phrases.seen_text(one, state) for one, state in found.items() if before.get(one) != state
            ]
            draft.saw += [f"{one} has no instance any more" for one in before if one not in found]
            if "notready" in str(plan["inputs"]["sandboxes"][0]):
                draft.saw.append("the sandbox is not ready")
        self._seen[name] = dict(found)

    def _status_rules(self, draft: Draft, record: Record) -> None:
        old_phase, phase = record["inputs"].get("oldPhase"), record["outcome"].get("phase")
        for rule in record["rules"]:
            fired = parse_fired(rule)
            always = fired.rule in _STATUS_RULES
            phase_moved = fired.rule in ("STA-204", "STA-205") and phase != old_phase
            restart = fired.rule == "RST-126" and fired.about == "5"
            if always or phase_moved or restart:
                draft.rules.append(rule)

    def _kept(self, draft: Draft, pod: PodReading, names: Sequence[str], again: frozenset[str]) -> None:
        if not draft.plan or not (draft.plan["outcome"].get("reset") or set(names) & again):
            return
        there = [s for s in pod.sandboxes if s.asked <= draft.t and (s.ended is None or s.ended > draft.t)]
        sandbox = there[-1] if there else None
        if sandbox is not None:
            address = f" with address {sandbox.ip}" if sandbox.ip else ""
            draft.kept.append(f"{phrases.short(sandbox.label)}{address}")
        volumes = [str(volume.get("name")) for volume in pod.spec.get("volumes") or ()]
        if volumes:
            draft.kept.append(f"volume{'s' * (len(volumes) > 1)} {phrases.join(volumes)}")
        held = sorted({device for one in pod.instances if one.created <= draft.t for device in one.devices})
        if held:
            draft.kept.append(f"device{'s' * (len(held) > 1)} {phrases.join(held)}")

    # -- records --

    def action(self, record: Record) -> None:
        do: str = record["do"]
        if do == "end":
            return
        if do == "fault":
            self._new(record, "fault", f"From outside: {record.get('text', '')}.")
            return
        texts = {
            "create": "The pod is created.",
            "delete": "The pod is deleted.",
            "restart-kubelet": "The kubelet is back from a restart, with nothing in its memory.",
            "restart-runtime": "The runtime's daemon is restarted; containers run on.",
            "reboot-node": "The node loses its power and comes up again: no process survives.",
            "stop-sandbox": "Somebody stops the sandbox behind the kubelet's back.",
        }
        target: Any = record.get("container") or ""
        about = str(target.get("name", "")) if isinstance(target, Mapping) else str(target)  # pyright: ignore
        title = texts.get(do, f"{do} {about}".strip() + ".")
        if do == "exec":
            title = f"Somebody runs {' '.join(map(str, record.get('command', ())))} in {about}."
        if do == "create" and any(one.kind == "action" and one.title == title for one in self._drafts):
            return
        draft = self._new(record, "action", title)
        if about:
            draft.about.add(about)
        pod = self._reading.pods.get(draft.pod)
        if do == "create" and pod is not None:
            draft.saw.append(_spec_text(pod))
        if record.get("error"):
            draft.did.append(f"refused: {record['error']}")

    def decision(self, record: Record) -> None:
        handler = _MACHINES.get(record["machine"], _Teller.other)
        handler(self, record)

    def admission(self, record: Record) -> None:
        refused = record["outcome"].get("refused")
        draft = self._new(record, "admission", "The kubelet takes the pod in.")
        draft.rules += record["rules"]
        if refused:
            draft.title = f"The kubelet refuses the pod: {refused}."

    def worker(self, record: Record) -> None:
        rules = [parse_fired(rule) for rule in record["rules"]]
        if all(fired.rule == "POD-504.8" for fired in rules):
            return
        outcome = record["outcome"]
        self._close(record["pod"])
        state = outcome.get("state", "")
        texts = {
            "terminating": "The pod begins to end.",
            "terminated": "All containers have ended; the rest is tidied up.",
            "finished": "The kubelet is done with the pod.",
            "syncing": "The pod's worker takes the pod up.",
        }
        draft = self._new(record, "worker", texts.get(state, f"The pod's worker goes on: {state}."))
        draft.rules += record["rules"]
        if record["inputs"].get("error"):
            draft.saw.append(f"the last sync failed: {record['inputs']['error']}")

    def generate(self, record: Record) -> None:
        self._close(record["pod"])
        draft = self._sync(record)
        draft.status = record

    def update(self, record: Record) -> None:
        if record["rules"] == ["STA-604"]:
            return
        draft = self._open.get(record["pod"])
        if draft is not None:
            self._note(draft, record)
            if not record["outcome"].get("stored") and "STA-604" not in record["rules"]:
                draft.rules += record["rules"]

    def plan(self, record: Record) -> None:
        draft = self._open.get(record["pod"])
        if draft is not None and draft.plan is not None:
            self._close(record["pod"])
        draft = self._sync(record)
        draft.plan, draft.again = record, frozenset(self._ran.get(record["pod"], ()))
        self._active[record["pod"]] = record["t"]

    def step(self, record: Record) -> None:
        """Back-off, kill and image decisions: parts of a sync or of the pod's end."""
        draft = self._sync(record)
        draft.decisions.append(record)
        name = record["inputs"].get("container")
        if name:
            draft.about.add(str(name))
        if record["machine"] == "kuberuntime.images":
            draft.did.append(f"image {record['inputs'].get('image')}: {record['outcome'].get('reason')}")

    def terminate(self, record: Record) -> None:
        self._close(record["pod"])
        phase = record["outcome"].get("phase", "")
        self._new(record, "end", f"The pod ends as {phase}.").rules += record["rules"]

    def prober(self, record: Record) -> None:
        stored = [str(one) for one in record["outcome"].get("stored", ())]
        if not stored:
            return
        name, probe = str(record["inputs"].get("container")), record["inputs"].get("probe")
        # Without a rule it is the value before the first result, which is no finding of the probe.
        how = (
            f"now counts as {stored[-1]}"
            if record["rules"]
            else f"counts as {stored[-1]} until its first result"
        )
        draft = self._new(record, "probe", f"The {probe} probe of {name} {how}.")
        draft.rules += record["rules"]
        draft.about.add(name)

    def devices(self, record: Record) -> None:
        name = str(record["inputs"].get("container", ""))
        draft = self._new(record, "devices", f"The device manager finds devices for {name or 'the pod'}.")
        draft.rules += record["rules"]
        draft.saw += _pairs(record["inputs"])
        draft.did += _pairs(record["outcome"])
        draft.about |= {name} - {""}

    def silent(self, record: Record) -> None:
        """Decisions that are told by what follows from them."""

    def other(self, record: Record) -> None:
        """A machine that this module has no words for."""
        draft = self._new(record, "other", f"{record['machine']} decides.")
        draft.rules += record["rules"]
        draft.saw += _pairs(record.get("inputs", {}))
        draft.did += _pairs(record.get("outcome", {}))

    def cri(self, record: Record) -> None:
        if record.get("poll"):
            return
        text = phrases.call_text(record)
        name = record.get("pod") or self._only
        label = str(record.get("container", ""))
        container = label.partition("#")[0]
        if record["m"] == "StartContainer":
            self._ran.setdefault(name, set()).add(container)
        if not text:
            return
        draft = self._open.get(name) or (
            self._new(record, "cleanup", "The kubelet tidies up.") if self._cleaning(record) else None
        )
        if draft is None:
            draft = self._latest.get(name)
        if draft is None:
            return
        self._note(draft, record)
        self._active[name] = record["t"] + record.get("dt", 0.0)
        draft.did.append(text)
        if label:
            draft.about |= {container, label}

    def _cleaning(self, record: Record) -> bool:
        latest = self._latest.get(record.get("pod") or self._only)
        return record["m"] in ("RemoveContainer", "RemovePodSandbox") and (
            latest is None or latest.kind not in ("cleanup", "worker", "end")
        )

    def process(self, record: Record) -> None:
        if record["do"] != "exit":
            return
        label: str = record["container"]
        pod = self._reading.pods.get(record.get("pod") or self._only)
        instance = pod.instance(label) if pod is not None else None
        asked = instance is not None and instance.stop_asked is not None
        draft = self._new(record, "exit", phrases.exit_text(record, asked=asked))
        draft.about |= {label, label.partition("#")[0]}

    def event(self, record: Record) -> None:
        if record["type"] != "Warning" or record["reason"] in ("BackOff", "Unhealthy"):
            return
        draft = self._open.get(record["pod"]) or self._latest.get(record["pod"])
        if draft is not None:
            self._note(draft, record)
            text = f"warned: {record['reason']}, {record['message'].strip()}"
            if text not in draft.did:
                draft.did.append(text)

    def snapshot(self, record: Record) -> None:
        name: str = record["pod"]
        before = self._snapshot.get(name)
        target = self._open.get(name) or self._latest.get(name)
        if self._reading.recorded and record["t"] - self._active.get(name, 0.0) > _STATUS_SECONDS:
            # Without decisions nothing tells which sync a status belongs to, but a late one is of its own.
            if not phrases.changes(before, record):
                return
            self._close(name)
            target = self._new(record, "status", "The status changes.")
            target.inferred = False
        self._snapshot[name] = record
        if target is not None:
            target.snapshots.append(record)
            self._note(target, record)

    def requeue(self, record: Record) -> None:
        self._close(record["pod"])

    def invariant(self, record: Record) -> None:
        draft = self._new(record, "invariant", f"An invariant is broken: {record['invariant']}.")
        draft.rules += record.get("rules", ())
        draft.did.append(record["message"])

    def fault(self, record: Record) -> None:
        if record["k"] == "runtime":
            title = "The runtime answers again." if record.get("up") else "The runtime is away."
        else:
            title = f"A fault: {record.get('fault') or record.get('text') or record.get('problem', '')}."
        self._new(record, "fault", title)


def _pairs(values: Mapping[str, Any]) -> list[str]:
    return [f"{key}: {value}" for key, value in values.items() if value not in (None, "", [], {})]


def _spec_text(pod: PodReading) -> str:
    named = [f"{kind} {name}" for name, kind in pod.kinds.items()]
    return f"restartPolicy {pod.spec.get('restartPolicy') or 'Always'}; {', '.join(named)}"


_HANDLERS = {
    "action": _Teller.action,
    "cri": _Teller.cri,
    "decision": _Teller.decision,
    "event": _Teller.event,
    "fault": _Teller.fault,
    "invariant": _Teller.invariant,
    "pod": _Teller.snapshot,
    "process": _Teller.process,
    "requeue": _Teller.requeue,
    "runtime": _Teller.fault,
}
_MACHINES = {
    "admission": _Teller.admission,
    "devicemanager": _Teller.devices,
    "kuberuntime.actions": _Teller.plan,
    "kuberuntime.backoff": _Teller.step,
    "kuberuntime.images": _Teller.step,
    "kuberuntime.kill": _Teller.step,
    "pleg": _Teller.silent,
    "pleg.evented": _Teller.silent,
    "podworkers": _Teller.worker,
    "prober.worker": _Teller.prober,
    "status.generate": _Teller.generate,
    "status.terminate": _Teller.terminate,
    "status.update": _Teller.update,
    "status.write": _Teller.silent,
}
