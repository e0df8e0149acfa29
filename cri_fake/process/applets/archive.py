"""``tar``: what ``kubectl cp`` runs in a container, and what scripts do with archives."""

from __future__ import annotations

import io
import posixpath
import tarfile

from cri_fake.process.applets.common import applet, fail, inputs, options_of, reason
from cri_fake.process.applets.options import Options, UsageError
from cri_fake.process.proc import Proc

MAX_ENTRIES = 65536


@applet
async def tar(proc: Proc) -> int:
    """``tar c|x|t [-vzOmp] [-f FILE] [-C DIR] [NAME...]``."""
    if proc.args and not proc.args[0].startswith("-"):
        proc.argv[1] = f"-{proc.argv[1]}"
    options = options_of(
        proc,
        "cxtvzOmpokhf:C:X:T:",
        long={"no-same-owner": "o", "no-same-permissions": "m", "exclude": "E:", "no-recursion": "R"},
    )
    chosen = [letter for letter in "cxt" if letter in options]
    if len(chosen) != 1:
        raise UsageError("use exactly one of -c, -x and -t")
    folder = proc.path(options.value("C") or ".")
    if not proc.fs.is_dir(folder):
        raise await fail(proc, f"can't change directory to '{options.value('C')}': No such file or directory")
    if chosen == ["c"]:
        return await _create(proc, options, folder)
    return await _read(proc, options, folder, extract=chosen == ["x"])


async def _create(proc: Proc, options: Options, folder: str) -> int:
    if not options.operands:
        raise UsageError("an empty archive cannot be made: name files")
    buffer = io.BytesIO()
    code = 0
    to_output = options.value("f") in ("", "-")
    with tarfile.open(fileobj=buffer, mode="w:gz" if "z" in options else "w") as archive:
        for operand in options.operands:
            pending = [operand]
            while pending:
                name = pending.pop(0)
                try:
                    pending = _add(proc, archive, folder, name, follow="h" in options) + pending
                except OSError as problem:
                    await proc.complain(f"{name}: {reason(problem)}")
                    code = 1
                    continue
                if "v" in options:
                    await proc.write(f"{name.lstrip('/')}\n", fd=2 if to_output else 1)
    data = buffer.getvalue()
    if to_output:
        await proc.write(data)
    else:
        proc.fs.write(proc.path(options.value("f")), data)
    return code


def _add(proc: Proc, archive: tarfile.TarFile, folder: str, name: str, *, follow: bool) -> list[str]:
    """Put one file in; gives what a folder contains."""
    fs = proc.fs
    path = name if name.startswith("/") else posixpath.join(folder, name)
    info = fs.stat(path, follow=follow)
    entry = tarfile.TarInfo(name.strip("/") or ".")
    entry.mode = info.mode & 0o7777
    entry.mtime = info.mtime_ns // 1_000_000_000
    entry.uid, entry.gid = proc.kernel.user
    if info.kind == "dir":
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
        return [posixpath.join(name, each) for each in fs.list(path)]
    if info.kind == "symlink":
        entry.type = tarfile.SYMTYPE
        entry.linkname = fs.read_link(path)
        archive.addfile(entry)
        return []
    data = fs.read(path)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))
    return []


async def _read(proc: Proc, options: Options, folder: str, *, extract: bool) -> int:
    name = options.value("f") or "-"
    ((_, data),) = await inputs(proc, [name])
    if data is None:
        return 1
    wanted = [operand.strip("/") for operand in options.operands]
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as archive:
            for count, entry in enumerate(archive):
                if count >= MAX_ENTRIES:
                    raise await fail(proc, f"the archive has more than {MAX_ENTRIES} entries")
                path = posixpath.normpath(entry.name.lstrip("/"))
                if path.startswith("../") or path == "..":
                    raise await fail(proc, f"name with '..': {entry.name}")
                if wanted and not any(path == each or path.startswith(f"{each}/") for each in wanted):
                    continue
                if not extract or "v" in options:
                    await proc.write(f"{entry.name}{'/' if entry.isdir() else ''}\n")
                if extract:
                    await _extract(proc, archive, entry, posixpath.join(folder, path), "O" in options)
    except tarfile.TarError:
        raise await fail(proc, "invalid tar magic" if data else "short read") from None
    return 0


async def _extract(
    proc: Proc, archive: tarfile.TarFile, entry: tarfile.TarInfo, path: str, shown: bool
) -> None:
    fs = proc.fs
    source = archive.extractfile(entry) if entry.isreg() or entry.islnk() else None
    if shown:
        if source is not None:
            await proc.write(source.read())
        return
    missing: list[str] = []
    parent = path if entry.isdir() else posixpath.dirname(path)
    while not fs.is_dir(parent):
        missing.append(parent)
        parent = posixpath.dirname(parent)
    for each in reversed(missing):
        fs.make_dir(each, mode=0o755)
    if entry.isdir():
        fs.chmod(path, entry.mode & 0o7777)
    elif entry.issym():
        fs.symlink(entry.linkname, path)
    elif source is not None:
        fs.write(path, source.read(), mode=entry.mode & 0o7777)
        fs.chmod(path, entry.mode & 0o7777)
