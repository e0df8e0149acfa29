"""Running scenarios for conformance: on a node of ours, or on a kubelet of ours at another runtime.

What a node cannot offer becomes ``ScenarioSkipped`` with the reason; whatever else goes wrong becomes one
error with a text, also if it comes out of a nursery. Scenarios run one by one, or spread over processes.
"""

import signal
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, cast

from attrs import evolve, field, frozen

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.errors import CallerError, KubeletEmuError, Problem
from kubelet_emu.lab.conform import (
    Against,
    Conformance,
    RunScenario,
    ScenarioReport,
    ScenarioSkipped,
    judge,
)
from kubelet_emu.lab.conform_report import explain as as_explanation
from kubelet_emu.lab.node import NodeOptions, Transport
from kubelet_emu.lab.runner import run_scenario
from kubelet_emu.lab.scenarios import Scenario
from kubelet_emu.lab.side_by_side import run_side_by_side, sharing
from kubelet_emu.settings import KubeletSettings
from kubelet_emu.trace.ndjson import write_lines
from kubelet_emu.trace.schema import Trace
from node_host.clock import DEFAULT_EPOCH_NS, NodeClock, shared_epoch_ns
from node_host.loop import Pace, run
from trio_grpc import StatusError, UnixChannel
from trio_grpc.services.runtime_v1 import ImageServiceClient, RuntimeServiceClient

__all__ = ["SEEDS", "Bench", "Judging", "conform_on", "explain", "not_offered", "probed", "single_error"]

SEEDS = tuple(range(1, 21))
"""The seeds in which a recording is looked for, and all of which have to meet the expectations."""

SECOND_IMAGE = "docker.io/library/busybox:1.35"


@frozen(kw_only=True)
class Bench:
    """What scenarios are run on. Can be sent to another process.

    ``cri_endpoint`` names a runtime that is not ours; time is then real. ``rate`` is node seconds per second
    of the machine, 0 for virtual time. ``offers`` are words of ``needs`` that a foreign runtime has.
    """

    transport: Transport = "memory"
    latency: str = "measured"
    cri_endpoint: str = ""
    rate: float = 0.0
    offers: frozenset[str] = frozenset()
    settings: KubeletSettings = field(factory=KubeletSettings)
    traces: Path | None = None
    """Folder for the trace of each run, ``ID.SEED.jsonl``; such files can serve as recordings."""

    @property
    def virtual(self) -> bool:
        """Whether time jumps."""
        return not self.rate and not self.cri_endpoint

    def run(self, scenario: Scenario, seed: int) -> Trace:
        """Run a scenario; raises ``ScenarioSkipped`` or another ``KubeletEmuError``."""
        lacking = not_offered(scenario, self)
        if lacking:
            raise ScenarioSkipped(lacking)
        with single_error():
            trace = run_scenario(scenario, self.options(seed), pace=self.pace, rate=self.rate or 1.0)
        self.keep(scenario, seed, trace)
        return trace

    def keep(self, scenario: Scenario, seed: int, trace: Trace) -> None:
        """Write a trace down, if traces are kept; raises ``CallerError`` if that is not possible."""
        if self.traces is None:
            return
        path = self.traces / f"{scenario.id}.{seed}.jsonl"
        try:
            path.write_text("".join(write_lines(trace)), encoding="utf-8")
        except OSError as error:
            raise CallerError([Problem(f"cannot be written: {error.strerror}", file=str(path))]) from None

    @property
    def pace(self) -> Pace:
        """Virtual or real time."""
        return Pace.VIRTUAL if self.virtual else Pace.REAL

    def options(self, seed: int) -> NodeOptions:
        """How a node is built for a run."""
        return NodeOptions(
            seed=seed,
            transport=self.transport,
            latency=self.latency,
            cri_endpoint=self.cri_endpoint,
            settings=self.settings,
            epoch_ns=self._epoch_ns(),
        )

    def _epoch_ns(self) -> int:
        """The time of day at which a run starts: that of a foreign runtime has to be ours."""
        if not self.cri_endpoint:
            return DEFAULT_EPOCH_NS
        return shared_epoch_ns(time.time_ns(), self.rate or 1.0)


