"""Parts of the kubelet in the words of other parts: small classes that ``kubelet`` hands around.

The pod manager as the status manager sees it, the workers as the runtime manager sees them, objects of the
API as environment variables need them.
"""

from collections.abc import Callable

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.api.types import Pod
from kubelet_emu.apiserver.client import ApiClient
from kubelet_emu.errors import PeerError
from kubelet_emu.object_cache import ObjectCache
from kubelet_emu.pod_manager import PodManager
from kubelet_emu.pod_update import full_name, is_static_pod
from kubelet_emu.podworkers.workers import PodWorkers
from kubelet_emu.volumes.content import secret_data

__all__ = ["ApiObjects", "PodLookup", "PodStates", "RuntimeClasses", "condition_text"]


class PodLookup:
    """The pod manager in the words of the status manager."""

    def __init__(self, pods: PodManager) -> None:
        self._pods = pods

    def pod_by_uid(self, uid: str) -> Pod | None:
        return self._pods.by_uid(uid)

    def mirror_pod_of(self, pod: Pod) -> Pod | None:
        return self._pods.mirror_by_full_name(full_name(pod)) if is_static_pod(pod) else None

    def translate_uid(self, uid: str) -> str:
        return self._pods.translate(uid)


class PodStates:
    """The pod workers in the words of the runtime manager."""

    def __init__(self, workers: Callable[[], PodWorkers]) -> None:
        self._workers = workers

    def is_termination_requested(self, uid: str) -> bool:
        return self._workers().termination_requested(uid)

    def should_content_be_removed(self, uid: str) -> bool:
        return self._workers().content_should_be_removed(uid)


class ApiObjects:
    """ConfigMaps and Secrets from the API for environment variables."""

    def __init__(self, objects: ObjectCache | None) -> None:
        self._objects = objects

    async def config_map(self, namespace: str, name: str) -> dict[str, str] | None:
        if self._objects is None:
            raise PeerError(f"couldn't get configMap {namespace}/{name}, no kubeClient defined")
        obj = await self._objects.get("ConfigMap", namespace, name)
        data: dict[str, object] = (obj or {}).get("data") or {}
        return None if obj is None else {key: str(value) for key, value in data.items()}

    async def secret(self, namespace: str, name: str) -> dict[str, bytes] | None:
        if self._objects is None:
            raise PeerError(f"couldn't get secret {namespace}/{name}, no kubeClient defined")
        obj = await self._objects.get("Secret", namespace, name)
        return None if obj is None else secret_data(obj)


class RuntimeClasses:
    """RuntimeClass objects from the API."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    def handler(self, runtime_class_name: str | None) -> str:
        if not runtime_class_name:
            return ""
        # As from the informer: what the API has, without a call.
        found = self._api.store.get("RuntimeClass", "", runtime_class_name)
        if found is None:
            raise PeerError(f'runtimeclass.node.k8s.io "{runtime_class_name}" not found')
        return str(found.get("handler", ""))


def condition_text(condition: cri.RuntimeCondition | None, name: str) -> str | None:
    """None if the condition is true, else how the kubelet prints it (NOD-22)."""
    if condition is None:
        return f"{name} condition is not set"
    if condition.status:
        return None
    return f"{name}=false reason:{condition.reason} message:{condition.message}"
