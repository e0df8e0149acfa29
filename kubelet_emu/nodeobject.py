"""The Node object of this node: shape, addresses, declared features (NOD-14 to NOD-19). (pure)"""

from collections.abc import Mapping
from typing import Any

from attrs import evolve, field, frozen

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.validation.resources import is_extended_resource
from kubelet_emu.cm.devicemanager.state import Capacity
from kubelet_emu.cm.machine import MachineTopology
from kubelet_emu.gates import Gates
from kubelet_emu.settings import KubeletSettings

__all__ = ["NodeShape", "declared_features", "device_status", "node_object", "zero_extended"]

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
    machine: MachineTopology | None = None
    """Sockets, NUMA nodes and cores; without it one node that has all CPUs and all memory."""

    def with_machine(
        self,
        *,
        sockets: int = 1,
        nodes_per_socket: int = 1,
        cores_per_node: int = 0,
        threads_per_core: int = 1,
        cpu_given: bool = True,
    ) -> "NodeShape":
        """The same node on a machine of that build.

        Without ``cores_per_node`` the node's CPUs are divided among the NUMA nodes; with it, and unless
        ``cpu_given``, the machine says how many CPUs the node has. The memory is divided evenly. Raises
        ``CallerError`` for numbers that make no machine.
        """
        nodes = max(sockets * nodes_per_socket, 1)
        cpus = max(Quantity.parse(self.cpu).value(), 1)
        machine = MachineTopology(
            sockets=sockets,
            nodes_per_socket=nodes_per_socket,
            cores_per_node=cores_per_node or max(cpus // (nodes * max(threads_per_core, 1)), 1),
            threads_per_core=threads_per_core,
            memory_bytes=max(Quantity.parse(self.memory).value() // nodes, 0),
        )
        own = bool(cores_per_node) and not cpu_given
        return evolve(self, machine=machine, cpu=str(machine.cpu_count) if own else self.cpu)

    def topology(self) -> MachineTopology:
        """The machine under the node."""
        if self.machine is not None:
            return self.machine
        cpus, memory = Quantity.parse(self.cpu).value(), Quantity.parse(self.memory).value()
        return MachineTopology(cores_per_node=min(max(cpus, 1), 1024), memory_bytes=max(memory, 0))

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


def device_status(
    capacity: Mapping[str, Any], allocatable: Mapping[str, Any], devices: Capacity
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Capacity and allocatable of a node with its devices in them (DEV-050, DEV-051)."""
    total = {**capacity, **{name: str(number) for name, number in devices.capacity.items()}}
    total.update((name, "0") for name in devices.removed)
    offered = {
        name: value for name, value in allocatable.items() if name in total or not is_extended_resource(name)
    }
    # Nothing is reserved on this node, so what the plugins do not say is the capacity.
    offered.update(total)
    offered.update((name, str(number)) for name, number in devices.allocatable.items())
    return total, offered


def zero_extended(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Extended resources set to 0: what a kubelet does that finds no checkpoint (DEV-052)."""
    return {name: "0" if is_extended_resource(name) else value for name, value in resources.items()}


def node_object(
    settings: KubeletSettings, shape: NodeShape, *, ready_since: str, boot_id: str = ""
) -> dict[str, Any]:
    """The object as the API stores it; ``ready_since`` is a timestamp, ``boot_id`` new with each boot."""
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
                "bootID": boot_id,
            },
        },
    }
