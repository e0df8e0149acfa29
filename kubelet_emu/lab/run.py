"""The main job: run pods on a node of its own until they settle, and give back all that can be known of it.

::

    result = run([pod], RunOptions(node=NodeOptions(seed=1)))
    print(result.ending.kind, result.pods[0]["status"]["phase"])

What a person sees while it runs comes through a ``RunListener``; what is shown at the end is made from the
``RunResult`` by ``kubelet_emu.lab.report``.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import trio
from attrs import evolve, field, frozen

from kubelet_emu.api.codec import pod_to_json
from kubelet_emu.api.types import Pod
from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.apiserver.store import WatchEvent
from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.lab.ending import EndWatch
from kubelet_emu.lab.expectations import Expectation, PodCheck, judge
from kubelet_emu.lab.interrupts import Interrupts
from kubelet_emu.lab.invariants import Verdict
from kubelet_emu.lab.log_lines import InstanceLog
from kubelet_emu.lab.logs import read_logs
from kubelet_emu.lab.node import Node, NodeOptions
from kubelet_emu.lab.static import StaticPods
from kubelet_emu.lab.until import SETTLED, Ending, Until, UntilDuration
from kubelet_emu.trace.schema import Record, Trace
from node_host.loop import Pace
from node_host.loop import run as run_loop

if TYPE_CHECKING:  # read only where something is to be done
    from kubelet_emu.lab.deeds import Deed

__all__ = [
    "MAX_SECONDS",
    "RunListener",
    "RunOptions",
    "RunResult",
    "absent_resources",
    "as_document",
    "innermost",
    "opaque_processes",
    "run",
    "run_pods",
]

MAX_SECONDS = 1800.0
"""Simulated time after which a run ends although what it waits for has not come about."""

PULSE_WALL_SECONDS = 0.1
"""How often a listener that asks for a pulse gets one."""

Object = Mapping[str, Any]


class RunListener:
    """What is told of a run while it goes on. Methods must not block and must not raise."""

    wants_pulse = False
    """Whether ``pulse`` is to be called, about every ``PULSE_WALL_SECONDS`` of the machine's time."""

    def pod(self, obj: Object, *, now_ns: int, deleted: bool) -> None:
        """A pod object changed; ``now_ns`` is the node's time of day."""

    def pulse(self, simulated_seconds: float, wall_seconds: float) -> None:
        """Time passes."""

    def stop_wanted(self) -> bool:
        """Asked at each change: True ends the run as Ctrl-C would."""
        return False


@frozen(kw_only=True)
class RunOptions:
    """How pods are run. ``max_seconds`` None: ``MAX_SECONDS``, or what ``until`` asks for if that is more."""

    node: NodeOptions = field(factory=NodeOptions)
    until: Until = SETTLED
    max_seconds: float | None = None
    expectations: tuple[Expectation, ...] = ()
    deeds: "tuple[Deed, ...]" = ()
    pace: Pace = Pace.VIRTUAL
    rate: float = 1.0

    @property
    def limit_seconds(self) -> float:
        """Simulated time after which the run ends in any case."""
        if self.max_seconds is not None:
            return self.max_seconds
        return max(MAX_SECONDS, self.until.seconds if isinstance(self.until, UntilDuration) else 0.0)


@frozen(kw_only=True)
class RunResult:
    """All that is known of a run that is over. ``pods`` and ``events`` are API objects in JSON shape."""

    ending: Ending
    trace: Trace
    pods: tuple[Object, ...]
    events: tuple[Object, ...]
    checks: tuple[PodCheck, ...]
    invariants: tuple[Verdict, ...]
    logs: tuple[InstanceLog, ...]
    now_ns: int
    zero_ns: int
    """Time of day at second 0 of the trace."""
    wall_seconds: float
    calls: int
    """CRI calls of the kubelet, polls included."""
    signum: int = 0
    """The signal that ended the run, 0 for none."""

    @property
    def violated(self) -> tuple[Verdict, ...]:
        """The invariants that did not hold."""
        return tuple(verdict for verdict in self.invariants if not verdict.holds)

    @property
    def failed_checks(self) -> tuple[PodCheck, ...]:
        """The checks that do not hold."""
        return tuple(check for check in self.checks if not check.result.ok)

    @property
    def ok(self) -> bool:
        """Whether the run ended as asked and every check and invariant held."""
        return self.ending.as_asked and not self.violated and not self.failed_checks


