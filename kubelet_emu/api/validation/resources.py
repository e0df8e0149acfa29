"""Validation of resource requests, limits and claims. (pure)

API-140 to API-147.
"""

from collections.abc import Callable, Collection, Sequence

from kubelet_emu.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from kubelet_emu.api.names import label_problems, qualified_name_problems, subdomain_problems
from kubelet_emu.api.quantity import Quantity, QuantityError
from kubelet_emu.api.resources import aggregate_requests, is_hugepage, is_pod_level_resource
from kubelet_emu.api.types import PodResourceClaim, PodSpec, ResourceClaim, ResourceRequirements
from kubelet_emu.api.validation.meta import messages

__all__ = [
    "is_extended_resource",
    "is_native_resource",
    "validate_pod_resources",
    "validate_resource_claims",
    "validate_resources",
]

_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_COUNTED = (
    "pods",
    "services",
    "resourcequotas",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
)
_STANDARD = frozenset(
    {
        *_CONTAINER_RESOURCES,
        *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _CONTAINER_RESOURCES),
        "storage",
        "requests.storage",
        *_COUNTED,
    }
)
_NOT_NEGATIVE = "must be greater than or equal to 0"


def is_native_resource(name: str) -> bool:
    """Whether the resource belongs to Kubernetes itself: unprefixed, or under ``kubernetes.io/``."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended_resource(name: str) -> bool:
    """Whether the name is that of a device or the like (API-140)."""
    if is_native_resource(name) or name.startswith("requests."):
        return False
    return not qualified_name_problems(f"requests.{name}")


def _overcommits(name: str) -> bool:
    return is_native_resource(name) and not is_hugepage(name)


def _validate_container_name(name: str, path: str) -> list[FieldError]:
    errors = messages(path, name, qualified_name_problems(name))
    prefixed = "/" in name
    if not errors and not prefixed and name not in _STANDARD and not is_hugepage(name):
        errors.append(invalid(path, name, "must be a standard resource type or fully qualified"))
    if not prefixed:
        if name not in _CONTAINER_RESOURCES and not is_hugepage(name):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif not is_native_resource(name) and not is_extended_resource(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def _validate_pod_level_name(name: str, path: str) -> list[FieldError]:
    if is_pod_level_resource(name):
        return []
    return [not_supported(path, name, ("cpu", "hugepages-", "memory"))]


def _validate_quantity(name: str, quantity: Quantity, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if quantity.sign < 0:
        errors.append(invalid(path, str(quantity), _NOT_NEGATIVE))
    if (name in _COUNTED or is_extended_resource(name)) and quantity.milli_value() % 1000:
        errors.append(invalid(path, quantity, "must be an integer"))
    if is_hugepage(name):
        try:
            size = Quantity(name.removeprefix("hugepages-")).value()
        except QuantityError as error:
            return [*errors, invalid(path, str(quantity), error.problems[0].message)]
        if size <= 0 or quantity.value() % size:
            text = f"{quantity} is not positive integer multiple of {name}"
            errors.append(invalid(path, str(quantity), text))
    return errors


def _compare(resources: ResourceRequirements, name: str, path: str) -> list[FieldError]:
    """Request against limit; these errors have no key in their path (API-142)."""
    request, limit = resources.requests[name], resources.limits.get(name)
    if limit is None:
        if _overcommits(name):
            return []
        return [required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    if request != limit and not _overcommits(name):
        text = f"must be equal to {name} limit of {limit}"
        return [invalid(f"{path}.requests", str(request), text)]
    if request > limit:
        text = f"must be less than or equal to {name} limit of {limit}"
        return [invalid(f"{path}.requests", str(request), text)]
    return []


def _validate_claims(claims: Sequence[ResourceClaim], known: Collection[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    whole: set[str] = set()
    parts: set[str] = set()
    for index, claim in enumerate(claims):
        place = f"{path}[{index}]"
        if not claim.name:
            errors.append(required(place))
            continue
        key = f"{claim.name}/{claim.request}" if claim.request else claim.name
        overlaps = not claim.request and any(part.startswith(f"{claim.name}/") for part in parts)
        if claim.name in whole or overlaps:
            errors.append(duplicate(place, claim.name))
        elif key in parts:
            errors.append(duplicate(place, key))
        (parts if claim.request else whole).add(key)
        if claim.name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            text = f"must be one of the names in pod.spec.resourceClaims{listed}"
            errors.append(not_found(place, claim.name, text))
    return errors


def validate_resources(
    resources: ResourceRequirements,
    path: str,
    claims: Collection[str] = (),
    *,
    check_name: Callable[[str, str], list[FieldError]] = _validate_container_name,
) -> list[FieldError]:
    """The ``resources`` of a container; ``claims`` are the pod's claim names."""
    errors: list[FieldError] = []
    for name, quantity in resources.limits.items():
        place = f"{path}.limits[{name}]"
        errors += check_name(name, place)
        errors += _validate_quantity(name, quantity, place)
    for name, quantity in resources.requests.items():
        place = f"{path}.requests[{name}]"
        errors += check_name(name, place)
        errors += _validate_quantity(name, quantity, place)
        errors += _compare(resources, name, path)
    names = {*resources.limits, *resources.requests}
    if any(is_hugepage(name) for name in names) and not names & {"cpu", "memory"}:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    return errors + _validate_claims(resources.claims, claims, f"{path}.claims")


