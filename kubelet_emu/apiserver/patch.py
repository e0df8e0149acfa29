"""JSON merge patch and strategic merge patch on plain JSON values. (pure)

The merge keys are those of the core types that pass through this store; a list that is not in the table is
replaced whole. Directives understood: ``$patch`` (delete, replace, merge), ``$setElementOrder/…``,
``$deleteFromPrimitiveList/…`` and ``$retainKeys``. Nothing given is modified; results share unchanged parts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from kubelet_emu.apiserver.errors import ApiError

__all__ = ["MERGE_KEYS", "PRIMITIVE_SETS", "merge_patch", "strategic_merge_patch"]

Json = dict[str, Any]

MERGE_KEYS: Mapping[str, str] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "ports": "containerPort",
    "resourceClaims": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""Field name of each merged list and the key of its elements."""

PRIMITIVE_SETS = frozenset({"finalizers", "podCIDRs"})
"""Lists of strings that are merged as sets."""


def merge_patch(target: object, patch: object) -> object:
    """JSON merge patch (RFC 7386): null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result: Json = dict(cast(Json, target)) if isinstance(target, dict) else {}
    for key, value in cast(Json, patch).items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def strategic_merge_patch(target: Mapping[str, Any], patch: Mapping[str, Any]) -> Json:
    """Strategic merge patch of an object; raises ``ApiError`` 400 for a malformed patch."""
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if patch.get("$patch") == "delete":
        return {}
    result: Json = dict(target)
    keep = patch.get("$retainKeys")
    if keep is not None:
        result = {key: value for key, value in result.items() if key in keep}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            result[field] = [item for item in result.get(field, []) if item not in value]
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            old = result.get(key)
            merged = strategic_merge_patch(
                cast(Json, old) if isinstance(old, dict) else {}, cast(Json, value)
            )
            result[key] = merged
        elif isinstance(value, list) and key in MERGE_KEYS and _are_objects(cast(list[object], value)):
            result[key] = _merge_list(key, result.get(key) or [], cast(list[Json], value))
        elif isinstance(value, list) and key in PRIMITIVE_SETS:
            old_items = list(result.get(key) or [])
            result[key] = old_items + [item for item in cast(list[object], value) if item not in old_items]
        else:
            result[key] = value
    for key, order in patch.items():
        if key.startswith("$setElementOrder/"):
            field = key.partition("/")[2]
            if field in result:
                result[field] = _ordered(field, result[field], order)
    return result


def _are_objects(items: Sequence[object]) -> bool:
    return all(isinstance(item, dict) for item in items)


def _merge_list(field: str, old: Sequence[Json], patch: Sequence[Json]) -> list[Json]:
    key = MERGE_KEYS[field]
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if item.get("$patch") != "replace"]
    result = list(old)
    for item in patch:
        if key not in item:
            raise ApiError(400, "BadRequest", f"map: {item} does not contain declared merge key: {key}")
        place = next((i for i, known in enumerate(result) if known.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            if place is not None:
                del result[place]
        elif place is None:
            result.append({name: value for name, value in item.items() if name != "$patch"})
        else:
            result[place] = strategic_merge_patch(result[place], item)
    return result


def _ordered(field: str, items: Sequence[Any], order: Sequence[Any]) -> list[Any]:
    """The listed elements in the wanted order, each unlisted one after the element it followed before."""
    key = MERGE_KEYS.get(field)

    def ident(item: Any) -> object:
        return cast(Json, item).get(key) if key is not None and isinstance(item, dict) else item

    wanted = [ident(item) for item in order]
    by_ident = {repr(ident(item)): item for item in items}
    result = [by_ident[repr(name)] for name in wanted if repr(name) in by_ident]
    for position, item in enumerate(items):
        if ident(item) not in wanted:
            before = items[position - 1] if position else None
            place = result.index(before) + 1 if before is not None and before in result else len(result)
            result.insert(place, item)
    return result
