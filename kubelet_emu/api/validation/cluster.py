"""Validation of nodes, events, leases, config maps and secrets. (pure)

API-127, API-210 to API-212.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from kubelet_emu.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubelet_emu.api.names import config_key_problems, label_value_problems, qualified_name_problems
from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import ConfigMap, Event, Lease, Node, NodeAddress, Secret, Taint
from kubelet_emu.api.validation.meta import messages, validate_meta, validate_meta_update
from kubelet_emu.api.validation.resources import is_extended_resource

__all__ = [
    "validate_config_map",
    "validate_event",
    "validate_lease",
    "validate_lease_update",
    "validate_node",
    "validate_node_update",
    "validate_secret",
]

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MAX_EVENT_TEXT: Final = 128
_MAX_EVENT_MESSAGE: Final = 1024
_MAX_DATA_BYTES: Final = 1024 * 1024
_NOT_NEGATIVE = "must be greater than or equal to 0"


def _validate_taints(taints: Sequence[Taint]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        path = f"spec.taints[{index}]"
        errors += messages(f"{path}.key", taint.key, qualified_name_problems(taint.key))
        errors += messages(f"{path}.value", taint.value or "", label_value_problems(taint.value or ""))
        if not taint.effect:
            errors.append(required(f"{path}.effect"))
        elif taint.effect not in _EFFECTS:
            errors.append(not_supported(f"{path}.effect", taint.effect, _EFFECTS))
        if (taint.key, taint.effect) in seen:
            errors.append(duplicate(path, taint))
        seen.add((taint.key, taint.effect))
    return errors


def _validate_amounts(amounts: Mapping[str, Quantity], path: str) -> list[FieldError]:
    """Here the name of the resource follows a dot (API-210)."""
    errors: list[FieldError] = []
    for name, quantity in amounts.items():
        if quantity.sign < 0:
            errors.append(invalid(f"{path}.{name}", str(quantity), _NOT_NEGATIVE))
        if is_extended_resource(name) and quantity.milli_value() % 1000:
            errors.append(invalid(f"{path}.{name}", quantity, "must be an integer"))
    return errors


def validate_node(node: Node) -> tuple[FieldError, ...]:
    """Every error of a new node."""
    return (
        *validate_meta(node.metadata, namespaced=False),
        *_validate_taints(node.spec.taints),
        *_validate_amounts(node.status.capacity, "status.capacity"),
        *_validate_amounts(node.status.allocatable, "status.allocatable"),
    )


def _repeated(addresses: Sequence[NodeAddress]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, address in enumerate(addresses):
        if (address.type, address.address) in seen:
            errors.append(duplicate(f"status.addresses[{index}]", address))
        seen.add((address.type, address.address))
    return errors


def validate_node_update(new: Node, old: Node) -> tuple[FieldError, ...]:
    """Every error of a change to a node or its status."""
    errors = validate_meta_update(new.metadata, old.metadata)
    errors += _validate_taints(new.spec.taints)
    errors += _validate_amounts(new.status.capacity, "status.capacity")
    errors += _validate_amounts(new.status.allocatable, "status.allocatable")
    errors += _repeated(new.status.addresses)
    if old.spec.pod_cidrs and new.spec.pod_cidrs != old.spec.pod_cidrs:
        text = 'node updates may not change podCIDR except from "" to valid'
        errors.append(forbidden("spec.podCIDRs", text))
    if old.spec.provider_id and new.spec.provider_id != old.spec.provider_id:
        text = 'node updates may not change providerID except from "" to valid'
        errors.append(forbidden("spec.providerID", text))
    return tuple(errors)


def _event_text(value: str, path: str, *, limit: int = _MAX_EVENT_TEXT) -> list[FieldError]:
    if not value:
        return [required(path)]
    if len(value.encode()) > limit:
        return [invalid(path, "", f"can have at most {limit} characters")]
    return []


def validate_event(event: Event) -> tuple[FieldError, ...]:
    """Every error of a core v1 event; most is checked only if it has an ``eventTime`` (API-211)."""
    errors: list[FieldError] = []
    about, own = event.involved_object.namespace or "", event.metadata.namespace
    allowed: Collection[str] = (about,) if about else ("", "default")
    if own not in allowed:
        errors.append(invalid("involvedObject.namespace", about, "does not match event.namespace"))
    if event.event_time is None:
        return tuple(errors)
    if not event.reporting_component:
        errors.append(required("reportingComponent"))
    else:
        problems = qualified_name_problems(event.reporting_component)
        errors += messages("reportingComponent", event.reporting_component, problems)
    errors += _event_text(event.reporting_instance, "reportingInstance")
    errors += _event_text(event.action or "", "action")
    errors += _event_text(event.reason or "", "reason")
    if len((event.message or "").encode()) > _MAX_EVENT_MESSAGE:
        errors.append(invalid("message", "", f"can have at most {_MAX_EVENT_MESSAGE} characters"))
    return tuple(errors)


def _validate_lease_spec(lease: Lease) -> list[FieldError]:
    errors: list[FieldError] = []
    duration, transitions = lease.spec.lease_duration_seconds, lease.spec.lease_transitions
    if duration is not None and duration <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        errors.append(invalid("spec.leaseTransitions", transitions, _NOT_NEGATIVE))
    return errors


def validate_lease(lease: Lease) -> tuple[FieldError, ...]:
    """Every error of a new lease (API-212)."""
    return (*validate_meta(lease.metadata), *_validate_lease_spec(lease))


def validate_lease_update(new: Lease, old: Lease) -> tuple[FieldError, ...]:
    """Every error of a change to a lease; a missing version is shown as the number 0 (API-212)."""
    path = "metadata.resourceVersion"
    errors = [error for error in validate_meta_update(new.metadata, old.metadata) if error.path != path]
    if not new.metadata.resource_version:
        errors.append(invalid(path, 0, "must be specified for an update"))
    return (*errors, *_validate_lease_spec(new))


def _validate_data(*maps: tuple[str, Mapping[str, str]]) -> list[FieldError]:
    errors: list[FieldError] = []
    total = 0
    for name, data in maps:
        for key, value in data.items():
            errors += messages(f"{name}[{key}]", key, config_key_problems(key))
            total += len(value.encode("utf-8", "surrogatepass"))
    if total > _MAX_DATA_BYTES:
        errors.append(too_long(maps[0][0], _MAX_DATA_BYTES))
    return errors


def validate_config_map(config_map: ConfigMap) -> tuple[FieldError, ...]:
    """Every error of a new config map: keys, size, and no key in both maps."""
    errors = validate_meta(config_map.metadata)
    errors += _validate_data(("data", config_map.data), ("binaryData", config_map.binary_data))
    for key in sorted(config_map.data.keys() & config_map.binary_data.keys()):
        errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    return tuple(errors)


def validate_secret(secret: Secret) -> tuple[FieldError, ...]:
    """Every error of a new secret: keys and size."""
    errors = validate_meta(secret.metadata)
    return (*errors, *_validate_data(("data", secret.data), ("stringData", secret.string_data)))
