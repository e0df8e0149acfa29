"""ConfigMaps and Secrets as pods use them: from the API, or as last seen while it is away.

Mirrors the watch based managers of ``pkg/kubelet/configmap`` and ``pkg/kubelet/secret`` in what shows: an
object that was read once can be had through an outage, one that never was cannot.
"""

from typing import Any

from kubelet_emu.apiserver.client import ApiClient
from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.errors import PeerError

__all__ = ["ObjectCache"]

OBJECTS_MAX = 10_000
"""Objects remembered; the one that was read longest ago goes first."""


class ObjectCache:
    """Reads objects of one API."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._seen: dict[tuple[str, str, str], dict[str, Any] | None] = {}

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """The object or None. Raises ``PeerError`` while the API is away and it was never read."""
        key = (kind, namespace, name)
        try:
            found = await self._api.get(kind, namespace, name)
        except ApiError as error:
            if key in self._seen:
                return self._seen[key]
            text = f"failed to sync {kind.lower()} cache: timed out waiting for the condition"
            raise PeerError(text) from error
        self._seen.pop(key, None)
        self._seen[key] = found
        while len(self._seen) > OBJECTS_MAX:
            del self._seen[next(iter(self._seen))]
        return found
