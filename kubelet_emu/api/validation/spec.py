"""Validation of a pod's spec, all parts in the server's order. (pure)

API-061, API-063.
"""

from typing import Final

from kubelet_emu.api.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_long,
)
from kubelet_emu.api.names import label_problems, range_problem, subdomain_problems
from kubelet_emu.api.types import PodSpec, ResourceRequirements, Volume
from kubelet_emu.api.validation.containers import Surroundings, validate_containers
from kubelet_emu.api.validation.meta import messages, validate_labels
from kubelet_emu.api.validation.options import Options
from kubelet_emu.api.validation.resources import (
    validate_pod_resources,
    validate_resource_claims,
    validate_resources,
)
from kubelet_emu.api.validation.scheduling import (
    validate_dns,
    validate_host_aliases,
    validate_readiness_gates,
    validate_scheduling_gates,
    validate_spread,
    validate_tolerations,
)
from kubelet_emu.api.validation.security import all_containers, validate_os, validate_pod_security
from kubelet_emu.api.validation.volumes import validate_volumes

__all__ = ["MAX_ACTIVE_DEADLINE_SECONDS", "validate_spec", "validate_token_projections"]

MAX_ACTIVE_DEADLINE_SECONDS: Final = 2**31 - 1
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("Never", "PreemptLowerPriority")
_MAX_HOSTNAME_BYTES: Final = 64


def _policy(value: str | None, path: str, supported: tuple[str, ...]) -> list[FieldError]:
    if not value:
        return [required(path)]
    return [] if value in supported else [not_supported(path, value, supported)]


def _host_network_ports(spec: PodSpec) -> list[FieldError]:
    """On the host's network a port is the same inside and outside; regular containers only (API-120)."""
    if not spec.host_network:
        return []
    text = "must match `containerPort` when `hostNetwork` is true"
    return [
        invalid(f"spec.containers[{index}].ports[{number}].hostPort", port.host_port or 0, text)
        for index, container in enumerate(spec.containers)
        for number, port in enumerate(container.ports)
        if (port.host_port or 0) != port.container_port
    ]


def _host_users(spec: PodSpec, options: Options) -> list[FieldError]:
    if spec.host_users is not False:
        return []
    text = "when `hostUsers` is false"
    errors: list[FieldError] = []
    if spec.host_network and not options.host_users_host_network:
        errors.append(forbidden("spec.hostNetwork", text))
    if spec.host_pid:
        errors.append(forbidden("spec.HostPID", text))
    if spec.host_ipc:
        errors.append(forbidden("spec.HostIPC", text))
    for path, container in all_containers(spec):
        if container.volume_devices:
            errors.append(forbidden(f"{path}.volumeDevices", text))
    return errors


def _hostname_override(spec: PodSpec) -> list[FieldError]:
    name = spec.hostname_override
    if name is None:
        return []
    path = "spec.hostnameOverride"
    errors: list[FieldError] = []
    if spec.set_hostname_as_fqdn:
        errors.append(forbidden(path, "may not be specified when setHostnameAsFQDN is true"))
    if spec.host_network:
        errors.append(forbidden(path, "may not be specified when hostNetwork is true"))
    errors += messages(path, name, subdomain_problems(name))
    if len(name.encode()) > _MAX_HOSTNAME_BYTES:
        errors.append(too_long(path, _MAX_HOSTNAME_BYTES))
    return errors


def _names(spec: PodSpec) -> list[FieldError]:
    """Single names and the deadline, in the server's order."""
    errors: list[FieldError] = []
    for json, value, problems in (
        ("serviceAccountName", spec.service_account_name, subdomain_problems),
        ("nodeName", spec.node_name, subdomain_problems),
    ):
        if value:
            errors += messages(f"spec.{json}", value, problems(value))
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= MAX_ACTIVE_DEADLINE_SECONDS:
        text = range_problem(1, MAX_ACTIVE_DEADLINE_SECONDS)
        errors.append(invalid("spec.activeDeadlineSeconds", deadline, text))
    for json, value, problems in (
        ("hostname", spec.hostname, label_problems),
        ("subdomain", spec.subdomain, label_problems),
    ):
        if value:
            errors += messages(f"spec.{json}", value, problems(value))
    return errors