def not_offered(scenario: Scenario, bench: Bench) -> str:
    """Why a scenario cannot be run on a bench; empty if it can."""
    if not bench.cri_endpoint:
        return ""
    if "second-image" in scenario.needs and "second-image" not in bench.offers:
        return f"needs second-image: the runtime has no image {SECOND_IMAGE}"
    if any(action.do == "reboot-node" for action in scenario.actions):
        return "needs reboot-node: a machine that is not emulated is not rebooted"
    if any(action.do == "restart-runtime" for action in scenario.actions):
        return "needs restart-runtime: the daemon of a runtime that is not ours is not restarted"
    return ""


def probed(bench: Bench) -> Bench:
    """Find out what the runtime at the endpoint offers. Raises ``CallerError`` if none answers there."""

    async def ask() -> bool:
        async with UnixChannel(bench.cri_endpoint, clock=NodeClock()) as channel:
            try:
                version = cri.VersionRequest(version="0.1.0")
                await RuntimeServiceClient(channel).Version(version, timeout_seconds=10.0)
                wanted = cri.ImageStatusRequest(image=cri.ImageSpec(image=SECOND_IMAGE))
                reply = await ImageServiceClient(channel).ImageStatus(wanted, timeout_seconds=10.0)
            except StatusError as error:
                text = f"no CRI v1 runtime answers at {bench.cri_endpoint}: {error.details}"
                hint = "check that it runs and that you may open its socket"
                raise CallerError([Problem(text, hint=hint)]) from None
        return bool(reply.image.id)

    with single_error():
        second = run(ask, seed=0, pace=Pace.REAL)
    return evolve(bench, offers=frozenset({"second-image"}) if second else frozenset[str]())


@contextmanager
def single_error() -> Generator[None, None, None]:
    """Turn whatever goes wrong in a run into one error of ours, also what a nursery raises as a group."""
    try:
        yield
    except KubeletEmuError:
        raise
    except Exception as error:
        leaves = list(
            _leaves(cast("ExceptionGroup[Any]", error)) if isinstance(error, ExceptionGroup) else [error]
        )
        for leaf in leaves:
            if isinstance(leaf, KubeletEmuError):
                raise leaf from None
        raise _fault(leaves[0]) from error
    except BaseExceptionGroup as group:
        for leaf in _leaves(group):
            if not isinstance(leaf, Exception):
                raise leaf from None  # an interrupt, an exit
        raise


