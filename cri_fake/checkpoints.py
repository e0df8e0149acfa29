"""CheckpointContainer: an archive with the names that containerd's has, without the memory of any process.

What CRIU would freeze is not there: programs are emulated. The container's configuration, its state and its
figures are, so that who collects checkpoints finds a file of the right shape (CRI-155).
"""

import io
import json
import posixpath
import tarfile
from collections.abc import Mapping

from cri_fake.containers import ContainerOps
from cri_fake.info import container_info
from cri_fake.store.containers import WireState
from cri_fake.store.faults import Kind, Refused
from cri_fake.world import World

__all__ = ["checkpoint"]

_FILE_MODE = 0o600
_NS = 1_000_000_000


async def checkpoint(world: World, containers: ContainerOps, prefix: str, location: str) -> None:
    """Write the archive of a running container to ``location``; the container runs on.

    Raises:
        Refused: the container is unknown or not running, the location empty or not writable.
    """
    container = containers.find(prefix)
    if container.state is not WireState.RUNNING:
        text = f"container {container.id} is not running: it is CONTAINER_{container.state}"
        raise Refused(Kind.UNKNOWN, text, rule="CRI-155")
    if not posixpath.isabs(location) or location.endswith("/"):
        text = f'location "{location}" is not the absolute path of a file'
        raise Refused(Kind.INVALID_ARGUMENT, text, rule="CRI-155")
    await world.pause("CheckpointContainer")
    info = json.loads(container_info(container, world.sandboxes.get(container.sandbox_id))["info"])
    status = {"id": container.id, "startedAt": container.started_at_ns, "pid": container.pid}
    parts = {
        "config.dump": {
            "id": container.id,
            "name": container.name,
            "rootfsImage": container.image_id,
            "rootfsImageName": container.image_name,
        },
        "spec.dump": info["runtimeSpec"],
        "status.dump": status,
    }
    try:
        world.files.write(location, _archive(parts, world.clock.now_ns() // _NS), mode=_FILE_MODE)
    except OSError as error:
        text = f'failed to write checkpoint "{location}": {error.strerror or error}'
        raise Refused(Kind.UNKNOWN, text, rule="CRI-155") from None


def _archive(parts: Mapping[str, object], now_seconds: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in parts.items():
            data = json.dumps(content, sort_keys=True).encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(data), now_seconds, _FILE_MODE
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()
