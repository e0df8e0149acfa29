"""Validation of a status update. (pure)

API-164 to API-167, RST-010.
"""

from collections.abc import Collection, Mapping, Sequence

from kubelet_emu.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubelet_emu.api.names import ip_problems, qualified_name_problems
from kubelet_emu.api.restart_rules import all_containers_could_restart, container_should_restart
from kubelet_emu.api.types import Container, ContainerStatus, Pod, PodSpec, PodStatus, ResourceStatus
from kubelet_emu.api.validation.meta import (
    messages,
    validate_meta_update,
    validate_mirror_annotation_update,
)
from kubelet_emu.api.validation.options import Options, options_for
from kubelet_emu.gates import Gates

__all__ = ["validate_pod_status_update"]

_NO_TRANSITION = "may not be transitioned to non-terminated state"
_NOT_NEGATIVE = "must be greater than or equal to 0"
_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_HEALTH = ("Healthy", "Unhealthy", "Unknown")
_MAX_MESSAGE_BYTES = 1024


def _may_restart(spec: PodSpec, name: str, exit_code: int, options: Options) -> bool:
    """Whether the kubelet's own rule lets the container leave its terminated state (API-165)."""
    sidecars: Mapping[str, Container] = {c.name: c for c in spec.init_containers}
    known: Mapping[str, Container] = {c.name: c for c in spec.containers} | dict(sidecars)
    if not options.restart_rules:
        sidecar = sidecars.get(name)
        if sidecar is not None and sidecar.restart_policy == "Always":
            return True
        return spec.restart_policy == "Always" or (spec.restart_policy == "OnFailure" and exit_code != 0)
    if options.restart_all and all_containers_could_restart(spec):
        return True
    container = known.get(name)
    return container is not None and container_should_restart(
        container, spec.restart_policy, exit_code, restart_all=options.restart_all
    )


def _transitions(
    new: Sequence[ContainerStatus],
    old: Sequence[ContainerStatus],
    spec: PodSpec,
    path: str,
    options: Options,
    *,
    restartable: bool,
) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, before in enumerate(old):
        terminated = before.state.terminated
        if terminated is None:
            continue
        if restartable and _may_restart(spec, before.name, terminated.exit_code, options):
            continue
        errors += [
            forbidden(f"{path}[{index}].state", _NO_TRANSITION)
            for after in new
            if after.name == before.name and after.state.terminated is None
        ]
    return errors


def _all_transitions(new: PodStatus, old: PodStatus, spec: PodSpec, options: Options) -> list[FieldError]:
    errors: list[FieldError] = []
    for json, attribute, restartable in (
        ("containerStatuses", "container_statuses", True),
        ("initContainerStatuses", "init_container_statuses", True),
        ("ephemeralContainerStatuses", "ephemeral_container_statuses", False),
    ):
        errors += _transitions(
            getattr(new, attribute),
            getattr(old, attribute),
            spec,
            f"status.{json}",
            options,
            restartable=restartable,
        )
    return errors


def _validate_conditions(status: PodStatus) -> list[FieldError]:
    errors: list[FieldError] = []
    if (status.observed_generation or 0) < 0:
        path = "status.observedGeneration"
        errors.append(invalid(path, status.observed_generation, _NOT_NEGATIVE))
    for index, condition in enumerate(status.conditions):
        path = f"status.conditions[{index}]"
        if condition.type not in _SYSTEM_CONDITIONS:
            errors += messages(f"{path}.Type", condition.type, qualified_name_problems(condition.type))
        generation = condition.observed_generation
        if (generation or 0) < 0:
            errors.append(invalid(f"{path}.observedGeneration", generation, _NOT_NEGATIVE))
    return errors


def _validate_ips(ips: Sequence[str], path: str, single: str | None = None) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, ip in enumerate(ips):
        errors += messages(f"{path}[{index}]", ip, ip_problems(ip))
    if ips and single is not None and ips[0] != single:
        errors.append(invalid(f"{path}[0].ip", ips[0], "must be equal to `hostIP`"))
    families = [":" in ip for ip in ips]
    if len(set(families)) != len(families):
        errors.append(invalid(path, list(ips), "may specify no more than one IP for each IP family"))
    return errors


