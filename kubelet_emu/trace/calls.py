"""CRI calls as trace records: which are recorded, and with which arguments (pure).

Protobuf messages are read by their field names only, so this module knows no generated code.
"""

from typing import Any

from kubelet_emu.trace.names import Names
from kubelet_emu.trace.schema import Record

__all__ = ["COUNTED", "POLLS", "call_fields", "poll_fields"]

POLLS = frozenset(
    {
        "ContainerStatus",
        "ImageStatus",
        "ListContainers",
        "ListImages",
        "ListPodSandbox",
        "PodSandboxStatus",
        "RuntimeConfig",
        "Status",
        "Version",
    }
)
"""Reading calls whose answer is recorded when it is not what the same question got last time."""

COUNTED = frozenset(
    {
        "ContainerStats",
        "GetContainerEvents",
        "ImageFsInfo",
        "ListContainerStats",
        "ListMetricDescriptors",
        "ListPodSandboxMetrics",
        "ListPodSandboxStats",
        "PodSandboxStats",
        "StreamContainerStats",
        "StreamContainers",
        "StreamImages",
        "StreamPodSandboxMetrics",
        "StreamPodSandboxStats",
        "StreamPodSandboxes",
    }
)
"""Reading calls that are only counted: streams, and answers with usage figures that differ every time."""

_CONTAINER_STATES = ("created", "running", "exited", "unknown")
_SANDBOX_STATES = ("ready", "notready")


def call_fields(method: str, request: Any, reply: Any, names: Names) -> Record:
    """The arguments of a call that changes something, named; learns the ids it makes."""
    reader = _READERS.get(method)
    if reader is not None:
        return reader(request, reply, names)
    record: Record = {}
    for key in ("container_id", "pod_sandbox_id"):
        value: str = getattr(request, key, "")
        if value:
            record["container" if key == "container_id" else "sandbox"] = names.label(value)
            record["pod"] = names.pod(value)
            if key == "pod_sandbox_id":
                # Two pods of one name, one after the other, have sandboxes of one name.
                record["id"] = value
    return record


def _run_sandbox(request: Any, reply: Any, names: Names) -> Record:
    meta = request.config.metadata
    names.learn_pod(name=meta.name, namespace=meta.namespace, uid=meta.uid)
    label = f"{meta.name}/sandbox#{meta.attempt}"
    record: Record = {"pod": meta.name, "sandbox": label}
    if reply is not None and reply.pod_sandbox_id:
        names.learn_sandbox(reply.pod_sandbox_id, pod=meta.name, attempt=meta.attempt)
        record["id"] = reply.pod_sandbox_id
    if request.runtime_handler:
        record["handler"] = request.runtime_handler
    return record


def _create_container(request: Any, reply: Any, names: Names) -> Record:
    config, meta = request.config, request.config.metadata
    pod = names.pod(request.pod_sandbox_id) or request.sandbox_config.metadata.name
    record: Record = {
        "container": f"{meta.name}#{meta.attempt}",
        "name": meta.name,
        "attempt": meta.attempt,
        "log_path": config.log_path,
        "pod": pod,
        "sandbox": names.label(request.pod_sandbox_id),
    }
    if reply is not None and reply.container_id:
        names.learn_container(reply.container_id, pod=pod, name=meta.name, attempt=meta.attempt)
        record["id"] = reply.container_id
    devices = [d.container_path for d in config.devices] + [d.name for d in config.CDI_devices]
    if devices:
        record["devices"] = devices
    record["image"] = config.image.user_specified_image or config.image.image
    record["env"] = {pair.key: _text(pair.value) for pair in config.envs}
    record["mounts"] = {mount.container_path: mount.host_path for mount in config.mounts}
    return record


def _text(value: str | bytes) -> str:
    # The contract has string, then bytes on the same field: both are read.
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _stop_container(request: Any, reply: Any, names: Names) -> Record:
    return {
        "container": names.label(request.container_id),
        "timeout": str(request.timeout),
        "pod": names.pod(request.container_id),
    }


