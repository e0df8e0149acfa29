"""The Node object of this node: shape, addresses, declared features (NOD-14 to NOD-19). (pure)"""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.gates import Gates
from kubelet_emu.settings import KubeletSettings

__all__ = ["NodeShape", "declared_features", "node_object"]

_DECLARED = (
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
)


def _no_extended() -> Mapping[str, str]:
    return {}


@frozen(kw_only=True)
class NodeShape:
    """What a node offers. The defaults are those of the recorded node."""

    cpu: str = "2"
    memory: str = "24Gi"
    ephemeral_storage: str = "100Gi"
    pods: int = 200
    labels: Mapping[str, str] = field(factory=_no_extended)
    extended: Mapping[str, str] = field(factory=_no_extended)

    def capacity(self) -> Mapping[str, str]:
        """Capacity by resource name, in the text form of quantities."""
        return {
            "cpu": self.cpu,
            "memory": self.memory,
            "ephemeral-storage": self.ephemeral_storage,
            "pods": str(self.pods),
            **self.extended,
        }

    def allocatable(self) -> Mapping[str, Quantity]:
        """Nothing is reserved, so allocatable is the capacity."""
        return {name: Quantity.parse(text) for name, text in self.capacity().items()}


def declared_features(gates: Gates) -> tuple[str, ...]:
    """Feature names in ``node.status.declaredFeatures``, sorted (NOD-19, RST-008)."""
    if not gates.enabled("NodeDeclaredFeatures"):
        return ()
    return tuple(sorted(["ExtendWebSocketsToKubelet", *(name for name in _DECLARED if gates.enabled(name))]))


def node_object(settings: KubeletSettings, shape: NodeShape, *, ready_since: str) -> dict[str, Any]:
    """The object as the API stores it; ``ready_since`` is a timestamp."""
    addresses = [{"type": "InternalIP", "address": ip} for ip in settings.node_ips]
    addresses.append({"type": "Hostname", "address": settings.node_name})
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": ready_since,
        "lastTransitionTime": ready_since,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": settings.node_name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": settings.node_name,
                "kubernetes.io/os": "linux",
                **shape.labels,
            },
        },
        "spec": {},
        "status": {
            "capacity": dict(shape.capacity()),
            "allocatable": dict(shape.capacity()),
            "conditions": [condition],
            "addresses": addresses,
            "declaredFeatures": list(declared_features(settings.gates)),
            "nodeInfo": {
                "kubeletVersion": "v1.36.2",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }
