"""Ctrl-C, SIGTERM and a closed terminal end a run in good order; a second signal ends it at once."""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

import trio

__all__ = ["Interrupts"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While entered, a signal cancels ``scope`` instead of breaking into whatever runs.

    ``signum`` is the signal that came, 0 for none. In another thread than the main one nothing is changed,
    for only that one may handle signals.
    """

    def __init__(self, scope: trio.CancelScope) -> None:
        self.scope = scope
        self.signum = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._token = trio.lowlevel.current_trio_token()
            for signum in _SIGNALS:
                if signal.getsignal(signum) is not signal.SIG_IGN:
                    self._before[signum] = signal.signal(signum, self._arrived)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _restore(self) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        self._before = {}

    def _arrived(self, signum: int, frame: FrameType | None) -> None:
        if self.signum:
            self._restore()
            os.kill(os.getpid(), signum)
            return
        self.signum = signum
        self._token.run_sync_soon(self._cancel)

    def _cancel(self) -> None:
        self.scope.cancel()
