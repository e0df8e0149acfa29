"""Environment variables of a container that is about to start (pure).

Mirrors ``makeEnvironmentVariables`` of ``pkg/kubelet/kubelet_pods.go``, ``pkg/kubelet/envvars`` and
``third_party/forked/golang/expansion`` (VOL-20 to VOL-26). The shell fetches what ``needed_sources`` lists
and hands it to ``build_env``.
"""

from collections.abc import Callable, Mapping, Sequence

from attrs import field, frozen

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import Container, EnvVar, EnvVarSource, FileKeySelector, Pod
from kubelet_emu.errors import PeerError
from kubelet_emu.kuberuntime.gotext import go_quote
from kubelet_emu.kuberuntime.seams import ServiceInfo

__all__ = [
    "ConfigError",
    "EnvContext",
    "EnvSources",
    "NeededSources",
    "build_env",
    "expand",
    "field_value",
    "needed_sources",
    "parse_env_file",
    "resource_value",
    "service_env",
]

_MASTER_NAMESPACE = "default"
_MASTER_SERVICE = "kubernetes"


class ConfigError(PeerError):
    """Raised when a container's configuration cannot be made; its text is the waiting message (VOL-24)."""


@frozen
class NeededSources:
    """Names of the objects and files (volume, path) a container's environment refers to, in order."""

    config_maps: tuple[str, ...]
    secrets: tuple[str, ...]
    files: tuple[tuple[str, str], ...]


def _no_texts() -> Mapping[str, Mapping[str, str] | None]:
    return {}


def _no_bytes() -> Mapping[str, Mapping[str, bytes] | None]:
    return {}


def _no_files() -> Mapping[tuple[str, str], bytes | None]:
    return {}


@frozen
class EnvSources:
    """The fetched sources by name; None marks one that does not exist."""

    config_maps: Mapping[str, Mapping[str, str] | None] = field(factory=_no_texts)
    secrets: Mapping[str, Mapping[str, bytes] | None] = field(factory=_no_bytes)
    files: Mapping[tuple[str, str], bytes | None] = field(factory=_no_files)


@frozen(kw_only=True)
class EnvContext:
    """What fieldRef and resourceFieldRef read besides the pod itself."""

    pod_ips: tuple[str, ...] = ()
    host_ips: tuple[str, ...] = ()
    allocatable: Mapping[str, Quantity] = field(factory=dict[str, Quantity])
    services: Sequence[ServiceInfo] | None = ()


def needed_sources(container: Container) -> NeededSources:
    """What the shell has to fetch for this container, each once."""
    config_maps: dict[str, None] = {}
    secrets: dict[str, None] = {}
    files: dict[tuple[str, str], None] = {}
    for source in container.env_from:
        if source.config_map_ref is not None:
            config_maps[source.config_map_ref.name or ""] = None
        if source.secret_ref is not None:
            secrets[source.secret_ref.name or ""] = None
    for variable in container.env:
        origin = variable.value_from
        if origin is None:
            continue
        if origin.config_map_key_ref is not None:
            config_maps[origin.config_map_key_ref.name or ""] = None
        if origin.secret_key_ref is not None:
            secrets[origin.secret_key_ref.name or ""] = None
        if origin.file_key_ref is not None:
            files[origin.file_key_ref.volume_name, origin.file_key_ref.path] = None
    return NeededSources(tuple(config_maps), tuple(secrets), tuple(files))


def expand(text: str, lookup: Callable[[str], str | None]) -> str:
    """``$(NAME)`` replaced by its value; ``$$`` is one dollar, unknown names stay as written (VOL-22)."""
    parts: list[str] = []
    position = 0
    while True:
        dollar = text.find("$", position)
        if dollar < 0 or dollar + 1 >= len(text):
            return "".join((*parts, text[position:]))
        parts.append(text[position:dollar])
        following = text[dollar + 1]
        close = text.find(")", dollar + 2) if following == "(" else -1
        if following == "$":
            parts.append("$")
            position = dollar + 2
        elif close >= 0:
            name = text[dollar + 2 : close]
            value = lookup(name)
            parts.append(f"$({name})" if value is None else value)
            position = close + 1
        else:
            parts.append("$(" if following == "(" else f"${following}")
            position = dollar + 2


def _variable_name(name: str) -> str:
    return name.upper().replace("-", "_")


