"""Container logs in the CRI format: framing of output into lines, and the file they go to.

A line is ``<RFC3339 time> <stdout|stderr> <F|P> <content>``. Content over 16384 bytes is cut into ``P``
pieces, the last of which is ``F``; what is left without a newline when the stream ends is one ``P`` piece
(CRI-126, CRI-127). The file lies below the pod's log directory and nowhere else: a path that leaves it, by
``..`` or by a symbolic link, is refused.
"""

import posixpath
from collections.abc import Callable
from datetime import UTC, datetime

from cri_fake.store.faults import Kind, Refused
from node_host.files import Files

__all__ = ["MAX_LINE_BYTES", "LineFramer", "LogFile", "log_path", "rfc3339_nano"]

MAX_LINE_BYTES = 16384
"""Content bytes of one log entry (containerd's max_container_log_line_size)."""
_FILE_MODE = 0o640
_FOLDER_MODE = 0o755


def rfc3339_nano(unix_ns: int) -> str:
    """A time as Go's RFC3339Nano prints it in UTC: trailing zeros of the fraction are cut."""
    seconds, fraction = divmod(unix_ns, 1_000_000_000)
    base = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    digits = f"{fraction:09d}".rstrip("0")
    return f"{base}.{digits}Z" if digits else f"{base}Z"


def log_path(directory: str, relative: str) -> str:
    """The absolute path of a log; empty if either part is empty: then there is no log (CRI-125).

    Raises:
        Refused: the directory is not absolute, a part holds a NUL byte, or the path leaves the directory.
    """
    if not directory or not relative:
        return ""
    if "\0" in directory or "\0" in relative:
        raise Refused(Kind.INVALID_ARGUMENT, "log path contains a NUL byte", rule="CRI-125")
    if not directory.startswith("/"):
        raise Refused(Kind.INVALID_ARGUMENT, f'log directory "{directory}" is not absolute', rule="CRI-125")
    base = posixpath.normpath("/" + directory.lstrip("/"))
    path = posixpath.normpath(base + "/" + relative)
    if not path.startswith(base.rstrip("/") + "/"):
        text = f'log path "{relative}" leaves the log directory "{directory}"'
        raise Refused(Kind.INVALID_ARGUMENT, text, rule="CRI-125")
    return path


class LineFramer:
    """Cuts one stream into log entries (pure). ``feed`` and ``finish`` give ``(tag, content)`` pairs."""

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max = max_line_bytes
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        entries: list[tuple[str, bytes]] = []
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            content = line.removesuffix(b"\r")
            while len(content) > self._max:
                entries.append(("P", content[: self._max]))
                content = content[self._max :]
            entries.append(("F", content))
        while len(self._rest) > self._max:
            entries.append(("P", self._rest[: self._max]))
            self._rest = self._rest[self._max :]
        return entries

    def finish(self) -> list[tuple[str, bytes]]:
        rest, self._rest = self._rest, b""
        return [("P", rest)] if rest else []


class LogFile:
    """The log of one container. Opened at start, appended to, moved on by ``reopen`` (CRI-128, CRI-129).

    A disk that refuses a write does not stop the container: entries are counted in ``dropped`` and lost.
    """

    def __init__(self, files: Files, directory: str, path: str, now_ns: Callable[[], int]) -> None:
        self._files = files
        self._directory = posixpath.normpath(directory) if directory else ""
        self._path = path
        self._now_ns = now_ns
        self._framers = {"stdout": LineFramer(), "stderr": LineFramer()}
        self._open = False
        self.dropped = 0

    def open(self) -> None:
        """Create the file (0640) and missing folders (0755).

        Raises:
            Refused: the path leads through a symbolic link, or cannot be made.
        """
        if not self._path:
            return
        self._refuse_links()
        try:
            self._files.make_dirs(posixpath.dirname(self._path), mode=_FOLDER_MODE)
            if not self._files.exists(self._path):
                self._files.write(self._path, b"", mode=_FILE_MODE)
            elif self._files.stat(self._path).kind != "file":
                raise Refused(
                    Kind.UNKNOWN, f'failed to create container loggers: "{self._path}" is not a file'
                )
        except OSError as error:
            text = f"failed to create container loggers: open {self._path}: {error.strerror or error}"
            raise Refused(Kind.UNKNOWN, text, rule="CRI-128") from error
        self._open = True

    def _refuse_links(self) -> None:
        path = self._directory
        parts = self._path[len(self._directory) :].strip("/").split("/")
        for part in parts:
            path = posixpath.join(path, part)
            try:
                kind = self._files.stat(path, follow=False).kind
            except OSError:
                return
            if kind == "symlink":
                text = f'failed to create container loggers: "{path}" is a symbolic link'
                raise Refused(Kind.UNKNOWN, text, rule="CRI-125")

    def reopen(self) -> None:
        """Go on in a fresh file at the path; the old one, renamed by then, gets nothing more (CRI-129).

        Raises:
            Refused: the file cannot be made; then none is.
        """
        self.open()

    def write(self, stream: str, data: bytes) -> None:
        """Take output of ``stdout`` or ``stderr``."""
        self._append(stream, self._framers[stream].feed(data))

    def close(self) -> None:
        """Write what is left of unfinished lines; later output is lost."""
        for stream, framer in self._framers.items():
            self._append(stream, framer.finish())
        self._open = False

    def _append(self, stream: str, entries: list[tuple[str, bytes]]) -> None:
        if not self._open or not entries:
            return
        stamp = rfc3339_nano(self._now_ns())
        lines = b"".join(
            b"%s %s %s %s\n" % (stamp.encode(), stream.encode(), t.encode(), c) for t, c in entries
        )
        try:
            self._files.append(self._path, lines)
        except OSError:
            self.dropped += len(entries)
