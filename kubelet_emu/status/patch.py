"""Strategic merge patch between two statuses in JSON form (pure).

Of the lists in a PodStatus, ``conditions`` are merged by ``type``, ``podIPs`` and ``hostIPs`` by ``ip``, the
claim statuses by ``name``; all others are replaced as a whole. A merged list that differs is accompanied by
``$setElementOrder/<list>``, removed items are marked ``$patch: delete``, a removed field is null (STA-704).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

__all__ = ["MERGE_KEYS", "is_empty_patch", "status_patch"]

Json = Mapping[str, Any]

MERGE_KEYS: Final[Mapping[str, str]] = {
    "conditions": "type",
    "podIPs": "ip",
    "hostIPs": "ip",
    "resourceClaimStatuses": "name",
}
"""Lists of a PodStatus that are merged item by item, and the field that names an item."""


def status_patch(uid: str, old: Json, new: Json) -> dict[str, Any]:
    """The patch from one status to the other, with the uid as precondition (STA-704)."""
    patch: dict[str, Any] = {"metadata": {"uid": uid}}
    difference = _difference(old, new, merge_keys=MERGE_KEYS)
    if difference:
        patch["status"] = difference
    return patch


def is_empty_patch(patch: Json) -> bool:
    """Whether the patch holds nothing but the uid: no request is sent then."""
    return "status" not in patch


def _difference(old: Json, new: Json, *, merge_keys: Mapping[str, str]) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    for name, value in new.items():
        before = old.get(name)
        # An absent field and a null one are the same to the API.
        if before == value:
            continue
        if name in merge_keys and isinstance(before, list) and isinstance(value, list):
            _merge_list(patch, name, merge_keys[name], cast("list[Json]", before), cast("list[Json]", value))
        elif isinstance(before, Mapping) and isinstance(value, Mapping):
            patch[name] = _difference(cast("Json", before), cast("Json", value), merge_keys={})
        else:
            patch[name] = value
    for name, before in old.items():
        if name not in new and before is not None:
            patch[name] = None
    return patch


def _merge_list(patch: dict[str, Any], name: str, key: str, old: Sequence[Json], new: Sequence[Json]) -> None:
    """Add the change of a merged list to the patch: its order, then the items that differ."""
    before = {item.get(key): item for item in old}
    items: list[dict[str, Any]] = []
    for item in new:
        earlier = before.get(item.get(key))
        if earlier is None:
            items.append(dict(item))
        elif earlier != item:
            items.append({key: item.get(key), **_difference(earlier, item, merge_keys={})})
    kept = {item.get(key) for item in new}
    items += [{"$patch": "delete", key: item.get(key)} for item in old if item.get(key) not in kept]
    patch[f"$setElementOrder/{name}"] = [{key: item.get(key)} for item in new]
    if items:
        patch[name] = items