def _validate_health(
    status: ResourceStatus, container: Container | None, path: str, ephemeral: bool
) -> list[FieldError]:
    if ephemeral:
        return [forbidden(path, "must not be specified in container status")]
    errors: list[FieldError] = []
    if container is not None:
        requested: Collection[str] = {
            *container.resources.requests,
            *(
                f"claim:{claim.name}/{claim.request}" if claim.request else f"claim:{claim.name}"
                for claim in container.resources.claims
            ),
        }
        if status.name not in requested:
            text = "must match one of the container's resource requests"
            errors.append(invalid(f"{path}.name", status.name, text))
    seen: set[str] = set()
    for index, health in enumerate(status.resources):
        place = f"{path}.resources[{index}]"
        if health.resource_id in seen:
            errors.append(duplicate(f"{place}.resourceID", health.resource_id))
        seen.add(health.resource_id)
        if health.health is not None and health.health not in _HEALTH:
            errors.append(not_supported(f"{place}.health", health.health, _HEALTH))
        if health.message is not None:
            if not health.message:
                errors.append(required(f"{place}.message", "must not be empty"))
            elif len(health.message.encode()) > _MAX_MESSAGE_BYTES:
                errors.append(too_long(f"{place}.message", _MAX_MESSAGE_BYTES))
    return errors


def _validate_allocated(status: PodStatus, spec: PodSpec) -> list[FieldError]:
    """API-166."""
    errors: list[FieldError] = []
    for json, statuses, containers in (
        ("containerStatuses", status.container_statuses, spec.containers),
        ("initContainerStatuses", status.init_container_statuses, spec.init_containers),
        ("ephemeralContainerStatuses", status.ephemeral_container_statuses, spec.ephemeral_containers),
    ):
        by_name: Mapping[str, Container] = {container.name: container for container in containers}
        for index, one in enumerate(statuses):
            if one.name not in by_name:
                continue
            for number, resource in enumerate(one.allocated_resources_status):
                path = f"status.{json}[{index}].allocatedResourcesStatus[{number}]"
                ephemeral = json.startswith("ephemeral")
                errors += _validate_health(resource, by_name[one.name], path, ephemeral)
    return errors


def _validate_claim_statuses(status: PodStatus, spec: PodSpec) -> list[FieldError]:
    """API-167."""
    errors: list[FieldError] = []
    names = {claim.name for claim in spec.resource_claims}
    seen: set[str] = set()
    for index, claim in enumerate(status.resource_claim_statuses):
        path = f"status.resourceClaimStatuses[{index}].name"
        if claim.name not in names:
            text = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(invalid(path, claim.name, text))
        if claim.name in seen:
            errors.append(duplicate(path, claim.name))
        seen.add(claim.name)
    return errors


def validate_pod_status_update(
    new: Pod, old: Pod, *, gates: Gates | None = None, options: Options | None = None
) -> tuple[FieldError, ...]:
    """Every error of a write to the ``status`` subresource (API-164 to API-167)."""
    chosen = options or options_for(gates, old.spec)
    errors = validate_meta_update(new.metadata, old.metadata)
    errors += validate_mirror_annotation_update(new, old)
    errors += _validate_conditions(new.status)
    if new.spec.node_name != old.spec.node_name:
        errors.append(forbidden("status.nodeName", "may not be changed directly"))
    nominated = new.status.nominated_node_name
    if nominated != old.status.nominated_node_name and nominated and new.spec.node_name:
        text = "may not be set for a pod that is already bound to a node"
        errors.append(forbidden("status.nominatedNodeName", text))
    if old.status.qos_class and new.status.qos_class != old.status.qos_class:
        errors.append(invalid("status.qosClass", new.status.qos_class or "", "field is immutable"))
    errors += _all_transitions(new.status, old.status, old.spec, chosen)
    errors += _validate_claim_statuses(new.status, new.spec)
    errors += _validate_allocated(new.status, new.spec)
    errors += _validate_ips([ip.ip for ip in new.status.pod_ips], "status.podIPs")
    host_ips = [ip.ip for ip in new.status.host_ips]
    return tuple(errors + _validate_ips(host_ips, "status.hostIPs", new.status.host_ip))
