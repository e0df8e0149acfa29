"""Builds the images of the containerd lane from one static busybox: ``containerd_images.py BUSYBOX OUT.tar``.

Writes an archive as ``ctr images import`` reads it, with busybox under two tags (two ids) and a pause image.
"""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

PAUSE = "localhost/kubelet-emu/pause:1"
IMAGES = {
    "docker.io/library/busybox:1.36": {"Cmd": ["sh"]},
    "docker.io/library/busybox:1.35": {"Cmd": ["sh"], "Labels": {"second": "image"}},
    PAUSE: {"Entrypoint": ["/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 86400 & wait; done"]},
}


def add(
    archive: tarfile.TarFile, name: str, data: bytes = b"", *, kind: bytes = tarfile.REGTYPE, to: str = ""
) -> None:
    """One entry with nothing in it that depends on when or where it was made."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size = kind, to, len(data)
    entry.mode = 0o1777 if name == "tmp" else 0o755
    archive.addfile(entry, io.BytesIO(data) if data else None)


def layer(busybox: Path) -> bytes:
    """The root file system: busybox and a link for each of its programs."""
    applets = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for folder in ("bin", "dev", "etc", "proc", "root", "sys", "tmp", "usr", "var", "run"):
            add(archive, folder, kind=tarfile.DIRTYPE)
        add(
            archive,
            "etc/passwd",
            b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
        )
        add(archive, "etc/group", b"root:x:0:\nnogroup:x:65534:\n")
        add(archive, "bin/busybox", busybox.read_bytes())
        for applet in sorted(set(applets) - {"busybox"}):
            add(archive, f"bin/{applet}", kind=tarfile.SYMTYPE, to="busybox")
    return out.getvalue()


def main(busybox: str, target: str) -> None:
    """Write the archive."""
    root = layer(Path(busybox))
    digest = hashlib.sha256(root).hexdigest()
    manifest = []
    with tarfile.open(target, "w") as archive:
        add(archive, f"{digest}/layer.tar", root)
        for tag, config in IMAGES.items():
            document = {
                "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(sys.argv[3], sys.argv[3]),
                "os": "linux",
                "config": {"Env": ["PATH=/bin:/usr/bin:/sbin:/usr/sbin"], **config},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            }
            data = json.dumps(document, sort_keys=True).encode()
            name = hashlib.sha256(data).hexdigest() + ".json"
            add(archive, name, data)
            manifest.append({"Config": name, "RepoTags": [tag], "Layers": [f"{digest}/layer.tar"]})
        add(archive, "manifest.json", json.dumps(manifest).encode())


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: containerd_images.py BUSYBOX OUT.tar MACHINE")
    main(sys.argv[1], sys.argv[2])
