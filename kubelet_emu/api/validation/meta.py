"""Validation of metadata, on create and on update. (pure)

API-052 to API-055, API-163.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kubelet_emu.api.field_errors import FieldError, forbidden, invalid, required, too_long
from kubelet_emu.api.names import (
    label_problems,
    label_value_problems,
    qualified_name_problems,
    subdomain_problems,
)
from kubelet_emu.api.types import ObjectMeta, OwnerReference, Pod

__all__ = [
    "MIRROR_ANNOTATION",
    "is_mirror",
    "messages",
    "validate_labels",
    "validate_meta",
    "validate_meta_update",
    "validate_mirror_annotation",
    "validate_mirror_annotation_update",
]

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
_MAX_ANNOTATION_BYTES: Final = 256 * 1024
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_IMMUTABLE = "field is immutable"


def messages(path: str, value: object, problems: Iterable[str]) -> list[FieldError]:
    """One Invalid error for each message."""
    return [invalid(path, value, message) for message in problems]


def validate_labels(labels: Mapping[str, str], path: str) -> list[FieldError]:
    """Labels, and node selectors: the path is that of the whole map (API-053)."""
    errors: list[FieldError] = []
    for key, value in labels.items():
        errors += messages(path, key, qualified_name_problems(key))
        errors += messages(path, value, label_value_problems(value))
    return errors


def _validate_annotations(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    total = 0
    for key, value in annotations.items():
        errors += messages(path, key, qualified_name_problems(key.lower()))
        total += len(key.encode()) + len(value.encode("utf-8", "surrogatepass"))
    if total > _MAX_ANNOTATION_BYTES:
        errors.append(too_long(path, _MAX_ANNOTATION_BYTES))
    return errors


def _validate_owner(owner: OwnerReference, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    version = owner.api_version.rpartition("/")[2]
    if not version:
        errors.append(invalid(f"{path}.apiVersion", owner.api_version, "version must not be empty"))
    for name, value in (("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)):
        if not value:
            errors.append(invalid(f"{path}.{name}", value, "must not be empty"))
    return errors


def _validate_owners(owners: tuple[OwnerReference, ...], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    controller: OwnerReference | None = None
    for owner in owners:
        errors += _validate_owner(owner, path)
        if owner.controller:
            if controller is not None:
                names = f"{controller.kind}/{controller.name} and {owner.kind}/{owner.name}"
                found = f'Found "true" in references for {names}'
                text = f"Only one reference can have Controller set to true. {found}"
                errors.append(invalid(path, owners, text))
            else:
                controller = owner
    return errors


def _validate_finalizers(finalizers: tuple[str, ...], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in finalizers:
        errors += messages(path, name, qualified_name_problems(name))
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid(path, name, text))
    return errors


def _validate_maps_and_lists(meta: ObjectMeta, path: str) -> list[FieldError]:
    return [
        *validate_labels(meta.labels, f"{path}.labels"),
        *_validate_annotations(meta.annotations, f"{path}.annotations"),
        *_validate_owners(meta.owner_references, f"{path}.ownerReferences"),
        *_validate_finalizers(meta.finalizers, f"{path}.finalizers"),
    ]


def validate_meta(meta: ObjectMeta, *, namespaced: bool = True, path: str = "metadata") -> list[FieldError]:
    """Metadata of an object whose name is a DNS subdomain, as on create (API-052)."""
    errors: list[FieldError] = []
    if meta.generate_name:
        masked = meta.generate_name[:-1] + "a" if meta.generate_name.endswith("-") else meta.generate_name
        errors += messages(f"{path}.generateName", meta.generate_name, subdomain_problems(masked))
    if not meta.name:
        errors.append(required(f"{path}.name", "name or generateName is required"))
    else:
        errors += messages(f"{path}.name", meta.name, subdomain_problems(meta.name))
    if namespaced and not meta.namespace:
        errors.append(required(f"{path}.namespace"))
    elif namespaced:
        errors += messages(f"{path}.namespace", meta.namespace, label_problems(meta.namespace))
    elif meta.namespace:
        errors.append(forbidden(f"{path}.namespace", "not allowed on this type"))
    if meta.generation is not None and meta.generation < 0:
        errors.append(invalid(f"{path}.generation", meta.generation, "must be greater than or equal to 0"))
    return errors + _validate_maps_and_lists(meta, path)


def validate_meta_update(new: ObjectMeta, old: ObjectMeta, path: str = "metadata") -> list[FieldError]:
    """What may not change in metadata (API-055)."""
    errors: list[FieldError] = []
    added = [name for name in new.finalizers if name not in old.finalizers]
    if old.deletion_timestamp is not None and added:
        shown = "[" + ", ".join(f'"{name}"' for name in sorted(added)) + "]"
        text = f"no new finalizers can be added if the object is being deleted, found new finalizers {shown}"
        errors.append(forbidden(f"{path}.finalizers", text))
    if not new.resource_version:
        errors.append(invalid(f"{path}.resourceVersion", "", "must be specified for an update"))
    if (new.generation or 0) < (old.generation or 0):
        errors.append(invalid(f"{path}.generation", new.generation or 0, "must not be decremented"))
    for json, attribute in (
        ("name", "name"),
        ("namespace", "namespace"),
        ("uid", "uid"),
        ("creationTimestamp", "creation_timestamp"),
        ("deletionTimestamp", "deletion_timestamp"),
        ("deletionGracePeriodSeconds", "deletion_grace_period_seconds"),
    ):
        value = getattr(new, attribute)
        if value != getattr(old, attribute):
            errors.append(invalid(f"{path}.{json}", value, _IMMUTABLE))
    return errors + _validate_maps_and_lists(new, path)


def is_mirror(pod: Pod) -> bool:
    """Whether the pod is the mirror of a static pod."""
    return MIRROR_ANNOTATION in pod.metadata.annotations


def validate_mirror_annotation(pod: Pod) -> list[FieldError]:
    """A mirror pod needs its node (API-163)."""
    if is_mirror(pod) and not pod.spec.node_name:
        value = pod.metadata.annotations[MIRROR_ANNOTATION]
        text = "must set spec.nodeName if mirror pod annotation is set"
        return [invalid(f"metadata.annotations[{MIRROR_ANNOTATION}]", value, text)]
    return []


def validate_mirror_annotation_update(new: Pod, old: Pod) -> list[FieldError]:
    """The annotation can be neither added nor changed nor removed (API-163)."""
    path = f"metadata.annotations[{MIRROR_ANNOTATION}]"
    before = old.metadata.annotations.get(MIRROR_ANNOTATION)
    after = new.metadata.annotations.get(MIRROR_ANNOTATION)
    if before == after:
        return []
    if before is None:
        return [forbidden(path, "may not add mirror pod annotation")]
    return [forbidden(path, "may not remove or update mirror pod annotation")]
