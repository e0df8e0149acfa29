"""Runs a case: one node in memory, its plan carried out, everything judged while it goes on.

No thread and no socket takes part. The order of tasks, every latency, every id come from the case's seed.
"""

import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trio
from attrs import evolve, frozen

from cri_fake.behaviours import BehaviourProblem, Behaviours
from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.errors import CallerError, KubeletEmuError, PeerError, Problem
from kubelet_emu.gates import Gates
from kubelet_emu.lab.node import Node, NodeOptions
from kubelet_emu.lab.run import innermost
from kubelet_emu.settings import KubeletSettings
from kubelet_emu.sim.case import Case, Step, case_to_json
from kubelet_emu.sim.injector import Injector
from kubelet_emu.sim.liveness import Debt, Debts, owed
from kubelet_emu.sim.outcome import Finding, Outcome, SimVerdict
from kubelet_emu.sim.transitions import declared, transitions_of
from kubelet_emu.sim.views import pod_views
from kubelet_emu.trace.schema import Record, Trace
from node_host.loop import put_back, run
from node_host.order import make_order

__all__ = ["Reseed", "node_options", "run_case"]

BROKEN = "no-failure"
"""Name of the finding that the program under test broke."""
LIVENESS = "debts-paid"
"""Name of the finding that something was still owed to a pod long after the last fault."""
LOOK_SECONDS = 1.0
KEPT_SECONDS = 4.0
EXEMPT_SECONDS = 10.0
"""After so long what a real node never pays counts as overdue, and exempt: waiting for it is in vain."""
TURNOVER_SECONDS = 12.0
PROMPT_SECONDS = 4.0
"""A pod that restarts for ever is always owed something new. After ``TURNOVER_SECONDS`` it is left alone if
nothing has been owed for longer than ``PROMPT_SECONDS``."""


@frozen
class Reseed:
    """From the first record whose ``seq`` is at least ``record`` on, chance goes on as another seed would."""

    record: int
    seed: int


def run_case(
    case: Case,
    *,
    stop_at_record: int | None = None,
    reseed: Reseed | None = None,
    sink: Callable[[str], object] | None = None,
    listener: Callable[[Record], object] | None = None,
    liveness: bool = True,
) -> Outcome:
    """Run a case in a trio run of its own. The same arguments give the same outcome, byte for byte.

    ``stop_at_record`` ends the run with the first record whose ``seq`` is at least that. ``sink`` gets the
    trace's lines, ``listener`` its records, as they are made; a listener that returns True ends the run.
    With ``liveness`` the run goes on after the faults until the node owes its pods nothing any more
    (``kubelet_emu.sim.liveness``). Raises ``CallerError`` for a case that cannot be run as it is: a pod the
    API refuses, a device that is not there.
    """
    one = _Run(case, stop_at_record, reseed, sink, listener, liveness)
    order = one.order = make_order(case.schedule, case.seed, put_back)
    failure = ""
    try:
        run(one.go, seed=case.seed, order=order)
    except (KeyboardInterrupt, CallerError):
        raise
    except BaseException as error:
        reason = innermost(error)
        if isinstance(reason, KeyboardInterrupt | CallerError) or not isinstance(reason, Exception):
            raise reason from error
        failure = "".join(traceback.format_exception(reason))
        one.broke(reason)
    return one.outcome(failure)


def node_options(case: Case) -> NodeOptions:
    """The options of a case's node, without the seams of its plan. Raises ``CallerError``."""
    settings = KubeletSettings(gates=Gates(dict(case.gates)), bugs=case.bugs, fixes=case.fixes)
    options = NodeOptions(
        seed=case.seed, transport="memory", settings=settings, behaviours=_behaviours(case.behaviours)
    )
    if case.devices:
        from devices.load import load_devices
        from devices.setup import DeviceProblem, PluginSetup

        setups: tuple[PluginSetup, ...] = ()
        try:
            for source in case.devices.split():
                setups += load_devices(source)
        except DeviceProblem as error:
            raise CallerError([Problem(text, place or "devices") for place, text in error.problems]) from None
        options = evolve(options, devices=setups)
    return options


