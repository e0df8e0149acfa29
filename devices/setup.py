"""A plugin as it is asked for: its model and everything that is to happen to it (pure).

Health changes are written ``DEVICE@TIME`` or ``DEVICE@TIME-TIME`` (healthy again at the second). A device is
its id, the start of an id that only one device has, or ``[RESOURCE]#N``, the N-th of the list from 0.
"""

import re
from collections.abc import Sequence
from enum import StrEnum

from attrs import frozen

from devices.model import HEALTHY, UNHEALTHY, Model

__all__ = [
    "DeviceProblem",
    "HealthChange",
    "PluginSetup",
    "Register",
    "find_device",
    "parse_duration",
    "parse_failure",
]

MAX_SECONDS = 1e9
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_AT = re.compile(r"(?P<device>.+)@(?P<start>[0-9a-z.]+)(?:-(?P<end>[0-9a-z.]+))?", re.DOTALL)


class Register(StrEnum):
    """How a plugin makes itself known (DEV sections 2 and 3)."""

    KUBELET = "kubelet"
    WATCHER = "watcher"


class DeviceProblem(Exception):
    """Raised when plugins cannot be made as asked; ``problems`` are all that were found: (place, text)."""

    def __init__(self, problems: "Sequence[tuple[str, str]] | str") -> None:
        self.problems = (("", problems),) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(f"{place}: {text}" if place else text for place, text in self.problems))


@frozen(kw_only=True)
class HealthChange:
    """From ``at_seconds`` after the start on, the plugin reports that health for the device."""

    at_seconds: float
    device: str
    health: str


@frozen(kw_only=True)
class PluginSetup:
    """One plugin. ``faults`` is a plan of ``node_host.faults``; Register counts as one of the methods.

    ``restart_after_crash_seconds`` None leaves a crashed plugin dead.
    """

    model: Model
    faults: str = ""
    register: Register = Register.KUBELET
    changes: tuple[HealthChange, ...] = ()
    restart_after_crash_seconds: float | None = 1.0


def parse_duration(text: str) -> float:
    """Seconds from ``90``, ``1.5``, ``35s``, ``1m30s``, ``250ms``. Raises ``ValueError`` that says how to
    write one.
    """
    if re.fullmatch(r"[0-9]{1,10}(\.[0-9]{1,9})?", text):
        return float(text)
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration: write seconds or such as 35s, 1m30s, 250ms")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds > MAX_SECONDS:
        raise ValueError(f"{text!r} is too long")
    return seconds


def parse_failure(text: str) -> tuple[HealthChange, ...]:
    """Read ``DEVICE@TIME[-TIME]``. Raises ``DeviceProblem``."""
    found = _AT.fullmatch(text)
    if found is None:
        raise DeviceProblem(
            f"{text!r} is no failure of a device: write ID@TIME, such as GPU-0003@30s or #3@30s-90s"
        )
    try:
        start = parse_duration(found["start"])
        end = parse_duration(found["end"]) if found["end"] else None
    except ValueError as error:
        raise DeviceProblem(f"{text!r}: {error}") from None
    failure = HealthChange(at_seconds=start, device=found["device"], health=UNHEALTHY)
    if end is None:
        return (failure,)
    if end <= start:
        raise DeviceProblem(f"{text!r}: the device has to recover after it failed")
    return (failure, HealthChange(at_seconds=end, device=found["device"], health=HEALTHY))


def find_device(models: Sequence[Model], device: str) -> tuple[int, str]:
    """Which plugin (its position) and which id a text means. Raises ``DeviceProblem``."""
    resource, sharp, number = device.rpartition("#")
    if sharp and number.isascii() and number.isdigit() and len(number) < 9:
        for position, model in enumerate(models):
            if resource in ("", model.resource) and int(number) < len(model.devices):
                return position, model.devices[int(number)].id
        known = ", ".join(f"{model.resource} with {len(model.devices)}" for model in models)
        raise DeviceProblem(f"there is no device {device!r}: there are {known or 'no plugins'}")
    ids = [(position, each.id) for position, model in enumerate(models) for each in model.devices]
    exact = [each for each in ids if each[1] == device]
    if exact:
        return exact[0]
    starting = list(dict.fromkeys(each for each in ids if each[1].startswith(device)))
    if len(starting) == 1:
        return starting[0]
    if starting:
        raise DeviceProblem(f"{device!r} is the start of {len(starting)} ids: give more of it, or use #N")
    some = ", ".join(found for _, found in ids[:3])
    raise DeviceProblem(
        f"there is no device {device!r}: ids are such as {some or '(none)'}; #N counts from 0"
    )
