"""What the runtime manager asks of the rest of the kubelet, beyond ``kubelet_emu.seams``.

Each protocol has a default in ``kubelet_emu.kuberuntime.nulls`` where a node can do without it. Values that
cross are plain: the manager turns them into CRI messages.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import field, frozen

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import Container, Pod, ResourceRequirements
from kubelet_emu.kuberuntime.actions import ActuatedView

__all__ = [
    "ActuatedResources",
    "ContainerOptions",
    "DynamicResources",
    "HostDns",
    "InternalLifecycle",
    "NodeFacts",
    "ObjectLookup",
    "OnSandboxReady",
    "PodStates",
    "PullCredential",
    "PullCredentials",
    "RunDevice",
    "RunMount",
    "RunOptions",
    "RuntimeClasses",
    "ServiceInfo",
    "ServicePort",
    "Services",
    "VolumePaths",
]


class VolumePaths(Protocol):
    """The volume manager, as seen from a container start (VOL-09)."""

    def host_path(self, pod: Pod, volume_name: str) -> str | None:
        """Where a mounted volume lies, None if it is not mounted. Image volumes are never asked for."""
        ...


class ObjectLookup(Protocol):
    """ConfigMaps and Secrets for environment variables (VOL-20 to VOL-24)."""

    async def config_map(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """The ``data`` of a ConfigMap, None if there is none. Raises ``PeerError`` for any other failure."""
        ...

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """The decoded ``data`` of a Secret, None if there is none. Raises ``PeerError`` otherwise."""
        ...


@frozen
class ServicePort:
    """One port of a service; ``name`` is empty where the service does not name it."""

    name: str
    port: int
    protocol: str = "TCP"


@frozen
class ServiceInfo:
    """A service that containers find through their environment (VOL-26)."""

    name: str
    namespace: str
    cluster_ip: str
    ports: tuple[ServicePort, ...]


class Services(Protocol):
    """The services that the node has seen."""

    def services(self) -> Sequence[ServiceInfo] | None:
        """All services of all namespaces, None while they have not been read yet (VOL-24)."""
        ...


class PodStates(Protocol):
    """What the pod workers know, for the runtime manager (podStateProvider)."""

    def is_termination_requested(self, uid: str) -> bool: ...

    def should_content_be_removed(self, uid: str) -> bool: ...


class OnSandboxReady(Protocol):
    """Told when a new sandbox runs and before any container starts (RST-086); an error is only noted."""

    async def __call__(self, pod: Pod) -> None: ...


@frozen(kw_only=True)
class RunMount:
    """A mount that a device plugin asks for (DEV-106)."""

    host_path: str
    container_path: str
    read_only: bool = False
    name: str = ""


@frozen(kw_only=True)
class RunDevice:
    """A device node of the host in the container."""

    host_path: str
    container_path: str
    permissions: str


@frozen(kw_only=True)
class RunOptions:
    """What the device side adds to one container: plugin parts come before the container's own (DEV-106)."""

    envs: tuple[tuple[str, str], ...] = ()
    mounts: tuple[RunMount, ...] = ()
    devices: tuple[RunDevice, ...] = ()
    annotations: Mapping[str, str] = field(factory=dict[str, str])
    cdi_devices: tuple[str, ...] = ()


class ContainerOptions(Protocol):
    """The container manager's GetResources: device and claim options of a container that is about to
    start.
    """

    async def options(self, pod: Pod, container: Container) -> RunOptions:
        """Raises ``PeerError``, whose text becomes a CreateContainerConfigError."""
        ...


class InternalLifecycle(Protocol):
    """The resource managers' own hooks around a container (CPU, memory, topology)."""

    def pre_create(self, pod: Pod, container: Container) -> Mapping[str, str]:
        """Returns ``cpuset_cpus`` and ``cpuset_mems`` where they are set. Raises ``PeerError``."""
        ...

    def pre_start(self, pod: Pod, container: Container, container_id: str) -> None:
        """Raises ``PeerError``."""
        ...

    def post_stop(self, container_id: str) -> None:
        """Releases what was held for a container; must not fail (RST-055, RST-095)."""
        ...

    def reset(self, pod: Pod) -> None:
        """Told when a restart in place has removed all containers of a pod; must not fail (DEV-114)."""
        ...


class DynamicResources(Protocol):
    """Claims of dynamic resource allocation, prepared once before the sandbox (RST-085)."""

    async def prepare(self, pod: Pod) -> None:
        """Raises ``PeerError``."""
        ...


class RuntimeClasses(Protocol):
    """Runtime classes by name."""

    def handler(self, runtime_class_name: str | None) -> str:
        """The runtime handler, empty for the default one. Raises ``PeerError`` for an unknown class."""
        ...


@frozen(kw_only=True)
class PullCredential:
    """A registry credential; the secret's coordinates tell whose it is (IMG-23 to IMG-27)."""

    username: str = ""
    password: str = ""
    auth: str = ""
    server_address: str = ""
    identity_token: str = ""
    registry_token: str = ""
    secret_uid: str = ""
    secret_namespace: str = ""
    secret_name: str = ""
    secret_hash: str = ""


class PullCredentials(Protocol):
    """Credentials that match an image, in the order in which they are tried (IMG-24)."""

    async def lookup(self, pod: Pod, image: str) -> Sequence[PullCredential]:
        """Raises ``PeerError``, whose text becomes waiting reason and message (IMG-11)."""
        ...


class ActuatedResources(Protocol):
    """The resources last handed to the runtime, kept over a kubelet restart (RST-065, RST-070)."""

    def view(self, pod_uid: str) -> ActuatedView: ...

    def set_container(self, pod_uid: str, name: str, resources: ResourceRequirements) -> None: ...

    def set_pod_level(self, pod_uid: str, resources: ResourceRequirements) -> None: ...

    def forget(self, pod_uid: str) -> None: ...


@frozen
class HostDns:
    """The node's own resolver settings (resolvConf)."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@frozen(kw_only=True)
class NodeFacts:
    """Numbers and names of the node that containers' settings depend on."""

    memory_capacity_bytes: int = 24 * 1024**3
    allocatable: Mapping[str, Quantity] = field(factory=dict[str, Quantity])
    hugepage_sizes: tuple[str, ...] = ("2MB", "1GB")
    host_dns: HostDns = field(factory=HostDns)
    host_file: str = "127.0.0.1\tlocalhost\n"
    """Content of the node's own /etc/hosts, for pods in its network."""
