"""How threads call into the loop: one inbox a run, which wakes the loop once for many messages.

``TrioToken.run_sync_soon`` wakes the loop through a socket for every call. With many calls at once the
wake-ups cost more than the work, so here only the first message after the last emptying wakes.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import trio
import trio.lowlevel

__all__ = ["Inbox", "current_inbox"]


class Inbox:
    """The inbox of one trio run."""

    def __init__(self, token: trio.lowlevel.TrioToken) -> None:
        self._token = token
        self._messages: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._woken = False

    def post(self, function: Callable[..., object], *arguments: Any) -> bool:
        """From any thread: have the function called in the loop, in order. False when the run is over."""
        self._messages.append((function, arguments))
        if self._woken:
            return True
        self._woken = True
        try:
            self._token.run_sync_soon(self._empty)
        except trio.RunFinishedError:
            return False
        return True

    def _empty(self) -> None:
        # First the flag, then the messages: whoever posts in between wakes the loop once more, for nothing.
        self._woken = False
        for _ in range(len(self._messages)):
            function, arguments = self._messages.popleft()
            function(*arguments)


_inbox: trio.lowlevel.RunVar[Inbox] = trio.lowlevel.RunVar("trio_grpc inbox")


def current_inbox() -> Inbox:
    """The inbox of the run this is called in."""
    try:
        return _inbox.get()
    except LookupError:
        inbox = Inbox(trio.lowlevel.current_trio_token())
        _inbox.set(inbox)
        return inbox
