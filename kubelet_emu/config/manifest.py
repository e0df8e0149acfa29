"""Manifests as a kubelet reads them from a file or an URL: lenient, one pod or a list (pure).

Mirrors tryDecodeSinglePod and tryDecodePodList of ``pkg/kubelet/config/common.go`` (POD-204, POD-208,
POD-212, POD-213).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from attrs import frozen

from kubelet_emu.api.codec import DecodeError, pod_from_json
from kubelet_emu.api.defaults import default_pod
from kubelet_emu.api.types import Pod
from kubelet_emu.api.yaml_source import parse_documents
from kubelet_emu.config.static import api_reference, static_pod
from kubelet_emu.errors import Problem

__all__ = ["MAX_BYTES", "ManifestError", "PodReader", "Validate"]

MAX_BYTES = 10 * 1024 * 1024
"""Most bytes of a manifest that are read (POD-001)."""

Validate = Callable[[Pod], Sequence[Problem]]


class ManifestError(Exception):
    """Raised for a manifest that yields no pod; the text says what is wrong with it."""


@frozen(kw_only=True)
class PodReader:
    """Turns manifests of one source into pods of this node.

    ``validate`` is that of a create; ``prevent_references`` is the gate PreventStaticPodAPIReferences.
    """

    source: str
    node_name: str
    validate: Validate
    prevent_references: bool = True

    def single(self, data: bytes, origin: Sequence[str]) -> Pod:
        """The one pod of a manifest; raises ``ManifestError``."""
        return self._pod(_first_object(data), origin)

    def single_or_list(self, data: bytes, origin: Sequence[str]) -> tuple[Pod, ...]:
        """The pod of a manifest, or all pods of a PodList; raises ``ManifestError``."""
        value = _first_object(data)
        if value.get("kind") not in ("PodList", "List"):
            return (self._pod(value, origin),)
        items: object = value.get("items") or ()
        if not isinstance(items, list):
            raise ManifestError("items of a PodList must be a list")
        pods = cast("list[Any]", items)
        return tuple(self._pod({"apiVersion": "v1", "kind": "Pod", **_object(item)}, origin) for item in pods)

    def _pod(self, value: Mapping[str, Any], origin: Sequence[str]) -> Pod:
        kind, version = value.get("kind"), value.get("apiVersion")
        if (kind, version) != ("Pod", "v1"):
            raise ManifestError(f"couldn't parse as pod: kind {kind!r} of apiVersion {version!r}")
        try:
            decoded = default_pod(pod_from_json(value), admitted=False)
        except DecodeError as error:
            raise ManifestError(f"couldn't parse as pod: {error}") from error
        pod = static_pod(decoded, source=self.source, origin=origin, node_name=self.node_name)
        reference = api_reference(pod) if self.prevent_references else ""
        if reference:
            raise ManifestError(f"static pods may not reference {reference}")
        problems = self.validate(pod)
        if problems:
            raise ManifestError("invalid pod: " + "; ".join(str(problem) for problem in problems))
        return pod


def _first_object(data: bytes) -> Mapping[str, Any]:
    if len(data) > MAX_BYTES:
        raise ManifestError(f"the manifest is larger than {MAX_BYTES} bytes")
    try:
        documents = parse_documents(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ManifestError(f"the manifest is not UTF-8 text: {error.reason}") from error
    if not documents:
        raise ManifestError("the manifest is empty")
    first = documents[0]
    if first.problems:
        raise ManifestError(str(first.problems[0]))
    return _object(first.value)


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ManifestError("the manifest is no object")
    return cast("Mapping[str, Any]", value)