def _fault(error: BaseException) -> KubeletEmuError:
    """A fault of this program, told so that it can be reported."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return KubeletEmuError(
        f"a fault of kubelet-emu, please report it: {type(error).__name__}: {error}{where}"
    )


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)  # pyright: ignore[reportUnknownArgumentType]
        else:
            yield error


# -- judging many --


@frozen(kw_only=True)
class Judging:
    """How scenarios are judged: see ``kubelet_emu.lab.conform.judge``. Can be sent to another process."""

    seeds: tuple[int, ...] = SEEDS[:1]
    search: tuple[int, ...] = SEEDS[1:]
    against: Against = "both"
    recordings: Path | None = None


def conform_on(
    bench: Bench,
    scenarios: Sequence[Scenario],
    judging: Judging,
    *,
    jobs: int = 1,
    begun: Callable[[str], None] | None = None,
    done: Callable[[ScenarioReport], None] | None = None,
) -> Conformance:
    """Judge scenarios on a bench, ``jobs`` at a time; ``done`` is told of each, as they get ready.

    With a runtime of ours each has a node of its own, in one of so many processes; with another one they are
    pods beside each other on one node (``begun`` is told which), for two kubelets must not share a runtime.
    Raises ``CallerError`` for recordings that cannot be read.
    """
    reports: dict[str, ScenarioReport] = {}

    def ready(report: ScenarioReport) -> None:
        reports[report.id] = report
        if done is not None:
            done(report)

    if bench.cri_endpoint:
        _beside(bench, scenarios, judging, jobs, begun or (lambda _: None), ready)
    elif min(jobs, len(scenarios)) <= 1:
        for scenario in scenarios:
            ready(_judge_one(bench, judging, scenario))
    else:
        _spread(bench, scenarios, judging, min(jobs, len(scenarios)), ready)
    return Conformance(tuple(reports[scenario.id] for scenario in scenarios), judging.against)


def explain(bench: Bench, judging: Judging, scenario: Scenario) -> tuple[str, bool]:
    """Run one scenario; what it pins down and what came out, and whether it is in order."""
    report = _judge_one(bench, judging, scenario)
    return as_explanation(scenario, report), report.ok


def _spread(
    bench: Bench,
    scenarios: Sequence[Scenario],
    judging: Judging,
    jobs: int,
    ready: Callable[[ScenarioReport], None],
) -> None:
    others = set(active_children())
    # Spawned: a fork would take the gRPC threads of this process along, and hang.
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_die_quietly)
    try:
        for future in as_completed(_submit(pool, bench, scenarios, judging)):
            ready(future.result())
    except BaseException:
        for child in set(active_children()) - others:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _die_quietly() -> None:
    """In a process of the pool: Ctrl-C is for the parent to report."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _beside(
    bench: Bench,
    scenarios: Sequence[Scenario],
    judging: Judging,
    jobs: int,
    begun: Callable[[str], None],
    ready: Callable[[ScenarioReport], None],
) -> None:
    for scenario in scenarios:
        if not_offered(scenario, bench):
            ready(_judge_one(bench, judging, scenario))
    offered = [scenario for scenario in scenarios if not not_offered(scenario, bench)]
    for group in sharing(offered, at_once=jobs):
        longest = max(scenario.run_for_seconds for scenario in group)
        names = ", ".join(scenario.id for scenario in group)
        begun(f"{len(group)} for {longest / (bench.rate or 1.0):.0f} s: {names}")
        runner = _GroupRunner(bench, group) if len(group) > 1 else bench.run
        for scenario in group:
            ready(_judge_one(bench, judging, scenario, runner))


class _GroupRunner:
    """Runs a whole group when the first of its scenarios is asked for, and keeps what the others will ask."""

    def __init__(self, bench: Bench, group: Sequence[Scenario]) -> None:
        self._bench = bench
        self._group = group
        self._traces: dict[int, dict[str, Trace] | KubeletEmuError] = {}

    def __call__(self, scenario: Scenario, seed: int) -> Trace:
        if seed not in self._traces:
            bench = self._bench
            try:
                with single_error():
                    self._traces[seed] = run_side_by_side(
                        self._group, bench.options(seed), pace=bench.pace, rate=bench.rate or 1.0
                    )
            except KubeletEmuError as error:
                self._traces[seed] = error
        outcome = self._traces[seed]
        if isinstance(outcome, KubeletEmuError):
            raise outcome
        self._bench.keep(scenario, seed, outcome[scenario.id])
        return outcome[scenario.id]


def _submit(
    pool: ProcessPoolExecutor, bench: Bench, scenarios: Sequence[Scenario], judging: Judging
) -> list[Future[ScenarioReport]]:
    """Hand all scenarios out, the longest first, so that none is left alone at the end."""
    longest_first = sorted(scenarios, key=lambda scenario: -scenario.run_for_seconds)
    return [pool.submit(partial(_judge_one, bench, judging), scenario) for scenario in longest_first]


def _judge_one(
    bench: Bench, judging: Judging, scenario: Scenario, run_one: RunScenario | None = None
) -> ScenarioReport:
    begin = time.perf_counter()
    report = judge(
        scenario,
        run_one or bench.run,
        seeds=judging.seeds,
        search=judging.search,
        against=judging.against,
        recordings=judging.recordings,
    )
    return evolve(report, seconds=time.perf_counter() - begin)
