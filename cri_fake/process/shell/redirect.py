"""Redirections: opening what they name and putting it on the process's descriptors."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from cri_fake.process.proc import Proc, encode
from cri_fake.process.shell.expand import Expander
from cri_fake.process.shell.nodes import Redirect
from cri_fake.process.streams import BytesSource, OpenFile

__all__ = ["RedirectError", "Redirector"]

MAX_FD = 255


class RedirectError(Exception):
    """A redirection that failed; the text is ash's."""


def _reason(problem: OSError, *, creating: bool) -> str:
    if problem.errno in (errno.ENOENT, errno.ENOTDIR):
        return "nonexistent directory" if creating else "no such file"
    return (problem.strerror or str(problem)) if problem.errno else str(problem)


class Redirector:
    """Applies redirections to one process, with a way back."""

    def __init__(self, proc: Proc, expander: Expander, noclobber: Callable[[], bool]) -> None:
        self._proc = proc
        self._noclobber = noclobber
        self._expander = expander

    async def apply(self, redirects: tuple[Redirect, ...]) -> list[tuple[int, OpenFile | None]]:
        """Redirect; the result undoes it. Nothing stays redirected when one fails (``RedirectError``)."""
        saved: list[tuple[int, OpenFile | None]] = []
        try:
            for redirect in redirects:
                await self._one(redirect, saved)
        except BaseException:
            self.undo(saved)
            raise
        return saved

    def undo(self, saved: list[tuple[int, OpenFile | None]]) -> None:
        """Put back what ``apply`` replaced."""
        for fd, old in reversed(saved):
            if old is None:
                self._proc.close_fd(fd)
            else:
                self._proc.set_fd(fd, old)

    def forget(self, saved: list[tuple[int, OpenFile | None]]) -> None:
        """Make redirections permanent (``exec >file``)."""
        for _, old in saved:
            if old is not None:
                old.release()
        saved.clear()

    def _put(self, fd: int, file: OpenFile | None, saved: list[tuple[int, OpenFile | None]]) -> None:
        old = self._proc.fds.pop(fd, None)
        saved.append((fd, old))
        if file is not None:
            self._proc.fds[fd] = file

    async def _one(self, redirect: Redirect, saved: list[tuple[int, OpenFile | None]]) -> None:
        if redirect.document is not None:
            body = await self._expander.string(redirect.document.body, tilde=False)
            self._put(redirect.fd, BytesSource(encode(body)), saved)
            return
        target = await self._expander.string(redirect.target)
        if redirect.op in ("<&", ">&"):
            self._duplicate(redirect, target, saved)
            return
        self._put(redirect.fd, self._open(redirect.op, target), saved)
        if redirect.both:
            self._put(2, self._proc.fds[redirect.fd].hold(), saved)

    def _duplicate(self, redirect: Redirect, target: str, saved: list[tuple[int, OpenFile | None]]) -> None:
        if target == "-":
            self._put(redirect.fd, None, saved)
            return
        if not (target.isascii() and target.isdigit()) or int(target) > MAX_FD:
            if redirect.op == ">&" and redirect.fd == 1 and not target.isdigit():
                self._put(1, self._open(">", target), saved)
                self._put(2, self._proc.fds[1].hold(), saved)
                return
            raise RedirectError(f"{target}: bad fd number")
        source = self._proc.fds.get(int(target))
        if source is None:
            raise RedirectError(f"{target}: {os.strerror(errno.EBADF)}")
        self._put(redirect.fd, source.hold(), saved)

    def _open(self, op: str, target: str) -> OpenFile:
        try:
            if op == "<":
                return self._proc.open(target)
            if op == "<>":
                return self._proc.open(target, write=True, create=True)
            if op == ">>":
                return self._proc.open(target, write=True, create=True, append=True, read=False)
            exclusive = self._noclobber() and op == ">" and self._is_file(target)
            return self._proc.open(
                target, write=True, create=True, truncate=True, exclusive=exclusive, read=False
            )
        except OSError as problem:
            verb = "open" if op == "<" else "create"
            raise RedirectError(f"can't {verb} {target}: {_reason(problem, creating=op != '<')}") from None

    def _is_file(self, target: str) -> bool:
        try:
            return self._proc.fs.stat(self._proc.path(target)).kind == "file"
        except OSError:
            return False
