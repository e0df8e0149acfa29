"""Names, paths and times of the device plugin API (DEV-001). (pure)"""

__all__ = [
    "API_VERSION",
    "CHECKPOINT_NAME",
    "DIAL_TIMEOUT_SECONDS",
    "HEALTHY",
    "KUBELET_SOCKET",
    "NO_NODE",
    "PLUGIN_DIR",
    "PRE_START_TIMEOUT_SECONDS",
    "STOP_GRACE_SECONDS",
    "UNHEALTHY",
    "UPDATE_QUEUE_CAPACITY",
]

API_VERSION = "v1beta1"
HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"

PLUGIN_DIR = "device-plugins"
"""Folder of kubelet.sock, plugin sockets and checkpoint, inside the kubelet's root."""

KUBELET_SOCKET = "kubelet.sock"
CHECKPOINT_NAME = "kubelet_internal_checkpoint"

NO_NODE = -1
"""The key under which devices without a NUMA node are kept."""

DIAL_TIMEOUT_SECONDS = 10.0
PRE_START_TIMEOUT_SECONDS = 30.0

STOP_GRACE_SECONDS = 300.0
"""How long a plugin that is gone still counts for the node's capacity."""

UPDATE_QUEUE_CAPACITY = 100
"""Updates of device health that may wait for the sync loop (DEV-122)."""
