"""Names instead of ids, addresses and UIDs, so that traces of different runs can be compared (pure).

Container ids become ``NAME#attempt``, sandbox ids ``POD/sandbox#attempt``, pod addresses ``ip-1``, ``ip-2`` …
in order of appearance, UIDs ``<uid:POD>``, and the namespace in a pod's full name ``<ns>``.
"""

import re

__all__ = ["Names"]

_TOKEN = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # UID of an API object
    r"|\b[0-9a-f]{12,64}\b"  # runtime id, UID of a static pod
    r"|\b\d{1,3}(?:\.\d{1,3}){3}\b"
    r"|[a-z0-9.-]+_[a-z0-9-]+\("  # full name of a pod before its UID
    r"|(?<![\w:])[0-9a-f]{1,4}(?:::?[0-9a-f]{1,4})+(?![\w:])"
)
"""What ids look like. One fixed pattern and a look-up, so the cost does not grow with the ids known."""


IDS_MAX = 100_000
"""Runtime ids that are remembered; beyond it the oldest is forgotten and shows as itself."""


class Names:
    """What has been learnt of ids so far."""

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}
        self._pod_of: dict[str, str] = {}
        self._pods: dict[str, str] = {}
        self._ips: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}
        self._known: dict[str, str] = {}

    def learn_sandbox(self, sandbox_id: str, *, pod: str, attempt: int) -> str:
        """Note a sandbox; returns its label."""
        label = f"{pod}/sandbox#{attempt}"
        self._learn(sandbox_id, label, pod)
        return label

    def learn_container(self, container_id: str, *, pod: str, name: str, attempt: int) -> str:
        """Note a container instance; returns its label."""
        label = f"{name}#{attempt}"
        self._learn(container_id, label, pod)
        return label

    def learn_pod(self, *, name: str, namespace: str, uid: str) -> None:
        """Note a pod's UID and namespace."""
        if self._pods.get(uid) != name:
            self._pods[uid] = name
            self._say(uid, f"<uid:{name}>")
        if namespace and self._namespaces.get(name) != namespace:
            self._namespaces[name] = namespace
            self._say(f"{name}_{namespace}(", f"{name}_<ns>(")

    def address(self, ip: str) -> str:
        """The name of an address; a new one gets the next number."""
        known = self._ips.get(ip)
        if known is None:
            known = self._ips[ip] = f"ip-{len(self._ips) + 1}"
            self._say(ip, known)
        return known

    def label(self, runtime_id: str) -> str:
        """The label of a container or sandbox id; an id never seen stays itself."""
        return self._labels.get(runtime_id, runtime_id)

    def knows(self, runtime_id: str) -> bool:
        """Whether the id was learnt."""
        return runtime_id in self._labels

    def pod(self, runtime_id: str) -> str:
        """The pod that a container or sandbox belongs to; empty if the id is unknown."""
        return self._pod_of.get(runtime_id, "")

    def text(self, text: str) -> str:
        """A message with every known id, address, UID and namespace replaced."""
        if not text or not self._known:
            return text
        return _TOKEN.sub(self._replace, text)

    def _replace(self, match: re.Match[str]) -> str:
        token = match.group()
        return self._known.get(token, token)

    def _learn(self, runtime_id: str, label: str, pod: str) -> None:
        if len(self._labels) >= IDS_MAX:
            oldest = next(iter(self._labels))
            for known in (self._labels, self._pod_of, self._known):
                known.pop(oldest, None)
        self._labels[runtime_id] = label
        self._pod_of[runtime_id] = pod
        self._say(runtime_id, label)

    def _say(self, raw: str, name: str) -> None:
        if raw:
            self._known[raw] = name
