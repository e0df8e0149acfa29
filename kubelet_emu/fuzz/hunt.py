"""Spreads a campaign over processes, and stops at the first violation.

Stretches of examples are handed to an executor: this process, a pool of spawned processes, or a Dask cluster.
The result does not depend on which: stretches are numbered, and of several violations that of the lowest
example counts.
"""

import multiprocessing
import signal
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from typing import Any, cast

from attrs import define, field, frozen

from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.fuzz.campaign import EXAMPLES_MAX, Campaign, Found, Tally
from kubelet_emu.fuzz.engine import Stretch, explore

__all__ = ["JOBS_MAX", "Hunt", "Limits", "hunt"]

STRETCH_EXAMPLES = 25
"""Examples of one stretch: about a second, so that progress moves and little is done in vain."""
JOBS_MAX = 256
QUEUED_PER_JOB = 2
"""Stretches that are handed out a job: one at work, one waiting."""
LOOK_SECONDS = 0.5
"""How often somebody who watches is told that time passes."""


@frozen(kw_only=True)
class Limits:
    """When a hunt ends without a violation: after ``examples``, or after ``seconds`` of wall time."""

    examples: int = 2_000
    seconds: float | None = None


@define(kw_only=True)
class Hunt:
    """Where a hunt is. ``found`` is not shrunk yet."""

    tally: Tally = field(factory=Tally)
    found: Found | None = None
    seconds: float = 0.0
    over: bool = False


def hunt(
    campaign: Campaign,
    limits: Limits,
    *,
    jobs: int = 1,
    scheduler: str = "",
    tell: Callable[[Hunt], None] = lambda state: None,
) -> Hunt:
    """Search until something breaks or a limit is reached. ``tell`` hears of progress.

    ``scheduler`` is the address of a Dask scheduler; ``jobs`` is then the number of stretches in flight.
    Raises ``CallerError`` for a scheduler that is not there, and for limits that make no sense.
    """
    if not 1 <= limits.examples <= EXAMPLES_MAX:
        raise CallerError([Problem(f"must be from 1 to {EXAMPLES_MAX}", path="--examples")])
    if not 1 <= jobs <= JOBS_MAX:
        raise CallerError([Problem(f"must be from 1 to {JOBS_MAX}", path="--jobs")])
    state, begun = Hunt(), time.monotonic()
    until = None if limits.seconds is None else time.time() + limits.seconds

    def pulse() -> None:
        state.seconds = time.monotonic() - begun
        tell(state)

    stretches = _stretches(limits)
    if jobs == 1 and not scheduler:
        for first, count in stretches:
            if until is not None and time.time() >= until:
                break
            _take(state, explore(campaign, first, count, until))
            pulse()
            if state.found is not None:
                break
    else:
        with _executor(jobs, scheduler) as executor:
            _fan_out(campaign, stretches, executor, jobs, until, state, pulse)
    state.over = True
    pulse()
    return state


def _stretches(limits: Limits) -> Iterator[tuple[int, int]]:
    for first in range(0, limits.examples, STRETCH_EXAMPLES):
        yield first, min(STRETCH_EXAMPLES, limits.examples - first)


def _take(state: Hunt, stretch: Stretch) -> None:
    state.tally.add(stretch.tally)
    found = stretch.found
    if found is not None and (state.found is None or _number(found) < _number(state.found)):
        state.found = found


def _number(found: Found) -> int:
    return -1 if found.example is None else found.example


def _fan_out(
    campaign: Campaign,
    stretches: Iterator[tuple[int, int]],
    executor: Executor,
    jobs: int,
    until: float | None,
    state: Hunt,
    pulse: Callable[[], None],
) -> None:
    """Keep the executor busy; after a violation, wait only for stretches that lie before it."""
    flying: dict[Future[Stretch], int] = {}
    while True:
        over = state.found is not None or (until is not None and time.time() >= until)
        while not over and len(flying) < jobs * QUEUED_PER_JOB:
            following = next(stretches, None)
            if following is None:
                break
            first, count = following
            flying[executor.submit(explore, campaign, first, count, until)] = first
        if state.found is not None:
            for future in [each for each, first in flying.items() if first > _number(state.found)]:
                future.cancel()
                del flying[future]
        if not flying:
            return
        done, _ = wait(flying, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=lambda each: flying[each]):
            del flying[future]
            _take(state, future.result())
        pulse()


@contextmanager
def _executor(jobs: int, scheduler: str) -> Generator[Executor]:
    if scheduler:
        yield from _dask(scheduler)
        return
    # Spawned, not forked: what a fork copies of threads and locks is nobody's.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_ignore_interrupts)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _ignore_interrupts() -> None:
    """Ctrl-C is for the process that a person talks to; it ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _dask(scheduler: str) -> Generator[Executor]:
    try:
        from dask import distributed  # pyright: ignore[reportMissingImports, reportUnknownVariableType]
    except ImportError:
        hint = "install it: pip install 'kubelet-emu[dask]'"
        raise CallerError([Problem("needs Dask", path="--scheduler", hint=hint)]) from None
    module = cast("Any", distributed)
    with ExitStack() as stack:
        try:
            client: Any = stack.enter_context(module.Client(scheduler, timeout="10s", set_as_default=False))
        except (OSError, ValueError) as error:
            problem = Problem(f"no scheduler answers at {scheduler}: {error}", path="--scheduler")
            raise CallerError([problem]) from None
        yield cast("Executor", client.get_executor(pure=False))


def as_json(tally: Tally) -> Mapping[str, Any]:
    """The numbers of a tally, for machines."""
    return {
        "examples": tally.examples,
        "simulatedSeconds": round(tally.simulated_seconds, 3),
        "calls": tally.calls,
        "records": tally.records,
        "invariantsChecked": tally.judged,
        "states": len(tally.states),
        "transitions": len(tally.transitions),
        "exempt": dict(sorted(tally.exempt.items())),
    }
