"""A node to work with from plain Python, without async: start it, apply pods, let time pass, look.

::

    with Session(seed=1, transport="memory") as node:
        node.apply("pod.yaml")
        node.advance("35s")
        node.advance(until="Ready")
        assert node.check("final main.restartCount = 1").ok

The node lives in a trio run in a thread of its own. That thread stands still, and with it the node's time,
except while one of the methods below is at work, so that one thread runs at a time and a seed still fixes
everything that happens.
"""

import os
import queue
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast, overload

import trio
from attrs import evolve, frozen

from kubelet_emu.api.check import check_input
from kubelet_emu.api.codec import pod_to_json
from kubelet_emu.api.manifests import LoadedInput, load, load_text
from kubelet_emu.api.types import Pod
from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.lab.annotated import annotated_devices
from kubelet_emu.lab.checks import CheckResult, evaluate
from kubelet_emu.lab.invariants import Verdict
from kubelet_emu.lab.log_lines import InstanceLog
from kubelet_emu.lab.logs import read_logs
from kubelet_emu.lab.node import Node, NodeOptions
from kubelet_emu.lab.run import innermost
from kubelet_emu.lab.waiting import advance_until
from kubelet_emu.trace.schema import Record, Trace
from node_host.loop import Pace
from node_host.loop import run as run_loop

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Session"]

T = TypeVar("T")
Duration = str | float

WITHIN_SECONDS = 1800.0
"""How long ``advance(until=...)`` waits unless told otherwise."""

_REFERRED_TO = ("ConfigMap", "Secret", "ResourceClaim", "ResourceClaimTemplate")

JOIN_SECONDS = 30.0
"""How long closing waits for the node's thread."""


@frozen
class _Answer:
    """What came of a command: a value, or what it raised."""

    value: Any = None
    error: BaseException | None = None


