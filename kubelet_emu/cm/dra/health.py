"""Health of prepared devices, as drivers report it in their stream (pure).

DEV-124, DEV-158.
"""

from collections.abc import Iterable

from attrs import define, field, frozen

__all__ = [
    "DEFAULT_TIMEOUT_SECONDS",
    "HEALTHY",
    "MAX_MESSAGE",
    "UNHEALTHY",
    "UNKNOWN",
    "DeviceHealth",
    "HealthCache",
    "Report",
]

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"
UNKNOWN = "Unknown"

DEFAULT_TIMEOUT_SECONDS = 30.0
MAX_MESSAGE = 1024
MAX_DEVICES = 100_000


@frozen
class DeviceHealth:
    """The last report about a device: when it came (node-clock seconds) and how long it counts."""

    health: str
    at_seconds: float
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    message: str = ""


@frozen(kw_only=True)
class Report:
    """One entry of a driver's stream. A timeout of 0 is the default one, a negative one is ignored."""

    pool: str
    device: str
    health: str
    timeout_seconds: int = 0
    message: str = ""


_Devices = dict[tuple[str, str], DeviceHealth]


@define
class HealthCache:
    """All reports, by driver and by pool and device."""

    drivers: dict[str, _Devices] = field(factory=dict[str, _Devices])

    def take(self, driver: str, reports: Iterable[Report], now_seconds: float) -> tuple[tuple[str, str], ...]:
        """Take one message in; the devices whose health it changed. Others keep what they had."""
        devices = self.drivers.setdefault(driver, {})
        changed: list[tuple[str, str]] = []
        for report in reports:
            key = (report.pool, report.device)
            old = devices.get(key)
            if old is None and len(devices) >= MAX_DEVICES:
                continue
            if old is None or (old.health, old.message) != (report.health, cut(report.message)):
                changed.append(key)
            timeout = float(report.timeout_seconds)
            if timeout <= 0:
                timeout = DEFAULT_TIMEOUT_SECONDS
            devices[key] = DeviceHealth(report.health, now_seconds, timeout, cut(report.message))
        return tuple(changed)

    def clear(self, driver: str) -> None:
        """The driver's stream has ended."""
        self.drivers.pop(driver, None)

    def get(self, driver: str, pool: str, device: str, now_seconds: float) -> DeviceHealth:
        """What is known now; ``Unknown`` if nothing ever was, or it is too old."""
        found = self.drivers.get(driver, {}).get((pool, device))
        if found is None or now_seconds - found.at_seconds > found.timeout_seconds:
            return DeviceHealth(UNKNOWN, now_seconds)
        return found


def cut(message: str) -> str:
    """A message that fits into a pod's status."""
    return message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - 3]}..."
