"""The file systems of the images that are emulated (pure).

An executable is a file whose content names a program: ``executable("sleep")``. It can be copied, linked,
removed and put into a volume like any file, and runs whatever ``Programs`` has under that name.
"""

from collections.abc import Iterable, Mapping
from functools import cache

from cri_fake.process.layer import Device, FileNode, Folder, Link

__all__ = ["BUSYBOX_APPLETS", "busybox_tree", "executable", "image_tree", "program_in", "scratch_tree"]

_MAGIC = b"\x7fELF\x02\x01\x01\0emulated:"
_IMAGE_MTIME_NS = 1_700_000_000_000_000_000

_NAMES = """
[ [[ ash awk base64 basename busybox cat chgrp chmod chown cmp cp cut date dd df diff dirname du echo
egrep env expand expr factor false fgrep find fold free getopt grep groups head hexdump hostname httpd id
ip kill killall less link ln logname ls md5sum mkdir mkfifo mknod mktemp more mount mv nc netstat nl nohup
nproc nslookup od paste pgrep pidof ping pkill printenv printf ps pwd readlink realpath renice rev rm
rmdir sed seq setsid sh sha1sum sha256sum sha512sum shuf sleep sort split stat stty sync tac tail tar tee
telnet test time timeout top touch tr true truncate tty umount uname unexpand uniq unlink uptime usleep vi wc
wget which who whoami xargs xxd yes
"""
BUSYBOX_APPLETS: tuple[str, ...] = tuple(_NAMES.split())

_PASSWD = (
    "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/usr/sbin:/bin/false\nbin:x:2:2:bin:/bin:/bin/false\n"
    "sys:x:3:3:sys:/dev:/bin/false\nsync:x:4:100:sync:/bin:/bin/sync\nmail:x:8:8:mail:/var/spool/mail:/bin/false\n"
    "www-data:x:33:33:www-data:/var/www:/bin/false\noperator:x:37:37:Operator:/var:/bin/false\n"
    "nobody:x:65534:65534:nobody:/home:/bin/false\n"
)
_GROUP = (
    "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nwheel:x:10:root\nmail:x:8:\n"
    "www-data:x:33:\nusers:x:100:\nnobody:x:65534:\n"
)


def executable(program: str) -> bytes:
    """The content of a file that runs the program of that name."""
    return _MAGIC + program.encode() + b"\n"


def program_in(content: bytes) -> str | None:
    """The program an executable's content names; None for any other content."""
    if not content.startswith(_MAGIC):
        return None
    return content[len(_MAGIC) :].split(b"\n", 1)[0].decode("utf-8", "replace")


def _folder(root: Folder, path: str, mode: int = 0o755) -> Folder:
    folder = root.make_path(path.strip("/").split("/"))
    folder.mode = mode
    return folder


def _base(root: Folder) -> None:
    """What the runtime adds to every container: /proc, /sys and /dev."""
    for name, mode in (("proc", 0o555), ("sys", 0o555), ("dev", 0o755)):
        _folder(root, name, mode).pinned = True
    device = _folder(root, "dev")
    for kind in ("null", "zero", "full", "random", "tty"):
        device.entries[kind] = Device(kind)
    device.entries["urandom"] = Device("random")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        device.entries[name] = Link(f"/proc/self/fd/{number}", _IMAGE_MTIME_NS)
    device.entries["fd"] = Link("/proc/self/fd", _IMAGE_MTIME_NS)
    for name in ("pts", "shm", "mqueue"):
        _folder(root, f"dev/{name}", 0o1777)
    descriptors = _folder(root, "proc/self/fd", 0o500)
    descriptors.pinned = True
    for number in range(10):
        descriptors.entries[str(number)] = Device(f"fd:{number}")


@cache
def scratch_tree() -> Folder:
    """An image without any file of its own."""
    root = Folder(0o755, _IMAGE_MTIME_NS)
    _base(root)
    return root


def _tree(applets: Iterable[str]) -> Folder:
    root = Folder(0o755, _IMAGE_MTIME_NS)
    _base(root)
    for path in ("bin", "etc", "home", "lib", "usr/bin", "usr/sbin", "var/spool/mail", "var/www"):
        _folder(root, path)
    _folder(root, "root", 0o700)
    _folder(root, "tmp", 0o1777)
    binaries = _folder(root, "bin")
    for name in applets:
        binaries.entries[name] = FileNode(executable(name), 0o755, _IMAGE_MTIME_NS, frozen=True)
    _folder(root, "usr/bin").entries["env"] = Link("../../bin/env", _IMAGE_MTIME_NS)
    settings = _folder(root, "etc")
    for name, text in (("passwd", _PASSWD), ("group", _GROUP)):
        settings.entries[name] = FileNode(text.encode(), 0o644, _IMAGE_MTIME_NS, frozen=True)
    return root


@cache
def busybox_tree() -> Folder:
    """The busybox image: its applets in /bin, /etc/passwd and the usual empty folders."""
    return _tree(BUSYBOX_APPLETS)


_NGINX_PAGE = """<!DOCTYPE html>
<html>
<head>
<title>Welcome to nginx!</title>
</head>
<body>
<h1>Welcome to nginx!</h1>
<p>If you see this page, the nginx web server is successfully installed and
working. Further configuration is required.</p>
</body>
</html>
"""
_HTTPD_PAGE = "<html><body><h1>It works!</h1></body></html>\n"
_WEB_USERS = ("nginx:x:101:101:nginx:/nonexistent:/bin/false\n", "nginx:x:101:\n")

_CONTENTS: Mapping[str, Mapping[str, bytes]] = {
    "agnhost": {"/agnhost": executable("agnhost")},
    "nginx": {
        "/docker-entrypoint.sh": executable("docker-entrypoint"),
        "/usr/sbin/nginx": executable("nginx"),
        "/usr/share/nginx/html/index.html": _NGINX_PAGE.encode(),
        "/etc/nginx/nginx.conf": b"events {}\nhttp {}\n",
        "/etc/passwd": (_PASSWD + _WEB_USERS[0]).encode(),
        "/etc/group": (_GROUP + _WEB_USERS[1]).encode(),
    },
    "predefined-group": {
        "/etc/passwd": (_PASSWD + "default-user:x:1000:1000::/home:/bin/sh\n").encode(),
        "/etc/group": (_GROUP + "group-defined-in-image:x:50000:default-user\n").encode(),
    },
    "httpd": {
        "/usr/local/bin/httpd-foreground": executable("httpd-foreground"),
        "/usr/local/apache2/htdocs/index.html": _HTTPD_PAGE.encode(),
    },
}
"""What images have besides busybox' applets, by the name of their content."""


@cache
def image_tree(contents: str) -> Folder:
    """The file system of an image: ``scratch``, ``agnhost``, ``nginx``, ``httpd``; else busybox'."""
    if contents == "scratch":
        return scratch_tree()
    if contents not in _CONTENTS:
        return busybox_tree()
    root = _tree(BUSYBOX_APPLETS)
    for path, data in _CONTENTS[contents].items():
        folder, _, name = path.strip("/").rpartition("/")
        place = _folder(root, folder) if folder else root
        mode = 0o755 if program_in(data) else 0o644
        place.entries[name] = FileNode(data, mode, _IMAGE_MTIME_NS, frozen=True)
    return root
