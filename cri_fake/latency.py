"""How long the runtime takes: per method a distribution, drawn from the method's own seeded stream.

The tables are quantiles of what a real node (containerd 1.6 with runc on a small machine) needed over 72
scenarios; a draw goes through them with straight lines between. Where nothing was recorded (pulls, reads)
the figures are assumptions (CRI-192). Each method has its own stream, so a change in the order of calls to
one method moves no draw of another.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from random import Random
from typing import Protocol

from attrs import frozen

from node_host.faults import Draw, Spread

__all__ = [
    "MEASURED",
    "ZERO",
    "Latency",
    "LatencyModel",
    "MeasuredLatency",
    "Quantiles",
    "SlowedLatency",
    "ToldLatency",
    "ZeroLatency",
    "make_latency",
]

_LEVELS = (0.0, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 1.0)


@frozen
class Quantiles:
    """Seconds at the levels 0, 5, 10, 25, 50, 75, 90, 95, 99 and 100 percent."""

    seconds: tuple[float, ...]

    def at(self, level: float) -> float:
        """The value at a level from 0 to 1."""
        place = bisect_left(_LEVELS, level, 1)
        if place == len(_LEVELS):
            return self.seconds[-1]
        low, high = _LEVELS[place - 1], _LEVELS[place]
        below, above = self.seconds[place - 1], self.seconds[place]
        return below + (above - below) * (level - low) / (high - low)


_READ = Quantiles((0.0004, 0.0005, 0.0006, 0.0008, 0.001, 0.0015, 0.0022, 0.0028, 0.0045, 0.006))
_PROBE = Quantiles((0.0002, 0.0002, 0.0003, 0.0003, 0.0004, 0.0005, 0.0007, 0.0008, 0.001, 0.001))
_INSTANT = Quantiles((0.0,) * 10)
_BRIEF = Quantiles((0.001, 0.0012, 0.0014, 0.002, 0.003, 0.004, 0.006, 0.008, 0.015, 0.02))

MEASURED: Mapping[str, Quantiles] = {
    "RunPodSandbox": Quantiles(
        (0.0729, 0.078, 0.0804, 0.0864, 0.0929, 0.1136, 0.1406, 0.1914, 0.3704, 0.4172)
    ),
    "StopPodSandbox": Quantiles(
        (0.0507, 0.0589, 0.0598, 0.0635, 0.0681, 0.0844, 0.1033, 0.1207, 0.19, 0.1977)
    ),
    "StopPodSandbox again": Quantiles(
        (0.0091, 0.0106, 0.0108, 0.011, 0.0119, 0.0138, 0.0239, 0.0286, 0.0286, 0.0286)
    ),
    "RemovePodSandbox": Quantiles(
        (0.0115, 0.0115, 0.0115, 0.0119, 0.0131, 0.0155, 0.0224, 0.0224, 0.0224, 0.0224)
    ),
    "CreateContainer": Quantiles(
        (0.0053, 0.0063, 0.007, 0.0083, 0.0103, 0.0138, 0.0187, 0.0256, 0.0519, 0.0842)
    ),
    "StartContainer": Quantiles(
        (0.0385, 0.0458, 0.0483, 0.0527, 0.0587, 0.0682, 0.0813, 0.0948, 0.151, 0.27)
    ),
    # What StopContainer took on the node, less the share of it that is the exit itself.
    "StopContainer": Quantiles(
        (0.0095, 0.0121, 0.0128, 0.0131, 0.0145, 0.023, 0.0321, 0.0396, 0.0579, 0.0829)
    ),
    # From the end of a main process until the runtime says EXITED: the shim's event, deleting the task.
    "Exit": Quantiles((0.021, 0.023, 0.024, 0.026, 0.03, 0.035, 0.042, 0.05, 0.065, 0.08)),
    "RemoveContainer": Quantiles(
        (0.0019, 0.0022, 0.0023, 0.0029, 0.0039, 0.006, 0.0088, 0.0115, 0.0216, 0.0268)
    ),
    "ExecSync": Quantiles((0.0191, 0.0259, 0.0267, 0.0289, 0.033, 0.0372, 0.0434, 0.0507, 0.0769, 0.09)),
    "PullImage": Quantiles((0.5, 0.575, 0.65, 0.875, 1.25, 1.625, 1.85, 1.925, 1.985, 2.0)),
    "PullImage present": Quantiles((0.05, 0.0625, 0.075, 0.1125, 0.175, 0.2375, 0.275, 0.2875, 0.2975, 0.3)),
    "PullImage refused": Quantiles(
        (0.0045, 0.0045, 0.0045, 0.005, 0.0056, 0.008, 0.01, 0.0118, 0.0118, 0.0118)
    ),
    "RemoveImage": _BRIEF,
    "UpdateContainerResources": _BRIEF,
    "UpdatePodSandboxResources": _BRIEF,
    "ReopenContainerLog": _BRIEF,
    "CheckpointContainer": Quantiles((0.1, 0.1, 0.12, 0.15, 0.2, 0.3, 0.4, 0.5, 0.8, 1.0)),
    "Version": _PROBE,
    "Status": _PROBE,
    "RuntimeConfig": _PROBE,
    "UpdateRuntimeConfig": _PROBE,
    # Lists are asked for every second for as long as a node runs and took well under a millisecond.
    "ListPodSandbox": _INSTANT,
    "ListContainers": _INSTANT,
}
"""Distributions by method; a word after a blank names a variant. Methods without one are reads."""

PULL_BYTES_PER_SECOND = 20 * 1024 * 1024
"""Speed of the registry (CRI-192)."""


class Latency(Protocol):
    """Where the runtime asks how long a step takes."""

    def draw(self, method: str, variant: str = "") -> float:
        """Seconds for one call of the method."""
        ...

    def transfer(self, size_bytes: int) -> float:
        """Seconds to move that many bytes from the registry."""
        ...


class MeasuredLatency:
    """Draws from ``MEASURED`` (or the given tables), times ``scale``."""

    def __init__(
        self,
        stream: Callable[[str], Random],
        *,
        scale: float = 1.0,
        tables: Mapping[str, Quantiles] = MEASURED,
    ) -> None:
        self._stream = stream
        self._scale = scale
        self._tables = tables
        self._streams: dict[str, Random] = {}

    def draw(self, method: str, variant: str = "") -> float:
        key = f"{method} {variant}" if variant else method
        table = self._tables.get(key) or self._tables.get(method) or _READ
        if table is _INSTANT:
            return 0.0
        source = self._streams.get(key)
        if source is None:
            source = self._streams[key] = self._stream(f"cri_fake.latency.{key}")
        return table.at(source.random()) * self._scale

    def transfer(self, size_bytes: int) -> float:
        return size_bytes / PULL_BYTES_PER_SECOND * self._scale


class ZeroLatency:
    """Every step is immediate."""

    def draw(self, method: str, variant: str = "") -> float:
        return 0.0

    def transfer(self, size_bytes: int) -> float:
        return 0.0


class SlowedLatency:
    """Every step of another source takes ``factor`` times as long; the draws stay the same."""

    def __init__(self, inner: Latency, factor: float) -> None:
        self._inner = inner
        self._factor = factor

    def draw(self, method: str, variant: str = "") -> float:
        return self._inner.draw(method, variant) * self._factor

    def transfer(self, size_bytes: int) -> float:
        return self._inner.transfer(size_bytes) * self._factor


class ToldLatency:
    """Another source, with methods whose times were told: seconds or a spread, or a factor.

    ``told`` may be changed at any time. What a pull moves takes its time on top.
    """

    def __init__(self, source: Latency, draw: Draw) -> None:
        self.source = source
        self._draw = draw
        self.told: dict[str, float | Spread] = {}
        self.factors: dict[str, float] = {}

    def draw(self, method: str, variant: str = "") -> float:
        told = self.told.get(method)
        if told is None:
            return self.source.draw(method, variant) * self.factors.get(method, 1.0)
        return told.seconds(self._draw) if isinstance(told, Spread) else told

    def transfer(self, size_bytes: int) -> float:
        return self.source.transfer(size_bytes) * self.factors.get("PullImage", 1.0)


LatencyModel = str
"""How latencies are asked for: ``measured`` (also ``node``) or ``zero``, or a factor such as ``x0.5``."""
ZERO = ZeroLatency()


def make_latency(model: LatencyModel, stream: Callable[[str], Random]) -> Latency:
    """The latency source for a model's name.

    Raises:
        ValueError: the name is not known; the text says what is.
    """
    if model == "zero":
        return ZERO
    if model in ("measured", "node"):
        return MeasuredLatency(stream)
    if model.startswith("x"):
        try:
            scale = float(model[1:])
        except ValueError:
            scale = -1.0
        if 0.0 <= scale <= 1000.0:
            return MeasuredLatency(stream, scale=scale)
    raise ValueError(
        f"unknown latency {model!r}: use 'measured', 'zero', or a factor such as 'x0.5' (0 to 1000)"
    )
