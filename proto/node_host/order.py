"""Orders of tasks: which of those that are ready runs next, as a function of a seed (pure).

``UniformOrder`` shuffles every batch of ready tasks, as trio would, from a seed. ``PriorityOrder`` gives each
task a random priority and always runs the ready task with the highest one; at a few random moments the task
that would run is put last. A bug that needs one long delay of one task at one place is found so far sooner
than by shuffling, which delays every task a little (the idea of probabilistic concurrency testing).

Both are the ``order`` of ``node_host.loop.run``; ``make_order`` reads their names.
"""

from collections import deque
from collections.abc import Callable, MutableSequence
from random import Random
from typing import Any, Protocol

__all__ = ["PriorityOrder", "TaskOrder", "UniformOrder", "make_order"]

CHANGES_MAX = 100
"""Changes of priority that may be asked for."""
HORIZON_STEPS = 4_000
"""Steps of the run over which the changes are spread: about what a pod's life of a minute takes."""
STARVED_STEPS = 200
"""So many steps in a row may one task run while others are ready; then it is put last."""


class TaskOrder(Protocol):
    """What trio's batches are given to. The last of the batch runs first."""

    def shuffle(self, batch: MutableSequence[Any], /) -> None:
        """Put the batch in the order in which it is to run, from its end."""
        ...


class UniformOrder:
    """Every order of a batch is equally likely."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"{seed}/order")

    def shuffle(self, batch: MutableSequence[Any]) -> None:
        """See ``TaskOrder``."""
        if len(batch) > 1:
            self._rng.shuffle(batch)

    def reseed(self, seed: int) -> None:
        """Go on as another seed would."""
        self._rng.seed(f"{seed}/order")


class PriorityOrder:
    """Runs the ready task with the highest priority, one a batch; ``changes`` times another is put last.

    ``put_back`` takes the tasks that have to wait back into the loop's queue.
    """

    def __init__(self, seed: int, changes: int, put_back: Callable[[list[Any]], object]) -> None:
        if not 0 <= changes <= CHANGES_MAX:
            raise ValueError(f"changes of priority are 0 to {CHANGES_MAX}, not {changes}")
        self._put_back = put_back
        self._changes = changes
        self._priorities: dict[int, float] = {}
        """By the number that trio gives each task."""
        self._lowest = 0.0
        self._running: Any = None
        self._in_a_row = 0
        self._steps = 0
        self._at: deque[int] = deque()
        self._rng = Random(f"{seed}/priorities")
        self.reseed(seed)

    def reseed(self, seed: int) -> None:
        """Go on as another seed would: other changes ahead, other priorities for new tasks."""
        self._rng.seed(f"{seed}/priorities")
        ahead = sorted(self._rng.randrange(HORIZON_STEPS) for _ in range(self._changes))
        self._at = deque(self._steps + step for step in ahead)

    def shuffle(self, batch: MutableSequence[Any]) -> None:
        """See ``TaskOrder``."""
        self._steps += 1
        priorities, rng = self._priorities, self._rng
        for task in batch:
            if task._counter not in priorities:
                priorities[task._counter] = rng.random()
        if len(batch) == 1:
            self._note(batch[0], alone=True)
            return
        first = self._first(batch)
        while self._at and self._steps >= self._at[0]:
            self._at.popleft()
            first = self._put_last(first, batch)
        if self._in_a_row >= STARVED_STEPS and first is self._running:
            first = self._put_last(first, batch)
        self._note(first, alone=False)
        self._put_back([task for task in batch if task is not first])
        batch[:] = [first]

    def _put_last(self, task: Any, batch: MutableSequence[Any]) -> Any:
        self._lowest -= 1.0
        self._priorities[task._counter] = self._lowest
        return self._first(batch)

    def _first(self, batch: MutableSequence[Any]) -> Any:
        priorities = self._priorities
        return max(batch, key=lambda task: priorities[task._counter])

    def _note(self, task: Any, *, alone: bool) -> None:
        if alone or task is not self._running:
            self._running, self._in_a_row = task, 0
        self._in_a_row += 1


def make_order(
    schedule: str, seed: int, put_back: Callable[[list[Any]], object]
) -> UniformOrder | PriorityOrder:
    """The order with that name: ``uniform``, or ``priority:N`` with N changes. Raises ValueError."""
    if schedule == "uniform":
        return UniformOrder(seed)
    name, _, number = schedule.partition(":")
    if name == "priority" and number.isascii() and number.isdigit() and int(number[:6]) <= CHANGES_MAX:
        return PriorityOrder(seed, int(number), put_back)
    raise ValueError(f"{schedule!r} is no schedule; write uniform, or priority:N with N up to {CHANGES_MAX}")