def run(
    pods: Sequence[Pod | Object],
    options: RunOptions | None = None,
    *,
    objects: Iterable[Object] = (),
    listener: RunListener | None = None,
) -> RunResult:
    """Run pods in a trio run of its own; ``objects`` (ConfigMaps, Secrets …) are created before them.

    Raises ``CallerError`` for pods the API refuses and for a runtime that is not there, ``PeerError`` for one
    that stops answering, ``KeyboardInterrupt`` for a signal that came before the node was up.
    """
    chosen = options or RunOptions()
    try:
        return run_loop(
            lambda: run_pods(pods, chosen, objects=objects, listener=listener),
            seed=chosen.node.seed,
            pace=chosen.pace,
            rate=chosen.rate,
        )
    except BaseExceptionGroup as group:
        raise innermost(group) from group


def innermost(error: BaseException) -> BaseException:
    """The reason inside groups: what a person did before what this program did."""
    leaves: list[BaseException] = []
    pending: list[BaseException] = [error]
    while pending:
        one = pending.pop(0)
        if isinstance(one, BaseExceptionGroup):
            pending += cast("BaseExceptionGroup[BaseException]", one).exceptions
        else:
            leaves.append(one)
    for wanted in (KeyboardInterrupt, CallerError):
        for leaf in leaves:
            if isinstance(leaf, wanted):
                return leaf
    return leaves[0] if len(leaves) == 1 else error


async def run_pods(
    pods: Sequence[Pod | Object],
    options: RunOptions,
    *,
    objects: Iterable[Object] = (),
    listener: RunListener | None = None,
) -> RunResult:
    """The same inside a trio run that is there already."""
    given = [pod_to_json(pod) if isinstance(pod, Pod) else pod for pod in pods]
    outer = trio.CancelScope()
    result: RunResult | None = None
    with Interrupts(outer) as interrupts, outer:
        one = _Run(options, listener or RunListener(), interrupts)
        result = await one.run(given, list(objects))
    if result is None:
        raise KeyboardInterrupt
    return result


class _Run:
    """One run: from the start of its node to its result."""

    def __init__(self, options: RunOptions, listener: RunListener, interrupts: Interrupts) -> None:
        self._options = options
        self._listener = listener
        self._interrupts = interrupts
        self._wall_start = time.perf_counter()
        self._scope = trio.CancelScope()

    async def run(self, given: Sequence[Object], objects: Sequence[Object]) -> RunResult:
        names = [str(pod.get("metadata", {}).get("name", "")) for pod in given]
        node_options = self._options.node
        if all(names) and not node_options.static:
            node_options = evolve(node_options, header={"pods": names, **node_options.header})
        async with Node(node_options) as node:
            self._node = node
            self._static = StaticPods(node) if node_options.static else None
            pulse = _Pulse(self._pulse) if self._listener.wants_pulse else None
            if pulse is not None:
                trio.lowlevel.add_instrument(pulse)
            try:
                ending = await self._until_over(given, objects)
            finally:
                if pulse is not None:
                    trio.lowlevel.remove_instrument(pulse)
            node.recorder.action("end")
            wall = time.perf_counter() - self._wall_start
            found = self._inspect()
            events, now_ns, calls = tuple(node.events()), node.clock.now_ns(), node.calls.calls
            logs = read_logs(node.files, node.settings.pod_logs_dir, found)
        trace = node.trace
        return RunResult(
            ending=ending,
            trace=trace,
            pods=found,
            events=events,
            checks=judge(self._options.expectations, trace),
            invariants=node.monitor.verdicts(),
            logs=logs,
            now_ns=now_ns,
            zero_ns=node.clock.epoch_ns + round(node.recorder.zero_seconds * 1e9),
            wall_seconds=wall,
            calls=calls,
            signum=self._interrupts.signum,
        )

    # -- what is done --

    async def _until_over(self, given: Sequence[Object], objects: Sequence[Object]) -> Ending:
        node = self._node
        for obj in objects:
            node.apply_object(obj)
        if self._static is None:
            node.store.listen("Pod", self._pod_changed)
        async with trio.open_nursery() as nursery:
            if self._static is not None:
                self._static.listen(lambda obj: self._tell(obj, deleted=False))
                nursery.start_soon(self._static.run)
            await self._apply(given)
            deeds = self._options.deeds
            if deeds:
                from kubelet_emu.lab.deeds import do_all

                spaces = {name: space for space, name in map(_name_of, given)}
                zero = node.recorder.zero_seconds
                nursery.start_soon(partial(do_all, node, deeds, spaces, zero_seconds=zero))
            watch = EndWatch(
                self._options.until,
                max_seconds=self._options.limit_seconds,
                now=node.clock.elapsed_seconds,
                zero_seconds=node.recorder.zero_seconds,
                pods=self._inspect,
                busy_until_seconds=max((deed.action.at_seconds for deed in deeds), default=0.0),
            )
            ending = watch.ending("interrupted")
            self._interrupts.scope = self._scope
            with node.recorder.listening(watch.look), self._scope:
                ending = await watch.wait()
            if self._scope.cancelled_caught:
                ending = watch.ending("interrupted")
            nursery.cancel_scope.cancel()
        return ending

    async def _apply(self, given: Sequence[Object]) -> None:
        problems: list[Problem] = []
        for number, pod in enumerate(given):
            if self._static is not None:
                self._static.write(pod)
                continue
            if number:
                await self._node.delay_action()
            try:
                self._node.apply(pod)
            except ApiError as error:
                problems.append(Problem(error.message))
        if problems:
            raise CallerError(problems)

    def _inspect(self) -> tuple[Object, ...]:
        if self._static is not None:
            return self._static.objects()
        return tuple(self._node.store.list("Pod"))

    # -- what is told --

    def _pod_changed(self, change: WatchEvent) -> None:
        self._tell(change.object, deleted=change.type == "DELETED")

    def _tell(self, obj: Object, *, deleted: bool) -> None:
        self._listener.pod(obj, now_ns=self._node.clock.now_ns(), deleted=deleted)
        if self._listener.stop_wanted():
            self._scope.cancel()

    def _pulse(self) -> None:
        wall = time.perf_counter() - self._wall_start
        elapsed = self._node.clock.elapsed_seconds() - self._node.recorder.zero_seconds
        self._listener.pulse(max(elapsed, 0.0), wall)


