"""The tasks of a server: workers that serve one call after the other.

Starting a task and a cancel scope for every call costs more than handing the call to a task that waits
for one. Each worker lives in a scope of its own; what cancels a call cancels that scope and with it the
worker, so nothing of a cancelled call can linger in the next.
"""

from typing import Protocol

import trio
import trio.lowlevel

from trio_grpc.codes import Code, StatusError
from trio_grpc.method import as_status

__all__ = ["MAX_IDLE_WORKERS", "Work", "Worker", "Workers"]

MAX_IDLE_WORKERS = 64
"""How many workers a server keeps for the next call."""


class Work(Protocol):
    """One call, as its worker sees it."""

    worker: "Worker | None"

    async def serve(self) -> None:
        """Run the handler and hand over its answer. Raises nothing but what cancellation brings."""
        ...

    def fail(self, error: StatusError) -> None:
        """Answer with an error, unless there is an answer already."""
        ...


class Workers:
    """All workers of one server while it listens. Its tasks run in ``nursery``."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._idle: list[Worker] = []
        self._busy: dict[Worker, None] = {}
        self._closed = False

    def hand_over(self, call: Work) -> None:
        """Give a call to a worker."""
        if self._idle:
            worker = self._idle.pop()
            worker.take(call)
        else:
            worker = Worker(self, call)
            self._nursery.start_soon(worker.run)
        self._busy[worker] = None
        call.worker = worker

    def close(self, error: StatusError) -> None:
        """Answer all calls with the error and cancel all handlers."""
        self._closed = True
        for worker in [*self._busy, *self._idle]:
            if worker.call is not None:
                worker.call.fail(error)
            worker.scope.cancel()

    def park(self, worker: "Worker") -> bool:
        """Used by workers: done with a call. False where the worker is not needed any more."""
        self._busy.pop(worker, None)
        if self._closed or worker.scope.cancel_called or len(self._idle) >= MAX_IDLE_WORKERS:
            return False
        self._idle.append(worker)
        return True

    def gone(self, worker: "Worker") -> None:
        """Used by workers: on their way out."""
        self._busy.pop(worker, None)
        if worker in self._idle:
            self._idle.remove(worker)


class Worker:
    """A task that serves one call after the other, until something cancels its scope."""

    __slots__ = ("_task", "_workers", "call", "scope")

    def __init__(self, workers: Workers, call: Work) -> None:
        self._workers = workers
        self._task: trio.lowlevel.Task | None = None
        self.call: Work | None = call
        self.scope = trio.CancelScope()

    def take(self, call: Work) -> None:
        """Wake the idle worker with its next call."""
        task, self._task = self._task, None
        self.call = call
        assert task is not None
        trio.lowlevel.reschedule(task)

    async def run(self) -> None:
        try:
            with self.scope:
                while self.call is not None:
                    await self.call.serve()
                    self.call.worker = None
                    self.call = None
                    if not self._workers.park(self):
                        return
                    self._task = trio.lowlevel.current_task()
                    await trio.lowlevel.wait_task_rescheduled(self._abort)
        except Exception as problem:
            # What is left of an exception group from which the scope took the cancellation.
            if self.call is not None:
                self.call.fail(as_status(problem))
        finally:
            self._workers.gone(self)
            if self.call is not None:
                self.call.worker = None
                self.call.fail(StatusError(Code.CANCELLED, "context canceled"))

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        self._workers.gone(self)  # at once: it must not be given a call before it has ended
        return trio.lowlevel.Abort.SUCCEEDED
