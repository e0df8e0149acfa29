"""Sets volumes up and tears them down (mirrors ``pkg/kubelet/volumemanager``).

The real manager is three loops of 100 ms that meet in two shared tables. What shows of that is kept: a pod
with volumes waits for a poll of 300 ms before its sandbox is made, a failing volume is tried again after
0.5, 1, 2 … s at the next 100 ms tick, and the wait of a sync ends after 123 s or when the pod is to go.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import trio
from attrs import define, field

from kubelet_emu.api.types import Pod
from kubelet_emu.errors import PeerError
from kubelet_emu.object_cache import ObjectCache
from kubelet_emu.seams import EventRecorder
from kubelet_emu.volumes.content import (
    Payload,
    VolumeError,
    config_map_payload,
    projected_payload,
    secret_payload,
)
from kubelet_emu.volumes.plan import PlannedVolume, VolumeKind, needed_volumes, pod_dir
from node_host.clock import NodeClock
from node_host.files import Files

__all__ = ["VolumeManager", "WaitInterrupted"]

Json = dict[str, Any]

TICK_SECONDS = 0.1
WAIT_POLL_SECONDS = 0.3
WAIT_MAX_SECONDS = 123.0
BACKOFF_FIRST_SECONDS = 0.5
BACKOFF_MAX_SECONDS = 122.0
DEFAULT_MODE = 0o644


class WaitInterrupted(VolumeError):
    """Raised when the wait for volumes ended early or ran out of time: no event is sent for it (VOL-06)."""


@define
class _Mounted:
    """State of one volume of one pod."""

    planned: PlannedVolume
    ready: bool = False
    error: str = ""
    failures: int = 0
    retry_at_seconds: float = 0.0


@define
class _PodVolumes:
    pod: Pod
    volumes: dict[str, _Mounted] = field(factory=dict[str, _Mounted])


class VolumeManager:
    """Volumes of all pods of one node. ``run`` is the reconciler."""

    def __init__(
        self,
        *,
        clock: NodeClock,
        files: Files,
        objects: ObjectCache | None,
        events: EventRecorder,
        root_dir: str,
        host_root: str = "",
        downward_files: Callable[[Pod, Any, int], Payload],
    ) -> None:
        self._clock = clock
        self._files = files
        self._objects_of_api = objects
        self._events = events
        self._root_dir = root_dir
        self._host_root = host_root
        self._downward_files = downward_files
        self._pods: dict[str, _PodVolumes] = {}
        self._work = trio.Event()

    def host_path(self, pod: Pod, volume_name: str) -> str | None:
        """Where a set-up volume lies on the node, None if the pod has none of that name."""
        known = self._pods.get(pod.metadata.uid or "")
        mounted = known.volumes.get(volume_name) if known else None
        return mounted.planned.host_path if mounted is not None and mounted.ready else None

    def has_volumes(self, uid: str) -> bool:
        """Whether the pod still has volumes here, so that its directory must stay (POD-1003)."""
        return uid in self._pods

    async def wait_for_mount(self, pod: Pod, *, interrupted: Callable[[], bool]) -> None:
        """Wait until every needed volume is set up (VOL-01).

        Raises ``VolumeError`` with the text of the FailedMount event, or ``WaitInterrupted``.
        """
        planned = needed_volumes(pod, root_dir=self._root_dir, host_root=self._host_root)
        if not planned:
            return
        uid = pod.metadata.uid or ""
        first = uid not in self._pods
        entry = self._pods.setdefault(uid, _PodVolumes(pod))
        entry.pod = pod
        for volume in planned:
            known = entry.volumes.get(volume.name)
            if known is None:
                entry.volumes[volume.name] = _Mounted(volume)
            elif known.ready and volume.kind.rewritten:
                # Set up again with the latest content; a failure now does not unmount it (VOL-03).
                await self._refresh(entry, known)
        self._work.set()
        if not first and all(mounted.ready for mounted in entry.volumes.values()):
            return
        deadline = self._clock.elapsed_seconds() + WAIT_MAX_SECONDS
        while True:
            await self._clock.sleep(WAIT_POLL_SECONDS)
            if all(mounted.ready for mounted in entry.volumes.values()):
                return
            if interrupted() or self._clock.elapsed_seconds() >= deadline:
                missing = [name for name, mounted in entry.volumes.items() if not mounted.ready]
                listed = " ".join(entry.volumes)
                raise WaitInterrupted(
                    f"unmounted volumes=[{' '.join(missing)}], unattached volumes=[{listed}], "
                    "failed to process volumes=[]: context deadline exceeded"
                )

    async def wait_for_unmount(self, pod: Pod) -> None:
        """Take the pod's volumes down and its volume directories away (VOL-11)."""
        uid = pod.metadata.uid or ""
        entry = self._pods.pop(uid, None)
        if entry is not None and entry.volumes:
            await self._clock.sleep(WAIT_POLL_SECONDS)
        base = f"{pod_dir(self._root_dir, uid)}/volumes"
        if self._files.exists(base):
            self._files.remove_tree(base)

    async def run(self) -> None:
        """Set up what is wanted, with retries, until cancelled."""
        while True:
            due = [
                (entry, mounted)
                for entry in list(self._pods.values())
                for mounted in list(entry.volumes.values())
                if not mounted.ready
            ]
            if not due:
                self._work = trio.Event()
                await self._work.wait()
                await self._clock.sleep(TICK_SECONDS)
                continue
            now = self._clock.elapsed_seconds()
            for entry, mounted in due:
                if mounted.retry_at_seconds <= now:
                    await self._set_up(entry, mounted)
            waiting = [
                m.retry_at_seconds for e in self._pods.values() for m in e.volumes.values() if not m.ready
            ]
            pause = (
                max(TICK_SECONDS, min(waiting) - self._clock.elapsed_seconds()) if waiting else TICK_SECONDS
            )
            self._work = trio.Event()
            with trio.move_on_after(pause):
                await self._work.wait()
                await self._clock.sleep(TICK_SECONDS)

    async def _set_up(self, entry: _PodVolumes, mounted: _Mounted) -> None:
        try:
            await self._mount(entry.pod, mounted)
        except (VolumeError, OSError) as error:
            mounted.error = str(error)
            pause = min(BACKOFF_FIRST_SECONDS * 2**mounted.failures, BACKOFF_MAX_SECONDS)
            mounted.failures += 1
            mounted.retry_at_seconds = self._clock.elapsed_seconds() + pause
            text = f'MountVolume.SetUp failed for volume "{mounted.planned.name}" : {error}'
            self._events.event(entry.pod, "Warning", "FailedMount", text)
        else:
            mounted.ready, mounted.error, mounted.failures = True, "", 0

    async def _refresh(self, entry: _PodVolumes, mounted: _Mounted) -> None:
        try:
            await self._mount(entry.pod, mounted)
        except (VolumeError, OSError) as error:
            text = f'MountVolume.SetUp failed for volume "{mounted.planned.name}" : {error}'
            self._events.event(entry.pod, "Warning", "FailedMount", text)

    async def _mount(self, pod: Pod, mounted: _Mounted) -> None:
        planned = mounted.planned
        if planned.kind is VolumeKind.UNSUPPORTED:
            sources = ", ".join(sorted(planned.volume.extra))
            raise VolumeError(f"no volume plugin matched: {sources or planned.name}")
        if planned.kind is VolumeKind.IMAGE:
            return
        if planned.kind is VolumeKind.HOST_PATH:
            self._check_host_path(planned)
        elif planned.kind.rewritten:
            payload = await self._payload(pod, planned)
            self._write_atomically(planned.host_path, payload)
        elif not self._files.exists(planned.host_path):
            self._files.make_dirs(planned.host_path, mode=0o777)

    async def _payload(self, pod: Pod, planned: PlannedVolume) -> Payload:
        volume = planned.volume
        objects = await self._objects(pod, planned)
        if volume.config_map is not None:
            source = volume.config_map
            return config_map_payload(
                source.name or "",
                objects("ConfigMap", source.name or ""),
                items=source.items,
                default_mode=_mode(source.default_mode),
                optional=bool(source.optional),
            )
        if volume.secret is not None:
            source = volume.secret
            return secret_payload(
                source.secret_name or "",
                objects("Secret", source.secret_name or ""),
                items=source.items,
                default_mode=_mode(source.default_mode),
                optional=bool(source.optional),
            )
        if volume.downward_api is not None:
            return self._downward_files(
                pod, volume.downward_api.items, _mode(volume.downward_api.default_mode)
            )
        assert volume.projected is not None
        return projected_payload(
            pod,
            volume.projected.sources,
            default_mode=_mode(volume.projected.default_mode),
            lookup=objects,
            downward=self._downward_files,
            token=lambda of, _source: (
                f"emulated-token-of-{of.spec.service_account_name or 'default'}".encode()
            ),
        )

    async def _objects(self, pod: Pod, planned: PlannedVolume) -> Callable[[str, str], Json | None]:
        """The API objects a volume refers to, read up front."""
        wanted: list[tuple[str, str]] = []
        volume = planned.volume
        if volume.config_map is not None:
            wanted.append(("ConfigMap", volume.config_map.name or ""))
        if volume.secret is not None:
            wanted.append(("Secret", volume.secret.secret_name or ""))
        if volume.projected is not None:
            for source in volume.projected.sources:
                if source.config_map is not None:
                    wanted.append(("ConfigMap", source.config_map.name or ""))
                if source.secret is not None:
                    wanted.append(("Secret", source.secret.name or ""))
        found: dict[tuple[str, str], Json | None] = {}
        for kind, name in wanted:
            if self._objects_of_api is None:
                raise VolumeError(f'{kind.lower()} "{name}" not found: this kubelet has no API server')
            try:
                found[kind, name] = await self._objects_of_api.get(
                    kind, pod.metadata.namespace or "default", name
                )
            except PeerError as error:
                raise VolumeError(str(error)) from error
        return lambda kind, name: found.get((kind, name))

    def _check_host_path(self, planned: PlannedVolume) -> None:
        source = planned.volume.host_path
        assert source is not None
        path, wanted = planned.host_path, source.type or ""
        if self._host_root:
            self._refuse_links(path)
        exists = self._files.exists(path)
        if wanted == "DirectoryOrCreate" and not exists:
            self._files.make_dirs(path, mode=0o755)
        elif wanted == "FileOrCreate" and not exists:
            self._files.write(path, b"", mode=0o644)
        elif wanted in ("Directory", "DirectoryOrCreate"):
            if not exists or self._files.stat(path).kind != "dir":
                raise VolumeError(f"hostPath type check failed: {path} is not a directory")
        elif wanted in ("File", "FileOrCreate"):
            if not exists or self._files.stat(path).kind != "file":
                raise VolumeError(f"hostPath type check failed: {path} is not a file")
        elif wanted in ("Socket", "CharDevice", "BlockDevice"):
            name = {"Socket": "socket file", "CharDevice": "character device", "BlockDevice": "block device"}
            raise VolumeError(f"hostPath type check failed: {path} is not a {name[wanted]}")
        elif not exists:
            # Without a type the runtime makes the missing directory when it mounts it.
            self._files.make_dirs(path, mode=0o755)

    def _refuse_links(self, path: str) -> None:
        """A link that a container left under the private root must not lead a runtime out of it."""
        place = self._host_root
        for part in path.removeprefix(self._host_root).split("/"):
            place = f"{place}/{part}" if part else place
            try:
                if self._files.stat(place, follow=False).kind == "symlink":
                    raise VolumeError(f"hostPath leads through a link at {place}: not followed here")
            except OSError:
                return

    def _write_atomically(self, base: str, payload: Payload) -> None:
        """Files in a fresh timed directory, reached through the ``..data`` link (VOL-05).

        What is there is read from the node's files, since a former kubelet may have written it.
        """
        files = self._files
        files.make_dirs(base, mode=0o777)
        old = files.read_link(f"{base}/..data") if files.exists(f"{base}/..data") else ""
        if old and self._unchanged(f"{base}/{old}", payload):
            return
        version = self._new_version(base)
        files.make_dirs(f"{base}/{version}", mode=0o755)
        for path, item in payload.items():
            files.make_dirs(f"{base}/{version}/{path}".rpartition("/")[0], mode=0o755)
            files.write(f"{base}/{version}/{path}", item.data, mode=item.mode)
        files.symlink(version, f"{base}/..data_tmp")
        if old:
            files.remove(f"{base}/..data")
        files.rename(f"{base}/..data_tmp", f"{base}/..data")
        tops = dict.fromkeys(path.split("/")[0] for path in payload)
        shown = [name for name in files.list(base) if not name.startswith("..")]
        for name in shown:
            if name not in tops:
                files.remove(f"{base}/{name}")
        for name in tops:
            if name not in shown:
                files.symlink(f"..data/{name}", f"{base}/{name}")
        if old:
            files.remove_tree(f"{base}/{old}")

    def _new_version(self, base: str) -> str:
        now_ns = self._clock.now_ns()
        moment = datetime.fromtimestamp(now_ns // 1_000_000_000, UTC).strftime("%Y_%m_%d_%H_%M_%S")
        number = now_ns % 1_000_000_000
        while self._files.exists(f"{base}/..{moment}.{number:09d}"):
            number += 1
        return f"..{moment}.{number:09d}"

    def _unchanged(self, folder: str, payload: Payload) -> bool:
        """Whether the folder holds just these files, with this content."""
        if sorted(self._paths(folder)) != sorted(payload):
            return False
        return all(self._files.read(f"{folder}/{path}") == item.data for path, item in payload.items())

    def _paths(self, folder: str, under: str = "") -> Iterator[str]:
        for name in self._files.list(folder):
            if self._files.stat(f"{folder}/{name}").kind == "dir":
                yield from self._paths(f"{folder}/{name}", f"{under}{name}/")
            else:
                yield under + name


def _mode(value: int | None) -> int:
    return DEFAULT_MODE if value is None else value