class _Worker:
    """The thread of a node. Commands go in one at a time; it does nothing between them."""

    def __init__(self, options: NodeOptions) -> None:
        self._options = options
        self._commands: queue.SimpleQueue[Callable[[Node], Awaitable[Any]] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope: trio.CancelScope | None = None
        self.over = False
        self._thread = threading.Thread(target=self._main, name="kubelet-emu node", daemon=True)
        self._thread.start()
        self._take()

    def call(self, command: Callable[[Node], Awaitable[Any]]) -> Any:
        """Have a command carried out; gives back what it returns and raises what it raises."""
        if self.over:
            raise CallerError([Problem("the session is closed", hint="make a new Session")])
        self._commands.put(command)
        return self._take()

    def close(self) -> None:
        """End the node and its thread. May be called twice and from a finalizer."""
        if not self.over:
            self.over = True
            self._commands.put(None)
            self._thread.join(JOIN_SECONDS)

    def _take(self) -> Any:
        try:
            answer = self._answers.get()
        except KeyboardInterrupt:
            # The node goes on until it notices; the next command must not find this one's answer.
            token, scope = self._token, self._scope
            if token is not None and scope is not None:
                token.run_sync_soon(scope.cancel)
                self._answers.get()
            raise
        if answer.error is not None:
            raise answer.error
        return answer.value

    # -- in the thread --

    def _main(self) -> None:
        pace = Pace.REAL if self._options.cri_endpoint else Pace.VIRTUAL
        error: BaseException = CallerError([Problem("the node has ended")])
        try:
            run_loop(self._serve, seed=self._options.seed, pace=pace)
        except BaseException as raised:
            error = innermost(raised)
        if not self.over:
            self.over = True
            self._answers.put(_Answer(error=error))

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with Node(self._options) as node:
            self._answers.put(_Answer())
            while True:
                # Waiting blocks the whole loop on purpose: no time passes and no task moves meanwhile.
                command = self._commands.get()
                if command is None:
                    return
                answer = _Answer(error=KeyboardInterrupt())
                with trio.CancelScope() as self._scope:
                    answer = await _carry_out(command, node)
                self._scope = None
                self._answers.put(answer)


async def _carry_out(command: Callable[[Node], Awaitable[Any]], node: Node) -> _Answer:
    try:
        return _Answer(await command(node))
    except Exception as error:
        return _Answer(error=error)


class Session:
    """One node, used from one thread. Options are those of ``NodeOptions``, by name.

    Starts when it is entered or first used; ``close`` ends it, as do leaving the ``with`` block and
    forgetting the object. Raises ``CallerError`` on starting for options that do not go together and for a
    runtime that is not there.
    """

    def __init__(self, options: NodeOptions | None = None, /, **changes: Any) -> None:
        self._options = evolve(options or NodeOptions(), **changes)
        self._worker: _Worker | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None

    def __enter__(self) -> Self:
        self._started()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the node. What was inspected before stays valid."""
        if self._worker is not None:
            self._worker.close()

    # -- what a person does --

    @overload
    def apply(self, what: Pod | Mapping[str, Any]) -> Pod: ...

    @overload
    def apply(self, what: "str | os.PathLike[str]") -> tuple[Pod, ...]: ...

    def apply(self, what: "Pod | Mapping[str, Any] | str | os.PathLike[str]") -> Pod | tuple[Pod, ...]:
        """Create pods, as ``kubectl apply`` does: a pod, its JSON form, a path of manifests, or YAML text.

        A text is taken for YAML if it has more than one line. ConfigMaps and Secrets beside the pods are
        created first, as are ResourceClaims, and a node without device plugins gets those that manifests
        ask for (``kubelet_emu.lab.annotated``). Raises ``CallerError`` with all problems, where known with
        file and line.
        """
        if isinstance(what, str | os.PathLike):
            text = os.fspath(what)
            loaded = load_text(text, file="<text>") if "\n" in text else load([text])
            return self._apply_loaded(loaded)
        given = pod_to_json(what) if isinstance(what, Pod) else dict(what)
        return self._call(lambda node: node.apply({"apiVersion": "v1", "kind": "Pod", **given}))

    def _apply_loaded(self, loaded: LoadedInput) -> tuple[Pod, ...]:
        check_input(loaded, gates=self._options.settings.gates).raise_problems()
        setups = annotated_devices(loaded.objects)

        async def create(node: Node) -> tuple[Pod, ...]:
            if node.fleet is None:
                await node.add_devices(setups)
            for item in loaded.objects:
                if item.kind in _REFERRED_TO:
                    node.apply_object(item.json)
            return tuple(node.apply(item.json) for item in loaded.objects if item.kind == "Pod")

        return self._await(create)

    def delete(self, name: str, *, namespace: str = "default", grace_seconds: int | None = None) -> None:
        """Delete a pod, as ``kubectl delete`` does; raises ``CallerError`` if there is none."""
        self._call(lambda node: node.delete(name, namespace=namespace, grace_seconds=grace_seconds))

    def tell(self, *exits: str) -> None:
        """Say how instances yet to start will end, in the form of ``--exit``: ``train#0=1@30s``."""
        from cri_fake.behaviours import BehaviourProblem, Behaviours, parse_exit

        told = Behaviours()
        for text in exits:
            try:
                target, behaviour = parse_exit(text)
            except BehaviourProblem as error:
                raise CallerError([Problem(message) for _, message in error.problems]) from None
            told = told.merged_with(Behaviours({target: behaviour}))

        def add(node: Node) -> None:
            if node.runtime is None:
                raise CallerError([Problem("this needs the built-in runtime")])
            node.runtime.add_behaviours(told)

        self._call(add)

    def exec(
        self, pod: str, container: str, command: Sequence[str], *, namespace: str = "default"
    ) -> tuple[int, bytes, bytes]:
        """Run a command in a running container: exit code, standard output and error."""
        return self._await(lambda node: node.exec(namespace, pod, container, command))

    def restart_kubelet(self, *, down: Duration = 0) -> None:
        """End the kubelet, wait, start a new one that knows only what lies on disk, in CRI and in the API."""
        seconds = _seconds(down)
        self._await(lambda node: node.restart_kubelet(down_seconds=seconds))

    def restart_runtime(self, *, down: Duration = 1) -> None:
        """Restart the runtime's daemon; containers run on meanwhile."""
        seconds = _seconds(down)
        self._await(lambda node: node.restart_runtime(down_seconds=seconds))

    def reboot(self, *, down: Duration = 10, forget: bool = False) -> None:
        """Lose the power and come up again: no process survives, memory volumes are empty.

        With ``forget`` the runtime has lost its records of sandboxes and containers too.
        """
        seconds = _seconds(down)
        self._await(lambda node: node.reboot(down_seconds=seconds, forget=forget))

    # -- time --

    def advance(
        self,
        by: Duration | None = None,
        *,
        until: str | None = None,
        within: Duration | None = None,
        pod: str = "",
    ) -> bool:
        """Let time pass: ``by`` so much, or ``until`` something holds.

        ``until`` is a phase (``Succeeded``) or a condition (``Ready``) of every pod, ``settled``, or a check
        on one pod, ``pod`` or the first (``final main.restartCount = 1``). It is waited for ``by`` or
        ``within`` that time, by default ``WITHIN_SECONDS``. Returns whether it held in time.
        """
        if until is None:
            if by is None:
                hint = "advance('35s'), or advance(until='Ready')"
                raise CallerError([Problem("say how long, or until what", hint=hint)])
            seconds = _seconds(by)
            self._await(lambda node: node.advance(seconds))
            return True
        limit = _seconds(by if by is not None else WITHIN_SECONDS if within is None else within)
        return self._await(lambda node: advance_until(node, until, within_seconds=limit, pod=pod))

    def step(self) -> Record:
        """Let time pass until the next thing happens, and give its record back."""
        return self._await(lambda node: node.step())

    @property
    def now(self) -> float:
        """Seconds since the first pod was created (before that: since the node was started)."""
        return self._call(lambda node: node.clock.elapsed_seconds() - node.recorder.zero_seconds)

    # -- inspection --

    def pod(self, name: str, namespace: str = "default") -> Pod:
        """The pod as the API has it. Raises ``KeyError`` if there is none."""
        return self._call(lambda node: node.pod(name, namespace))

    def pods(self) -> tuple[Pod, ...]:
        """All pods, by namespace and name."""
        return self._call(lambda node: node.pods())

    def events(self) -> tuple[Mapping[str, Any], ...]:
        """All events, as API objects."""
        return self._call(lambda node: tuple(node.events()))

    def logs(self) -> tuple[InstanceLog, ...]:
        """What the containers of all pods have printed, an entry an instance."""
        return self._call(
            lambda node: read_logs(node.files, node.settings.pod_logs_dir, node.store.list("Pod"))
        )

    def check(self, check: str, *, pod: str = "") -> CheckResult:
        """Judge a check (``docs/checks.md``) on what has happened so far, for ``pod`` or the first one."""
        return evaluate(check, self.trace, pod=pod)

    @property
    def trace(self) -> Trace:
        """Everything recorded so far."""
        return self._call(lambda node: node.trace)

    @property
    def invariants(self) -> tuple[Verdict, ...]:
        """The verdict on each invariant so far."""
        return self._call(lambda node: node.monitor.verdicts())

    def timeline(self, pod: str = "", *, width: int = 100) -> str:
        """The picture of a pod's life so far; of the first pod if none is named."""
        from kubelet_emu.lab.report.text import plain
        from kubelet_emu.lab.report.timeline import timeline

        trace = self.trace
        return "\n".join(plain(timeline(trace, pod or trace.pods[0], width=width)))

    # -- internals --

    def _started(self) -> _Worker:
        if self._worker is None:
            self._worker = _Worker(self._options)
            self._finalizer = weakref.finalize(self, self._worker.close)
        return self._worker

    def _call(self, look: Callable[[Node], T]) -> T:
        async def command(node: Node) -> T:
            return look(node)

        return self._await(command)

    def _await(self, command: Callable[[Node], Awaitable[T]]) -> T:
        try:
            return cast("T", self._started().call(command))
        except ApiError as error:
            raise CallerError([Problem(error.message)]) from error


def _seconds(duration: Duration) -> float:
    from cri_fake.behaviours import parse_duration

    try:
        return parse_duration(duration)
    except ValueError as error:
        raise CallerError([Problem(str(error))]) from None