def _exec_sync(request: Any, reply: Any, names: Names) -> Record:
    record: Record = {"container": names.label(request.container_id)}
    if request.timeout:
        record["timeout"] = str(request.timeout)
    record["cmd"] = list(request.cmd)
    record["pod"] = names.pod(request.container_id)
    if reply is not None:
        record["exit"] = reply.exit_code
    return record


def _pull_image(request: Any, reply: Any, names: Names) -> Record:
    image: str = request.image.user_specified_image or request.image.image
    pod: str = request.sandbox_config.metadata.name
    return {"image": image, "pod": pod} if pod else {"image": image}


def _remove_image(request: Any, reply: Any, names: Names) -> Record:
    return {"image": request.image.image}


_READERS = {
    "RunPodSandbox": _run_sandbox,
    "CreateContainer": _create_container,
    "StopContainer": _stop_container,
    "ExecSync": _exec_sync,
    "PullImage": _pull_image,
    "RemoveImage": _remove_image,
}


def poll_fields(method: str, request: Any, reply: Any, names: Names) -> Record:
    """What a reading call showed, in short. Learns ids that were made before the trace began."""
    reader = _POLL_READERS.get(method)
    return reader(request, reply, names) if reader is not None and reply is not None else {}


def _container_status(request: Any, reply: Any, names: Names) -> Record:
    status = reply.status
    container_id: str = status.id or request.container_id
    if not names.knows(container_id) and status.metadata.name:
        pod = status.labels.get("io.kubernetes.pod.name", "")
        names.learn_container(
            container_id, pod=pod, name=status.metadata.name, attempt=status.metadata.attempt
        )
    record: Record = {
        "container": names.label(container_id),
        "state": _state(_CONTAINER_STATES, status.state),
        "pod": names.pod(container_id),
    }
    if record["state"] == "exited":
        record["exitCode"] = status.exit_code
        for key in ("reason", "message"):
            if getattr(status, key):
                record[key] = names.text(getattr(status, key))
    return record


def _sandbox_status(request: Any, reply: Any, names: Names) -> Record:
    status = reply.status
    _learn_sandbox(status, names)
    record: Record = {
        "sandbox": names.label(status.id or request.pod_sandbox_id),
        "state": _state(_SANDBOX_STATES, status.state),
        "pod": status.metadata.name,
    }
    if status.HasField("network") and status.network.ip:
        record["ip"] = names.address(status.network.ip)
    if status.HasField("linux") and status.linux.namespaces.options.network == 2:
        record["hostNetwork"] = True
    return record


def _learn_sandbox(status: Any, names: Names) -> None:
    meta = status.metadata
    if meta.uid:
        names.learn_pod(name=meta.name, namespace=meta.namespace, uid=meta.uid)
    if status.id and not names.knows(status.id):
        names.learn_sandbox(status.id, pod=meta.name, attempt=meta.attempt)


def _list_containers(request: Any, reply: Any, names: Names) -> Record:
    for item in reply.containers:
        if not names.knows(item.id):
            pod = item.labels.get("io.kubernetes.pod.name", "")
            names.learn_container(item.id, pod=pod, name=item.metadata.name, attempt=item.metadata.attempt)
    # Containers of different pods may share a label; the pod goes in front where there is more than one.
    several = len({names.pod(item.id) for item in reply.containers}) > 1
    shown = {
        (f"{names.pod(item.id)}/{names.label(item.id)}" if several else names.label(item.id)): _state(
            _CONTAINER_STATES, item.state
        )
        for item in reply.containers
    }
    return {"states": shown}


def _list_sandboxes(request: Any, reply: Any, names: Names) -> Record:
    for item in reply.items:
        _learn_sandbox(item, names)
    return {"states": {names.label(item.id): _state(_SANDBOX_STATES, item.state) for item in reply.items}}


def _image_status(request: Any, reply: Any, names: Names) -> Record:
    return {"image": request.image.image, "present": bool(reply.HasField("image"))}


def _state(states: tuple[str, ...], value: int) -> str:
    return states[value] if 0 <= value < len(states) else str(value)


_POLL_READERS = {
    "ContainerStatus": _container_status,
    "PodSandboxStatus": _sandbox_status,
    "ListContainers": _list_containers,
    "ListPodSandbox": _list_sandboxes,
    "ImageStatus": _image_status,
}
