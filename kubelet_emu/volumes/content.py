"""What files a configMap, secret, projected or downwardAPI volume holds (VOL-05, VOL-08). (pure)

A source that is missing and not optional is a ``VolumeError`` with the kubelet's text; optional ones give no
files. Objects come as JSON, through a lookup handed in.
"""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from attrs import frozen

from kubelet_emu.api.types import KeyToPath, Pod
from kubelet_emu.errors import PeerError

__all__ = [
    "ObjectLookup",
    "Payload",
    "PayloadFile",
    "VolumeError",
    "config_map_payload",
    "projected_payload",
    "secret_data",
    "secret_payload",
]

Json = dict[str, Any]
ObjectLookup = Callable[[str, str], Json | None]
"""``lookup("ConfigMap", name)`` in the pod's namespace."""


class VolumeError(PeerError):
    """Raised when a volume cannot be set up; the text is the kubelet's."""


@frozen
class PayloadFile:
    """One file of a volume: content and permission bits."""

    data: bytes
    mode: int


Payload = Mapping[str, PayloadFile]
"""Relative path to file."""


def config_map_payload(
    name: str,
    obj: Json | None,
    *,
    items: Sequence[KeyToPath],
    default_mode: int,
    optional: bool,
) -> Payload:
    """Files of a configMap source; ``binaryData`` counts like ``data``."""
    if obj is None:
        if optional:
            return {}
        raise VolumeError(f'configmap "{name}" not found')
    data = {key: str(value).encode() for key, value in cast(Json, obj.get("data") or {}).items()}
    data |= {key: _decoded(value) for key, value in cast(Json, obj.get("binaryData") or {}).items()}
    return _select(data, items, default_mode, optional, "configmap references non-existent config key: {}")


def secret_payload(
    name: str,
    obj: Json | None,
    *,
    items: Sequence[KeyToPath],
    default_mode: int,
    optional: bool,
) -> Payload:
    """Files of a secret source; ``stringData`` of a manifest counts like decoded ``data``."""
    if obj is None:
        if optional:
            return {}
        raise VolumeError(f'secret "{name}" not found')
    data = secret_data(obj)
    return _select(data, items, default_mode, optional, "references non-existent secret key: {}")


def projected_payload(
    pod: Pod,
    sources: Sequence[Any],
    *,
    default_mode: int,
    lookup: ObjectLookup,
    downward: Callable[[Pod, Sequence[Any], int], Payload],
    token: Callable[[Pod, Any], bytes],
) -> Payload:
    """Files of all sources of a projected volume, later sources over earlier ones."""
    files: dict[str, PayloadFile] = {}
    for source in sources:
        if source.config_map is not None:
            ref = source.config_map
            name = ref.name or ""
            files |= config_map_payload(
                name,
                lookup("ConfigMap", name),
                items=ref.items,
                default_mode=default_mode,
                optional=bool(ref.optional),
            )
        elif source.secret is not None:
            ref = source.secret
            name = ref.name or ""
            files |= secret_payload(
                name,
                lookup("Secret", name),
                items=ref.items,
                default_mode=default_mode,
                optional=bool(ref.optional),
            )
        elif source.downward_api is not None:
            files |= downward(pod, source.downward_api.items, default_mode)
        elif source.service_account_token is not None:
            files[source.service_account_token.path] = PayloadFile(
                token(pod, source.service_account_token), default_mode
            )
    return files


def secret_data(obj: Json) -> dict[str, bytes]:
    """The values of a Secret object by key, decoded; ``stringData`` of a manifest wins."""
    data = {str(key): _decoded(value) for key, value in cast(Json, obj.get("data") or {}).items()}
    text = {str(key): str(value).encode() for key, value in cast(Json, obj.get("stringData") or {}).items()}
    return data | text


def _decoded(value: object) -> bytes:
    try:
        return base64.b64decode(str(value), validate=True)
    except (binascii.Error, ValueError):
        return str(value).encode()


def _select(
    data: Mapping[str, bytes], items: Sequence[KeyToPath], default_mode: int, optional: bool, missing: str
) -> Payload:
    if not items:
        return {key: PayloadFile(data[key], default_mode) for key in sorted(data)}
    files: dict[str, PayloadFile] = {}
    for item in items:
        if item.key not in data:
            if optional:
                continue
            raise VolumeError(missing.format(item.key))
        files[item.path] = PayloadFile(data[item.key], item.mode if item.mode is not None else default_mode)
    return files
