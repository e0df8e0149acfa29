"""The runtime that the fake passes itself off as, and its limits (pure)."""

from attrs import frozen

__all__ = ["CONTAINERD_2", "PROFILES", "Profile"]


@frozen(kw_only=True)
class Profile:
    """Name and version as Version tells them, and what Status says about features (CRI-100, CRI-103)."""

    name: str
    runtime_name: str
    runtime_version: str
    handlers: tuple[str, ...]
    recursive_read_only_mounts: bool
    user_namespaces: bool
    supplemental_groups_policy: bool
    reports_stop_signal: bool
    """ContainerStatus.stop_signal is filled (CRI-049)."""
    max_exec_output_bytes: int = 16 * 1024 * 1024 - 64 * 1024
    """Standard output and error of one ExecSync together; what is more is cut (CRI-111)."""


CONTAINERD_2 = Profile(
    name="containerd-2",
    runtime_name="containerd",
    runtime_version="v2.1.4",
    handlers=("", "runc"),
    recursive_read_only_mounts=True,
    user_namespaces=True,
    supplemental_groups_policy=True,
    reports_stop_signal=True,
)
"""The default: containerd of the 2.x series with runc."""

PROFILES = {CONTAINERD_2.name: CONTAINERD_2}
"""Profiles by name."""
