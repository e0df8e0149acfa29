"""Names, texts and numbers of the pod status, each once (pure)."""

from typing import Final

__all__ = [
    "ALL_CONTAINERS_RESTARTING",
    "API_SOURCE",
    "COMPLETED",
    "CONFIG_MIRROR_ANNOTATION",
    "CONFIG_SOURCE_ANNOTATION",
    "CONTAINERS_READY",
    "CONTAINER_CREATING",
    "DEADLINE_MESSAGE",
    "DEADLINE_REASON",
    "DISRUPTION_TARGET",
    "FAILED",
    "FOREIGN_STATUS_FIELDS",
    "FULL_BATCH_PERIOD_SECONDS",
    "GONE_DELETED_MESSAGE",
    "GONE_TERMINATED_MESSAGE",
    "INITIALIZED",
    "INIT_LOST_MESSAGE",
    "MAX_STATUS_MESSAGE_BYTES",
    "NANOSECONDS",
    "OWNED_CONDITIONS",
    "PENDING",
    "POD_INITIALIZING",
    "POD_READY_TO_START_CONTAINERS",
    "POD_RESIZE_IN_PROGRESS",
    "POD_RESIZE_PENDING",
    "POD_SCHEDULED",
    "READY",
    "REMOVED_MESSAGE",
    "RESTARTING_ALL_CONTAINERS",
    "RUNNING",
    "SHARED_CONDITIONS",
    "STATUS_UNKNOWN",
    "SUCCEEDED",
    "TERMINAL_PHASES",
    "UNKNOWN_EXIT_CODE",
]

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
TERMINAL_PHASES: Final = (SUCCEEDED, FAILED)

POD_SCHEDULED: Final = "PodScheduled"
READY: Final = "Ready"
INITIALIZED: Final = "Initialized"
CONTAINERS_READY: Final = "ContainersReady"
POD_RESIZE_PENDING: Final = "PodResizePending"
POD_RESIZE_IN_PROGRESS: Final = "PodResizeInProgress"
POD_READY_TO_START_CONTAINERS: Final = "PodReadyToStartContainers"
ALL_CONTAINERS_RESTARTING: Final = "AllContainersRestarting"
DISRUPTION_TARGET: Final = "DisruptionTarget"

OWNED_CONDITIONS: Final = (
    POD_SCHEDULED,
    READY,
    INITIALIZED,
    CONTAINERS_READY,
    POD_RESIZE_IN_PROGRESS,
    POD_RESIZE_PENDING,
    POD_READY_TO_START_CONTAINERS,
    ALL_CONTAINERS_RESTARTING,
)
"""Condition types that only the kubelet writes (STA-502)."""

SHARED_CONDITIONS: Final = (DISRUPTION_TARGET,)
"""Condition types that the kubelet and others write (STA-502)."""

CONTAINER_CREATING: Final = "ContainerCreating"
POD_INITIALIZING: Final = "PodInitializing"
RESTARTING_ALL_CONTAINERS: Final = "RestartingAllContainers"
STATUS_UNKNOWN: Final = "ContainerStatusUnknown"
COMPLETED: Final = "Completed"
UNKNOWN_EXIT_CODE: Final = 137
"""Exit code of every container whose end nobody saw (STA-612)."""

REMOVED_MESSAGE: Final = "The container is removed because RestartAllContainers in place"
GONE_DELETED_MESSAGE: Final = (
    "The container could not be located when the pod was deleted.  The container used to be Running"
)
GONE_TERMINATED_MESSAGE: Final = "The container could not be located when the pod was terminated"
INIT_LOST_MESSAGE: Final = (
    "Unable to get init container status from container runtime and pod has been initialized,"
    " treat it as exited normally"
)
DEADLINE_REASON: Final = "DeadlineExceeded"
DEADLINE_MESSAGE: Final = "Pod was active on the node longer than the specified deadline"

MAX_STATUS_MESSAGE_BYTES: Final = 12288
"""Room for all termination messages of one pod together (STA-315)."""

FULL_BATCH_PERIOD_SECONDS: Final = 10.0
"""Period of the status manager's full batch (STA-701)."""

NANOSECONDS: Final = 1_000_000_000

FOREIGN_STATUS_FIELDS: Final = (
    "resource_claim_statuses",
    "extended_resource_claim_status",
    "node_allocatable_resource_claim_statuses",
)
"""Status fields that the kubelet never writes and carries over from the API (STA-104)."""

CONFIG_SOURCE_ANNOTATION: Final = "kubernetes.io/config.source"
CONFIG_MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
API_SOURCE: Final = "api"
