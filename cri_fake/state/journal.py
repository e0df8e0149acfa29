"""The journal on disk: appended to, synced before anything is answered, written anew when it has grown.

A folder (0700) holds ``journal-N``, of which the one with the highest number counts. A new one is written
under another name, synced, and renamed onto its own, so that it is whole or not there. What is appended goes
to disk with one write and one fsync for all who wait at the moment.
"""

import contextlib
import fcntl
import os
import re
from typing import Any

import trio

from cri_fake.state.records import Damaged, Journaled, line, read_journal, snapshot
from cri_fake.store.faults import Kind, Refused

__all__ = ["CannotKeep", "Journal"]

COMPACT_BYTES_MIN = 1 << 20
"""A journal that is smaller is not written anew."""
_COMPACT_FACTOR = 4
"""It is written anew once it has so many times the bytes of what it says."""
_NAME = re.compile(r"journal-(\d{1,12})")
_FOLDER_MODE = 0o700
_FILE_MODE = 0o600
_FLUSH_SECONDS = 0.05
_RETRY_SECONDS = 1.0


class CannotKeep(Exception):
    """Raised where a folder cannot be used for state; the text says what to do."""


class Journal:
    """The state in ``folder``, which is made if it is missing and locked until ``close``.

    ``values`` is what was there, by key; ``fresh`` is True where nothing was. ``in_threads`` False writes in
    the loop, for runs in virtual time.

    Raises:
        CannotKeep: another runtime uses the folder, or what is there is damaged.
    """

    def __init__(self, folder: str, *, in_threads: bool = True) -> None:
        self.folder = folder
        self._in_threads = in_threads
        self._pending: list[bytes] = []
        self._appended = 0
        self._synced = 0
        self._busy = False
        self._changed = trio.Event()
        self._written = trio.Event()
        self._file = -1
        try:
            os.makedirs(folder, mode=_FOLDER_MODE, exist_ok=True)
            self._lock = os.open(
                os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE
            )
        except OSError as problem:
            raise CannotKeep(f"cannot use {folder}: {problem.strerror}") from None
        try:
            self._load()
        except OSError as problem:
            self.close()
            raise CannotKeep(f"cannot use {folder}: {problem.strerror}") from None
        except BaseException:
            self.close()
            raise

    # -- opening --------------------------------------------------------------------------------------------

    def _load(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotKeep(f"{self.folder} is in use by another runtime: stop it first") from None
        numbers = sorted(int(found[1]) for found in map(_NAME.fullmatch, os.listdir(self.folder)) if found)
        self.fresh = not numbers
        self._number = numbers[-1] if numbers else 0
        kept = self._read(self._path(self._number)) if numbers else Journaled({}, {}, 0)
        self.values: dict[str, Any] = kept.values
        self._lines = kept.lines
        self._live_bytes = sum(map(len, kept.lines.values()))
        if self.fresh:
            self._write_anew()
        else:
            self._file = os.open(self._path(self._number), os.O_RDWR | os.O_CLOEXEC)
            os.ftruncate(self._file, kept.good_bytes)
            os.fsync(self._file)
            self._size = kept.good_bytes
        self._forget_others()

    def _read(self, path: str) -> Journaled:
        with open(path, "rb") as file:
            data = file.read()
        try:
            return read_journal(data)
        except Damaged as damaged:
            raise CannotKeep(f"{path}: {damaged}; move it away to begin anew") from None

    def _path(self, number: int) -> str:
        return os.path.join(self.folder, f"journal-{number:08d}")

    def _forget_others(self) -> None:
        keep = {"lock", os.path.basename(self._path(self._number))}
        for name in os.listdir(self.folder):
            if name not in keep and (_NAME.fullmatch(name) or name == "journal.new"):
                os.unlink(os.path.join(self.folder, name))

    def close(self) -> None:
        """Write what is still to be written and give the folder back. Twice is once."""
        if self._file >= 0:
            with contextlib.suppress(OSError):  # nothing of it was answered
                self._write(self._pending)
            os.close(self._file)
            self._file = -1
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # -- writing --------------------------------------------------------------------------------------------

    def put(self, key: str, value: Any) -> None:
        """Note that ``key`` has this value from now on; None: there is no such thing any more."""
        framed = line(key, value)
        old = self._lines.get(key, b"")
        self._live_bytes -= len(old)
        if value is not None:
            self._lines[key] = framed  # where it was: order is that of the keys' first coming
            self._live_bytes += len(framed)
        elif old:
            del self._lines[key]
        else:
            return
        self._pending.append(framed)
        self._appended += 1
        self._changed.set()

    @property
    def durable_now(self) -> bool:
        """Whether all that was noted is on disk."""
        return self._synced == self._appended

    async def durable(self) -> None:
        """Return once all that was noted before is on disk.

        Raises:
            Refused: it cannot be written; the next caller tries again.
        """
        target = self._appended
        while self._synced < target:
            if self._busy:
                await self._written.wait()
                continue
            self._busy = True
            batch, self._pending = self._pending, []
            try:
                with trio.CancelScope(shield=True):
                    await self._write_batch(batch)
            except OSError as problem:
                self._pending = [*batch, *self._pending]
                raise Refused(Kind.UNKNOWN, f"failed to write state: {problem.strerror or problem}") from None
            else:
                self._synced += len(batch)
            finally:
                self._busy = False
                self._written.set()
                self._written = trio.Event()

    async def _write_batch(self, batch: list[bytes]) -> None:
        anew = self._size > max(COMPACT_BYTES_MIN, _COMPACT_FACTOR * self._live_bytes)
        lines = list(self._lines.values()) if anew else []

        def work() -> None:
            if anew:
                self._write_anew(lines)
            else:
                self._write(batch)

        if self._in_threads:
            await trio.to_thread.run_sync(work)
        else:
            work()

    def _write(self, batch: list[bytes]) -> None:
        """Append and sync. A write that fails leaves the file as it was."""
        data = memoryview(b"".join(batch))
        try:
            at = self._size
            while data:
                done = os.pwrite(self._file, data, at)
                at, data = at + done, data[done:]
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size = at

    def _write_anew(self, lines: list[bytes] | None = None) -> None:
        lines = lines or []
        content = snapshot(lines, len(lines))
        path = os.path.join(self.folder, "journal.new")
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
        try:
            old, self._file, old_size, self._size = self._file, file, getattr(self, "_size", 0), 0
            try:
                self._write([content])
                os.rename(path, self._path(self._number + 1))
                _sync_folder(self.folder)
            except BaseException:
                self._file, self._size = old, old_size
                raise
        except BaseException:
            os.close(file)
            raise
        self._number += 1
        if old >= 0:
            os.close(old)
            self._forget_others()

    async def keep_up(self) -> None:
        """Write what nobody waits for, such as exits, soon after it was noted. Runs until cancelled."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            await trio.sleep(_FLUSH_SECONDS)
            try:
                await self.durable()
            except Refused:
                await trio.sleep(_RETRY_SECONDS)
                self._changed.set()


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
