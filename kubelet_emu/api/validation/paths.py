"""Checks of paths inside volumes and containers. (pure)

API-131, API-132, API-134.
"""

from typing import Final

from kubelet_emu.api.field_errors import FieldError, invalid

__all__ = ["MODE_MESSAGE", "backstep_errors", "mode_errors", "relative_path_errors"]

MODE_MESSAGE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_MAX_MODE: Final = 0o777


def backstep_errors(target: str, path: str) -> list[FieldError]:
    """No element of ``target`` may be ``..``."""
    return [invalid(path, target, "must not contain '..'")] if ".." in target.split("/") else []


def relative_path_errors(target: str, path: str, *, reserved: bool = False) -> list[FieldError]:
    """``target`` stays below its start; with ``reserved`` its first element may not begin with ``..``."""
    errors: list[FieldError] = []
    if target.startswith("/"):
        errors.append(invalid(path, target, "must be a relative path"))
    errors += backstep_errors(target, path)
    if reserved and target.startswith("..") and target != ".." and not target.startswith("../"):
        errors.append(invalid(path, target, "must not start with '..'"))
    return errors


def mode_errors(mode: int | None, path: str) -> list[FieldError]:
    """File mode bits."""
    return [] if mode is None or 0 <= mode <= _MAX_MODE else [invalid(path, mode, MODE_MESSAGE)]