def service_env(services: Sequence[ServiceInfo], namespace: str, *, links: bool) -> dict[str, str]:
    """Variables of the services a pod sees: the master's always, its namespace's with service links
    (VOL-26).
    """
    chosen: dict[str, ServiceInfo] = {}
    for service in services:
        if service.cluster_ip in ("", "None"):
            continue
        if service.namespace == namespace and links:
            chosen[service.name] = service
        elif service.namespace == _MASTER_NAMESPACE and service.name == _MASTER_SERVICE:
            chosen.setdefault(service.name, service)
    variables: dict[str, str] = {}
    for name in sorted(chosen):
        variables |= _variables_of(chosen[name])
    return variables


def _variables_of(service: ServiceInfo) -> dict[str, str]:
    prefix = _variable_name(service.name)
    host = f"[{service.cluster_ip}]" if ":" in service.cluster_ip else service.cluster_ip
    variables = {f"{prefix}_SERVICE_HOST": service.cluster_ip}
    if service.ports:
        variables[f"{prefix}_SERVICE_PORT"] = str(service.ports[0].port)
    for port in service.ports:
        if port.name:
            variables[f"{prefix}_SERVICE_PORT_{_variable_name(port.name)}"] = str(port.port)
    for index, port in enumerate(service.ports):
        protocol = port.protocol or "TCP"
        address = f"{protocol.lower()}://{host}:{port.port}"
        key = f"{prefix}_PORT_{port.port}_{protocol.upper()}"
        if index == 0:
            variables[f"{prefix}_PORT"] = address
        variables[key] = address
        variables[f"{key}_PROTO"] = protocol.lower()
        variables[f"{key}_PORT"] = str(port.port)
        variables[f"{key}_ADDR"] = service.cluster_ip
    return variables


def field_value(pod: Pod, path: str, context: EnvContext) -> str:
    """Value of a fieldRef (VOL-25). Raises ``ConfigError`` for a path that is not one."""
    meta, spec = pod.metadata, pod.spec
    simple: dict[str, str] = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "spec.nodeName": spec.node_name or "",
        "spec.serviceAccountName": spec.service_account_name or "",
        "status.hostIP": next(iter(context.host_ips), ""),
        "status.hostIPs": ",".join(context.host_ips),
        "status.podIP": next(iter(context.pod_ips), ""),
        "status.podIPs": ",".join(context.pod_ips),
    }
    if path in simple:
        return simple[path]
    for prefix, values in (("metadata.labels", meta.labels), ("metadata.annotations", meta.annotations)):
        if path.startswith(f"{prefix}['") and path.endswith("']"):
            return values.get(path[len(prefix) + 2 : -2], "")
    raise ConfigError(f"unsupported fieldPath: {path}")


def _limit_or_allocatable(
    container: Container, resource: str, allocatable: Mapping[str, Quantity]
) -> Quantity | None:
    limit = container.resources.limits.get(resource)
    return limit if limit else allocatable.get(resource)


