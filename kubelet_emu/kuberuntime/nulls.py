"""Defaults for the seams that a node can do without: nothing mounted, nothing added, nothing remembered."""

from collections.abc import Mapping, Sequence

from kubelet_emu.api.types import Container, Pod, ResourceRequirements
from kubelet_emu.kuberuntime.actions import ActuatedView
from kubelet_emu.kuberuntime.seams import PullCredential, RunOptions, ServiceInfo, ServicePort

__all__ = [
    "DefaultRuntimeClasses",
    "MasterService",
    "MemoryActuated",
    "NoCredentials",
    "NoDynamicResources",
    "NoInternalLifecycle",
    "NoObjects",
    "NoOptions",
    "NoPodStates",
    "NoSandboxReady",
    "NoVolumes",
]


class NoVolumes:
    """No volume is mounted."""

    def host_path(self, pod: Pod, volume_name: str) -> str | None:
        return None


class NoObjects:
    """There are no ConfigMaps and no Secrets."""

    async def config_map(self, namespace: str, name: str) -> Mapping[str, str] | None:
        return None

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        return None


class MasterService:
    """The API server's own service and no other: what a pod finds on a bare cluster."""

    def __init__(self, cluster_ip: str = "10.96.0.1", port: int = 443) -> None:
        ports = (ServicePort("https", port),)
        self._services = (ServiceInfo("kubernetes", "default", cluster_ip, ports),)

    def services(self) -> Sequence[ServiceInfo] | None:
        return self._services


class NoPodStates:
    """Nothing is being terminated and nothing may be removed."""

    def is_termination_requested(self, uid: str) -> bool:
        return False

    def should_content_be_removed(self, uid: str) -> bool:
        return False


class NoSandboxReady:
    """Nobody waits for a sandbox."""

    async def __call__(self, pod: Pod) -> None:
        return None


class NoOptions:
    """No devices."""

    async def options(self, pod: Pod, container: Container) -> RunOptions:
        return RunOptions()


class NoInternalLifecycle:
    """No resource managers."""

    def pre_create(self, pod: Pod, container: Container) -> Mapping[str, str]:
        return {}

    def pre_start(self, pod: Pod, container: Container, container_id: str) -> None:
        return None

    def post_stop(self, container_id: str) -> None:
        return None

    def reset(self, pod: Pod) -> None:
        return None


class NoDynamicResources:
    """No claims."""

    async def prepare(self, pod: Pod) -> None:
        return None


class DefaultRuntimeClasses:
    """Each runtime class is its own handler; without a class the runtime's default serves."""

    def handler(self, runtime_class_name: str | None) -> str:
        return runtime_class_name or ""


class NoCredentials:
    """All pulls are anonymous."""

    async def lookup(self, pod: Pod, image: str) -> Sequence[PullCredential]:
        return ()


class MemoryActuated:
    """Actuated resources kept in memory, by pod; ``forget`` bounds it to the pods that exist."""

    def __init__(self) -> None:
        self._containers: dict[str, dict[str, ResourceRequirements]] = {}
        self._pods: dict[str, ResourceRequirements] = {}

    def view(self, pod_uid: str) -> ActuatedView:
        return ActuatedView(
            containers=dict(self._containers.get(pod_uid, {})), pod_level=self._pods.get(pod_uid)
        )

    def set_container(self, pod_uid: str, name: str, resources: ResourceRequirements) -> None:
        self._containers.setdefault(pod_uid, {})[name] = resources

    def set_pod_level(self, pod_uid: str, resources: ResourceRequirements) -> None:
        self._pods[pod_uid] = resources

    def forget(self, pod_uid: str) -> None:
        self._containers.pop(pod_uid, None)
        self._pods.pop(pod_uid, None)
