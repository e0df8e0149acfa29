"""One trio run: virtual or real time, and an order of tasks that follows from the seed alone.

Virtual time
    ``VirtualClock`` stands still while any task can run. The loop asks a clock how long to sleep only
    when every task is blocked; that is the moment in which this clock jumps to the next deadline, so
    hours of backoff cost microseconds. It does not jump while it is held (a transport over threads or
    sockets holds it from the moment it hands a message over until that message has been received), nor
    while the operating system has an event ready, nor while a task sits in
    ``trio.testing.wait_all_tasks_blocked``. If every task is blocked and there is no deadline, there is
    nothing to jump to: the run waits for the outside world, as it would in real time.

Order
    trio runs all tasks that are ready at once in one batch, in an order that it leaves undefined. Here
    the batch is sorted by the age of the tasks and shuffled by a generator seeded from ``seed``: the
    same seed gives the same interleaving in another process and under another hash seed, another seed
    explores another one; ``node_host.order`` has other orders. trio offers this as a switch meant for
    Hypothesis; ``_SeededOrder`` is the one place that throws it. Timers that fall due at the same moment
    fire in the order in which they were set (trio by itself would go by object address), and the tasks they
    wake form one batch.
"""

import gc
import itertools
import math
import threading
import time
from collections.abc import Awaitable, Callable, MutableSequence
from enum import Enum
from heapq import heappush
from random import Random
from typing import Any, TypeVar

import trio
import trio.lowlevel
from trio._core import _run  # pyright: ignore[reportMissingTypeStubs]

from node_host.alarms import Alarms
from node_host.order import TaskOrder
from node_host.steps import Shortcut, Turn, lighten

__all__ = [
    "Pace",
    "RealClock",
    "VirtualClock",
    "current_alarms",
    "current_virtual_clock",
    "put_back",
    "run",
]

T = TypeVar("T")


class Pace(Enum):
    """How node time relates to the time of the machine."""

    VIRTUAL = "virtual"
    """Jumps from deadline to deadline; for simulation."""
    REAL = "real"
    """Follows the machine's monotonic clock, ``rate`` times as fast; for serving."""


class VirtualClock(trio.abc.Clock):
    """A clock that starts at 0 and jumps to the next deadline as soon as every task is blocked.

    All methods belong to the thread of the trio run.
    """

    def __init__(self) -> None:
        self.alarms = Alarms()
        self._now_seconds = 0.0
        self._holds = 0
        self._runner: Any = None
        self._probe = _Probe()
        self.shortcut: Shortcut | None = None
        """Runs steps of tasks at once where the order of the run allows it; None outside of ``run``."""

    def start_clock(self) -> None:
        """Called by trio at the start of the run."""
        runner = self._runner = _current_runner()
        _order_timers(runner)
        lighten(runner)
        turn = _ORDER.turn()
        self.shortcut = Shortcut(runner, turn, self.current_time) if turn is not None else None

    def current_time(self) -> float:
        return self._now_seconds

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Called by trio when no task can run: here time passes."""
        deadline = self.alarms.next_deadline(deadline)
        if deadline <= self._now_seconds:
            self.alarms.ring(self._now_seconds)
            return 0.0
        runner = self._runner
        if self._holds or deadline == math.inf or runner.waiting_for_idle or runner.entry_queue.size():
            return math.inf
        # One descriptor is trio's own wake-up socket, whose messages are in the entry queue. Others have
        # to be asked once, by a pass of the loop that does not wait, whether they are ready.
        if len(runner.io_manager._registered) > 1 and not self._probe.found_nothing(runner):
            return 0.0
        self._now_seconds = deadline
        self.alarms.ring(deadline)
        return 0.0

    @property
    def holds(self) -> int:
        """How many messages are on a wire at present."""
        return self._holds

    def hold(self) -> None:
        """Forbid jumps until the matching ``release``: a message is handed over, not yet received."""
        self._holds += 1

    def release(self) -> None:
        """Undo one ``hold``. Raises RuntimeError when there is none."""
        if self._holds == 0:
            raise RuntimeError("the virtual clock is not held")
        self._holds -= 1


class _Probe(trio.abc.Instrument):
    """Finds out by one pass of the loop whether a descriptor is ready, without taking its event from trio."""

    def __init__(self) -> None:
        self._installed = False
        self._asked = False
        self._nothing = False

    def found_nothing(self, runner: Any) -> bool:
        """Whether the pass just over was asked for here and found nothing; if not, the next one is asked
        for.
        """
        nothing, self._nothing = self._nothing, False
        if not nothing:
            if not self._installed:
                self._installed = True
                runner.instruments.add_instrument(self)
            self._asked = True
        return nothing

    def after_io_wait(self, timeout: float) -> None:
        """Called by trio after each look at the descriptors."""
        self._nothing = self._asked and not _current_runner().runq
        self._asked = False


class RealClock(trio.abc.Clock):
    """The machine's monotonic clock, starting at 0 and running ``rate`` times as fast."""

    def __init__(self, rate: float = 1.0) -> None:
        if not 0.0 < rate < math.inf:
            raise ValueError(f"rate must be a positive number, not {rate!r}")
        self.alarms = Alarms()
        self._rate = rate
        self._start_seconds = time.perf_counter()

    def start_clock(self) -> None:
        """Called by trio at the start of the run."""
        self._start_seconds = time.perf_counter()
        _order_timers(_current_runner())

    def current_time(self) -> float:
        """Asked by trio at every pass of the loop, so alarms ring here."""
        now = (time.perf_counter() - self._start_seconds) * self._rate
        if now >= self.alarms.earliest:
            self.alarms.ring(now)
        return now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return (self.alarms.next_deadline(deadline) - self.current_time()) / self._rate


