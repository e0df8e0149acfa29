"""Finding containers in a pod, and naming them in events; pods rebuilt from what the runtime kept (pure).

Mirrors ``pkg/kubelet/container/ref.go`` and ``helpers.go`` (GetContainerSpec), ``runtime.go`` (ToAPIPod) and
``restoreSpecsFromContainerLabels`` of ``pkg/kubelet/kuberuntime/kuberuntime_container.go`` (EVT-04, HOK-11).
"""

from collections.abc import Iterator, Mapping

from kubelet_emu.api.codec import from_json
from kubelet_emu.api.types import (
    Container,
    ContainerPort,
    Lifecycle,
    LifecycleHandler,
    ObjectMeta,
    Pod,
    PodSpec,
)
from kubelet_emu.container.runtime import RunningPod
from kubelet_emu.kuberuntime import labels

__all__ = ["all_containers", "container_of", "field_path", "pod_of_running", "restored"]


def all_containers(pod: Pod) -> Iterator[tuple[str, Container]]:
    """All containers with the name of the list they stand in."""
    for container in pod.spec.containers:
        yield "containers", container
    for container in pod.spec.init_containers:
        yield "initContainers", container
    for container in pod.spec.ephemeral_containers:
        yield "ephemeralContainers", container


def container_of(pod: Pod, name: str) -> Container | None:
    """The spec of a container, whatever its kind."""
    return next((container for _, container in all_containers(pod) if container.name == name), None)


def field_path(pod: Pod, name: str) -> str:
    """How events point at a container: ``spec.initContainers{setup}`` (EVT-04)."""
    kind = next((kind for kind, container in all_containers(pod) if container.name == name), "containers")
    return f"spec.{kind}{{{name}}}"


def pod_of_running(running: RunningPod) -> Pod:
    """A pod known from the runtime alone: names and images only (POD-703)."""
    return Pod(
        metadata=ObjectMeta(name=running.name, namespace=running.namespace, uid=running.uid),
        spec=PodSpec(
            containers=tuple(Container(name=item.name, image=item.image) for item in running.containers)
        ),
    )


def restored(names: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[Pod, Container]:
    """Pod and container rebuilt from an instance's labels and annotations, enough to kill it (HOK-11)."""
    notes = labels.parse_container_annotations(annotations)
    lifecycle = None
    if notes.pre_stop is not None:
        lifecycle = Lifecycle(pre_stop=from_json(LifecycleHandler, notes.pre_stop))
    container = Container(
        name=names.get(labels.CONTAINER_NAME, ""),
        ports=tuple(from_json(ContainerPort, port) for port in notes.ports),
        termination_message_path=notes.termination_message_path,
        lifecycle=lifecycle,
    )
    pod = Pod(
        metadata=ObjectMeta(
            name=names.get(labels.POD_NAME, ""),
            namespace=names.get(labels.POD_NAMESPACE, ""),
            uid=names.get(labels.POD_UID, ""),
            deletion_grace_period_seconds=notes.pod_deletion_grace_seconds,
        ),
        spec=PodSpec(
            containers=(container,),
            termination_grace_period_seconds=notes.pod_termination_grace_seconds,
        ),
    )
    return pod, container
