"""Taking and giving back the path of a unix socket, without ever stealing it from a live server.

A path is taken in four steps: lock ``.<name>.lock`` beside it; connect to what is there, which tells a
live socket from a dead one; let the caller bind inside a new folder of mode 0700, where nobody else can
connect; give the socket mode 0600 and rename it onto the path, which also replaces a dead one, in one
step. Giving back removes socket and lock.
"""

import contextlib
import errno
import fcntl
import os
import socket
import stat
import tempfile

from trio_grpc.method import address_in_use

__all__ = ["MAX_PATH_BYTES", "SocketPath", "check_length"]

MAX_PATH_BYTES = 107
"""The longest path a unix socket can have on Linux."""

_LOCK_ATTEMPTS = 10


def check_length(path: str) -> None:
    """Raise OSError (ENAMETOOLONG) for a path that no unix socket can have."""
    size = len(os.fsencode(path))
    if size > MAX_PATH_BYTES:
        text = f"a unix socket path has at most {MAX_PATH_BYTES} bytes, this one has {size}: {path}"
        raise OSError(errno.ENAMETOOLONG, text)


class SocketPath:
    """A path being served. Make it, bind at ``bind_path``, then ``publish``; in the end ``give_back``.

    Making it raises OSError: EADDRINUSE where a server is alive, EEXIST where something else than a
    socket is, ENAMETOOLONG for too long a path, ENOENT for a missing folder.
    """

    def __init__(self, path: str) -> None:
        check_length(path)
        self.path = path
        self._folder, name = os.path.split(os.path.abspath(path))
        self._lock_path = os.path.join(self._folder, f".{name}.lock")
        self._lock = _take_lock(self._lock_path, path)
        self._private = ""
        self._private_fd = -1
        self._identity: tuple[int, int] | None = None
        try:
            _refuse_live(path)
            self._private = tempfile.mkdtemp(prefix=f".{name[:20]}.", dir=self._folder)
            self._private_fd = os.open(self._private, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except BaseException:
            self.give_back()
            raise

    @property
    def bind_path(self) -> str:
        """Where to bind: a short path into the private folder, whatever the length of the real one."""
        return f"/proc/self/fd/{self._private_fd}/s"

    def publish(self) -> None:
        """Move the bound socket onto the path."""
        bound = os.path.join(self._private, "s")
        os.chmod(bound, 0o600)
        status = os.stat(bound)
        os.rename(bound, self.path)
        self._identity = (status.st_dev, status.st_ino)
        # The descriptor stays: grpcio will unlink what it bound, and must not find another folder at
        # that number.
        os.rmdir(self._private)
        self._private = ""

    def give_back(self) -> None:
        """Remove everything that is still ours. Twice is once."""
        if self._identity is not None:
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(self.path, follow_symlinks=False)
                if (status.st_dev, status.st_ino) == self._identity:
                    os.unlink(self.path)
            self._identity = None
        if self._private_fd >= 0:
            os.close(self._private_fd)
            self._private_fd = -1
        if self._private:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self._private, "s"))
            with contextlib.suppress(OSError):
                os.rmdir(self._private)
            self._private = ""
        if self._lock >= 0:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._lock_path)
            os.close(self._lock)
            self._lock = -1


def _take_lock(lock_path: str, path: str) -> int:
    """Lock the file, making it where it is missing; starts again where its last owner removes it
    meanwhile.
    """
    for _ in range(_LOCK_ATTEMPTS):
        lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), os.stat(lock_path, follow_symlinks=False)):
                    return lock
        except BlockingIOError:
            os.close(lock)
            raise address_in_use(path) from None
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
    raise address_in_use(path)


def _refuse_live(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(errno.EEXIST, "something that is no socket is in the way", path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except BlockingIOError:
            pass  # its backlog is full: alive, and busy
    raise address_in_use(path)
