"""Validation of ports and environment. (pure)

API-120 to API-127.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from kubelet_emu.api.field_errors import FieldError, duplicate, invalid, not_supported, required
from kubelet_emu.api.names import (
    config_key_problems,
    env_name_problems,
    port_name_problems,
    port_number_problems,
    qualified_name_problems,
    subdomain_problems,
)
from kubelet_emu.api.types import (
    ConfigMapKeySelector,
    Container,
    ContainerPort,
    EnvFromSource,
    EnvVar,
    FileKeySelector,
    ObjectFieldSelector,
    ResourceFieldSelector,
    SecretKeySelector,
)
from kubelet_emu.api.validation.meta import messages
from kubelet_emu.api.validation.paths import relative_path_errors

__all__ = [
    "ENV_FIELD_PATHS",
    "host_port_conflicts",
    "validate_env",
    "validate_env_from",
    "validate_field_ref",
    "validate_ports",
    "validate_resource_field_ref",
]

_PROTOCOLS = ("SCTP", "TCP", "UDP")
ENV_FIELD_PATHS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
"""What ``env[].valueFrom.fieldRef`` may name, besides one label or annotation (API-125)."""
_CONVERTIBLE = frozenset(
    {
        *ENV_FIELD_PATHS,
        "metadata.annotations",
        "metadata.labels",
        "spec.host",
        "spec.restartPolicy",
        "spec.schedulerName",
        "status.phase",
    }
)
_SUBSCRIPT = re.compile(r"(.*)\['([^']+)'\]")
_RESOURCES = ("cpu", "ephemeral-storage", "memory")
_RESOURCE_FIELDS = tuple(f"{kind}.{name}" for kind in ("limits", "requests") for name in _RESOURCES)
_HUGEPAGE_FIELDS = ("limits.hugepages-", "requests.hugepages-")
_SIZE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_ONE_OF = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
)


def validate_ports(ports: Sequence[ContainerPort], path: str) -> list[FieldError]:
    """The ports of one container (API-120)."""
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        place = f"{path}[{index}]"
        if port.name:
            problems = port_name_problems(port.name)
            errors += messages(f"{place}.name", port.name, problems)
            if not problems and port.name in names:
                errors.append(duplicate(f"{place}.name", port.name))
            names.add(port.name)
        if port.container_port == 0:
            errors.append(required(f"{place}.containerPort"))
        else:
            problems = port_number_problems(port.container_port)
            errors += messages(f"{place}.containerPort", port.container_port, problems)
        if port.host_port:
            errors += messages(f"{place}.hostPort", port.host_port, port_number_problems(port.host_port))
        if not port.protocol:
            errors.append(required(f"{place}.protocol"))
        elif port.protocol not in _PROTOCOLS:
            errors.append(not_supported(f"{place}.protocol", port.protocol, _PROTOCOLS))
    return errors


def host_port_conflicts(containers: Iterable[Container], path: str) -> list[FieldError]:
    """The same host port twice over the given containers (API-122)."""
    errors: list[FieldError] = []
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.ports):
            if not port.host_port:
                continue
            key = f"{port.protocol or ''}/{port.host_ip or ''}/{port.host_port}"
            if key in taken:
                errors.append(duplicate(f"{path}[{index}].ports[{number}].hostPort", key))
            taken.add(key)
    return errors


def validate_field_ref(ref: ObjectFieldSelector, path: str, allowed: Sequence[str]) -> list[FieldError]:
    """A ``fieldRef`` of env or of a volume; ``allowed`` are the paths that need no subscript (API-125)."""
    if not ref.api_version:
        return [required(f"{path}.apiVersion")]
    if not ref.field_path:
        return [required(f"{path}.fieldPath")]
    match = _SUBSCRIPT.fullmatch(ref.field_path)
    if match is not None and match[1] in ("metadata.labels", "metadata.annotations"):
        key = match[2].lower() if match[1] == "metadata.annotations" else match[2]
        return messages(path, match[2], qualified_name_problems(key))
    problem = ""
    if ref.api_version != "v1":
        problem = f"unsupported pod version: {ref.api_version}"
    elif ref.field_path not in _CONVERTIBLE:
        problem = f"field label not supported: {ref.field_path}"
    if problem:
        return [invalid(f"{path}.fieldPath", ref.field_path, f"error converting fieldPath: {problem}")]
    name = "spec.nodeName" if ref.field_path == "spec.host" else ref.field_path
    if name not in allowed:
        return [not_supported(f"{path}.fieldPath", name, sorted(allowed))]
    return []


def _validate_divisor(ref: ResourceFieldSelector, path: str) -> list[FieldError]:
    if not ref.divisor:
        return []
    resource = ref.resource.partition(".")[2]
    if resource == "cpu":
        allowed, values, name = ("1m", "1"), "1m and 1", "cpu"
    elif resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        names = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}
        allowed, values, name = _SIZE_DIVISORS, ", ".join(_SIZE_DIVISORS), names.get(resource, "hugepages")
    else:
        return []
    if str(ref.divisor) in allowed:
        return []
    text = f"only divisor's values {values} are supported with the {name} resource"
    return [invalid(f"{path}.divisor", ref.resource, text)]


def validate_resource_field_ref(
    ref: ResourceFieldSelector, path: str, *, needs_container: bool
) -> list[FieldError]:
    """A ``resourceFieldRef``; in a volume it has to name the container (API-126)."""
    errors: list[FieldError] = []
    if needs_container and not ref.container_name:
        errors.append(required(f"{path}.containerName"))
    elif not ref.resource:
        errors.append(required(f"{path}.resource"))
    elif ref.resource not in _RESOURCE_FIELDS and not ref.resource.startswith(_HUGEPAGE_FIELDS):
        errors.append(not_supported(f"{path}.resource", ref.resource, _RESOURCE_FIELDS))
    return errors + _validate_divisor(ref, path)


def _validate_key_ref(ref: ConfigMapKeySelector | SecretKeySelector, path: str) -> list[FieldError]:
    errors = messages(f"{path}.name", ref.name or "", subdomain_problems(ref.name or ""))
    if not ref.key:
        errors.append(required(f"{path}.key"))
        return errors
    return errors + messages(f"{path}.key", ref.key, config_key_problems(ref.key))


def _validate_file_ref(ref: FileKeySelector, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not ref.key:
        errors.append(required(f"{path}.key"))
    else:
        errors += messages(f"{path}.key", ref.key, env_name_problems(ref.key))
    if not ref.volume_name:
        errors.append(required(f"{path}.volumeName"))
    if not ref.path:
        errors.append(required(f"{path}.path"))
    else:
        errors += relative_path_errors(ref.path, f"{path}.path", reserved=True)
    return errors


def _validate_value_from(variable: EnvVar, path: str) -> list[FieldError]:
    source = variable.value_from
    if source is None:
        return []
    errors: list[FieldError] = []
    if source.field_ref is not None:
        errors += validate_field_ref(source.field_ref, f"{path}.fieldRef", ENV_FIELD_PATHS)
    if source.resource_field_ref is not None:
        place = f"{path}.resourceFieldRef"
        errors += validate_resource_field_ref(source.resource_field_ref, place, needs_container=False)
    if source.config_map_key_ref is not None:
        errors += _validate_key_ref(source.config_map_key_ref, f"{path}.configMapKeyRef")
    if source.secret_key_ref is not None:
        errors += _validate_key_ref(source.secret_key_ref, f"{path}.secretKeyRef")
    if source.file_key_ref is not None:
        errors += _validate_file_ref(source.file_key_ref, f"{path}.fileKeyRef")
    refs = (
        source.field_ref,
        source.resource_field_ref,
        source.config_map_key_ref,
        source.secret_key_ref,
        source.file_key_ref,
    )
    count = sum(ref is not None for ref in refs)
    if count == 0:
        errors.append(invalid(path, "", _ONE_OF))
    elif variable.value:
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def validate_env(variables: Sequence[EnvVar], path: str) -> list[FieldError]:
    """The ``env`` of one container (API-123, API-124)."""
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        place = f"{path}[{index}]"
        if not variable.name:
            errors.append(required(f"{place}.name"))
        else:
            errors += messages(f"{place}.name", variable.name, env_name_problems(variable.name))
        errors += _validate_value_from(variable, f"{place}.valueFrom")
    return errors


def validate_env_from(sources: Sequence[EnvFromSource], path: str) -> list[FieldError]:
    """The ``envFrom`` of one container; two of its errors have no index (API-124)."""
    errors: list[FieldError] = []
    for index, source in enumerate(sources):
        place = f"{path}[{index}]"
        if source.prefix:
            errors += messages(f"{place}.prefix", source.prefix, env_name_problems(source.prefix))
        named = [
            (name, ref)
            for name, ref in (("configMapRef", source.config_map_ref), ("secretRef", source.secret_ref))
            if ref is not None
        ]
        for name, ref in named:
            if not ref.name:
                errors.append(required(f"{place}.{name}.name"))
            else:
                errors += messages(f"{place}.{name}.name", ref.name, subdomain_problems(ref.name))
        if not named:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(named) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors
