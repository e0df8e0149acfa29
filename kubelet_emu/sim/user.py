"""What a person does to a pod in the middle of a run: through the API, or past it."""

from typing import Any

from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.lab.node import Node
from node_host.plan import Deed, UserAction

__all__ = ["act"]

DEBUG_IMAGE = "busybox"


async def act(node: Node, deed: Deed) -> None:
    """Carry a user's action out. The API's refusal is recorded, not raised.

    Raises ``CallerError`` or cri_fake's ``Refused`` where the pod or container is not there.
    """
    if not isinstance(deed, UserAction):
        return
    namespace = _namespace(node, deed.pod)
    if deed.do == "remove":
        await node.remove_container(namespace, deed.pod, deed.container)
        return
    if deed.do in ("stop-sandbox", "kill-sandbox", "signal", "oom"):
        await _past_the_api(node, deed, namespace)
        return
    await node.delay_action()
    try:
        _through_the_api(node, deed, namespace)
    except ApiError as error:
        node.recorder.fact("note", about=deed.do, text=f"refused by the API: {error}")


def _namespace(node: Node, pod: str) -> str:
    for obj in node.store.list("Pod"):
        if obj["metadata"]["name"] == pod:
            return str(obj["metadata"].get("namespace", "default"))
    return "default"


async def _past_the_api(node: Node, deed: UserAction, namespace: str) -> None:
    runtime = node.runtime
    assert runtime is not None, "a simulated node has its own runtime"
    if deed.do == "stop-sandbox":
        await runtime.stop_sandbox_behind(deed.pod, namespace)
    elif deed.do == "kill-sandbox":
        runtime.kill_sandbox_process(deed.pod, namespace)
    elif deed.do == "signal":
        runtime.signal_container(deed.pod, deed.container, int(deed.value))
    else:
        runtime.oom_kill(deed.pod, deed.container)


def _through_the_api(node: Node, deed: UserAction, namespace: str) -> None:
    store = node.store
    if deed.do == "delete":
        store.delete("Pod", namespace, deed.pod, grace_seconds=deed.grace_seconds)
        return
    subresource = ""
    if deed.do == "image":
        spec: dict[str, Any] = {"containers": [{"name": deed.container, "image": deed.value}]}
    elif deed.do == "ephemeral":
        container = {"name": deed.container, "image": deed.value or DEBUG_IMAGE, "command": ["sleep", "3600"]}
        spec, subresource = {"ephemeralContainers": [container]}, "ephemeralcontainers"
    else:
        amounts = {"requests": dict(deed.resources), "limits": dict(deed.resources)}
        spec, subresource = {"containers": [{"name": deed.container, "resources": amounts}]}, "resize"
    store.patch("Pod", namespace, deed.pod, {"spec": spec}, subresource=subresource)
