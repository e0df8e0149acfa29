"""What is common to all carriers of files: the stat value, the errors, and how a path is split."""

import errno
import os
from typing import Literal

from attrs import frozen

__all__ = ["MAX_NAME_BYTES", "MAX_SYMLINKS", "FileKind", "FileStat", "os_error", "split"]

FileKind = Literal["file", "dir", "symlink"]

MAX_SYMLINKS = 40
"""How many symbolic links one path may lead through before ELOOP, as on Linux."""

MAX_NAME_BYTES = 255
"""The longest name of one file, as on Linux."""


@frozen(kw_only=True)
class FileStat:
    """Kind, size in bytes, permission bits and time of last change (unix nanoseconds) of one path."""

    kind: FileKind
    size: int
    mode: int
    mtime_ns: int


def os_error(code: int, path: str) -> OSError:
    """The OSError subclass of that errno, with the system's own text and the node's path."""
    return OSError(code, os.strerror(code), path)


def split(path: str) -> list[str]:
    """The names along an absolute path, without empty ones and ``.``; ``..`` stays, links decide its meaning.

    Raises OSError (EINVAL) for a relative path or one with a NUL in it, (ENAMETOOLONG) for too long a name.
    """
    if not path.startswith("/") or "\0" in path:
        raise os_error(errno.EINVAL, path)
    names = [name for name in path.split("/") if name and name != "."]
    if len(path) > MAX_NAME_BYTES and any(len(os.fsencode(name)) > MAX_NAME_BYTES for name in names):
        raise os_error(errno.ENAMETOOLONG, path)
    return names
