"""Traps and waiting: how a shell takes signals.

A caught signal is only noted when it arrives. Its action runs before the next command; a command in the
foreground is therefore finished first. ``wait`` and ``read`` are interrupted at once and return 128 + n, then
the action runs.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import trio

from cri_fake.process.proc import Proc

__all__ = ["MAX_PENDING", "Interrupted", "Traps"]

T = TypeVar("T")

MAX_PENDING = 64


class Interrupted(Exception):
    """A caught signal arrived while the shell waited."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Traps:
    """The trap actions of one shell by signal number; 0 is EXIT. An empty action ignores the signal."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self.actions: dict[int, str] = {}
        self.pending: list[int] = []
        self._waiting: trio.CancelScope | None = None

    @property
    def any_caught(self) -> bool:
        """Whether a trap exists, so that the shell has to stay around until its last command has ended."""
        return bool(self.actions)

    def set(self, number: int, action: str) -> None:
        self.actions[number] = action
        if number:
            self._proc.on_signal(number, self._note if action else "ignore")

    def clear(self, number: int) -> None:
        self.actions.pop(number, None)
        if number:
            self._proc.on_signal(number, None)

    def _note(self, number: int) -> None:
        if number not in self.pending and len(self.pending) < MAX_PENDING:
            self.pending.append(number)
        if self._waiting is not None:
            self._waiting.cancel()

    async def interruptible(self, awaitable: Awaitable[T]) -> T:
        """The result of waiting, unless a caught signal comes first. Raises ``Interrupted``."""
        with trio.CancelScope() as scope:
            self._waiting = scope
            if self.pending:
                scope.cancel()
            try:
                return await awaitable
            finally:
                self._waiting = None
        raise Interrupted(self.pending[0])
