"""What the API server fills in before it stores a Pod. (pure)

Defaulting is idempotent and also runs on objects read back from storage (API-010). ``default_pod`` adds,
unless told not to, what the admission plugins add that every cluster runs and that need no other object: the
two tolerations of API-022 and the priority of API-023. The service-account plugin's token volume (API-020)
is not added. Rules API-010 to API-019, API-022, API-023, API-030.

Mirrors ``pkg/apis/core/v1/defaults.go``.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import evolve

from kubelet_emu.api.images import default_pull_policy
from kubelet_emu.api.qos import qos_of_spec
from kubelet_emu.api.resources import (
    ResourceList,
    aggregate_limits,
    aggregate_requests,
    is_hugepage,
    is_pod_level_resource,
)
from kubelet_emu.api.types import (
    ApiObject,
    Container,
    ContainerPort,
    ContainerStatus,
    EnvVar,
    HTTPGetAction,
    Lifecycle,
    LifecycleHandler,
    Pod,
    PodSecurityContext,
    PodSpec,
    PodStatus,
    Probe,
    ResourceRequirements,
    Toleration,
)
from kubelet_emu.api.volume_defaults import default_volume

__all__ = ["DEFAULT_TOLERATIONS", "admitted_spec", "default_container", "default_pod", "default_pod_spec"]

T = TypeVar("T", bound=ApiObject)

DEFAULT_TOLERATIONS: tuple[Toleration, ...] = tuple(
    Toleration(
        key=f"node.kubernetes.io/{what}", operator="Exists", effect="NoExecute", toleration_seconds=300
    )
    for what in ("not-ready", "unreachable")
)
"""What the DefaultTolerationSeconds plugin adds where a pod does not tolerate these taints (API-022)."""

_MILLI_NANOS = 10**6


def _changed(value: T, **changes: Any) -> T:
    """``value`` with those changes that are changes; itself if there are none."""
    real = {name: new for name, new in changes.items() if getattr(value, name) is not new}
    return evolve(value, **real) if real else value


def _each(values: tuple[T, ...], change: Any) -> tuple[T, ...]:
    changed = tuple(change(value) for value in values)
    return values if all(a is b for a, b in zip(values, changed, strict=True)) else changed


def _rounded(resources: ResourceList) -> ResourceList:
    """Every quantity rounded up to whole milli-units (API-018)."""
    if all(quantity.nanos % _MILLI_NANOS == 0 for quantity in resources.values()):
        return resources
    return {name: quantity.round_up(-3) for name, quantity in resources.items()}


def _rounded_requirements(resources: ResourceRequirements) -> ResourceRequirements:
    return _changed(resources, limits=_rounded(resources.limits), requests=_rounded(resources.requests))


def _requests_from_limits(resources: ResourceRequirements) -> ResourceRequirements:
    """Every key of limits that requests lack, copied (API-011)."""
    missing = {name: limit for name, limit in resources.limits.items() if name not in resources.requests}
    return evolve(resources, requests={**resources.requests, **missing}) if missing else resources


def _http(action: HTTPGetAction | None) -> HTTPGetAction | None:
    if action is None or (action.path and action.scheme):
        return action
    return evolve(action, path=action.path or "/", scheme=action.scheme or "HTTP")


def _probe(probe: Probe | None) -> Probe | None:
    """API-016: a zero becomes the default."""
    if probe is None:
        return None
    grpc = probe.grpc
    return _changed(
        probe,
        http_get=_http(probe.http_get),
        grpc=evolve(grpc, service="") if grpc is not None and grpc.service is None else grpc,
        timeout_seconds=probe.timeout_seconds or 1,
        period_seconds=probe.period_seconds or 10,
        success_threshold=probe.success_threshold or 1,
        failure_threshold=probe.failure_threshold or 3,
    )


def _handler(handler: LifecycleHandler | None) -> LifecycleHandler | None:
    return None if handler is None else _changed(handler, http_get=_http(handler.http_get))


def _lifecycle(lifecycle: Lifecycle | None) -> Lifecycle | None:
    if lifecycle is None:
        return None
    return _changed(
        lifecycle, post_start=_handler(lifecycle.post_start), pre_stop=_handler(lifecycle.pre_stop)
    )


def _env(variable: EnvVar) -> EnvVar:
    source = variable.value_from
    if source is None:
        return variable
    field, file = source.field_ref, source.file_key_ref
    source = _changed(
        source,
        field_ref=evolve(field, api_version="v1") if field is not None and not field.api_version else field,
        file_key_ref=evolve(file, optional=False) if file is not None and file.optional is None else file,
    )
    return _changed(variable, value_from=source)


def _port(port: ContainerPort) -> ContainerPort:
    return port if port.protocol else evolve(port, protocol="TCP")


def _host_port(port: ContainerPort) -> ContainerPort:
    return port if port.host_port or not port.container_port else evolve(port, host_port=port.container_port)


def default_container(container: Container) -> Container:
    """A container of any kind with the defaults of API-014; requests are not taken from limits here."""
    return _changed(
        container,
        image_pull_policy=container.image_pull_policy or default_pull_policy(container.image),
        termination_message_path=container.termination_message_path or "/dev/termination-log",
        termination_message_policy=container.termination_message_policy or "File",
        ports=_each(container.ports, _port),
        env=_each(container.env, _env),
        liveness_probe=_probe(container.liveness_probe),
        readiness_probe=_probe(container.readiness_probe),
        startup_probe=_probe(container.startup_probe),
        lifecycle=_lifecycle(container.lifecycle),
        resources=_rounded_requirements(container.resources),
    )


def _main_container(container: Container) -> Container:
    """A regular or init container: limits to requests before anything else (API-010, API-011)."""
    return default_container(_changed(container, resources=_requests_from_limits(container.resources)))


def _pod_resources(spec: PodSpec) -> ResourceRequirements | None:
    """Pod-level resources completed from the containers' (API-012)."""
    resources = spec.resources
    if resources is None or not (resources.limits or resources.requests):
        return resources
    limits = dict(resources.limits)
    requests = dict(resources.requests)
    for name, quantity in aggregate_limits(spec).items():
        if is_hugepage(name) and name not in requests:
            limits.setdefault(name, quantity)
    if limits:
        for name, quantity in aggregate_requests(spec).items():
            if is_pod_level_resource(name) and not is_hugepage(name):
                requests.setdefault(name, quantity)
        for name, quantity in limits.items():
            if is_pod_level_resource(name):
                requests.setdefault(name, quantity)
    return _rounded_requirements(
        _changed(
            resources,
            limits=limits if limits != resources.limits else resources.limits,
            requests=requests if requests != resources.requests else resources.requests,
        )
    )


