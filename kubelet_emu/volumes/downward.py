"""Files of a downwardAPI source: labels, annotations and resource figures of the pod (VOL-05, VOL-25).
(pure)"""

from collections.abc import Callable, Sequence

from kubelet_emu.api.types import Container, DownwardAPIVolumeFile, EnvVarSource, Pod
from kubelet_emu.kuberuntime.env import ConfigError, EnvContext, field_value, resource_value
from kubelet_emu.kuberuntime.gotext import go_quote
from kubelet_emu.volumes.content import Payload, PayloadFile, VolumeError

__all__ = ["downward_files"]


def downward_files(
    pod: Pod,
    items: Sequence[DownwardAPIVolumeFile],
    default_mode: int,
    context: Callable[[Pod], EnvContext],
) -> Payload:
    """One file an item; raises ``VolumeError`` for a field or a container that does not exist."""
    files: dict[str, PayloadFile] = {}
    for item in items:
        mode = item.mode if item.mode is not None else default_mode
        try:
            text = _text(pod, item, context(pod))
        except ConfigError as error:
            raise VolumeError(str(error)) from error
        files[item.path] = PayloadFile(text.encode(), mode)
    return files


def _text(pod: Pod, item: DownwardAPIVolumeFile, context: EnvContext) -> str:
    if item.field_ref is not None:
        path = item.field_ref.field_path
        if path in ("metadata.labels", "metadata.annotations"):
            values = pod.metadata.labels if path == "metadata.labels" else pod.metadata.annotations
            return "\n".join(f"{key}={go_quote(values[key])}" for key in sorted(values))
        return field_value(pod, path, context)
    if item.resource_field_ref is not None:
        name = item.resource_field_ref.container_name or ""
        everyone = (*pod.spec.init_containers, *pod.spec.containers)
        found = next((c for c in everyone if c.name == name), Container(name=name))
        return resource_value(pod, found, EnvVarSource(resource_field_ref=item.resource_field_ref), context)
    return ""
