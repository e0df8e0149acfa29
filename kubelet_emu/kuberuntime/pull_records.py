"""What the kubelet pulled itself, and for whom: kept on disk for the next kubelet (IMG-27, IMG-28).

Mirrors ``pkg/kubelet/images/pullmanager/fs_pullrecords.go``: one file an image under
``<root>/image_manager/pulling`` (intents, by image string) and ``pulled`` (records, by image reference).
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from kubelet_emu.api.times import format_seconds
from kubelet_emu.kuberuntime.images import PullRecord, RecordEntry, record_pull
from kubelet_emu.kuberuntime.seams import PullCredential
from node_host.clock import NodeClock
from node_host.files import Files

__all__ = ["PullRecords"]

_API_VERSION = "kubelet.config.k8s.io/v1beta1"
_RECORDS_MAX = 4096
_FOLDER_MODE = 0o700
_FILE_MODE = 0o600


class PullRecords:
    """Records and intents of one kubelet. Methods that write raise ``OSError`` if the disk refuses."""

    def __init__(self, files: Files, root_dir: str, clock: NodeClock) -> None:
        self._files = files
        self._clock = clock
        self._pulling = f"{root_dir}/image_manager/pulling"
        self._pulled = f"{root_dir}/image_manager/pulled"
        self._counts: dict[str, int] = {}
        self._records: dict[str, PullRecord] = {}
        self.left = tuple(str(one.get("image", "")) for one in self._documents(self._pulling))
        """Images whose pull a kubelet before this one began and never finished."""
        for document in self._documents(self._pulled):
            self._records[str(document.get("imageRef", ""))] = _record_of(document)

    def get(self, image_ref: str) -> PullRecord | None:
        """The record of an image that is there, None for one that others have brought."""
        return self._records.get(image_ref)

    def pulling(self, image: str) -> bool:
        """Whether a pull under this string is going on."""
        return image in self._counts or image in self.left

    def begin(self, image: str) -> None:
        """Write down that a pull is about to begin."""
        if not self._counts.get(image):
            document = {"kind": "ImagePullIntent", "apiVersion": _API_VERSION, "image": image}
            self._write(self._pulling, image, document)
        self._counts[image] = self._counts.get(image, 0) + 1

    def failed(self, image: str) -> None:
        """The pull came to nothing."""
        left = self._counts.pop(image, 1) - 1
        if left > 0:
            self._counts[image] = left
        else:
            self._remove(self._pulling, image)

    def succeeded(self, image: str, image_ref: str, credential: PullCredential | None) -> None:
        """The pull brought the image, with that credential or without any."""
        self._keep(image_ref, record_pull(self._records.get(image_ref), image, credential))
        self.failed(image)

    def recover(self, image: str, image_ref: str, repository: str) -> None:
        """Settle an intent that was left: what it brought may be used by nobody before they pull it."""
        if image_ref and image_ref not in self._records:
            self._keep(image_ref, PullRecord({repository: RecordEntry()}))
        self.left = tuple(one for one in self.left if one != image)
        if image not in self._counts:
            self._remove(self._pulling, image)

    def prune(self, image_refs: Collection[str]) -> None:
        """Forget images that the runtime no longer has."""
        for gone in [ref for ref in self._records if ref not in image_refs]:
            del self._records[gone]
            self._remove(self._pulled, gone)

    def _keep(self, image_ref: str, record: PullRecord) -> None:
        self._records.pop(image_ref, None)
        self._records[image_ref] = record
        self._write(self._pulled, image_ref, self._document_of(image_ref, record))
        while len(self._records) > _RECORDS_MAX:
            oldest = next(iter(self._records))
            del self._records[oldest]
            self._remove(self._pulled, oldest)

    def _document_of(self, image_ref: str, record: PullRecord) -> Mapping[str, Any]:
        return {
            "kind": "ImagePulledRecord",
            "apiVersion": _API_VERSION,
            "lastUpdatedTime": format_seconds(self._clock.now_ns()),
            "imageRef": image_ref,
            "credentialMapping": {name: _mapping_of(entry) for name, entry in record.entries.items()},
        }

    def _documents(self, folder: str) -> Sequence[Mapping[str, Any]]:
        """What lies there; a file that cannot be read or understood counts as not there."""
        found: list[Mapping[str, Any]] = []
        if not self._files.exists(folder):
            return found
        for name in sorted(self._files.list(folder)):
            try:
                document = json.loads(self._files.read(f"{folder}/{name}"))
            except (OSError, ValueError):
                continue
            if name.startswith("sha256-") and isinstance(document, dict):
                found.append(cast("dict[str, Any]", document))
        return found

    def _write(self, folder: str, key: str, document: Mapping[str, Any]) -> None:
        self._files.make_dirs(folder, mode=_FOLDER_MODE)
        path = f"{folder}/{_name(key)}"
        self._files.write(f"{path}.tmp", json.dumps(document).encode(), mode=_FILE_MODE)
        self._files.rename(f"{path}.tmp", path)

    def _remove(self, folder: str, key: str) -> None:
        path = f"{folder}/{_name(key)}"
        if self._files.exists(path):
            self._files.remove(path)


def _name(key: str) -> str:
    return f"sha256-{hashlib.sha256(key.encode()).hexdigest()}"


def _mapping_of(entry: RecordEntry) -> Mapping[str, Any]:
    if entry.node_pods:
        return {"nodePodsAccessible": True}
    secrets = [
        {"uid": uid, "namespace": namespace, "name": name, "credentialHash": digest}
        for uid, namespace, name, digest in entry.secrets
    ]
    return {"kubernetesSecrets": secrets} if secrets else {}


def _record_of(document: Mapping[str, Any]) -> PullRecord:
    """Anything that is not as it should be counts as a record for nobody."""
    entries: dict[str, RecordEntry] = {}
    mappings: object = document.get("credentialMapping")
    if isinstance(mappings, dict):
        for name, mapping in cast("dict[str, object]", mappings).items():
            entries[name] = _entry_of(cast("dict[str, Any]", mapping) if isinstance(mapping, dict) else {})
    return PullRecord(entries)


def _entry_of(mapping: Mapping[str, Any]) -> RecordEntry:
    given = mapping.get("kubernetesSecrets")
    secrets: list[tuple[str, str, str, str]] = []
    for item in cast("list[object]", given) if isinstance(given, list) else ():
        if isinstance(item, dict):
            one = cast("dict[str, object]", item)
            keys = ("uid", "namespace", "name", "credentialHash")
            uid, namespace, name, digest = (str(one.get(key, "")) for key in keys)
            secrets.append((uid, namespace, name, digest))
    return RecordEntry(node_pods=mapping.get("nodePodsAccessible") is True, secrets=tuple(secrets))