def _classes(spec: PodSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.priority_class_name:
        problems = subdomain_problems(spec.priority_class_name)
        errors += messages("spec.priorityClassName", spec.priority_class_name, problems)
    if spec.runtime_class_name is not None:
        problems = subdomain_problems(spec.runtime_class_name)
        errors += messages("spec.runtimeClassName", spec.runtime_class_name, problems)
    policy = spec.preemption_policy
    if policy is not None and policy not in _PREEMPTION_POLICIES:
        errors.append(not_supported("spec.preemptionPolicy", policy, _PREEMPTION_POLICIES))
    return errors


def _file_refs(spec: PodSpec, volumes: dict[str, Volume]) -> list[FieldError]:
    """A fileKeyRef names an emptyDir of the pod (API-127)."""
    errors: list[FieldError] = []
    for path, container in all_containers(spec):
        for index, variable in enumerate(container.env):
            ref = variable.value_from.file_key_ref if variable.value_from is not None else None
            if ref is None or not ref.volume_name:
                continue
            place = f"{path}.env[{index}].valueFrom.fileKeyRef.volumeName"
            volume = volumes.get(ref.volume_name)
            if volume is None:
                errors.append(not_found(place, ref.volume_name))
            elif volume.empty_dir is None:
                errors.append(invalid(place, ref.volume_name, "referenced volume must be of type emptyDir"))
    return errors


def validate_spec(spec: PodSpec, options: Options) -> list[FieldError]:
    """Every error of a defaulted spec."""
    errors: list[FieldError] = []
    if spec.termination_grace_period_seconds is None:
        errors.append(required("spec.terminationGracePeriodSeconds"))
    volume_errors, volumes = validate_volumes(spec.volumes, "spec.volumes")
    claim_errors, claims = validate_resource_claims(spec.resource_claims, "spec.resourceClaims")
    errors += volume_errors + claim_errors
    errors += validate_containers(Surroundings(spec, volumes, claims, options))
    errors += validate_pod_resources(spec, "spec.resources")
    errors += _host_network_ports(spec)
    errors += _policy(spec.restart_policy, "spec.restartPolicy", _RESTART_POLICIES)
    errors += _policy(spec.dns_policy, "spec.dnsPolicy", _DNS_POLICIES)
    errors += validate_labels(spec.node_selector, "spec.nodeSelector")
    errors += validate_pod_security(spec, "spec.securityContext")
    errors += validate_dns(spec.dns_config, spec.dns_policy, "spec.dnsConfig")
    errors += validate_readiness_gates(spec.readiness_gates, "spec.readinessGates")
    errors += validate_scheduling_gates(spec.scheduling_gates, "spec.schedulingGates")
    errors += validate_spread(spec.topology_spread_constraints, "spec.topologySpreadConstraints")
    errors += _host_users(spec, options)
    errors += _hostname_override(spec)
    errors += _names(spec)
    errors += validate_tolerations(spec.tolerations, "spec.tolerations", options)
    errors += validate_host_aliases(spec.host_aliases, "spec.hostAliases")
    errors += _classes(spec)
    if spec.overhead:
        errors += validate_resources(ResourceRequirements(limits=spec.overhead), "spec.overhead")
    errors += validate_os(spec)
    return errors + _file_refs(spec, volumes)


def validate_token_projections(spec: PodSpec) -> list[FieldError]:
    """A projected token needs a service account (API-063)."""
    if spec.service_account_name:
        return []
    text = "must not be specified when serviceAccountName is not set"
    return [
        forbidden(f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken", text)
        for index, volume in enumerate(spec.volumes)
        if volume.projected is not None
        for number, source in enumerate(volume.projected.sources)
        if source.service_account_token is not None
    ]
