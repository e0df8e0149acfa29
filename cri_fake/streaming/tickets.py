"""Streams that were asked for and that nobody has called for yet (pure).

Each has a token that is good once, for a minute; there are at most a thousand (CRI-114). Tokens come from
the system's randomness, never from the seed: whoever can guess one can run a command.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from attrs import frozen

from cri_fake.store.faults import Kind, Refused

__all__ = ["LIFE_SECONDS", "MAX_PENDING", "AttachTicket", "ExecTicket", "ForwardTicket", "Ticket", "Tickets"]

LIFE_SECONDS = 60.0
MAX_PENDING = 1000
_TRIES = 8


@frozen(kw_only=True)
class ExecTicket:
    """Run a command."""

    container_id: str
    argv: tuple[str, ...]
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


@frozen(kw_only=True)
class AttachTicket:
    """Join the main process."""

    container_id: str
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


@frozen(kw_only=True)
class ForwardTicket:
    """Connect to ports of a sandbox; over SPDY the client names them later."""

    sandbox_id: str
    ports: tuple[int, ...]


Ticket: TypeAlias = ExecTicket | AttachTicket | ForwardTicket


class Tickets:
    """What is pending, by token."""

    def __init__(self, new_token: Callable[[], str]) -> None:
        self._new_token = new_token
        self._pending: dict[str, tuple[float, Ticket]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def issue(self, ticket: Ticket, now_seconds: float) -> str:
        """A token for the ticket.

        Raises:
            Refused: ResourceExhausted, too many are pending (CRI-070).
        """
        self._drop_old(now_seconds)
        if len(self._pending) >= MAX_PENDING:
            text = "maximum number of in-flight requests exceeded"
            raise Refused(Kind.RESOURCE_EXHAUSTED, text, rule="CRI-114")
        for _ in range(_TRIES):
            token = self._new_token()
            if token not in self._pending:
                self._pending[token] = (now_seconds + LIFE_SECONDS, ticket)
                return token
        raise Refused(Kind.UNKNOWN, "no free token was found", rule="CRI-114")

    def redeem(self, token: str, now_seconds: float) -> Ticket | None:
        """The ticket, which is gone then; None if it is unknown, used or too old."""
        self._drop_old(now_seconds)
        found = self._pending.pop(token, None)
        return None if found is None else found[1]

    def clear(self) -> None:
        """Forget all of them."""
        self._pending.clear()

    def _drop_old(self, now_seconds: float) -> None:
        while self._pending:
            token, (until, _) = next(iter(self._pending.items()))
            if until > now_seconds:
                return
            del self._pending[token]
