"""Reads ``--devices PRESET|FILE`` and ``--fail-device``: the way from a text to plugins."""

from collections.abc import Sequence
from pathlib import Path

from attrs import evolve

from devices.presets import PRESETS, preset
from devices.setup import DeviceProblem, PluginSetup, find_device, parse_failure

__all__ = ["MAX_FILE_BYTES", "load_devices", "with_failures"]

MAX_FILE_BYTES = 4 * 1024 * 1024


def load_devices(source: str, *, serial: str = "") -> tuple[PluginSetup, ...]:
    """The plugins of a preset or of a profile file. Raises ``DeviceProblem`` with all that is wrong."""
    if source in PRESETS:
        return preset(source, serial=serial)
    path = Path(source)
    if not path.exists() and not path.suffix and "/" not in source:
        return preset(source, serial=serial)
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise DeviceProblem(f"{source}: the profile has {size} bytes; at most {MAX_FILE_BYTES} are read")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DeviceProblem(f"{source}: the profile is not UTF-8 text") from None
    except OSError as error:
        raise DeviceProblem(f"cannot read {source}: {error.strerror}") from None
    from devices.profile import parse_profile  # YAML costs start-up time that a preset need not pay

    return parse_profile(text, file=source, serial=serial)


def with_failures(setups: Sequence[PluginSetup], failures: Sequence[str]) -> tuple[PluginSetup, ...]:
    """The plugins with health changes added, each written ``ID@TIME``. Raises ``DeviceProblem``."""
    found = list(setups)
    models = [setup.model for setup in setups]
    for text in failures:
        for change in parse_failure(text):
            position, device = find_device(models, change.device)
            more = (*found[position].changes, evolve(change, device=device))
            found[position] = evolve(found[position], changes=more)
    return tuple(found)
