"""In-place resize, decided: what a pod was promised, what it wants, and whether the node has it. (pure)

Mirrors the decisions of ``pkg/kubelet/allocation/allocation_manager.go`` (NOD-70 to NOD-72).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from kubelet_emu.api.codec import to_json
from kubelet_emu.api.qos import pod_qos
from kubelet_emu.api.types import Container, Node, Pod, ResourceRequirements
from kubelet_emu.container.runtime import ContainerState, RuntimePodStatus
from kubelet_emu.kuberuntime.actions import ActuatedView
from kubelet_emu.kuberuntime.resize import amounts
from kubelet_emu.node_fit import amount, fit, request_of
from kubelet_emu.pod_update import is_static_pod

__all__ = [
    "DEFERRED",
    "INFEASIBLE",
    "ResizeAnswer",
    "judge_resize",
    "resize_differs",
    "resize_in_progress",
    "resize_order",
    "resize_summary",
    "with_resources",
]

DEFERRED = "Deferred"
INFEASIBLE = "Infeasible"

_QOS_ORDER = {"Guaranteed": 0, "Burstable": 1, "BestEffort": 2}


@frozen
class ResizeAnswer:
    """Granted if there is no ``reason``; else why it has to wait, or never can be."""

    reason: str = ""
    message: str = ""


def with_resources(pod: Pod, promised: ActuatedView) -> Pod:
    """The pod with the resources that it was promised, where something was promised."""

    def given(container: Container) -> Container:
        known = promised.containers.get(container.name)
        if known is None or known == container.resources:
            return container
        return evolve(container, resources=known)

    spec = pod.spec
    containers = tuple(given(container) for container in spec.containers)
    init_containers = tuple(given(container) for container in spec.init_containers)
    resources = promised.pod_level if promised.pod_level is not None else spec.resources
    if (containers, init_containers, resources) == (spec.containers, spec.init_containers, spec.resources):
        return pod
    return evolve(
        pod,
        spec=evolve(spec, containers=containers, init_containers=init_containers, resources=resources),
    )


def resize_differs(pod: Pod, promised: ActuatedView) -> bool:
    """Whether the pod wants other CPU or memory than it was promised."""
    wanted = (*pod.spec.containers, *pod.spec.init_containers)
    if any(
        _differ(c.resources, promised.containers[c.name]) for c in wanted if c.name in promised.containers
    ):
        return True
    return promised.pod_level is not None and _differ(pod.spec.resources, promised.pod_level)


def resize_in_progress(pod: Pod, status: RuntimePodStatus, actuated: ActuatedView) -> bool:
    """Whether a running container still has other resources than the pod was promised."""
    running = {c.name for c in status.containers if c.state is ContainerState.RUNNING}
    return any(
        _differ(container.resources, actuated.containers[container.name])
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        if container.name in running and container.name in actuated.containers
    )


def judge_resize(pod: Pod, others: Sequence[Pod], node: Node, *, refused: str = "") -> ResizeAnswer:
    """Whether the node can give the pod what it wants now; ``others`` count with what they were promised.

    ``refused`` is what the resource managers have against the pod; it may pass, so it defers (DEV-095).
    """
    if is_static_pod(pod):
        return ResizeAnswer(INFEASIBLE, "In-place resize of static-pods is not supported")
    for resource in ("memory", "cpu"):
        requested = request_of(pod, resource)
        capacity = amount(resource, node.status.allocatable.get(resource))
        if requested > capacity:
            text = f"{resource}, requested: {requested}, capacity: {capacity}"
            return ResizeAnswer(INFEASIBLE, f"Node didn't have enough capacity: {text}")
    if refused:
        return ResizeAnswer(DEFERRED, refused)
    short = [failure for failure in fit(pod, others, node) if failure.shortage is not None]
    return ResizeAnswer(DEFERRED, short[0].message) if short else ResizeAnswer()


def resize_order(pods: Iterable[tuple[Pod, ActuatedView, int]]) -> tuple[Pod, ...]:
    """Pending resizes in the order in which they are tried (NOD-71); each comes with its promise and its rank
    of arrival.

    Those that ask for no more come first, then by priority, by QoS class, and the one that waits longest.
    """

    def rank(entry: tuple[Pod, ActuatedView, int]) -> tuple[bool, int, int, int]:
        pod, promised, since = entry
        return (_grows(pod, promised), -(pod.spec.priority or 0), _QOS_ORDER.get(pod_qos(pod), 3), since)

    return tuple(pod for pod, _, _ in sorted(pods, key=rank))


def resize_summary(pod: Pod, *, error: str = "") -> str:
    """The JSON in the text of resize events: resources by container, and the generation."""
    summary: dict[str, Any] = {}
    for key, containers in (
        ("initContainers", pod.spec.init_containers),
        ("containers", pod.spec.containers),
    ):
        if containers:
            summary[key] = [{"name": c.name, "resources": _shown(c.resources)} for c in containers]
    summary["generation"] = pod.metadata.generation
    if error:
        summary["error"] = error
    return json.dumps(summary, separators=(",", ":"))


def _shown(resources: ResourceRequirements | None) -> Mapping[str, Any]:
    return to_json(resources) if resources is not None else {}


def _differ(one: ResourceRequirements | None, other: ResourceRequirements | None) -> bool:
    return amounts(one) != amounts(other)


def _grows(pod: Pod, promised: ActuatedView) -> bool:
    now = with_resources(pod, promised)
    return any(request_of(pod, name) > request_of(now, name) for name in ("cpu", "memory"))
