"""Registry credentials in pull secrets, and which of them fit an image (IMG-23, IMG-24). (pure)

Mirrors ``pkg/credentialprovider/keyring.go`` and ``secrets/secrets.go``: entries are kept by registry and
path, the more exact ones come first, an entry without a path fits every image of its registry.
"""

import base64
import binascii
import fnmatch
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from attrs import frozen

from kubelet_emu.kuberuntime.seams import PullCredential
from kubelet_emu.volumes.content import secret_data

__all__ = ["Keyring", "keyring_of"]

Json = dict[str, Any]

_DEFAULT_REGISTRY = "index.docker.io"
_DATA_KEYS = {
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/dockercfg": ".dockercfg",
}


@frozen
class Keyring:
    """Credentials by registry and path, from all pull secrets of a pod, in the order of the secrets."""

    entries: tuple[tuple[str, PullCredential], ...] = ()

    def matching(self, image: str) -> tuple[PullCredential, ...]:
        """Credentials for an image as written, the most exact registry entry first."""
        name = _without_tag(image)
        places = sorted({place for place, _ in self.entries}, reverse=True)
        fitting = [place for place in places if _fits(place, name)]
        if not fitting and _is_default_registry(name):
            fitting = [place for place in places if place == _DEFAULT_REGISTRY]
        return tuple(credential for place in fitting for at, credential in self.entries if at == place)


def keyring_of(secrets: Sequence[Json]) -> Keyring:
    """The keyring of a pod; secrets of another type and entries that cannot be read are left out."""
    return Keyring(tuple(entry for secret in secrets for entry in _entries(secret)))


def _entries(secret: Json) -> Sequence[tuple[str, PullCredential]]:
    kind = str(secret.get("type", ""))
    raw = secret_data(secret).get(_DATA_KEYS.get(kind, ""))
    try:
        config: Any = json.loads(raw) if raw is not None else {}
    except ValueError:
        return ()
    if kind == "kubernetes.io/dockerconfigjson" and isinstance(config, dict):
        config = cast(Json, config).get("auths")
    if not isinstance(config, dict):
        return ()
    metadata = cast(Json, secret.get("metadata") or {})
    return [
        (_place(server), _credential(server, cast(Json, entry), metadata))
        for server, entry in sorted(cast(Json, config).items())
        if isinstance(entry, dict)
    ]


def _credential(server: str, entry: Json, metadata: Mapping[str, Any]) -> PullCredential:
    username, password = str(entry.get("username", "")), str(entry.get("password", ""))
    if entry.get("auth"):
        username, password = _decoded(str(entry["auth"])) or (username, password)
    plain = json.dumps({"password": password, "server": server, "username": username}, sort_keys=True)
    return PullCredential(
        username=username,
        password=password,
        secret_uid=str(metadata.get("uid", "")),
        secret_namespace=str(metadata.get("namespace", "")),
        secret_name=str(metadata.get("name", "")),
        secret_hash=hashlib.sha256(plain.encode()).hexdigest(),
    )


def _decoded(auth: str) -> tuple[str, str] | None:
    try:
        user, colon, password = base64.b64decode(auth).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (user, password) if colon else None


def _place(server: str) -> str:
    """Registry and path of an entry; the ``/v1`` and ``/v2`` of an address are no path of images."""
    address = server.removeprefix("https://").removeprefix("http://")
    host, _, path = address.partition("/")
    path = path.rstrip("/")
    return f"{host}/{path}" if path and path not in ("v1", "v2") else host


def _without_tag(image: str) -> str:
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return head + slash + last.partition(":")[0]


def _is_default_registry(name: str) -> bool:
    """Whether an image name has no registry of its own: ``busybox``, ``team/tool``, ``docker.io/x``."""
    first, slash, _ = name.partition("/")
    return not slash or first in ("docker.io", _DEFAULT_REGISTRY) or not _is_registry(first)


def _is_registry(text: str) -> bool:
    return "." in text or ":" in text or text == "localhost"


def _fits(place: str, name: str) -> bool:
    """Host parts match one by one, with ``*`` inside a part; the entry's path is a prefix of the name's."""
    host, _, path = place.partition("/")
    image_host, _, image_path = name.partition("/")
    wanted, found = host.split("."), image_host.split(".")
    if len(wanted) != len(found) or not image_path.startswith(path):
        return False
    return all(fnmatch.fnmatchcase(part, pattern) for pattern, part in zip(wanted, found, strict=True))