def _name_of(pod: Object) -> tuple[str, str]:
    metadata: Mapping[str, Any] = pod.get("metadata", {})
    return str(metadata.get("namespace") or "default"), str(metadata.get("name", ""))


class _Pulse(trio.abc.Instrument):
    """Calls back now and then while the loop turns; it is no task, so that it changes nothing in a run."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._next = 0.0

    def before_io_wait(self, timeout: float) -> None:
        """Called by trio in each turn of the loop."""
        now = time.perf_counter()
        if now >= self._next:
            self._next = now + PULSE_WALL_SECONDS
            self._call()


def opaque_processes(records: Iterable[Record]) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """Containers whose program is not emulated, by pod and container, with their command lines."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for record in records:
        if record["k"] == "process" and record.get("opaque"):
            container = str(record["container"]).partition("#")[0]
            found.setdefault((record["pod"], container), tuple(record.get("argv", ())))
    return found


def absent_resources(
    pods: Iterable[Object], records: Iterable[Record]
) -> Mapping[tuple[str, str], Mapping[str, str]]:
    """Extended resources asked for that the node never had, by pod and container, with their amounts.

    A kubelet takes such pods in all the same (POD-402): it trusts the scheduler not to send them. Empty where
    the trace shows no node, as without an API server.
    """
    nodes = [record for record in records if record["k"] == "node"]
    if not nodes:
        return {}
    known = {name for node in nodes for name in node.get("capacity") or ()}
    found: dict[tuple[str, str], dict[str, str]] = {}
    for pod in pods:
        for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
            resources: Mapping[str, Any] = container.get("resources") or {}
            limits: Mapping[str, Any] = resources.get("limits") or {}
            absent = {
                name: str(amount)
                for name, amount in limits.items()
                if "/" in name and "kubernetes.io/" not in name and name not in known
            }
            if absent:
                found[pod["metadata"]["name"], container["name"]] = absent
    return found


def as_document(pods: Sequence[Object]) -> Object:
    """What ``kubectl get -o json`` prints for these pods: the object, or a List of several."""
    if len(pods) == 1:
        return pods[0]
    return {"apiVersion": "v1", "items": list(pods), "kind": "List", "metadata": {"resourceVersion": ""}}
