"""The runtime that the fake passes itself off as: where containerd and CRI-O are seen to differ (pure)."""

from collections.abc import Mapping

from attrs import evolve, frozen

__all__ = ["CONTAINERD_1_6", "CONTAINERD_2", "CRI_O", "PROFILES", "Profile"]


@frozen(kw_only=True)
class Profile:
    """Name and version as Version tells them, what Status says about features, and the choices of CRI-190."""

    name: str
    runtime_name: str
    runtime_version: str
    handlers: tuple[str, ...]
    """What RunPodSandbox accepts."""
    reports_handlers: bool
    """Status lists the handlers with their features; an old runtime lists none (CRI-103)."""
    recursive_read_only_mounts: bool
    user_namespaces: bool
    supplemental_groups_policy: bool
    reports_stop_signal: bool
    """ContainerStatus.stop_signal is filled (CRI-049)."""
    reports_image_id: bool = True
    """Container.image_id and ContainerStatus.image_id are filled; younger than containerd 1.6 (CRI-060)."""
    reports_resources: bool = True
    """ContainerStatus.resources is filled; younger than containerd 1.6 (CRI-062)."""
    missing_methods: frozenset[str] = frozenset()
    """Methods that the runtime's own version of CRI does not have: Unimplemented (CRI-007)."""
    gives_existing_for_name: bool = False
    """A name that is taken: OK with the id that has it, instead of an error (CRI-013)."""
    keeps_failed_start: bool = True
    """A failed start leaves the container EXITED with 128, instead of no container (CRI-042)."""
    exec_timeout_is_error: bool = True
    """ExecSync out of time: DEADLINE_EXCEEDED, instead of OK with exit code -1 (CRI-070)."""
    stops_pods_gently: bool = False
    """StopPodSandbox sends the stop signal and gives grace, instead of KILL at once (CRI-023)."""
    unknown_is_not_found: bool = True
    """Calls other than the status ones answer NotFound for an unknown id, instead of Unknown (CRI-070)."""
    exec_stopped_is_not_found: bool = False
    """Exec in a container that does not run: NotFound instead of Unknown (CRI-070)."""
    sends_events: bool = True
    """GetContainerEvents streams, instead of ending at once with OK (CRI-140)."""
    times_pod_status: bool = False
    """PodSandboxStatus carries a timestamp and the containers' statuses (CRI-144)."""
    lost_exit_code: int = 255
    lost_reason: str = "Unknown"
    """Of a container whose end the runtime missed (CRI-045)."""
    sandbox_labels: Mapping[str, str] = {}
    """Labels that the runtime adds to sandboxes (CRI-015)."""
    max_exec_output_bytes: int = 16 * 1024 * 1024 - 64 * 1024
    """Standard output and error of one ExecSync together; what is more is cut (CRI-111)."""


CONTAINERD_2 = Profile(
    name="containerd-2",
    runtime_name="containerd",
    runtime_version="v2.1.4",
    handlers=("", "runc"),
    reports_handlers=True,
    recursive_read_only_mounts=True,
    user_namespaces=True,
    supplemental_groups_policy=True,
    reports_stop_signal=True,
)
"""The default: containerd of the 2.x series with runc."""

CONTAINERD_1_6 = evolve(
    CONTAINERD_2,
    name="containerd-1.6",
    runtime_version="1.6.20",
    reports_handlers=False,
    recursive_read_only_mounts=False,
    user_namespaces=False,
    supplemental_groups_policy=False,
    reports_stop_signal=False,
    reports_image_id=False,
    reports_resources=False,
    missing_methods=frozenset(
        {
            "CheckpointContainer",
            "GetContainerEvents",
            "ListMetricDescriptors",
            "ListPodSandboxMetrics",
            "RuntimeConfig",
            "StreamContainerStats",
            "StreamContainers",
            "StreamImages",
            "StreamPodSandboxMetrics",
            "StreamPodSandboxStats",
            "StreamPodSandboxes",
            "UpdatePodSandboxResources",
        }
    ),
)
"""containerd of the series that many distributions still ship: the CRI of Kubernetes 1.23."""

CRI_O = Profile(
    name="cri-o",
    runtime_name="cri-o",
    runtime_version="1.34.0",
    handlers=("", "runc", "crun"),
    reports_handlers=True,
    recursive_read_only_mounts=True,
    user_namespaces=True,
    supplemental_groups_policy=True,
    reports_stop_signal=True,
    gives_existing_for_name=True,
    keeps_failed_start=False,
    exec_timeout_is_error=False,
    stops_pods_gently=True,
    unknown_is_not_found=False,
    exec_stopped_is_not_found=True,
    sends_events=False,
    times_pod_status=True,
    lost_exit_code=-1,
    lost_reason="Error",
    sandbox_labels={"io.kubernetes.container.name": "POD"},
)
"""CRI-O in its default configuration."""

PROFILES = {profile.name: profile for profile in (CONTAINERD_2, CONTAINERD_1_6, CRI_O)}
"""Profiles by name."""