def run(
    async_fn: Callable[..., Awaitable[T]],
    *args: object,
    seed: int,
    pace: Pace = Pace.VIRTUAL,
    rate: float = 1.0,
    order: TaskOrder | None = None,
) -> T:
    """Run ``async_fn(*args)`` in a new trio loop and return its result.

    ``seed`` fixes the order of tasks, unless ``order`` decides it (``node_host.order``). ``rate`` is for the
    real pace only: node seconds per second of the machine. Raises what ``async_fn`` raises, and ValueError
    for a rate that is not positive or not 1 in virtual time.
    """
    if pace is Pace.VIRTUAL and rate != 1.0:
        raise ValueError("rate needs the real pace: virtual time jumps, it has no rate")
    clock = VirtualClock() if pace is Pace.VIRTUAL else RealClock(rate)
    with _ORDER.seeded(order if order is not None else Random(f"{seed}/order")):
        return trio.run(async_fn, *args, clock=clock)


def current_virtual_clock() -> VirtualClock | None:
    """The virtual clock of the run this is called in, or None in real time (or under another clock)."""
    clock = trio.lowlevel.current_clock()
    return clock if isinstance(clock, VirtualClock) else None


def current_alarms() -> Alarms | None:
    """The alarms of the clock of the run this is called in; None under a clock that is not ours."""
    clock = trio.lowlevel.current_clock()
    return clock.alarms if isinstance(clock, VirtualClock | RealClock) else None


_YOUNG_OBJECTS_MAX = 10_000
"""How many new objects Python's collector waits for while a run goes on. A node makes hundreds of frozen
values a step, of which next to none are part of a cycle; the usual 700 has them looked at again and again.
"""


class _SeededOrder:
    """Stands in for the generator that trio shuffles its batches with; one generator a thread.

    trio reads two globals of its run module at every step of every loop of the process. They are
    replaced while at least one run of ours is going on and put back after the last, so a foreign trio
    run is affected only while one of ours runs in another thread, and then only by a sort.
    """

    def __init__(self) -> None:
        self._local = threading.local()
        self._lock = threading.Lock()
        self._runs = 0
        self._saved: tuple[Any, bool] = (_run._r, False)
        self._saved_thresholds = gc.get_threshold()

    def seeded(self, rng: TaskOrder) -> "_Seeding":
        return _Seeding(self, rng)

    def turn(self) -> Turn | None:
        """The pass that the run of ours in this thread is in."""
        return getattr(self._local, "turn", None)

    def enter(self, rng: TaskOrder) -> None:
        self._local.turn = Turn(rng)
        with self._lock:
            if self._runs == 0:
                young, *older = self._saved_thresholds = gc.get_threshold()
                if young:
                    gc.set_threshold(max(young, _YOUNG_OBJECTS_MAX), *older)
                self._saved = (_run._r, _run._ALLOW_DETERMINISTIC_SCHEDULING)
                _run._r = self  # pyright: ignore[reportAttributeAccessIssue]
                _run._ALLOW_DETERMINISTIC_SCHEDULING = True  # pyright: ignore[reportAttributeAccessIssue]
            self._runs += 1

    def leave(self) -> None:
        self._local.turn = None
        with self._lock:
            self._runs -= 1
            if self._runs == 0:
                gc.set_threshold(*self._saved_thresholds)
                saved_random, saved_flag = self._saved
                _run._r = saved_random
                _run._ALLOW_DETERMINISTIC_SCHEDULING = saved_flag  # pyright: ignore[reportAttributeAccessIssue]

    def shuffle(self, batch: MutableSequence[Any]) -> None:
        """Called by trio with every batch of ready tasks."""
        turn = getattr(self._local, "turn", None)
        if turn is not None:
            turn.begin(batch)
        elif len(batch) > 1:
            self._saved[0].shuffle(batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._saved[0], name)


class _Seeding:
    """The context of one seeded run in its thread."""

    def __init__(self, order: _SeededOrder, rng: TaskOrder) -> None:
        self._order = order
        self._rng = rng

    def __enter__(self) -> None:
        self._order.enter(self._rng)

    def __exit__(self, *exc_info: object) -> None:
        self._order.leave()


_ORDER = _SeededOrder()


class _OrderedDeadlines(_run.Deadlines):
    """trio's heap of deadlines with ties broken by the order of setting instead of by object address."""

    def __init__(self) -> None:
        super().__init__()
        self._sequence = itertools.count()

    def add(self, deadline: float, cancel_scope: trio.CancelScope) -> None:
        heappush(self._heap, (deadline, next(self._sequence), cancel_scope))
        self._active += 1


def _current_runner() -> Any:
    """trio's own state of the run that is starting in this thread."""
    return getattr(_run.GLOBAL_RUN_CONTEXT, "runner")  # noqa: B009


def _order_timers(runner: Any) -> None:
    runner.deadlines = _OrderedDeadlines()


def put_back(tasks: list[Any]) -> None:
    """Used by orders that run fewer tasks than are ready: the others stay ready."""
    _current_runner().runq.extend(tasks)
