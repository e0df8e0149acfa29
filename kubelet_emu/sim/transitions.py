"""Which transitions of the declared tables a run has taken, counted from its trace (pure).

The tables are those that the code runs on and that ``kubelet-emu diagram`` draws. What the runtime's own two
did comes with the trace's ``moves``; the kubelet's are followed here, record by record.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from kubelet_emu.lab.invariants.rules import restart_all_matches
from kubelet_emu.trace.schema import Record

__all__ = ["Transition", "TransitionCounter", "declared", "transitions_of"]

Transition = tuple[str, str, str]
"""Table, state before, state after."""

RESTARTING = "AllContainersRestarting"


@cache
def declared() -> tuple[Transition, ...]:
    """Every transition of every table, in the order in which they are declared."""
    from kubelet_emu.lab.pictures.machines import MACHINES, machine

    found = ((name, edge.source, edge.target) for name in MACHINES for edge in machine(name).edges)
    return tuple(dict.fromkeys(found))


def transitions_of(records: Iterable[Record]) -> Mapping[Transition, int]:
    """What a whole trace has taken."""
    counter = TransitionCounter()
    for record in records:
        counter.feed(record)
    return counter.taken


class TransitionCounter:
    """Feed it every record; ``taken`` counts."""

    def __init__(self) -> None:
        self.taken: dict[Transition, int] = {}
        self._states: dict[tuple[str, str], str] = {}
        """By table and what it is about."""
        self._specs: dict[str, dict[str, Mapping[str, Any]]] = {}
        """Containers of each pod, by name."""
        self._last_delay: dict[tuple[str, str], str] = {}

    def feed(self, record: Record) -> None:
        """Take one record in."""
        handler = _HANDLERS.get(record["k"])
        if handler is not None:
            handler(self, record)

    def moved(self, table: str, before: str, after: str, times: int = 1) -> None:
        """Count a transition that somebody else has seen."""
        key = (table, before, after)
        self.taken[key] = self.taken.get(key, 0) + times

    def _to(self, table: str, about: str, after: str, *, first: str) -> None:
        before = self._states.get((table, about), first)
        self._states[table, about] = after
        self.moved(table, before, after)

    # -- records --

    def _moves(self, record: Record) -> None:
        for text, count in record["moves"].items():
            before, _, after = text.partition(" > ")
            self.moved(record["table"], before, after, count)

    def _decision(self, record: Record) -> None:
        machine: str = record["machine"]
        if machine == "podworkers":
            self._worker(record)
        elif machine == "kuberuntime.actions":
            state = self._states.get(("full-restart", record["pod"]), "running")
            if state in ("running", "ended"):
                self.moved("full-restart", state, state)
        elif machine == "kuberuntime.backoff":
            self._back_off(record)
        elif machine == "prober.worker" and record["inputs"].get("probe") == "liveness":
            about = f"{record['pod']}/{record['inputs']['container']}"
            if record["outcome"].get("onHold") and self._states.get(("probe-worker", about)) == "failing":
                self._states["probe-worker", about] = "on hold"
                self.moved("probe-worker", "1 of 2 failures", "on hold")

    def _worker(self, record: Record) -> None:
        pod, after = record["pod"], record["outcome"]["state"]
        after = "unknown" if after == "gone" else after
        before = self._states.get(("pod-worker", pod), "unknown")
        if before == after == "unknown":
            return
        if before == "finished" and after in ("syncing", "terminating"):
            # It was forgotten in between, and another pod has the name.
            self._to("pod-worker", pod, "unknown", first="unknown")
        self._to("pod-worker", pod, after, first="unknown")

    def _back_off(self, record: Record) -> None:
        about = (record["pod"], record["inputs"]["container"])
        delay = record["outcome"]["delaySeconds"]
        after = f"{delay:.0f} s" if delay else "no delay"
        before = self._last_delay.get(about, "no delay")
        self._last_delay[about] = after
        self.moved("back-off", before, after)

    def _pod(self, record: Record) -> None:
        name = record["pod"]
        if "spec" in record:
            self._take_spec(name, record["spec"])
        restarting = record["conditions"].get(RESTARTING, ["False"])[0] == "True"
        state = self._states.get(("full-restart", name), "running")
        if restarting and state == "triggered":
            self._to("full-restart", name, "resetting", first="running")
            state = "resetting"
        if restarting and state == "resetting" and not any("id" in one for one in _alive(record)):
            self._to("full-restart", name, "all removed", first="running")
        elif not restarting and state in ("all removed", "resetting"):
            if state == "resetting":
                self._to("full-restart", name, "all removed", first="running")
            self._to("full-restart", name, "running", first="running")
        if record.get("deleted"):
            for table in ("full-restart", "probe-worker"):
                self._forget(table, name)

    def _forget(self, table: str, pod: str) -> None:
        for key in [one for one in self._states if one[0] == table and one[1].partition("/")[0] == pod]:
            del self._states[key]

    def _action(self, record: Record) -> None:
        given = record.get("object")
        if record["do"] == "create" and isinstance(given, Mapping) and record.get("pod"):
            self._take_spec(record["pod"], given.get("spec") or {})  # pyright: ignore

    def _take_spec(self, pod: str, spec: Mapping[str, Any]) -> None:
        self._specs[pod] = {
            one["name"]: one for key in ("initContainers", "containers") for one in spec.get(key) or ()
        }

    def _process(self, record: Record) -> None:
        pod = record["pod"]
        name = record["container"].partition("#")[0]
        if record["do"] == "start":
            about = f"{pod}/{name}"
            if self._states.get(("probe-worker", about)) == "on hold":
                self.moved("probe-worker", "on hold", "new container")
            self._states["probe-worker", about] = "new container"
            return
        container = self._specs.get(pod, {}).get(name)
        code = record.get("code")
        if container is None or code is None or not container.get("restartPolicyRules"):
            return
        if self._states.get(("full-restart", pod), "running") != "running":
            return
        if restart_all_matches(container, code):
            self._to("full-restart", pod, "triggered", first="running")
        elif container.get("restartPolicy") == "Never":
            self._to("full-restart", pod, "ended", first="running")

    def _probe(self, record: Record) -> None:
        if record.get("probe") != "liveness" or record.get("outcome") not in ("success", "failure"):
            return
        about = f"{record['pod']}/{record['container']}"
        before = self._states.get(("probe-worker", about), "new container")
        after = "alive" if record["outcome"] == "success" else "failing"
        self._states["probe-worker", about] = after
        if before == after == "failing" or before == "on hold":
            return
        shown = {"failing": "1 of 2 failures"}
        self.moved("probe-worker", shown.get(before, before), shown.get(after, after))

    def _plugin(self, record: Record) -> None:
        do, about = record["do"], record["resource"]
        before = self._states.get(("plugin-endpoint", about), "unknown")
        after = _PLUGIN.get(do, "")
        if do == "listed":
            after = "healthy" if record["healthy"] else "unhealthy"
        elif do == "registered" and before == "gone":
            after = "unhealthy"
        elif do == "lost":
            after = "gone, never listed" if before == "registered" else "gone"
        elif do == "expired" and before == "gone, never listed":
            after = "unknown"
        if after:
            self._to("plugin-endpoint", about, after, first="unknown")

    def _checkpoint(self, record: Record) -> None:
        """Another kubelet begins: it knows of no plugin, no worker, no back-off."""
        for key in [one for one in self._states if one[0] in ("plugin-endpoint", "pod-worker")]:
            del self._states[key]
        self._last_delay.clear()


def _alive(record: Record) -> Iterable[Mapping[str, Any]]:
    """The containers of a snapshot that have an instance, ephemeral ones apart."""
    return (
        one
        for one in record["containers"].values()
        if one.get("kind") != "ephemeral" and one.get("state") != "waiting"
    )


_PLUGIN = {"registered": "registered", "expired": "expired"}

_HANDLERS = {
    "action": TransitionCounter._action,
    "checkpoint": TransitionCounter._checkpoint,
    "decision": TransitionCounter._decision,
    "moves": TransitionCounter._moves,
    "plugin": TransitionCounter._plugin,
    "pod": TransitionCounter._pod,
    "probe": TransitionCounter._probe,
    "process": TransitionCounter._process,
}
