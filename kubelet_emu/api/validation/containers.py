"""Validation of containers of all three kinds. (pure)

API-070 to API-092.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from attrs import frozen

from kubelet_emu.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from kubelet_emu.api.names import label_problems
from kubelet_emu.api.types import Container, PodSpec, Volume
from kubelet_emu.api.validation.env import (
    host_port_conflicts,
    validate_env,
    validate_env_from,
    validate_ports,
)
from kubelet_emu.api.validation.meta import messages
from kubelet_emu.api.validation.mounts import validate_devices, validate_mounts
from kubelet_emu.api.validation.options import Options
from kubelet_emu.api.validation.probes import validate_lifecycle, validate_probes
from kubelet_emu.api.validation.resources import validate_resources
from kubelet_emu.api.validation.restart import validate_init_restart_policy, validate_restart_policy
from kubelet_emu.api.validation.security import validate_security_context
from kubelet_emu.api.validation.volumes import validate_pull_policy

__all__ = ["Surroundings", "validate_containers", "validate_images"]

_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_RESIZABLE = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_NOT_FOR_INIT = "may not be set for init containers without restartPolicy=Always"
_NOT_FOR_EPHEMERAL = "cannot be set for an Ephemeral Container"


@frozen
class Surroundings:
    """What of the pod a container's validation needs."""

    spec: PodSpec
    volumes: Mapping[str, Volume]
    claims: Collection[str]
    options: Options

    @property
    def os_name(self) -> str:
        return self.spec.os.name if self.spec.os is not None else ""

    @property
    def host_users(self) -> bool:
        return self.spec.host_users is not False


def _validate_resize_policy(container: Container, path: str, pod_policy: str | None) -> list[FieldError]:
    """Only duplicates have an index in their path (API-074)."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, entry in enumerate(container.resize_policy):
        if entry.resource_name in seen:
            errors.append(duplicate(f"{path}[{index}]", entry.resource_name))
        seen.add(entry.resource_name)
        for value, supported in (
            (entry.resource_name, _RESIZABLE),
            (entry.restart_policy, _RESIZE_POLICIES),
        ):
            if not value:
                errors.append(required(path))
            elif value not in supported:
                errors.append(not_supported(path, value, supported))
        if pod_policy == "Never" and entry.restart_policy != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(invalid(path, entry.restart_policy, text))
    return errors


def _validate_common(container: Container, path: str, around: Surroundings) -> list[FieldError]:
    """What all kinds have in common, in the server's order (API-072)."""
    errors: list[FieldError] = []
    if not container.name:
        errors.append(required(f"{path}.name"))
    else:
        errors += messages(f"{path}.name", container.name, label_problems(container.name))
    if not container.image:
        errors.append(required(f"{path}.image"))
    policy = container.termination_message_policy
    if not policy:
        errors.append(required(f"{path}.terminationMessagePolicy"))
    elif policy not in _MESSAGE_POLICIES:
        errors.append(not_supported(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES))
    errors += validate_ports(container.ports, f"{path}.ports")
    errors += validate_env(container.env, f"{path}.env")
    errors += validate_env_from(container.env_from, f"{path}.envFrom")
    errors += validate_mounts(container, around.volumes, f"{path}.volumeMounts")
    errors += validate_devices(container, around.volumes, f"{path}.volumeDevices")
    errors += validate_pull_policy(container.image_pull_policy, f"{path}.imagePullPolicy")
    errors += validate_resources(container.resources, f"{path}.resources", around.claims)
    errors += _validate_resize_policy(container, f"{path}.resizePolicy", around.spec.restart_policy)
    return errors + validate_security_context(
        container.security_context,
        f"{path}.securityContext",
        host_users=around.host_users,
        options=around.options,
    )


def _validate_long_running(container: Container, path: str, around: Surroundings) -> list[FieldError]:
    """Hooks and probes, which only regular containers and sidecars have (API-110)."""
    errors = validate_lifecycle(
        container.lifecycle,
        f"{path}.lifecycle",
        grace_seconds=around.spec.termination_grace_period_seconds,
        os_name=around.os_name,
    )
    return errors + validate_probes(
        container.liveness_probe, container.readiness_probe, container.startup_probe, path
    )


def _validate_regular(around: Surroundings, names: set[str]) -> list[FieldError]:
    containers = around.spec.containers
    if not containers:
        return [required("spec.containers")]
    errors: list[FieldError] = []
    for index, container in enumerate(containers):
        path = f"spec.containers[{index}]"
        errors += _validate_common(container, path, around)
        if container.name and container.name in names:
            errors.append(duplicate(f"{path}.name", container.name))
        names.add(container.name)
        errors += _validate_long_running(container, path, around)
        errors += validate_restart_policy(container, path, around.options)
    return errors + host_port_conflicts(containers, "spec.containers")