def _behaviours(given: Mapping[str, Any]) -> Behaviours | None:
    if not given:
        return None
    from cri_fake.behaviour_file import parse_behaviours

    try:
        return parse_behaviours(json.dumps(given, indent=0), file="behaviours")
    except BehaviourProblem as error:
        problems = [Problem(text, path=place) for place, text in error.problems]
        raise CallerError(problems) from None


def _excused(case: Case) -> tuple[str, ...]:
    """Containers that are told to be impossible to start."""
    given: Mapping[str, Any] = case.behaviours.get("containers") or {}
    found = [name for name, told in given.items() if told.get("startFailure") or told.get("imagePull")]
    if case.behaviours.get("images"):
        lists = ("initContainers", "containers", "ephemeralContainers")
        found += [c["name"] for pod in case.pods for key in lists for c in pod["spec"].get(key) or ()]
    return tuple(name.rpartition("/")[2].partition("#")[0] for name in found)


class _Run:
    """One run from its start to its outcome."""

    def __init__(
        self,
        case: Case,
        stop_at_record: int | None,
        reseed: Reseed | None,
        sink: Callable[[str], object] | None,
        listener: Callable[[Record], object] | None,
        liveness: bool,
    ) -> None:
        self._case = case
        self._stop_at = stop_at_record
        self._reseed = reseed
        self._listener = listener
        self._injector = Injector(case.plan)
        self._scope = trio.CancelScope()
        self._node: Node | None = None
        self._stopped = False
        self._pods: tuple[Mapping[str, Any], ...] = ()
        self._ended_seconds = 0.0
        self._extra: list[Finding] = []
        self._liveness = liveness
        self._debts_judged = 0
        self.order: Any = None
        names = [str(pod.get("metadata", {}).get("name", "")) for pod in case.pods]
        self._options = evolve(
            node_options(case),
            sink=sink,
            seams=self._injector.seams,
            header={"pods": names, "case": case_to_json(case)},
        )

    async def go(self) -> None:
        """The run itself."""
        with self._scope:
            async with Node(self._options) as node, trio.open_nursery() as nursery:
                self._node = node
                node.recorder.subscribe(self._look)
                self._injector.attach(node, nursery)
                self._create(node)
                nursery.start_soon(self._injector.run)
                await node.clock.sleep_until(node.recorder.zero_seconds + self._case.duration_seconds)
                self._injector.heal()
                await self._injector.settled()
                if self._liveness:
                    await self._pay(node)
                self._finish(node)
                nursery.cancel_scope.cancel()

    def _create(self, node: Node) -> None:
        problems: list[Problem] = []
        for one in self._case.documents:
            try:
                if one.get("kind", "Pod") == "Pod":
                    node.apply(one)
                else:
                    node.apply_object(one)
            except ApiError as error:
                problems.append(Problem(error.message, path="documents"))
        if problems:
            raise CallerError(problems)

    async def _pay(self, node: Node) -> None:
        """Let time pass until nothing is owed any more, and still is not some seconds later."""
        debts, excused = Debts(), _excused(self._case)
        restart_all = node.settings.gates.restart_all
        settled_at: float | None = None
        begun = node.clock.elapsed_seconds()
        while True:
            now = node.clock.elapsed_seconds()
            found = [
                evolve(debt, bound_seconds=EXEMPT_SECONDS) if self._exempt(debt) else debt
                for view in pod_views(node)
                for debt in owed(view, now_seconds=now, restart_all=restart_all, excused=excused)
            ]
            self._debts_judged += 1
            if not debts.take(found, now_seconds=now):
                if settled_at is not None and now >= settled_at + KEPT_SECONDS:
                    break
                settled_at = now if settled_at is None else settled_at
                await node.clock.sleep(KEPT_SECONDS)
            elif now >= begun + TURNOVER_SECONDS and debts.oldest_since() > now - PROMPT_SECONDS:
                break
            else:
                await node.clock.sleep(LOOK_SECONDS)
        last = node.recorder.records[-1]["seq"]
        for debt in debts.overdue:
            text = f"{debt.text}, {debt.bound_seconds:.0f} s after the last fault"
            rule = self._exempt(debt)
            if not rule:
                node.recorder.invariant(LIVENESS, pod=debt.pod, rules=(), message=text, evidence=[last])
            self._extra.append(Finding(invariant=LIVENESS, record=last, text=text, pod=debt.pod, exempt=rule))

    def _exempt(self, debt: Debt) -> str:
        """The rule by which a real node does not pay the debt either; empty for none, or if it is lifted."""
        return "" if debt.bug in self._case.bugs else debt.rule

    def _finish(self, node: Node) -> None:
        node.recorder.action("end")
        self._pods = tuple(node.store.list("Pod"))
        self._ended_seconds = node.clock.elapsed_seconds() - node.recorder.zero_seconds

    def _look(self, record: Record) -> None:
        """Every record, as it is made."""
        self._injector.look(record)
        seq: int = record["seq"]
        stop = self._stop_at is not None and seq >= self._stop_at
        if self._listener is not None and not self._stopped:
            stop = self._listener(record) is True or stop
        if self._reseed is not None and seq >= self._reseed.record:
            seed, self._reseed = self._reseed.seed, None
            self.order.reseed(seed)
            assert self._node is not None
            self._node.randoms.reseed(seed)
        if stop and not self._stopped:
            self._stopped = True
            assert self._node is not None
            self._finish(self._node)
            self._scope.cancel()

    def broke(self, error: Exception) -> None:
        """The program under test raised what it should not have."""
        node = self._node
        if node is None:
            if isinstance(error, PeerError):
                raise error
            last = -1
        else:
            self._finish(node)
            last = node.recorder.records[-1]["seq"]
        kind = "peer" if isinstance(error, KubeletEmuError) else type(error).__name__
        self._extra.append(Finding(invariant=BROKEN, record=last, text=f"{kind}: {error}"))

    def outcome(self, failure: str) -> Outcome:
        """What came of it."""
        node = self._node
        trace = node.trace if node is not None else Trace({"k": "header"}, ())
        findings = [*self._extra]
        judged = 0
        if node is not None:
            judged = self._debts_judged + sum(verdict.judged for verdict in node.monitor.verdicts())
            for one in (*node.monitor.violations, *node.monitor.exempted):
                findings.append(
                    Finding(
                        invariant=one.invariant,
                        record=one.record.get("seq", -1),
                        text=one.message,
                        pod=one.pod,
                        rules=one.rules,
                        exempt=one.exempt,
                    )
                )
        verdict: SimVerdict = "stopped" if self._stopped else "ok"
        if failure:
            verdict = "failed"
        elif any(not one.exempt for one in findings):
            verdict = "violated"
        taken = dict(transitions_of(trace.records))
        if node is not None and not any(record["k"] == "moves" for record in trace.records[-3:]):
            taken |= node.recorder.moves  # a run that was cut off has not told of them yet
        known = frozenset(declared())
        return Outcome(
            case=self._case,
            trace=trace,
            findings=tuple(findings),
            verdict=verdict,
            transitions={key: count for key, count in taken.items() if key in known},
            calls=self._injector.calls,
            simulated_seconds=round(self._ended_seconds, 6),
            pods=self._pods,
            judged=judged,
            failure=failure,
        )


def steps(lines: Sequence[str]) -> tuple[Step, ...]:
    """Steps of lines such as ``@5s crash kubelet``. Raises ``CallerError``."""
    return tuple(map(Step.parse, lines))
