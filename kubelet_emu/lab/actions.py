"""What a person does to a node while it runs: the ``actions`` of a scenario, carried out
(``docs/scenarios.md``).

Most go through the API, as with kubectl; a few go to the runtime past the kubelet, or restart a daemon.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.lab.scenarios import Action

if TYPE_CHECKING:
    from kubelet_emu.lab.node import Node

__all__ = ["perform"]

REBOOT_DOWN_SECONDS = 10.0
RUNTIME_DOWN_SECONDS = 1.0
"""How long a restarted runtime daemon, or a node, is away where the action does not say."""


async def perform(node: "Node", action: Action, *, namespace: str, pod: str) -> None:
    """Carry one action out and write it into the trace; the API's refusal is recorded, not raised.

    Raises ``CallerError`` for an action this node does not know.
    """
    fields = action.fields()
    of_pod = {"pod": pod} if pod else {}
    if action.do == "restart-kubelet":
        await node.restart_kubelet(down_seconds=action.down_seconds)
        node.recorder.action(action.do, **of_pod, **fields)
    elif action.do == "restart-runtime":
        node.recorder.action(action.do, **of_pod, **fields)
        await node.restart_runtime(down_seconds=action.down_seconds or RUNTIME_DOWN_SECONDS)
    elif action.do == "reboot-node":
        await node.reboot(down_seconds=action.down_seconds or REBOOT_DOWN_SECONDS, forget=action.forget)
    elif action.do == "stop-sandbox":
        node.recorder.action(action.do, pod=pod, **fields)
        await node.stop_sandbox(namespace, pod)
    elif action.do == "exec":
        node.recorder.action(action.do, pod=pod, **fields)
        await node.exec(namespace, pod, action.container, action.command)
    elif action.do == "set-device-health":
        node.recorder.action(action.do, pod=pod, **fields)
        node.set_device_health(action.resource, action.device, action.health)
    else:
        await _through_api(node, action, fields, namespace, pod)


async def _through_api(
    node: "Node", action: Action, fields: Mapping[str, Any], namespace: str, pod: str
) -> None:
    await node.delay_action()
    node.recorder.action(action.do, pod=pod, **fields)
    try:
        if action.do == "delete":
            node.store.delete("Pod", namespace, pod, grace_seconds=action.grace_period_seconds)
        elif action.do == "add-ephemeral-container":
            patch = {"spec": {"ephemeralContainers": [dict(action.ephemeral_container or {})]}}
            node.store.patch("Pod", namespace, pod, patch, subresource="ephemeralcontainers")
        elif action.do == "update-image":
            patch = {"spec": {"containers": [{"name": action.container, "image": action.image}]}}
            node.store.patch("Pod", namespace, pod, patch)
        elif action.do == "patch":
            node.store.patch("Pod", namespace, pod, dict(action.patch or {}))
        else:
            raise CallerError(
                [Problem(f"action {action.do!r} cannot be carried out on this node", path="actions")]
            )
    except ApiError as error:
        node.recorder.fact("note", about=action.do, text=f"refused by the API: {error}")