def default_pod_spec(spec: PodSpec) -> PodSpec:
    """A pod spec with every default of API-011 to API-018."""
    spec = _changed(
        spec,
        containers=_each(spec.containers, _main_container),
        init_containers=_each(spec.init_containers, _main_container),
        ephemeral_containers=_each(spec.ephemeral_containers, default_container),
    )
    if spec.host_network:
        spec = _changed(
            spec,
            containers=_each(spec.containers, _host_ports),
            init_containers=_each(spec.init_containers, _host_ports),
        )
    grace = spec.termination_grace_period_seconds
    account = spec.service_account_name or spec.service_account
    return _changed(
        spec,
        enable_service_links=True if spec.enable_service_links is None else spec.enable_service_links,
        restart_policy=spec.restart_policy or "Always",
        dns_policy=spec.dns_policy or "ClusterFirst",
        termination_grace_period_seconds=30 if grace is None else grace,
        security_context=_NO_SECURITY_CONTEXT if spec.security_context is None else spec.security_context,
        scheduler_name=spec.scheduler_name or "default-scheduler",
        service_account=account,
        service_account_name=account,
        volumes=_each(spec.volumes, default_volume),
        resources=_pod_resources(spec),
        overhead=_rounded(spec.overhead),
    )


_NO_SECURITY_CONTEXT = PodSecurityContext()


def _host_ports(container: Container) -> Container:
    return _changed(container, ports=_each(container.ports, _host_port))


def _tolerates(tolerations: tuple[Toleration, ...], key: str) -> bool:
    """Whether NoExecute taints of that key are already tolerated, in the eyes of the plugin (API-022)."""
    return any(
        (toleration.key == key or not toleration.key) and toleration.effect in ("NoExecute", "", None)
        for toleration in tolerations
    )


def admitted_spec(spec: PodSpec) -> PodSpec:
    """A spec with what the admission plugins of API-022 and API-023 add."""
    missing = tuple(t for t in DEFAULT_TOLERATIONS if not _tolerates(spec.tolerations, t.key or ""))
    return _changed(
        spec,
        tolerations=(*spec.tolerations, *missing) if missing else spec.tolerations,
        priority=0 if spec.priority is None else spec.priority,
        preemption_policy=spec.preemption_policy or "PreemptLowerPriority",
    )


def _status_container(status: ContainerStatus) -> ContainerStatus:
    resources = status.resources
    return _changed(
        status,
        allocated_resources=_rounded(status.allocated_resources),
        resources=resources if resources is None else _rounded_requirements(resources),
    )


def _default_status(pod: Pod, spec: PodSpec) -> PodStatus:
    status = pod.status
    resources = status.resources
    lists: Mapping[str, Any] = {
        name: _each(getattr(status, name), _status_container)
        for name in ("container_statuses", "init_container_statuses", "ephemeral_container_statuses")
    }
    return _changed(
        status,
        phase=status.phase or "Pending",
        qos_class=status.qos_class or qos_of_spec(spec),
        allocated_resources=_rounded(status.allocated_resources),
        resources=resources if resources is None else _rounded_requirements(resources),
        **lists,
    )


def default_pod(pod: Pod, *, admitted: bool = True) -> Pod:
    """The pod as the API server stores it, without what only a server can assign (uid, version, times).

    With ``admitted`` false nothing of API-022 and API-023 is added: that is how a kubelet defaults a pod
    from a file (API-173).
    """
    spec = default_pod_spec(pod.spec)
    if admitted:
        spec = admitted_spec(spec)
    return _changed(pod, spec=spec, status=_default_status(pod, spec))
