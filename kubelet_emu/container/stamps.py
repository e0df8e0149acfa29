"""Stamps that order observations and actions which happen at the same moment of virtual time."""

import math
from typing import Protocol

__all__ = ["BEFORE_ALL", "ElapsedClock", "Stamps"]

BEFORE_ALL = -math.inf
"""The zero time: older than every stamp (POD-903)."""


class ElapsedClock(Protocol):
    """As much of ``node_host.clock.NodeClock`` as is needed here."""

    def elapsed_seconds(self) -> float: ...


class Stamps:
    """Node-clock seconds that never repeat.

    The kubelet asks whether an observation is *newer* than the end of a sync. On a real clock two readings
    always differ; on a virtual one everything between two waits happens at one instant. Each reading here is
    therefore at least the next larger float after the one before (some 1e-13 s later). Cache, PLEG, pod
    workers and work queue of a node share one object. Stamps serve for comparison only and reach no trace.
    """

    __slots__ = ("_clock", "_last")

    def __init__(self, clock: ElapsedClock) -> None:
        self._clock = clock
        self._last = BEFORE_ALL

    def now(self) -> float:
        """A stamp later than every earlier one, in node-clock seconds."""
        self._last = max(self._clock.elapsed_seconds(), math.nextafter(self._last, math.inf))
        return self._last
