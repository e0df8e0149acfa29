"""The registry side of images: what a pull of a reference finds, and how large it is (pure).

Any well-formed reference can be pulled; what it contains is derived from its repository and tag alone, so
the same reference has the same id in every run, and two tags have different ones. Registries that nobody
listens at (port 1 of a loopback address) refuse at once, with the text of containerd.
"""

import hashlib
from collections.abc import Mapping

from attrs import evolve, frozen

from cri_fake.known_images import SAME_CONTENT, USERS
from cri_fake.references import Reference
from cri_fake.store.faults import Kind, Refused
from cri_fake.store.images import Image, ImageConfig

__all__ = [
    "PAUSE_IMAGE",
    "PRELOADED",
    "Catalogue",
    "Found",
    "refused_connection",
    "unreachable",
    "volume_files",
]

PAUSE_IMAGE = "registry.k8s.io/pause:3.10"
"""The image of sandboxes (pinned, present from the start)."""
PRELOADED: tuple[str, ...] = (
    "docker.io/library/busybox:1.35",
    "docker.io/library/busybox:1.36",
    PAUSE_IMAGE,
)
"""References that are present before anything is pulled. Imported, not pulled: they have no repo digest."""

_PATH = (("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),)
_BUSYBOX = ImageConfig(command=("sh",), environment=_PATH, emulated=True)
_PAUSE = ImageConfig(entrypoint=("/pause",), environment=_PATH, user="65535:65535", emulated=True)
_NGINX = ImageConfig(
    entrypoint=("/docker-entrypoint.sh",),
    command=("nginx", "-g", "daemon off;"),
    environment=_PATH,
    stop_signal="SIGQUIT",
    contents="nginx",
)
_SHELL = ImageConfig(command=("/bin/sh",), environment=_PATH)
_BASH = ImageConfig(command=("bash",), environment=_PATH)
_PYTHON = ImageConfig(command=("python3",), environment=_PATH)
_OPAQUE = ImageConfig(entrypoint=("/entrypoint",), environment=_PATH)

_CONFIGS: Mapping[str, ImageConfig] = {
    "agnhost": ImageConfig(
        entrypoint=("/agnhost",), command=("pause",), environment=_PATH, contents="agnhost"
    ),
    "alpine": _SHELL,
    "busybox": _BUSYBOX,
    "debian": _BASH,
    "hostnet-nginx-amd64": evolve(_NGINX, environment=(*_PATH, ("NGINX_PORT", "12003"))),
    "httpd": ImageConfig(
        command=("httpd-foreground",), environment=_PATH, stop_signal="SIGWINCH", contents="httpd"
    ),
    "nginx": _NGINX,
    "pause": _PAUSE,
    "python": _PYTHON,
    "test-image-predefined-group": evolve(_BUSYBOX, contents="predefined-group"),
    "redis": ImageConfig(
        entrypoint=("docker-entrypoint.sh",),
        command=("redis-server",),
        environment=_PATH,
        working_directory="/data",
    ),
    "ubuntu": _BASH,
}
"""Configurations by the last part of the repository's name."""

_SIZES_BYTES: Mapping[str, int] = {"busybox": 2_130_000, "pause": 2_130_000, "alpine": 3_600_000}
_SMALLEST_BYTES = 5_000_000
_SPREAD_BYTES = 120_000_000


@frozen(kw_only=True)
class Found:
    """What a pull finds: the image without references, and the digest of its manifest."""

    image: Image
    manifest_digest: str


def _digest(kind: str, content: str) -> str:
    return "sha256:" + hashlib.sha256(f"cri-fake {kind} {content}".encode()).hexdigest()


def refused_connection(reference: Reference) -> Refused | None:
    """The failure of a pull from a loopback registry at port 1, where nothing listens; None for others."""
    host, _, port = reference.domain.rpartition(":")
    if port != "1" or not (host == "localhost" or host.startswith("127.") or host == "[::1]"):
        return None
    return unreachable(reference, f"{'127.0.0.1' if host == 'localhost' else host}:1")


def unreachable(reference: Reference, address: str) -> Refused:
    """The failure of a pull from a registry at whose address nobody listens."""
    text = (
        f'failed to pull and unpack image "{reference}": failed to resolve reference "{reference}": '
        f'failed to do request: Head "http://{reference.domain}/v2/{reference.path}/manifests/'
        f'{reference.digest or reference.tag}": dial tcp {address}: connect: connection refused'
    )
    return Refused(Kind.UNKNOWN, text)


class Catalogue:
    """Finds any well-formed reference.

    ``configs`` adds or replaces configurations, by repository or by its last part.

    ``contents`` gives two references the same content: normal reference -> any name for what they share.
    """

    def __init__(
        self,
        *,
        configs: Mapping[str, ImageConfig] | None = None,
        contents: Mapping[str, str] | None = None,
    ) -> None:
        self._configs = dict(configs or {})
        self._contents = dict(contents or {})
        self._manifests: dict[str, str] = {}

    def find(self, reference: Reference) -> Found:
        """What the registry has under the reference.

        Raises:
            Refused: nothing listens there.
        """
        refusal = refused_connection(reference)
        if refusal is not None:
            raise refusal
        name = reference.path.rsplit("/", 1)[-1]
        content = self._contents.get(str(reference)) or SAME_CONTENT.get(str(reference))
        if content is None and reference.digest:
            content = self._manifests.get(reference.digest, f"{reference.path}@{reference.digest}")
        elif content is None:
            content = f"{reference.path}:{reference.tag}"
        manifest = reference.digest or _digest("manifest", content)
        self._manifests[manifest] = content
        config = self._configs.get(reference.repository) or self._configs.get(name) or _CONFIGS.get(name)
        image_id = _digest("config", content)
        size = _SIZES_BYTES.get(name) or _SMALLEST_BYTES + int(image_id[7:15], 16) % _SPREAD_BYTES
        image = Image(id=image_id, size_bytes=size, config=config or _OPAQUE)
        if name in USERS:
            image = evolve(image, config=evolve(image.config, user=USERS[name]))
        return Found(image=image, manifest_digest=manifest)


_PASSWD = (
    b"root:x:0:0:root:/root:/bin/sh\n"
    b"daemon:x:1:1:daemon:/usr/sbin:/bin/false\n"
    b"www-data:x:33:33:www-data:/var/www:/bin/false\n"
    b"nobody:x:65534:65534:nobody:/home:/bin/false\n"
)
_GROUP = b"root:x:0:\ndaemon:x:1:\nwww-data:x:33:\nnobody:x:65534:\n"


def volume_files(image: Image) -> dict[str, bytes]:
    """What an image volume of that image shows, absolute path -> content."""
    if image.config.entrypoint == ("/pause",):
        return {}
    return {"/etc/passwd": _PASSWD, "/etc/group": _GROUP}
