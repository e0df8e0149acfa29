"""Mirror pods: what the API shows of static pods (``pkg/kubelet/pod/mirror_client.go``; POD-802 to POD-804).

What fails is only noted; the next sync of the static pod, or the next housekeeping, tries again.
"""

from attrs import evolve

from kubelet_emu.api.codec import pod_to_json
from kubelet_emu.api.types import Pod
from kubelet_emu.apiserver.client import ApiClient
from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.config.static import mirror_pod, plan_mirror
from kubelet_emu.pod_manager import PodManager
from kubelet_emu.pod_update import uid_of
from kubelet_emu.seams import Recorder

__all__ = ["Mirrors"]


class Mirrors:
    """The mirror pods of one node; without an API there are none (NOD-104)."""

    def __init__(
        self, *, api: ApiClient | None, pods: PodManager, node_name: str, recorder: Recorder
    ) -> None:
        self._api = api
        self._pods = pods
        self._node_name = node_name
        self._recorder = recorder

    async def reconcile(self, pod: Pod, mirror: Pod | None) -> None:
        """Delete a mirror that is not the pod's any more, and create the one that is missing (POD-803)."""
        if self._api is None:
            return
        try:
            node = await self._api.get("Node", "", self._node_name)
            deleting = node is not None and bool(node["metadata"].get("deletionTimestamp"))
            plan = plan_mirror(pod, mirror, node_exists=node is not None, node_deleting=deleting)
            if plan.delete and mirror is not None:
                await self._delete(mirror)
            if plan.create and node is not None:
                wanted = mirror_pod(pod, node_name=self._node_name, node_uid=str(node["metadata"]["uid"]))
                obj = pod_to_json(evolve(wanted, metadata=evolve(wanted.metadata, uid="")))
                await self._api.create("Pod", obj)
        except ApiError as error:
            self._recorder.fact("note", about="mirror", text=f"failed to reconcile mirror pod: {error}")

    async def delete(self, full_name: str) -> None:
        """Delete the mirror of that full name: no static pod has it any more (POD-804)."""
        mirror = self._pods.mirror_by_full_name(full_name)
        if mirror is None:
            return
        try:
            await self._delete(mirror)
        except ApiError as error:
            self._recorder.fact("note", about="mirror", text=f"failed to delete mirror pod: {error}")

    async def _delete(self, mirror: Pod) -> None:
        if self._api is not None:
            namespace = mirror.metadata.namespace or "default"
            await self._api.delete_pod(namespace, mirror.metadata.name, uid_of(mirror), 0)
