"""Metadata of API objects and references between them. (pure)"""

from collections.abc import Mapping

from kubelet_emu.api.types.base import (
    EMPTY,
    ApiObject,
    Int64,
    JsonMap,
    OmitStr,
    PtrBool,
    PtrInt64,
    Time,
    api_object,
)

__all__ = [
    "LabelSelector",
    "LabelSelectorRequirement",
    "LocalObjectReference",
    "ObjectMeta",
    "ObjectReference",
    "OwnerReference",
]


@api_object
class OwnerReference(ApiObject):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: PtrBool = None
    block_owner_deletion: PtrBool = None
    extra: JsonMap = EMPTY


@api_object
class ObjectMeta(ApiObject):
    """``name``, ``namespace`` and ``uid`` are empty strings while unset; ``managed_fields`` stay raw."""

    name: OmitStr = ""
    generate_name: str | None = None
    namespace: OmitStr = ""
    self_link: str | None = None
    uid: OmitStr = ""
    resource_version: str | None = None
    generation: Int64 | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: PtrInt64 = None
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    managed_fields: tuple[JsonMap, ...] = ()
    extra: JsonMap = EMPTY


@api_object
class LocalObjectReference(ApiObject):
    name: str | None = None
    extra: JsonMap = EMPTY


@api_object
class ObjectReference(ApiObject):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    api_version: str | None = None
    resource_version: str | None = None
    field_path: str | None = None
    extra: JsonMap = EMPTY


@api_object
class LabelSelectorRequirement(ApiObject):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()
    extra: JsonMap = EMPTY


@api_object
class LabelSelector(ApiObject):
    match_labels: Mapping[str, str] = EMPTY
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    extra: JsonMap = EMPTY
