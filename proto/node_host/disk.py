"""Files on disk below one root folder. The interface is described at ``node_host.files.Files``.

Every path is walked name by name over folder descriptors opened without following links; links are read
and resolved here, inside the root. So neither ``..`` nor a link, nor one swapped in by another process
in the middle of a call, leads out of the root.
"""

import errno
import os
import stat

from node_host.filestat import MAX_SYMLINKS, FileKind, FileStat, os_error, split

__all__ = ["DiskFiles"]

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_TREE_PASSES = 8


class DiskFiles:
    """A tree below ``root``, which must be an existing folder. Raises OSError otherwise."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        os.close(os.open(self.root, _FOLDER_FLAGS))

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        with _Spot(self.root, path, follow=True) as spot:
            descriptor = spot.open(os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if stat.S_ISDIR(os.fstat(file.fileno()).st_mode):
                raise os_error(errno.EISDIR, path)
            if offset:
                file.seek(offset)
            return file.read(-1 if limit is None else limit)

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self._put(path, data, os.O_TRUNC, mode)

    def append(self, path: str, data: bytes) -> None:
        self._put(path, data, os.O_APPEND, 0o644)

    def make_dirs(self, path: str, *, mode: int = 0o755) -> None:
        names = split(path)
        for count in range(1, len(names) + 1):
            with _Spot(self.root, "/" + "/".join(names[:count]), follow=True, shown=path) as spot:
                if not spot.name:
                    continue
                try:
                    os.mkdir(spot.name, mode & 0o7777, dir_fd=spot.folder)
                    os.chmod(spot.name, mode & 0o7777, dir_fd=spot.folder)
                except FileExistsError:
                    if not stat.S_ISDIR(spot.stat().st_mode):
                        last = count == len(names)
                        raise os_error(errno.EEXIST if last else errno.ENOTDIR, path) from None

    def list(self, path: str) -> list[str]:
        with _Spot(self.root, path, follow=True) as spot:
            descriptor = spot.open(_FOLDER_FLAGS)
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def remove(self, path: str) -> None:
        with _Spot(self.root, path, follow=False) as spot:
            _remove_entry(spot.place(), spot.folder, path)

    def remove_tree(self, path: str) -> None:
        try:
            with _Spot(self.root, path, follow=False) as spot:
                _remove_tree(spot.place(), spot.folder, path)
        except FileNotFoundError:
            return

    def exists(self, path: str) -> bool:
        try:
            self.stat(path)
        except OSError:
            return False
        return True

    def stat(self, path: str, *, follow: bool = True) -> FileStat:
        with _Spot(self.root, path, follow=follow or path.endswith("/")) as spot:
            status = spot.stat()
        kind: FileKind = "file"
        if stat.S_ISDIR(status.st_mode):
            kind = "dir"
        elif stat.S_ISLNK(status.st_mode):
            kind = "symlink"
        if path.endswith("/") and kind != "dir":
            raise os_error(errno.ENOTDIR, path)
        mode = stat.S_IMODE(status.st_mode)
        return FileStat(kind=kind, size=status.st_size, mode=mode, mtime_ns=status.st_mtime_ns)

    def symlink(self, target: str, path: str) -> None:
        with _Spot(self.root, path, follow=False) as spot:
            try:
                os.symlink(target, spot.place(), dir_fd=spot.folder)
            except OSError as problem:
                raise os_error(problem.errno or errno.EIO, path) from None

    def read_link(self, path: str) -> str:
        with _Spot(self.root, path, follow=False) as spot:
            try:
                return os.readlink(spot.name or ".", dir_fd=spot.folder)
            except OSError as problem:
                raise os_error(problem.errno or errno.EIO, path) from None

    def rename(self, old: str, new: str) -> None:
        with _Spot(self.root, old, follow=False) as source, _Spot(self.root, new, follow=False) as target:
            if not source.there():
                raise os_error(errno.ENOENT, old)
            try:
                os.rename(source.place(), target.place(), src_dir_fd=source.folder, dst_dir_fd=target.folder)
            except OSError as problem:
                raise os_error(problem.errno or errno.EIO, new) from None

    def chmod(self, path: str, mode: int) -> None:
        with _Spot(self.root, path, follow=True) as spot:
            descriptor = spot.open(os.O_PATH)
        try:
            # A descriptor without access cannot be given to fchmod; its own link can, and leads nowhere else.
            os.chmod(f"/proc/self/fd/{descriptor}", mode & 0o7777)
        finally:
            os.close(descriptor)

    def _put(self, path: str, data: bytes, how: int, mode: int) -> None:
        if path.endswith("/"):
            raise os_error(errno.EISDIR, path)
        with _Spot(self.root, path, follow=True) as spot:
            if not spot.name:
                raise os_error(errno.EISDIR, path)
            new = not spot.there()
            descriptor = spot.open(os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | how, mode & 0o7777)
        with open(descriptor, "wb") as file:
            if new:
                os.fchmod(descriptor, mode & 0o7777)
            file.write(data)


class _Spot:
    """A path resolved inside the root: an open descriptor of the real folder, and the last name in it.

    ``name`` is empty where the path leads to the folder itself. ``shown`` is the path for error texts.
    """

    def __init__(self, root: str, path: str, *, follow: bool, shown: str = "") -> None:
        self.shown = shown or path
        self.name = ""
        self._stack = [os.open(root, _FOLDER_FLAGS)]
        try:
            self._walk(split(path), follow=follow)
        except BaseException:
            self.close()
            raise

    @property
    def folder(self) -> int:
        return self._stack[-1]

    def __enter__(self) -> "_Spot":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        while self._stack:
            os.close(self._stack.pop())

    def place(self) -> str:
        """The name, for what makes, moves or removes an entry. Raises OSError (EBUSY) for the root."""
        if not self.name:
            raise os_error(errno.EBUSY, self.shown)
        return self.name

    def there(self) -> bool:
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def stat(self) -> os.stat_result:
        try:
            return os.stat(self.name or ".", dir_fd=self.folder, follow_symlinks=False)
        except OSError as problem:
            raise os_error(problem.errno or errno.EIO, self.shown) from None

    def open(self, flags: int, mode: int = 0o644) -> int:
        try:
            return os.open(self.name or ".", flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=self.folder)
        except OSError as problem:
            raise os_error(problem.errno or errno.EIO, self.shown) from None

    def _walk(self, names: list[str], *, follow: bool) -> None:
        links = 0
        todo = names[::-1]
        while todo:
            name = todo.pop()
            if name == "..":
                if len(self._stack) > 1:
                    os.close(self._stack.pop())
                continue
            if not todo and not follow:
                self.name = name
                return
            target = self._link_target(name)
            if target is not None:
                links += 1
                if links > MAX_SYMLINKS:
                    raise os_error(errno.ELOOP, self.shown)
                if target.startswith("/"):
                    while len(self._stack) > 1:
                        os.close(self._stack.pop())
                todo.extend(part for part in reversed(target.split("/")) if part and part != ".")
                continue
            try:
                self._stack.append(os.open(name, _FOLDER_FLAGS, dir_fd=self.folder))
            except OSError as problem:
                if not todo and problem.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
                    self.name = name
                    return
                raise os_error(problem.errno or errno.EIO, self.shown) from None

    def _link_target(self, name: str) -> str | None:
        try:
            return os.readlink(name, dir_fd=self.folder)
        except OSError as problem:
            if problem.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise os_error(problem.errno or errno.EIO, self.shown) from None


def _remove_entry(name: str, folder: int, path: str) -> None:
    """Remove one entry that is a file, a link or an empty folder."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            os.rmdir(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
    except OSError as problem:
        raise os_error(problem.errno or errno.EIO, path) from None


def _remove_tree(name: str, folder: int, path: str) -> None:
    """Remove an entry with all below it; starts again, a few times, where someone adds entries meanwhile."""
    for attempt in range(_MAX_TREE_PASSES):
        try:
            descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
        except OSError as problem:
            if problem.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise os_error(problem.errno or errno.EIO, path) from None
            _remove_entry(name, folder, path)
            return
        try:
            for child in os.listdir(descriptor):
                _remove_tree(child, descriptor, path)
        finally:
            os.close(descriptor)
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError as problem:
            if problem.errno == errno.ENOTEMPTY and attempt + 1 < _MAX_TREE_PASSES:
                continue
            raise os_error(problem.errno or errno.EIO, path) from None
        return