def _validate_plain_init(container: Container, path: str) -> list[FieldError]:
    """An init container that is no sidecar (API-080, API-082)."""
    errors = [
        forbidden(f"{path}.{name}", _NOT_FOR_INIT)
        for name, value in (
            ("lifecycle", container.lifecycle),
            ("livenessProbe", container.liveness_probe),
            ("readinessProbe", container.readiness_probe),
            ("startupProbe", container.startup_probe),
        )
        if value is not None
    ]
    if any(entry.restart_policy == "RestartContainer" for entry in container.resize_policy):
        text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
        errors.append(invalid(f"{path}.resizePolicy", container.resize_policy, text))
    return errors


def _validate_init(around: Surroundings, names: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, container in enumerate(around.spec.init_containers):
        path = f"spec.initContainers[{index}]"
        errors += _validate_common(container, path, around)
        errors += validate_init_restart_policy(container, path, around.options)
        if container.name and container.name in names:
            errors.append(duplicate(f"{path}.name", container.name))
        names.add(container.name)
        # The server checks each one as a list of one, hence the index 0 in these paths (API-083).
        errors += host_port_conflicts([container], "spec.initContainers")
        if container.restart_policy == "Always":
            errors += _validate_long_running(container, path, around)
        else:
            errors += _validate_plain_init(container, path)
        if not around.options.sidecar_resize and container.resize_policy:
            text = "must not be set for init containers"
            errors.append(invalid(f"{path}.resizePolicy", container.resize_policy, text))
    return errors


def _forbidden_fields(container: Container) -> Iterator[str]:
    """JSON names of set fields that an ephemeral container may not have (API-091)."""
    resources = container.resources
    for name, present in (
        ("ports", bool(container.ports)),
        ("resources", bool(resources.limits or resources.requests or resources.claims)),
        ("resizePolicy", bool(container.resize_policy)),
        ("restartPolicy", container.restart_policy is not None),
        ("restartPolicyRules", bool(container.restart_policy_rules)),
        ("livenessProbe", container.liveness_probe is not None),
        ("readinessProbe", container.readiness_probe is not None),
        ("startupProbe", container.startup_probe is not None),
        ("lifecycle", container.lifecycle is not None),
    ):
        if present:
            yield name


def _validate_ephemeral(around: Surroundings, others: Collection[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, container in enumerate(around.spec.ephemeral_containers):
        path = f"spec.ephemeralContainers[{index}]"
        errors += _validate_common(container, path, around)
        if container.name and (container.name in others or container.name in names):
            errors.append(duplicate(f"{path}.name", container.name))
        names.add(container.name)
        target = container.target_container_name
        if target and target not in others:
            errors.append(not_found(f"{path}.targetContainerName", target))
        errors += [forbidden(f"{path}.{name}", _NOT_FOR_EPHEMERAL) for name in _forbidden_fields(container)]
        for number, mount in enumerate(container.volume_mounts):
            place = f"{path}.volumeMounts[{number}]"
            if mount.sub_path:
                errors.append(forbidden(f"{place}.subPath", _NOT_FOR_EPHEMERAL))
            if mount.sub_path_expr:
                errors.append(forbidden(f"{place}.subPathExpr", _NOT_FOR_EPHEMERAL))
    return errors


def _image_blanks(containers: Sequence[Container], path: str) -> list[FieldError]:
    return [
        invalid(f"{path}[{index}].image", container.image, "must not have leading or trailing whitespace")
        for index, container in enumerate(containers)
        if container.image != container.image.strip()
    ]


def validate_containers(around: Surroundings) -> list[FieldError]:
    """All containers of the pod; names are unique over the kinds, the later one gets the error (API-071)."""
    names: set[str] = set()
    errors = _validate_regular(around, names)
    errors += _validate_init(around, names)
    return errors + _validate_ephemeral(around, names)


def validate_images(spec: PodSpec) -> list[FieldError]:
    """No image has blanks around it; checked for pods, not for templates (API-070)."""
    return [
        *_image_blanks(spec.containers, "spec.containers"),
        *_image_blanks(spec.init_containers, "spec.initContainers"),
        *_image_blanks(spec.ephemeral_containers, "spec.ephemeralContainers"),
    ]