def resource_value(pod: Pod, container: Container, origin: EnvVarSource, context: EnvContext) -> str:
    """Value of a resourceFieldRef; limits that are not set are the node's allocatable (VOL-25)."""
    ref = origin.resource_field_ref
    if ref is None:
        return ""
    subject = container
    if ref.container_name and ref.container_name != container.name:
        everyone = (*pod.spec.init_containers, *pod.spec.containers)
        found = next((c for c in everyone if c.name == ref.container_name), None)
        if found is None:
            raise ConfigError(f"container {ref.container_name} not found")
        subject = found
    kind, _, resource = ref.resource.partition(".")
    if kind == "limits":
        quantity = _limit_or_allocatable(subject, resource, context.allocatable)
    elif kind == "requests":
        quantity = subject.resources.requests.get(resource)
    else:
        raise ConfigError(f"unsupported container resource : {ref.resource}")
    if resource == "cpu":
        divisor = ref.divisor.milli_value() or 1000
        amount = quantity.milli_value() if quantity is not None else 0
    else:
        divisor = ref.divisor.value() or 1
        amount = quantity.value() if quantity is not None else 0
    return str(-(-amount // divisor))


def parse_env_file(data: bytes) -> dict[str, str]:
    """``KEY=VALUE`` lines; blank lines and comments are skipped, one pair of quotes is taken off.

    Raises ``ConfigError`` for a line that is neither.
    """
    values: dict[str, str] = {}
    for line in data.decode(errors="replace").splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        key, equals, value = stripped.partition("=")
        if not equals or not key.strip():
            raise ConfigError("couldn't parse env file")
        value = value.strip()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        values[key.strip()] = value
    return values


def _file_value(ref: FileKeySelector, sources: EnvSources) -> str | None:
    data = sources.files.get((ref.volume_name, ref.path))
    if data is None:
        if ref.optional:
            return None
        raise ConfigError("couldn't parse env file")
    value = parse_env_file(data).get(ref.key, "")
    if value:
        return value
    if ref.optional:
        return None
    raise ConfigError(f"environment variable key {go_quote(ref.key)} not found in file {go_quote(ref.path)}")


def _config_map_value(pod: Pod, origin: EnvVarSource, sources: EnvSources) -> str | None:
    ref = origin.config_map_key_ref
    if ref is None:
        return None
    name = ref.name or ""
    data = sources.config_maps.get(name)
    if data is None:
        if ref.optional:
            return None
        raise ConfigError(f"configmap {go_quote(name)} not found")
    if ref.key in data:
        return data[ref.key]
    if ref.optional:
        return None
    raise ConfigError(f"couldn't find key {ref.key} in ConfigMap {pod.metadata.namespace}/{name}")


def _secret_value(pod: Pod, origin: EnvVarSource, sources: EnvSources) -> str | None:
    ref = origin.secret_key_ref
    if ref is None:
        return None
    name = ref.name or ""
    data = sources.secrets.get(name)
    if data is None:
        if ref.optional:
            return None
        raise ConfigError(f"secret {go_quote(name)} not found")
    if ref.key in data:
        return data[ref.key].decode(errors="replace")
    if ref.optional:
        return None
    raise ConfigError(f"couldn't find key {ref.key} in Secret {pod.metadata.namespace}/{name}")


def _value_from(
    pod: Pod, container: Container, origin: EnvVarSource, sources: EnvSources, context: EnvContext
) -> str | None:
    """Value of one valueFrom, None where an optional source is missing (VOL-23)."""
    if origin.field_ref is not None:
        return field_value(pod, origin.field_ref.field_path, context)
    if origin.resource_field_ref is not None:
        return resource_value(pod, container, origin, context)
    if origin.config_map_key_ref is not None:
        return _config_map_value(pod, origin, sources)
    if origin.secret_key_ref is not None:
        return _secret_value(pod, origin, sources)
    if origin.file_key_ref is not None:
        return _file_value(origin.file_key_ref, sources)
    return ""


def _from_sources(container: Container, sources: EnvSources) -> dict[str, str]:
    """All keys of all envFrom sources; later ones win (VOL-21)."""
    values: dict[str, str] = {}
    for source in container.env_from:
        prefix = source.prefix or ""
        if source.config_map_ref is not None:
            name = source.config_map_ref.name or ""
            data = sources.config_maps.get(name)
            if data is None and not source.config_map_ref.optional:
                raise ConfigError(f"configmap {go_quote(name)} not found")
            values |= {f"{prefix}{key}": data[key] for key in sorted(data or {}) if data}
        if source.secret_ref is not None:
            name = source.secret_ref.name or ""
            secret = sources.secrets.get(name)
            if secret is None and not source.secret_ref.optional:
                raise ConfigError(f"secret {go_quote(name)} not found")
            values |= {
                f"{prefix}{key}": secret[key].decode(errors="replace")
                for key in sorted(secret or {})
                if secret
            }
    return values


def _one(
    pod: Pod,
    container: Container,
    variable: EnvVar,
    values: Mapping[str, str],
    links: Mapping[str, str],
    sources: EnvSources,
    context: EnvContext,
) -> str | None:
    if variable.value:
        return expand(variable.value, lambda name: values.get(name, links.get(name)))
    if variable.value_from is not None:
        return _value_from(pod, container, variable.value_from, sources, context)
    return ""


def build_env(pod: Pod, container: Container, sources: EnvSources, context: EnvContext) -> dict[str, str]:
    """The variables of a container in the order given: envFrom, env, then services (VOL-21).

    The kubelet sends them in map order, which is no order; here the order is fixed. Raises ``ConfigError``.
    """
    if pod.spec.enable_service_links is None:
        raise ConfigError("nil pod.spec.enableServiceLinks encountered, cannot construct envvars")
    if context.services is None:
        raise ConfigError("services have not yet been read at least once, cannot construct envvars")
    links = service_env(context.services, pod.metadata.namespace, links=pod.spec.enable_service_links)
    values = _from_sources(container, sources)
    for variable in container.env:
        value = _one(pod, container, variable, values, links, sources, context)
        if value is not None:
            values[variable.name] = value
    return values | {name: value for name, value in links.items() if name not in values}