def _validate_consistency(spec: PodSpec, path: str) -> list[FieldError]:
    """Pod-level values against the containers' (API-144); the paths are odd in the server too."""
    errors: list[FieldError] = []
    whole = spec.resources
    if whole is None:
        return errors
    for name, total in aggregate_requests(spec).items():
        request = whole.requests.get(name)
        if request is not None and total > request:
            text = f"must be greater than or equal to aggregate container requests of {total}"
            errors.append(invalid(f"{path}.requests[{name}]", str(request), text))
    for index, container in enumerate(spec.containers):
        for name, limit in container.resources.limits.items():
            pod_limit = whole.limits.get(name)
            if pod_limit is not None and limit > pod_limit:
                text = f"must be less than or equal to pod limits of {pod_limit}"
                errors.append(invalid(f"{path}.containers[{index}][{name}].limits", str(limit), text))
    return errors


def validate_pod_resources(spec: PodSpec, path: str) -> list[FieldError]:
    """Pod-level ``spec.resources``."""
    resources = spec.resources
    if resources is None:
        return []
    errors: list[FieldError] = []
    if resources.claims:
        errors.append(forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    names = {claim.name for claim in resources.claims}
    errors += validate_resources(resources, path, names, check_name=_validate_pod_level_name)
    return errors + _validate_consistency(spec, path)


def validate_resource_claims(
    claims: Sequence[PodResourceClaim], path: str
) -> tuple[list[FieldError], list[str]]:
    """``spec.resourceClaims``: the errors, and the names that containers may use (API-145)."""
    errors: list[FieldError] = []
    names: list[str] = []
    for index, claim in enumerate(claims):
        place = f"{path}[{index}]"
        if not claim.name:
            errors.append(required(f"{place}.name"))
        elif claim.name in names:
            errors.append(duplicate(f"{place}.name", claim.name))
        else:
            problems = label_problems(claim.name)
            errors += messages(f"{place}.name", claim.name, problems)
            if not problems:
                names.append(claim.name)
        given, template = claim.resource_claim_name, claim.resource_claim_template_name
        if given is not None and template is not None:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(place, claim, text))
        if given is None and template is None:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(place, claim, text))
        for name, value in (("resourceClaimName", given), ("resourceClaimTemplateName", template)):
            if value is not None:
                errors += messages(f"{place}.{name}", value, subdomain_problems(value))
    return errors, names
